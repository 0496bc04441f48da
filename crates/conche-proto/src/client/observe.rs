//! Subscriptions of this endpoint (RFC 7641 §3): registration, notifications, end.

use core::time::Duration;

use super::Client;
use crate::PeerKey;
use crate::codec::{Body, Code, Message, OptionNumber, OwnedMessage, Token, Type, decode_uint};
use crate::error::RequestError;
use crate::event::Event;
use crate::hash::Fingerprint;
use crate::layers::Layers;
use crate::observe::{DEREGISTER, Opened, Order, REGISTER, SubscriptionEnd, SubscriptionId};
use crate::q_block::reports_blocks;
use crate::security::Security;
use crate::transport::{
    Content, ExchangeId, ExchangeIndex, Failure, Opening, PeerIndex, Purpose, Reliability, Request, Source, State,
    SubscriptionIndex,
};
use conche_cc::control::{AbandonReason, AckKind};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

/// Time in milliseconds after Max-Age to wait for a notification (RFC 7641 §3.3.1).
const GRACE_MS: core::ops::Range<u64> = 5_000..15_000;

fn without_echo(Content { code, body }: Content) -> Content {
    let payload = body.payload();
    Content { code, body: body.rewritten(|number| number != OptionNumber::ECHO, &[], &payload) }
}

fn registration(
    content: Content,
    token: Token,
    reliability: Reliability,
    deadline: Instant,
    security: Security,
) -> Opening {
    let Content { code, body } = content;
    // The state may change before all of its blocks have arrived: the application requests them.
    Opening { purpose: Purpose::Request, code, body, token, reliability, deadline, security, ..Opening::EMPTY }
}

impl<P: PeerKey, C: Controller> Client<P, C> {
    pub(crate) fn check_subscription(&self, layers: &Layers<P, C>, request: &Request) -> Result<(), RequestError> {
        if !matches!(request.code, Code::GET | Code::FETCH) {
            return Err(RequestError::NotObservable(request.code));
        }
        let limit = layers.transport.config.limits.subscriptions;
        if self.subscriptions.len() >= limit {
            return Err(RequestError::TooManySubscriptions { limit });
        }
        Ok(())
    }

    pub(crate) fn subscribe(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: PeerIndex,
        request: Request,
    ) -> Result<(ExchangeId, SubscriptionId), RequestError> {
        let security = layers.security_of(&request);
        let Request { code, body, reliability, timeout, token, .. } = request;
        let named = token.is_some();
        let token = self.token(layers, peer, token, false)?.token;
        let request = Content { code, body: body.with_uint(OptionNumber::OBSERVE, REGISTER) };
        let deadline = timeout.map_or(Instant::FAR_FUTURE, |timeout| layers.now + timeout);
        let mut opening = registration(request.clone(), token, reliability, deadline, security.clone());
        let in_bursts = self.offer_q_block(layers, peer, &mut opening, named);
        let token = opening.token.clone();
        let exchange = layers.submit(peer, &mut opening)?;
        // An Echo value is not fresh for a repeated registration (RFC 9175 §2.3).
        let opened = Opened { peer, token, request: without_echo(request), reliability, exchange, in_bursts, security };
        let subscription = self.subscriptions.insert(opened);
        let limit = layers.transport.config.limits.subscriptions;
        let subscription = subscription.ok_or(RequestError::TooManySubscriptions { limit })?;
        layers.transport.peers.hold(peer);
        Ok((exchange, subscription))
    }

    pub(crate) fn reregister(
        &mut self,
        layers: &mut Layers<P, C>,
        subscription: SubscriptionId,
    ) -> Result<(), RequestError> {
        let index = self.subscriptions.live(subscription).ok_or(RequestError::NotSubscribed)?;
        let found = self.subscriptions.get(index);
        if found.exchange.is_some() {
            return Ok(());
        }
        let (peer, in_bursts) = (found.peer, found.in_bursts);
        let mut opening = self.registration_again(index, found.request.clone());
        self.offer_q_block_again(layers, peer, &mut opening, in_bursts);
        let exchange = layers.submit(peer, &mut opening)?;
        self.subscriptions.registering(index, exchange);
        Ok(())
    }

    pub(crate) fn unsubscribe(
        &mut self,
        layers: &mut Layers<P, C>,
        subscription: SubscriptionId,
    ) -> Result<ExchangeId, RequestError> {
        let index = self.subscriptions.live(subscription).ok_or(RequestError::NotSubscribed)?;
        let found = self.subscriptions.get(index);
        let (peer, code, in_bursts) = (found.peer, found.request.code, found.in_bursts);
        let body = found.request.body.with_uint(OptionNumber::OBSERVE, DEREGISTER);
        let registering = found.exchange;
        let mut opening = self.registration_again(index, Content { code, body });
        self.offer_q_block_again(layers, peer, &mut opening, in_bursts.filter(|in_bursts| in_bursts.uploaded));
        let exchange = layers.submit(peer, &mut opening)?;
        self.remove_subscription(layers, index);
        self.abandon_registration(layers, registering);
        Ok(exchange)
    }

