//! The deduplication table (RFC 7252 §4.5): what was received lately, and what was answered.
//!
//! It is keyed by (peer, message ID) and independent of the table of peers: a request from an unknown address costs one
//! entry here and no congestion state. Its bytes are bounded. When it is full, the oldest entry of an idempotent
//! request makes room; a request that is not idempotent is never forgotten early, since handling it twice would do harm.

use alloc::boxed::Box;
use core::hash::BuildHasher;
use core::time::Duration;

use hashbrown::HashTable;

use super::arena::Arena;
use crate::PeerKey;
use crate::codec::{MessageId, Token};
use conche_cc::Instant;

/// Bytes that an entry takes elsewhere at most: five in a hash table, which at its worst is 3/16 full while it grows, and
/// four in the table of timers, which at its worst is a third full.
const BYTES_ELSEWHERE: usize = 5 * 16 / 3 + 4 * 3;

/// Bytes that the allocator adds to a reply.
const REPLY_OVERHEAD: usize = 16;

/// No entry.
const NIL: u32 = u32::MAX;

/// What was received and is remembered.
#[derive(Debug)]
struct Entry<P> {
    generation: u32,
    /// The next one in the same queue.
    next: u32,
    expires: Instant,
    from: P,
    local: Option<core::net::IpAddr>,
    id: MessageId,
    reply: Reply,
}

/// What a duplicate is answered with.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The application has not answered yet.
    Pending {
        /// The request's token.
        token: Token,
        /// The request was Confirmable.
        confirmable: bool,
        /// It was acknowledged with an Empty ACK; the response will be separate.
        acknowledged: bool,
    },
    /// An Empty ACK.
    EmptyAck,
    /// This datagram.
    Datagram(Box<[u8]>),
    /// Nothing: the message was Non-confirmable.
    Silence,
}

/// A received message, to be entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<P> {
    pub(crate) from: P,
    pub(crate) local: Option<core::net::IpAddr>,
    pub(crate) id: MessageId,
    /// Confirmable, so remembered for EXCHANGE_LIFETIME; otherwise for NON_LIFETIME.
    pub(crate) confirmable: bool,
    /// Handling it twice has the effect of handling it once.
    pub(crate) idempotent: bool,
}

/// The table is full and nothing in it may be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// The queues of entries that live equally long, so that the oldest expires first.
#[derive(Clone, Copy)]
enum Queue {
    /// Never forgotten early.
    NotIdempotent,
    /// The oldest make room when the table is full.
    Idempotent,
    /// Idempotent, but not answered yet when it was its turn to make room.
    Kept,
}

/// The first and the last entry of a queue.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY_QUEUES: [[Ends; 3]; 2] = [[Ends { first: NIL, last: NIL }; 3]; 2];

/// The deduplication table.
#[derive(Debug)]
pub(crate) struct Deduplication<P, S> {
    index: HashTable<u32>,
    hasher: S,
    entries: Arena<Entry<P>>,
    /// Lifetimes of Confirmable and Non-confirmable messages.
    lifetimes: [Duration; 2],
    /// Of Confirmable and Non-confirmable messages, by [`Queue`].
    queues: [[Ends; 3]; 2],
    generation: u32,
    /// Of all replies, with what is set aside for those to come.
    reply_bytes: usize,
    longest_reply: usize,
    capacity: usize,
}

impl<P: PeerKey, S: BuildHasher> Deduplication<P, S> {
    pub(crate) fn new(capacity: usize, longest_reply: usize, lifetimes: [Duration; 2], hasher: S) -> Self {
        Self {
            index: HashTable::new(),
            hasher,
            entries: Arena::default(),
            lifetimes,
            queues: EMPTY_QUEUES,
            generation: 0,
            reply_bytes: 0,
            longest_reply,
            capacity,
        }
    }

    /// The entry of a message that was received before and within its lifetime.
    pub(crate) fn find(
        &mut self,
        now: Instant,
        from: P,
        local: Option<core::net::IpAddr>,
        id: MessageId,
    ) -> Option<(u32, u32)> {
        self.purge(now);
        let hash = self.hasher.hash_one((from, local, id));
        let &index = self.index.find(hash, |&index| is_of(self.entries.get(index), from, local, id))?;
        Some((index, self.generation(index)?))
    }

