//! Events of later, sorted no further than it takes to know which come next: a hierarchical timing wheel (Varghese, Lauck:
//! Hashed and hierarchical timing wheels, SOSP 1987), from which the next few are taken at once.
//!
//! A time is a number with digits to the base 64. An entry is in the slot that the highest digit names in which its time
//! differs from the present one, so that a slot of level n spans 64ⁿ ns. When the first slot has few entries, they are
//! handed over; when it has many, they are distributed over the level below. So an entry moves a few times, each time
//! from the end of one array to that of another, however many there are.

use crate::heap::Entry;
use crate::scheduler::time_of;

/// Bits of a digit.
const DIGIT: usize = 6;
/// Slots of a level, one for each bit of its map.
const SLOTS: usize = 1 << DIGIT;
/// Digits of a 64-bit time.
const LEVELS: usize = (u64::BITS as usize).div_ceil(DIGIT);
/// A slot with no more entries is handed over whatever time it spans: a list of so many is sorted in the nearest cache. Between
/// 16 and 128 the number makes little difference.
const FEW: usize = 48;
/// A slot that had more gives its memory back.
const KEPT: usize = 2 * FEW;

/// Entries by time, in no order within a slot.
#[derive(Clone, Debug)]
pub(crate) struct Wheel<E> {
    /// Where the digits of the levels above the first occupied one are taken from; no entry is earlier.
    base: u64,
    /// Which slots have entries: a map for each level, and one of the levels.
    occupied: [u64; LEVELS],
    levels: u16,
    /// The slots of all levels, once there is an entry.
    slots: Vec<Vec<Entry<E>>>,
    len: usize,
}

impl<E: Copy> Wheel<E> {
    pub(crate) const fn new() -> Self {
        Self { base: 0, occupied: [0; LEVELS], levels: 0, slots: Vec::new(), len: 0 }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry that is no earlier than what was handed over last spans.
    pub(crate) fn push(&mut self, entry: Entry<E>) {
        if self.slots.is_empty() {
            self.slots.resize_with(LEVELS * SLOTS, Vec::new);
        }
        self.len += 1;
        self.place(entry);
    }

    /// Hands over the entries of the earliest span, as many as are worth it, in no order; the answer is the time at which the
    /// span is over, before which nothing may be pushed any more. `None` if there are no entries.
    pub(crate) fn hand_over(&mut self, next: &mut Vec<Entry<E>>) -> Option<u64> {
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

    /// Removes every entry whose value `keep` refuses.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&E) -> bool) {
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
        // A time that does not differ at all is of the lowest level.
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

/// What remains of a time without its digits of this level and those below.
fn above(time: u64, level: usize) -> u64 {
    let bits = (level + 1) * DIGIT;
    if bits < u64::BITS as usize { time >> bits << bits } else { 0 }
}
