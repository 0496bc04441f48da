//! Messages of a load thread: at each interval's end, and its own.

use std::time::Duration;

use conche_proto::Stats;

use crate::secured::Counts;
use crate::tally::{Interval, Tally};
use crate::usage::Usage;

#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) thread: u32,
    /// Number and counts; `None` if nothing happened.
    pub(crate) interval: Option<(u64, Interval)>,
    /// First interval with further samples.
    pub(crate) next: u64,
}

#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) tally: Tally,
    /// Duration of the measurement.
    pub(crate) measured: Duration,
    pub(crate) answered: u64,
    pub(crate) traffic: Stats,
    pub(crate) usage: Usage,
    pub(crate) used_in: Duration,
    /// For lack of message IDs.
    pub(crate) renewed: u64,
    pub(crate) dropped: u64,
    pub(crate) handshakes: Option<Counts>,
}
