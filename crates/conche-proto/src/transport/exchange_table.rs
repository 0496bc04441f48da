//! [`Exchanges`]: all live exchanges.

use alloc::boxed::Box;
use alloc::vec;
use core::hint::black_box;
use core::net::IpAddr;
use core::time::Duration;

use super::exchange::{Content, Exchange, ExchangeId, ExchangeIndex, ExchangeStats, Purpose, State};
use super::peer::PeerIndex;
use super::peer_table::Peers;
use super::request::Reliability;
use super::transfer::ActiveTransfer;
use crate::PeerKey;
use crate::codec::{BlockSize, Body, Code, MessageId, Overhead, Token};
use crate::config::{EndpointConfig, SharedConfig};
use crate::hash::Keyed;
use crate::security::Security;
use crate::store::{Arena, ArenaIndex, Index, Links, Timers};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

pub(crate) struct Opening {
    pub(crate) purpose: Purpose,
    pub(crate) code: Code,
    pub(crate) body: Body,
    pub(crate) token: Token,
    pub(crate) local: Option<IpAddr>,
    pub(crate) reliability: Reliability,
    pub(crate) deadline: Instant,
    pub(crate) transfer: Option<Box<ActiveTransfer>>,
    pub(crate) whole: bool,
    pub(crate) streamed: bool,
    pub(crate) security: Security,
}

impl Opening {
    /// An Empty message without options. As is, it opens a ping (RFC 7252 §4.3).
    pub(crate) const EMPTY: Self = Self {
        purpose: Purpose::Ping,
        code: Code::EMPTY,
        body: Body::EMPTY,
        token: Token::EMPTY,
        local: None,
        reliability: Reliability::Confirmable,
        deadline: Instant::FAR_FUTURE,
        transfer: None,
        whole: false,
        streamed: false,
        security: Security::PLAIN,
    };

    /// Returns the message size; an upper bound if it is still to be protected.
    pub(crate) fn bytes(&self) -> usize {
        Overhead::of(&self.token).with(self.security.bytes_to_come()).message(&self.body)
    }

    /// Returns `true` if the request body may exceed a message, or smaller blocks are configured.
    #[inline]
    pub(crate) fn may_need_blocks(&self, config: &EndpointConfig) -> bool {
        self.whole && (config.block_size != BlockSize::B1024 || self.bytes() > config.limits.message_bytes)
    }
}

#[derive(Debug)]
pub(crate) struct Exchanges<C: Controller> {
    pub(super) slots: Arena<Exchange<C>, ExchangeIndex>,
    pub(super) timers: Timers<ExchangeIndex>,
    pub(super) config: SharedConfig,
    by_id: Index<ExchangeIndex>,
    by_token: Index<ExchangeIndex>,
    hash: Keyed,
    /// Distinguishes successive exchanges in the same place.
    generation: u32,
    /// Requests, pings and handshakes, and how many of them wait for admission.
    requests: usize,
    queued_requests: usize,
    /// The rest are notifications, at most one per observer.
    responses: usize,
    queued: usize,
    pub(super) transfer_bytes: usize,
    pub(super) transfers: usize,
}

impl<C: Controller> Exchanges<C> {
    pub(crate) fn new(config: SharedConfig, hash: Keyed) -> Self {
        Self {
            slots: Arena::new(),
            timers: Timers::default(),
            config,
            by_id: Index::new(),
            by_token: Index::new(),
            hash,
            generation: 0,
            requests: 0,
            queued_requests: 0,
            responses: 0,
            queued: 0,
            transfer_bytes: 0,
            transfers: 0,
        }
    }

