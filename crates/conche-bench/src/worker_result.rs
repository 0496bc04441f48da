//! [`WorkerResult`]: counts and CPU time of a thread of the generator.

use std::time::Duration;

use conche_proto::Stats;
use cpu_time::ThreadTime;

use crate::dtls::Counts;
use crate::tally::Tally;

#[derive(Debug)]
pub(crate) struct WorkerResult {
    pub(crate) tally: Tally,
    pub(crate) measured: Duration,
    pub(crate) answered: u64,
    pub(crate) traffic: Stats,
    pub(crate) usage: Usage,
    pub(crate) used_in: Duration,
    pub(crate) renewed: u64,
    pub(crate) dropped: u64,
    pub(crate) handshakes: Option<Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// Waiting for a core; zero if not reported.
    pub(crate) waiting: Duration,
}

impl Usage {
    pub(crate) fn of_this_thread() -> Self {
        let cpu = ThreadTime::try_now().map_or(Duration::ZERO, |time| time.as_duration());
        Self { cpu, waiting: waiting() }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(earlier.cpu), waiting: self.waiting.saturating_sub(earlier.waiting) }
    }
}

/// Returns nanoseconds from the file's second field.
fn waiting() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = schedstat.split_whitespace().nth(1).and_then(|field| field.parse().ok());
    nanos.map_or(Duration::ZERO, Duration::from_nanos)
}
