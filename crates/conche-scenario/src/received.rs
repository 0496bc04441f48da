//! What can be measured of what arrived: requests at their servers, notifications at their observers, and bulk transfers.

use serde::Deserialize;

use super::Unit;
use super::metric_error::{MetricError, share_fits, windows_fit};
use crate::units::Span;

/// Something that is measured of the requests that arrived at their servers. Duplicates do not count. The bits of a request
/// are those of its CoAP message and of the headers that `endpoint.datagram_overhead` says.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Received {
    /// Bits a second, of all flows.
    Goodput,
    /// The mean of the flows' goodputs.
    GoodputOfFlow,
    /// The same of the flows that are so many hops long, by that number.
    GoodputByHops,
    /// Each flow's goodput, for percentiles over flows and replications.
    GoodputOfEach,
    /// The goodput of the first flow of so many hops within each such time, by its end.
    GoodputOverTime {
        /// How long a window is.
        window: Span,
        /// How many hops.
        hops: u16,
    },
    /// Jain's index of the flows' goodputs in each such time, as the mean of the windows in which any request arrived;
    /// without a window, over all the time.
    Jain {
        /// How long a window is.
        #[serde(default)]
        window: Option<Span>,
    },
    /// Flows whose goodput is less than this share of the mean of all.
    Starving {
        /// The share, from 0 to 1.
        share: f64,
    },
    /// The share of windows and flows in which nothing arrived.
    Silent {
        /// How long a window is.
        window: Span,
        /// Of flows that are so many hops long; without, of all.
        #[serde(default)]
        hops: Option<u16>,
    },
    /// Frames on the air for each request that arrived, link-layer acknowledgements not counted. Of the whole run only.
    Frames,
}

impl Received {
    /// What it counts.
    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Goodput
            | Self::GoodputOfFlow
            | Self::GoodputByHops
            | Self::GoodputOfEach
            | Self::GoodputOverTime { .. } => Unit::BitsPerSecond,
            Self::Jain { .. } => Unit::Ratio,
            Self::Starving { .. } | Self::Frames => Unit::Count,
            Self::Silent { .. } => Unit::Percent,
        }
    }

    /// Refuses what no run can answer.
    pub(super) fn validate(self, longest: Span) -> Result<(), MetricError> {
        match self {
            Self::Starving { share } => share_fits(share),
            Self::GoodputOverTime { window, .. }
            | Self::Silent { window, .. }
            | Self::Jain { window: Some(window) } => windows_fit(window, longest),
            _ => Ok(()),
        }
    }
}

/// Something that is measured of what is observed. Changes before the observer was registered do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observed {
    /// Of each change and observer: until the observer knew of it, or of a later one. Of those that it came to know of.
    Age,
    /// Which share of the changes observers came to know of, or of later ones. An observer that never was registered knows of none.
    Known,
}

impl Observed {
    /// What it counts.
    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Age => Unit::Seconds,
            Self::Known => Unit::Percent,
        }
    }
}

/// Something that is measured of the handshakes of sessions, between the nodes of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handshake {
    /// Of each that was done: how long it took its client.
    Time,
    /// The share of those that were not done by their deadline.
    Failed,
    /// Datagrams that both ends sent for a session that came to be; those of handshakes that failed count.
    Datagrams,
    /// UDP payload of these, in bytes.
    Bytes,
}

impl Handshake {
    /// What it counts.
    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Time => Unit::Seconds,
            Self::Failed => Unit::Percent,
            Self::Datagrams => Unit::Count,
            Self::Bytes => Unit::Bytes,
        }
    }
}

/// Something that is measured of bulk transfers. How many of them succeed, other metrics tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transferred {
    /// Of each transfer that succeeded: its bits a second, until its last segment arrived.
    Goodput,
    /// Of each transfer: the mean round-trip time of those of its segments for which it is known without doubt.
    RoundTrip,
    /// Of each route that a source looked for and found: its length.
    RouteHops,
    /// The share of datagrams that the MACs gave up, each counted once a hop. Of all transfers of the run.
    GivenUp,
}

impl Transferred {
    /// What it counts.
    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Goodput => Unit::BitsPerSecond,
            Self::RoundTrip => Unit::Seconds,
            Self::RouteHops => Unit::Count,
            Self::GivenUp => Unit::Percent,
        }
    }
}
