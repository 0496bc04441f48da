//! The endpoint's time, counted from the driver's start on tokio's clock, so that tests can pause it.

use conche_proto::Instant;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    epoch: tokio::time::Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { epoch: tokio::time::Instant::now() }
    }

    pub(super) fn now(self) -> Instant {
        Instant::ZERO + self.epoch.elapsed()
    }

    /// When tokio's clock shows `instant`, rounded up: its timers have milliseconds and must not fire early.
    pub(super) fn wake_up(self, instant: Instant) -> Option<tokio::time::Instant> {
        self.epoch.checked_add(Duration::from_nanos(instant.as_nanos()))
    }
}
