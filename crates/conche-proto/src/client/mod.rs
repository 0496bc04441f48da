//! [`Client`]: requests of this endpoint, from their submission to their end, and observations.
//!
//! | module | contents |
//! |---|---|
//! | `oscore` | responses to protected requests (RFC 8613) |
//! | `transfer` | block-wise bodies (RFC 7959) |
//! | `q_block` | bodies in bursts (RFC 9177) |
//! | `observe` | observations of servers (RFC 7641) |
//! | `group` | requests to groups (RFC 7252 §8) |

mod group;
mod observe;
#[cfg(feature = "oscore")]
mod oscore;
mod q_block;
mod transfer;

use alloc::boxed::Box;
use alloc::vec;
use core::marker::PhantomData;
use core::time::Duration;

use crate::PeerKey;
use crate::blockwise::begins_transfer;
use crate::codec::{Code, Message, OptionNumber, OwnedMessage, Token, Type};
use crate::config::{EndpointConfig, SharedConfig};
use crate::error::RequestError;
use crate::event::Event;
use crate::hash::{Fingerprint, Keyed};
use crate::layers::Layers;
use crate::observe::Subscriptions;
use crate::q_block::lists_missing_blocks;
use crate::store::OnDemand;
use crate::transport::{
    ExchangeId, ExchangeIndex, Failure, Opening, PeerIndex, Purpose, Reliability, Request, Sender, SubscriptionIndex,
};
use conche_cc::control::{AbandonReason, AckKind};
use conche_cc::{Controller, Instant};
use group::GroupRequests;
use q_block::QBlock;
use transfer::asks_for_one_block;

pub(crate) struct Client<P: PeerKey, C: Controller> {
    extensions: Option<Box<Extensions>>,
    pub(crate) group_requests: OnDemand<GroupRequests>,
    pub(crate) subscriptions: OnDemand<Subscriptions>,
    layers: PhantomData<fn() -> Layers<P, C>>,
}

struct Extensions {
    discovery: Option<TokenDiscovery>,
    q_block: Option<QBlock>,
}

impl Extensions {
    fn of(config: &SharedConfig) -> Option<Self> {
        let (discovery, q_block) = (TokenDiscovery::of(config), QBlock::of(config));
        (discovery.is_some() || q_block.is_some()).then_some(Self { discovery, q_block })
    }
}

impl<P: PeerKey, C: Controller> Client<P, C> {
    pub(crate) fn new(config: &SharedConfig, hash: Keyed) -> Self {
        Self {
            extensions: Extensions::of(config).map(Box::new),
            group_requests: OnDemand::new(()),
            subscriptions: OnDemand::new(hash),
            layers: PhantomData,
        }
    }

    fn has_q_block(&self) -> bool {
        self.q_block().is_some()
    }

    fn q_block(&self) -> Option<&QBlock> {
        self.extensions.as_ref()?.q_block.as_ref()
    }

    fn q_block_mut(&mut self) -> Option<&mut QBlock> {
        self.extensions.as_mut()?.q_block.as_mut()
    }

    fn discovery_mut(&mut self) -> Option<&mut TokenDiscovery> {
        self.extensions.as_mut()?.discovery.as_mut()
    }

    /// Reports a stale observation; returns `false` without one.
    pub(crate) fn handle_due(&mut self, layers: &mut Layers<P, C>) -> bool {
        let due = self.subscriptions.created().and_then(|created| created.pop_due(layers.now));
        if let Some(subscription) = due {
            self.subscription_due(layers, subscription);
        }
        due.is_some()
    }

    pub(crate) fn cancel(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        self.registration_cancelled(layers, index);
        layers.transport.abandon(layers.now, index, AbandonReason::Cancelled);
        self.close(layers, index);
    }

    pub(crate) fn fail(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex, reason: Failure) {
        layers.transport.count_failure(index, reason);
        if let Purpose::State(subscription) = layers.transport.exchanges.get(index).purpose {
            return self.state_failed(layers, index, subscription);
        }
        let subscription = self.registers(layers, index);
        if let Some(over) = self.group_over(layers, index, reason) {
            layers.announce(over);
        } else if self.is_reported(layers, index) {
            layers.announce_failure(index, reason);
        } else {
            layers.transport.stats.responses_expired += 1;
        }
        self.close(layers, index);
        if let Some(subscription) = subscription {
            self.registration_failed(layers, subscription, reason);
        }
    }