    /// Enters a message that [`find`](Self::find) has just not found, and returns its index and generation.
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        received: Received<P>,
        reply: Reply,
    ) -> Result<(u32, u32), TableFull> {
        let bytes = self.bytes_of(&reply);
        self.make_room(bytes)?;
        self.generation = self.generation.wrapping_add(1);
        let Received { from, local, id, confirmable, idempotent } = received;
        let lifetime = usize::from(!confirmable);
        let (generation, expires) = (self.generation, now + self.lifetimes[lifetime]);
        let entry = Entry { generation, next: NIL, expires, from, local, id, reply };
        let index = self.entries.insert(entry).ok_or(TableFull)?;
        self.reply_bytes += bytes;
        let Self { index: table, hasher, entries, .. } = self;
        let rehash =
            |&index: &u32| entries.get(index).map_or(0, |entry| hasher.hash_one((entry.from, entry.local, entry.id)));
        table.insert_unique(hasher.hash_one((from, local, id)), index, rehash);
        self.push(lifetime, if idempotent { Queue::Idempotent } else { Queue::NotIdempotent }, index);
        Ok((index, generation))
    }

    /// The peer, message ID and reply of a live entry.
    pub(crate) fn get(&self, index: u32, generation: u32) -> Option<(P, MessageId, &Reply)> {
        let entry = self.entries.get(index).filter(|entry| entry.generation == generation)?;
        Some((entry.from, entry.id, &entry.reply))
    }

    /// Which of our addresses the message of the live entry at `index` was sent to.
    pub(crate) fn local(&self, index: u32) -> Option<core::net::IpAddr> {
        self.entries.get(index)?.local
    }

    /// The generation of the live entry at `index`.
    pub(crate) fn generation(&self, index: u32) -> Option<u32> {
        self.entries.get(index).map(|entry| entry.generation)
    }

    /// Changes the reply of a live entry. For one that it waited for, room was set aside.
    pub(crate) fn set_reply(&mut self, index: u32, generation: u32, reply: Reply) {
        let bytes = self.bytes_of(&reply);
        if let Some(entry) = self.entries.get_mut(index).filter(|entry| entry.generation == generation) {
            let before = core::mem::replace(&mut entry.reply, reply);
            self.reply_bytes = self.reply_bytes - self.bytes_of(&before) + bytes;
        }
    }

    /// Forgets what has outlived its lifetime.
    pub(crate) fn purge(&mut self, now: Instant) {
        for lifetime in 0..2 {
            for queue in [Queue::NotIdempotent, Queue::Idempotent, Queue::Kept] {
                while self.expiry(self.queues[lifetime][queue as usize]).is_some_and(|expires| expires <= now) {
                    if let Some(index) = self.pop(lifetime, queue) {
                        self.remove(index);
                    }
                }
            }
        }
        if self.entries.len() == 0 && self.entries.places() > 0 {
            self.release();
        }
    }

    /// When to purge next. Coarse on purpose: a server under load must not wake up once for each entry.
    pub(crate) fn next_purge(&self) -> Option<Instant> {
        const COARSE: Duration = Duration::from_secs(16);
        let first = self.queues.iter().flatten().filter_map(|&queue| self.expiry(queue)).min()?;
        Some(first + COARSE)
    }

    /// How many messages are remembered.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that the table takes at most.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.places() * (Arena::<Entry<P>>::PLACE_BYTES + BYTES_ELSEWHERE) + self.reply_bytes
    }

    /// What a reply takes beside its entry.
    fn bytes_of(&self, reply: &Reply) -> usize {
        match reply {
            Reply::Datagram(bytes) => bytes.len() + REPLY_OVERHEAD,
            Reply::Pending { confirmable: true, acknowledged: false, .. } => self.longest_reply + REPLY_OVERHEAD,
            Reply::Pending { .. } | Reply::EmptyAck | Reply::Silence => 0,
        }
    }

    /// Forgets until an entry with a reply of so many bytes fits.
    fn make_room(&mut self, reply_bytes: usize) -> Result<(), TableFull> {
        const fn chunk_bytes<P>() -> usize {
            Arena::<Entry<P>>::CHUNK * (Arena::<Entry<P>>::PLACE_BYTES + BYTES_ELSEWHERE)
        }
        loop {
            let full = self.entries.len() == self.entries.places();
            let needed = reply_bytes + if full { chunk_bytes::<P>() } else { 0 };
            if self.bytes() + needed <= self.capacity {
                return Ok(());
            }
            let oldest = (0..2)
                .filter_map(|lifetime| {
                    Some((self.expiry(self.queues[lifetime][Queue::Idempotent as usize])?, lifetime))
                })
                .min();
            let (_, lifetime) = oldest.ok_or(TableFull)?;
            let index = self.pop(lifetime, Queue::Idempotent).ok_or(TableFull)?;
            match self.entries.get(index).map(|entry| &entry.reply) {
                Some(Reply::Pending { .. }) => self.push(lifetime, Queue::Kept, index),
                _ => self.remove(index),
            }
        }
    }

    /// When the first entry of a queue expires.
    fn expiry(&self, queue: Ends) -> Option<Instant> {
        self.entries.get(queue.first).map(|entry| entry.expires)
    }

    fn push(&mut self, lifetime: usize, queue: Queue, index: u32) {
        let ends = &mut self.queues[lifetime][queue as usize];
        let before = core::mem::replace(&mut ends.last, index);
        match self.entries.get_mut(before) {
            Some(before) => before.next = index,
            None => ends.first = index,
        }
    }

    fn pop(&mut self, lifetime: usize, queue: Queue) -> Option<u32> {
        let ends = &mut self.queues[lifetime][queue as usize];
        let index = ends.first;
        let next = core::mem::replace(&mut self.entries.get_mut(index)?.next, NIL);
        ends.first = next;
        if next == NIL {
            ends.last = NIL;
        }
        Some(index)
    }

    /// Removes an entry that has left its queue.
    fn remove(&mut self, index: u32) {
        let Some(entry) = self.entries.remove(index) else { return };
        let hash = self.hasher.hash_one((entry.from, entry.local, entry.id));
        if let Ok(place) = self.index.find_entry(hash, |&found| found == index) {
            place.remove();
        }
        self.reply_bytes -= self.bytes_of(&entry.reply);
    }

    /// Gives the memory of an empty table back, so that an endpoint that went idle weighs what it did at its start.
    fn release(&mut self) {
        self.entries = Arena::default();
        self.index = HashTable::new();
        self.queues = EMPTY_QUEUES;
    }
}

fn is_of<P: PeerKey>(entry: Option<&Entry<P>>, from: P, local: Option<core::net::IpAddr>, id: MessageId) -> bool {
    entry.is_some_and(|entry| entry.id == id && entry.from == from && entry.local == local)
}

#[cfg(test)]
mod tests;