    pub(crate) fn forget(&mut self, layers: &mut Layers<P, C>, subscription: SubscriptionId) -> bool {
        let Some(index) = self.subscriptions.live(subscription) else { return false };
        let registering = self.subscriptions.get(index).exchange;
        self.remove_subscription(layers, index);
        self.abandon_registration(layers, registering);
        true
    }

    /// Returns `false` for a repeated registration of the endpoint.
    pub(super) fn is_reported(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) -> bool {
        self.registers(layers, index).is_none_or(|subscription| self.subscriptions.get(subscription).newest.is_none())
    }

    pub(super) fn deliver_registration(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        subscription: SubscriptionIndex,
        kind: AckKind,
        message: OwnedMessage,
    ) {
        let reported = self.is_reported(layers, index);
        layers.transport.acknowledge(layers.now, index, kind);
        let (exchange, from, course) = layers.transport.exchanges.summary(layers.now, &layers.transport.peers, index);
        let proved = layers.transport.exchanges.get(index).unprotected().1.option(OptionNumber::ECHO).is_some();
        let security = core::mem::take(&mut layers.transport.exchanges.get_mut(index).security);
        let found = self.subscriptions.get_mut(subscription);
        found.exchange = None;
        if message.code().is_success() {
            // Further notifications are bound to this registration.
            found.security = security;
        }
        self.close(layers, index);
        if !reported && !proved && self.prove_fresh(layers, subscription, &message).is_some() {
            return;
        }
        if reported {
            let end = self.take(layers, subscription, &message).err().flatten();
            self.discard_state(layers, subscription);
            layers.announce(Event::Response { exchange, from, message, course });
            if let Some(reason) = end {
                self.subscription_over(layers, subscription, reason);
            }
        } else {
            self.report(layers, subscription, message);
        }
    }

    /// Answers a 4.01 to a repeated registration with its Echo value (RFC 9175 §2.3).
    fn prove_fresh(
        &mut self,
        layers: &mut Layers<P, C>,
        subscription: SubscriptionIndex,
        message: &OwnedMessage,
    ) -> Option<()> {
        let echo = message.option(OptionNumber::ECHO).filter(|_| message.code() == Code::UNAUTHORIZED)?;
        let found = self.subscriptions.get(subscription);
        let Content { code, body } = &found.request;
        let body = body.to_builder().option(OptionNumber::ECHO, echo).build().ok()?;
        let content = Content { code: *code, body };
        let (peer, in_bursts) = (found.peer, found.in_bursts);
        let mut opening = self.registration_again(subscription, content);
        self.offer_q_block_again(layers, peer, &mut opening, in_bursts);
        let exchange = layers.submit(peer, &mut opening).ok()?;
        self.subscriptions.registering(subscription, exchange);
        Some(())
    }

    pub(super) fn registration_failed(
        &mut self,
        layers: &mut Layers<P, C>,
        subscription: SubscriptionIndex,
        reason: Failure,
    ) {
        self.subscriptions.get_mut(subscription).exchange = None;
        self.subscription_over(layers, subscription, SubscriptionEnd::Failed(reason));
    }

    /// Returns the subscription of a response that matches no exchange, or only a registration
    /// whose response would come with the acknowledgement or after it.
    pub(super) fn notified(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: Option<PeerIndex>,
        message: &Message<'_>,
        exchange: Option<ExchangeIndex>,
    ) -> Option<SubscriptionIndex> {
        // A late report about the blocks of a registration is not a notification.
        if self.subscriptions.is_empty() || self.has_q_block() && reports_blocks(message) {
            return None;
        }
        let subscription = self.subscriptions.find(peer?, &message.token())?;
        let agreed = self.subscriptions.get(subscription).newest.is_some();
        let answers = exchange.is_some_and(|index| {
            let exchange = layers.transport.exchanges.get(index);
            let waits = exchange.state == State::Queued;
            exchange.state == State::AwaitingResponse || !exchange.confirmable && !waits
        });
        (agreed && !answers).then_some(subscription)
    }

    /// Returns `true` if an Observe option shows that a response does not answer a deregistration
    /// (RFC 7641 §3.6, §4.1).
    pub(super) fn is_late_notification(
        &self,
        layers: &Layers<P, C>,
        index: ExchangeIndex,
        message: &Message<'_>,
    ) -> bool {
        let deregisters = |body: &Body| body.option(OptionNumber::OBSERVE).and_then(decode_uint) == Some(DEREGISTER);
        message.option(OptionNumber::OBSERVE).is_some()
            && deregisters(&layers.transport.exchanges.get(index).content.body)
    }

