//! [`Metric`]: a measurement of a run, its unit and direction of improvement.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Statistic;
use crate::units::Span;

/// A measurement of the flows of one run. An exchange succeeds if answered.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Metric {
    /// Duration of each complete flow.
    CompletionTime,
    /// Spurious transmissions of each flow: an earlier one and its response had arrived.
    Unnecessary,
    /// [`Self::Unnecessary`] and all transmissions of failed exchanges, as a share of the
    /// transmissions of finished exchanges.
    WastedShare,
    /// Successful exchanges by number of retransmissions.
    Retransmissions,
    /// Transmissions of requests, including retransmissions.
    Copies,
    /// Lost transmissions of requests and responses.
    Drops,
    /// [`Self::Drops`] by full queues or active queue management.
    QueueDrops,
    /// [`Self::Drops`] by random loss of links and radio hops.
    RandomDrops,
    /// Number of failed exchanges; [`Self::Loss`] is their share.
    Failed,
    /// Successful exchanges.
    Succeeded,
    /// Failed exchanges as a share of finished ones.
    Loss,
    /// Successful exchanges per second of the run.
    Throughput,
    /// Time of each successful exchange, from first transmission to response.
    ExchangeTime,
    /// Time of each successful exchange from when it was due, by the pace, to its response. In a
    /// closed loop, it is due when opened.
    DueTime,
    /// [`Self::DueTime`] of each finished exchange. A failed one counts as answered
    /// EXCHANGE_LIFETIME (247 s, RFC 7252 §4.8.2) after it was due, or at its end if that is later.
    DueTimeOfAll,
    /// Requests that became due, per second of the run.
    Offered,
    /// Successful exchanges as a share of the requests that became due.
    Delivered,
    /// Time of each acknowledged exchange, from first transmission to acknowledgement.
    RoundTrip,
    /// Round-trip time of each successful exchange that congestion control samples.
    RttSample,
    /// Retransmissions as a share of the transmissions of Confirmable requests.
    RetransmissionShare,
    /// Retransmissions per request.
    Retries,
    /// Retransmissions as a share of the transmissions of finished exchanges.
    RetransmissionIndex,
    /// Radio hops of each flow.
    Hops,
    /// First timeout of each exchange, after randomisation.
    InitialRto,
    /// Timeout of each transmission.
    Rto,
    /// Jain's fairness index of successes per flow (Jain, Chiu, Hawe 1984): 1/n to 1.
    Jain,
    /// Time until a share of all exchanges has succeeded, at most until the end.
    Settling {
        /// From 0 to 1.
        share: f64,
    },
    /// Successful exchanges of each flow.
    FlowSuccesses,
    /// Share of another metric's numbers in each class.
    Classes(Classes),
    /// Successful exchanges in each window, by its end.
    Done(Windows),
    /// Successful exchanges until the end of each window.
    DoneUntil(Windows),
    /// Mean timeout of transmissions per window, by its end.
    RtoOverTime(Windows),
    /// Client time per successful exchange; concurrent exchanges of a flow share its time.
    TimePerSuccess,
    /// Successful exchanges per second of client time.
    ClientThroughput,
    /// Share of client time spent on successful exchanges, once per allowed outstanding exchange.
    UsefulTime,
    /// Successful exchanges as a share of those planned, of traffic with a number of exchanges.
    Completed,
    /// Per link and direction: longest period in which an arriving frame would have waited longer.
    StandingQueue {
        /// Links.
        link: String,
        /// Waiting time.
        above: Span,
    },
    /// Arrivals at servers.
    Received(Received),
    /// Knowledge of observers.
    Observed(Observed),
    /// Handshakes of sessions.
    Handshake(Handshake),
    /// Outcomes of bulk transfers.
    Transfer(Transferred),
}

impl Metric {
    /// Checks that a run can measure it.
    pub fn validate(&self, statistic: Statistic, longest: Span) -> Result<(), MetricError> {
        match self {
            Self::Classes(classes) => classes.validate()?,
            Self::Settling { share } => share_fits(*share)?,
            Self::Received(received) => received.validate(longest)?,
            metric => metric.windows().map_or(Ok(()), |windows| windows.validate(longest))?,
        }
        match statistic {
            Statistic::Percentile(percent) if !(0.0..=100.0).contains(&percent) => {
                Err(MetricError::Percentile(percent))
            }
            Statistic::Percentile(_) | Statistic::Median | Statistic::Deviation if !self.has_many() => {
                Err(MetricError::OneNumber)
            }
            _ => Ok(()),
        }
    }

