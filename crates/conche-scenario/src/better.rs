//! Which of two values is the better one, and from where on they differ at all.

use serde::{Deserialize, Serialize};

use super::{Metric, Observed, Received, Transferred, Unit};

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The larger one, as of throughput.
    Higher,
    /// The smaller one, as of losses.
    Lower,
}

impl Metric {
    /// Which of two values is the better one; `None` of what is neither good nor bad, such as a timeout.
    #[must_use]
    pub const fn better(&self) -> Option<Better> {
        match self {
            Self::CompletionTime | Self::ExchangeTime | Self::RoundTrip | Self::TimePerSuccess => Some(Better::Lower),
            Self::Settling { .. } | Self::Unnecessary | Self::Drops | Self::Failed | Self::Loss => Some(Better::Lower),
            Self::StandingQueue { .. } => Some(Better::Lower),
            Self::RetransmissionShare | Self::Retries | Self::RetransmissionIndex => Some(Better::Lower),
            Self::Succeeded | Self::Throughput | Self::ClientThroughput | Self::Jain => Some(Better::Higher),
            Self::FlowSuccesses | Self::UsefulTime | Self::Completed => Some(Better::Higher),
            Self::Received(received) => Some(received.better()),
            Self::Observed(Observed::Age) => Some(Better::Lower),
            Self::Observed(Observed::Known) => Some(Better::Higher),
            Self::Handshake(_) => Some(Better::Lower),
            Self::Transfer(transferred) => transferred.better(),
            Self::Retransmissions | Self::Copies | Self::RttSample | Self::Hops | Self::InitialRto | Self::Rto => None,
            Self::Classes(_) | Self::Done(_) | Self::DoneUntil(_) | Self::RtoOverTime(_) => None,
        }
    }
}

impl Received {
    const fn better(self) -> Better {
        match self {
            Self::Starving { .. } | Self::Silent { .. } | Self::Frames => Better::Lower,
            Self::Goodput | Self::GoodputOfFlow | Self::GoodputByHops | Self::GoodputOfEach => Better::Higher,
            Self::GoodputOverTime { .. } | Self::Jain { .. } => Better::Higher,
        }
    }
}

impl Transferred {
    const fn better(self) -> Option<Better> {
        match self {
            Self::Goodput => Some(Better::Higher),
            Self::RoundTrip | Self::GivenUp => Some(Better::Lower),
            Self::RouteHops => None,
        }
    }
}

impl Unit {
    /// What smaller values count as where they are compared by their ratio, which has no meaning for 0: nothing, or nearly
    /// nothing, of what a value counts.
    #[must_use]
    pub const fn floor(self) -> f64 {
        match self {
            // A message of a few bytes lasts as long on the slowest of links that the papers have.
            Self::Seconds => 1e-3,
            // Below one in a hundred, no application can tell losses from accidents.
            Self::Percent => 1.0,
            // An exchange in a quarter of an hour, or a bit a second: nothing gets through.
            Self::PerSecond => 1e-3,
            Self::BitsPerSecond => 1.0,
            // There is no half of what is counted one by one.
            Self::Exchanges | Self::Copies | Self::Bytes | Self::Count => 1.0,
            // As a share of one in a hundred.
            Self::Ratio | Self::Verdict => 0.01,
        }
    }
}
