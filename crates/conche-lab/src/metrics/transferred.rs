//! What is measured of bulk transfers.

use serde::Deserialize;

use super::Sample;
use super::metric::share;
use crate::results::Unit;
use crate::trial::{Flow, Record, Selection};

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

    /// What it is in a run.
    pub(super) fn sample(self, run: &Record, of: Selection) -> Sample {
        let flows = || run.flows_of(of);
        let goodput = |flow: &Flow| {
            let seconds = (flow.tally.done? - flow.start).as_secs_f64();
            Some(8.0 * flow.transfer.as_ref()?.bytes as f64 / seconds)
        };
        match self {
            Self::Goodput => Sample::OfFlows(flows().map(goodput).collect()),
            Self::RoundTrip => Sample::OfFlows(flows().map(|flow| flow.transfer.as_ref()?.mean_round_trip_s).collect()),
            Self::RouteHops => {
                let lengths = flows().filter_map(|flow| flow.transfer.as_ref()).flat_map(|transfer| &transfer.routes);
                Sample::Each(lengths.map(|hops| u64::from(*hops)).collect(), 1.0)
            }
            Self::GivenUp => share(run.given_up as f64, run.handed_over as f64),
        }
    }
}