    /// Whether it measures unnecessary transmissions.
    #[must_use]
    pub fn is_unnecessary(&self) -> bool {
        matches!(self, Self::Unnecessary | Self::WastedShare)
    }

    /// Returns itself, or the metric of its classes.
    #[must_use]
    pub fn measured(&self) -> &Self {
        match self {
            Self::Classes(classes) => classes.of.measured(),
            metric => metric,
        }
    }

    /// Returns the windows of a metric with a number per window.
    #[must_use]
    pub const fn windows(&self) -> Option<Windows> {
        match self {
            Self::Done(windows) | Self::DoneUntil(windows) | Self::RtoOverTime(windows) => Some(*windows),
            _ => None,
        }
    }

    /// Returns whether it has several numbers per run.
    #[must_use]
    pub fn has_many(&self) -> bool {
        self.properties().numbers == Numbers::Many
    }

    /// Returns its properties.
    #[must_use]
    pub fn properties(&self) -> Properties {
        use Better::{Higher, Lower};
        use Numbers::{Many, One, Ratio};
        use Period::{Phase, WholeRun};
        match self {
            Self::CompletionTime => of("completion time", Unit::Seconds, Some(Lower), Many, WholeRun),
            Self::Unnecessary => of("spurious retransmissions per flow", Unit::Copies, Some(Lower), Many, Phase),
            Self::WastedShare => of("share of transmissions without effect", Unit::Percent, Some(Lower), Ratio, Phase),
            Self::Retransmissions => of("exchanges by number of retransmissions", Unit::Exchanges, None, One, Phase),
            Self::Copies => of("transmissions per run", Unit::Copies, None, One, WholeRun),
            Self::Drops => of("lost transmissions per run", Unit::Copies, Some(Lower), One, WholeRun),
            Self::QueueDrops => of("transmissions dropped by queues", Unit::Copies, Some(Lower), One, WholeRun),
            Self::RandomDrops => of("transmissions lost at random", Unit::Copies, Some(Lower), One, WholeRun),
            Self::Failed => of("failed exchanges", Unit::Exchanges, Some(Lower), One, Phase),
            Self::Succeeded => of("successful exchanges", Unit::Exchanges, Some(Higher), One, Phase),
            Self::Loss => of("failed exchanges", Unit::Percent, Some(Lower), Ratio, Phase),
            Self::Throughput => of("successful exchanges per second", Unit::PerSecond, Some(Higher), One, Phase),
            Self::ExchangeTime => of("time of an exchange", Unit::Seconds, Some(Lower), Many, Phase),
            Self::DueTime => of("time from due to response", Unit::Seconds, Some(Lower), Many, Phase),
            Self::DueTimeOfAll => of("time from due, failures included", Unit::Seconds, Some(Lower), Many, Phase),
            Self::Offered => of("offered requests per second", Unit::PerSecond, None, One, WholeRun),
            Self::Delivered => {
                of("share of offered requests that succeeded", Unit::Percent, Some(Higher), Ratio, WholeRun)
            }
            Self::RoundTrip => of("time to the acknowledgement", Unit::Seconds, Some(Lower), Many, Phase),
            Self::RttSample => of("RTT sample", Unit::Seconds, None, Many, Phase),
            Self::RetransmissionShare => of("share of retransmissions", Unit::Percent, Some(Lower), Ratio, Phase),
            Self::Retries => of("retransmissions per request", Unit::Ratio, Some(Lower), Ratio, Phase),
            Self::RetransmissionIndex => of("retransmission index", Unit::Ratio, Some(Lower), Ratio, Phase),
            Self::Hops => of("hops", Unit::Count, None, Many, Phase),
            Self::InitialRto => of("initial RTO", Unit::Seconds, None, Many, Phase),
            Self::Rto => of("RTO", Unit::Seconds, None, Many, Phase),
            Self::Jain => of("Jain's fairness index of successes", Unit::Ratio, Some(Higher), One, Phase),
            Self::Settling { share } => of(
                format!("time until {} % of all exchanges succeeded", (share * 1000.0).round() / 10.0),
                Unit::Seconds,
                Some(Lower),
                One,
                WholeRun,
            ),
            Self::FlowSuccesses => of("successful exchanges per flow", Unit::Exchanges, Some(Higher), Many, Phase),
            Self::Classes(classes) => {
                of(format!("share of {}", classes.of.properties().noun), Unit::Percent, None, One, Phase)
            }
            Self::Done(_) => of("successful exchanges per window", Unit::Exchanges, None, One, Phase),
            Self::DoneUntil(_) => of("successful exchanges so far", Unit::Exchanges, None, One, Phase),
            Self::RtoOverTime(_) => of("mean RTO", Unit::Seconds, None, One, Phase),
            Self::TimePerSuccess => of("client time per successful exchange", Unit::Seconds, Some(Lower), One, Phase),
            Self::ClientThroughput => {
                of("successful exchanges per second of client time", Unit::PerSecond, Some(Higher), One, Phase)
            }
            Self::UsefulTime => {
                of("client time spent on successful exchanges", Unit::Percent, Some(Higher), One, Phase)
            }
            Self::Completed => of("completed exchanges", Unit::Percent, Some(Higher), Ratio, Phase),
            Self::StandingQueue { link, above } => of(
                format!("time for which {link} queues more than {above}"),
                Unit::Seconds,
                Some(Lower),
                Many,
                WholeRun,
            ),
            Self::Received(Received::Goodput) => of("goodput", Unit::BitsPerSecond, Some(Higher), One, Phase),
            Self::Received(Received::GoodputOfFlow) => {
                of("mean goodput per flow", Unit::BitsPerSecond, Some(Higher), One, Phase)
            }
            Self::Received(Received::GoodputByHops) => {
                of("mean goodput per flow by hops", Unit::BitsPerSecond, Some(Higher), One, Phase)
            }
            Self::Received(Received::GoodputOfEach) => {
                of("goodput per flow", Unit::BitsPerSecond, Some(Higher), Many, Phase)
            }
            Self::Received(Received::GoodputOverTime { .. }) => {
                of("goodput over time", Unit::BitsPerSecond, Some(Higher), One, Phase)
            }
            Self::Received(Received::Jain { .. }) => {
                of("Jain's fairness index of goodput", Unit::Ratio, Some(Higher), One, Phase)
            }
            Self::Received(Received::Starving { .. }) => of("starving flows", Unit::Count, Some(Lower), One, Phase),
            Self::Received(Received::Silent { .. }) => {
                of("windows without arrivals", Unit::Percent, Some(Lower), One, Phase)
            }
            Self::Received(Received::Frames) => {
                of("frames per arrived request", Unit::Count, Some(Lower), One, WholeRun)
            }
            Self::Observed(Observed::Age) => of("age of observed states", Unit::Seconds, Some(Lower), Many, Phase),
            Self::Observed(Observed::Known) => {
                of("changes that observers received", Unit::Percent, Some(Higher), Ratio, Phase)
            }
            Self::Handshake(Handshake::Time) => of("handshake time", Unit::Seconds, Some(Lower), Many, WholeRun),
            Self::Handshake(Handshake::Failed) => {
                of("handshakes that missed their deadline", Unit::Percent, Some(Lower), Ratio, WholeRun)
            }
            Self::Handshake(Handshake::Datagrams) => {
                of("datagrams per session", Unit::Count, Some(Lower), Ratio, WholeRun)
            }
            Self::Handshake(Handshake::Bytes) => of("bytes per session", Unit::Bytes, Some(Lower), Ratio, WholeRun),
            Self::Transfer(Transferred::Goodput) => {
                of("goodput of a transfer", Unit::BitsPerSecond, Some(Higher), Ratio, Phase)
            }
            Self::Transfer(Transferred::Arrived) => {
                of("rate of a transfer", Unit::BitsPerSecond, Some(Higher), Ratio, WholeRun)
            }
            Self::Transfer(Transferred::RoundTrip) => of("RTT of a transfer", Unit::Seconds, Some(Lower), Ratio, Phase),
            Self::Transfer(Transferred::RouteHops) => of("hops of a route", Unit::Count, None, Many, Phase),
            Self::Transfer(Transferred::GivenUp) => {
                of("datagrams that the MAC gave up, per hop", Unit::Percent, Some(Lower), Ratio, Phase)
            }
        }
    }
}