    #[inline]
    pub(crate) fn close(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        if let Some(requests) = self.group_requests.created() {
            let exchange = layers.transport.exchanges.get(index);
            requests.forget(exchange.id(index), &exchange.token);
        }
        layers.transport.close(layers.now, index);
    }

    pub(crate) fn request(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: PeerIndex,
        request: Request,
    ) -> Result<ExchangeId, RequestError> {
        let named = request.token.is_some();
        let confirmable = request.reliability == Reliability::Confirmable;
        let security = layers.security_of(&request);
        // Try one feature at a time: a protected request sent again would look like a replay to a
        // server that has received the first message.
        let ChosenToken { token, tried } =
            self.token(layers, peer, request.token, confirmable && security.is_plain())?;
        let mut opening = Opening {
            purpose: Purpose::Request,
            code: request.code,
            body: request.body,
            token,
            reliability: request.reliability,
            deadline: request.timeout.map_or(Instant::FAR_FUTURE, |timeout| layers.now + timeout),
            whole: request.whole || request.streamed,
            streamed: request.streamed,
            security,
            ..Opening::EMPTY
        };
        if let Some(rest) = request.rest {
            self.begin_upload(layers, &mut opening, rest, request.tagged)?;
        } else if (tried || request.streamed || !self.use_q_block(layers, peer, &mut opening, named))
            && opening.may_need_blocks(&layers.transport.config)
        {
            self.cut_request(layers, &mut opening, request.tagged)?;
        }
        let exchange = layers.submit(peer, &mut opening)?;
        if tried {
            layers.transport.exchanges.get_mut(exchange.index).tries_token = true;
        }
        if request.rest.is_some() {
            layers.announce_wanted(exchange);
        }
        Ok(exchange)
    }

    /// Returns `true` if a response may refuse Q-Block, which no message acknowledges.
    pub(crate) fn may_refuse_q_block(&self, message: &Message<'_>) -> bool {
        self.has_q_block()
            && message.ty() != Type::Confirmable
            && matches!(message.code(), Code::BAD_OPTION | Code::BAD_REQUEST)
    }

    /// Handles a separate response or notification that is not a duplicate.
    pub(crate) fn receive_separate_response(
        &mut self,
        layers: &mut Layers<P, C>,
        sender: &Sender<P>,
        fingerprint: Fingerprint,
        message: &Message<'_>,
    ) {
        let &Sender { source, hash, peer, .. } = sender;
        let confirmable = message.ty() == Type::Confirmable;
        let found = peer.and_then(|peer| self.exchange_with_token(layers, peer, &message.token()));
        let found = found.filter(|&index| !self.is_late_notification(layers, index, message));
        #[cfg(feature = "oscore")]
        if layers.has_contexts() && self.receive_protected_response(layers, sender, fingerprint, found, message) {
            return;
        }
        if !self.group_requests.is_empty() && self.receive_group_response(layers, sender, fingerprint, message) {
            return;
        }
        if let Some(subscription) = self.notified(layers, peer, message, found) {
            return self.receive_notification(layers, source, fingerprint, subscription, message);
        }
        if found.is_some_and(|index| layers.transport.exchanges.get(index).is_late(message)) {
            layers.transport.stats.duplicates += 1;
            if confirmable {
                layers.transport.push_empty(source, Type::Acknowledgement, message.id());
            }
            return;
        }
        let Some(index) = found else {
            layers.transport.stats.unmatched += 1;
            // Only a Reset tells a server that we no longer observe (RFC 7641 §3.6), or that we
            // have stopped sending it a body (RFC 9177 §4.3).
            if confirmable || message.uint(OptionNumber::OBSERVE).is_some() || lists_missing_blocks(message) {
                layers.transport.reject_response(layers.now, source, hash, message.id());
            }
            return;
        };
        if message.unacceptable_option(&layers.transport.config.known_options).is_some() {
            if confirmable {
                layers.transport.reject_response(layers.now, source, hash, message.id());
                layers.transport.acknowledge(layers.now, index, AckKind::Separate);
                self.fail(layers, index, Failure::UnacceptableResponse);
            }
            return;
        }
        if confirmable {
            // If it cannot be remembered, a duplicate will be rejected, which also ends the peer's
            // retransmissions.
            layers.transport.acknowledge_empty(layers.now, source, fingerprint, message.id());
        } else if self.may_refuse_q_block(message) && layers.transport.exchanges.get(index).is_in_bursts() {
            // A registration is repeated with the same token: a duplicate of this refusal must not
            // answer it.
            layers.transport.remember_silence(layers.now, fingerprint);
        }
        self.deliver(layers, index, AckKind::Separate, message);
    }

