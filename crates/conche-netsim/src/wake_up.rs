use std::hint::black_box;

use smallvec::SmallVec;

use crate::Instant;

/// The wake-up time of a host, in one cache line.
///
/// A protocol moves its wake-up with almost every packet, mostly later: an event now too early
/// stays scheduled and is renewed when it fires.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct WakeUp {
    /// [`Instant::FAR_FUTURE`] means never.
    wanted: Instant,
    /// Times of scheduled events, latest first.
    scheduled: SmallVec<[Instant; 4]>,
}

const _: () = assert!(size_of::<WakeUp>() == 64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// Wake the host.
    Now,
    /// Too early: schedule another event.
    Again(Instant),
    /// Nothing to do.
    Asleep,
}

impl WakeUp {
    pub(crate) fn new() -> Self {
        Self { wanted: Instant::FAR_FUTURE, scheduled: SmallVec::new() }
    }

    /// Returns the time of a needed event.
    #[must_use]
    pub(crate) fn set(&mut self, at: Option<Instant>) -> Option<Instant> {
        self.wanted = at.unwrap_or(Instant::FAR_FUTURE);
        self.event_for(self.wanted)
    }

    pub(crate) fn fired(&mut self, now: Instant) -> Fired {
        self.scheduled.pop();
        if self.wanted <= now {
            self.wanted = Instant::FAR_FUTURE;
            return Fired::Now;
        }
        self.event_for(self.wanted).map_or(Fired::Asleep, Fired::Again)
    }

    pub(crate) fn wakes(&self, at: Instant) -> bool {
        self.wanted <= at
    }

    pub(crate) fn prefetch(&self) {
        black_box(self.wanted);
    }

    fn event_for(&mut self, at: Instant) -> Option<Instant> {
        let needed = at < self.scheduled.last().copied().unwrap_or(Instant::FAR_FUTURE);
        needed.then(|| {
            self.scheduled.push(at);
            at
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn a_later_wake_up_takes_no_event_until_the_earlier_one_fires() {
        let mut wake = WakeUp::new();
        assert_eq!(wake.set(Some(at(20))), Some(at(20)));
        assert_eq!(wake.set(Some(at(90))), None);
        assert_eq!(wake.fired(at(20)), Fired::Again(at(90)));
        assert_eq!(wake.fired(at(90)), Fired::Now);
    }

    #[test]
    fn an_event_wakes_if_it_fires_now_and_only_then() {
        let mut wake = WakeUp::new();
        for (wanted, fires) in
            [(Some(at(20)), at(20)), (Some(at(90)), at(90)), (Some(at(200)), at(150)), (None, at(200))]
        {
            let _ = wake.set(wanted);
            assert_eq!(wake.wakes(fires), wake.clone().fired(fires) == Fired::Now);
        }
    }

    #[test]
    fn an_earlier_wake_up_leaves_the_later_event_for_later() {
        let mut wake = WakeUp::new();
        assert_eq!(wake.set(Some(at(255))), Some(at(255)));
        assert_eq!(wake.set(Some(at(2))), Some(at(2)));
        assert_eq!(wake.fired(at(2)), Fired::Now);
        assert_eq!(wake.set(Some(at(257))), None, "the event at 255 ms will do");
        assert_eq!(wake.set(Some(at(4))), Some(at(4)));
        assert_eq!(wake.fired(at(4)), Fired::Now);
        assert_eq!(wake.set(Some(at(259))), None);
        assert_eq!(wake.fired(at(255)), Fired::Again(at(259)));
    }

    #[test]
    fn a_wake_up_that_is_no_longer_wanted_is_ignored() {
        let mut wake = WakeUp::new();
        assert_eq!(wake.set(Some(at(20))), Some(at(20)));
        assert_eq!(wake.set(None), None);
        assert_eq!(wake.fired(at(20)), Fired::Asleep);
        assert_eq!(wake.set(Some(at(30))), Some(at(30)));
    }
}
