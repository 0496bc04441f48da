//! [`Index`]: finds things in an arena by a hash, and grows by one bucket at a time (linear hashing, Litwin 1980).
//!
//! A table that doubles stops everything while a million entries are hashed again. This one splits one bucket for each
//! entry that comes in. The hash of an entry is kept, so that a split asks nothing but the entries of one chain. All
//! that is ever copied at once is the vector of chain heads, four bytes an entry.
//!
//! Chains stay short only if nobody can choose hashes: they come from [`Keyed`](crate::hash::Keyed).

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use super::{Arena, NIL};

/// Buckets that an index keeps when it is empty.
const KEPT: usize = 64;

/// The place of an entry in the index of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) hash: u32,
    /// The next entry in the same bucket.
    pub(crate) next: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { hash: 0, next: NIL }
    }
}

/// Has a [`Chain`] for the indexes of kind `L`.
pub(crate) trait Chained<L> {
    fn chain(&self) -> Chain;
    fn set_chain(&mut self, chain: Chain);
}

/// An index of kind `L`.
pub(crate) struct Index<L> {
    /// The first entry of each bucket.
    heads: Vec<u32>,
    len: usize,
    /// Entries looked at by all searches so far.
    steps: u64,
    kind: PhantomData<L>,
}

impl<L> Index<L> {
    /// Bytes for each entry at most, while the vector of heads has just doubled.
    pub(crate) const BYTES: usize = 2 * size_of::<u32>();

    pub(crate) const fn new() -> Self {
        Self { heads: Vec::new(), len: 0, steps: 0, kind: PhantomData }
    }

    /// Entries looked at by all searches so far: what an attack on the hash would drive up.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// The entry with this hash that is the right one.
    pub(crate) fn find<T: Chained<L>>(
        &mut self,
        arena: &Arena<T>,
        hash: u64,
        is_it: impl Fn(&T) -> bool,
    ) -> Option<u32> {
        let (found, steps) = self.search(arena, short(hash), is_it);
        self.steps += steps;
        found
    }

    /// The same for those who only look, uncounted.
    pub(crate) fn peek<T: Chained<L>>(&self, arena: &Arena<T>, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<u32> {
        self.search(arena, short(hash), is_it).0
    }

    fn search<T: Chained<L>>(&self, arena: &Arena<T>, hash: u32, is_it: impl Fn(&T) -> bool) -> (Option<u32>, u64) {
        let mut steps = 0;
        let mut index = self.bucket(hash).map_or(NIL, |bucket| self.heads[bucket]);
        while index != NIL {
            steps += 1;
            let entry = &arena[index];
            let chain = entry.chain();
            if chain.hash == hash && is_it(entry) {
                return (Some(index), steps);
            }
            index = chain.next;
        }
        (None, steps)
    }

    /// Enters what is not in the index.
    pub(crate) fn insert<T: Chained<L>>(&mut self, arena: &mut Arena<T>, hash: u64, index: u32) {
        if self.len >= self.heads.len() {
            self.split(arena);
        }
        self.len += 1;
        self.link(arena, short(hash), index);
    }

    /// Takes out what is in the index.
    pub(crate) fn remove<T: Chained<L>>(&mut self, arena: &mut Arena<T>, index: u32) {
        let Chain { hash, next } = arena[index].chain();
        let Some(bucket) = self.bucket(hash) else { return };
        if self.heads[bucket] == index {
            self.heads[bucket] = next;
        } else {
            let mut before = self.heads[bucket];
            while arena[before].chain().next != index {
                before = arena[before].chain().next;
            }
            let before = &mut arena[before];
            before.set_chain(Chain { next, ..before.chain() });
        }
        self.len -= 1;
        if self.len == 0 && self.heads.len() > KEPT {
            // What grew under load is given back when it is over.
            self.heads = Vec::new();
        }
    }

    fn link<T: Chained<L>>(&mut self, arena: &mut Arena<T>, hash: u32, index: u32) {
        if let Some(bucket) = self.bucket(hash) {
            let next = core::mem::replace(&mut self.heads[bucket], index);
            arena[index].set_chain(Chain { hash, next });
        }
    }

    /// The bucket of a hash: as many of its bits as there are buckets, less one where that bucket is not there yet.
    fn bucket(&self, hash: u32) -> Option<usize> {
        let buckets = self.heads.len();
        let mask = buckets.checked_next_power_of_two()? - 1;
        let bucket = hash as usize & mask;
        (buckets > 0).then_some(if bucket < buckets { bucket } else { bucket & (mask >> 1) })
    }

    /// Adds a bucket, and moves to it what belongs there from the one that it splits.
    fn split<T: Chained<L>>(&mut self, arena: &mut Arena<T>) {
        let added = self.heads.len();
        self.heads.push(NIL);
        let Some(bit) = added.checked_ilog2() else { return };
        let mut index = core::mem::replace(&mut self.heads[added - (1 << bit)], NIL);
        while index != NIL {
            let Chain { hash, next } = arena[index].chain();
            self.link(arena, hash, index);
            index = next;
        }
    }
}

impl<L> fmt::Debug for Index<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("len", &self.len).field("steps", &self.steps).finish_non_exhaustive()
    }
}

/// The half of a hash that is kept.
pub(crate) const fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    struct Numbers;

    struct Entry {
        key: u64,
        chain: Chain,
    }

    impl Chained<Numbers> for Entry {
        fn chain(&self) -> Chain {
            self.chain
        }

        fn set_chain(&mut self, chain: Chain) {
            self.chain = chain;
        }
    }

    /// The finaliser of MurmurHash3: all bits depend on all bits.
    const fn hash(key: u64) -> u64 {
        let hash = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ hash >> 33
    }

    proptest! {
        #[test]
        fn what_is_in_is_found_and_what_is_not_is_not(keys in prop::collection::vec(0..64u64, 1..400)) {
            let (mut arena, mut index) = (Arena::new(), Index::<Numbers>::new());
            let mut model = BTreeMap::new();
            for key in keys {
                let found = index.find(&arena, hash(key), |entry: &Entry| entry.key == key);
                prop_assert_eq!(found, model.get(&key).copied());
                match model.remove(&key) {
                    Some(place) => {
                        index.remove(&mut arena, place);
                        arena.remove(place);
                    }
                    None => {
                        let place = arena.insert(Entry { key, chain: Chain::default() }).expect("room");
                        index.insert(&mut arena, hash(key), place);
                        model.insert(key, place);
                    }
                }
            }
        }
    }

    #[test]
    fn an_entry_that_comes_in_moves_one_chain_at_most() {
        let (mut arena, mut index) = (Arena::new(), Index::<Numbers>::new());
        for key in 0..100_000 {
            let place = arena.insert(Entry { key, chain: Chain::default() }).expect("room");
            let before = index.heads.len();
            index.insert(&mut arena, hash(key), place);
            assert!(index.heads.len() <= before + 1);
        }
        assert_eq!(index.heads.len(), 100_000);
        for key in 0..100_000 {
            assert!(index.find(&arena, hash(key), |entry: &Entry| entry.key == key).is_some());
        }
        assert!(index.steps() < 200_000, "{} steps for 100 000 searches", index.steps());
    }
}
