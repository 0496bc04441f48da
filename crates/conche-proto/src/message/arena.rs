//! [`Arena`]: values in numbered places, allocated a chunk at a time.
//!
//! A table that must not outgrow a number of bytes cannot keep its entries in one vector: that doubles when it is full,
//! and holds its old and its new self while it does.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::{replace, size_of};

/// Values named by the number of their place, which is the first one free.
#[derive(Debug)]
pub(super) struct Arena<T> {
    chunks: Vec<Box<[Place<T>]>>,
    free: Option<u32>,
    len: usize,
}

#[derive(Debug)]
enum Place<T> {
    /// Free, as is the next one named here.
    Free(Option<u32>),
    Taken(T),
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: None, len: 0 }
    }
}

impl<T> Arena<T> {
    /// Places in a chunk.
    pub(super) const CHUNK: usize = 64;
    /// Bytes of a place.
    pub(super) const PLACE_BYTES: usize = size_of::<Place<T>>();

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many places there are, free or taken.
    pub(super) fn places(&self) -> usize {
        self.chunks.len() * Self::CHUNK
    }

    /// Inserts a value; `None` if all 2^32 places are taken.
    pub(super) fn insert(&mut self, value: T) -> Option<u32> {
        let index = match self.free {
            Some(index) => index,
            None => self.add_chunk()?,
        };
        if let Place::Free(next) = replace(self.place(index)?, Place::Taken(value)) {
            self.free = next;
        }
        self.len += 1;
        Some(index)
    }

    /// Takes a value out.
    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let free = self.free;
        let place = self.place(index).filter(|place| matches!(place, Place::Taken(_)))?;
        let Place::Taken(value) = replace(place, Place::Free(free)) else { return None };
        self.free = Some(index);
        self.len -= 1;
        Some(value)
    }

    /// The value at `index`.
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        match self.chunks.get(index / Self::CHUNK)?.get(index % Self::CHUNK)? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    /// The value at `index`, to be changed.
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.place(index)? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    fn place(&mut self, index: u32) -> Option<&mut Place<T>> {
        let index = index as usize;
        self.chunks.get_mut(index / Self::CHUNK)?.get_mut(index % Self::CHUNK)
    }

    fn add_chunk(&mut self) -> Option<u32> {
        let first = u32::try_from(self.places()).ok()?;
        let last = first.checked_add(u32::try_from(Self::CHUNK).ok()? - 1)?;
        self.chunks.push((first..=last).map(|index| Place::Free((index < last).then_some(index + 1))).collect());
        self.free = Some(first);
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn values_keep_their_places_and_free_places_are_used_first() {
        let mut arena = Arena::default();
        let mut model = BTreeMap::new();
        for n in 0..1_000_u32 {
            let index = arena.insert(n).expect("room");
            assert_eq!(model.insert(index, n), None);
            if n % 3 == 0 {
                assert_eq!(arena.remove(index), model.remove(&index));
                assert_eq!(arena.remove(index), None);
            }
        }
        assert_eq!(arena.len(), model.len());
        assert!(arena.places() < model.len() + Arena::<u32>::CHUNK);
        assert!(model.iter().all(|(&index, value)| arena.get(index) == Some(value)));
        assert_eq!(arena.get(u32::MAX), None);
    }
}