/// Share of a metric's numbers in each class, in per cent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classes {
    /// Metric.
    pub of: Box<Metric>,
    /// Lower bounds of the classes, in the metric's unit.
    pub from: Vec<f64>,
    /// Names of the classes in results.
    pub names: Vec<String>,
}

impl Classes {
    fn validate(&self) -> Result<(), MetricError> {
        if !self.of.has_many() {
            return Err(MetricError::ClassesOfOneNumber);
        }
        if self.from.is_empty() || self.from.len() != self.names.len() {
            return Err(MetricError::ClassNames { names: self.names.len(), classes: self.from.len() });
        }
        match self.from.is_sorted_by(|low, high| low < high) {
            true => Ok(()),
            false => Err(MetricError::ClassOrder),
        }
    }
}

/// Windows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// Length of a window; or `stretches`.
    pub window: Option<Span>,
    /// Number of windows of equal length.
    pub stretches: Option<u32>,
}

impl Windows {
    fn validate(self, longest: Span) -> Result<(), MetricError> {
        match (self.window, self.stretches) {
            (None, Some(stretches)) if stretches == 0 || u128::from(stretches) > MOST_WINDOWS => {
                Err(MetricError::Stretches(stretches))
            }
            (Some(window), None) => windows_fit(window, longest),
            (None, Some(_)) => Ok(()),
            _ => Err(MetricError::WindowsOrStretches),
        }
    }
}

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Exchanges, over all replications.
    Exchanges,
    /// Transmissions of requests.
    Copies,
    /// Events per second, such as finished exchanges.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// A count per replication, such as hops; means may be fractional.
    Count,
    /// A share in per cent.
    #[serde(rename = "%")]
    Percent,
    /// A ratio of values of one unit.
    Ratio,
    /// 1 if a claim holds, 0 if refuted, 0.5 if inconclusive.
    Verdict,
}

