use crate::heap::{Entry, time_of};

const DIGIT: usize = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = (u64::BITS as usize).div_ceil(DIGIT);
/// Such a list is sorted in the L1 cache. Between 16 and 128 the value has little effect.
const FEW: usize = 48;
const KEPT: usize = 2 * FEW;

#[derive(Clone, Debug)]
pub(crate) struct Wheel<E> {
    /// Base for digits above the first occupied level; no entry is earlier.
    base: u64,
    /// Occupied slots of each level, and occupied levels.
    occupied: [u64; LEVELS],
    levels: u16,
    slots: Vec<Vec<Entry<E>>>,
    len: usize,
}

impl<E: Copy> Wheel<E> {
    pub(crate) const fn new() -> Self {
        Self { base: 0, occupied: [0; LEVELS], levels: 0, slots: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry, not before the end of the last span handed over.
    pub(crate) fn push(&mut self, entry: Entry<E>) {
        if self.slots.is_empty() {
            self.slots.resize_with(LEVELS * SLOTS, Vec::new);
        }
        self.len += 1;
        self.place(entry);
    }

    /// Appends the earliest span's entries, unordered, to `next`; returns the span's end.
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
