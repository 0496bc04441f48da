//! [`Timers`]: any number of timers.
//!
//! With many timers, those due within seconds are in a [`Wheel`], with O(1) operations. A heap
//! holds distant timers and those of the next milliseconds: a slot of the wheel moves into the heap
//! before anything later is due. The heap is 4-ary, since siblings then share a cache line.
//! Recorded positions allow removal at once.
//!
//! Timers with equal delays need only a [`List`](super::List).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::black_box;
use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

use conche_cc::Instant;

use super::{ArenaIndex, NIL};

const MANY: usize = 64;

const IN_WHEEL: u32 = NIL - 1;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Armed {
    pub(super) at: Instant,
    /// Orders timers for one instant by the time of setting.
    pub(super) sequence: u32,
    pub(super) index: u32,
}

impl Armed {
    fn before(&self, other: &Self) -> bool {
        (self.at, self.sequence) < (other.at, other.sequence)
    }
}

const CHILDREN: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Siblings([Armed; CHILDREN]);

#[derive(Debug, Default)]
struct Nodes {
    families: Vec<Siblings>,
    len: usize,
}

impl Nodes {
    /// Places the root last of its family, so that the first child of every node is the first.
    const fn place(node: usize) -> (usize, usize) {
        (node.div_ceil(CHILDREN), (node + CHILDREN - 1) % CHILDREN)
    }

    #[inline]
    fn grow(&mut self) -> usize {
        let node = self.len;
        if Self::place(node).0 == self.families.len() {
            if node == 0 {
                // Four families would dominate the memory of a small endpoint.
                self.families.reserve_exact(1);
            }
            self.families.push(Siblings::default());
        }
        self.len += 1;
        node
    }

    #[inline]
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

#[derive(Debug)]
pub(crate) struct Timers<I> {
    heap: Nodes,
    /// Separate, since a move touches many.
    positions: Vec<u32>,
    sequence: u32,
    /// Exists from [`MANY`] timers until none is left. All its ticks follow the heap's first timer.
    wheel: Option<Box<Wheel>>,
    index: PhantomData<fn() -> I>,
}

impl<I: ArenaIndex> Default for Timers<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: ArenaIndex> Timers<I> {
    pub(crate) const fn new() -> Self {
        Self {
            heap: Nodes { families: Vec::new(), len: 0 },
            positions: Vec::new(),
            sequence: 0,
            wheel: None,
            index: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len + self.wheel.as_ref().map_or(0, |wheel| wheel.len())
    }

    #[inline]
    pub(crate) fn set(&mut self, index: I, at: Instant) {
        let index = index.number();
        self.sequence = self.sequence.wrapping_add(1);
        let armed = Armed { at, sequence: self.sequence, index };
        if self.positions.len() <= index as usize {
            self.positions.resize(index as usize + 1, NIL);
        }
        if self.wheel.is_some() || self.heap.len >= MANY {
            return self.set_among_many(armed);
        }
        self.enter(armed);
    }

    #[inline(never)]
    fn set_among_many(&mut self, armed: Armed) {
        self.take_out(armed.index);
        let wheel = self.wheel.get_or_insert_with(|| Box::new(Wheel::new()));
        wheel.start_at(self.heap.first().map_or(armed.at, |first| first.at));
        if wheel.covers(armed.at) {
            wheel.insert(armed);
            self.positions[armed.index as usize] = IN_WHEEL;
        } else {
            self.enter(armed);
        }
        self.refill();
    }

    #[inline]
    pub(crate) fn cancel(&mut self, index: I) {
        self.take_out(index.number());
        self.refill();
    }

    #[inline]
    pub(crate) fn prefetch(&self) {
        black_box((self.heap.first().copied(), self.positions.first().copied()));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|armed| armed.at)
    }

    #[inline]
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<I> {
        let &Armed { at, index, .. } = self.heap.first()?;
        (at <= now).then(|| {
            let index = I::of(index);
            self.cancel(index);
            index
        })
    }

    /// Moves slots into the heap until its first timer is the first of all.
    #[inline]
    fn refill(&mut self) {
        if let Some(wheel) = &self.wheel {
            if wheel.len() > 0 {
                self.empty_slots();
            } else if self.heap.len == 0 {
                self.wheel = None;
            }
        }
    }

