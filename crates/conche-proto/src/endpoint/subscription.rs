//! What this endpoint observes elsewhere (RFC 7641 §3): registering, notifications, and the end.

use core::time::Duration;

use rand_core::RngCore;

use super::outbox::Source;
use super::{Endpoint, Event, RequestError};
use crate::PeerKey;
use crate::blockwise::sets::is_about_sets;
use crate::codec::{Body, Code, Message, OptionNumber, OwnedMessage, Token, Type, decode_uint};
use crate::exchange::{Content, ExchangeId, Failure, Opening, Purpose, Reliability, Request, State};
use crate::hash::Fingerprint;
use crate::observe::{DEREGISTER, Opened, Order, REGISTER, SubscriptionEnd, SubscriptionId};
use crate::security::Security;
use crate::shares::Group;
use conche_cc::control::{AckKind, Why};
use conche_cc::{Controller, Instant};

/// How many milliseconds after Max-Age a notification is waited for (RFC 7641 §3.3.1).
const GRACE_MS: core::ops::Range<u64> = 5_000..15_000;

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Asks for something and to be notified of its changes: a GET or FETCH, to which the endpoint adds Observe 0. The
    /// exchange ends as that of any [`request`](Self::request); what follows are [`Event::Notification`]s, each newer than
    /// the one before, and in the end [`Event::SubscriptionOver`], even if the server never agreed to notify.
    ///
    /// # Errors
    /// As [`request`](Self::request), and if the method cannot be observed or there are too many subscriptions.
    pub fn subscribe(
        &mut self,
        now: Instant,
        to: P,
        request: Request,
    ) -> Result<(ExchangeId, SubscriptionId), RequestError> {
        let security = self.security_of(&request);
        let Request { code, body, reliability, timeout, token, .. } = request;
        if !matches!(code, Code::GET | Code::FETCH) {
            return Err(RequestError::NotObservable(code));
        }
        let limit = self.config.limits.subscriptions;
        if self.subscriptions.len() >= limit {
            return Err(RequestError::TooManySubscriptions { limit });
        }
        let peer = self.open_peer(now, to, Group::NOBODY)?;
        let named = token.is_some();
        let token = self.token(now, peer, token, false)?.token;
        let request = Content { code, body: body.with_uint(OptionNumber::OBSERVE, REGISTER) };
        let deadline = timeout.map_or(Instant::FAR_FUTURE, |timeout| now + timeout);
        let mut opening = registration(request.clone(), token, reliability, deadline, security.clone());
        let in_sets = self.offer_sets(now, peer, &mut opening, named);
        let token = opening.token.clone();
        let exchange = self.submit(now, peer, &mut opening)?;
        // What was fresh now is not when it is registered again (RFC 9175 §2.3).
        let opened = Opened { peer, token, request: without_echo(request), reliability, exchange, in_sets, security };
        let subscription = self.subscriptions.insert(opened).ok_or(RequestError::TooManySubscriptions { limit })?;
        self.peers.hold(peer);
        Ok((exchange, subscription))
    }

    /// Registers again, under the same token, what has become [stale](Event::Stale) (RFC 7641 §3.3.1). The answer comes
    /// as a notification, or the subscription is over. Nothing happens while a registration is on its way.
    ///
    /// # Errors
    /// As [`request`](Self::request), and if the subscription is over. It stays as it is.
    pub fn reregister(&mut self, now: Instant, subscription: SubscriptionId) -> Result<(), RequestError> {
        let index = self.subscriptions.live(subscription).ok_or(RequestError::NotSubscribed)?;
        let found = self.subscriptions.get(index);
        if found.exchange.is_some() {
            return Ok(());
        }
        let (peer, in_sets) = (found.peer, found.in_sets);
        let mut opening = self.registration_again(index, found.request.clone());
        self.offer_sets_again(now, peer, &mut opening, in_sets);
        let exchange = self.submit(now, peer, &mut opening)?;
        self.subscriptions.registering(index, exchange);
        Ok(())
    }

    /// Ends a subscription and tells the server: a GET or FETCH with Observe 1 under the same token (RFC 7641 §3.6), whose
    /// exchange ends as that of any request. No event of the subscription follows.
    ///
    /// # Errors
    /// As [`request`](Self::request), and if the subscription is over. It stays as it is.
    pub fn unsubscribe(&mut self, now: Instant, subscription: SubscriptionId) -> Result<ExchangeId, RequestError> {
        let index = self.subscriptions.live(subscription).ok_or(RequestError::NotSubscribed)?;
        let found = self.subscriptions.get(index);
        let (peer, code, in_sets) = (found.peer, found.request.code, found.in_sets);
        let body = found.request.body.with_uint(OptionNumber::OBSERVE, DEREGISTER);
        let registering = found.exchange;
        let mut opening = self.registration_again(index, Content { code, body });
        self.offer_sets_again(now, peer, &mut opening, in_sets.filter(|in_sets| in_sets.uploaded));
        let exchange = self.submit(now, peer, &mut opening)?;
        self.remove_subscription(now, index);
        self.abandon_registration(now, registering);
        Ok(exchange)
    }

    /// Ends a subscription without a word to the server: what it sends next is rejected with a Reset, by which it learns
    /// (RFC 7641 §3.6). `false` if the subscription is over already.
    pub fn forget(&mut self, now: Instant, subscription: SubscriptionId) -> bool {
        let Some(index) = self.subscriptions.live(subscription) else { return false };
        let registering = self.subscriptions.get(index).exchange;
        self.remove_subscription(now, index);
        self.abandon_registration(now, registering);
        true
    }

    /// The subscription that this exchange registers.
    #[inline]
    pub(super) fn registers(&mut self, index: u32) -> Option<u32> {
        if self.subscriptions.is_empty() {
            return None;
        }
        let exchange = self.exchanges.get(index);
        let id = exchange.id(index);
        let find = || self.subscriptions.find(exchange.peer, &exchange.token);
        let subscription = (exchange.purpose == Purpose::Request).then(find)??;
        (self.subscriptions.get(subscription).exchange == Some(id)).then_some(subscription)
    }

    /// The exchange with this index is the application's own, not a registration that the endpoint repeats for it.
    pub(super) fn is_told_of(&mut self, index: u32) -> bool {
        self.registers(index).is_none_or(|subscription| self.subscriptions.get(subscription).newest.is_none())
    }

    /// A registration was answered.
    pub(super) fn deliver_registration(
        &mut self,
        now: Instant,
        index: u32,
        subscription: u32,
        kind: AckKind,
        message: OwnedMessage,
    ) {
        let told = self.is_told_of(index);
        self.exchanges.acknowledge(now, &mut self.peers, index, kind);
        let (exchange, from, course) = self.exchanges.told(now, &self.peers, index);
        let proved = self.exchanges.get(index).said().1.option(OptionNumber::ECHO).is_some();
        let security = core::mem::take(&mut self.exchanges.get_mut(index).security);
        let found = self.subscriptions.get_mut(subscription);
        found.exchange = None;
        if message.code().is_success() {
            // What notifications are bound to from now on.
            found.security = security;
        }
        self.close(now, index);
        if !told && !proved && self.prove_fresh(now, subscription, &message).is_some() {
            return;
        }
        if told {
            let end = self.take(now, subscription, &message).err().flatten();
            self.stop_gathering(now, subscription);
            self.announce(Event::Response { exchange, from, message, course });
            if let Some(reason) = end {
                self.subscription_over(now, subscription, reason);
            }
        } else {
            self.tell(now, subscription, message);
        }
    }

    /// A repeated registration was asked whether it is fresh: it is sent once more, with the Echo value that was given (RFC
    /// 9175 §2.3).
    fn prove_fresh(&mut self, now: Instant, subscription: u32, message: &OwnedMessage) -> Option<()> {
        let echo = message.option(OptionNumber::ECHO).filter(|_| message.code() == Code::UNAUTHORIZED)?;
        let found = self.subscriptions.get(subscription);
        let Content { code, body } = &found.request;
        let body = body.to_builder().option(OptionNumber::ECHO, echo).build().ok()?;
        let content = Content { code: *code, body };
        let (peer, in_sets) = (found.peer, found.in_sets);
        let mut opening = self.registration_again(subscription, content);
        self.offer_sets_again(now, peer, &mut opening, in_sets);
        let exchange = self.submit(now, peer, &mut opening).ok()?;
        self.subscriptions.registering(subscription, exchange);
        Some(())
    }

    /// A registration failed.
    pub(super) fn registration_failed(&mut self, now: Instant, subscription: u32, reason: Failure) {
        self.subscriptions.get_mut(subscription).exchange = None;
        self.subscription_over(now, subscription, SubscriptionEnd::Failed(reason));
    }

    /// The subscription that a response belongs to which is no answer to a request: to none at all, or not to this one,
    /// a registration whose answer would come with the acknowledgement or after it.
    pub(super) fn notified(&mut self, peer: Option<u32>, message: &Message<'_>, exchange: Option<u32>) -> Option<u32> {
        // A late word about the blocks of a registration is no state of what is observed.
        if self.subscriptions.is_empty() || self.sets.is_some() && is_about_sets(message) {
            return None;
        }
        let subscription = self.subscriptions.find(peer?, &message.token())?;
        let agreed = self.subscriptions.get(subscription).newest.is_some();
        let answers = exchange.is_some_and(|index| {
            let exchange = self.exchanges.get(index);
            let waits = exchange.state == State::Queued;
            exchange.state == State::AwaitingResponse || !exchange.confirmable && !waits
        });
        (agreed && !answers).then_some(subscription)
    }

    /// This separate response with the token of an exchange does not answer it, as that deregisters: what answers has no
    /// Observe option, what has one is a notification that was on its way (RFC 7641 §3.6, §4.1).
    pub(super) fn is_late_notification(&self, index: u32, message: &Message<'_>) -> bool {
        let deregisters = |body: &Body| body.option(OptionNumber::OBSERVE).and_then(decode_uint) == Some(DEREGISTER);
        message.option(OptionNumber::OBSERVE).is_some() && deregisters(&self.exchanges.get(index).content.body)
    }

    /// A notification arrived (RFC 7641 §3.2 to §3.5).
    pub(super) fn receive_notification(
        &mut self,
        now: Instant,
        source: Source<P>,
        what: Fingerprint,
        subscription: u32,
        message: &Message<'_>,
    ) {
        if message.unacceptable_option(&self.config.known_options).is_some() {
            self.push_empty(source, Type::Reset, message.id());
            let reason = SubscriptionEnd::Failed(Failure::UnacceptableResponse);
            return self.subscription_over(now, subscription, reason);
        }
        if message.ty() == Type::Confirmable {
            // If it cannot be remembered, its number tells a copy of it.
            self.acknowledge_empty(now, source, what, message.id());
        }
        if self.sets.is_some() && self.gather(now, subscription, message) {
            return;
        }
        self.tell(now, subscription, OwnedMessage::from(*message));
    }

    /// Nothing was heard of a subscription for too long.
    pub(super) fn subscription_due(&mut self, index: u32) {
        let (subscription, peer) = (self.subscriptions.id(index), self.subscriptions.get(index).peer);
        let from = self.peers.get(peer).key;
        self.announce(Event::Stale { subscription, from });
    }

    /// The application cancelled a registration, and with it the subscription. Of one that the endpoint repeated for it, it
    /// knows no more than the exchange's name, and is told what that was.
    pub(super) fn registration_cancelled(&mut self, now: Instant, index: u32) {
        let told = self.is_told_of(index);
        let Some(subscription) = self.registers(index) else { return };
        self.subscriptions.get_mut(subscription).exchange = None;
        if told {
            self.remove_subscription(now, subscription);
        } else {
            self.subscription_over(now, subscription, SubscriptionEnd::Cancelled);
        }
    }

    /// Tells the application what is newer than what it knows.
    pub(super) fn tell(&mut self, now: Instant, index: u32, message: OwnedMessage) {
        let taken = self.take(now, index, &message);
        if taken == Err(None) {
            return;
        }
        self.stop_gathering(now, index);
        let (subscription, peer) = (self.subscriptions.id(index), self.subscriptions.get(index).peer);
        let from = self.peers.get(peer).key;
        self.announce(Event::Notification { subscription, from, message });
        if let Err(Some(reason)) = taken {
            self.subscription_over(now, index, reason);
        }
    }

    /// Takes in a notification. An error is why there will be no more, or `None` if it is older than what is known.
    fn take(&mut self, now: Instant, index: u32, message: &OwnedMessage) -> Result<(), Option<SubscriptionEnd>> {
        if !message.code().is_success() {
            return Err(Some(SubscriptionEnd::Error(message.code())));
        }
        let sequence = message.uint(OptionNumber::OBSERVE).ok_or(Some(SubscriptionEnd::NotObserved))?;
        let order = Order { sequence, received: now };
        let found = self.subscriptions.get_mut(index);
        // What is protected was compared when that was taken off (RFC 8613 §4.1.3.5.2).
        if found.security.is_plain() && found.newest.is_some_and(|newest| !newest.is_before(&order)) {
            return Err(None);
        }
        found.newest = Some(order);
        let max_age = message.content().max_age();
        let grace = GRACE_MS.start + self.random.next_u64() % (GRACE_MS.end - GRACE_MS.start);
        self.subscriptions.fresh_until(index, now + max_age + Duration::from_millis(grace));
        Ok(())
    }

    fn subscription_over(&mut self, now: Instant, index: u32, reason: SubscriptionEnd) {
        let found = self.subscriptions.get(index);
        let (subscription, registering) = (self.subscriptions.id(index), found.exchange);
        let from = self.peers.get(found.peer).key;
        #[cfg(feature = "oscore")]
        let context = found.security.context();
        self.remove_subscription(now, index);
        self.abandon_registration(now, registering);
        self.announce(Event::SubscriptionOver {
            subscription,
            from,
            reason,
            #[cfg(feature = "oscore")]
            context,
        });
    }

    fn remove_subscription(&mut self, now: Instant, index: u32) {
        self.stop_gathering(now, index);
        let peer = self.subscriptions.get(index).peer;
        self.subscriptions.remove(index);
        self.peers.let_go(now, peer);
    }

    /// A registration under the token of a subscription.
    fn registration_again(&self, index: u32, content: Content) -> Opening {
        let found = self.subscriptions.get(index);
        registration(content, found.token.clone(), found.reliability, Instant::FAR_FUTURE, found.security.anew())
    }

    fn abandon_registration(&mut self, now: Instant, exchange: Option<ExchangeId>) {
        if let Some(exchange) = exchange.filter(|&exchange| self.exchanges.live(exchange).is_some()) {
            self.exchanges.abandon(now, &mut self.peers, exchange.index, Why::Cancelled);
            self.close(now, exchange.index);
        }
    }
}

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
    // What is observed may change before all blocks of a state are there: the application asks for the others.
    Opening { purpose: Purpose::Request, code, body, token, reliability, deadline, security, ..Opening::EMPTY }
}
