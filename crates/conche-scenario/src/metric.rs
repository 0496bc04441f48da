//! What can be measured of a run.

use serde::Deserialize;

use super::metric_error::{MOST_WINDOWS, MetricError, share_fits, windows_fit};
use super::{Handshake, Observed, Received, Statistic, Transferred, Unit};
use crate::units::Span;

/// Something that is measured of the flows of one run. An exchange is what a request opens; it succeeds if it is answered.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Metric {
    /// Of each flow that had all its exchanges: how long that took.
    CompletionTime,
    /// Of each flow: copies of requests that were sent although an earlier one had got through, both ways.
    Unnecessary,
    /// How many exchanges succeeded after 0, 1, 2, … retransmissions, by that number.
    Retransmissions,
    /// Copies of requests that were sent, first ones and retransmissions.
    Copies,
    /// Of these, and of the responses to them, those that were lost.
    Drops,
    /// Exchanges that failed.
    Failed,
    /// Exchanges that succeeded.
    Succeeded,
    /// The share of exchanges that failed, of those that are over.
    Loss,
    /// Exchanges that succeeded, a second of the run.
    Throughput,
    /// Of each exchange that succeeded: from its first copy to its response.
    ExchangeTime,
    /// Of each exchange that was acknowledged: from its first copy to the acknowledgement.
    RoundTrip,
    /// Of each exchange that succeeded and whose round-trip time the congestion control uses: that time. Which exchanges these
    /// are is in its row of the feature table.
    RttSample,
    /// Retransmissions among all copies of Confirmable requests.
    RetransmissionShare,
    /// Retransmissions for a request.
    Retries,
    /// Retransmissions among all copies of the exchanges that are over.
    RetransmissionIndex,
    /// Of each flow: how many radio hops it is long.
    Hops,
    /// Of each exchange: its first timeout, as drawn.
    InitialRto,
    /// Of each copy: its timeout.
    Rto,
    /// Jain's index of the flows' successes (Jain, Chiu, Hawe 1984): 1 if all have the same, 1/n if one has everything.
    Jain,
    /// From the begin of the flows until a share of all exchanges that they are to have has succeeded, or until the end.
    Settling {
        /// The share, from 0 to 1.
        share: f64,
    },
    /// Of each flow: exchanges that succeeded.
    FlowSuccesses,
    /// Which share of another metric's numbers is in each class.
    Classes(Classes),
    /// Exchanges that succeeded within each such time, by its end.
    Done(Windows),
    /// Exchanges that had succeeded until the end of each such time.
    DoneUntil(Windows),
    /// The mean timeout of the copies that were sent within each such time, by its end.
    RtoOverTime(Windows),
    /// The time that an exchange which succeeds takes of its client: of a flow with several at a time, a share of it.
    TimePerSuccess,
    /// One over that: the exchanges a second of a client.
    ClientThroughput,
    /// The share of the clients' time that goes into exchanges that succeed. A flow has its time once for each exchange that
    /// it may have at a time.
    UsefulTime,
    /// Exchanges that succeeded, of those that flows were to have.
    Completed,
    /// Of each link of a name, either way: how long, at most, what came to it would have waited longer than a time, at a stretch.
    StandingQueue {
        /// The links' name.
        link: String,
        /// The time.
        above: Span,
    },
    /// What arrived at the servers.
    Received(Received),
    /// What observers know.
    Observed(Observed),
    /// How sessions came to be.
    Handshake(Handshake),
    /// What became of bulk transfers.
    Transfer(Transferred),
}

impl Metric {
    /// What it counts.
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

    /// Refuses what no run can answer.
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

    /// What is measured: itself, or what its classes are of.
    #[must_use]
    pub fn measured(&self) -> &Self {
        match self {
            Self::Classes(classes) => classes.of.measured(),
            metric => metric,
        }
    }

    /// The windows that it has a number of each of.
    #[must_use]
    pub const fn windows(&self) -> Option<Windows> {
        match self {
            Self::Done(windows) | Self::DoneUntil(windows) | Self::RtoOverTime(windows) => Some(*windows),
            _ => None,
        }
    }

    /// Whether it gives a number of each flow or exchange.
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

    /// Whether it has a meaning for several runs together.
    pub const fn can_be_pooled(&self) -> bool {
        let is_ratio = matches!(
            self,
            Self::Loss | Self::Completed | Self::Retries | Self::Transfer(_) | Self::Observed(_) | Self::Handshake(_)
        );
        is_ratio || self.has_many() || matches!(self, Self::RetransmissionShare | Self::RetransmissionIndex)
    }

    /// Whether it is counted for whole runs only, or is of all that flows have: no phase has it.
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

/// Which share, in per cent, of what a metric gives for each flow or exchange is in each class.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classes {
    /// The metric.
    pub of: Box<Metric>,
    /// Where each class begins, in the metric's unit; it ends where the next one begins.
    pub from: Vec<f64>,
    /// What results call each.
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

/// How a run's time is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// How long a window is. Or:
    pub window: Option<Span>,
    /// In how many equal stretches it is.
    pub stretches: Option<u32>,
}

impl Windows {
    /// Refuses windows without end, and more than anybody reads.
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