impl Unit {
    /// Returns its name in JSON.
    #[must_use]
    pub fn name(self) -> String {
        toml::Value::try_from(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// Properties of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// Its name in prose: `completion time`.
    pub noun: Cow<'static, str>,
    /// Unit.
    pub unit: Unit,
    /// Direction of improvement; `None` for a neutral metric such as a timeout.
    pub better: Option<Better>,
    /// Numbers per run.
    pub numbers: Numbers,
    /// Periods that have a value.
    pub period: Period,
}

fn of(
    noun: impl Into<Cow<'static, str>>,
    unit: Unit,
    better: Option<Better>,
    numbers: Numbers,
    period: Period,
) -> Properties {
    Properties { noun: noun.into(), unit, better, numbers, period }
}

/// Numbers of a metric per run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// One, which has no meaning over several runs.
    One,
    /// One, the ratio of two sums: several runs can be pooled.
    Ratio,
    /// Several, such as one per exchange: they have percentiles, and several runs can be pooled.
    Many,
}

/// Periods that a metric can cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Runs and their phases.
    Phase,
    /// Only whole runs.
    WholeRun,
}

/// Direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// As for throughput.
    Higher,
    /// As for losses.
    Lower,
}

impl Unit {
    /// Returns the floor for ratios: smaller values count as this.
    #[must_use]
    pub const fn floor(self) -> f64 {
        match self {
            // A few bytes on the papers' slowest link.
            Self::Seconds => 1e-3,
            // Irrelevant to applications.
            Self::Percent => 1.0,
            // Negligible: an exchange per 15 min, or 1 bit/s.
            Self::PerSecond => 1e-3,
            Self::BitsPerSecond => 1.0,
            // Counts are integers.
            Self::Exchanges | Self::Copies | Self::Bytes | Self::Count => 1.0,
            // A share of 1 %.
            Self::Ratio | Self::Verdict => 0.01,
        }
    }
}

/// Metrics of requests at servers, without duplicates. Bits include the headers of
/// `endpoint.datagram_overhead`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Received {
    /// Goodput of all flows.
    Goodput,
    /// Mean goodput of the flows.
    GoodputOfFlow,
    /// Mean goodput of flows, by hops.
    GoodputByHops,
    /// Goodput of each flow, for percentiles.
    GoodputOfEach,
    /// Goodput of the first flow with these hops per window, by its end.
    GoodputOverTime {
        /// Window.
        window: Span,
        /// Hops.
        hops: u16,
    },
    /// Jain's index of goodputs, as the mean over windows with arrivals.
    Jain {
        /// Window.
        #[serde(default)]
        window: Option<Span>,
    },
    /// Flows with a goodput below this share of the mean.
    Starving {
        /// From 0 to 1.
        share: f64,
    },
    /// Share of windows and flows without arrivals.
    Silent {
        /// Window.
        window: Span,
        /// Hops of the flows. Default: all flows.
        #[serde(default)]
        hops: Option<u16>,
    },
    /// Frames on the air per arrived request, without link-layer acknowledgements.
    Frames,
}

impl Received {
    fn validate(self, longest: Span) -> Result<(), MetricError> {
        match self {
            Self::Starving { share } => share_fits(share),
            Self::GoodputOverTime { window, .. }
            | Self::Silent { window, .. }
            | Self::Jain { window: Some(window) } => windows_fit(window, longest),
            _ => Ok(()),
        }
    }
}

/// Metrics of observed resources, over changes since registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observed {
    /// Time from each received change until an observer received it or a later one.
    Age,
    /// Share of changes that observers received, directly or as a later one.
    Known,
}