    #[inline(never)]
    fn empty_slots(&mut self) {
        while let Some(wheel) = &mut self.wheel
            && let Some(next) = wheel.first_tick()
            && self.heap.first().is_none_or(|first| next <= tick(first.at))
        {
            wheel.turn_to(next);
            while let Some(armed) = self.wheel.as_mut().and_then(|wheel| wheel.pop(next)) {
                self.enter(armed);
            }
        }
    }

    #[inline]
    fn enter(&mut self, armed: Armed) {
        let position = match self.positions[armed.index as usize] {
            NIL | IN_WHEEL => self.heap.grow(),
            position => position as usize,
        };
        self.settle(position, armed);
    }

    #[inline]
    fn take_out(&mut self, index: u32) {
        let Some(position) = self.positions.get_mut(index as usize) else { return };
        match core::mem::replace(position, NIL) {
            NIL => {}
            IN_WHEEL => {
                if let Some(wheel) = &mut self.wheel {
                    wheel.remove(index);
                }
            }
            position => {
                if let Some(last) = self.heap.pop().filter(|last| last.index != index) {
                    self.settle(position as usize, last);
                }
            }
        }
    }

    #[inline]
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

/// A slot is one tick: 2^20 ns.
const TICK_BITS: u32 = 20;

/// A power of two. Slots cover 4.3 s: an initial timeout with its dithering.
const SLOTS: usize = 4096;

const WORD: usize = u64::BITS as usize;

pub(super) const fn tick(at: Instant) -> u64 {
    at.as_nanos() >> TICK_BITS
}

#[expect(clippy::cast_possible_truncation, reason = "less than the number of slots")]
const fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    at: Instant,
    sequence: u32,
    before: u32,
    after: u32,
}

/// Near timers in slots, unordered within one (a hashed timing wheel: Varghese and Lauck, IEEE/ACM
/// Transactions on Networking 5(6), 1997, scheme 6 without rounds). Insertion and removal touch the
/// entry and two neighbours; a heap touches an entry per level. Ticks lie after `base`, by less
/// than the number of slots.
#[derive(Debug)]
pub(super) struct Wheel {
    base: u64,
    len: usize,
    firsts: Box<[u32; SLOTS]>,
    /// Bitmaps of occupied slots, and of the nonzero words among them.
    occupied: [u64; SLOTS / WORD],
    words: u64,
    /// By timer number.
    entries: Vec<Entry>,
}

impl Wheel {
    pub(super) fn new() -> Self {
        // Not copied from the stack.
        let firsts: Box<[u32]> = alloc::vec![NIL; SLOTS].into();
        let firsts = firsts.try_into().unwrap_or_else(|_| Box::new([NIL; SLOTS]));
        Self { base: 0, len: 0, firsts, occupied: [0; SLOTS / WORD], words: 0, entries: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn start_at(&mut self, at: Instant) {
        if self.len == 0 {
            self.base = tick(at);
        }
    }

    pub(super) fn covers(&self, at: Instant) -> bool {
        tick(at).checked_sub(self.base).is_some_and(|ahead| (1..SLOTS as u64).contains(&ahead))
    }

    /// The time must be covered.
    pub(super) fn insert(&mut self, Armed { at, sequence, index }: Armed) {
        if self.entries.len() <= index as usize {
            self.entries.resize(index as usize + 1, Entry::default());
        }
        let slot = slot_of(tick(at));
        let after = core::mem::replace(&mut self.firsts[slot], index);
        if let Some(after) = self.entries.get_mut(after as usize) {
            after.before = index;
        }
        self.entries[index as usize] = Entry { at, sequence, before: NIL, after };
        self.occupied[slot / WORD] |= 1 << (slot % WORD);
        self.words |= 1 << (slot / WORD);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, index: u32) -> Armed {
        let Entry { at, sequence, before, after } = self.entries[index as usize];
        if let Some(after) = self.entries.get_mut(after as usize) {
            after.before = before;
        }
        match self.entries.get_mut(before as usize) {
            Some(before) => before.after = after,
            None => self.set_first(slot_of(tick(at)), after),
        }
        self.len -= 1;
        Armed { at, sequence, index }
    }

    pub(super) fn first_tick(&self) -> Option<u64> {
        let next = slot_of(self.base + 1);
        let (word, bit) = (next / WORD, next % WORD);
        let here = self.occupied[word] >> bit << bit;
        let later = self.words & !1 << word;
        let word = match (here, later) {
            (0, 0) if self.words == 0 => return None,
            (0, 0) => self.words.trailing_zeros() as usize,
            (0, _) => later.trailing_zeros() as usize,
            (_, _) => word,
        };
        let bits = if here == 0 { self.occupied[word] } else { here };
        let slot = word * WORD + bits.trailing_zeros() as usize;
        Some(self.base + 1 + ((slot + SLOTS - next) % SLOTS) as u64)
    }

    pub(super) fn pop(&mut self, tick: u64) -> Option<Armed> {
        let first = self.firsts[slot_of(tick)];
        (first != NIL).then(|| self.remove(first))
    }

    /// No earlier timers may be left.
    pub(super) fn turn_to(&mut self, tick: u64) {
        self.base = tick - 1;
    }

    fn set_first(&mut self, slot: usize, first: u32) {
        self.firsts[slot] = first;
        if first == NIL {
            self.occupied[slot / WORD] &= !(1 << (slot % WORD));
            if self.occupied[slot / WORD] == 0 {
                self.words &= !(1 << (slot / WORD));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn time() -> impl Strategy<Value = u64> {
        const TICK: u64 = 1 << 20;
        prop_oneof![
            0..50_u64,
            0..8 * TICK,
            0..4_200 * TICK,
            (4_090..4_100_u64, 0..3_u64).prop_map(|(ticks, nanos)| ticks * TICK + nanos),
            0..1_000_000 * TICK,
            Just(u64::MAX),
        ]
    }

    proptest! {
        /// Up to 200 timers: without and with a wheel.
        #[test]
        fn timers_fire_in_order_of_time_under_any_resets_and_cancellations(
            numbers in prop_oneof![1..16_u32, 150..200_u32],
            operations in prop::collection::vec((0..8_u8, any::<u32>(), time()), 1..800),
        ) {
            let mut timers = Timers::default();
            let mut model = BTreeMap::<u32, (u64, usize)>::new();
            // Firing advances the clock, as in an endpoint.
            let mut now = 0_u64;
            for (sequence, (operation, number, after)) in operations.into_iter().enumerate() {
                let index = number % numbers;
                let first = model.iter().min_by_key(|(_, order)| **order).map(|(&index, &(at, _))| (index, at));
                match (operation, first) {
                    (0, _) => {
                        timers.cancel(index);
                        model.remove(&index);
                    }
                    (1 | 2, Some((index, at))) => {
                        if let Some(before) = at.checked_sub(1) {
                            prop_assert_eq!(timers.pop_due(Instant::from_nanos(before)), None);
                        }
                        prop_assert_eq!(timers.pop_due(Instant::from_nanos(at)), Some(index));
                        model.remove(&index);
                        now = if at < u64::MAX { now.max(at) } else { now };
                    }
                    _ => {
                        let at = now.saturating_add(after);
                        timers.set(index, Instant::from_nanos(at));
                        model.insert(index, (at, sequence));
                    }
                }
                prop_assert_eq!(timers.len(), model.len());
                prop_assert_eq!(timers.next(), model.values().min().map(|&(at, _)| Instant::from_nanos(at)));
            }
            while let Some(at) = timers.next() {
                let first = model.iter().min_by_key(|(_, order)| **order).map(|(&index, _)| index);
                prop_assert_eq!(timers.pop_due(at), first);
                model.remove(&first.expect("there is one"));
            }
            prop_assert!(model.is_empty() && timers.wheel.is_none());
        }
    }

    #[test]
    fn a_few_timers_have_no_wheel_and_of_many_all_but_the_next_ones_are_in_it() {
        let mut timers = Timers::default();
        for index in 0..10_000_u32 {
            assert_eq!(timers.wheel.is_some(), index as usize > MANY);
            timers.set(index, Instant::from_millis(2_000 + u64::from(index) * 7_919 % 1_000));
        }
        assert!(timers.heap.len < 3 * MANY, "{} of 10 000 are in the heap", timers.heap.len);
        for index in 0..10_000 {
            timers.cancel(index);
        }
        assert!(timers.len() == 0 && timers.wheel.is_none());
    }
}