    #[inline]
    pub(crate) fn receive_piggybacked(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        message: &Message<'_>,
    ) {
        #[cfg(feature = "oscore")]
        if !layers.transport.exchanges.get(index).security.is_plain() {
            return self.receive_protected_piggybacked(layers, index, message);
        }
        if message.unacceptable_option(&layers.transport.config.known_options).is_some() {
            layers.transport.acknowledge(layers.now, index, AckKind::Piggybacked);
            return self.fail(layers, index, Failure::UnacceptableResponse);
        }
        self.deliver(layers, index, AckKind::Piggybacked, message);
    }

    /// Handles an acknowledgement before the response.
    pub(crate) fn request_acknowledged(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        layers.transport.acknowledge(layers.now, index, AckKind::Empty);
        if layers.transport.exchanges.get(index).wants_no_response() {
            return self.fail(layers, index, Failure::NoResponse);
        }
        let exchange = layers.transport.exchanges.get(index);
        let is_first = exchange.transfer.is_none() || exchange.asks_for_first_block();
        if is_first && self.is_reported(layers, index) {
            layers.announce_acknowledged(index);
        }
        layers.transport.exchanges.await_response(layers.now, index);
        if layers.transport.exchanges.get(index).is_in_bursts() {
            self.first_block_acknowledged(layers, index);
        }
    }

    /// Handles a response. The exchange is over, unless it continues with further blocks.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        kind: AckKind,
        message: &Message<'_>,
    ) {
        if layers.transport.exchanges.get(index).tries_token {
            let refused = message.code() == Code::BAD_REQUEST;
            if !self.token_tried(
                layers,
                index,
                if refused { TokenTrial::Refused(kind) } else { TokenTrial::Understood },
            ) {
                return;
            }
        }
        if layers.transport.exchanges.get(index).is_in_bursts() {
            return self.deliver_to_burst(layers, index, kind, message);
        }
        if let Some(subscription) = self.registers(layers, index) {
            return self.deliver_registration(layers, index, subscription, kind, OwnedMessage::from(*message));
        }
        layers.transport.acknowledge(layers.now, index, kind);
        let Some(message) = self.follow(layers, index, message) else { return };
        let (exchange, from, course) = layers.transport.exchanges.summary(layers.now, &layers.transport.peers, index);
        layers.announce(Event::Response { exchange, from, message, course });
        self.close(layers, index);
    }

    #[inline]
    fn registers(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) -> Option<SubscriptionIndex> {
        let subscriptions = self.subscriptions.created().filter(|subscriptions| !subscriptions.is_empty())?;
        let exchange = layers.transport.exchanges.get(index);
        if exchange.purpose != Purpose::Request {
            return None;
        }
        let subscription = subscriptions.find(exchange.peer, &exchange.token)?;
        (subscriptions.get(subscription).exchange == Some(exchange.id(index))).then_some(subscription)
    }

    /// Returns the message to deliver, or `None` if the exchange continues or has failed.
    #[inline]
    fn follow(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        response: &Message<'_>,
    ) -> Option<OwnedMessage> {
        let exchange = layers.transport.exchanges.get(index);
        let begins = exchange.whole && begins_transfer(response);
        let (code, body) = exchange.unprotected();
        if exchange.transfer.is_none() && (!begins || asks_for_one_block(body, code)) {
            return Some(OwnedMessage::from(*response));
        }
        self.follow_blocks(layers, index, response)
    }
}

/// Validity of a result (RFC 8974 §2.2.2).
const LIFETIME: Duration = Duration::from_secs(1_800);

/// Number of remembered peers.
const PLACES: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct TokenSupport {
    /// Determines the peer's only place. A displaced peer is tried again.
    hash: u64,
    until: Instant,
    understands: bool,
}

