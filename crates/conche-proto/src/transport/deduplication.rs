//! The deduplication table (RFC 7252 §4.5): recently received messages and the replies to them.
//!
//! It is independent of the peer table: a request from an unknown address costs one entry and no
//! congestion state.
//!
//! When the table is full, the oldest entry of an idempotent request is evicted: processing a
//! duplicate again does no harm. A non-idempotent request is never evicted; each group of sources
//! gets a [share](crate::shares) of the table, beyond which its requests are refused.

use alloc::boxed::Box;
use core::hint::black_box;
use core::num::NonZeroU16;
use core::time::Duration;

use super::Transport;
use super::datagram::{Departure, Source};
use super::rate_limit::Limiter;
use crate::PeerKey;
use crate::codec::{Message, MessageId, Type};
use crate::config::{ResponseLimit, SharedConfig};
use crate::hash::Fingerprint;
use crate::shares::{Group, Shares};
use crate::store::{Arena, ArenaIndex, Compact, CreateOnDemand, Index, index_type};
use conche_cc::{Controller, Instant};

/// Allocator overhead per reply in bytes.
const REPLY_OVERHEAD: usize = 16;

index_type!(EntryIndex);

#[derive(Debug)]
struct Entry {
    fingerprint: Fingerprint,
    next: EntryIndex,
    expires: Tick,
    /// Charged for the entry, if the request is not idempotent.
    group: Group,
    reply: Reply,
}

/// The reply to a duplicate.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// The request awaits its response, and no ACK was sent.
    Pending,
    /// An Empty ACK.
    EmptyAck,
    /// Nothing: the message was Non-confirmable.
    Silence,
    /// A short datagram, stored inline.
    Short { length: u8, bytes: [u8; Reply::SHORT] },
    /// A longer datagram.
    Datagram(Box<[u8]>),
}

impl Reply {
    /// Maximum length of a datagram stored inline.
    pub(crate) const SHORT: usize = 14;

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Pending | Self::Silence => 0,
            Self::EmptyAck => 4,
            Self::Short { length, .. } => usize::from(*length),
            Self::Datagram(datagram) => datagram.len(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) fingerprint: Fingerprint,
    /// Confirmable messages are remembered for EXCHANGE_LIFETIME, others for NON_LIFETIME.
    pub(crate) confirmable: bool,
    /// `Ok` for an idempotent request, otherwise the group to charge.
    pub(crate) idempotent: Result<(), Group>,
}

/// Valid while the entry exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remembered {
    index: Compact<EntryIndex>,
    /// Distinguishes the entry from a later one in the same place.
    message: [u32; 2],
}

/// The table is full, or the group has used its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// The queues of each lifetime, in order of expiry.
#[derive(Clone, Copy)]
enum Queue {
    NotIdempotent,
    Idempotent,
}

const QUEUES: [Queue; 2] = [Queue::NotIdempotent, Queue::Idempotent];

/// Room for a new entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Free,
    /// In the quarter reserved for replies as long as entries can be evicted.
    Last,
    None,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: EntryIndex,
    last: EntryIndex,
}

const EMPTY_QUEUES: [[Ends; 2]; 2] = [[Ends { first: EntryIndex::NONE, last: EntryIndex::NONE }; 2]; 2];

#[derive(Debug)]
pub(crate) struct Deduplication {
    index: Index<EntryIndex>,
    entries: Arena<Entry, EntryIndex>,
    lifetimes: [Duration; 2],
    /// Queues of Confirmable and Non-confirmable messages, by [`Queue`].
    queues: [[Ends; 2]; 2],
    /// Bytes held by non-idempotent requests, per group.
    shares: Shares,
    /// Bytes of all replies, including those reserved for pending ones.
    reply_bytes: usize,
    /// The part of `reply_bytes` that can be evicted.
    evictable_bytes: usize,
    longest_reply: usize,
    capacity: usize,
    purged: Instant,
    /// No entry expires before this time.
    first_expiry: Instant,
}

impl CreateOnDemand for Deduplication {
    type Config = SharedConfig;

