//! The endpoint's time on tokio's clock, so that tests can pause it. It is [`BEFORE_START`] when the driver starts, so that what was
//! learnt of a path before has a time, too.

use conche_proto::Instant;
use conche_proto::cc::group::Group;
use std::time::Duration;

/// As old as anything that is remembered can be, and an hour for the round trips that ended then.
const BEFORE_START: Duration = Group::KEPT.saturating_add(Duration::from_secs(60 * 60));

#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: tokio::time::Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { start: tokio::time::Instant::now() }
    }

    pub(super) fn now(self) -> Instant {
        Instant::ZERO + BEFORE_START + self.start.elapsed()
    }

    /// When tokio's clock shows `instant`, rounded up: its timers have milliseconds and must not fire early. What is before the start
    /// has long been.
    pub(super) fn wake_up(self, instant: Instant) -> Option<tokio::time::Instant> {
        self.start.checked_add(instant - (Instant::ZERO + BEFORE_START))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_a_day_old_when_the_driver_starts_has_a_time_of_its_own() {
        let clock = Clock::start();
        let learnt = clock.now() - Group::KEPT;
        assert_eq!(clock.now() - learnt, Group::KEPT);
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
