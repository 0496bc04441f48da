//! [`Index`]: finds things in an arena by a hash, and grows bucket by bucket (linear hashing, Litwin 1980).
//!
//! A table that doubles stops everything while a million entries are hashed again. This one splits two buckets for each
//! entry that comes in, and moves nothing else. The hash of an entry is kept, so that a split asks nothing but the
//! entries of one chain.
//!
//! There are twice as many buckets as entries, so that most have one entry or none, and a byte for each bucket tells what
//! is in it. So a search that finds nothing, as most do, and the end of an entry look at little else: a million of these
//! bytes fit a cache, a million entries do not. For the same reason the chains stand here, by the places of the entries,
//! and not in the entries: whoever follows one passes over neighbours without a look at what they are.
//!
//! Chains stay short only if nobody can choose hashes: they come from [`Keyed`](crate::hash::Keyed).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;

use super::{Arena, NIL};

/// Buckets for each entry.
const BUCKETS: usize = 2;

/// Buckets that an index keeps when it is empty: 5 KiB, so that hundreds of entries that come and go together do not have it grow each time.
const KEPT: usize = 1024;

/// What is in a bucket: nothing, more than one entry, or one whose hash has this byte otherwise.
const NOTHING: u8 = 0;
const MANY: u8 = 1;

/// The byte of an only entry: of bits that do not choose its bucket.
const fn byte_of(hash: u32) -> u8 {
    let [.., byte] = hash.to_le_bytes();
    if byte > MANY { byte } else { MANY + 1 }
}

/// An index of what is in one arena. An only entry is in the index itself, without any other memory: most endpoints that
/// are clients have one peer, and one request under way.
pub(crate) struct Index {
    entries: Entries,
}

enum Entries {
    None,
    One {
        hash: u32,
        index: u32,
    },
    /// There were more at some time.
    Many(Box<Table>),
}

#[derive(Default)]
struct Table {
    /// What is in each bucket.
    contents: Vec<u8>,
    /// The first entry of each bucket.
    firsts: Chunks<u32>,
    /// What follows each entry, by its place in the arena.
    chains: Chunks<Chain>,
    /// The bits of a hash that name a bucket, of which the last ones may not be there yet.
    mask: usize,
    len: usize,
    /// Buckets and entries looked at by all searches so far.
    steps: u64,
}

/// The place of an entry in the index.
#[derive(Clone, Copy)]
struct Chain {
    hash: u32,
    /// The next entry in the same bucket.
    next: u32,
}

impl Index {
    /// Bytes for each entry at most, while the bytes of buckets have just doubled.
    pub(crate) const BYTES: usize = size_of::<Chain>() + BUCKETS * (size_of::<u32>() + 2 * size_of::<u8>());

    pub(crate) const fn new() -> Self {
        Self { entries: Entries::None }
    }

    /// Buckets and entries looked at by all searches so far, once there were two entries: what an attack on the hash would
    /// drive up.
    pub(crate) fn steps(&self) -> u64 {
        match &self.entries {
            Entries::Many(table) => table.steps,
            Entries::None | Entries::One { .. } => 0,
        }
    }

