//! [`Transport`]: the message layer (RFC 7252 §4), independent of content.
//!
//! | module | contents |
//! |---|---|
//! | `datagram` | datagrams, and the queue to be sent |
//! | `request` | requests and responses of the application |
//! | `deduplication` | received messages and the replies to them |
//! | `exchange`, `exchange_table` | messages of this endpoint |
//! | `admission` | NSTART, controller, message IDs, path window |
//! | `retransmission` | timers, and reports to the controller |
//! | `transfer` | exchanges of more than one message |
//! | `peer`, `peer_table` | state of each peer |
//! | `path` | state and window of peers on one path |
//! | `message_id` | allocation of message IDs |
//! | `rate_limit` | sources, their groups and rate limits |

mod admission;
mod datagram;
mod deduplication;
mod exchange;
mod exchange_table;
mod message_id;
mod path;
mod peer;
mod peer_table;
mod rate_limit;
mod request;
mod retransmission;
mod transfer;

pub use datagram::{Datagram, Ecn, Transmit};
pub use exchange::{ExchangeId, ExchangeStats, Failure};
pub use path::PathKey;
pub use peer::{BusiestPeersSearch, ControllerId, PeerSnapshot};
pub use rate_limit::Limiter;
pub use request::{Reliability, RemainingBody, Request, RequestId, Response};
pub use retransmission::Flight;

pub(crate) use datagram::{Departure, Outbox, Payload, Sender, Source, encode, encoded, reserve_first};
pub(crate) use deduplication::{Deduplication, Received, Remembered, Reply, allows};
pub(crate) use exchange::{Content, Exchange, ExchangeIndex, ObserverIndex, Purpose, State, SubscriptionIndex};
pub(crate) use exchange_table::{Exchanges, Opening, token_hash};
pub(crate) use message_id::GROUP_IDS;
pub(crate) use path::ChoosePath;
pub(crate) use peer::{ChooseController, PeerIndex};
pub(crate) use peer_table::{Peers, PeersFull};
pub(crate) use rate_limit::{Limiters, Sources};
pub(crate) use request::RequestIndex;
pub(crate) use retransmission::NextAction;
pub(crate) use transfer::{ActiveTransfer, AfterPayload, BurstResponse, NextMessage, TransferState};

use alloc::boxed::Box;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::PeerKey;
use crate::codec::{Body, Code, Message, MessageId, NoResponse, Token, Type};
use crate::config::{ConfigError, SharedConfig};
use crate::error::RequestError;
use crate::hash::Keyed;
use crate::stats::Stats;
use crate::store::OnDemand;
use conche_cc::control::{AbandonReason, AckKind};
use conche_cc::{Controller, Instant};
use message_id::RejectableResponses;

pub(crate) struct Answer<'a, P> {
    pub(crate) to: Source<P>,
    pub(crate) peer: PeerIndex,
    pub(crate) token: &'a Token,
    pub(crate) code: Code,
    pub(crate) body: &'a Body,
}

pub(crate) struct Transport<P: PeerKey, C: Controller> {
    pub(crate) config: SharedConfig,
    pub(crate) random: ChaCha8Rng,
    pub(crate) hash: Keyed,
    pub(crate) sources: Option<Box<Sources<P>>>,
    pub(crate) limiters: Option<Box<Limiters>>,
    pub(crate) received: OnDemand<Deduplication>,
    pub(crate) rejectable: RejectableResponses,
    pub(crate) exchanges: Exchanges<C>,
    pub(crate) peers: Peers<P, C>,
    pub(crate) outbox: Outbox<P>,
    pub(crate) stats: Stats,
}

impl<P: PeerKey, C: Controller> Transport<P, C> {
    pub(crate) fn new(config: SharedConfig, controller: C, seed: [u8; 32]) -> Result<Self, ConfigError> {
        config.validate_with(&controller)?;
        let mut random = ChaCha8Rng::from_seed(seed);
        let [hash, peers_hash] = [Keyed::new(&mut random), Keyed::new(&mut random)];
        let (limits, times) = (&config.limits, config.times());
        Ok(Self {
            random,
            hash,
            sources: None,
            limiters: config.response_limit.map(|limit| Box::new(Limiters::of_requests(limit))),
            received: OnDemand::new(config.clone()),
            rejectable: RejectableResponses::default(),
            exchanges: Exchanges::new(config.clone(), hash),
            peers: Peers::new(controller, limits.peers, config.idle_lifetime, times.exchange_lifetime, peers_hash),
            outbox: Outbox::new(),
            stats: Stats::default(),
            config,
        })
    }

    #[inline]
    pub(crate) fn acknowledge(&mut self, now: Instant, index: ExchangeIndex, kind: AckKind) {
        self.exchanges.acknowledge(now, &mut self.peers, index, kind);
    }

    /// Stops the transmission of a message without an answer.
    pub(crate) fn abandon(&mut self, now: Instant, index: ExchangeIndex, reason: AbandonReason) {
        self.exchanges.abandon(now, &mut self.peers, index, reason);
    }

    /// Returns why the application cannot open this exchange now.
    pub(crate) fn check_room(&self, peer: PeerIndex, opening: &Opening) -> Result<(), RequestError> {
        let limits = &self.config.limits;
        let (bytes, limit) = (opening.bytes(), limits.message_bytes);
        if bytes > limit {
            return Err(RequestError::TooLarge { bytes, limit });
        }
        if self.exchanges.requests() >= limits.exchanges {
            return Err(RequestError::TooManyExchanges { limit: limits.exchanges });
        }
        if self.exchanges.queued_requests() >= limits.queue {
            return Err(RequestError::QueuesFull { limit: limits.queue });
        }
        if self.peers.get(peer).messages().queued as usize >= limits.queue_per_peer {
            return Err(RequestError::QueueFull { limit: limits.queue_per_peer });
        }
        Ok(())
    }

