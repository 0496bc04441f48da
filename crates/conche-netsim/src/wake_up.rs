//! When a host wants to be woken: one time for each host, which it moves at will.

use smallvec::SmallVec;

use crate::Instant;

/// When one host wants to be woken.
///
/// A protocol moves its next wake-up with almost every packet, mostly to later. So an event that comes too early is left
/// where it is; when it fires, the host sleeps on and the event is renewed. Only a wake-up before all that are
/// scheduled needs an event at once.
#[derive(Clone, Debug)]
pub(crate) struct WakeUp {
    wanted: Option<Instant>,
    /// Times of the events in the scheduler, latest first.
    scheduled: SmallVec<[Instant; 4]>,
}

/// What to do when a wake-up event fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// It is time: wake the host.
    Now,
    /// It is too early: schedule another event for this time.
    Again(Instant),
    /// Nothing to do.
    Asleep,
}

impl WakeUp {
    pub(crate) fn new() -> Self {
        Self { wanted: None, scheduled: SmallVec::new() }
    }

    /// Wakes the host at `at`, not before. The answer is a time for which to schedule an event.
    #[must_use]
    pub(crate) fn set(&mut self, at: Option<Instant>) -> Option<Instant> {
        self.wanted = at;
        self.event_for(at?)
    }

    /// An event of this host fires.
    pub(crate) fn fired(&mut self, now: Instant) -> Fired {
        self.scheduled.pop();
        match self.wanted {
            Some(wanted) if wanted <= now => {
                self.wanted = None;
                Fired::Now
            }
            Some(wanted) => self.event_for(wanted).map_or(Fired::Asleep, Fired::Again),
            None => Fired::Asleep,
        }
    }

    fn event_for(&mut self, at: Instant) -> Option<Instant> {
        let needed = self.scheduled.last().is_none_or(|next| at < *next);
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