    fn empty<'a>() -> &'a Self {
        const { &Self::NONE }
    }

    fn create(config: &SharedConfig) -> Self {
        let (limits, times) = (&config.limits, config.times());
        let lifetimes = [times.exchange_lifetime, times.non_lifetime];
        Self::new(limits.deduplication_bytes, limits.message_bytes, lifetimes)
    }
}

impl Deduplication {
    /// Bytes of an entry with its place in the index and its inline reply.
    pub(crate) const ENTRY_BYTES: usize = Arena::<Entry, EntryIndex>::PLACE_BYTES + Index::<EntryIndex>::BYTES;

    /// Bytes of an entry without its inline reply.
    pub(crate) const BYTES_BESIDE_REPLY: usize = Self::ENTRY_BYTES - size_of::<Reply>();

    /// Delay until expired entries are removed if the room is not needed.
    const LAG: Duration = Duration::from_millis(500);

    const NONE: Self = Self::with(0, 0, [Duration::ZERO; 2]);

    fn new(capacity: usize, longest_reply: usize, lifetimes: [Duration; 2]) -> Self {
        Self::with(capacity, longest_reply, lifetimes.map(|lifetime| lifetime.min(Tick::LONGEST)))
    }

    const fn with(capacity: usize, longest_reply: usize, lifetimes: [Duration; 2]) -> Self {
        Self {
            index: Index::new(),
            entries: Arena::new(),
            lifetimes,
            queues: EMPTY_QUEUES,
            shares: Shares::new(),
            reply_bytes: 0,
            evictable_bytes: 0,
            longest_reply,
            capacity,
            purged: Instant::ZERO,
            first_expiry: Instant::FAR_FUTURE,
        }
    }

    #[inline]
    pub(crate) fn find(&mut self, now: Instant, fingerprint: Fingerprint) -> Option<Remembered> {
        self.purge(now);
        let is_it = |entry: &Entry| entry.fingerprint == fingerprint && !entry.expires.is_over(now);
        let index = self.index.find(&self.entries, fingerprint.short(), is_it)?;
        Compact::of(index).map(|index| Remembered { index, message: fingerprint.message })
    }

    /// Prefetches the memory for finding and inserting these messages.
    #[inline]
    pub(crate) fn prefetch(&self, messages: &[Fingerprint]) {
        messages.iter().for_each(|fingerprint| self.index.prefetch(fingerprint.short()));
        if self.room(self.longest_reply) == Room::Free {
            return;
        }
        let mut oldest = self.queues[0][Queue::Idempotent as usize].first;
        for _ in messages {
            let Some(entry) = self.entries.get(oldest) else { break };
            self.index.prefetch_removal(oldest);
            if let Reply::Datagram(datagram) = &entry.reply {
                black_box(datagram.first());
            }
            oldest = entry.next;
        }
    }

