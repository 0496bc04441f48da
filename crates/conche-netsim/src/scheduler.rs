//! Virtual time and what happens next.
//!
//! Events are ordered by (time, sequence number): of two at the same nanosecond, the one that was scheduled first
//! happens first. The order is total, so a run is a function of its inputs.

use crate::Instant;
use crate::heap::Heap;

/// A queue of future events of type `E`, small and `Copy` so that scheduling one allocates nothing.
#[derive(Clone, Debug)]
pub struct Scheduler<E> {
    now: Instant,
    sequence: u64,
    fired: u64,
    pending: Heap<E>,
}

impl<E: Copy> Scheduler<E> {
    /// An empty queue at time zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { now: Instant::ZERO, sequence: 0, fired: 0, pending: Heap::new() }
    }

    /// The present: the time of the event that was taken last.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// How many events have been taken.
    #[must_use]
    pub const fn fired(&self) -> u64 {
        self.fired
    }

    /// How many events wait.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Lets `event` happen at `at`, or now if that is past.
    pub fn schedule(&mut self, at: Instant, event: E) {
        let at = at.max(self.now);
        self.pending.push(u128::from(at.as_nanos()) << 64 | u128::from(self.sequence), event);
        self.sequence += 1;
    }

    /// Takes the next event and moves the present to its time. `None` if there is none up to and including `limit`;
    /// the present then stays where it is.
    pub fn next(&mut self, limit: Instant) -> Option<E> {
        if time_of(self.pending.first_key()?) > limit {
            return None;
        }
        let (key, event) = self.pending.pop()?;
        self.now = time_of(key);
        self.fired += 1;
        Some(event)
    }

    /// Moves the present to `at` if that is later, over whatever would have happened before.
    pub fn advance(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }

    /// Removes every waiting event that `keep` refuses.
    pub fn retain(&mut self, keep: impl FnMut(&E) -> bool) {
        self.pending.retain(keep);
    }
}

impl<E: Copy> Default for Scheduler<E> {
    fn default() -> Self {
        Self::new()
    }
}

fn time_of(key: u128) -> Instant {
    // The shift leaves 64 bits.
    Instant::from_nanos(u64::try_from(key >> 64).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_instant_happen_in_the_order_of_scheduling() {
        let mut scheduler = Scheduler::new();
        for event in 0..100 {
            scheduler.schedule(Instant::from_millis(5), event);
        }
        scheduler.schedule(Instant::from_millis(4), 100);
        let order: Vec<u32> = std::iter::from_fn(|| scheduler.next(Instant::FAR_FUTURE)).collect();
        assert_eq!(order[0], 100);
        assert!(order[1..].is_sorted());
        assert_eq!(scheduler.fired(), 101);
    }

    #[test]
    fn the_past_cannot_be_scheduled() {
        let mut scheduler = Scheduler::new();
        scheduler.schedule(Instant::from_millis(9), 1);
        scheduler.next(Instant::FAR_FUTURE);
        scheduler.schedule(Instant::from_millis(3), 2);
        assert_eq!(scheduler.next(Instant::FAR_FUTURE), Some(2));
        assert_eq!(scheduler.now(), Instant::from_millis(9));
    }

    #[test]
    fn a_limit_is_inclusive_and_holds_back_what_is_later() {
        let mut scheduler = Scheduler::new();
        scheduler.schedule(Instant::from_millis(2), 'b');
        scheduler.schedule(Instant::from_millis(1), 'a');
        assert_eq!(scheduler.next(Instant::from_millis(1)), Some('a'));
        assert_eq!(scheduler.next(Instant::from_millis(1)), None);
        assert_eq!(scheduler.now(), Instant::from_millis(1));
    }
}
