//! Metrics of arrivals: requests at servers, notifications at observers, and bulk transfers.

use serde::Deserialize;

use super::Unit;
use super::metric_error::{MetricError, share_fits, windows_fit};
use crate::units::Span;

/// Metrics of requests that arrived at their servers. Duplicates do not count. The bits of a
/// request include its CoAP message and the headers of `endpoint.datagram_overhead`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Received {
    /// Goodput of all flows, in bit/s.
    Goodput,
    /// Mean goodput of the flows.
    GoodputOfFlow,
    /// Mean goodput of the flows, by number of hops.
    GoodputByHops,
    /// Goodput of each flow, for percentiles over flows and replications.
    GoodputOfEach,
    /// Goodput of the first flow with this number of hops in each window, by its end.
    GoodputOverTime {
        /// Length of a window.
        window: Span,
        /// Number of hops.
        hops: u16,
    },
    /// Jain's index of the flows' goodputs, as the mean over windows with arrivals; without a
    /// window, over the whole time.
    Jain {
        /// Length of a window.
        #[serde(default)]
        window: Option<Span>,
    },
    /// Number of flows with a goodput below this share of the mean.
    Starving {
        /// The share, from 0 to 1.
        share: f64,
    },
    /// Share of windows and flows without arrivals.
    Silent {
        /// Length of a window.
        window: Span,
        /// Number of hops of the flows. Default: all flows.
        #[serde(default)]
        hops: Option<u16>,
    },
    /// Frames on the air per arrived request, without link-layer acknowledgements. For whole runs
    /// only.
    Frames,
}

impl Received {
    /// Returns its unit.
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

    /// Checks that a run can measure it.
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

/// Metrics of observed resources. Changes before the registration do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observed {
    /// Time from each change until an observer received it or a later one, for changes that it
    /// received.
    Age,
    /// Share of changes that observers received, directly or as a later one. An observer without a
    /// registration receives none.
    Known,
}

impl Observed {
    /// Returns its unit.
    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Age => Unit::Seconds,
            Self::Known => Unit::Percent,
        }
    }
}

/// Metrics of session handshakes between the nodes of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handshake {
    /// Duration of each completed handshake, at the client.
    Time,
    /// Share of handshakes that missed their deadline.
    Failed,
    /// Datagrams of both ends per established session, including those of failed handshakes.
    Datagrams,
    /// UDP payload of these datagrams, in bytes.
    Bytes,
}

impl Handshake {
    /// Returns its unit.
    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Time => Unit::Seconds,
            Self::Failed => Unit::Percent,
            Self::Datagrams => Unit::Count,
            Self::Bytes => Unit::Bytes,
        }
    }
}

/// Metrics of bulk transfers. Their success is a metric of exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transferred {
    /// Goodput of each successful transfer in bit/s, until its last segment arrived.
    Goodput,
    /// Mean round-trip time of each transfer, over segments with an unambiguous sample.
    RoundTrip,
    /// Hops of each discovered route.
    RouteHops,
    /// Share of datagrams that a MAC gave up, counted per hop, over all transfers of the run.
    GivenUp,
}

impl Transferred {
    /// Returns its unit.
    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Goodput => Unit::BitsPerSecond,
            Self::RoundTrip => Unit::Seconds,
            Self::RouteHops => Unit::Count,
            Self::GivenUp => Unit::Percent,
        }
    }
}
