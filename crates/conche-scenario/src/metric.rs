//! [`Metric`]: a measurement of a run.

use serde::Deserialize;

use super::metric_error::{MOST_WINDOWS, MetricError, share_fits, windows_fit};
use super::{Handshake, Observed, Received, Statistic, Transferred, Unit};
use crate::units::Span;

/// A measurement of the flows of one run. A request begins an exchange, which succeeds if it is
/// answered.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Metric {
    /// Duration of each complete flow.
    CompletionTime,
    /// Unnecessary transmissions of each flow: an earlier transmission and its reply had arrived.
    Unnecessary,
    /// Successful exchanges by number of retransmissions.
    Retransmissions,
    /// Transmissions of requests, including retransmissions.
    Copies,
    /// Lost transmissions of requests and responses.
    Drops,
    /// Failed exchanges.
    Failed,
    /// Successful exchanges.
    Succeeded,
    /// Failed exchanges as a share of finished ones.
    Loss,
    /// Successful exchanges per second of the run.
    Throughput,
    /// Time of each successful exchange, from the first transmission to the response.
    ExchangeTime,
    /// Time of each acknowledged exchange, from the first transmission to the acknowledgement.
    RoundTrip,
    /// Round-trip time of each successful exchange that the congestion control samples. The feature
    /// table lists which exchanges a scheme samples.
    RttSample,
    /// Retransmissions as a share of all transmissions of Confirmable requests.
    RetransmissionShare,
    /// Retransmissions per request.
    Retries,
    /// Retransmissions as a share of all transmissions of finished exchanges.
    RetransmissionIndex,
    /// Radio hops of each flow.
    Hops,
    /// First timeout of each exchange, after randomisation.
    InitialRto,
    /// Timeout of each transmission.
    Rto,
    /// Jain's fairness index of the flows' successes (Jain, Chiu, Hawe 1984): 1 if all are equal,
    /// 1/n if one flow has all.
    Jain,
    /// Time from the start of the flows until a share of all exchanges has succeeded, or until the
    /// end.
    Settling {
        /// The share, from 0 to 1.
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
    /// Mean timeout of the transmissions in each window, by its end.
    RtoOverTime(Windows),
    /// Client time per successful exchange. Concurrent exchanges of a flow share its time.
    TimePerSuccess,
    /// Successful exchanges per second of client time.
    ClientThroughput,
    /// Share of client time spent on successful exchanges. A flow has its time once for each
    /// exchange it may have outstanding.
    UsefulTime,
    /// Successful exchanges as a share of the planned ones.
    Completed,
    /// For each link with a name and each direction: the longest period in which an arriving frame
    /// would have waited longer than a given time.
    StandingQueue {
        /// The links' name.
        link: String,
        /// The time.
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
    /// Returns its unit.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        match self {
            Self::CompletionTime | Self::ExchangeTime | Self::InitialRto | Self::Rto => Unit::Seconds,
            Self::RoundTrip | Self::RttSample => Unit::Seconds,
            Self::Settling { .. } | Self::RtoOverTime(_) | Self::TimePerSuccess => Unit::Seconds,
            Self::StandingQueue { .. } => Unit::Seconds,
            Self::Unnecessary | Self::Copies | Self::Drops => Unit::Copies,
            Self::Retransmissions | Self::Failed | Self::Succeeded | Self::FlowSuccesses => Unit::Exchanges,
            Self::Done(_) | Self::DoneUntil(_) => Unit::Exchanges,
            Self::Loss | Self::RetransmissionShare => Unit::Percent,
            Self::Classes(_) | Self::UsefulTime | Self::Completed => Unit::Percent,
            Self::Throughput | Self::ClientThroughput => Unit::PerSecond,
            Self::Retries | Self::RetransmissionIndex | Self::Jain => Unit::Ratio,
            Self::Hops => Unit::Count,
            Self::Received(received) => received.unit(),
            Self::Observed(observed) => observed.unit(),
            Self::Handshake(handshake) => handshake.unit(),
            Self::Transfer(transferred) => transferred.unit(),
        }
    }

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

    /// Returns the underlying metric: itself, or the metric of its classes.
    #[must_use]
    pub fn measured(&self) -> &Self {
        match self {
            Self::Classes(classes) => classes.of.measured(),
            metric => metric,
        }
    }

    /// Returns its windows, if it has a number per window.
    #[must_use]
    pub const fn windows(&self) -> Option<Windows> {
        match self {
            Self::Done(windows) | Self::DoneUntil(windows) | Self::RtoOverTime(windows) => Some(*windows),
            _ => None,
        }
    }

    /// Returns whether it has a number per flow or exchange.
    pub const fn has_many(&self) -> bool {
        matches!(
            self,
            Self::CompletionTime
                | Self::Unnecessary
                | Self::ExchangeTime
                | Self::RoundTrip
                | Self::RttSample
                | Self::InitialRto
                | Self::Rto
                | Self::Hops
                | Self::FlowSuccesses
                | Self::StandingQueue { .. }
                | Self::Received(Received::GoodputOfEach)
                | Self::Observed(Observed::Age)
                | Self::Handshake(Handshake::Time)
                | Self::Transfer(Transferred::RouteHops)
        )
    }

    /// Returns whether several runs can be pooled.
    pub const fn can_be_pooled(&self) -> bool {
        let is_ratio = matches!(
            self,
            Self::Loss | Self::Completed | Self::Retries | Self::Transfer(_) | Self::Observed(_) | Self::Handshake(_)
        );
        is_ratio || self.has_many() || matches!(self, Self::RetransmissionShare | Self::RetransmissionIndex)
    }

    /// Returns whether it applies to whole runs only, and not to phases.
    #[must_use]
    pub const fn needs_the_whole(&self) -> bool {
        matches!(
            self,
            Self::CompletionTime
                | Self::Settling { .. }
                | Self::Copies
                | Self::Drops
                | Self::StandingQueue { .. }
                | Self::Handshake(_)
                | Self::Received(Received::Frames)
        )
    }
}

/// The share, in per cent, of a metric's numbers per flow or exchange in each class.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classes {
    /// The metric.
    pub of: Box<Metric>,
    /// Lower bounds of the classes, in the metric's unit. Each class ends at the next bound.
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

/// The windows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// Length of a window. Alternatively:
    pub window: Option<Span>,
    /// Number of windows of equal length.
    pub stretches: Option<u32>,
}

impl Windows {
    /// Checks the number and length of windows.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_without_sense_are_refused() {
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
    fn windows_without_sense_are_refused() {
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
