//! Virtual time and the event queue. Simultaneous events happen in scheduling order.
//!
//! A short sorted list of next events is refilled from a timing wheel; events scheduled for its
//! time span go to a small heap. A single heap would miss the cache with tens of thousands of
//! events.

use std::cmp::Reverse;

use crate::Instant;

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

    /// Schedules `event` at `at`, or now if that is past.
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

    /// Takes the next event until `limit`, inclusive, and advances the time to it.
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

    /// Returns the time of the next event.
    pub fn next_time(&mut self) -> Option<Instant> {
        self.look_ahead();
        let handed_over = self.next.last().map(|entry| entry.key);
        handed_over.into_iter().chain(self.near.first_key()).min().map(time_of)
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

const CHILDREN: usize = 4;

/// A 4-ary min-heap on unique 128-bit keys.
///
/// Four children share two cache lines: the fastest simple queue up to a few hundred entries.
#[derive(Clone, Debug)]
struct Heap<E> {
    entries: Vec<Entry<E>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    key: u128,
    value: E,
}

impl<E: Copy> Heap<E> {
    #[must_use]
    const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    #[must_use]
    fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[must_use]
    fn first_key(&self) -> Option<u128> {
        self.entries.first().map(|entry| entry.key)
    }

    fn push(&mut self, key: u128, value: E) {
        let entry = Entry { key, value };
        let mut hole = self.entries.len();
        self.entries.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.entries[parent].key <= key {
                break;
            }
            self.entries[hole] = self.entries[parent];
            hole = parent;
        }
        self.entries[hole] = entry;
    }

    fn pop(&mut self) -> Option<(u128, E)> {
        let last = self.entries.pop()?;
        let Some(&first) = self.entries.first() else {
            return Some((last.key, last.value));
        };
        self.sift_down(0, last);
        Some((first.key, first.value))
    }

    fn retain(&mut self, mut keep: impl FnMut(&E) -> bool) {
        self.entries.retain(|entry| keep(&entry.value));
        for hole in (0..self.entries.len().div_ceil(CHILDREN)).rev() {
            let entry = self.entries[hole];
            self.sift_down(hole, entry);
        }
    }

    fn sift_down(&mut self, mut hole: usize, entry: Entry<E>) {
        loop {
            let first = hole * CHILDREN + 1;
            let Some(offset) = self.smallest_child(first) else { break };
            let smallest = self.entries[first + offset];
            if entry.key <= smallest.key {
                break;
            }
            self.entries[hole] = smallest;
            hole = first + offset;
        }
        self.entries[hole] = entry;
    }

    /// Relative to `first`.
    fn smallest_child(&self, first: usize) -> Option<usize> {
        // Checks bounds once.
        if let Some([a, b, c, d]) = self.entries.get(first..first + CHILDREN) {
            let (low, high) = (usize::from(b.key < a.key), usize::from(d.key < c.key));
            let (left, right) = ([a.key, b.key][low], [c.key, d.key][high]);
            return Some(if right < left { 2 + high } else { low });
        }
        let rest = self.entries.get(first..)?;
        rest.iter().enumerate().min_by_key(|(_, entry)| entry.key).map(|(offset, _)| offset)
    }
}

impl<E: Copy> Default for Heap<E> {
    fn default() -> Self {
        Self::new()
    }
}

fn time_of(key: u128) -> Instant {
    Instant::from_nanos(u64::try_from(key >> 64).unwrap_or(u64::MAX))
}

const DIGIT: usize = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = (u64::BITS as usize).div_ceil(DIGIT);
/// Sorts in the L1 cache. Values from 16 to 128 have similar speed.
const FEW: usize = 48;
const KEPT: usize = 2 * FEW;

#[derive(Clone, Debug)]
struct Wheel<E> {
    /// Base for digits above the first occupied level; no entry is earlier.
    base: u64,
    occupied: [u64; LEVELS],
    levels: u16,
    slots: Vec<Vec<Entry<E>>>,
    len: usize,
}

