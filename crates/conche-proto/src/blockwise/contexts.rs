//! [`Contexts`]: a table of block-wise transfers, bounded in number and bytes, per peer and in
//! total.
//!
//! A context is dropped after its idle time. A full table evicts one of these, or else refuses the
//! new context:
//!
//! 1. a finished context: all of its blocks were sent;
//! 2. the stale context idle longest, of the same group of sources or a larger one. A context
//!    unused since its start becomes stale sooner, because no request follows a forged one.
//!
//! Contexts in use are not evicted, so each admitted transfer can finish. A group beyond its
//! [share](crate::shares) is refused.

use core::cell::Cell;
use core::time::Duration;

use super::PAYLOAD;
use crate::shares::{Group, Shares};
use crate::store::{Arena, Index, Linked, Links, List, index_type};
use conche_cc::Instant;

/// Keyed hashes of a peer, and of its request without block options but with the local address. Two
/// keys coincide with a probability of 2^-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) from: u64,
    pub(crate) identity: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) per_peer: usize,
    pub(crate) total: usize,
    pub(crate) bytes: usize,
    pub(crate) body_bytes: usize,
    /// Idle time before a context is dropped.
    pub(crate) idle: Duration,
    pub(crate) longest: Duration,
    /// Idle time before a context is stale and can be evicted.
    pub(crate) stale: Duration,
    /// The same for a context unused since its start.
    pub(crate) unused_stale: Duration,
    /// Idle time before eviction for another context of the same peer.
    pub(crate) own_stale: Duration,
}

