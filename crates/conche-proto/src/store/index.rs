//! [`Index`]: finds values in an arena by hash, and grows bucket by bucket (linear hashing, Litwin
//! 1980).
//!
//! A doubling table would pause to rehash all entries; an insertion here splits two buckets. Hashes
//! are stored with the chains, so that a split reads the entries of one chain only.
//!
//! With two buckets per entry, most hold at most one, and one byte per bucket summarizes its
//! content. Unsuccessful searches, the most frequent ones, read little else: a million of these
//! bytes fit a CPU cache, a million entries do not. Chains are stored here, by place, for the same
//! reason.
//!
//! Chains stay short because peers cannot choose the hashes: they come from
//! [`Keyed`](crate::hash::Keyed).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;
use core::marker::PhantomData;

use super::{Arena, ArenaIndex, NIL};

const BUCKETS: usize = 2;

/// Buckets that an empty index keeps (5 KiB), so that short-lived entries do not regrow it.
const KEPT: usize = 1024;

/// Summary of a bucket: empty, several entries, or else the hash byte of its single entry.
const NOTHING: u8 = 0;
const MANY: u8 = 1;

/// Returns hash bits that do not select the bucket.
const fn byte_of(hash: u32) -> u8 {
    let [.., byte] = hash.to_le_bytes();
    if byte > MANY { byte } else { MANY + 1 }
}

/// An index of one arena. A single entry is stored inline: most clients have one peer and one
/// request.
pub(crate) struct Index<I> {
    entries: Entries,
    index: PhantomData<fn() -> I>,
}

enum Entries {
    None,
    One {
        hash: u32,
        index: u32,
    },
    /// More than one entry, now or earlier.
    Many(Box<Table>),
}

#[derive(Default)]
struct Table {
    contents: Vec<u8>,
    firsts: Chunks<u32>,
    /// Successors by place in the arena.
    chains: Chunks<Chain>,
    /// Hash bits that select a bucket; the highest buckets may not exist yet.
    mask: usize,
    len: usize,
    steps: u64,
}

#[derive(Clone, Copy)]
struct Chain {
    hash: u32,
    next: u32,
}

impl<I: ArenaIndex> Index<I> {
    /// Bytes per entry, just after the buckets doubled.
    pub(crate) const BYTES: usize = size_of::<Chain>() + BUCKETS * (size_of::<u32>() + 2 * size_of::<u8>());

    pub(crate) const fn new() -> Self {
        Self { entries: Entries::None, index: PhantomData }
    }

    /// Counts visited buckets and entries: an attack on the hash increases it.
    pub(crate) fn steps(&self) -> u64 {
        match &self.entries {
            Entries::Many(table) => table.steps,
            Entries::None | Entries::One { .. } => 0,
        }
    }

    #[inline]
    pub(crate) fn find<T>(&mut self, arena: &Arena<T, I>, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<I> {
        match &mut self.entries {
            Entries::Many(table) => table.find(arena, short(hash), is_it),
            Entries::None | Entries::One { .. } => self.peek(arena, hash, is_it),
        }
    }

    /// As [`find`](Self::find), without counting.
    #[inline]
    pub(crate) fn peek<T>(&self, arena: &Arena<T, I>, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<I> {
        match &self.entries {
            Entries::None => None,
            &Entries::One { hash: only, index } => {
                (only == short(hash) && is_it(&arena[I::of(index)])).then(|| I::of(index))
            }
            Entries::Many(table) => table.search(arena, short(hash), is_it).0,
        }
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Entries::Many(table) = &self.entries
            && let Some(bucket) = table.bucket(short(hash))
        {
            black_box((table.contents[bucket], table.firsts[bucket]));
        }
    }

    #[inline]
    pub(crate) fn prefetch_removal(&self, index: I) {
        if let Entries::Many(table) = &self.entries
            && let Some(bucket) = table.bucket(table.chains[index.number() as usize].hash)
        {
            black_box(table.contents[bucket]);
        }
    }

    /// The entry must not be in the index.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, index: I) {
        match &mut self.entries {
            Entries::None => self.entries = Entries::One { hash: short(hash), index: index.number() },
            Entries::Many(table) => table.insert(short(hash), index.number()),
            &mut Entries::One { hash: before, index: first } => {
                let mut table = Box::<Table>::default();
                table.insert(before, first);
                table.insert(short(hash), index.number());
                self.entries = Entries::Many(table);
            }
        }
    }

    /// The entry must be in the index.
    #[inline]
    pub(crate) fn remove(&mut self, index: I) {
        match &mut self.entries {
            Entries::None => {}
            Entries::One { .. } => self.entries = Entries::None,
            Entries::Many(table) => table.remove(index.number()),
        }
    }

    fn len(&self) -> usize {
        match &self.entries {
            Entries::None => 0,
            Entries::One { .. } => 1,
            Entries::Many(table) => table.len,
        }
    }
}

impl Table {
    #[inline]
    fn find<T, I: ArenaIndex>(&mut self, arena: &Arena<T, I>, hash: u32, is_it: impl Fn(&T) -> bool) -> Option<I> {
        let (found, steps) = self.search(arena, hash, is_it);
        self.steps += 1 + steps;
        found
    }

