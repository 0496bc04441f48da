//! [`Index`]: finds things in an arena by a hash, and grows bucket by bucket (linear hashing, Litwin 1980).
//!
//! A table that doubles stops everything while a million entries are hashed again. This one splits two buckets for each
//! entry that comes in, and moves nothing else. The hash of an entry is kept, so that a split asks nothing but the
//! entries of one chain.
//!
//! There are twice as many buckets as entries, so that most have one entry or none, and a byte for each bucket tells what
//! is in it. So a search that finds nothing, as most do, and the end of an entry look at little else: a million of these
//! bytes fit a cache, a million entries do not.
//!
//! Chains stay short only if nobody can choose hashes: they come from [`Keyed`](crate::hash::Keyed).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use super::{Arena, NIL};

/// Buckets for each entry.
const BUCKETS: usize = 2;

/// Buckets that an index keeps when it is empty.
const KEPT: usize = 64;

/// Buckets in a chunk; the first chunk grows up to that.
const CHUNK: usize = 256;

/// What is in a bucket: nothing, more than one entry, or one whose hash has this byte otherwise.
const NOTHING: u8 = 0;
const MANY: u8 = 1;

/// The byte of an only entry: of bits that do not choose its bucket.
const fn byte_of(hash: u32) -> u8 {
    let [.., byte] = hash.to_le_bytes();
    if byte > MANY { byte } else { MANY + 1 }
}

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

/// An index of kind `L`. It takes no more than a pointer before its first entry.
pub(crate) struct Index<L> {
    table: Option<Box<Table>>,
    kind: PhantomData<L>,
}

#[derive(Default)]
struct Table {
    /// What is in each bucket.
    contents: Vec<u8>,
    /// The first entry of each bucket.
    firsts: Vec<Vec<u32>>,
    /// The bits of a hash that name a bucket, of which the last ones may not be there yet.
    mask: usize,
    len: usize,
    /// Buckets and entries looked at by all searches so far.
    steps: u64,
}

impl<L> Index<L> {
    /// Bytes for each entry at most, while the bytes of buckets have just doubled.
    pub(crate) const BYTES: usize = BUCKETS * (size_of::<u32>() + 2 * size_of::<u8>());

    pub(crate) const fn new() -> Self {
        Self { table: None, kind: PhantomData }
    }

    /// Buckets and entries looked at by all searches so far: what an attack on the hash would drive up.
    pub(crate) fn steps(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.steps)
    }

    /// The entry with this hash that is the right one.
    #[inline]
    pub(crate) fn find<T: Chained<L>>(
        &mut self,
        arena: &Arena<T>,
        hash: u64,
        is_it: impl Fn(&T) -> bool,
    ) -> Option<u32> {
        let table = self.table.as_mut()?;
        table.steps += 1;
        let first = table.candidate(short(hash))?;
        let (found, steps) = search(arena, first, short(hash), is_it);
        table.steps += steps;
        found
    }

    /// The same for those who only look, uncounted.
    pub(crate) fn peek<T: Chained<L>>(&self, arena: &Arena<T>, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<u32> {
        let first = self.table.as_ref()?.candidate(short(hash))?;
        search(arena, first, short(hash), is_it).0
    }

    /// Enters what is not in the index.
    #[inline]
    pub(crate) fn insert<T: Chained<L>>(&mut self, arena: &mut Arena<T>, hash: u64, index: u32) {
        let table = self.table.get_or_insert_default();
        table.len += 1;
        if table.contents.len() < BUCKETS * table.len {
            table.grow(arena);
        }
        table.link(arena, short(hash), index);
    }

    /// Takes out what is in the index.
    #[inline]
    pub(crate) fn remove<T: Chained<L>>(&mut self, arena: &mut Arena<T>, index: u32) {
        if let Some(table) = &mut self.table {
            table.remove(arena, index);
        }
    }
}

impl Table {
    /// The first entry of the bucket in which one with this hash can be.
    #[inline]
    fn candidate(&self, hash: u32) -> Option<u32> {
        let bucket = self.bucket(hash)?;
        let content = self.contents[bucket];
        (content == MANY || content == byte_of(hash)).then(|| self.first(bucket))
    }

    #[inline]
    fn remove<L, T: Chained<L>>(&mut self, arena: &mut Arena<T>, index: u32) {
        let chain = arena[index].chain();
        if let Some(bucket) = self.leave(chain.hash) {
            self.unlink(arena, bucket, index, chain.next);
        }
    }

    /// One entry less, with this hash: the bucket that it has to be taken out of, if others are in there.
    #[inline]
    fn leave(&mut self, hash: u32) -> Option<usize> {
        let bucket = self.bucket(hash)?;
        self.len -= 1;
        if self.contents[bucket] == MANY {
            return Some(bucket);
        }
        self.contents[bucket] = NOTHING;
        if self.len == 0 && self.contents.len() > KEPT {
            // What grew under load is given back when it is over.
            (self.contents, self.firsts, self.mask) = (Vec::new(), Vec::new(), 0);
        }
        None
    }

