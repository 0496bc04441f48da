//! The deduplication table (RFC 7252 §4.5): what was received lately, and what was answered.
//!
//! It is independent of the table of peers: a request from an unknown address costs one entry here and no congestion
//! state. An entry does not even hold the address: a [`Fingerprint`] of (peer, our address, message ID) stands for it.
//!
//! Its bytes are bounded. When it is full, the oldest entry of an idempotent request makes room, answered or not:
//! handling a copy of it again does no harm. A request that is not idempotent is never forgotten early; instead each
//! group of sources gets its [share](crate::shares), beyond which it is refused.

use alloc::boxed::Box;
use core::hint::black_box;
use core::time::Duration;

use crate::config::SharedConfig;
use crate::hash::Fingerprint;
use crate::shares::{Group, Shares};
use crate::store::{Arena, Index, NIL, Number, Seldom};
use conche_cc::Instant;

/// Bytes that the allocator adds to a reply.
const REPLY_OVERHEAD: usize = 16;

/// What was received and is remembered.
#[derive(Debug)]
struct Entry {
    what: Fingerprint,
    /// The next one in the same queue.
    next: u32,
    expires: Tick,
    /// Whose share it is of, if it is not idempotent.
    group: Group,
    reply: Reply,
}

/// What a duplicate is answered with.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// The request waits for its response, and nothing was sent for it yet.
    Pending,
    /// An Empty ACK.
    EmptyAck,
    /// Nothing: the message was Non-confirmable.
    Silence,
    /// This datagram.
    Short {
        /// How much of `bytes` it is.
        length: u8,
        /// It, and zeros.
        bytes: [u8; Reply::SHORT],
    },
    /// This datagram.
    Datagram(Box<[u8]>),
}

impl Reply {
    /// A datagram of so many bytes needs no memory of its own.
    pub(crate) const SHORT: usize = 14;

    /// The bytes of the datagram that it is.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Pending | Self::Silence => 0,
            Self::EmptyAck => 4,
            Self::Short { length, .. } => usize::from(*length),
            Self::Datagram(datagram) => datagram.len(),
        }
    }
}

/// A received message, to be entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) what: Fingerprint,
    /// Confirmable, so remembered for EXCHANGE_LIFETIME; otherwise for NON_LIFETIME.
    pub(crate) confirmable: bool,
    /// Handling it twice has the effect of handling it once; otherwise, whose share it is of.
    pub(crate) idempotent: Result<(), Group>,
}

/// Names an entry as long as it is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remembered {
    index: Number,
    /// What tells it from another one in its place.
    message: [u32; 2],
}

impl Remembered {
    /// What tells the message from all others.
    pub(crate) fn message(self) -> [u32; 2] {
        self.message
    }
}

/// The table is full, or the group has its share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// The queues of entries that live equally long, so that the oldest expires first.
#[derive(Clone, Copy)]
enum Queue {
    /// Never forgotten early.
    NotIdempotent,
    /// The oldest make room when the table is full.
    Idempotent,
}

const QUEUES: [Queue; 2] = [Queue::NotIdempotent, Queue::Idempotent];

/// Whether an entry has room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Free,
    /// In the part of the table that is for replies as long as something can be forgotten.
    Last,
    None,
}

/// The first and the last entry of a queue.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY_QUEUES: [[Ends; 2]; 2] = [[Ends { first: NIL, last: NIL }; 2]; 2];

/// The deduplication table.
#[derive(Debug)]
pub(crate) struct Deduplication {
    index: Index,
    entries: Arena<Entry>,
    /// Lifetimes of Confirmable and Non-confirmable messages.
    lifetimes: [Duration; 2],
    /// Of Confirmable and Non-confirmable messages, by [`Queue`].
    queues: [[Ends; 2]; 2],
    /// Bytes that requests take which are not idempotent.
    shares: Shares,
    /// Of all replies, with what is set aside for those to come.
    reply_bytes: usize,
    /// Those of them that make room when the table is full.
    evictable_bytes: usize,
    longest_reply: usize,
    capacity: usize,
    /// When what was over was forgotten last.
    purged: Instant,
    /// Nothing is over before this.
    first_expiry: Instant,
}

impl Seldom for Deduplication {
    type Recipe = SharedConfig;

    fn empty<'a>() -> &'a Self {
        const { &Self::NONE }
    }

    fn make(config: &SharedConfig) -> Self {
        let (limits, times) = (&config.limits, config.times());
        let lifetimes = [times.exchange_lifetime, times.non_lifetime];
        Self::new(limits.deduplication_bytes, limits.message_bytes, lifetimes)
    }
}