    /// Returns an entry and the number of visits. A single entry is compared after its byte: its
    /// hash would be another cache miss.
    #[inline]
    fn search<T, I: ArenaIndex>(&self, arena: &Arena<T, I>, hash: u32, is_it: impl Fn(&T) -> bool) -> (Option<I>, u64) {
        let Some(bucket) = self.bucket(hash) else { return (None, 0) };
        match self.contents[bucket] {
            MANY => self.follow(arena, self.firsts[bucket], hash, is_it),
            content if content == byte_of(hash) => {
                let index = I::of(self.firsts[bucket]);
                (is_it(&arena[index]).then_some(index), 1)
            }
            _ => (None, 0),
        }
    }

    fn follow<T, I: ArenaIndex>(
        &self,
        arena: &Arena<T, I>,
        mut index: u32,
        hash: u32,
        is_it: impl Fn(&T) -> bool,
    ) -> (Option<I>, u64) {
        let mut steps = 0;
        while index != NIL {
            steps += 1;
            let chain = self.chains[index as usize];
            if chain.hash == hash && is_it(&arena[I::of(index)]) {
                return (Some(I::of(index)), steps);
            }
            index = chain.next;
        }
        (None, steps)
    }

    fn insert(&mut self, hash: u32, index: u32) {
        self.len += 1;
        if self.contents.len() < BUCKETS * self.len {
            self.grow();
        }
        self.enter(hash, index);
    }

    fn remove(&mut self, index: u32) {
        let Chain { hash, next } = self.chains[index as usize];
        let Some(bucket) = self.bucket(hash) else { return };
        self.len -= 1;
        if self.contents[bucket] == MANY {
            return self.unlink(bucket, index, next);
        }
        self.contents[bucket] = NOTHING;
        if self.len == 0 && self.contents.len() > KEPT {
            // Return the memory needed under load.
            *self = Self { steps: self.steps, ..Self::default() };
        }
    }

    fn unlink(&mut self, bucket: usize, index: u32, next: u32) {
        let mut first = self.firsts[bucket];
        if first == index {
            first = next;
            self.firsts[bucket] = next;
        } else {
            let mut before = first;
            while self.chains[before as usize].next != index {
                before = self.chains[before as usize].next;
            }
            self.chains[before as usize].next = next;
        }
        let left = self.chains[first as usize];
        self.contents[bucket] = if left.next == NIL { byte_of(left.hash) } else { MANY };
    }

    #[inline]
    fn enter(&mut self, hash: u32, index: u32) {
        let Some(bucket) = self.bucket(hash) else { return };
        let (content, first) = (&mut self.contents[bucket], &mut self.firsts[bucket]);
        let next = match core::mem::replace(content, MANY) {
            NOTHING => {
                *content = byte_of(hash);
                *first = index;
                NIL
            }
            _ => core::mem::replace(first, index),
        };
        self.chains.put(index as usize, Chain { hash, next });
    }

    /// Returns the bucket of the hash's lower bits; with one bit fewer if it does not exist yet.
    #[inline]
    fn bucket(&self, hash: u32) -> Option<usize> {
        let buckets = self.contents.len();
        let bucket = hash as usize & self.mask;
        (buckets > 0).then_some(if bucket < buckets { bucket } else { bucket & (self.mask >> 1) })
    }

    /// Prefetches the chain to split when this bucket is added.
    #[inline]
    fn prefetch_split(&self, added: usize) {
        let split = added & (self.mask >> 1);
        if self.contents.get(split).is_some_and(|content| *content != NOTHING) {
            black_box(self.chains[self.firsts[split] as usize].next);
        }
    }

    /// Out of line, to keep the common path short.
    #[inline(never)]
    fn grow(&mut self) {
        while self.contents.len() < BUCKETS * self.len {
            self.split();
        }
    }