    #[inline(never)]
    fn unlink<L, T: Chained<L>>(&mut self, arena: &mut Arena<T>, bucket: usize, index: u32, next: u32) {
        let mut first = self.first(bucket);
        if first == index {
            first = next;
            *self.first_mut(bucket) = next;
        } else {
            let mut before = first;
            while arena[before].chain().next != index {
                before = arena[before].chain().next;
            }
            let before = &mut arena[before];
            before.set_chain(Chain { next, ..before.chain() });
        }
        let left = arena[first].chain();
        self.contents[bucket] = if left.next == NIL { byte_of(left.hash) } else { MANY };
    }

    #[inline]
    fn link<L, T: Chained<L>>(&mut self, arena: &mut Arena<T>, hash: u32, index: u32) {
        arena[index].set_chain(self.enter(hash, index));
    }

    /// Puts an entry with this hash before those in its bucket; its place there.
    #[inline]
    fn enter(&mut self, hash: u32, index: u32) -> Chain {
        let Some(bucket) = self.bucket(hash) else { return Chain { hash, next: NIL } };
        let before = core::mem::replace(self.first_mut(bucket), index);
        let content = &mut self.contents[bucket];
        let next = if *content == NOTHING { NIL } else { before };
        *content = if next == NIL { byte_of(hash) } else { MANY };
        Chain { hash, next }
    }

    /// The bucket of a hash: as many of its bits as there are buckets, less one where that bucket is not there yet.
    #[inline]
    fn bucket(&self, hash: u32) -> Option<usize> {
        let buckets = self.contents.len();
        let bucket = hash as usize & self.mask;
        (buckets > 0).then_some(if bucket < buckets { bucket } else { bucket & (self.mask >> 1) })
    }

    #[inline]
    fn first(&self, bucket: usize) -> u32 {
        self.firsts[bucket / CHUNK][bucket % CHUNK]
    }

    #[inline]
    fn first_mut(&mut self, bucket: usize) -> &mut u32 {
        &mut self.firsts[bucket / CHUNK][bucket % CHUNK]
    }

    /// Adds the buckets that are missing. A function of its own, so that one that has nothing to add stays short.
    #[inline(never)]
    fn grow<L, T: Chained<L>>(&mut self, arena: &mut Arena<T>) {
        while self.contents.len() < BUCKETS * self.len {
            self.split(arena);
        }
    }

    /// Adds a bucket, and moves to it what belongs there from the one that it splits.
    fn split<L, T: Chained<L>>(&mut self, arena: &mut Arena<T>) {
        let added = self.contents.len();
        match self.firsts.last_mut() {
            Some(last) if !added.is_multiple_of(CHUNK) => last.push(NIL),
            last => {
                let mut chunk = Vec::with_capacity(if last.is_none() { 1 } else { CHUNK });
                chunk.push(NIL);
                self.firsts.push(chunk);
            }
        }
        self.contents.push(NOTHING);
        if added > self.mask {
            self.mask = 2 * self.mask + 1;
        }
        if added == 0 {
            return;
        }
        // The bucket whose number has the same bits but the highest.
        let split = added & (self.mask >> 1);
        let content = self.contents[split];
        if content == NOTHING {
            return;
        }
        let mut index = self.first(split);
        if content != MANY && self.bucket(arena[index].chain().hash) == Some(split) {
            return;
        }
        self.contents[split] = NOTHING;
        while index != NIL {
            let Chain { hash, next } = arena[index].chain();
            self.link(arena, hash, index);
            index = next;
        }
    }
}

/// The entry with this hash that is the right one, in the chain that begins with `index`, and the entries looked at.
fn search<L, T: Chained<L>>(
    arena: &Arena<T>,
    mut index: u32,
    hash: u32,
    is_it: impl Fn(&T) -> bool,
) -> (Option<u32>, u64) {
    let mut steps = 0;
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

impl<L> fmt::Debug for Index<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.table.as_ref().map_or(0, |table| table.len);
        f.debug_struct("Index").field("len", &len).field("steps", &self.steps()).finish_non_exhaustive()
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

    fn buckets(index: &Index<Numbers>) -> usize {
        index.table.as_ref().map_or(0, |table| table.contents.len())
    }

    #[test]
    fn an_entry_that_comes_in_splits_two_buckets_at_most() {
        let (mut arena, mut index) = (Arena::new(), Index::<Numbers>::new());
        for key in 0..100_000 {
            let place = arena.insert(Entry { key, chain: Chain::default() }).expect("room");
            let before = buckets(&index);
            index.insert(&mut arena, hash(key), place);
            assert!(buckets(&index) <= before + BUCKETS);
        }
        assert_eq!(buckets(&index), BUCKETS * 100_000);
        for key in 0..100_000 {
            assert!(index.find(&arena, hash(key), |entry: &Entry| entry.key == key).is_some());
        }
        assert!(index.steps() < 250_000, "{} steps for 100 000 searches", index.steps());
    }
}