    /// The entry with this hash that is the right one.
    #[inline]
    pub(crate) fn find<T>(&mut self, arena: &Arena<T>, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<u32> {
        match &mut self.entries {
            Entries::Many(table) => table.find(arena, short(hash), is_it),
            Entries::None | Entries::One { .. } => self.peek(arena, hash, is_it),
        }
    }

    /// The same for those who only look, uncounted.
    #[inline]
    pub(crate) fn peek<T>(&self, arena: &Arena<T>, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<u32> {
        match &self.entries {
            Entries::None => None,
            Entries::One { hash: only, index } => (*only == short(hash) && is_it(&arena[*index])).then_some(*index),
            Entries::Many(table) => table.search(arena, short(hash), is_it).0,
        }
    }

    /// Reads what finding or entering something with this hash needs first.
    #[inline]
    pub(crate) fn glance(&self, hash: u64) {
        if let Entries::Many(table) = &self.entries
            && let Some(bucket) = table.bucket(short(hash))
        {
            black_box((table.contents[bucket], table.firsts[bucket]));
        }
    }

    /// The same for taking out what is in this place.
    #[inline]
    pub(crate) fn glance_at_end(&self, index: u32) {
        if let Entries::Many(table) = &self.entries
            && let Some(bucket) = table.bucket(table.chains[index as usize].hash)
        {
            black_box(table.contents[bucket]);
        }
    }

    /// Enters what is in this place of the arena, and not in the index.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, index: u32) {
        match &mut self.entries {
            Entries::None => self.entries = Entries::One { hash: short(hash), index },
            Entries::Many(table) => table.insert(short(hash), index),
            &mut Entries::One { hash: before, index: first } => {
                let mut table = Box::<Table>::default();
                table.insert(before, first);
                table.insert(short(hash), index);
                self.entries = Entries::Many(table);
            }
        }
    }

    /// Takes out what is in the index.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) {
        match &mut self.entries {
            Entries::None => {}
            Entries::One { .. } => self.entries = Entries::None,
            Entries::Many(table) => table.remove(index),
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
    /// The entry with this hash that is the right one, counting what was looked at.
    #[inline]
    fn find<T>(&mut self, arena: &Arena<T>, hash: u32, is_it: impl Fn(&T) -> bool) -> Option<u32> {
        let (found, steps) = self.search(arena, hash, is_it);
        self.steps += 1 + steps;
        found
    }

    /// The entry with this hash that is the right one, and the entries looked at. An only entry is looked at itself, as its byte
    /// fits: its hash, in the chains, would be as far away.
    #[inline]
    fn search<T>(&self, arena: &Arena<T>, hash: u32, is_it: impl Fn(&T) -> bool) -> (Option<u32>, u64) {
        let Some(bucket) = self.bucket(hash) else { return (None, 0) };
        match self.contents[bucket] {
            MANY => self.follow(arena, self.firsts[bucket], hash, is_it),
            content if content == byte_of(hash) => {
                let index = self.firsts[bucket];
                (is_it(&arena[index]).then_some(index), 1)
            }
            _ => (None, 0),
        }
    }

    /// The same in the chain that begins with `index`.
    fn follow<T>(&self, arena: &Arena<T>, mut index: u32, hash: u32, is_it: impl Fn(&T) -> bool) -> (Option<u32>, u64) {
        let mut steps = 0;
        while index != NIL {
            steps += 1;
            let chain = self.chains[index as usize];
            if chain.hash == hash && is_it(&arena[index]) {
                return (Some(index), steps);
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
            // What grew under load is given back when it is over.
            *self = Self { steps: self.steps, ..Self::default() };
        }
    }

    /// Takes an entry out of a bucket in which others are.
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

    /// Puts an entry with this hash before those in its bucket.
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

    /// The bucket of a hash: as many of its bits as there are buckets, less one where that bucket is not there yet.
    #[inline]
    fn bucket(&self, hash: u32) -> Option<usize> {
        let buckets = self.contents.len();
        let bucket = hash as usize & self.mask;
        (buckets > 0).then_some(if bucket < buckets { bucket } else { bucket & (self.mask >> 1) })
    }

    /// Reads the chain that is split when this bucket is added.
    #[inline]
    fn glance_at_split(&self, added: usize) {
        let split = added & (self.mask >> 1);
        if self.contents.get(split).is_some_and(|content| *content != NOTHING) {
            black_box(self.chains[self.firsts[split] as usize].next);
        }
    }

    /// Adds the buckets that are missing. A function of its own, so that one that has nothing to add stays short.
    #[inline(never)]
    fn grow(&mut self) {
        while self.contents.len() < BUCKETS * self.len {
            self.split();
        }
    }

    /// Adds a bucket, and moves to it what belongs there from the one that it splits.
    fn split(&mut self) {
        let added = self.contents.len();
        self.glance_at_split(added + AHEAD);
        self.firsts.put(added, NIL);
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

/// What the split that adds a bucket will need is read so many splits before, as it is wherever entries happen to be: by then it
/// has come from memory, for which nothing waits meanwhile.
const AHEAD: usize = 8;

/// Numbered things in chunks, of which only the first one is ever moved, and those without anything are not there.
struct Chunks<T> {
    chunks: Vec<Vec<T>>,
}

/// Things in a chunk; the first chunk grows up to that.
const CHUNK: usize = 256;

impl<T: Copy> Chunks<T> {
    /// Puts something in the place of this number, which is made if it is not there yet.
    #[inline]
    fn put(&mut self, number: usize, value: T) {
        match self.chunks.get_mut(number / CHUNK).and_then(|chunk| chunk.get_mut(number % CHUNK)) {
            Some(place) => *place = value,
            None => self.make(number, value),
        }
    }

    /// Makes a place, and others in its chunk.
    #[inline(never)]
    fn make(&mut self, number: usize, value: T) {
        let chunk = number / CHUNK;
        if self.chunks.is_empty() {
            // Most have no other.
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

/// For numbers of what was made.
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

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("len", &self.len()).field("steps", &self.steps()).finish_non_exhaustive()
    }
}

/// The half of a hash that is kept.
const fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The finaliser of MurmurHash3: all bits depend on all bits.
    const fn hash(key: u64) -> u64 {
        let hash = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ hash >> 33
    }

    proptest! {
        #[test]
        fn what_is_in_is_found_and_what_is_not_is_not(keys in prop::collection::vec(0..64u64, 1..400)) {
            let (mut arena, mut index) = (Arena::new(), Index::new());
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

    fn buckets(index: &Index) -> usize {
        match &index.entries {
            Entries::Many(table) => table.contents.len(),
            Entries::None | Entries::One { .. } => 0,
        }
    }

    #[test]
    fn an_only_entry_needs_no_table_and_the_second_one_finds_it_in_there() {
        let mut arena = Arena::new();
        let places = [7, 8].map(|key: u64| arena.insert(key).expect("room"));
        let mut index = Index::new();
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
        let (mut arena, mut index) = (Arena::new(), Index::new());
        for key in 0..100_000 {
            let place = arena.insert(key).expect("room");
            let before = buckets(&index);
            index.insert(hash(key), place);
            // The second entry brings the first one with it.
            assert!(buckets(&index) <= before.max(BUCKETS) + BUCKETS);
        }
        assert_eq!(buckets(&index), BUCKETS * 100_000);
        for key in 0..100_000 {
            assert!(index.find(&arena, hash(key), |&entry| entry == key).is_some());
        }
        assert!(index.steps() < 250_000, "{} steps for 100 000 searches", index.steps());
    }
}
