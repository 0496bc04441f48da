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
pub(crate) trait CreateOnDemand: Sized {
    type Config;

    /// Returns a shared empty value for reads that do not depend on the configuration.
    fn empty<'a>() -> &'a Self
    where
        Self: 'a;

    fn create(config: &Self::Config) -> Self;
}

/// A pointer and a configuration until first borrowed mutably; [`created`](Self::created) does not
/// create the value.
pub(crate) struct OnDemand<T: CreateOnDemand> {
    value: Option<Box<T>>,
    config: T::Config,
}

impl<T: CreateOnDemand> OnDemand<T> {
    pub(crate) const fn new(config: T::Config) -> Self {
        Self { value: None, config }
    }

    #[inline]
    pub(crate) fn created(&mut self) -> Option<&mut T> {
        self.value.as_deref_mut()
    }
}

impl<T: CreateOnDemand> Deref for OnDemand<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => T::empty(),
        }
    }
}

impl<T: CreateOnDemand> DerefMut for OnDemand<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.get_or_insert_with(|| Box::new(T::create(&self.config)))
    }
}

impl<T: CreateOnDemand + fmt::Debug> fmt::Debug for OnDemand<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    impl<T> CreateOnDemand for Vec<T> {
        type Config = usize;

        fn empty<'a>() -> &'a Self
        where
            Self: 'a,
        {
            const { &Self::new() }
        }

        fn create(capacity: &usize) -> Self {
            Self::with_capacity(*capacity)
        }
    }

    #[test]
    fn a_part_is_made_by_the_first_change_and_not_by_looking() {
        let mut part = OnDemand::<Vec<u8>>::new(7);
        assert!(part.is_empty() && part.value.is_none());
        part.push(1);
        assert_eq!((part.as_slice(), part.capacity()), (&[1][..], 7));
        assert_eq!(size_of::<OnDemand<Vec<u8>>>(), 2 * size_of::<usize>());
    }
}
