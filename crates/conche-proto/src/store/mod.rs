//! Containers that peers can fill: bounded by their owners, without pauses when they grow, and
//! resistant to chosen keys.
//!
//! Values live in an [`Arena`], each at an index of the arena's own [type](index_type). A value can
//! be in several orders without allocation: a [`List`] links values in FIFO order, by a marker type
//! such as `Idle`; an [`Index`] finds them by hash; [`Timers`] wake them. Rare parts are created
//! [on demand](OnDemand).

mod arena;
mod index;
mod list;
mod timers;

pub(crate) use arena::{Arena, ArenaIndex, Compact, NIL, index_type};
pub(crate) use index::Index;
pub(crate) use list::{Chain, Linked, Links, List};
pub(crate) use timers::Timers;

use alloc::boxed::Box;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// A rarely used type, created [on demand](OnDemand).
pub(crate) trait Seldom: Sized {
    type Recipe;

    /// Returns a shared empty value for reads that do not depend on the recipe.
    fn empty<'a>() -> &'a Self
    where
        Self: 'a;

    fn make(recipe: &Self::Recipe) -> Self;
}

/// A pointer and a recipe until first borrowed mutably; [`made`](Self::made) does not create the
/// value.
pub(crate) struct OnDemand<T: Seldom> {
    made: Option<Box<T>>,
    recipe: T::Recipe,
}

impl<T: Seldom> OnDemand<T> {
    pub(crate) const fn new(recipe: T::Recipe) -> Self {
        Self { made: None, recipe }
    }

    #[inline]
    pub(crate) fn made(&mut self) -> Option<&mut T> {
        self.made.as_deref_mut()
    }
}

impl<T: Seldom> Deref for OnDemand<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.made {
            Some(made) => made,
            None => T::empty(),
        }
    }
}

impl<T: Seldom> DerefMut for OnDemand<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.made.get_or_insert_with(|| Box::new(T::make(&self.recipe)))
    }
}

impl<T: Seldom + fmt::Debug> fmt::Debug for OnDemand<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    impl<T> Seldom for Vec<T> {
        type Recipe = usize;

        fn empty<'a>() -> &'a Self
        where
            Self: 'a,
        {
            const { &Self::new() }
        }

        fn make(capacity: &usize) -> Self {
            Self::with_capacity(*capacity)
        }
    }

    #[test]
    fn a_part_is_made_by_the_first_change_and_not_by_looking() {
        let mut part = OnDemand::<Vec<u8>>::new(7);
        assert!(part.is_empty() && part.made.is_none());
        part.push(1);
        assert_eq!((part.as_slice(), part.capacity()), (&[1][..], 7));
        assert_eq!(size_of::<OnDemand<Vec<u8>>>(), 2 * size_of::<usize>());
    }
}
