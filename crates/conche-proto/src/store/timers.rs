//! [`Timers`]: any number of timers for any times, set and cancelled in O(log n) at worst and in O(1) mostly.
//!
//! A heap of four children a node. Siblings lie in one cache line, which is what a step costs when there are many. Each
//! timer is named by a number that its owner chose, and it is known where it stands, so that a cancelled one leaves at
//! once: the heap is as large as the number of armed timers, never larger.
//!
//! Delays that are all alike need none of this: a [`List`](super::List) has them in order.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use conche_cc::Instant;

use super::NIL;

#[derive(Clone, Copy, Debug, Default)]
struct Armed {
    at: Instant,
    /// Timers for the same instant fire in the order in which they were set.
    sequence: u32,
    index: u32,
}

impl Armed {
    fn before(&self, other: &Self) -> bool {
        (self.at, self.sequence) < (other.at, other.sequence)
    }
}

const CHILDREN: usize = 4;

/// The children of a node, in a cache line of their own.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Siblings([Armed; CHILDREN]);

/// The nodes of the heap, counted from the root, 0.
#[derive(Debug, Default)]
struct Nodes {
    families: Vec<Siblings>,
    len: usize,
}

impl Nodes {
    /// The root is the last of a family of one, so that the first child of each node is the first of its family.
    const fn place(node: usize) -> (usize, usize) {
        (node.div_ceil(CHILDREN), (node + CHILDREN - 1) % CHILDREN)
    }

    /// Makes room for one more node, and returns it.
    fn grow(&mut self) -> usize {
        let node = self.len;
        if Self::place(node).0 == self.families.len() {
            self.families.push(Siblings::default());
        }
        self.len += 1;
        node
    }

    fn pop(&mut self) -> Option<Armed> {
        self.len = self.len.checked_sub(1)?;
        Some(self[self.len])
    }

    fn first(&self) -> Option<&Armed> {
        (self.len > 0).then(|| &self[0])
    }
}

impl Index<usize> for Nodes {
    type Output = Armed;

    fn index(&self, node: usize) -> &Armed {
        let (family, member) = Self::place(node);
        &self.families[family].0[member]
    }
}

impl IndexMut<usize> for Nodes {
    fn index_mut(&mut self, node: usize) -> &mut Armed {
        let (family, member) = Self::place(node);
        &mut self.families[family].0[member]
    }
}

/// The armed timers, at most one for each number.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Nodes,
    /// Where in the heap each number stands: apart from what it names, since a move touches many of them.
    positions: Vec<u32>,
    sequence: u32,
}

impl Timers {
    pub(crate) const fn new() -> Self {
        Self { heap: Nodes { families: Vec::new(), len: 0 }, positions: Vec::new(), sequence: 0 }
    }

    /// How many timers are armed.
    pub(crate) fn len(&self) -> usize {
        self.heap.len
    }

    /// Arms the timer `index` for `at`, in place of what it was armed for.
    pub(crate) fn set(&mut self, index: u32, at: Instant) {
        self.sequence = self.sequence.wrapping_add(1);
        let armed = Armed { at, sequence: self.sequence, index };
        if self.positions.len() <= index as usize {
            self.positions.resize(index as usize + 1, NIL);
        }
        let position = self.position(index).unwrap_or_else(|| self.heap.grow());
        self.settle(position, armed);
    }

    /// Disarms the timer `index`, if it is armed.
    pub(crate) fn cancel(&mut self, index: u32) {
        let Some(position) = self.position(index) else { return };
        self.positions[index as usize] = NIL;
        if let Some(last) = self.heap.pop().filter(|last| last.index != index) {
            self.settle(position, last);
        }
    }

    /// When the next timer is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|armed| armed.at)
    }

    /// Disarms a timer that is due, and tells which.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let &Armed { at, index, .. } = self.heap.first()?;
        (at <= now).then(|| {
            self.cancel(index);
            index
        })
    }

    fn position(&self, index: u32) -> Option<usize> {
        self.positions.get(index as usize).filter(|&&position| position != NIL).map(|&position| position as usize)
    }

    /// Moves `armed` up or down from `position` to where it belongs: a hole goes before it that the others fill.
    fn settle(&mut self, mut position: usize, armed: Armed) {
        while let Some(parent) = position.checked_sub(1).map(|before| before / CHILDREN) {
            if !armed.before(&self.heap[parent]) {
                break;
            }
            self.put(position, self.heap[parent]);
            position = parent;
        }
        while let Some(least) = self.least_child(position) {
            if !self.heap[least].before(&armed) {
                break;
            }
            self.put(position, self.heap[least]);
            position = least;
        }
        self.put(position, armed);
    }

    fn least_child(&self, position: usize) -> Option<usize> {
        let first = CHILDREN * position + 1;
        let end = (first + CHILDREN).min(self.heap.len);
        (first..end).reduce(|least, child| if self.heap[child].before(&self.heap[least]) { child } else { least })
    }

    fn put(&mut self, position: usize, armed: Armed) {
        self.heap[position] = armed;
        self.positions[armed.index as usize] = u32::try_from(position).unwrap_or(NIL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a sorted map: same order, and nothing is left behind.
        #[test]
        fn timers_fire_in_order_of_time_whatever_was_reset_and_cancelled(
            operations in prop::collection::vec((0..3u8, 0..16u32, 0..50u64), 1..200),
        ) {
            let mut timers = Timers::default();
            let mut model = BTreeMap::new();
            for (number, (operation, index, at)) in operations.into_iter().enumerate() {
                if operation == 0 {
                    timers.cancel(index);
                    model.remove(&index);
                } else {
                    timers.set(index, Instant::from_nanos(at));
                    model.insert(index, (at, number));
                }
                prop_assert_eq!(timers.len(), model.len());
                prop_assert_eq!(timers.next(), model.values().min().map(|&(at, _)| Instant::from_nanos(at)));
            }
            while let Some(at) = timers.next() {
                if let Some(before) = at.as_nanos().checked_sub(1) {
                    prop_assert_eq!(timers.pop_due(Instant::from_nanos(before)), None);
                }
                let first = model.iter().min_by_key(|(_, order)| **order).map(|(&index, _)| index);
                prop_assert_eq!(timers.pop_due(at), first);
                model.remove(&first.expect("there is one"));
            }
            prop_assert!(model.is_empty());
        }
    }
}