    /// Opens an exchange with a peer, which it holds. It has no timer before [`wait`](Self::wait).
    /// Takes the stored parts out of `opening`.
    #[inline]
    pub(crate) fn open<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        peer: PeerIndex,
        opening: &mut Opening,
    ) -> Option<ExchangeId> {
        self.generation = self.generation.wrapping_add(1);
        let purpose = opening.purpose;
        let alone = u32::try_from(opening.bytes()).unwrap_or(u32::MAX).saturating_add(self.config.datagram_overhead);
        let in_bursts = purpose != Purpose::Request && opening.reliability != Reliability::Confirmable;
        let set = opening.transfer.as_ref().filter(|_| in_bursts);
        let bytes = set.and_then(|transfer| transfer.burst_bytes(alone)).unwrap_or(alone);
        let max_queueing_time = self.max_queueing_time(purpose);
        let generation = self.generation;
        let exchange = || Exchange {
            generation,
            peer,
            purpose,
            state: State::Queued,
            state_until: now + max_queueing_time,
            ask_again: Instant::FAR_FUTURE,
            deadline: opening.deadline,
            content: Content { code: opening.code, body: core::mem::take(&mut opening.body) },
            security: core::mem::take(&mut opening.security),
            successor: None,
            transfer: opening.transfer.take(),
            whole: opening.whole,
            streamed: opening.streamed,
            token: core::mem::take(&mut opening.token),
            tries_token: false,
            local: opening.local,
            id: MessageId(0),
            identified: false,
            confirmable: opening.reliability == Reliability::Confirmable,
            may_confirm: opening.reliability == Reliability::NonConfirmable,
            bytes,
            holds_slot: false,
            path: None,
            doubtful_ack: false,
            submitted: now,
            sent: smallvec::SmallVec::new(),
            timeout: None,
            acknowledged: None,
            acknowledged_copy: None,
            flight: C::Flight::default(),
            of_peer: Links::default(),
        };
        let index = self.slots.insert_with(exchange)?;
        if matches!(purpose, Purpose::Request | Purpose::State(_)) {
            let hash = self.token_hash(peer, &self.slots[index].token);
            self.by_token.insert(hash, index);
        }
        match purpose {
            Purpose::Request | Purpose::State(_) | Purpose::Ping | Purpose::Handshake => self.requests += 1,
            Purpose::Response(_) => self.responses += 1,
            Purpose::Notification(_) => {}
        }
        peers.hold(peer);
        peers.get_mut(peer).exchanges.push(&mut self.slots, index);
        Some(ExchangeId { index, generation: self.generation })
    }

    /// Returns the maximum queueing time of a message.
    ///
    /// A response waits until its request would be given up, since only the client knows its own
    /// limit. An expired notification would be reopened at once, so it waits at least
    /// EXCHANGE_LIFETIME.
    pub(super) fn max_queueing_time(&self, purpose: Purpose) -> Duration {
        let times = self.config.times();
        match purpose {
            Purpose::Response(_) => times.response_timeout,
            Purpose::Notification(_) => times.response_timeout.max(times.exchange_lifetime),
            Purpose::Request | Purpose::State(_) | Purpose::Ping | Purpose::Handshake => self.config.queue_lifetime,
        }
    }

    #[inline]
    pub(crate) fn wait(&mut self, id: ExchangeId) {
        if self.live(id).is_some_and(|exchange| exchange.state == State::Queued) {
            self.arm(id.index);
        }
    }

    #[inline]
    pub(crate) fn arm(&mut self, index: ExchangeIndex) {
        self.timers.set(index, self.slots[index].wake());
    }

    /// Frees slot, timer, queue place and index entries. Returns purpose and peer.
    #[inline]
    pub(crate) fn close<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
    ) -> (Purpose, PeerIndex) {
        let exchange = &mut self.slots[index];
        exchange.free_slot(peers);
        let &mut Exchange { state, purpose, peer, identified, .. } = exchange;
        let transfers = exchange.transfer.is_some();
        self.timers.cancel(index);
        if state == State::Queued {
            self.dequeue(peers, index);
        }
        peers.get_mut(peer).exchanges.remove(&mut self.slots, index);
        if transfers {
            self.free_transfer(index);
        }
        if identified {
            self.by_id.remove(index);
        }
        match purpose {
            Purpose::Request | Purpose::State(_) => {
                self.by_token.remove(index);
                self.requests -= 1;
            }
            Purpose::Ping | Purpose::Handshake => self.requests -= 1,
            Purpose::Response(_) => self.responses -= 1,
            Purpose::Notification(_) => {}
        }
        peers.let_go(now, peer);
        self.slots.remove(index);
        (purpose, peer)
    }

    #[inline]
    pub(crate) fn live(&self, id: ExchangeId) -> Option<&Exchange<C>> {
        self.slots.get(id.index).filter(|exchange| exchange.generation == id.generation)
    }

    #[inline]
    pub(crate) fn get(&self, index: ExchangeIndex) -> &Exchange<C> {
        &self.slots[index]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: ExchangeIndex) -> &mut Exchange<C> {
        &mut self.slots[index]
    }

    #[inline]
    pub(crate) fn with_id(&mut self, peer: PeerIndex, id: MessageId) -> Option<ExchangeIndex> {
        let is_it = |exchange: &Exchange<C>| exchange.peer == peer && exchange.id == id && !exchange.sent.is_empty();
        self.by_id.find(&self.slots, self.id_hash(peer, id), is_it)
    }

    pub(crate) fn uses_token(&mut self, peer: PeerIndex, token: &Token) -> bool {
        self.find_token(peer, token).is_some()
    }

    /// Returns the sent request with this token: an unsent one has no response.
    pub(crate) fn with_token(&mut self, peer: PeerIndex, token: &Token) -> Option<ExchangeIndex> {
        let may_be_answered = |exchange: &Exchange<C>| !exchange.sent.is_empty() || exchange.has_begun_in_bursts();
        self.find_token(peer, token).filter(|&index| may_be_answered(&self.slots[index]))
    }

    /// Returns an unused random token of this length (RFC 7252 §5.3.1).
    #[inline]
    pub(crate) fn unused_token(
        &mut self,
        peer: PeerIndex,
        length: usize,
        random: &mut impl RngCore,
        mut used_elsewhere: impl FnMut(&Token) -> bool,
    ) -> Option<Token> {
        // With at least 4 bytes the first draw is almost certainly free.
        (0..64).find_map(|_| {
            let token = random_token(length, random)?;
            (!self.uses_token(peer, &token) && !used_elsewhere(&token)).then_some(token)
        })
    }

    pub(crate) fn outstanding<P: PeerKey>(
        &mut self,
        peers: &Peers<P, C>,
        peer: PeerIndex,
    ) -> smallvec::SmallVec<[ExchangeId; 2]> {
        self.of_peer(peers, peer, |exchange| exchange.state == State::AwaitingAck)
    }

    /// Leaves out handshakes, which establish a new session.
    pub(crate) fn with<P: PeerKey>(
        &mut self,
        peers: &Peers<P, C>,
        peer: PeerIndex,
    ) -> smallvec::SmallVec<[ExchangeId; 2]> {
        self.of_peer(peers, peer, |exchange| exchange.purpose != Purpose::Handshake)
    }

    fn of_peer<P: PeerKey>(
        &mut self,
        peers: &Peers<P, C>,
        peer: PeerIndex,
        is_it: impl Fn(&Exchange<C>) -> bool,
    ) -> smallvec::SmallVec<[ExchangeId; 2]> {
        let peer = peers.get(peer);
        let mut found = smallvec::SmallVec::new();
        let mut pass = |index, exchange: &Exchange<C>| {
            if is_it(exchange) {
                found.push(exchange.id(index));
            }
        };
        peer.exchanges.for_each(&mut self.slots, &mut pass);
        peer.messages().queue.for_each(&mut self.slots, &mut pass);
        found.sort_unstable_by_key(|exchange: &ExchangeId| exchange.index);
        found
    }

    /// Returns the parts of an event. Inlined, so that they are written directly into it.
    #[inline(always)]
    pub(crate) fn summary<P: PeerKey>(
        &self,
        now: Instant,
        peers: &Peers<P, C>,
        index: ExchangeIndex,
    ) -> (ExchangeId, P, ExchangeStats) {
        let exchange = &self.slots[index];
        (exchange.id(index), peers.get(exchange.peer).key, exchange.course(now))
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    #[cfg(feature = "oscore")]
    pub(crate) fn securities(&self) -> impl Iterator<Item = &Security> {
        self.slots.iter().map(|(_, exchange)| &exchange.security)
    }

    #[inline]
    pub(crate) fn prefetch(&self) {
        self.timers.prefetch();
        black_box((self.by_id.steps(), self.requests));
        if let Some(exchange) = self.slots.get(ExchangeIndex::of(0)) {
            // One field from each cache line.
            let Exchange { sent, token, content, submitted, successor, id, peer, .. } = exchange;
            black_box((sent.len(), token.len(), content.code, successor.is_some(), *submitted, *id, *peer));
        }
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    pub(crate) fn queued_requests(&self) -> usize {
        self.queued_requests
    }

    pub(crate) fn responses(&self) -> usize {
        self.responses
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) fn timers(&self) -> usize {
        self.timers.len()
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<ExchangeIndex> {
        self.timers.pop_due(now)
    }

    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.by_id.steps() + self.by_token.steps()
    }

    /// Queues a sender at the end of the peer's queue, or at its head if it continues.
    #[inline]
    pub(super) fn enqueue<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: ExchangeIndex, last: bool) {
        let exchange = &self.slots[index];
        self.queued += 1;
        self.queued_requests += usize::from(exchange.is_asked_for());
        let peer = peers.get_mut(exchange.peer);
        peer.exchanges.remove(&mut self.slots, index);
        let messages = peer.messages_mut();
        messages.queued += 1;
        if last {
            messages.queue.push_back(&mut self.slots, index);
        } else {
            messages.queue.push_front(&mut self.slots, index);
        }
    }

    #[inline]
    pub(super) fn dequeue<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: ExchangeIndex) {
        let exchange = &self.slots[index];
        self.queued -= 1;
        self.queued_requests -= usize::from(exchange.is_asked_for());
        let peer = peers.get_mut(exchange.peer);
        let messages = peer.messages_mut();
        messages.queued -= 1;
        messages.queue.remove(&mut self.slots, index);
        peer.exchanges.push(&mut self.slots, index);
    }

    pub(crate) fn identify_as(&mut self, index: ExchangeIndex, id: MessageId) {
        self.unidentify(index);
        self.identify(index, id);
    }

    /// Registers a message ID. An older exchange with the same ID is then found only by its token.
    #[inline]
    pub(super) fn identify(&mut self, index: ExchangeIndex, id: MessageId) {
        let exchange = &mut self.slots[index];
        (exchange.id, exchange.identified) = (id, true);
        let peer = exchange.peer;
        let hash = self.id_hash(peer, id);
        let is_it = |exchange: &Exchange<C>| exchange.peer == peer && exchange.id == id;
        if let Some(before) = self.by_id.find(&self.slots, hash, is_it) {
            self.unidentify(before);
        }
        self.by_id.insert(hash, index);
    }

    pub(super) fn unidentify(&mut self, index: ExchangeIndex) {
        if core::mem::take(&mut self.slots[index].identified) {
            self.by_id.remove(index);
        }
    }

    pub(super) fn take_token(&mut self, index: ExchangeIndex, token: Token) {
        self.by_token.remove(index);
        let hash = self.token_hash(self.slots[index].peer, &token);
        self.slots[index].token = token;
        self.by_token.insert(hash, index);
    }

    /// Returns the bytes with the counted overhead.
    pub(super) fn message_bytes(&self, index: ExchangeIndex, body: &Body) -> u32 {
        let payload = Overhead::of(&self.slots[index].token).message(body);
        u32::try_from(payload).unwrap_or(u32::MAX).saturating_add(self.config.datagram_overhead)
    }

    #[inline]
    fn find_token(&mut self, peer: PeerIndex, token: &Token) -> Option<ExchangeIndex> {
        let is_it = |exchange: &Exchange<C>| exchange.peer == peer && exchange.token == *token;
        self.by_token.find(&self.slots, self.token_hash(peer, token), is_it)
    }

    fn id_hash(&self, peer: PeerIndex, id: MessageId) -> u64 {
        self.hash.spread(peer.into(), id.0.into())
    }

    fn token_hash(&self, peer: PeerIndex, token: &Token) -> u64 {
        token_hash(&self.hash, peer, token)
    }
}

/// Hashes all bytes of long tokens: an application's tokens may share a prefix.
#[inline]
pub(crate) fn token_hash(hash: &Keyed, peer: PeerIndex, token: &Token) -> u64 {
    let bytes = if token.is_extended() { hash.digest(0, token.as_slice()) } else { token.as_u64() };
    hash.spread(u64::from(peer) << 32 | token.len() as u64, bytes)
}

#[inline]
fn random_token(length: usize, random: &mut impl RngCore) -> Option<Token> {
    if length <= Token::MAX_LENGTH {
        return Token::new(&random.next_u64().to_le_bytes()[..length]);
    }
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    Token::extended(&bytes)
}