/// Metrics of session handshakes between nodes of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handshake {
    /// Duration of each completed handshake, at the client.
    Time,
    /// Share of handshakes that missed their deadline.
    Failed,
    /// Datagrams of both ends per established session, including failed handshakes.
    Datagrams,
    /// UDP payload of these datagrams.
    Bytes,
}

/// Metrics of bulk transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transferred {
    /// Goodput of each successful transfer, until its last segment arrived.
    Goodput,
    /// Rate at which segments arrived, of each transfer, whether or not it succeeded: until its
    /// end, or that of the run.
    Arrived,
    /// Mean round-trip time of each transfer, over unambiguous samples.
    RoundTrip,
    /// Hops of each discovered route.
    RouteHops,
    /// Share of datagrams that a MAC gave up, per hop, over all transfers.
    GivenUp,
}

/// Maximum windows of a run; each is a table column.
pub const MOST_WINDOWS: u128 = 10_000;

/// Why a metric cannot be measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// A percentile is out of range.
    #[error("a percentile of {0}; it must be between 0 and 100")]
    Percentile(f64),
    /// The metric has one number per run; the statistic needs several.
    #[error("it is one number a run, which has no percentiles; leave the statistic out for its mean")]
    OneNumber,
    /// A share is out of range.
    #[error("a share of {0}; it must be between 0 and 1")]
    Share(f64),
    /// The metric of classes has one number per run.
    #[error("classes are of a metric of each flow or exchange, such as rto")]
    ClassesOfOneNumber,
    /// Classes lack a name, or there are none.
    #[error("{names} names for {classes} classes; each has one, and there is at least one")]
    ClassNames {
        /// Number of names.
        names: usize,
        /// Number of classes.
        classes: usize,
    },
    /// Classes are out of order.
    #[error("classes must begin one after the other: list `from` in rising order")]
    ClassOrder,
    /// The number of stretches is out of range.
    #[error("{0} stretches; they must be between 1 and {MOST_WINDOWS}")]
    Stretches(u32),
    /// Either a window or a number of stretches must be set.
    #[error("say either how long a `window` is, or how many `stretches` there are")]
    WindowsOrStretches,
    /// A window has no length.
    #[error("a window must be longer than 0s")]
    EmptyWindow,
    /// Windows are too short for the run.
    #[error("{longest} has more than {MOST_WINDOWS} windows of {window}; make them longer")]
    TooManyWindows {
        /// Longest possible duration of a run.
        longest: Span,
        /// Window.
        window: Span,
    },
}

fn share_fits(share: f64) -> Result<(), MetricError> {
    let is_share = (0.0..=1.0).contains(&share);
    if is_share { Ok(()) } else { Err(MetricError::Share(share)) }
}

fn windows_fit(window: Span, longest: Span) -> Result<(), MetricError> {
    if window.0.is_zero() {
        Err(MetricError::EmptyWindow)
    } else if longest.0.as_nanos() / window.0.as_nanos() > MOST_WINDOWS {
        Err(MetricError::TooManyWindows { longest, window })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_classes_are_refused() {
        let names = |from: &[f64]| from.iter().map(|from| format!("from {from}")).collect();
        let of = |of, from: &[f64]| Classes { of: Box::new(of), from: from.to_vec(), names: names(from) }.validate();
        assert!(of(Metric::Rto, &[0.0, 0.5]).is_ok());
        assert!(of(Metric::Jain, &[0.0]).is_err_and(|error| error.to_string().contains("of each flow or exchange")));
        assert!(of(Metric::Rto, &[1.0, 1.0]).is_err_and(|error| error.to_string().contains("rising order")));
        assert!(of(Metric::Rto, &[]).is_err_and(|error| error.to_string().contains("0 names for 0 classes")));
    }

    fn windows(window: Option<&str>, stretches: Option<u32>) -> Windows {
        Windows { window: window.map(|text| text.parse().expect("a time")), stretches }
    }

    #[test]
    fn invalid_windows_are_refused() {
        let longest = "10s".parse().expect("a time");
        for (windows, expected) in [
            (windows(Some("0s"), None), "longer than 0s"),
            (windows(Some("1ms"), Some(2)), "say either"),
            (windows(None, None), "say either"),
            (windows(None, Some(0)), "0 stretches"),
            (windows(Some("1us"), None), "more than 10000 windows"),
        ] {
            assert!(windows.validate(longest).is_err_and(|error| error.to_string().contains(expected)), "{windows:?}");
        }
        assert_eq!(windows(None, Some(15)).validate(longest), Ok(()));
    }
}
