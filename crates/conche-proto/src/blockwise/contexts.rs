//! [`Contexts`]: what the blocks of peers belong to, bounded in number and bytes, for each peer and in total.
//!
//! Whatever has not been used for its lifetime is dropped. When a bound is reached, what has been idle longest makes room,
//! if it has been so for a while: a client that comes back with the next block in time finds what it began, and one that
//! sends a block now and then keeps nobody else out. Beyond that the newcomer is refused, which leaves its
//! [share](crate::shares) to each group of sources.

use core::cell::Cell;
use core::time::Duration;

use super::cut::PAYLOAD;
use crate::shares::{Group, Shares};
use crate::store::{Arena, Index, Linked, Links, List};
use conche_cc::Instant;

/// Stands for a peer and for what it asks for: the request without the blocks, to which of our addresses. Found by keyed
/// hashes alone; two that coincide are one in 2^64 for whoever does not know the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Whom it belongs to.
    pub(crate) from: u64,
    /// What it is about.
    pub(crate) what: u64,
}

/// The bounds of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Contexts of one peer.
    pub(crate) per_peer: usize,
    /// Contexts in total.
    pub(crate) total: usize,
    /// Bytes in total.
    pub(crate) bytes: usize,
    /// The largest body.
    pub(crate) body_bytes: usize,
    /// What has been idle for so long is dropped.
    pub(crate) idle: Duration,
    /// What is so old is dropped, used or not.
    pub(crate) longest: Duration,
    /// What has been idle for so long makes room for others.
    pub(crate) stale: Duration,
}

impl Bounds {
    /// Of a table that never will hold anything.
    pub(crate) const NONE: Self = Self {
        per_peer: 0,
        total: 0,
        bytes: 0,
        body_bytes: 0,
        idle: Duration::ZERO,
        longest: Duration::ZERO,
        stale: Duration::ZERO,
    };
}

/// There is no room for another context, or for so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

#[derive(Debug)]
struct Context<T> {
    key: Key,
    group: Group,
    bytes: usize,
    begun: Instant,
    used: Instant,
    value: T,
    by_use: Links,
}

struct ByUse;

impl<T> Linked<ByUse> for Context<T> {
    fn links(&mut self) -> &mut Links {
        &mut self.by_use
    }
}

/// A bounded table of contexts.
#[derive(Debug)]
pub(crate) struct Contexts<T> {
    bounds: Bounds,
    slots: Arena<Context<T>>,
    by_key: Index,
    by_peer: Index,
    /// Used longest ago first, so that the first expires first.
    by_use: List<ByUse>,
    /// Contexts and bytes, by source.
    counts: Shares,
    shares: Shares,
    bytes: usize,
}

