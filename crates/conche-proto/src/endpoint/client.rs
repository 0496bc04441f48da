//! Exchanges of ours: how they open, and how every one of them ends exactly once.

use super::{Endpoint, Event, ExchangeId, Failure, RequestError, TimerKey, transmit::Departure};
use crate::PeerKey;
use crate::codec::{Body, Code, MessageId, OwnedMessage, Token};
use crate::exchange::{Exchange, Purpose, Reliability, Request, State};
use conche_cc::control::{Abandoned, AckKind, AckedCopy, Acknowledged, Why};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

/// An exchange to open.
pub(super) struct Opening {
    pub(super) purpose: Purpose,
    pub(super) local: Option<core::net::IpAddr>,
    pub(super) code: Code,
    pub(super) body: Body,
    pub(super) token: Token,
    pub(super) reliability: Reliability,
    pub(super) deadline: Instant,
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Sends a request, now or as soon as NSTART and the controller admit it. Its end is one event: a response, or a
    /// failure.
    ///
    /// # Errors
    /// If the request can never be sent, or something that it needs is full. Then no event follows.
    pub fn request(&mut self, now: Instant, to: P, request: Request) -> Result<ExchangeId, RequestError> {
        if !request.code.is_request() {
            return Err(RequestError::NotAMethod(request.code));
        }
        let peer = self.open_peer(now, to)?;
        let token = match request.token {
            Some(token) if self.by_token.contains_key(&(peer, token)) => return Err(RequestError::TokenInUse),
            Some(token) => token,
            None => self.unused_token(peer)?,
        };
        let opening = Opening {
            purpose: Purpose::Request,
            local: None,
            code: request.code,
            body: request.body,
            token,
            reliability: request.reliability,
            deadline: request.timeout.map_or(Instant::FAR_FUTURE, |timeout| now + timeout),
        };
        let exchange = self.open_exchange(now, peer, opening)?;
        self.by_token.insert((peer, token), exchange.index);
        Ok(exchange)
    }

    /// Pings a peer (RFC 7252 §4.3): its Reset comes as [`Event::Acknowledged`].
    ///
    /// # Errors
    /// If something that a ping needs is full.
    pub fn ping(&mut self, now: Instant, to: P) -> Result<ExchangeId, RequestError> {
        let peer = self.open_peer(now, to)?;
        let opening = Opening {
            purpose: Purpose::Ping,
            local: None,
            code: Code::EMPTY,
            body: Body::EMPTY,
            token: Token::EMPTY,
            reliability: Reliability::Confirmable,
            deadline: Instant::FAR_FUTURE,
        };
        self.open_exchange(now, peer, opening)
    }

    /// Ends an exchange without an event, and frees what it holds. A message that is on its way may still have its effect
    /// at the peer. `false` if the exchange is over already.
    pub fn cancel(&mut self, now: Instant, exchange: ExchangeId) -> bool {
        let live = self.exchange(exchange.index, exchange.generation).is_some();
        if live {
            self.abandon(now, exchange.index, Why::Cancelled);
            self.close(now, exchange.index);
        }
        live
    }

    /// The exchange at `index`, if it is still the one of this generation.
    pub(super) fn exchange(&self, index: u32, generation: u32) -> Option<&Exchange<C>> {
        self.exchanges.get(index as usize).filter(|exchange| exchange.generation == generation)
    }

    pub(super) fn open_exchange(
        &mut self,
        now: Instant,
        peer: u32,
        opening: Opening,
    ) -> Result<ExchangeId, RequestError> {
        let limits = &self.config.limits;
        let bytes = 4 + usize::from(opening.token.len()) + opening.body.len();
        if bytes > limits.message_bytes {
            return Err(RequestError::TooLarge { bytes, limit: limits.message_bytes });
        }
        if self.exchanges.len() >= limits.exchanges {
            return Err(RequestError::TooManyExchanges { limit: limits.exchanges });
        }
        if self.queued >= limits.queue {
            return Err(RequestError::QueuesFull { limit: limits.queue });
        }
        if self.peers.get(peer).queue.len() >= limits.queue_per_peer {
            return Err(RequestError::QueueFull { limit: limits.queue_per_peer });
        }
        self.generation = self.generation.wrapping_add(1);
        let exchange = Exchange {
            generation: self.generation,
            peer,
            purpose: opening.purpose,
            local: opening.local,
            state: State::Queued,
            state_until: now + self.config.queue_lifetime,
            deadline: opening.deadline,
            code: opening.code,
            body: opening.body,
            token: opening.token,
            id: MessageId(0),
            confirmable: opening.reliability == Reliability::Confirmable,
            may_confirm: opening.reliability == Reliability::NonConfirmable,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(self.config.datagram_overhead),
            holds_slot: false,
            submitted: now,
            sent: smallvec::SmallVec::new(),
            timeout: None,
            acknowledged: None,
            flight: C::Flight::default(),
        };
        let wake = exchange.wake();
        let index = u32::try_from(self.exchanges.insert(exchange)).expect("Limits::exchanges keeps indices small");
        self.peers.begin(peer, index);
        self.peers.get_mut(peer).queue.push_back(index);
        self.queued += 1;
        self.stats.exchanges += 1;
        self.timers.set(TimerKey::Exchange(index), wake);
        self.tell_starvation(now, peer);
        self.admit_waiting(now, peer);
        Ok(ExchangeId { index, generation: self.generation })
    }