/// Discovers by trial which peers support tokens of more than eight bytes (RFC 8974 §2.2.2).
///
/// A server without support rejects a Confirmable request with an extended token with a Reset, and
/// one that does not accept this length responds with 4.00; the request is then repeated with eight
/// bytes. Because addresses change owners, results are valid for half an hour.
#[derive(Debug)]
struct TokenDiscovery {
    places: Box<[TokenSupport]>,
}

impl TokenDiscovery {
    fn of(config: &EndpointConfig) -> Option<Self> {
        let nobody = TokenSupport { hash: 0, until: Instant::ZERO, understands: false };
        (config.token_length > Token::MAX_LENGTH).then(|| Self { places: vec![nobody; PLACES].into_boxed_slice() })
    }

    fn place(&mut self, hash: u64) -> &mut TokenSupport {
        &mut self.places[usize::try_from(hash % PLACES as u64).unwrap_or_default()]
    }

    fn understands(&mut self, now: Instant, hash: u64) -> Option<bool> {
        let found = self.place(hash);
        (found.hash == hash && now < found.until).then_some(found.understands)
    }
}

struct ChosenToken {
    token: Token,
    /// It is unknown whether the peer supports the token.
    tried: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenTrial {
    Understood,
    /// Answered with 4.00, in this kind of message.
    Refused(AckKind),
    /// Rejected with a Reset.
    Rejected,
}

impl<P: PeerKey, C: Controller> Client<P, C> {
    /// Returns a random token; `may_try` permits an extended one.
    fn choose_token(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: PeerIndex,
        may_try: bool,
    ) -> Result<ChosenToken, RequestError> {
        let known = match self.discovery_mut() {
            None => Some(true),
            Some(discovery) => {
                discovery.understands(layers.now, layers.transport.peers.hash(&layers.transport.peers.get(peer).key))
            }
        };
        let tried = known.is_none() && may_try;
        let most = if known == Some(true) || tried { usize::MAX } else { Token::MAX_LENGTH };
        let length = layers.transport.config.token_length.min(most);
        let subscribed =
            |token: &Token| self.subscriptions.created().is_some_and(|created| created.find(peer, token).is_some());
        let token = layers.transport.exchanges.unused_token(peer, length, &mut layers.transport.random, subscribed);
        Ok(ChosenToken { token: token.ok_or(RequestError::NoToken { length })?, tried })
    }

    /// Records the outcome of a trial. Returns `false` if the request is repeated with a short
    /// token.
    pub(crate) fn token_tried(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex, tried: TokenTrial) -> bool {
        let understands = tried == TokenTrial::Understood;
        let exchange = layers.transport.exchanges.get_mut(index);
        exchange.tries_token = false;
        let peer = exchange.peer;
        let hash = layers.transport.peers.hash(&layers.transport.peers.get(peer).key);
        if let Some(discovery) = self.discovery_mut() {
            *discovery.place(hash) = TokenSupport { hash, until: layers.now + LIFETIME, understands };
        }
        let short = if understands { None } else { self.choose_token(layers, peer, false).ok() };
        let Some(ChosenToken { token, .. }) = short else { return true };
        if let TokenTrial::Refused(kind) = tried {
            layers.transport.acknowledge(layers.now, index, kind);
        }
        layers.transport.exchanges.send_with_new_token(layers.now, &mut layers.transport.peers, index, token);
        layers.transport.admit_waiting(layers.now, peer);
        false
    }

    /// Returns the requested token, if no other request or subscription uses it, or a random one.
    #[inline]
    fn token(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: PeerIndex,
        wanted: Option<Token>,
        may_try: bool,
    ) -> Result<ChosenToken, RequestError> {
        let Some(token) = wanted else { return self.choose_token(layers, peer, may_try) };
        if self.uses_token(layers, peer, &token) {
            return Err(RequestError::TokenInUse);
        }
        Ok(ChosenToken { token, tried: false })
    }

    #[inline]
    fn uses_token(&mut self, layers: &mut Layers<P, C>, peer: PeerIndex, token: &Token) -> bool {
        let subscribed = self.subscriptions.created().is_some_and(|created| created.find(peer, token).is_some());
        subscribed || layers.transport.exchanges.uses_token(peer, token)
    }
}