    /// Handles a notification (RFC 7641 §3.2 to §3.5).
    pub(super) fn receive_notification(
        &mut self,
        layers: &mut Layers<P, C>,
        source: Source<P>,
        fingerprint: Fingerprint,
        subscription: SubscriptionIndex,
        message: &Message<'_>,
    ) {
        if message.unacceptable_option(&layers.transport.config.known_options).is_some() {
            layers.transport.push_empty(source, Type::Reset, message.id());
            let reason = SubscriptionEnd::Failed(Failure::UnacceptableResponse);
            return self.subscription_over(layers, subscription, reason);
        }
        if message.ty() == Type::Confirmable {
            // If it cannot be remembered, its sequence number identifies a duplicate.
            layers.transport.acknowledge_empty(layers.now, source, fingerprint, message.id());
        }
        if self.has_q_block() && self.receive_state_payload(layers, subscription, message) {
            return;
        }
        self.report(layers, subscription, OwnedMessage::from(*message));
    }

    pub(super) fn subscription_due(&mut self, layers: &mut Layers<P, C>, index: SubscriptionIndex) {
        let (subscription, peer) = (self.subscriptions.id(index), self.subscriptions.get(index).peer);
        let from = layers.transport.peers.get(peer).key;
        layers.announce(Event::Stale { subscription, from });
    }

    /// Ends the subscription of a cancelled registration. Of a repeated one the application knows
    /// only the exchange: an event names the subscription.
    pub(super) fn registration_cancelled(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        let reported = self.is_reported(layers, index);
        let Some(subscription) = self.registers(layers, index) else { return };
        self.subscriptions.get_mut(subscription).exchange = None;
        if reported {
            self.remove_subscription(layers, subscription);
        } else {
            self.subscription_over(layers, subscription, SubscriptionEnd::Cancelled);
        }
    }

    pub(super) fn report(&mut self, layers: &mut Layers<P, C>, index: SubscriptionIndex, message: OwnedMessage) {
        let taken = self.take(layers, index, &message);
        if taken == Err(None) {
            return;
        }
        self.discard_state(layers, index);
        let (subscription, peer) = (self.subscriptions.id(index), self.subscriptions.get(index).peer);
        let from = layers.transport.peers.get(peer).key;
        layers.announce(Event::Notification { subscription, from, message });
        if let Err(Some(reason)) = taken {
            self.subscription_over(layers, index, reason);
        }
    }

    /// Records a notification. `Err`: the reason why it is the last one, or `None` if it is older
    /// than the newest one.
    pub(super) fn take(
        &mut self,
        layers: &mut Layers<P, C>,
        index: SubscriptionIndex,
        message: &OwnedMessage,
    ) -> Result<(), Option<SubscriptionEnd>> {
        if !message.code().is_success() {
            return Err(Some(SubscriptionEnd::Error(message.code())));
        }
        let sequence = message.uint(OptionNumber::OBSERVE).ok_or(Some(SubscriptionEnd::NotObserved))?;
        let order = Order { sequence, received: layers.now };
        let found = self.subscriptions.get_mut(index);
        // Protected notifications were ordered when they were unprotected (RFC 8613 §4.1.3.5.2).
        if found.security.is_plain() && found.newest.is_some_and(|newest| !newest.is_before(&order)) {
            return Err(None);
        }
        found.newest = Some(order);
        let max_age = message.content().max_age();
        let grace = GRACE_MS.start + layers.transport.random.next_u64() % (GRACE_MS.end - GRACE_MS.start);
        self.subscriptions.fresh_until(index, layers.now + max_age + Duration::from_millis(grace));
        Ok(())
    }

    fn subscription_over(&mut self, layers: &mut Layers<P, C>, index: SubscriptionIndex, reason: SubscriptionEnd) {
        let found = self.subscriptions.get(index);
        let (subscription, registering) = (self.subscriptions.id(index), found.exchange);
        let from = layers.transport.peers.get(found.peer).key;
        #[cfg(feature = "oscore")]
        let context = found.security.context();
        self.remove_subscription(layers, index);
        self.abandon_registration(layers, registering);
        layers.announce(Event::SubscriptionOver {
            subscription,
            from,
            reason,
            #[cfg(feature = "oscore")]
            context,
        });
    }

    fn remove_subscription(&mut self, layers: &mut Layers<P, C>, index: SubscriptionIndex) {
        self.discard_state(layers, index);
        let peer = self.subscriptions.get(index).peer;
        self.subscriptions.remove(index);
        layers.transport.peers.let_go(layers.now, peer);
    }

    fn registration_again(&self, index: SubscriptionIndex, content: Content) -> Opening {
        let found = self.subscriptions.get(index);
        registration(
            content,
            found.token.clone(),
            found.reliability,
            Instant::FAR_FUTURE,
            found.security.for_new_request(),
        )
    }

    fn abandon_registration(&mut self, layers: &mut Layers<P, C>, exchange: Option<ExchangeId>) {
        if let Some(exchange) = exchange.filter(|&exchange| layers.transport.exchanges.live(exchange).is_some()) {
            layers.transport.abandon(layers.now, exchange.index, AbandonReason::Cancelled);
            self.close(layers, exchange.index);
        }
    }
}
