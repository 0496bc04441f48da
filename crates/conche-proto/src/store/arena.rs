//! [`Arena`]: values in numbered places, in chunks that never move.
//!
//! One vector would hold its old and its new self while it doubles, and copy all of it at once. Chunks double up to
//! 1024 places, so that one value costs little and a million of them waste next to nothing.

use alloc::vec::Vec;
use core::mem::{replace, size_of};
use core::ops::{Index, IndexMut};

/// No place.
pub(crate) const NIL: u32 = u32::MAX;

/// Values named by the number of their place; a free place is used before a new one.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    chunks: Vec<Vec<Place<T>>>,
    /// The first free place, or [`NIL`].
    free: u32,
    len: u32,
}

#[derive(Debug)]
enum Place<T> {
    /// Free, as is the next one named here.
    Free(u32),
    Taken(T),
}

/// The first chunk has 4 places, each further one twice as many as the one before, up to 1024.
const FIRST_BITS: u32 = 2;
const LARGEST_BITS: u32 = 10;
const DOUBLING: u32 = LARGEST_BITS - FIRST_BITS + 1;
/// Places in the chunks that double.
const DOUBLED: u32 = (1 << (LARGEST_BITS + 1)) - (1 << FIRST_BITS);

impl<T> Arena<T> {
    /// Bytes of a place.
    pub(crate) const PLACE_BYTES: usize = size_of::<Place<T>>();

    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new(), free: NIL, len: 0 }
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Places for which there is memory, free or taken.
    pub(crate) fn places(&self) -> usize {
        first_of(self.chunks.len())
    }

    /// Places that the next value makes memory for; 0 while there are free ones.
    pub(crate) fn growth(&self) -> usize {
        if self.len() < self.places() { 0 } else { places_in(self.chunks.len()) }
    }

    /// Inserts a value; `None` if all places that a number can name are taken.
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        let index = match self.free {
            NIL => self.push(value)?,
            index => {
                let place = self.place_mut(index)?;
                if let Place::Free(next) = replace(place, Place::Taken(value)) {
                    self.free = next;
                }
                index
            }
        };
        self.len += 1;
        Some(index)
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let free = self.free;
        let place = self.place_mut(index).filter(|place| matches!(place, Place::Taken(_)))?;
        let Place::Taken(value) = replace(place, Place::Free(free)) else { return None };
        self.free = index;
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (chunk, offset) = locate(index);
        match self.chunks.get(chunk)?.get(offset)? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.place_mut(index)? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    fn place_mut(&mut self, index: u32) -> Option<&mut Place<T>> {
        let (chunk, offset) = locate(index);
        self.chunks.get_mut(chunk)?.get_mut(offset)
    }

    /// A value in a place that was never taken before. All those are taken, so the chunks are full but for the last.
    fn push(&mut self, value: T) -> Option<u32> {
        let index = (self.len < NIL).then_some(self.len)?;
        let (chunk, _) = locate(index);
        if chunk == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(places_in(chunk)));
        }
        self.chunks.get_mut(chunk)?.push(Place::Taken(value));
        Some(index)
    }
}

/// For numbers that this crate itself keeps valid.
impl<T> Index<u32> for Arena<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        self.get(index).expect("the place is taken")
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.get_mut(index).expect("the place is taken")
    }
}

/// The chunk of a place, and its position in there.
fn locate(index: u32) -> (usize, usize) {
    if index < DOUBLED {
        let shifted = index + (1 << FIRST_BITS);
        let bits = shifted.ilog2();
        ((bits - FIRST_BITS) as usize, (shifted - (1 << bits)) as usize)
    } else {
        let beyond = index - DOUBLED;
        ((DOUBLING + (beyond >> LARGEST_BITS)) as usize, (beyond & ((1 << LARGEST_BITS) - 1)) as usize)
    }
}

/// The number of places in a chunk.
fn places_in(chunk: usize) -> usize {
    1 << (FIRST_BITS as usize + chunk).min(LARGEST_BITS as usize)
}

/// The number of the first place in a chunk.
fn first_of(chunk: usize) -> usize {
    match chunk.checked_sub(DOUBLING as usize) {
        None => (1 << (FIRST_BITS as usize + chunk)) - (1 << FIRST_BITS),
        Some(beyond) => DOUBLED as usize + (beyond << LARGEST_BITS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn values_keep_their_places_and_free_places_are_used_first() {
        let mut arena = Arena::new();
        let mut model = BTreeMap::new();
        for n in 0..10_000_u32 {
            let index = arena.insert(n).expect("room");
            assert_eq!(model.insert(index, n), None);
            if n % 3 == 0 {
                assert_eq!(arena.remove(index), model.remove(&index));
                assert_eq!(arena.remove(index), None);
            }
        }
        assert_eq!(arena.len(), model.len());
        assert!(arena.places() < model.len() + (1 << LARGEST_BITS));
        assert!(model.iter().all(|(&index, value)| arena.get(index) == Some(value)));
        assert_eq!(arena.get(NIL), None);
    }

    #[test]
    fn chunks_follow_one_another_without_a_gap() {
        let mut next = 0;
        for chunk in 0..40 {
            assert_eq!(first_of(chunk), next);
            for offset in [0, places_in(chunk) - 1] {
                let index = u32::try_from(next + offset).expect("small");
                assert_eq!(locate(index), (chunk, offset));
            }
            next += places_in(chunk);
        }
    }
}
