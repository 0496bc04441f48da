//! Requests and pings of this endpoint: how exchanges open, and end exactly once.

use super::discovery::{Chosen, Tried};
use super::{Endpoint, Event, RequestError};
use crate::PeerKey;
use crate::codec::{Code, Message, OwnedMessage, Token};
use crate::exchange::{Exchange, ExchangeId, Failure, Next, Opening, Purpose, Reliability, Request};
use crate::observe::{ObserverEnd, Place};
use crate::peer::PeersFull;
use crate::shares::Group;
use crate::transport::Departure;
use conche_cc::control::{AbandonReason, AckKind};
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Sends a request, now or when NSTART and the controller admit it. It ends with exactly one
    /// event: a response or a failure.
    ///
    /// # Errors
    /// If the request can never be sent, or if a needed resource is used up. No event follows then.
    pub fn request(&mut self, now: Instant, to: P, request: Request) -> Result<ExchangeId, RequestError> {
        if !request.code.is_request() {
            return Err(RequestError::NotAMethod(request.code));
        }
        let peer = self.open_peer(now, to, Group::NOBODY)?;
        let named = request.token.is_some();
        let confirmable = request.reliability == Reliability::Confirmable;
        let security = self.security_of(&request);
        // Try one feature at a time: a protected request sent again would look like a replay to a
        // server that has received the first message.
        let Chosen { token, tried } = self.token(now, peer, request.token, confirmable && security.is_plain())?;
        let mut opening = Opening {
            purpose: Purpose::Request,
            code: request.code,
            body: request.body,
            token,
            reliability: request.reliability,
            deadline: request.timeout.map_or(Instant::FAR_FUTURE, |timeout| now + timeout),
            whole: request.whole || request.streamed,
            streamed: request.streamed,
            security,
            ..Opening::EMPTY
        };
        if let Some(rest) = request.rest {
            self.begin_upload(&mut opening, rest, request.tagged)?;
        } else if tried || request.streamed || !self.cut_into_sets(now, peer, &mut opening, named) {
            // Try one feature at a time.
            self.cut_request(&mut opening, request.tagged)?;
        }
        let exchange = self.submit(now, peer, &mut opening)?;
        if tried {
            self.transport.exchanges.get_mut(exchange.index).tries_token = true;
        }
        if request.rest.is_some() {
            self.tell_wanted(exchange);
        }
        Ok(exchange)
    }

    /// Pings a peer (RFC 7252 §4.3): its Reset causes [`Event::Acknowledged`].
    ///
    /// # Errors
    /// If a needed resource is used up.
    pub fn ping(&mut self, now: Instant, to: P) -> Result<ExchangeId, RequestError> {
        let peer = self.open_peer(now, to, Group::NOBODY)?;
        self.submit(now, peer, &mut { Opening::EMPTY })
    }

    /// Ends an exchange without an event, and frees its resources. A message already sent may still
    /// have an effect at the peer. Returns `false` if the exchange is over already.
    ///
    /// [`Transmit::exchange`](super::Transmit) also names exchanges that the endpoint opened
    /// itself. Cancelling a repeated registration ends the subscription, with
    /// [`Event::SubscriptionOver`]. Cancelling a notification ends its retransmission; the observer
    /// stays.
    pub fn cancel(&mut self, now: Instant, exchange: ExchangeId) -> bool {
        let live = self.transport.exchanges.live(exchange).is_some();
        if live {
            self.registration_cancelled(now, exchange.index);
            self.transport.exchanges.abandon(now, &mut self.transport.peers, exchange.index, AbandonReason::Cancelled);
            match self.transport.exchanges.get(exchange.index).purpose {
                Purpose::Notification(_) => self.notification_over(now, exchange.index),
                _ => self.close(now, exchange.index),
            }
        }
        live
    }

    /// Returns the index of the peer `key`, creating its state if necessary, charged to this group.
    #[inline]
    pub(super) fn open_peer(&mut self, now: Instant, key: P, group: Group) -> Result<u32, RequestError> {
        match self.transport.peers.open(now, key, group, &mut self.transport.random) {
            Ok(peer) => Ok(peer),
            Err(PeersFull) => self.open_in_place_of_an_observer(now, key, group),
        }
    }

    /// Opens a peer if all peers are in use, by evicting observers that have not proven their
    /// presence.
    #[cold]
    fn open_in_place_of_an_observer(&mut self, now: Instant, key: P, group: Group) -> Result<u32, RequestError> {
        let full = RequestError::PeersFull { limit: self.transport.config.limits.peers };
        while self.transport.peers.is_full() {
            // The group may hold many peers that are not observers.
            let besides = self.transport.peers.unproven_of(group);
            let oldest = self.observers.made().and_then(|observers| observers.displaceable());
            let displaced = oldest.filter(|&(_, other)| self.observers.may_displace(group, besides, other));
            let Some((observer, _)) = displaced else { return Err(full) };
            self.lose_observer(now, observer, ObserverEnd::Displaced);
            if let Ok(peer) = self.transport.peers.open(now, key, group, &mut self.transport.random) {
                return Ok(peer);
            }
        }
        Err(full)
    }

    /// Returns the requested token, if no other request or subscription uses it, or a random one.
    #[inline]
    pub(super) fn token(
        &mut self,
        now: Instant,
        peer: u32,
        wanted: Option<Token>,
        may_try: bool,
    ) -> Result<Chosen, RequestError> {
        let Some(token) = wanted else { return self.choose_token(now, peer, may_try) };
        if self.uses_token(peer, &token) {
            return Err(RequestError::TokenInUse);
        }
        Ok(Chosen { token, tried: false })
    }

    /// Returns `true` if a request or subscription uses this token.
    #[inline]
    pub(super) fn uses_token(&mut self, peer: u32, token: &Token) -> bool {
        let subscribed = self.subscriptions.made().is_some_and(|made| made.find(peer, token).is_some());
        subscribed || self.transport.exchanges.uses_token(peer, token)
    }

    /// Opens an exchange for the application, within its limits.
    #[inline]
    pub(super) fn submit(
        &mut self,
        now: Instant,
        peer: u32,
        opening: &mut Opening,
    ) -> Result<ExchangeId, RequestError> {
        self.transport.check_room(peer, opening)?;
        self.protect_opening(opening)?;
        let limit = self.transport.config.limits.exchanges;
        self.transport.open(now, peer, opening).ok_or(RequestError::TooManyExchanges { limit })
    }

    /// Handles the timer of an exchange.
    pub(super) fn exchange_due(&mut self, now: Instant, index: u32) {
        match self.transport.exchanges.expired(now, &mut self.transport.peers, index) {
            Next::Wait => {}
            Next::Depart => {
                self.transport.outbox.push_back(Departure::Exchange(self.transport.exchanges.get(index).id(index)))
            }
            Next::Admit => self.transport.admit_waiting(now, self.transport.exchanges.get(index).peer),
            Next::Fail(reason) => self.fail(now, index, reason),
            Next::Ask => self.ask_for_missing_blocks(now, index),
            Next::Over => self.notification_over(now, index),
        }
    }

    /// Ends an exchange with a failure: reports it to the application, and frees its resources.
    pub(super) fn fail(&mut self, now: Instant, index: u32, reason: Failure) {
        let exchange = self.transport.exchanges.get(index);
        self.transport.stats.timeouts += u64::from(reason == Failure::TimedOut && exchange.confirmable);
        let Exchange { purpose, peer, local, .. } = *exchange;
        let token = exchange.token.clone();
        let id = exchange.id(index);
        match purpose {
            Purpose::Notification(observer) => return self.notification_failed(now, index, observer, reason),
            Purpose::State(subscription) => return self.state_failed(now, index, subscription),
            Purpose::Request | Purpose::Response(_) | Purpose::Ping | Purpose::Handshake => {}
        }
        let subscription = self.registers(index);
        let over = self.group_over(now, index, reason);
        let exchange = self.transport.exchanges.get(index);
        let (told, as_asked) = (exchange.is_told(), exchange.stays_unanswered_by(reason));
        if let Some(over) = over {
            self.announce(over);
        } else if told && self.is_told_of(index) {
            #[cfg(feature = "oscore")]
            let context = self.transport.exchanges.get(index).security.context();
            let (exchange, peer, course) = self.transport.exchanges.told(now, &self.transport.peers, index);
            self.announce(match as_asked {
                true => Event::Unanswered { exchange, peer, course },
                false => Event::Failed {
                    exchange,
                    peer,
                    reason,
                    course,
                    #[cfg(feature = "oscore")]
                    context,
                },
            });
        } else {
            self.transport.stats.responses_expired += 1;
        }
        self.close(now, index);
        match (purpose, subscription) {
            (Purpose::Response(_), _) if !self.observers.is_empty() => {
                self.response_failed(now, &Place { peer, token, local }, id, reason);
            }
            (_, Some(subscription)) => self.registration_failed(now, subscription, reason),
            _ => {}
        }
    }

    /// Handles the response to a request: the exchange is over, unless it continues with further
    /// blocks.
    #[inline]
    pub(super) fn deliver(&mut self, now: Instant, index: u32, kind: AckKind, message: &Message<'_>) {
        if self.transport.exchanges.get(index).tries_token {
            let refused = message.code() == Code::BAD_REQUEST;
            if !self.token_tried(now, index, if refused { Tried::Refused(kind) } else { Tried::Understood }) {
                return;
            }
        }
        if self.transport.exchanges.get(index).is_in_sets() {
            return self.deliver_to_sets(now, index, kind, message);
        }
        if let Some(subscription) = self.registers(index) {
            return self.deliver_registration(now, index, subscription, kind, OwnedMessage::from(*message));
        }
        self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, kind);
        let Some(message) = self.follow(now, index, message) else { return };
        let (exchange, from, course) = self.transport.exchanges.told(now, &self.transport.peers, index);
        self.announce(Event::Response { exchange, from, message, course });
        self.close(now, index);
    }

    /// Handles the acknowledgement of a response or ping: the exchange is over, unless it has more
    /// to send.
    pub(super) fn complete(&mut self, now: Instant, index: u32) {
        let exchange = self.transport.exchanges.get(index);
        if exchange.transfer.is_some() {
            let is_response = matches!(exchange.purpose, Purpose::Response(_));
            if self.go_on_with_kept(now, index) {
                return;
            }
            if is_response {
                // The further messages of a Q-Block response are not reported to the application.
                return self.close(now, index);
            }
        }
        if let Purpose::Notification(observer) = self.transport.exchanges.get(index).purpose {
            return self.notification_acknowledged(now, index, observer);
        }
        if self.transport.exchanges.yield_next(now, &mut self.transport.peers, index) {
            return self.transport.admit_waiting(now, self.transport.exchanges.get(index).peer);
        }
        if !self.observers.is_empty() {
            let exchange = self.transport.exchanges.get(index);
            let place = Place { peer: exchange.peer, token: exchange.token.clone(), local: exchange.local };
            self.response_acknowledged(now, &place, exchange.id(index));
        }
        self.push_acknowledged(now, index);
        self.close(now, index);
    }

    pub(super) fn push_acknowledged(&mut self, now: Instant, index: u32) {
        if !self.is_told_of(index) {
            return;
        }
        let (exchange, from, course) = self.transport.exchanges.told(now, &self.transport.peers, index);
        self.announce(Event::Acknowledged { exchange, from, course });
    }

    /// Closes an exchange, the single end of all exchanges, and admits queued messages of its peer.
    #[inline]
    pub(super) fn close(&mut self, now: Instant, index: u32) {
        if !self.inquiries.is_empty() {
            let exchange = self.transport.exchanges.get(index);
            self.inquiries.forget(exchange.id(index), &exchange.token);
        }
        let exchange = self.transport.exchanges.get(index);
        if let Purpose::Response(group) = exchange.purpose {
            self.incoming.give_back(group, &exchange.token);
        }
        let (purpose, peer) = self.transport.exchanges.close(now, &mut self.transport.peers, index);
        match purpose {
            Purpose::Notification(observer) => self.observers.idle(observer),
            Purpose::Response(_) | Purpose::Request | Purpose::State(_) | Purpose::Ping | Purpose::Handshake => {}
        }
        self.transport.admit_waiting(now, peer);
    }
}