impl<E: Copy> Wheel<E> {
    const fn new() -> Self {
        Self { base: 0, occupied: [0; LEVELS], levels: 0, slots: Vec::new(), len: 0 }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn push(&mut self, entry: Entry<E>) {
        if self.slots.is_empty() {
            self.slots.resize_with(LEVELS * SLOTS, Vec::new);
        }
        self.len += 1;
        self.place(entry);
    }

    /// Appends the earliest span's entries, unordered, to `next`; returns its end.
    fn hand_over(&mut self, next: &mut Vec<Entry<E>>) -> Option<u64> {
        while self.levels != 0 {
            let level = self.levels.trailing_zeros() as usize;
            let slot = self.occupied[level].trailing_zeros() as usize;
            let width = 1_u64 << (level * DIGIT);
            self.base = above(self.base, level) + slot as u64 * width;
            self.vacate(level, slot);
            let mut entries = std::mem::take(&mut self.slots[level * SLOTS + slot]);
            let few = entries.len() <= FEW || level == 0;
            if few {
                self.len -= entries.len();
                next.append(&mut entries);
            } else {
                entries.drain(..).for_each(|entry| self.place(entry));
            }
            if entries.capacity() <= KEPT {
                self.slots[level * SLOTS + slot] = entries;
            }
            if few {
                return Some(self.base.saturating_add(width));
            }
        }
        None
    }

    fn retain(&mut self, mut keep: impl FnMut(&E) -> bool) {
        for level in 0..LEVELS {
            for slot in 0..SLOTS {
                let Some(entries) = self.slots.get_mut(level * SLOTS + slot).filter(|entries| !entries.is_empty())
                else {
                    continue;
                };
                let before = entries.len();
                entries.retain(|entry| keep(&entry.value));
                self.len -= before - entries.len();
                if entries.is_empty() {
                    self.vacate(level, slot);
                }
            }
        }
    }

    fn place(&mut self, entry: Entry<E>) {
        let time = time_of(entry.key).as_nanos();
        // A time equal to the base has the lowest level.
        let level = ((time ^ self.base) | 1).ilog2() as usize / DIGIT;
        let slot = digit(time, level);
        self.levels |= 1 << level;
        self.occupied[level] |= 1 << slot;
        self.slots[level * SLOTS + slot].push(entry);
    }

    fn vacate(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !(1 << slot);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a digit is small")]
fn digit(time: u64, level: usize) -> usize {
    (time >> (level * DIGIT)) as usize % SLOTS
}

fn above(time: u64, level: usize) -> u64 {
    let bits = (level + 1) * DIGIT;
    if bits < u64::BITS as usize { time >> bits << bits } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Schedule(u64, usize),
        Take(u64, usize),
        Advance(u64),
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
            // Pairs of time and number, numbered in scheduling order.
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
    fn a_time_limit_is_inclusive_and_withholds_later_events() {
        let mut scheduler = Scheduler::new();
        scheduler.schedule(Instant::from_millis(2), 'b');
        scheduler.schedule(Instant::from_millis(1), 'a');
        assert_eq!(scheduler.next(Instant::from_millis(1)), Some('a'));
        assert_eq!(scheduler.next(Instant::from_millis(1)), None);
        assert_eq!(scheduler.now(), Instant::from_millis(1));
    }

    fn drain(mut heap: Heap<u32>) -> Vec<(u128, u32)> {
        std::iter::from_fn(|| heap.pop()).collect()
    }

    proptest! {
        #[test]
        fn entries_come_out_in_the_order_of_their_keys(keys in prop::collection::vec(any::<u128>(), 0..300)) {
            let mut heap = Heap::new();
            for (value, key) in (0..).zip(&keys) {
                heap.push(*key, value);
            }
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            prop_assert_eq!(drain(heap).into_iter().map(|(key, _)| key).collect::<Vec<_>>(), sorted);
        }

        #[test]
        fn pushes_and_pops_in_any_order_agree_with_a_sorted_list(steps in prop::collection::vec(any::<Option<u16>>(), 0..400)) {
            let (mut heap, mut model) = (Heap::new(), std::collections::BTreeSet::new());
            for (sequence, step) in (0_u32..).zip(steps) {
                if let Some(key) = step {
                    let key = u128::from(key) << 64 | u128::from(sequence);
                    heap.push(key, sequence);
                    model.insert(key);
                } else {
                    prop_assert_eq!(heap.pop().map(|(key, _)| key), model.pop_first());
                }
                prop_assert_eq!(heap.first_key(), model.first().copied());
                prop_assert_eq!(heap.len(), model.len());
            }
        }

        #[test]
        fn retain_keeps_the_others_in_order(mut keys in prop::collection::vec(any::<u128>(), 0..200)) {
            keys.sort_unstable();
            keys.dedup();
            let mut heap = Heap::new();
            for (value, key) in (0_u32..).zip(keys.iter().rev()) {
                heap.push(*key, value);
            }
            let expected: Vec<_> =
                (0_u32..).zip(keys.iter().rev()).filter(|(value, _)| value % 3 != 0).map(|(value, key)| (*key, value)).collect();
            heap.retain(|value| value % 3 != 0);
            prop_assert_eq!(drain(heap), expected.into_iter().rev().collect::<Vec<_>>());
        }
    }
}
