//! [`List`]: values of an arena in a doubly linked list, with removal in O(1).

use core::fmt;
use core::marker::PhantomData;

use smallvec::SmallVec;

use super::{Arena, ArenaIndex, NIL};

/// Neighbours of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    before: u32,
    after: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { before: NIL, after: NIL }
    }
}

pub(crate) trait Linked<L> {
    fn links(&mut self) -> &mut Links;
}

/// A list of kind `L`. Its values must stay in their arena.
pub(crate) struct List<L, I> {
    first: u32,
    last: u32,
    kind: PhantomData<(L, fn() -> I)>,
}

impl<L, I: ArenaIndex> List<L, I> {
    pub(crate) const fn new() -> Self {
        Self { first: NIL, last: NIL, kind: PhantomData }
    }

    pub(crate) fn first(&self) -> Option<I> {
        (self.first != NIL).then(|| I::of(self.first))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NIL
    }

    #[inline]
    pub(crate) fn push_back<T: Linked<L>>(&mut self, arena: &mut Arena<T, I>, index: I) {
        *arena[index].links() = self.append(arena, index);
    }

    /// Appends a value whose links the caller stores.
    #[inline]
    #[must_use]
    pub(crate) fn append<T: Linked<L>>(&mut self, arena: &mut Arena<T, I>, index: I) -> Links {
        let before = core::mem::replace(&mut self.last, index.number());
        match before {
            NIL => self.first = index.number(),
            last => arena[I::of(last)].links().after = index.number(),
        }
        Links { before, after: NIL }
    }

    pub(crate) fn push_front<T: Linked<L>>(&mut self, arena: &mut Arena<T, I>, index: I) {
        *arena[index].links() = Links { before: NIL, after: self.first };
        match self.first {
            NIL => self.last = index.number(),
            first => arena[I::of(first)].links().before = index.number(),
        }
        self.first = index.number();
    }

    pub(crate) fn for_each<T: Linked<L>>(&self, arena: &mut Arena<T, I>, mut pass: impl FnMut(I, &T)) {
        let mut index = self.first;
        while index != NIL {
            pass(I::of(index), &arena[I::of(index)]);
            index = arena[I::of(index)].links().after;
        }
    }

    pub(crate) fn find<T: Linked<L>>(&self, arena: &mut Arena<T, I>, mut is_it: impl FnMut(&T) -> bool) -> Option<I> {
        let mut index = self.first;
        while index != NIL && !is_it(&arena[I::of(index)]) {
            index = arena[I::of(index)].links().after;
        }
        (index != NIL).then(|| I::of(index))
    }

    /// Returns at most `most` values from the front.
    pub(crate) fn first_few<T: Linked<L>>(&self, arena: &mut Arena<T, I>, most: usize) -> SmallVec<[I; 16]> {
        let mut few = SmallVec::new();
        let mut index = self.first;
        while index != NIL && few.len() < most {
            few.push(I::of(index));
            index = arena[I::of(index)].links().after;
        }
        few
    }

    /// The value must be in this list.
    #[inline]
    pub(crate) fn remove<T: Linked<L>>(&mut self, arena: &mut Arena<T, I>, index: I) {
        let links = core::mem::take(arena[index].links());
        self.unlink(arena, links);
    }

    #[inline]
    pub(crate) fn unlink<T: Linked<L>>(&mut self, arena: &mut Arena<T, I>, Links { before, after }: Links) {
        match before {
            NIL => self.first = after,
            before => arena[I::of(before)].links().after = after,
        }
        match after {
            NIL => self.last = before,
            after => arena[I::of(after)].links().before = before,
        }
    }
}

impl<L, I: ArenaIndex> Default for List<L, I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L, I> fmt::Debug for List<L, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").field("first", &self.first).finish_non_exhaustive()
    }
}

/// An unordered [`List`], half as large.
pub(crate) struct Chain<L, I> {
    first: u32,
    kind: PhantomData<(L, fn() -> I)>,
}

impl<L, I: ArenaIndex> Chain<L, I> {
    pub(crate) const fn new() -> Self {
        Self { first: NIL, kind: PhantomData }
    }

    #[inline]
    pub(crate) fn push<T: Linked<L>>(&mut self, arena: &mut Arena<T, I>, index: I) {
        let after = core::mem::replace(&mut self.first, index.number());
        *arena[index].links() = Links { before: NIL, after };
        if after != NIL {
            arena[I::of(after)].links().before = index.number();
        }
    }

    /// The value must be in this chain.
    #[inline]
    pub(crate) fn remove<T: Linked<L>>(&mut self, arena: &mut Arena<T, I>, index: I) {
        let Links { before, after } = core::mem::take(arena[index].links());
        match before {
            NIL => self.first = after,
            before => arena[I::of(before)].links().after = after,
        }
        if after != NIL {
            arena[I::of(after)].links().before = before;
        }
    }

    pub(crate) fn for_each<T: Linked<L>>(&self, arena: &mut Arena<T, I>, mut pass: impl FnMut(I, &T)) {
        let mut index = self.first;
        while index != NIL {
            pass(I::of(index), &arena[I::of(index)]);
            index = arena[I::of(index)].links().after;
        }
    }
}

impl<L, I> fmt::Debug for Chain<L, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("first", &self.first).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    struct Numbers;

    impl Linked<Numbers> for Links {
        fn links(&mut self) -> &mut Links {
            self
        }
    }

    proptest! {
        #[test]
        fn a_chain_contains_exactly_the_entries_not_removed(operations in prop::collection::vec(0..16u32, 1..200)) {
            let mut arena = Arena::new();
            for _ in 0..16 {
                arena.insert(Links::default()).expect("room");
            }
            let (mut chain, mut model) = (Chain::<Numbers, u32>::new(), std::collections::BTreeSet::new());
            for index in operations {
                if model.remove(&index) {
                    chain.remove(&mut arena, index);
                } else {
                    model.insert(index);
                    chain.push(&mut arena, index);
                }
                let mut passed = std::vec::Vec::new();
                chain.for_each(&mut arena, |index, _| passed.push(index));
                passed.sort_unstable();
                prop_assert_eq!(passed, model.iter().copied().collect::<std::vec::Vec<_>>());
            }
        }

        #[test]
        fn a_list_keeps_its_order_under_any_insertions_and_removals(operations in prop::collection::vec((0..3u8, 0..16u32), 1..200)) {
            let mut arena = Arena::new();
            for _ in 0..16 {
                arena.insert(Links::default()).expect("room");
            }
            let (mut list, mut model) = (List::<Numbers, u32>::new(), VecDeque::new());
            for (operation, index) in operations {
                match (operation, model.iter().position(|&other| other == index)) {
                    (_, Some(position)) => {
                        model.remove(position);
                        list.remove(&mut arena, index);
                    }
                    (0, None) => {
                        model.push_front(index);
                        list.push_front(&mut arena, index);
                    }
                    (_, None) => {
                        model.push_back(index);
                        list.push_back(&mut arena, index);
                    }
                }
                let mut walk = std::vec::Vec::new();
                let mut next = list.first();
                while let Some(index) = next {
                    walk.push(index);
                    next = Some(arena[index].after).filter(|&after| after != NIL);
                }
                prop_assert_eq!(&VecDeque::from(walk), &model);
                prop_assert_eq!(list.is_empty(), model.is_empty());
            }
        }
    }
}
