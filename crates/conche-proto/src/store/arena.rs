//! [`Arena`]: values in numbered places, in chunks that do not move once full. Only the first chunk
//! doubles, from one place up to [`CHUNK`], so that few values cost little.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem::size_of;
use core::num::NonZeroU32;
use core::ops::{Index, IndexMut};

/// The number of no place.
pub(crate) const NIL: u32 = u32::MAX;

/// An index into an arena, and into the containers of its values. [`index_type`] declares one.
pub(crate) trait ArenaIndex: Copy {
    /// The index of no place.
    const NONE: Self;

    fn of(number: u32) -> Self;

    fn number(self) -> u32;
}

/// Declares the type of the indices of one arena.
macro_rules! index_type {
    ($(#[$attribute:meta])* $visibility:vis $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $visibility struct $name(u32);

        impl $crate::store::ArenaIndex for $name {
            const NONE: Self = Self($crate::store::NIL);

            #[inline]
            fn of(number: u32) -> Self {
                Self(number)
            }

            #[inline]
            fn number(self) -> u32 {
                self.0
            }
        }

        /// For hashes.
        impl From<$name> for u64 {
            #[inline]
            fn from(index: $name) -> Self {
                index.0.into()
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}
pub(crate) use index_type;

/// An index with a niche: its `Option` has the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compact<I> {
    inverse: NonZeroU32,
    index: PhantomData<I>,
}

impl<I: ArenaIndex> Compact<I> {
    #[inline]
    pub(crate) fn of(index: I) -> Option<Self> {
        NonZeroU32::new(!index.number()).map(|inverse| Self { inverse, index: PhantomData })
    }

    #[inline]
    pub(crate) fn get(self) -> I {
        I::of(!self.inverse.get())
    }
}

#[derive(Debug)]
pub(crate) struct Arena<T, I> {
    first: Vec<Place<T>>,
    /// Fixed-size, which saves bounds checks.
    further: Vec<Box<[Place<T>; CHUNK]>>,
    free: u32,
    len: u32,
    index: PhantomData<fn() -> I>,
}

#[derive(Debug)]
enum Place<T> {
    Free(u32),
    Taken(T),
}

/// Places per chunk.
const CHUNK: usize = 256;

impl<T, I: ArenaIndex> Arena<T, I> {
    pub(crate) const PLACE_BYTES: usize = size_of::<Place<T>>();

    pub(crate) const fn new() -> Self {
        Self { first: Vec::new(), further: Vec::new(), free: NIL, len: 0, index: PhantomData }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn places(&self) -> usize {
        self.first.capacity() + self.further.len() * CHUNK
    }

    pub(crate) fn growth(&self) -> usize {
        match self.places() {
            places if self.len() < places => 0,
            0 => 1,
            places => places.min(CHUNK),
        }
    }

    /// Inserts a value; `None` if all numbers are used.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> Option<I> {
        self.insert_with(|| value)
    }

    /// Without a copy.
    #[inline]
    pub(crate) fn insert_with(&mut self, value: impl FnOnce() -> T) -> Option<I> {
        if self.free == NIL {
            self.free = self.new_place()?;
        }
        let index = self.free;
        let place = self.place_mut(index)?;
        let &mut Place::Free(next) = place else { return None };
        // A free place has nothing to drop.
        core::mem::forget(core::mem::replace(place, Place::Taken(value())));
        self.free = next;
        self.len += 1;
        Some(I::of(index))
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: I) {
        let free = self.free;
        if let Some(place @ Place::Taken(_)) = self.place_mut(index.number()) {
            *place = Place::Free(free);
            self.free = index.number();
            self.len -= 1;
        }
    }

    pub(crate) fn take(&mut self, index: I) -> Option<T> {
        let free = self.free;
        let place = self.place_mut(index.number()).filter(|place| matches!(place, Place::Taken(_)))?;
        let Place::Taken(value) = core::mem::replace(place, Place::Free(free)) else { return None };
        self.free = index.number();
        self.len -= 1;
        Some(value)
    }

    #[inline]
    pub(crate) fn get(&self, index: I) -> Option<&T> {
        match self.place(index.number())? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: I) -> Option<&mut T> {
        match self.place_mut(index.number())? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        let further = self.further.iter().flat_map(|chunk| chunk.iter());
        let places = self.first.iter().chain(further).zip(0..);
        places.filter_map(|(place, index)| match place {
            Place::Taken(value) => Some((I::of(index), value)),
            Place::Free(_) => None,
        })
    }

    #[inline]
    fn place(&self, index: u32) -> Option<&Place<T>> {
        match self.first.get(index as usize) {
            Some(place) => Some(place),
            None => further(&self.further, index),
        }
    }

    #[inline]
    fn place_mut(&mut self, index: u32) -> Option<&mut Place<T>> {
        match self.first.get_mut(index as usize) {
            Some(place) => Some(place),
            None => further_mut(&mut self.further, index),
        }
    }

    fn new_place(&mut self) -> Option<u32> {
        let index = (self.len < NIL).then_some(self.len)?;
        let growth = self.growth();
        if self.len() < CHUNK {
            self.first.reserve_exact(growth);
            self.first.push(Place::Free(NIL));
        } else if growth > 0 {
            let chunk: Box<[_]> = (0..CHUNK).map(|_| Place::Free(NIL)).collect();
            self.further.push(chunk.try_into().ok()?);
        }
        Some(index)
    }
}

/// Panics for an invalid number; the crate keeps numbers valid.
impl<T, I: ArenaIndex> Index<I> for Arena<T, I> {
    type Output = T;

    #[inline]
    fn index(&self, index: I) -> &T {
        self.get(index).expect("the place is taken")
    }
}

impl<T, I: ArenaIndex> IndexMut<I> for Arena<T, I> {
    #[inline]
    fn index_mut(&mut self, index: I) -> &mut T {
        self.get_mut(index).expect("the place is taken")
    }
}

/// Cold, to keep the common path short.
#[cold]
fn further<T>(chunks: &[Box<[Place<T>; CHUNK]>], index: u32) -> Option<&Place<T>> {
    chunks.get(chunk(index)).map(|chunk| &chunk[offset(index)])
}

#[cold]
fn further_mut<T>(chunks: &mut [Box<[Place<T>; CHUNK]>], index: u32) -> Option<&mut Place<T>> {
    chunks.get_mut(chunk(index)).map(|chunk| &mut chunk[offset(index)])
}

const fn chunk(index: u32) -> usize {
    (index as usize / CHUNK).wrapping_sub(1)
}

const fn offset(index: u32) -> usize {
    index as usize % CHUNK
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Tests of the containers use plain numbers.
    impl ArenaIndex for u32 {
        const NONE: Self = NIL;

        fn of(number: u32) -> Self {
            number
        }

        fn number(self) -> u32 {
            self
        }
    }

    #[test]
    fn values_keep_their_places_and_free_places_are_used_first() {
        let mut arena = Arena::<u32, u32>::new();
        let mut model = BTreeMap::new();
        for n in 0..10_000_u32 {
            let growth = (arena.places(), arena.growth());
            let index = arena.insert(n).expect("room");
            assert_eq!(arena.places(), growth.0 + growth.1, "it grows as it said");
            assert_eq!(model.insert(index, n), None);
            if n % 3 == 0 {
                arena.remove(index);
                arena.remove(index);
                model.remove(&index);
            }
        }
        assert_eq!(arena.len(), model.len());
        assert!(arena.places() < model.len() + CHUNK);
        assert!(model.iter().all(|(&index, value)| arena.get(index) == Some(value)));
        assert_eq!(arena.get(NIL), None);
    }
}