impl<T> Contexts<T> {
    pub(crate) const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            slots: Arena::new(),
            by_key: Index::new(),
            by_peer: Index::new(),
            by_use: List::new(),
            counts: Shares::new(),
            shares: Shares::new(),
            bytes: 0,
        }
    }

    pub(crate) const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The context of this key, which counts as used. One that is too old is dropped instead.
    pub(crate) fn use_of(&mut self, now: Instant, key: Key) -> Option<(u32, &mut T)> {
        let index = self.find(key)?;
        // At the end of time a sum would have come that never does.
        if now - self.slots[index].begun >= self.bounds.longest {
            self.take(index);
            return None;
        }
        self.by_use.remove(&mut self.slots, index);
        self.by_use.push_back(&mut self.slots, index);
        let context = self.slots.get_mut(index)?;
        context.used = now;
        Some((index, &mut context.value))
    }

    /// The context of this key, which does not count as used.
    pub(crate) fn peek_mut(&mut self, key: Key) -> Option<&mut T> {
        let index = self.find(key)?;
        self.at_mut(index)
    }

    /// How long ago the context of this key was used.
    pub(crate) fn idle(&mut self, now: Instant, key: Key) -> Option<Duration> {
        let index = self.find(key)?;
        Some(now - self.slots[index].used)
    }

    /// The context at this place, if there is one.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index).map(|context| &mut context.value)
    }

    /// The key of a context of this peer that is what is looked for.
    pub(crate) fn of_peer_where(&self, from: u64, is_it: impl Fn(&T) -> bool) -> Option<Key> {
        let found = self
            .by_peer
            .peek(&self.slots, from, |context: &Context<T>| context.key.from == from && is_it(&context.value));
        found.and_then(|index| self.slots.get(index)).map(|context| context.key)
    }

    /// A new context, in place of the one with the same key. `evictable`: room may be made at any time, since nothing is
    /// lost but time.
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        key: Key,
        group: Group,
        (value, bytes): (T, usize),
        evictable: bool,
    ) -> Result<(), Full> {
        self.remove(key);
        let stale = if evictable { Duration::ZERO } else { self.bounds.stale };
        while self.of_peer(key.from).0 >= self.bounds.per_peer {
            let oldest = self.of_peer(key.from).1.ok_or(Full)?;
            self.evict(now, oldest, stale)?;
        }
        self.make_room(now, group, (1, bytes), stale, None)?;
        let context = Context { key, group, bytes, begun: now, used: now, value, by_use: Links::default() };
        let index = self.slots.insert(context).ok_or(Full)?;
        self.by_key.insert(hash_of(key), index);
        self.by_peer.insert(key.from, index);
        self.by_use.push_back(&mut self.slots, index);
        self.counts.take(group, 1);
        self.shares.take(group, bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// A context takes so many bytes from now on, which are more than before.
    pub(crate) fn grow(&mut self, now: Instant, index: u32, bytes: usize) -> Result<(), Full> {
        let context = self.slots.get(index).ok_or(Full)?;
        let (group, more) = (context.group, bytes.saturating_sub(context.bytes));
        if more > 0 {
            self.make_room(now, group, (0, more), self.bounds.stale, Some(index))?;
            self.shares.take(group, more);
            self.bytes += more;
            self.slots[index].bytes = bytes;
        }
        Ok(())
    }

    /// The key of a peer's context that was begun last, of those that this holds for.
    pub(crate) fn last_begun(&self, from: u64, is_it: impl Fn(Key) -> bool) -> Option<Key> {
        let last = Cell::new(None);
        self.by_peer.peek(&self.slots, from, |context: &Context<T>| {
            let &Context { key, begun, .. } = context;
            if key.from == from && is_it(key) && last.get().is_none_or(|(before, _)| before <= begun) {
                last.set(Some((begun, key)));
            }
            false
        });
        last.get().map(|(_, key)| key)
    }

    /// Of a FETCH without a payload: the key of the last one that differs from it in nothing else, since the payload need not
    /// come again with the requests for further blocks (RFC 7959 §2.7, RFC 8132 §2.5).
    pub(crate) fn fetched(&self, key: Key) -> Key {
        self.last_begun(key.from, |kept| kept.what & !PAYLOAD == key.what & !PAYLOAD).unwrap_or(key)
    }

    /// Takes out the context of this key.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let index = self.find(key)?;
        self.take(index)
    }

    /// Drops what is over.
    pub(crate) fn purge(&mut self, now: Instant) {
        while let Some(index) = self.by_use.first().filter(|&index| self.expiry(index) <= now) {
            self.take(index);
        }
        if self.slots.len() == 0 && self.slots.places() > 0 {
            self.slots = Arena::new();
        }
    }

    /// The key of what has been idle for longest, if that is too long.
    pub(crate) fn expired(&self, now: Instant) -> Option<Key> {
        let index = self.by_use.first().filter(|&index| self.expiry(index) <= now)?;
        self.slots.get(index).map(|context| context.key)
    }

    /// When something is over next.
    pub(crate) fn next_purge(&self) -> Option<Instant> {
        self.by_use.first().map(|index| self.expiry(index))
    }

    fn expiry(&self, index: u32) -> Instant {
        self.slots[index].used + self.bounds.idle
    }

    fn find(&mut self, key: Key) -> Option<u32> {
        self.by_key.find(&self.slots, hash_of(key), |context: &Context<T>| context.key == key)
    }

    /// How many contexts a peer has, and the one that was used longest ago.
    fn of_peer(&self, from: u64) -> (usize, Option<u32>) {
        let (count, oldest) = (Cell::new(0), Cell::new(None));
        // A search that finds nothing looks at all of them.
        self.by_peer.peek(&self.slots, from, |context: &Context<T>| {
            if context.key.from == from {
                count.set(count.get() + 1);
                let older = |&(used, _): &(Instant, Key)| used <= context.used;
                if oldest.get().as_ref().is_none_or(|oldest| !older(oldest)) {
                    oldest.set(Some((context.used, context.key)));
                }
            }
            false
        });
        let index = oldest.get().and_then(|(_, key)| {
            self.by_key.peek(&self.slots, hash_of(key), |context: &Context<T>| context.key == key)
        });
        (count.get(), index)
    }

    /// Makes room for so many contexts and bytes of a group, at the expense of what is stale, `except` this.
    fn make_room(
        &mut self,
        now: Instant,
        group: Group,
        (count, bytes): (usize, usize),
        stale: Duration,
        except: Option<u32>,
    ) -> Result<(), Full> {
        let admits = |this: &Self| {
            (count == 0 || this.counts.admits(group, count, this.bounds.total))
                && this.shares.admits(group, bytes, this.bounds.bytes)
        };
        if bytes > self.bounds.bytes {
            // Nobody has to go for what would not fit even then.
            return Err(Full);
        }
        while !admits(self) {
            let oldest = self.by_use.first().filter(|&index| Some(index) != except).ok_or(Full)?;
            self.evict(now, oldest, stale)?;
        }
        Ok(())
    }

    fn evict(&mut self, now: Instant, index: u32, stale: Duration) -> Result<(), Full> {
        if now - self.slots[index].used < stale {
            return Err(Full);
        }
        self.take(index);
        Ok(())
    }

    fn take(&mut self, index: u32) -> Option<T> {
        self.by_use.remove(&mut self.slots, index);
        self.by_key.remove(index);
        self.by_peer.remove(index);
        let Context { group, bytes, value, .. } = self.slots.take(index)?;
        self.counts.give_back(group, 1);
        self.shares.give_back(group, bytes);
        self.bytes -= bytes;
        Some(value)
    }
}

