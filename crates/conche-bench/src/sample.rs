//! Messages from a load thread: at the end of each interval, and at its own end.

use std::time::Duration;

use conche_proto::Stats;

use crate::secured::Counts;
use crate::tally::{Interval, Tally};
use crate::usage::Usage;

/// The sample at the end of an interval.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) thread: u32,
    /// Number and counts of the interval; `None` if nothing happened.
    pub(crate) interval: Option<(u64, Interval)>,
    /// First interval for which the thread may send further samples.
    pub(crate) next: u64,
}

/// The final results of a thread.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) tally: Tally,
    /// Duration of the measurement.
    pub(crate) measured: Duration,
    /// Responses received during the measurement.
    pub(crate) answered: u64,
    /// Datagrams and bytes during the measurement.
    pub(crate) traffic: Stats,
    pub(crate) usage: Usage,
    /// Time span of `usage`.
    pub(crate) used_in: Duration,
    /// Source ports that replaced ports without free message IDs.
    pub(crate) renewed: u64,
    pub(crate) dropped: u64,
    pub(crate) handshakes: Option<Counts>,
}
