//! [`Wheel`]: near timers, in slots of about one millisecond, unordered within a slot (a hashed
//! timing wheel: Varghese and Lauck, IEEE/ACM Transactions on Networking 5(6), 1997, scheme 6
//! without rounds).
//!
//! Insertion and removal touch the entry and two neighbours, where a heap touches an entry per
//! level. There is a single level: timers never move between slots, so that no instant pays for a
//! long time before it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use conche_cc::Instant;

use super::NIL;
use super::timers::Armed;

/// The width of a slot is one tick: 2^20 ns, about a millisecond.
const TICK_BITS: u32 = 20;

/// Number of slots, a power of two. They cover 4.3 s: an initial timeout with its dithering.
const SLOTS: usize = 4096;

const WORD: usize = u64::BITS as usize;

pub(super) const fn tick(at: Instant) -> u64 {
    at.as_nanos() >> TICK_BITS
}

#[expect(clippy::cast_possible_truncation, reason = "less than the number of slots")]
const fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

/// A timer in its slot.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    at: Instant,
    sequence: u32,
    before: u32,
    after: u32,
}

/// Timers with ticks after `base`, by less than the number of slots.
#[derive(Debug)]
pub(super) struct Wheel {
    base: u64,
    len: usize,
    /// First timer of each slot.
    firsts: Box<[u32; SLOTS]>,
    /// Bitmap of the slots with timers, and of its words that are not zero.
    occupied: [u64; SLOTS / WORD],
    words: u64,
    /// By timer number.
    entries: Vec<Entry>,
}

impl Wheel {
    pub(super) fn new() -> Self {
        // Allocated on the heap, not copied from the stack.
        let firsts: Box<[u32]> = alloc::vec![NIL; SLOTS].into();
        let firsts = firsts.try_into().unwrap_or_else(|_| Box::new([NIL; SLOTS]));
        Self { base: 0, len: 0, firsts, occupied: [0; SLOTS / WORD], words: 0, entries: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Sets the base to the tick of this time if the wheel is empty.
    pub(super) fn start_at(&mut self, at: Instant) {
        if self.len == 0 {
            self.base = tick(at);
        }
    }

    /// Returns `true` if the wheel has a slot for this time.
    pub(super) fn covers(&self, at: Instant) -> bool {
        tick(at).checked_sub(self.base).is_some_and(|ahead| (1..SLOTS as u64).contains(&ahead))
    }

    /// Inserts a timer whose time is covered and which is not in the wheel.
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

    /// Removes a timer, which must be in the wheel.
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

    /// Removes a timer of the [first tick](Self::first_tick).
    pub(super) fn pop(&mut self, tick: u64) -> Option<Armed> {
        let first = self.firsts[slot_of(tick)];
        (first != NIL).then(|| self.remove(first))
    }

    /// Advances to a tick after `base`; no earlier timers may be left.
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
