//! Virtual time and the event queue. Events at the same nanosecond happen in scheduling order.
//!
//! A short sorted list of the next events is refilled by a few dozen from a timing wheel; events
//! scheduled meanwhile for its time span go to a small heap. A single heap needs steps proportional
//! to its depth, each a cache miss with tens of thousands of events.

use std::cmp::Reverse;

use crate::Instant;
use crate::heap::{Entry, Heap, time_of};
use crate::wheel::Wheel;

/// A queue of future events; `E` is small and `Copy`.
#[derive(Clone, Debug)]
pub struct Scheduler<E> {
    now: Instant,
    sequence: u64,
    fired: u64,
    /// From the wheel, before `horizon`, latest first.
    next: Vec<Entry<E>>,
    /// Scheduled since, before `horizon`.
    near: Heap<E>,
    far: Wheel<E>,
    /// End of the wheel's last span, in nanoseconds.
    horizon: u64,
}

impl<E: Copy> Scheduler<E> {
    /// Creates an empty queue at time zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            now: Instant::ZERO,
            sequence: 0,
            fired: 0,
            next: Vec::new(),
            near: Heap::new(),
            far: Wheel::new(),
            horizon: 0,
        }
    }

    /// Returns the time of the last event taken.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the number of events taken.
    #[must_use]
    pub const fn fired(&self) -> u64 {
        self.fired
    }

    /// Returns the number of waiting events.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.next.len() + self.near.len() + self.far.len()
    }

    /// Schedules `event` at `at`, or now if `at` is past.
    pub fn schedule(&mut self, at: Instant, event: E) {
        let nanos = at.max(self.now).as_nanos();
        let key = u128::from(nanos) << 64 | u128::from(self.sequence);
        self.sequence += 1;
        if nanos < self.horizon {
            self.near.push(key, event);
        } else {
            self.far.push(Entry { key, value: event });
        }
    }

    /// Takes the next event due by `limit`, inclusive, and advances the time to it.
    pub fn next(&mut self, limit: Instant) -> Option<E> {
        self.look_ahead();
        let handed_over = self.next.last().map_or(u128::MAX, |entry| entry.key);
        let scheduled_since = self.near.first_key().unwrap_or(u128::MAX);
        if time_of(handed_over.min(scheduled_since)) > limit {
            return None;
        }
        let (key, event) = if handed_over < scheduled_since {
            self.next.pop().map(|entry| (entry.key, entry.value))
        } else {
            self.near.pop()
        }?;
        self.now = time_of(key);
        self.fired += 1;
        Some(event)
    }

    pub(crate) fn knows_next(&self) -> bool {
        !self.next.is_empty() || !self.near.is_empty()
    }

    pub(crate) fn look_ahead(&mut self) {
        if self.knows_next() {
            return;
        }
        if let Some(horizon) = self.far.hand_over(&mut self.next) {
            self.horizon = horizon;
            self.next.sort_unstable_by_key(|entry| Reverse(entry.key));
        }
    }

    /// Unordered.
    pub(crate) fn next_events(&self) -> impl Iterator<Item = (Instant, E)> {
        self.next.iter().map(|entry| (time_of(entry.key), entry.value))
    }

    /// Advances the time to `at` if later.
    pub fn advance(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }

    /// Keeps the events that `keep` accepts.
    pub fn retain(&mut self, mut keep: impl FnMut(&E) -> bool) {
        self.next.retain(|entry| keep(&entry.value));
        self.near.retain(&mut keep);
        self.far.retain(keep);
    }
}

impl<E: Copy> Default for Scheduler<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An operation of a simulation on its scheduler.
    #[derive(Clone, Debug)]
    enum Step {
        /// Schedules a number of events, this many nanoseconds from now.
        Schedule(u64, usize),
        /// Takes up to a number of events that are due within this many nanoseconds.
        Take(u64, usize),
        /// Advances the time without taking events.
        Advance(u64),
        /// Removes the events whose number has this remainder modulo 3.
        Remove(u32),
    }

    /// Of every order of magnitude, often repeated.
    fn span() -> impl Strategy<Value = u64> {
        (0..4_u8, 0..64_u32, any::<u64>()).prop_map(|(kind, bits, any)| match kind {
            0 => 0,
            1 => any % 4,
            2 => any >> bits,
            _ => u64::MAX,
        })
    }

    fn step() -> impl Strategy<Value = Step> {
        (0..20_u8, span(), 0..200_usize, 0..3_u32).prop_map(|(kind, span, count, remainder)| match kind {
            0..8 => Step::Schedule(span, 1 + count % 3),
            8..10 => Step::Schedule(span, 1 + count),
            10..18 => Step::Take(span, 1 + count % 7),
            18 => Step::Advance(span),
            _ => Step::Remove(remainder),
        })
    }

    proptest! {
        #[test]
        fn events_happen_as_from_a_list_sorted_by_time_and_sequence(steps in prop::collection::vec(step(), 0..200)) {
            let mut scheduler = Scheduler::new();
            // Pairs of time and number; the numbers follow the order of scheduling.
            let (mut model, mut now, mut number) = (std::collections::BTreeSet::new(), 0_u64, 0_u32);
            for step in steps {
                match step {
                    Step::Schedule(span, count) => for _ in 0..count {
                        let at = now.saturating_add(span);
                        scheduler.schedule(Instant::from_nanos(at), number);
                        model.insert((at, number));
                        number += 1;
                    },
                    Step::Take(span, count) => for _ in 0..count {
                        let limit = now.saturating_add(span);
                        let expected = model.first().copied().filter(|(at, _)| *at <= limit);
                        prop_assert_eq!(scheduler.next(Instant::from_nanos(limit)), expected.map(|(_, number)| number));
                        let Some((at, _)) = expected else { break };
                        model.pop_first();
                        now = at;
                    },
                    Step::Advance(span) => {
                        // Not past the next event, as when a run is continued.
                        now = model.first().map_or(u64::MAX, |(at, _)| *at).min(now.saturating_add(span));
                        scheduler.advance(Instant::from_nanos(now));
                    }
                    Step::Remove(remainder) => {
                        scheduler.retain(|number| number % 3 != remainder);
                        model.retain(|(_, number)| number % 3 != remainder);
                    }
                }
                prop_assert_eq!(scheduler.now().as_nanos(), now);
                prop_assert_eq!(scheduler.pending(), model.len());
            }
            let rest: Vec<u32> = std::iter::from_fn(|| scheduler.next(Instant::FAR_FUTURE)).collect();
            prop_assert_eq!(rest, model.into_iter().map(|(_, number)| number).collect::<Vec<_>>());
        }
    }

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
