//! What a thread of a load test tells: at the end of each interval, and at its own.

use std::time::Duration;

use conche_proto::Stats;

use crate::secured::Counts;
use crate::tally::{Interval, Tally};
use crate::usage::Usage;

/// What a thread tells at the end of an interval.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) thread: u32,
    /// What came, and in which interval; `None` if nothing did.
    pub(crate) came: Option<(u64, Interval)>,
    /// The thread has nothing more to tell of intervals before this one.
    pub(crate) next: u64,
}

/// What a thread leaves.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) tally: Tally,
    /// How long it was measuring.
    pub(crate) measured: Duration,
    /// Responses that came in that time.
    pub(crate) answered: u64,
    /// Datagrams and bytes of that time.
    pub(crate) traffic: Stats,
    pub(crate) usage: Usage,
    /// How long that usage is of.
    pub(crate) used_in: Duration,
    /// Source ports that endpoints went on from when the IDs of another one were used up.
    pub(crate) renewed: u64,
    pub(crate) dropped: u64,
    /// What became of handshakes, over DTLS.
    pub(crate) handshakes: Option<Counts>,
}