    fn split(&mut self) {
        let added = self.contents.len();
        self.prefetch_split(added + AHEAD);
        self.firsts.put(added, NIL);
        self.contents.push(NOTHING);
        if added > self.mask {
            self.mask = 2 * self.mask + 1;
        }
        if added == 0 {
            return;
        }
        // The same bits except the highest.
        let split = added & (self.mask >> 1);
        let content = self.contents[split];
        if content == NOTHING {
            return;
        }
        let mut index = self.firsts[split];
        if content != MANY && self.bucket(self.chains[index as usize].hash) == Some(split) {
            return;
        }
        self.contents[split] = NOTHING;
        while index != NIL {
            let Chain { hash, next } = self.chains[index as usize];
            self.enter(hash, index);
            index = next;
        }
    }
}

const AHEAD: usize = 8;

/// Numbered values in chunks; only the first chunk moves.
struct Chunks<T> {
    chunks: Vec<Vec<T>>,
}

const CHUNK: usize = 256;

impl<T: Copy> Chunks<T> {
    #[inline]
    fn put(&mut self, number: usize, value: T) {
        match self.chunks.get_mut(number / CHUNK).and_then(|chunk| chunk.get_mut(number % CHUNK)) {
            Some(place) => *place = value,
            None => self.make(number, value),
        }
    }

    #[inline(never)]
    fn make(&mut self, number: usize, value: T) {
        let chunk = number / CHUNK;
        if self.chunks.is_empty() {
            // Most indexes have a single chunk.
            self.chunks.reserve_exact(1);
        }
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        let wanted = if chunk > 0 { CHUNK } else { number + 1 };
        self.chunks[chunk].resize(wanted, value);
    }
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> core::ops::Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        &self.chunks[number / CHUNK][number % CHUNK]
    }
}

impl<T> core::ops::IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.chunks[number / CHUNK][number % CHUNK]
    }
}

impl<I: ArenaIndex> fmt::Debug for Index<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("len", &self.len()).field("steps", &self.steps()).finish_non_exhaustive()
    }
}

const fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The finalizer of MurmurHash3.
    const fn hash(key: u64) -> u64 {
        let hash = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ hash >> 33
    }

    proptest! {
        #[test]
        fn the_index_finds_exactly_the_inserted_keys(keys in prop::collection::vec(0..64u64, 1..400)) {
            let (mut arena, mut index) = (Arena::new(), Index::<u32>::new());
            let mut model = BTreeMap::new();
            for key in keys {
                let found = index.find(&arena, hash(key), |&entry| entry == key);
                prop_assert_eq!(found, model.get(&key).copied());
                match model.remove(&key) {
                    Some(place) => {
                        index.remove(place);
                        arena.remove(place);
                    }
                    None => {
                        let place = arena.insert(key).expect("room");
                        index.insert(hash(key), place);
                        model.insert(key, place);
                    }
                }
            }
        }
    }

    fn buckets(index: &Index<u32>) -> usize {
        match &index.entries {
            Entries::Many(table) => table.contents.len(),
            Entries::None | Entries::One { .. } => 0,
        }
    }

    #[test]
    fn an_only_entry_needs_no_table_and_the_second_one_finds_it_in_there() {
        let mut arena = Arena::new();
        let places = [7, 8].map(|key: u64| arena.insert(key).expect("room"));
        let mut index = Index::<u32>::new();
        for _ in 0..3 {
            index.insert(hash(7), places[0]);
            assert_eq!(index.find(&arena, hash(7), |&entry| entry == 7), Some(places[0]));
            assert_eq!(index.find(&arena, hash(8), |&entry| entry == 8), None);
            index.remove(places[0]);
            assert_eq!((index.find(&arena, hash(7), |&entry| entry == 7), buckets(&index)), (None, 0));
        }
        index.insert(hash(7), places[0]);
        index.insert(hash(8), places[1]);
        for (key, place) in [(7, places[0]), (8, places[1])] {
            assert_eq!(index.find(&arena, hash(key), |&entry| entry == key), Some(place));
        }
    }

    #[test]
    fn an_entry_that_comes_in_splits_two_buckets_at_most() {
        let (mut arena, mut index) = (Arena::new(), Index::<u32>::new());
        for key in 0..100_000 {
            let place = arena.insert(key).expect("room");
            let before = buckets(&index);
            index.insert(hash(key), place);
            // The second entry also moves the first one into the table.
            assert!(buckets(&index) <= before.max(BUCKETS) + BUCKETS);
        }
        assert_eq!(buckets(&index), BUCKETS * 100_000);
        for key in 0..100_000 {
            assert!(index.find(&arena, hash(key), |&entry| entry == key).is_some());
        }
        assert!(index.steps() < 250_000, "{} steps for 100 000 searches", index.steps());
    }
}