fn hash_of(key: Key) -> u64 {
    key.from ^ key.what
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        per_peer: 2,
        total: 8,
        bytes: 1_000,
        body_bytes: 500,
        idle: Duration::from_secs(247),
        longest: Duration::from_secs(3_600),
        stale: Duration::from_secs(9),
    };

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(1_000 * seconds)
    }

    fn key(from: u64, what: u64) -> Key {
        Key { from: from.wrapping_mul(0x9e37_79b9_7f4a_7c15), what: what << 40 }
    }

    fn group(n: u64) -> Group {
        Group::of((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn insert(contexts: &mut Contexts<u64>, now: u64, from: u64, what: u64) -> Result<(), Full> {
        contexts.insert(at(now), key(from, what), group(from), (what, 10), false)
    }

    #[test]
    fn a_peer_has_its_own_bound_and_its_stalest_makes_room() {
        let mut contexts = Contexts::new(BOUNDS);
        assert_eq!([0, 1, 2].map(|what| insert(&mut contexts, what, 1, what)), [Ok(()), Ok(()), Err(Full)]);
        assert!(contexts.use_of(at(5), key(1, 0)).is_some());
        assert_eq!(insert(&mut contexts, 10, 1, 2), Ok(()), "the other one was idle for nine seconds");
        assert!(contexts.use_of(at(10), key(1, 1)).is_none() && contexts.use_of(at(10), key(1, 0)).is_some());
        assert_eq!((contexts.len(), contexts.bytes()), (2, 20));
    }

    #[test]
    fn the_same_key_replaces_and_what_is_idle_is_dropped_without_a_trace() {
        let mut contexts = Contexts::new(BOUNDS);
        for now in 0..10 {
            assert_eq!(insert(&mut contexts, now, 1, 1), Ok(()));
        }
        assert_eq!((contexts.len(), contexts.next_purge()), (1, Some(at(9 + 247))));
        contexts.purge(at(9 + 246));
        assert_eq!(contexts.len(), 1);
        contexts.purge(at(9 + 247));
        assert_eq!((contexts.len(), contexts.bytes(), contexts.next_purge()), (0, 0, None));
    }

    #[test]
    fn a_group_cannot_take_all_and_growing_is_bounded() {
        let mut contexts = Contexts::new(BOUNDS);
        let taken = (0..100).filter(|&n| contexts.insert(at(0), key(n, 1), group(7), (n, 0), false).is_ok()).count();
        assert_eq!(taken, BOUNDS.total / 2);
        assert_eq!(insert(&mut contexts, 0, 200, 1), Ok(()));
        let (index, _) = contexts.use_of(at(0), key(200, 1)).expect("just inserted");
        assert_eq!((contexts.grow(at(0), index, 500), contexts.grow(at(0), index, 501)), (Ok(()), Err(Full)));
        assert_eq!(contexts.bytes(), 500);
        // What can be made again has no claim to its place.
        assert_eq!(contexts.insert(at(0), key(300, 1), group(300), (1, 600), true), Ok(()));
    }

    #[test]
    fn what_would_not_fit_into_an_empty_table_drives_nobody_out() {
        let mut contexts = Contexts::new(BOUNDS);
        insert(&mut contexts, 0, 1, 1).expect("room");
        let late = at(100);
        assert_eq!(contexts.insert(late, key(2, 1), group(2), (2, BOUNDS.bytes + 1), true), Err(Full));
        assert_eq!((contexts.len(), contexts.bytes()), (1, 10));
    }
}