impl Deduplication {
    /// Bytes of an entry with its place in the index, and with the place of its reply, which a short one needs no more than.
    pub(crate) const ENTRY_BYTES: usize = Arena::<Entry>::PLACE_BYTES + Index::BYTES;

    /// The same without the place of its reply.
    pub(crate) const BYTES_BESIDE_REPLY: usize = Self::ENTRY_BYTES - size_of::<Reply>();

    /// How long what is over may take room that nobody else wants.
    const LAG: Duration = Duration::from_millis(500);

    /// One that remembers nothing, nor ever will.
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

    /// The entry of a message that was received before and within its lifetime.
    #[inline]
    pub(crate) fn find(&mut self, now: Instant, what: Fingerprint) -> Option<Remembered> {
        self.purge(now);
        let is_it = |entry: &Entry| entry.what == what && !entry.expires.is_over(now);
        let index = self.index.find(&self.entries, what.short(), is_it)?;
        Number::of(index).map(|index| Remembered { index, message: what.message })
    }

    /// Reads what finding and entering these messages will need, and what forgetting as many will where the table is full.
    #[inline]
    pub(crate) fn glance(&self, messages: &[Fingerprint]) {
        messages.iter().for_each(|what| self.index.glance(what.short()));
        if self.room(self.longest_reply) == Room::Free {
            return;
        }
        let mut oldest = self.queues[0][Queue::Idempotent as usize].first;
        for _ in messages {
            let Some(entry) = self.entries.get(oldest) else { break };
            self.index.glance_at_end(oldest);
            if let Reply::Datagram(datagram) = &entry.reply {
                black_box(datagram.first());
            }
            oldest = entry.next;
        }
    }