    /// Puts the message into the outbox if it may leave.
    #[inline]
    pub(crate) fn open(&mut self, now: Instant, peer: PeerIndex, opening: &mut Opening) -> Option<ExchangeId> {
        let exchange = self.exchanges.open(now, &mut self.peers, peer, opening)?;
        self.stats.exchanges += 1;
        self.exchanges.report_starvation(now, &mut self.peers, peer);
        if let Some(admitted) = self.exchanges.admit_new(now, &mut self.peers, peer, exchange.index) {
            self.outbox.push_back(Departure::Exchange(admitted));
            self.admit_waiting(now, peer);
        }
        self.exchanges.wait(exchange);
        Some(exchange)
    }

    /// Admits queued messages of the peer. Returns the exchange's purpose.
    #[inline]
    pub(crate) fn close(&mut self, now: Instant, index: ExchangeIndex) -> Purpose {
        let (purpose, peer) = self.exchanges.close(now, &mut self.peers, index);
        self.admit_waiting(now, peer);
        purpose
    }

    /// Returns the next step for the owner of the exchange.
    pub(crate) fn exchange_due(&mut self, now: Instant, index: ExchangeIndex) -> NextAction {
        let next = self.exchanges.expired(now, &mut self.peers, index);
        self.follow(now, index, &next);
        next
    }

    /// Does the message layer's part of a next step.
    pub(crate) fn follow(&mut self, now: Instant, index: ExchangeIndex, next: &NextAction) {
        match next {
            NextAction::Depart => self.outbox.push_back(Departure::Exchange(self.exchanges.get(index).id(index))),
            NextAction::Admit => self.admit_waiting(now, self.exchanges.get(index).peer),
            NextAction::Wait | NextAction::Fail(_) | NextAction::Ask | NextAction::Over => {}
        }
    }

    pub(crate) fn count_failure(&mut self, index: ExchangeIndex, reason: Failure) {
        let timed_out = reason == Failure::TimedOut && self.exchanges.get(index).confirmable;
        self.stats.timeouts += u64::from(timed_out);
    }

    /// Admits messages from the queue. Call after every event that may permit one.
    #[inline]
    pub(crate) fn admit_waiting(&mut self, now: Instant, peer: PeerIndex) {
        while let Some(exchange) = self.exchanges.admit_next(now, &mut self.peers, peer) {
            self.outbox.push_back(Departure::Exchange(exchange));
        }
    }

    /// Allocates a message ID; `Err`: when the next one is free.
    #[inline]
    pub(crate) fn message_id(&mut self, now: Instant, peer: PeerIndex) -> Result<MessageId, Instant> {
        self.peers.get_mut(peer).allocate_id(now, self.config.times().exchange_lifetime)
    }

    /// Asks the controller again, as after every event of the peer.
    #[inline]
    pub(crate) fn ask_again(&mut self, now: Instant, peer: Option<PeerIndex>) {
        if let Some(peer) = peer.filter(|&peer| !self.peers.get(peer).messages().queue.is_empty()) {
            self.admit_waiting(now, peer);
        }
    }

    /// Matches type, code, message ID and token.
    pub(crate) fn quoted_exchange(&mut self, peer: PeerIndex, quoted: &[u8]) -> Option<ExchangeId> {
        let header = quoted.first_chunk::<4>()?;
        let id = MessageId(u16::from_be_bytes([header[2], header[3]]));
        let index = self.exchanges.with_id(peer, id)?;
        let exchange = self.exchanges.get(index);
        let expected = encoded(exchange.message_type(), exchange.content.code, id, &exchange.token, &Body::EMPTY);
        let same = quoted.starts_with(&expected);
        (same && exchange.state == State::AwaitingAck).then(|| exchange.id(index))
    }

    /// Returns the exchange of a sent message ID. An unmatched ID may be a guess.
    #[inline]
    pub(crate) fn exchange_with_id(
        &mut self,
        now: Instant,
        peer: Option<PeerIndex>,
        message: &Message<'_>,
    ) -> Option<ExchangeIndex> {
        let found = peer.and_then(|peer| self.exchanges.with_id(peer, message.id()));
        if found.is_none() {
            self.stats.unmatched += 1;
            if let Some(peer) = peer {
                let state = self.peers.get_mut(peer);
                state.trust.guessed(now, message.id(), state.next_id);
            }
        }
        found
    }

    /// Sends an answer; without a free message ID it is dropped, as if lost.
    pub(crate) fn send_answer(&mut self, now: Instant, answer: &Answer<'_, P>) -> Option<MessageId> {
        let &Answer { to, peer, token, code, body } = answer;
        let id = self.message_id(now, peer).ok()?;
        let datagram = encoded(Type::NonConfirmable, code, id, token, body);
        let bytes = u32::try_from(datagram.len()).unwrap_or(u32::MAX);
        self.peers.get_mut(peer).sent_non(now, bytes.saturating_add(self.config.datagram_overhead));
        self.outbox.push_back(Departure::Message { to, datagram });
        Some(id)
    }

    /// Returns `true` if message IDs toward a peer run out, and this Non-confirmable request needs
    /// one for its response.
    ///
    /// Such a request is dropped on arrival: its response could wait for a message ID for
    /// EXCHANGE_LIFETIME, and hold the share of its group. The last 1024 IDs are left for separate
    /// responses, notifications and pings.
    pub(crate) fn lacks_ids(&self, now: Instant, peer: PeerIndex, message: &Message<'_>) -> bool {
        let scarce = self.peers.get(peer).ids_scarce_until(now, self.config.times().exchange_lifetime).is_some();
        scarce && !NoResponse::of(message).suppresses(Code::CONTENT)
    }
}