impl Bounds {
    pub(crate) const NONE: Self = Self {
        per_peer: 0,
        total: 0,
        bytes: 0,
        body_bytes: 0,
        idle: Duration::ZERO,
        longest: Duration::ZERO,
        stale: Duration::ZERO,
        unused_stale: Duration::ZERO,
        own_stale: Duration::ZERO,
    };
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim<'a> {
    /// A share of its group, beside the [reserved](Contexts::reserve) places.
    Share(&'a Shares),
    Reserved,
    /// A share; evicts the group's oldest context, even in use, since the new one cannot be created
    /// again.
    Irreplaceable(&'a Shares),
}

impl Claim<'static> {
    pub(crate) const SHARE: Self = Self::Share(const { &Shares::new() });
}

/// Maximum number of contexts visited to find one to evict.
const LOOKED_AT: usize = 256;

#[derive(Debug)]
pub(crate) struct NewContext<T> {
    pub(crate) key: Key,
    pub(crate) group: Group,
    pub(crate) value: T,
    pub(crate) bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Room {
    contexts: usize,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

index_type!(pub(crate) ContextIndex);

#[derive(Debug)]
struct Context<T> {
    key: Key,
    group: Group,
    bytes: usize,
    begun: Instant,
    used: Instant,
    value: T,
    finished: bool,
    /// Used since its start.
    continued: bool,
    by_use: Links,
}

struct ByUse;

impl<T> Linked<ByUse> for Context<T> {
    fn links(&mut self) -> &mut Links {
        &mut self.by_use
    }
}

#[derive(Debug)]
pub(crate) struct Contexts<T> {
    bounds: Bounds,
    slots: Arena<Context<T>, ContextIndex>,
    by_key: Index<ContextIndex>,
    by_peer: Index<ContextIndex>,
    /// In order of last use, thus of expiry.
    by_use: List<ByUse, ContextIndex>,
    finished: List<ByUse, ContextIndex>,
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
            finished: List::new(),
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

    /// Drops a context that is too old.
    pub(crate) fn use_of(&mut self, now: Instant, key: Key) -> Option<(ContextIndex, &mut T)> {
        let index = self.find(key)?;
        // A sum could saturate in the far future.
        if now - self.slots[index].begun >= self.bounds.longest {
            self.take(index);
            return None;
        }
        self.unlink(index);
        self.by_use.push_back(&mut self.slots, index);
        let context = self.slots.get_mut(index)?;
        (context.used, context.finished, context.continued) = (now, false, true);
        Some((index, &mut context.value))
    }

    /// Marks a context as finished; it stays until its place is needed.
    pub(crate) fn finish(&mut self, key: Key) {
        let Some(index) = self.find(key) else { return };
        self.unlink(index);
        self.finished.push_back(&mut self.slots, index);
        self.slots[index].finished = true;
    }

    pub(crate) fn peek_mut(&mut self, key: Key) -> Option<&mut T> {
        let index = self.find(key)?;
        self.at_mut(index)
    }

    pub(crate) fn idle(&mut self, now: Instant, key: Key) -> Option<Duration> {
        let index = self.find(key)?;
        Some(now - self.slots[index].used)
    }

    pub(crate) fn at_mut(&mut self, index: ContextIndex) -> Option<&mut T> {
        self.slots.get_mut(index).map(|context| &mut context.value)
    }

    pub(crate) fn of_peer_where(&self, from: u64, is_it: impl Fn(&T) -> bool) -> Option<Key> {
        let found = self
            .by_peer
            .peek(&self.slots, from, |context: &Context<T>| context.key.from == from && is_it(&context.value));
        found.and_then(|index| self.slots.get(index)).map(|context| context.key)
    }

    /// Replaces a context with the same key.
    pub(crate) fn insert(&mut self, now: Instant, new: NewContext<T>, claim: Claim<'_>) -> Result<(), Full> {
        let NewContext { key, group, value, bytes } = new;
        self.remove(key);
        while let (count, oldest) = self.of_peer(key.from)
            && count >= self.bounds.per_peer
        {
            let oldest = oldest.ok_or(Full)?;
            let context = &self.slots[oldest];
            if !context.finished && now - context.used < self.bounds.own_stale {
                return Err(Full);
            }
            self.take(oldest);
        }
        self.make_room(now, group, Room { contexts: 1, bytes }, claim, None)?;
        let (finished, continued, by_use) = (false, false, Links::default());
        let context = Context { key, group, bytes, begun: now, used: now, value, finished, continued, by_use };
        let index = self.slots.insert(context).ok_or(Full)?;
        self.by_key.insert(hash_of(key), index);
        self.by_peer.insert(key.from, index);
        self.by_use.push_back(&mut self.slots, index);
        self.counts.take(group, 1);
        self.shares.take(group, bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Makes room for a later [`Claim::Reserved`], beside the `reserved` places of others. The
    /// caller counts the reservation. `bytes` is an estimate.
    pub(crate) fn reserve(
        &mut self,
        now: Instant,
        key: Key,
        group: Group,
        bytes: usize,
        reserved: &Shares,
    ) -> Result<(), Full> {
        if self.find(key).is_some() {
            return Ok(());
        }
        self.make_room(now, group, Room { contexts: 1, bytes }, Claim::Share(reserved), None)
    }

    /// Returns `true` if an empty table has room for this size.
    pub(crate) const fn can_hold(&self, bytes: usize) -> bool {
        self.bounds.per_peer > 0 && self.bounds.total > 0 && bytes <= self.bounds.bytes
    }

    pub(crate) fn grow(&mut self, now: Instant, index: ContextIndex, bytes: usize) -> Result<(), Full> {
        let context = self.slots.get(index).ok_or(Full)?;
        let (key, group, more) = (context.key, context.group, bytes.saturating_sub(context.bytes));
        if more > 0 {
            self.make_room(now, group, Room { contexts: 0, bytes: more }, Claim::SHARE, Some(key))?;
            self.shares.take(group, more);
            self.bytes += more;
            self.slots[index].bytes = bytes;
        }
        Ok(())
    }

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

    /// For a FETCH without payload, returns the key of the last FETCH that differs only in payload:
    /// requests for further blocks may omit it (RFC 7959 §2.7, RFC 8132 §2.5).
    pub(crate) fn fetched(&self, key: Key) -> Key {
        self.last_begun(key.from, |kept| kept.identity & !PAYLOAD == key.identity & !PAYLOAD).unwrap_or(key)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let index = self.find(key)?;
        self.take(index)
    }

    pub(crate) fn purge(&mut self, now: Instant) {
        while let Some(index) = self.first_to_expire().filter(|&index| self.expiry(index) <= now) {
            self.take(index);
        }
        if self.slots.len() == 0 && self.slots.places() > 0 {
            self.slots = Arena::new();
        }
    }

    pub(crate) fn expired(&self, now: Instant) -> Option<Key> {
        let index = self.by_use.first().filter(|&index| self.expiry(index) <= now)?;
        self.slots.get(index).map(|context| context.key)
    }

    pub(crate) fn next_purge(&self) -> Option<Instant> {
        self.first_to_expire().map(|index| self.expiry(index))
    }

    fn first_to_expire(&self) -> Option<ContextIndex> {
        let firsts = [self.by_use.first(), self.finished.first()];
        firsts.into_iter().flatten().min_by_key(|&index| self.expiry(index))
    }

    fn expiry(&self, index: ContextIndex) -> Instant {
        self.slots[index].used + self.bounds.idle
    }

    fn find(&mut self, key: Key) -> Option<ContextIndex> {
        self.by_key.find(&self.slots, hash_of(key), |context: &Context<T>| context.key == key)
    }

    /// Returns a peer's number of contexts, and the one to evict first.
    fn of_peer(&self, from: u64) -> (usize, Option<ContextIndex>) {
        let (count, oldest) = (Cell::new(0), Cell::new(None));
        self.by_peer.peek(&self.slots, from, |context: &Context<T>| {
            if context.key.from == from {
                count.set(count.get() + 1);
                let age = (!context.finished, context.used);
                if oldest.get().is_none_or(|(before, _)| age < before) {
                    oldest.set(Some((age, context.key)));
                }
            }
            false
        });
        let index = oldest.get().and_then(|(_, key)| {
            self.by_key.peek(&self.slots, hash_of(key), |context: &Context<T>| context.key == key)
        });
        (count.get(), index)
    }

    /// Evicts others than `except`.
    fn make_room(
        &mut self,
        now: Instant,
        group: Group,
        Room { contexts, bytes }: Room,
        claim: Claim<'_>,
        except: Option<Key>,
    ) -> Result<(), Full> {
        if bytes > self.bounds.bytes || contexts > self.bounds.total {
            // Evict nothing if the context cannot fit.
            return Err(Full);
        }
        loop {
            let counts = self.admits_count(group, contexts, claim);
            if counts && self.admits_bytes(group, bytes, claim) {
                return Ok(());
            }
            let held = if counts { &self.shares } else { &self.counts };
            let least = held.held(group);
            let (stale, unused_stale) = (self.bounds.stale, self.bounds.unused_stale);
            let is_young = |context: &Context<T>| now - context.used < unused_stale;
            let may_go = |context: &Context<T>| {
                let is_stale = !context.continued || now - context.used >= stale;
                let gains = context.group == group || held.held(context.group) > least;
                is_stale && gains && Some(context.key) != except
            };
            let mut first_of = |is_over: &dyn Fn(&Context<T>) -> bool, is_it: &dyn Fn(&Context<T>) -> bool| {
                let mut looked_at = 0;
                let found = self.by_use.find(&mut self.slots, |context| {
                    looked_at += 1;
                    looked_at > LOOKED_AT || is_over(context) || is_it(context)
                });
                found.filter(|&index| !is_over(&self.slots[index]) && is_it(&self.slots[index]))
            };
            let finished = self.finished.first();
            let victim = finished.or_else(|| first_of(&is_young, &may_go));
            let victim = victim.or_else(|| match claim {
                Claim::Irreplaceable(_) => first_of(&|_| false, &|context| context.group == group),
                Claim::Share(_) | Claim::Reserved => None,
            });
            self.take(victim.ok_or(Full)?);
        }
    }

    fn admits_count(&self, group: Group, count: usize, claim: Claim<'_>) -> bool {
        let left = self.bounds.total.saturating_sub(self.counts.total());
        match claim {
            _ if count == 0 => true,
            Claim::Reserved => count <= left,
            Claim::Share(reserved) | Claim::Irreplaceable(reserved) => {
                let held = self.counts.held(group) + reserved.held(group);
                held.saturating_add(count) <= left.saturating_sub(reserved.total())
            }
        }
    }

    fn admits_bytes(&self, group: Group, bytes: usize, claim: Claim<'_>) -> bool {
        let left = self.bounds.bytes.saturating_sub(self.bytes);
        match claim {
            Claim::Reserved => bytes <= left,
            // Assumes reserved bodies as large as this one.
            Claim::Share(reserved) | Claim::Irreplaceable(reserved) => {
                let held = self.shares.held(group).saturating_add(reserved.held(group).saturating_mul(bytes));
                held.saturating_add(bytes) <= left.saturating_sub(reserved.total().saturating_mul(bytes))
            }
        }
    }

    fn take(&mut self, index: ContextIndex) -> Option<T> {
        self.unlink(index);
        self.by_key.remove(index);
        self.by_peer.remove(index);
        let Context { group, bytes, value, .. } = self.slots.take(index)?;
        self.counts.give_back(group, 1);
        self.shares.give_back(group, bytes);
        self.bytes -= bytes;
        Some(value)
    }

    fn unlink(&mut self, index: ContextIndex) {
        let list = if self.slots[index].finished { &mut self.finished } else { &mut self.by_use };
        list.remove(&mut self.slots, index);
    }
}

fn hash_of(key: Key) -> u64 {
    key.from ^ key.identity
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
        unused_stale: Duration::from_secs(4),
        own_stale: Duration::from_secs(9),
    };

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(1_000 * seconds)
    }

    fn key(from: u64, identity: u64) -> Key {
        Key { from: from.wrapping_mul(0x9e37_79b9_7f4a_7c15), identity: identity << 40 }
    }

    fn group(n: u64) -> Group {
        Group::of((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn new<T>(key: Key, group: Group, value: T, bytes: usize) -> NewContext<T> {
        NewContext { key, group, value, bytes }
    }

    fn insert(contexts: &mut Contexts<u64>, now: u64, from: u64, identity: u64) -> Result<(), Full> {
        contexts.insert(at(now), new(key(from, identity), group(from), identity, 10), Claim::SHARE)
    }

    #[test]
    fn a_peer_has_its_own_bound_and_its_stalest_makes_room() {
        let mut contexts = Contexts::new(BOUNDS);
        assert_eq!([0, 1, 2].map(|identity| insert(&mut contexts, identity, 1, identity)), [Ok(()), Ok(()), Err(Full)]);
        assert!(contexts.use_of(at(5), key(1, 0)).is_some());
        assert_eq!(insert(&mut contexts, 10, 1, 2), Ok(()), "the other one was idle for nine seconds");
        assert!(contexts.use_of(at(10), key(1, 1)).is_none() && contexts.use_of(at(10), key(1, 0)).is_some());
        assert_eq!((contexts.len(), contexts.bytes()), (2, 20));
    }

    #[test]
    fn inserting_a_known_key_replaces_it_and_a_purge_drops_idle_transfers() {
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
        let taken =
            (0..100).filter(|&n| contexts.insert(at(0), new(key(n, 1), group(7), n, 0), Claim::SHARE).is_ok()).count();
        assert_eq!(taken, BOUNDS.total / 2);
        assert_eq!(insert(&mut contexts, 0, 200, 1), Ok(()));
        let (index, _) = contexts.use_of(at(0), key(200, 1)).expect("just inserted");
        assert_eq!((contexts.grow(at(0), index, 500), contexts.grow(at(0), index, 501)), (Ok(()), Err(Full)));
        assert_eq!(contexts.bytes(), 500);
    }

    fn full() -> Contexts<u64> {
        let mut contexts = Contexts::new(BOUNDS);
        for from in 0..8 {
            insert(&mut contexts, 0, from, 1).expect("room");
            assert!(contexts.use_of(at(0), key(from, 1)).is_some());
        }
        contexts
    }

    #[test]
    fn an_uncontinued_transfer_is_evicted_before_a_continued_one() {
        let mut contexts = Contexts::new(BOUNDS);
        (0..8).for_each(|from| insert(&mut contexts, 0, from, 1).expect("room"));
        assert!(contexts.use_of(at(1), key(0, 1)).is_some());
        assert_eq!(insert(&mut contexts, 3, 100, 1), Err(Full));
        assert_eq!(insert(&mut contexts, 5, 100, 1), Ok(()));
        assert!(contexts.use_of(at(5), key(1, 1)).is_none() && contexts.use_of(at(5), key(0, 1)).is_some());
    }

    #[test]
    fn a_full_table_evicts_finished_transfers_but_not_active_ones() {
        let mut contexts = full();
        assert_eq!(insert(&mut contexts, 8, 100, 1), Err(Full));
        contexts.finish(key(3, 1));
        contexts.finish(key(2, 1));
        assert_eq!([100, 101, 102].map(|from| insert(&mut contexts, 8, from, 1)), [Ok(()), Ok(()), Err(Full)]);
        assert!(contexts.use_of(at(8), key(3, 1)).is_none() && contexts.use_of(at(8), key(2, 1)).is_none());
        contexts.finish(key(4, 1));
        assert!(contexts.use_of(at(8), key(4, 1)).is_some(), "it is asked for once more");
        assert_eq!(insert(&mut contexts, 8, 102, 1), Err(Full), "and in use again");
    }

    #[test]
    fn a_group_takes_one_stale_place_of_smaller_ones_and_not_two() {
        let mut contexts = full();
        let mut taken = 0;
        for n in 0..100 {
            taken +=
                usize::from(contexts.insert(at(20), new(key(100 + n, 1), group(100), n, 10), Claim::SHARE).is_ok());
        }
        assert_eq!(taken, 1);
        assert_eq!((0..8).filter(|&from| contexts.use_of(at(20), key(from, 1)).is_some()).count(), 7);
    }

    #[test]
    fn stale_places_of_the_largest_group_go_to_newcomers() {
        let mut contexts = Contexts::new(BOUNDS);
        (0..4).for_each(|n| contexts.insert(at(0), new(key(n, 1), group(50), n, 10), Claim::SHARE).expect("room"));
        (4..8).for_each(|from| insert(&mut contexts, 1, from, 1).expect("room"));
        let newcomers = [(100, 1), (101, 1)].map(|(from, identity)| insert(&mut contexts, 20, from, identity));
        assert_eq!(newcomers, [Ok(()), Ok(())]);
        assert_eq!((4..8).filter(|&from| contexts.use_of(at(20), key(from, 1)).is_some()).count(), 4);
    }

    #[test]
    fn a_reserved_place_is_there_when_it_is_needed_and_no_other_takes_it() {
        let mut contexts = Contexts::new(BOUNDS);
        let mut reserved = Shares::new();
        for from in 0..8 {
            assert_eq!(contexts.reserve(at(0), key(from, 1), group(from), 10, &reserved), Ok(()));
            reserved.take(group(from), 1);
        }
        assert_eq!(contexts.reserve(at(0), key(8, 1), group(8), 10, &reserved), Err(Full));
        let other = contexts.insert(at(0), new(key(9, 1), group(9), 9, 10), Claim::Share(&reserved));
        assert_eq!(other, Err(Full));
        for from in 0..8 {
            assert_eq!(contexts.insert(at(0), new(key(from, 1), group(from), from, 10), Claim::Reserved), Ok(()));
            reserved.give_back(group(from), 1);
        }
        assert_eq!(contexts.len(), 8);
    }

    #[test]
    fn an_irreplaceable_transfer_evicts_the_oldest_of_its_own_group_only() {
        let mut contexts = full();
        let none = Shares::new();
        let again = contexts.insert(at(1), new(key(200, 1), group(3), 1, 10), Claim::Irreplaceable(&none));
        assert_eq!(again, Ok(()));
        assert!(contexts.use_of(at(1), key(3, 1)).is_none());
        let stranger = contexts.insert(at(1), new(key(201, 1), group(201), 1, 10), Claim::Irreplaceable(&none));
        assert_eq!(stranger, Err(Full), "no group has another one's place");
    }

    #[test]
    fn a_transfer_larger_than_the_table_evicts_nothing() {
        let mut contexts = Contexts::new(BOUNDS);
        insert(&mut contexts, 0, 1, 1).expect("room");
        let late = at(100);
        assert_eq!(contexts.insert(late, new(key(2, 1), group(2), 2, BOUNDS.bytes + 1), Claim::SHARE), Err(Full));
        assert_eq!((contexts.len(), contexts.bytes()), (1, 10));
    }
}