    /// Enters a message that [`find`](Self::find) has just not found. `keep` is called first if others may be forgotten for
    /// it.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        received: Received,
        reply: Reply,
        keep: impl FnOnce(&Self),
    ) -> Result<Remembered, TableFull> {
        let Received { what, confirmable, idempotent } = received;
        let reply_bytes = self.bytes_of(&reply);
        let bytes = Self::ENTRY_BYTES + reply_bytes;
        let has_share =
            |this: &Self| idempotent.map_or_else(|group| this.shares.admits(group, bytes, this.capacity), |()| true);
        if now >= self.first_expiry && (self.room(reply_bytes) != Room::Free || !has_share(self)) {
            // What is over takes nobody's place.
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
        let entry = || Entry { what, next: NIL, expires, group, reply };
        let index = self.entries.insert_with(entry).ok_or(TableFull)?;
        self.index.insert(what.short(), index);
        self.reply_bytes += reply_bytes;
        let queue = if idempotent.is_ok() { Queue::Idempotent } else { Queue::NotIdempotent };
        match queue {
            Queue::Idempotent => self.evictable_bytes += reply_bytes,
            Queue::NotIdempotent => self.shares.take(group, Self::ENTRY_BYTES + reply_bytes),
        }
        self.push(lifetime, queue, index);
        Number::of(index).map(|index| Remembered { index, message: what.message }).ok_or(TableFull)
    }

    /// The reply of an entry that is still there.
    #[inline]
    pub(crate) fn reply(&self, remembered: Remembered) -> Option<&Reply> {
        let entry =
            self.entries.get(remembered.index.get()).filter(|entry| entry.what.message == remembered.message)?;
        Some(&entry.reply)
    }

    /// When the message of an entry that is still there, a Confirmable one, was received, to a millisecond.
    pub(crate) fn arrived(&self, now: Instant, remembered: Remembered) -> Option<Instant> {
        let entry =
            self.entries.get(remembered.index.get()).filter(|entry| entry.what.message == remembered.message)?;
        Some((entry.expires.from(now) - self.lifetimes[0]).min(now))
    }

    /// Changes the reply of an entry that is still there; otherwise it comes back. For one that is
    /// [`Pending`](Reply::Pending), room was set aside. Always inlined, as is who calls it, so that the reply is written into the
    /// entry.
    #[inline(always)]
    pub(crate) fn set_reply(&mut self, remembered: Remembered, reply: Reply) -> Result<(), Reply> {
        let bytes = self.bytes_of(&reply);
        let found =
            self.entries.get_mut(remembered.index.get()).filter(|entry| entry.what.message == remembered.message);
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

    /// Forgets what has outlived its lifetime, [a little](Self::LAG) later: so it is not one with each message that comes, but
    /// some at a time. What is over is not found in any case.
    #[inline]
    pub(crate) fn purge(&mut self, now: Instant) {
        // A tick tells past from future within two of these spans, and nothing was entered since.
        let all = now - self.purged > 2 * Tick::LONGEST;
        self.purged = now;
        if now >= self.first_expiry + Self::LAG {
            self.forget(now, all);
        }
    }

    /// Forgets what is over by now, or all.
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
            // An endpoint that went idle weighs what it did at its start.
            self.entries = Arena::new();
            self.queues = EMPTY_QUEUES;
        }
        let firsts = self.queues.iter().flatten();
        let expiries = firsts.filter_map(|ends| Some(self.entries.get(ends.first)?.expires.from(now)));
        self.first_expiry = expiries.min().unwrap_or(Instant::FAR_FUTURE);
    }

    /// When to purge next. Coarse on purpose: a server under load must not wake up once for each entry.
    pub(crate) fn next_purge(&self, now: Instant) -> Option<Instant> {
        const COARSE: Duration = Duration::from_secs(16);
        let at = self.first_expiry + COARSE;
        (self.entries.len() > 0 && at > now).then_some(at)
    }

    /// How many messages are remembered.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entries looked at by all searches so far.
    pub(crate) fn steps(&self) -> u64 {
        self.index.steps()
    }

    /// Bytes that the table takes at most.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.places() * Self::ENTRY_BYTES + self.reply_bytes
    }

    /// What a reply takes beside its entry.
    #[inline]
    fn bytes_of(&self, reply: &Reply) -> usize {
        match reply {
            Reply::Datagram(bytes) => bytes.len() + REPLY_OVERHEAD,
            Reply::Pending => self.longest_reply + REPLY_OVERHEAD,
            Reply::EmptyAck | Reply::Silence | Reply::Short { .. } => 0,
        }
    }

    /// Whether a message is idempotent, or not remembered any more.
    pub(crate) fn is_idempotent(&self, remembered: Remembered) -> bool {
        let entry = self.entries.get(remembered.index.get());
        entry.is_none_or(|entry| entry.what.message != remembered.message || entry.group == Group::NOBODY)
    }

    /// Forgets idempotent requests, the oldest first, until an entry with a reply of so many bytes fits.
    ///
    /// A place once made is there until the table is empty, so a flood of short entries could turn all of the capacity into
    /// places and leave none for replies. Places therefore take the last quarter only when nothing is left to forget.
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

    /// The room for an entry with a reply of so many bytes.
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

    /// Forgets the oldest idempotent request, if there is one.
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
    fn push(&mut self, lifetime: usize, queue: Queue, index: u32) {
        let ends = &mut self.queues[lifetime][queue as usize];
        let before = core::mem::replace(&mut ends.last, index);
        match self.entries.get_mut(before) {
            Some(before) => before.next = index,
            None => ends.first = index,
        }
    }

    /// Forgets the first entry of a queue.
    fn pop(&mut self, lifetime: usize, queue: Queue) {
        let ends = &mut self.queues[lifetime][queue as usize];
        let index = ends.first;
        let Some(entry) = self.entries.get(index) else { return };
        ends.first = entry.next;
        if entry.next == NIL {
            ends.last = NIL;
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

/// A point in time in wrapping units of 2^20 ns, about a millisecond: 4 bytes instead of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tick(u32);

impl Tick {
    const BITS: u32 = 20;
    /// A quarter of what can be told apart: 13 days. No entry lives longer.
    const LONGEST: Duration = Duration::from_nanos((1 << 30) << Self::BITS);

    #[expect(clippy::cast_possible_truncation, reason = "wraps by design")]
    const fn before(instant: Instant) -> Self {
        Self((instant.as_nanos() >> Self::BITS) as u32)
    }

    /// The first one that is not before `instant`.
    const fn after(instant: Instant) -> Self {
        Self(Self::before(instant).0.wrapping_add(1))
    }

    /// How many ticks it is from here to `other`; negative if that is earlier.
    const fn until(self, other: Self) -> i32 {
        other.0.wrapping_sub(self.0).cast_signed()
    }

    /// At the end of time everything is over.
    fn is_over(self, now: Instant) -> bool {
        now == Instant::FAR_FUTURE || self.until(Self::before(now)) >= 0
    }

    const fn is_before(self, other: Self) -> bool {
        self.until(other) > 0
    }

    /// When that is, which is about `now`.
    fn from(self, now: Instant) -> Instant {
        let ticks = Self::before(now).until(self);
        let base = Instant::from_nanos(now.as_nanos() >> Self::BITS << Self::BITS);
        base + Duration::from_nanos(u64::try_from(ticks).unwrap_or(0) << Self::BITS)
    }
}

#[cfg(test)]
mod tests;