    /// A token that no request to this peer uses (RFC 7252 §5.3.1).
    fn unused_token(&mut self, peer: u32) -> Result<Token, RequestError> {
        let length = usize::from(self.config.token_length.min(8));
        // With 4 bytes or more the first draw is free all but surely; with fewer, all may be taken.
        for _ in 0..64 {
            let random = self.random.next_u64().to_le_bytes();
            let token = Token::new(&random[..length]).unwrap_or(Token::EMPTY);
            if !self.by_token.contains_key(&(peer, token)) {
                return Ok(token);
            }
        }
        Err(RequestError::NoToken { length: self.config.token_length })
    }

    /// The first acknowledgement of an exchange arrived: the controller learns of it and the slot is free.
    pub(super) fn acknowledge_exchange(&mut self, now: Instant, index: u32, kind: AckKind) {
        let exchange = &mut self.exchanges[index as usize];
        if exchange.acknowledged.is_none() && exchange.confirmable && !exchange.sent.is_empty() {
            exchange.acknowledged = Some(now);
            let peer = self.peers.get_mut(exchange.peer);
            let copy = if exchange.sent.len() == 1 { AckedCopy::Exact(0) } else { AckedCopy::Unknown };
            let event = Acknowledged { now, sent: &exchange.sent, copy, kind, load: peer.load_without(exchange.bytes) };
            self.controllers[usize::from(peer.controller.0)].acknowledged(&mut peer.control, &exchange.flight, &event);
        } else if exchange.acknowledged.is_none() {
            exchange.acknowledged = Some(now);
        }
        self.free_slot(index);
    }

    /// Tells the controller that a Confirmable message ends unacknowledged.
    pub(super) fn abandon(&mut self, now: Instant, index: u32, why: Why) {
        let exchange = &mut self.exchanges[index as usize];
        if exchange.awaits_ack() {
            let peer = self.peers.get_mut(exchange.peer);
            let event = Abandoned { now, why, sent: &exchange.sent, load: peer.load_without(exchange.bytes) };
            self.controllers[usize::from(peer.controller.0)].abandoned(&mut peer.control, &exchange.flight, &event);
            peer.silent |= why == Why::GaveUp;
        }
    }

    pub(super) fn free_slot(&mut self, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        if core::mem::take(&mut exchange.holds_slot) {
            self.peers.get_mut(exchange.peer).free_slot(exchange.bytes);
        }
    }

    /// An exchange fails: the application learns of it, and everything that it holds is freed.
    pub(super) fn fail(&mut self, now: Instant, index: u32, reason: Failure) {
        let exchange = &self.exchanges[index as usize];
        let peer = self.peers.get(exchange.peer).key;
        self.events.push_back(Event::Failed {
            exchange: exchange.id(index),
            peer,
            reason,
            course: exchange.course(now),
        });
        self.close(now, index);
    }

    /// A request's response arrived: the exchange is over.
    pub(super) fn deliver(&mut self, now: Instant, index: u32, kind: AckKind, message: OwnedMessage) {
        self.acknowledge_exchange(now, index, kind);
        let exchange = &self.exchanges[index as usize];
        let from = self.peers.get(exchange.peer).key;
        let course = exchange.course(now);
        self.events.push_back(Event::Response { exchange: exchange.id(index), from, message, course });
        self.close(now, index);
    }

    /// A separate response or a ping was acknowledged: the exchange is over.
    pub(super) fn complete(&mut self, now: Instant, index: u32) {
        self.push_acknowledged(now, index);
        self.close(now, index);
    }

    pub(super) fn push_acknowledged(&mut self, now: Instant, index: u32) {
        let exchange = &self.exchanges[index as usize];
        let from = self.peers.get(exchange.peer).key;
        let course = exchange.course(now);
        self.events.push_back(Event::Acknowledged { exchange: exchange.id(index), from, course });
    }

    /// The one end of every exchange: slot, timer, queue place and table entries are freed, and who waits gets a turn.
    pub(super) fn close(&mut self, now: Instant, index: u32) {
        self.free_slot(index);
        self.timers.cancel(TimerKey::Exchange(index));
        let exchange = self.exchanges.remove(index as usize);
        let key = (exchange.peer, exchange.id);
        if exchange.state == State::Queued {
            let queue = &mut self.peers.get_mut(exchange.peer).queue;
            let before = queue.len();
            queue.retain(|&waiting| waiting != index);
            self.queued -= before - queue.len();
        } else if self.by_id.get(&key) == Some(&index) {
            self.by_id.remove(&key);
        }
        if exchange.purpose == Purpose::Request {
            self.by_token.remove(&(exchange.peer, exchange.token));
        }
        self.peers.end(now, exchange.peer, index);
        self.admit_waiting(now, exchange.peer);
    }

    /// Puts a copy of an exchange's message on its way out.
    pub(super) fn push_departure(&mut self, index: u32) {
        let generation = self.exchanges[index as usize].generation;
        self.outbox.push_back(Departure::Exchange { index, generation });
    }
}