    /// Inserts a message that [`find`](Self::find) did not find. Calls `keep` before others may be
    /// evicted.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        received: Received,
        reply: Reply,
        keep: impl FnOnce(&Self),
    ) -> Result<Remembered, TableFull> {
        let Received { fingerprint, confirmable, idempotent } = received;
        let reply_bytes = self.bytes_of(&reply);
        let bytes = Self::ENTRY_BYTES + reply_bytes;
        let has_share =
            |this: &Self| idempotent.map_or_else(|group| this.shares.admits(group, bytes, this.capacity), |()| true);
        if now >= self.first_expiry && (self.room(reply_bytes) != Room::Free || !has_share(self)) {
            // Remove expired entries before evicting or refusing.
            self.forget(now, false);
        }
        if !has_share(self) {
            return Err(TableFull);
        }
        if self.room(reply_bytes) != Room::Free {
            keep(self);
            self.make_room(reply_bytes, idempotent.is_ok())?;
        }
        let lifetime = usize::from(!confirmable);
        let expires = Tick::after(now + self.lifetimes[lifetime]);
        self.first_expiry = self.first_expiry.min(expires.from(now));
        let group = idempotent.err().unwrap_or(Group::NOBODY);
        let entry = || Entry { fingerprint, next: EntryIndex::NONE, expires, group, reply };
        let index = self.entries.insert_with(entry).ok_or(TableFull)?;
        self.index.insert(fingerprint.short(), index);
        self.reply_bytes += reply_bytes;
        let queue = if idempotent.is_ok() { Queue::Idempotent } else { Queue::NotIdempotent };
        match queue {
            Queue::Idempotent => self.evictable_bytes += reply_bytes,
            Queue::NotIdempotent => self.shares.take(group, Self::ENTRY_BYTES + reply_bytes),
        }
        self.push(lifetime, queue, index);
        Compact::of(index).map(|index| Remembered { index, message: fingerprint.message }).ok_or(TableFull)
    }

    #[inline]
    pub(crate) fn reply(&self, remembered: Remembered) -> Option<&Reply> {
        let entry =
            self.entries.get(remembered.index.get()).filter(|entry| entry.fingerprint.message == remembered.message)?;
        Some(&entry.reply)
    }

    /// Replaces the reply of an entry; returns it if the entry no longer exists. Inlined, so that
    /// the reply is constructed in place.
    #[inline(always)]
    pub(crate) fn set_reply(&mut self, remembered: Remembered, reply: Reply) -> Result<(), Reply> {
        let bytes = self.bytes_of(&reply);
        let found = self
            .entries
            .get_mut(remembered.index.get())
            .filter(|entry| entry.fingerprint.message == remembered.message);
        let Some(entry) = found else { return Err(reply) };
        let group = entry.group;
        let before = core::mem::replace(&mut entry.reply, reply);
        let before = self.bytes_of(&before);
        self.reply_bytes = self.reply_bytes - before + bytes;
        if group == Group::NOBODY {
            self.evictable_bytes = self.evictable_bytes - before + bytes;
        } else {
            self.shares.give_back(group, before);
            self.shares.take(group, bytes);
        }
        Ok(())
    }

    /// Removes expired entries in batches, after [`LAG`](Self::LAG).
    #[inline]
    pub(crate) fn purge(&mut self, now: Instant) {
        // Ticks are ambiguous beyond two of these spans.
        let all = now - self.purged > 2 * Tick::LONGEST;
        self.purged = now;
        if now >= self.first_expiry + Self::LAG {
            self.forget(now, all);
        }
    }

    #[inline(never)]
    fn forget(&mut self, now: Instant, all: bool) {
        for lifetime in 0..2 {
            for queue in QUEUES {
                let ends = self.queues[lifetime][queue as usize];
                let mut first = ends.first;
                while self.entries.get(first).is_some_and(|entry| all || entry.expires.is_over(now)) {
                    self.pop(lifetime, queue);
                    first = self.queues[lifetime][queue as usize].first;
                }
            }
        }
        if self.entries.len() == 0 && self.entries.places() > 0 {
            // Return the memory once the table is empty.
            self.entries = Arena::new();
            self.queues = EMPTY_QUEUES;
        }
        let firsts = self.queues.iter().flatten();
        let expiries = firsts.filter_map(|ends| Some(self.entries.get(ends.first)?.expires.from(now)));
        self.first_expiry = expiries.min().unwrap_or(Instant::FAR_FUTURE);
    }

    /// Returns the time of the next purge, coarse: a loaded server does not wake up per entry.
    pub(crate) fn next_purge(&self, now: Instant) -> Option<Instant> {
        const COARSE: Duration = Duration::from_secs(16);
        let at = self.first_expiry + COARSE;
        (self.entries.len() > 0 && at > now).then_some(at)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of entries visited by all searches.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.index.steps()
    }

    /// Returns an upper bound of the memory used, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.places() * Self::ENTRY_BYTES + self.reply_bytes
    }

    #[inline]
    fn bytes_of(&self, reply: &Reply) -> usize {
        match reply {
            Reply::Datagram(bytes) => bytes.len() + REPLY_OVERHEAD,
            Reply::Pending => self.longest_reply + REPLY_OVERHEAD,
            Reply::EmptyAck | Reply::Silence | Reply::Short { .. } => 0,
        }
    }

    /// Returns `true` if a message is idempotent or no longer remembered.
    pub(crate) fn is_idempotent(&self, remembered: Remembered) -> bool {
        let entry = self.entries.get(remembered.index.get());
        entry.is_none_or(|entry| entry.fingerprint.message != remembered.message || entry.group == Group::NOBODY)
    }

    /// Evicts the oldest idempotent requests until an entry with `reply_bytes` fits.
    ///
    /// Places are freed only when the table is empty, so a flood of short entries could leave no
    /// room for replies. Places use the last quarter only if nothing is left to evict.
    fn make_room(&mut self, reply_bytes: usize, idempotent: bool) -> Result<(), TableFull> {
        let places = self.entries.places() * Self::ENTRY_BYTES;
        if places + self.reply_bytes - self.evictable_bytes + reply_bytes > self.capacity {
            return Err(TableFull);
        }
        loop {
            let room = self.room(reply_bytes);
            if room == Room::Free {
                return Ok(());
            }
            if !self.pop_idempotent() {
                return if room == Room::Last && !idempotent { Ok(()) } else { Err(TableFull) };
            }
        }
    }

    #[inline]
    fn room(&self, reply_bytes: usize) -> Room {
        let places = self.entries.places() * Self::ENTRY_BYTES;
        let growth = self.entries.growth() * Self::ENTRY_BYTES;
        let crowds = places.min(growth) > 0 && places + growth > self.capacity - self.capacity / 4;
        match places + growth + self.reply_bytes + reply_bytes <= self.capacity {
            true if crowds => Room::Last,
            true => Room::Free,
            false => Room::None,
        }
    }

    fn pop_idempotent(&mut self) -> bool {
        let first = |lifetime: usize| self.queues[lifetime][Queue::Idempotent as usize].first;
        let expiry = |lifetime| self.entries.get(first(lifetime)).map(|entry| entry.expires);
        let lifetime = match (expiry(0), expiry(1)) {
            (None, None) => return false,
            (Some(confirmable), Some(non)) => usize::from(non.is_before(confirmable)),
            (_, non) => usize::from(non.is_some()),
        };
        self.pop(lifetime, Queue::Idempotent);
        true
    }

    #[inline]
    fn push(&mut self, lifetime: usize, queue: Queue, index: EntryIndex) {
        let ends = &mut self.queues[lifetime][queue as usize];
        let before = core::mem::replace(&mut ends.last, index);
        match self.entries.get_mut(before) {
            Some(before) => before.next = index,
            None => ends.first = index,
        }
    }

    fn pop(&mut self, lifetime: usize, queue: Queue) {
        let ends = &mut self.queues[lifetime][queue as usize];
        let index = ends.first;
        let Some(entry) = self.entries.get(index) else { return };
        ends.first = entry.next;
        if entry.next == EntryIndex::NONE {
            ends.last = EntryIndex::NONE;
        }
        let bytes = self.bytes_of(&entry.reply);
        match queue {
            Queue::Idempotent => self.evictable_bytes -= bytes,
            Queue::NotIdempotent => self.shares.give_back(entry.group, Self::ENTRY_BYTES + bytes),
        }
        self.reply_bytes -= bytes;
        self.index.remove(index);
        self.entries.remove(index);
    }
}

