//! The endpoint's time on tokio's clock, which tests can pause. It starts at [`BEFORE_START`] to
//! leave times for earlier path state.

use conche_proto::Instant;
use conche_proto::cc::path_history::PathHistory;
use std::time::Duration;

/// The maximum age of stored path state, plus an hour for its round trips.
const BEFORE_START: Duration = PathHistory::KEPT.saturating_add(Duration::from_secs(60 * 60));

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: tokio::time::Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: tokio::time::Instant::now() }
    }

    pub(crate) fn now(self) -> Instant {
        Instant::ZERO + BEFORE_START + self.start.elapsed()
    }

    /// When tokio's clock reaches `instant`; the start for earlier times.
    pub(crate) fn wake_up(self, instant: Instant) -> Option<tokio::time::Instant> {
        self.start.checked_add(instant - (Instant::ZERO + BEFORE_START))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn day_old_state_has_a_valid_instant_at_driver_start() {
        let clock = Clock::start();
        let learnt = clock.now() - PathHistory::KEPT;
        assert_eq!(clock.now() - learnt, PathHistory::KEPT);
        assert!(learnt > Instant::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_comes_when_tokios_clock_shows_it() {
        let (clock, start) = (Clock::start(), tokio::time::Instant::now());
        let due = clock.now() + Duration::from_millis(1_500);
        assert_eq!(clock.wake_up(due), Some(start + Duration::from_millis(1_500)));
        tokio::time::advance(Duration::from_millis(1_500)).await;
        assert_eq!(clock.now(), due);
        assert_eq!(clock.wake_up(Instant::ZERO), Some(start));
    }
}
