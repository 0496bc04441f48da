//! The thread's CPU use, to show whether a test measures the server or itself.

use std::time::Duration;

use cpu_time::ThreadTime;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// Ready to run but waiting for a core; zero if not reported.
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

/// Linux reports nanoseconds in this file's second field.
fn waiting() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = schedstat.split_whitespace().nth(1).and_then(|field| field.parse().ok());
    nanos.map_or(Duration::ZERO, Duration::from_nanos)
}