/// A time in wrapping units of 2^20 ns (about 1 ms), in 4 bytes instead of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tick(u32);

impl Tick {
    const BITS: u32 = 20;
    /// A quarter of the range, about 13 days: the maximum lifetime of an entry.
    const LONGEST: Duration = Duration::from_nanos((1 << 30) << Self::BITS);

    #[expect(clippy::cast_possible_truncation, reason = "wraps by design")]
    const fn before(instant: Instant) -> Self {
        Self((instant.as_nanos() >> Self::BITS) as u32)
    }

    const fn after(instant: Instant) -> Self {
        Self(Self::before(instant).0.wrapping_add(1))
    }

    /// Returns the ticks to `other`; negative if it is earlier.
    const fn until(self, other: Self) -> i32 {
        other.0.wrapping_sub(self.0).cast_signed()
    }

    /// At [`Instant::FAR_FUTURE`] everything has expired.
    fn is_over(self, now: Instant) -> bool {
        now == Instant::FAR_FUTURE || self.until(Self::before(now)) >= 0
    }

    const fn is_before(self, other: Self) -> bool {
        self.until(other) > 0
    }

    /// Returns the time of a tick near `now`.
    fn from(self, now: Instant) -> Instant {
        let ticks = Self::before(now).until(self);
        let base = Instant::from_nanos(now.as_nanos() >> Self::BITS << Self::BITS);
        base + Duration::from_nanos(u64::try_from(ticks).unwrap_or(0) << Self::BITS)
    }
}

