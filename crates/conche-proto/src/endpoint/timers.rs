//! All timers of an endpoint: one for each exchange, waiting request and waiting peer, set and cancelled in O(log n).
//!
//! A binary heap that knows where each key stands, so that a cancelled timer leaves it at once and its size is the
//! number of armed timers, never more.

use alloc::vec::Vec;

use conche_cc::Instant;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerKey {
    /// An exchange of ours: retransmission, deadline, queue expiry.
    Exchange(u32),
    /// A request of the peer's: time for an Empty ACK.
    Request(u32),
    /// A peer whose queue waits for a time that its controller named.
    Peer(u32),
}

impl TimerKey {
    /// The table of `positions` and the index in it.
    fn place(self) -> (usize, usize) {
        match self {
            Self::Exchange(index) => (0, index as usize),
            Self::Request(index) => (1, index as usize),
            Self::Peer(index) => (2, index as usize),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    at: Instant,
    /// Timers for the same instant fire in the order in which they were set.
    sequence: u64,
    key: TimerKey,
}

impl Timer {
    fn before(&self, other: &Self) -> bool {
        (self.at, self.sequence) < (other.at, other.sequence)
    }
}

/// Not in the heap.
const ABSENT: u32 = u32::MAX;

/// The armed timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Vec<Timer>,
    positions: [Vec<u32>; 3],
    sequence: u64,
}

impl Timers {
    /// Arms the timer of `key` for `at`, in place of what it was armed for.
    pub(crate) fn set(&mut self, key: TimerKey, at: Instant) {
        self.sequence += 1;
        let timer = Timer { at, sequence: self.sequence, key };
        match self.position(key) {
            Some(position) => {
                self.heap[position] = timer;
                let position = self.sift_up(position);
                self.sift_down(position);
            }
            None => {
                self.heap.push(timer);
                self.place(self.heap.len() - 1);
                self.sift_up(self.heap.len() - 1);
            }
        }
    }

    /// Disarms the timer of `key`, if it is armed.
    pub(crate) fn cancel(&mut self, key: TimerKey) {
        if let Some(position) = self.position(key) {
            self.remove(position);
        }
    }

    /// When the next timer is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|timer| timer.at)
    }

    /// Disarms and returns a timer that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<TimerKey> {
        let first = *self.heap.first()?;
        (first.at <= now).then(|| {
            self.remove(0);
            first.key
        })
    }

    /// How many timers are armed.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    fn position(&self, key: TimerKey) -> Option<usize> {
        let (table, index) = key.place();
        self.positions[table]
            .get(index)
            .copied()
            .filter(|&position| position != ABSENT)
            .map(|position| position as usize)
    }

    fn remove(&mut self, position: usize) {
        let removed = self.heap.swap_remove(position);
        let (table, index) = removed.key.place();
        self.positions[table][index] = ABSENT;
        if position < self.heap.len() {
            self.place(position);
            let position = self.sift_up(position);
            self.sift_down(position);
        }
    }

    /// Notes where the timer at `position` stands.
    fn place(&mut self, position: usize) {
        let (table, index) = self.heap[position].key.place();
        let positions = &mut self.positions[table];
        if positions.len() <= index {
            positions.resize(index + 1, ABSENT);
        }
        positions[index] = u32::try_from(position).expect("fewer than 2^32 timers, as keys are u32");
    }

    fn sift_up(&mut self, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / 2;
            if !self.heap[position].before(&self.heap[parent]) {
                break;
            }
            self.swap(position, parent);
            position = parent;
        }
        position
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            let left = 2 * position + 1;
            let Some(mut least) = (left < self.heap.len()).then_some(left) else { break };
            let right = left + 1;
            if right < self.heap.len() && self.heap[right].before(&self.heap[left]) {
                least = right;
            }
            if !self.heap[least].before(&self.heap[position]) {
                break;
            }
            self.swap(position, least);
            position = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place(a);
        self.place(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted map: same order, and nothing is left behind.
        #[test]
        fn timers_fire_in_order_of_time_whatever_was_reset_and_cancelled(
            operations in prop::collection::vec((0..3u8, 0..16u32, 0..50u64), 1..200),
        ) {
            let mut timers = Timers::default();
            let mut model = BTreeMap::new();
            for (operation, index, at) in operations {
                let key = if index % 2 == 0 { TimerKey::Exchange(index) } else { TimerKey::Peer(index) };
                if operation == 0 {
                    timers.cancel(key);
                    model.remove(&index);
                } else {
                    timers.set(key, Instant::from_nanos(at));
                    model.insert(index, at);
                }
                prop_assert_eq!(timers.len(), model.len());
                prop_assert_eq!(timers.next(), model.values().min().map(|&at| Instant::from_nanos(at)));
            }
            let mut last = 0;
            while let Some(at) = timers.next() {
                if let Some(before) = at.as_nanos().checked_sub(1) {
                    prop_assert_eq!(timers.pop_due(Instant::from_nanos(before)), None);
                }
                let Some(TimerKey::Exchange(index) | TimerKey::Peer(index)) = timers.pop_due(at) else {
                    return Err(TestCaseError::fail("a due timer did not fire"));
                };
                prop_assert_eq!(model.remove(&index), Some(at.as_nanos()));
                prop_assert!(at.as_nanos() >= last);
                last = at.as_nanos();
            }
            prop_assert!(model.is_empty());
        }
    }
}
