//! The better of two values, and the floors below which values do not differ.

use serde::{Deserialize, Serialize};

use super::{Metric, Observed, Received, Transferred, Unit};

/// The direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher values are better, as for throughput.
    Higher,
    /// Lower values are better, as for losses.
    Lower,
}

impl Metric {
    /// Returns the direction of improvement; `None` for a neutral metric such as a timeout.
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
    /// Returns the floor for ratios, which have no meaning near 0. Smaller values count as the
    /// floor, which is negligible in this unit.
    #[must_use]
    pub const fn floor(self) -> f64 {
        match self {
            // The transmission time of a few bytes on the slowest link of the papers.
            Self::Seconds => 1e-3,
            // Losses below 1 % do not matter to any application.
            Self::Percent => 1.0,
            // One exchange per 15 min, or 1 bit/s, is practically no throughput.
            Self::PerSecond => 1e-3,
            Self::BitsPerSecond => 1.0,
            // Counts are integers.
            Self::Exchanges | Self::Copies | Self::Bytes | Self::Count => 1.0,
            // Corresponds to a share of 1 %.
            Self::Ratio | Self::Verdict => 0.01,
        }
    }
}