/// Rate limit for Resets that reject responses of one source.
const RESETS: ResponseLimit = ResponseLimit { per_second: 1, burst: 16 };

/// Returns whether a message of this size may be sent to a source with this allowance.
pub(crate) fn allows(allowance: Option<NonZeroU16>, bytes: usize) -> bool {
    allowance.is_none_or(|allowance| bytes <= usize::from(allowance.get()))
}

impl<P: PeerKey, C: Controller> Transport<P, C> {
    /// Inserts a message. Pending replies of evicted entries are still sent.
    #[inline]
    pub(crate) fn remember(&mut self, now: Instant, received: Received, reply: Reply) -> Option<Remembered> {
        self.received.insert(now, received, reply, |received| self.outbox.keep(received)).ok()
    }

    /// Answers a duplicate of a Confirmable request as before, within `allowance`.
    pub(crate) fn receive_duplicate(
        &mut self,
        to: Source<P>,
        message: &Message<'_>,
        remembered: Remembered,
        allowance: Option<NonZeroU16>,
    ) {
        self.stats.duplicates += 1;
        match self.received.reply(remembered) {
            None | Some(Reply::Pending) => {}
            Some(reply) if message.ty() != Type::Confirmable || !allows(allowance, reply.len()) => {}
            Some(_) => self.outbox.push_back(Departure::Remembered { to, id: message.id(), remembered }),
        }
    }

    pub(crate) fn push_empty(&mut self, to: Source<P>, ty: Type, id: MessageId) {
        self.outbox.push_back(Departure::Empty { to, ty, id });
    }

    /// Rejects a message without context or of a reserved class; also answers a ping.
    pub(crate) fn reject(&mut self, source: Source<P>, message: &Message<'_>) {
        if message.ty() == Type::Confirmable {
            self.push_empty(source, Type::Reset, message.id());
        }
    }

    /// Rejects a response with a Reset, or ignores it (RFC 7252 §4.2, §4.3) if its sender exceeds
    /// [`RESETS`]: a peer that answers a Reset with another response would do so forever.
    pub(crate) fn reject_response(&mut self, now: Instant, source: Source<P>, hash: u64, id: MessageId) {
        let limiters = self.limiters.get_or_insert_default();
        let resets = limiters.resets.get_or_insert_with(|| Limiter::small(RESETS));
        if resets.admits(now, Group::of(hash)) {
            self.push_empty(source, Type::Reset, id);
        } else {
            self.stats.resets_limited += 1;
        }
    }

    /// Acknowledges a Confirmable message and its duplicates with an Empty ACK.
    pub(crate) fn acknowledge_empty(&mut self, now: Instant, to: Source<P>, fingerprint: Fingerprint, id: MessageId) {
        let _ = self.remember(now, Received { fingerprint, confirmable: true, idempotent: Ok(()) }, Reply::EmptyAck);
        self.push_empty(to, Type::Acknowledgement, id);
    }

    pub(crate) fn remember_silence(&mut self, now: Instant, fingerprint: Fingerprint) {
        let _ = self.remember(now, Received { fingerprint, confirmable: false, idempotent: Ok(()) }, Reply::Silence);
    }
}

#[cfg(test)]
mod tests;
