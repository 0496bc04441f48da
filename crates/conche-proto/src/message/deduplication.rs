//! The deduplication table (RFC 7252 §4.5): what was received lately, and what was answered.
//!
//! It is keyed by (peer, message ID) and independent of the table of peers: a request from an unknown address costs one
//! entry here and no congestion state. Its bytes are bounded. When it is full, the oldest entry of an idempotent
//! request makes room; a request that is not idempotent is never forgotten early, since handling it twice would do harm.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::hash::BuildHasher;
use core::mem::size_of;
use core::time::Duration;

use hashbrown::HashMap;
use slab::Slab;

use crate::PeerKey;
use crate::codec::{MessageId, Token};
use conche_cc::Instant;

/// Bytes of an entry beside its cached reply: itself, its index record and its place in a queue.
const fn entry_bytes<P>() -> usize {
    size_of::<Entry<P>>() + size_of::<(P, MessageId, u32)>() + size_of::<Expiry>()
}

/// What was received and is remembered.
#[derive(Debug)]
struct Entry<P> {
    generation: u32,
    from: P,
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

impl Reply {
    fn bytes(&self) -> usize {
        match self {
            Self::Datagram(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

/// A received message, to be entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<P> {
    pub(crate) from: P,
    pub(crate) id: MessageId,
    /// Confirmable, so remembered for EXCHANGE_LIFETIME; otherwise for NON_LIFETIME.
    pub(crate) confirmable: bool,
    /// Handling it twice has the effect of handling it once.
    pub(crate) idempotent: bool,
}

/// The table is full and nothing in it may be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

#[derive(Clone, Copy, Debug)]
struct Expiry {
    at: Instant,
    index: u32,
    generation: u32,
}

/// The queues of entries that live equally long.
#[derive(Clone, Copy)]
enum Queue {
    /// Never forgotten early.
    NotIdempotent,
    /// The oldest make room when the table is full.
    Idempotent,
    /// Idempotent, but not answered yet when it was its turn to make room.
    Kept,
}

/// The deduplication table.
#[derive(Debug)]
pub(crate) struct Deduplication<P, S> {
    index: HashMap<(P, MessageId), u32, S>,
    entries: Slab<Entry<P>>,
    /// Lifetimes of Confirmable and Non-confirmable messages.
    lifetimes: [Duration; 2],
    /// In order of expiry, as all entries of a queue live equally long: Confirmable or not, and each [`Queue`].
    queues: [[VecDeque<Expiry>; 3]; 2],
    generation: u32,
    bytes: usize,
    capacity: usize,
}

impl<P: PeerKey, S: BuildHasher> Deduplication<P, S> {
    pub(crate) fn new(capacity: usize, exchange_lifetime: Duration, non_lifetime: Duration, hasher: S) -> Self {
        Self {
            index: HashMap::with_hasher(hasher),
            entries: Slab::new(),
            lifetimes: [exchange_lifetime, non_lifetime],
            queues: Default::default(),
            generation: 0,
            bytes: 0,
            capacity,
        }
    }

    /// The entry of a message that was received before and within its lifetime.
    pub(crate) fn find(&mut self, now: Instant, from: P, id: MessageId) -> Option<(u32, u32)> {
        self.purge(now);
        let index = *self.index.get(&(from, id))?;
        Some((index, self.entries[index as usize].generation))
    }

    /// Enters a message that [`find`](Self::find) does not know, and returns its index and generation.
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        received: Received<P>,
        reply: Reply,
    ) -> Result<(u32, u32), TableFull> {
        self.purge(now);
        let bytes = entry_bytes::<P>() + reply.bytes();
        self.make_room(bytes)?;
        self.generation = self.generation.wrapping_add(1);
        let Received { from, id, confirmable, idempotent } = received;
        let generation = self.generation;
        let index = self.entries.insert(Entry { generation, from, id, reply });
        let index = u32::try_from(index).map_err(|_| TableFull)?;
        self.index.insert((from, id), index);
        self.bytes += bytes;
        let at = now + self.lifetimes[usize::from(!confirmable)];
        let queue = if idempotent { Queue::Idempotent } else { Queue::NotIdempotent };
        self.queues[usize::from(!confirmable)][queue as usize].push_back(Expiry { at, index, generation });
        Ok((index, generation))
    }

    /// The peer, message ID and reply of a live entry.
    pub(crate) fn get(&self, index: u32, generation: u32) -> Option<(P, MessageId, &Reply)> {
        let entry = self.entries.get(index as usize).filter(|entry| entry.generation == generation)?;
        Some((entry.from, entry.id, &entry.reply))
    }

    /// The generation of the live entry at `index`.
    pub(crate) fn generation(&self, index: u32) -> Option<u32> {
        self.entries.get(index as usize).map(|entry| entry.generation)
    }

    /// Changes the reply of a live entry; a longer one may push the table over its bound until the next insertion.
    pub(crate) fn set_reply(&mut self, index: u32, generation: u32, reply: Reply) {
        if let Some(entry) = self.entries.get_mut(index as usize).filter(|entry| entry.generation == generation) {
            self.bytes = self.bytes - entry.reply.bytes() + reply.bytes();
            entry.reply = reply;
        }
    }

    /// Forgets what has outlived its lifetime.
    pub(crate) fn purge(&mut self, now: Instant) {
        for lifetime in 0..2 {
            for queue in [Queue::NotIdempotent, Queue::Idempotent, Queue::Kept] {
                let queue = queue as usize;
                while let Some(&expiry) = self.queues[lifetime][queue].front().filter(|expiry| expiry.at <= now) {
                    self.queues[lifetime][queue].pop_front();
                    self.remove(expiry);
                }
            }
        }
        if self.entries.is_empty() && self.entries.capacity() > 0 {
            self.release();
        }
    }

    /// When to purge next. Coarse on purpose: a server under load must not wake up once for each entry.
    pub(crate) fn next_purge(&self) -> Option<Instant> {
        const COARSE: Duration = Duration::from_secs(16);
        let first = self.queues.iter().flatten().filter_map(|queue| queue.front()).map(|expiry| expiry.at).min()?;
        Some(first + COARSE)
    }

    /// How many messages are remembered.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that the table takes, by its own count.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn make_room(&mut self, bytes: usize) -> Result<(), TableFull> {
        while self.bytes + bytes > self.capacity {
            let oldest = self
                .queues
                .iter_mut()
                .filter(|queues| !queues[Queue::Idempotent as usize].is_empty())
                .min_by_key(|queues| queues[Queue::Idempotent as usize].front().map(|expiry| expiry.at));
            let Some(queues) = oldest else { return Err(TableFull) };
            let Some(expiry) = queues[Queue::Idempotent as usize].pop_front() else { return Err(TableFull) };
            if matches!(self.entries[expiry.index as usize].reply, Reply::Pending { .. }) {
                queues[Queue::Kept as usize].push_back(expiry);
            } else {
                self.remove(expiry);
            }
        }
        Ok(())
    }

    fn remove(&mut self, expiry: Expiry) {
        let entry = self.entries.remove(expiry.index as usize);
        debug_assert_eq!(entry.generation, expiry.generation, "an entry leaves the table only through its queue");
        self.index.remove(&(entry.from, entry.id));
        self.bytes -= entry_bytes::<P>() + entry.reply.bytes();
    }

    /// Gives the memory of an empty table back, so that an endpoint that went idle weighs what it did at its start.
    fn release(&mut self) {
        self.entries = Slab::new();
        self.index.shrink_to_fit();
        self.queues = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::RandomState;

    const LIFETIME: Duration = Duration::from_secs(247);
    const NON_LIFETIME: Duration = Duration::from_secs(145);

    fn table(capacity: usize) -> Deduplication<u32, RandomState> {
        Deduplication::new(capacity, LIFETIME, NON_LIFETIME, RandomState::from_seed(1))
    }

    fn post(id: u16) -> Received<u32> {
        Received { from: 7, id: MessageId(id), confirmable: true, idempotent: false }
    }

    fn get(id: u16) -> Received<u32> {
        Received { idempotent: true, ..post(id) }
    }

    fn knows(table: &mut Deduplication<u32, RandomState>, id: u16) -> bool {
        table.find(Instant::ZERO, 7, MessageId(id)).is_some()
    }

    #[test]
    fn entries_live_exactly_their_lifetime() {
        let mut table = table(1 << 20);
        table.insert(Instant::ZERO, post(1), Reply::EmptyAck).expect("room");
        table.insert(Instant::ZERO, Received { confirmable: false, ..post(2) }, Reply::Silence).expect("room");
        table.purge(Instant::ZERO + NON_LIFETIME - Duration::from_nanos(1));
        assert_eq!(table.len(), 2);
        table.purge(Instant::ZERO + NON_LIFETIME);
        assert!(!knows(&mut table, 2) && knows(&mut table, 1));
        table.purge(Instant::ZERO + LIFETIME);
        assert_eq!((table.len(), table.bytes()), (0, 0));
    }

    #[test]
    fn a_full_table_forgets_idempotent_requests_first_and_others_never() {
        let mut table = table(entry_bytes::<u32>() * 2);
        let ack = || Reply::EmptyAck;
        table.insert(Instant::ZERO, get(1), ack()).expect("room");
        table.insert(Instant::ZERO, post(2), ack()).expect("room");
        table.insert(Instant::from_millis(1), post(3), ack()).expect("the GET makes room");
        assert!(!knows(&mut table, 1));
        assert_eq!(table.insert(Instant::from_millis(2), get(4), ack()), Err(TableFull));
        assert!(knows(&mut table, 2) && knows(&mut table, 3));
    }

    #[test]
    fn a_request_that_waits_for_its_response_is_not_evicted() {
        let mut table = table(entry_bytes::<u32>());
        let pending = Reply::Pending { token: Token::EMPTY, confirmable: true, acknowledged: false };
        table.insert(Instant::ZERO, get(1), pending).expect("room");
        assert_eq!(table.insert(Instant::ZERO, get(2), Reply::EmptyAck), Err(TableFull));
        table.purge(Instant::ZERO + LIFETIME);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_request_that_waits_does_not_keep_answered_ones_from_making_room() {
        let mut table = table(entry_bytes::<u32>() * 2);
        let pending = Reply::Pending { token: Token::EMPTY, confirmable: true, acknowledged: false };
        table.insert(Instant::ZERO, get(1), pending).expect("room");
        for id in 2..10 {
            table.insert(Instant::ZERO, get(id), Reply::EmptyAck).expect("the one answered before makes room");
            assert!(knows(&mut table, 1) && knows(&mut table, id) && !knows(&mut table, id - 1) || id == 2);
        }
    }
}
