//! [`OnDemand`]: a part of something that most of its kind never use, made when it is first changed.

use alloc::boxed::Box;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// What is seldom used, and can be made [on demand](OnDemand).
pub(crate) trait Seldom: Sized {
    /// What it is made from.
    type Recipe;

    /// One that nothing was ever put into. It is only looked at, so whatever holds of the recipe alone must not be asked
    /// of it.
    fn empty<'a>() -> &'a Self
    where
        Self: 'a;

    /// One that can be changed.
    fn make(recipe: &Self::Recipe) -> Self;
}

/// A part that takes a pointer and its recipe until it is borrowed mutably. Who would only look for something in it asks
/// for what is [made](Self::made).
pub(crate) struct OnDemand<T: Seldom> {
    made: Option<Box<T>>,
    recipe: T::Recipe,
}

impl<T: Seldom> OnDemand<T> {
    pub(crate) const fn new(recipe: T::Recipe) -> Self {
        Self { made: None, recipe }
    }

    /// It, to be changed if there is anything in it, or was once.
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
    use super::*;
    use alloc::vec::Vec;

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
