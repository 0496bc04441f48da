//! Observers of this server (RFC 7641 §4): registration, notification, removal.

use super::Server;
use super::pending_requests::PendingRequest;
use super::q_block::StoredResponse;
use crate::PeerKey;
use crate::codec::{Body, Code, Message, MessageId, OptionNumber, Overhead};
use crate::config::SourceValidation;
use crate::error::{NotifyError, RequestError};
use crate::event::Event;
use crate::layers::Layers;
use crate::observe::{
    DEREGISTER, Notification, ObserverEnd, ObserverId, ObserverKey, Progress, REGISTER, Registration, ResourceState,
};
use crate::shares::Group;
use crate::transport::{
    Content, ExchangeId, ExchangeIndex, Failure, ObserverIndex, Opening, PeerIndex, Purpose, Reliability, RequestId,
    Response, State,
};
use conche_cc::control::AbandonReason;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Server<P, C> {
    pub(crate) fn observe(&mut self, layers: &mut Layers<P, C>, request: RequestId, topic: u64) -> Option<ObserverId> {
        let pending = self
            .pending_requests
            .get(request)
            .filter(|pending| !pending.is_to_group() && pending.allowance.is_none())?;
        let pending = pending.clone();
        let PendingRequest { from, local, group, requested, .. } = pending;
        // A request without an allowance came from a validated source, if sources are validated.
        let validated = layers.transport.config.source_validation != SourceValidation::Off;
        if let Some(before) = self.observer_of(layers, request, &pending) {
            self.remove_observer(layers, before);
        }
        let (token, security) = (pending.token, self.pending_requests.security(request).clone());
        let capacity = layers.transport.config.limits.observers;
        while !self.observers.group_has_room(group, &token, capacity) {
            let observers = self.observers.created()?;
            let (oldest, other) = observers.displaceable()?;
            let would_have_room = observers.would_have_room_without_unproven(group, &token, capacity);
            if !would_have_room || !observers.may_displace(group, 0, other) {
                return None;
            }
            self.lose_observer(layers, oldest, ObserverEnd::Displaced);
        }
        let peer = self.open_peer(layers, from, group).ok()?;
        let key = ObserverKey { peer, token, local };
        // This request must not end an observation under another security context with the same
        // token.
        let taken = cfg!(feature = "oscore") && self.observers.find(&key).is_some();
        let host = layers.transport.host_of(&from);
        if validated {
            layers.transport.peers.validated(peer);
        }
        let (proven, measured) =
            (validated || layers.transport.peers.has_answered(peer), layers.transport.peers.is_measured(peer));
        let requested = requested.for_states();
        let registration = Registration { key, group, host, topic, proven, measured, request, requested, security };
        if taken || !self.observers.peer_host_and_topic_have_room(&registration, &layers.transport.config.limits) {
            layers.transport.peers.touch(layers.now, peer);
            return None;
        }
        let observer = self.observers.insert(layers.now, registration)?;
        layers.transport.peers.hold(peer);
        Some(observer)
    }

    pub(crate) fn notify(
        &mut self,
        layers: &mut Layers<P, C>,
        topic: u64,
        response: Response,
    ) -> Result<usize, NotifyError> {
        if !response.code.is_response() {
            return Err(NotifyError::NotAResponse(response.code));
        }
        let limit = layers.transport.config.limits.state_bytes;
        // Check before a large body is processed.
        if !self.observers.created().is_none_or(|observers| observers.has_room(topic, &response, limit)) {
            return Err(NotifyError::StatesFull { limit });
        }
        let response = self.notifiable(layers, response)?;
        let Some(observers) = self.observers.created() else { return Ok(0) };
        let Some(body) = observers.notification(layers.now, topic, &response) else { return Ok(0) };
        let content = Content { code: response.code, body };
        let state = ResourceState { content, reliability: response.reliability };
        observers.changed(layers.now, topic, state, limit).ok_or(NotifyError::StatesFull { limit })
    }

    #[must_use]
    pub(crate) fn observers(&self, topic: u64) -> usize {
        self.observers.of_topic(topic).0
    }

    pub(crate) fn dismiss(&mut self, layers: &mut Layers<P, C>, observer: ObserverId) -> bool {
        let live = self.observers.live(observer);
        if let Some(index) = live {
            self.remove_observer(layers, index);
        }
        live.is_some()
    }

    pub(crate) fn dismiss_all(&mut self, layers: &mut Layers<P, C>, topic: u64) -> usize {
        let observers = self.observers(topic);
        while let (_, Some(observer)) = self.observers.of_topic(topic) {
            self.remove_observer(layers, observer);
        }
        observers
    }

    /// Ends the observation that a request with Observe and the same token replaces (RFC 7641
    /// §4.1).
    pub(super) fn observation_renewed(&mut self, layers: &mut Layers<P, C>, request: RequestId, message: &Message<'_>) {
        let reason = match message.uint(OptionNumber::OBSERVE) {
            Some(REGISTER) => ObserverEnd::Replaced,
            Some(DEREGISTER) => ObserverEnd::Deregistered,
            _ => return,
        };
        if matches!(message.code(), Code::GET | Code::FETCH)
            && let Some(pending) = self.pending_requests.get(request).cloned()
            && let Some(observer) = self.observer_of(layers, request, &pending)
        {
            self.lose_observer(layers, observer, reason);
        }
    }

    /// Returns the observer that this request registers.
    #[inline]
    fn registered(&mut self, request: RequestId) -> Option<ObserverIndex> {
        self.observers.registered_by(request)
    }

    /// Handles the next message of a request with a streamed body. The observer gets its token, or
    /// is removed if this message does not register.
    pub(super) fn registration_continued(
        &mut self,
        layers: &mut Layers<P, C>,
        request: RequestId,
        message: &Message<'_>,
    ) {
        let Some(observer) = self.registered(request) else {
            return self.observation_renewed(layers, request, message);
        };
        let Some(pending) = self.pending_requests.get(request).cloned() else { return };
        let asks = message.uint(OptionNumber::OBSERVE) == Some(REGISTER);
        let key = ObserverKey { token: pending.token.clone(), ..self.observers.key(observer) };
        if let Some(other) = self.observers.find(&key).filter(|&other| other != observer) {
            if !asks || !self.observers.is_secured_as(other, self.pending_requests.security(request)) {
                // This request must not end an observation under another security context.
                return self.remove_observer(layers, observer);
            }
            self.lose_observer(layers, other, ObserverEnd::Replaced);
        }
        if !asks {
            return self.remove_observer(layers, observer);
        }
        let security = self.pending_requests.security(request).clone();
        self.observers.continue_registration(observer, pending.token, pending.requested.for_states(), security);
    }

    /// Reserves room for states as large as an observer's first response. Without room, removes the
    /// observer and returns `false`: the request is answered like a plain GET (RFC 7641 §4.1).
    pub(super) fn reserve_states(
        &mut self,
        layers: &mut Layers<P, C>,
        observer: ObserverIndex,
        response: &Response,
    ) -> bool {
        let limit = layers.transport.config.limits.state_bytes;
        if response.code.is_success() && !self.observers.reserve(observer, response.body.len(), limit) {
            self.remove_observer(layers, observer);
            return false;
        }
        true
    }

    pub(super) fn registration_answered(
        &mut self,
        layers: &mut Layers<P, C>,
        observer: ObserverIndex,
        code: Code,
        exchange: Option<ExchangeId>,
    ) {
        if !code.is_success() {
            return self.remove_observer(layers, observer);
        }
        self.observers.answered(observer, exchange);
        self.catch_up(layers, observer);
    }

    pub(super) fn unregister(&mut self, layers: &mut Layers<P, C>, request: RequestId) {
        if let Some(observer) = self.registered(request) {
            self.remove_observer(layers, observer);
        }
    }

    /// Notifies an observer. A Confirmable notification in progress carries the new state in its
    /// next retransmission (RFC 7641 §4.5.2).
    pub(super) fn notify_observer(&mut self, layers: &mut Layers<P, C>, observer: ObserverIndex) {
        match self.observers.progress(observer) {
            Progress::Unanswered(_) => {}
            Progress::Idle => {
                // If it was sent this state before, only the first block is sent again.
                let behind = self.observers.is_behind(observer);
                let Some(message) = self.observers.message(layers.now, observer) else {
                    return self.ping_observer(layers, observer);
                };
                let (ObserverKey { peer, token, local }, reliability) = (message.key.clone(), message.reliability);
                let Some((Content { code, body }, rest)) = self.protected_notification(layers, observer, message)
                else {
                    return;
                };
                let rest = rest.filter(|_| behind);
                let key = rest.as_ref().map(|stored| stored.key);
                let transfer = rest.and_then(|stored| self.whole_state(&stored, reliability));
                let confirmable = transfer.as_ref().is_some_and(|transfer| transfer.is_confirmable());
                let reliability = if confirmable { Reliability::Confirmable } else { reliability };
                let mut opening = Opening {
                    purpose: Purpose::Notification(observer),
                    code,
                    body,
                    token,
                    local,
                    reliability,
                    transfer,
                    whole: true,
                    // No protected response follows, so the exchange is plain.
                    ..Opening::EMPTY
                };
                if let Some(exchange) = layers.transport.open(layers.now, peer, &mut opening) {
                    self.observers.sending(observer, exchange);
                    if let Some(key) = key {
                        self.remember_bursts(layers, key, exchange);
                    }
                }
            }
            Progress::Sending(id) => {
                let Some(exchange) = layers.transport.exchanges.live(id) else { return };
                if exchange.transfer.as_ref().is_some_and(|transfer| !transfer.is_new()) {
                    return self.supersede_burst(layers, observer, id);
                }
                let outdated = self.observers.is_behind(observer) || !exchange.confirmable;
                if outdated
                    && (exchange.confirmable || exchange.sent.is_empty())
                    && let Some(message) = self.observers.message(layers.now, observer)
                {
                    let exchange = layers.transport.exchanges.get_mut(id.index);
                    if exchange.state == State::Queued {
                        // A queued message takes the reliability of the new state: an error is
                        // Confirmable.
                        exchange.confirmable = message.reliability == Reliability::Confirmable;
                        exchange.may_confirm = message.reliability == Reliability::NonConfirmable;
                    }
                    let reliability = message.reliability;
                    let Some((content, rest)) = self.protected_notification(layers, observer, message) else {
                        return;
                    };
                    layers.transport.exchanges.supersede(&mut layers.transport.peers, id.index, content);
                    if let Some(key) = rest.as_ref().map(|stored| stored.key) {
                        self.remember_bursts(layers, key, id);
                    }
                    let mut transfer = rest.and_then(|stored| self.whole_state(&stored, reliability));
                    let exchange = layers.transport.exchanges.get_mut(id.index);
                    if transfer.as_ref().is_some_and(|transfer| transfer.is_confirmable()) && !exchange.confirmable {
                        if exchange.state == State::Queued {
                            (exchange.confirmable, exchange.may_confirm) = (true, false);
                        } else {
                            // The client requests the rest of the state that is being sent.
                            transfer = None;
                        }
                    }
                    layers.transport.exchanges.replace_burst(id.index, transfer);
                    if layers.transport.exchanges.get(id.index).state == State::Queued {
                        // The message may have become Confirmable.
                        layers.transport.admit_waiting(layers.now, layers.transport.exchanges.get(id.index).peer);
                    }
                }
            }
        }
    }

    /// Pings an observer before the application's first notification: the client answers with a
    /// Reset (RFC 7252 §4.3).
    fn ping_observer(&mut self, layers: &mut Layers<P, C>, observer: ObserverIndex) {
        if !self.observers.is_in_question(observer) {
            return;
        }
        let ObserverKey { peer, token, local } = self.observers.key(observer);
        let mut opening = Opening { purpose: Purpose::Notification(observer), token, local, ..Opening::EMPTY };
        if let Some(exchange) = layers.transport.open(layers.now, peer, &mut opening) {
            self.observers.sending(observer, exchange);
        }
    }

    /// Protects a notification. `None` if that fails: without a free sequence number it is
    /// postponed, without the context the observer is removed.
    fn protected_notification(
        &mut self,
        layers: &mut Layers<P, C>,
        observer: ObserverIndex,
        message: Notification,
    ) -> Option<(Content, Option<StoredResponse>)> {
        let (security, overhead) = (message.security.clone(), Overhead::of(&message.key.token));
        let (content, rest) = self.cut_notification(layers, message);
        if security.is_plain() {
            return Some((content, rest));
        }
        match layers.try_protect(&security, overhead, content.code, &content.body) {
            Some((code, body)) => Some((Content { code, body }, rest)),
            None => {
                match layers.never_protects(&security) {
                    Some(reason) => self.lose_observer(layers, observer, ObserverEnd::Failed(reason)),
                    None => self.observers.missed(observer),
                }
                None
            }
        }
    }

    /// Handles the end of a Non-confirmable notification, or a cancellation. A superseding state is
    /// still sent.
    pub(crate) fn notification_over(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        let exchange = layers.transport.exchanges.get(index);
        let Purpose::Notification(observer) = exchange.purpose else { return };
        let superseded = exchange.successor.is_some();
        self.close(layers, index);
        if superseded {
            self.observers.missed(observer);
        }
        self.catch_up(layers, observer);
    }

    pub(super) fn notification_acknowledged(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        observer: ObserverIndex,
    ) {
        let exchange = layers.transport.exchanges.get(index);
        let (superseded, peer) = (exchange.successor.is_some(), exchange.peer);
        self.close(layers, index);
        let trusted = layers.transport.peers.get_mut(peer).trust.is_given(layers.now);
        self.observers.acknowledged(layers.now, observer, trusted);
        if superseded {
            self.observers.missed(observer);
        }
        self.catch_up(layers, observer);
    }

    /// Handles the acknowledgement of a response, maybe the first to an observer.
    pub(super) fn response_acknowledged(&mut self, layers: &mut Layers<P, C>, key: &ObserverKey, exchange: ExchangeId) {
        let trusted = layers.transport.peers.get_mut(key.peer).trust.is_given(layers.now);
        if let Some(observers) = self.observers.created()
            && let Some(observer) = observers.first_answered_by(key, exchange)
        {
            observers.acknowledged(layers.now, observer, trusted);
        }
    }

    /// Removes the observer (RFC 7641 §4.5), unless the notification waited in the queue for too
    /// long.
    pub(super) fn notification_failed(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        observer: ObserverIndex,
        reason: Failure,
    ) {
        self.close(layers, index);
        if reason == Failure::QueueExpired {
            // Not the client's fault.
            self.observers.missed(observer);
            return self.catch_up(layers, observer);
        }
        self.lose_observer(layers, observer, ObserverEnd::Failed(reason));
    }

    /// Handles a failed response, maybe the first to an observer, or to an earlier request with its
    /// token.
    pub(super) fn response_failed(
        &mut self,
        layers: &mut Layers<P, C>,
        key: &ObserverKey,
        exchange: ExchangeId,
        reason: Failure,
    ) {
        let observer = self.observers.created().and_then(|created| created.first_answered_by(key, exchange));
        if let Some(observer) = observer {
            self.lose_observer(layers, observer, ObserverEnd::Failed(reason));
        }
    }

    /// Records the message ID of a Non-confirmable response that had to wait; an observer may
    /// reject it.
    pub(super) fn first_response_sent(&mut self, now: Instant, key: &ObserverKey, exchange: ExchangeId, id: MessageId) {
        if let Some(observers) = self.observers.created()
            && let Some(observer) = observers.first_answered_by(key, exchange)
        {
            observers.answer_left(now, observer, id);
        }
    }

    /// Handles a Reset that matches no exchange: it may reject an earlier Non-confirmable
    /// notification.
    pub(crate) fn reject_notification(&mut self, layers: &mut Layers<P, C>, peer: PeerIndex, id: MessageId) -> bool {
        let lifetime = layers.transport.config.times().exchange_lifetime;
        let observer = self.observers.created().and_then(|created| created.with_id(layers.now, peer, id, lifetime));
        if let Some(observer) = observer {
            self.lose_observer(layers, observer, ObserverEnd::Failed(Failure::Reset));
        }
        observer.is_some()
    }

    pub(super) fn first_response(&mut self, now: Instant, observer: ObserverIndex, response: &Response) -> Body {
        match response.code.is_success() {
            true => self.observers.first_response(now, observer, response),
            false => response.body.clone(),
        }
    }

    fn catch_up(&mut self, layers: &mut Layers<P, C>, observer: ObserverIndex) {
        let observers = &self.observers;
        if observers.is_behind(observer) || observers.is_doubtful(observer) || observers.is_in_question(observer) {
            self.notify_observer(layers, observer);
        } else if self.observers.has_other_format(observer) {
            self.lose_observer(layers, observer, ObserverEnd::FormatChanged);
        } else if self.observers.is_over(observer) {
            self.remove_observer(layers, observer);
        }
    }

    fn observer_of(
        &mut self,
        layers: &mut Layers<P, C>,
        request: RequestId,
        pending: &PendingRequest<P>,
    ) -> Option<ObserverIndex> {
        let &PendingRequest { from, local, ref token, peer, .. } = pending;
        let peer = match peer {
            Some(peer) => peer.get(),
            None => layers.transport.peers.peek(&from)?,
        };
        let observers = self.observers.created()?;
        let found = observers.find(&ObserverKey { peer, token: token.clone(), local })?;
        observers.is_secured_as(found, self.pending_requests.security(request)).then_some(found)
    }

    fn lose_observer(&mut self, layers: &mut Layers<P, C>, index: ObserverIndex, reason: ObserverEnd) {
        let (observer, peer, topic) = self.observers.named(index);
        let from = layers.transport.peers.get(peer).key;
        self.remove_observer(layers, index);
        layers.announce(Event::ObserverGone { observer, from, topic, reason });
    }

    fn remove_observer(&mut self, layers: &mut Layers<P, C>, index: ObserverIndex) {
        if let Progress::Sending(exchange) = self.observers.progress(index) {
            layers.transport.abandon(layers.now, exchange.index, AbandonReason::Cancelled);
            self.close(layers, exchange.index);
        }
        let peer = self.observers.remove(index);
        layers.transport.peers.let_go(layers.now, peer);
    }

    pub(crate) fn lose_peer(&mut self, layers: &mut Layers<P, C>, peer: PeerIndex) {
        while let Some(observer) = self.observers.created().and_then(|observers| observers.of_peer(peer)) {
            self.lose_observer(layers, observer, ObserverEnd::Failed(Failure::Unreachable));
        }
    }

    /// Opens a peer, if all are in use, by evicting unproven observers.
    #[cold]
    pub(super) fn open_in_place_of_an_observer(
        &mut self,
        layers: &mut Layers<P, C>,
        key: P,
        group: Group,
    ) -> Result<PeerIndex, RequestError> {
        let full = RequestError::PeersFull { limit: layers.transport.config.limits.peers };
        while layers.transport.peers.is_full() {
            // The group may hold many peers that are not observers.
            let besides = layers.transport.peers.unproven_of(group);
            let oldest = self.observers.created().and_then(|observers| observers.displaceable());
            let displaced = oldest.filter(|&(_, other)| self.observers.may_displace(group, besides, other));
            let Some((observer, _)) = displaced else { return Err(full) };
            self.lose_observer(layers, observer, ObserverEnd::Displaced);
            if let Ok(peer) = layers.transport.peers.open(layers.now, key, group, &mut layers.transport.random) {
                return Ok(peer);
            }
        }
        Err(full)
    }

    #[inline]
    pub(crate) fn close(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        let exchange = layers.transport.exchanges.get(index);
        if let Purpose::Response(group) = exchange.purpose {
            self.pending_requests.give_back(group, &exchange.token);
        }
        if let Purpose::Notification(observer) = layers.transport.close(layers.now, index) {
            self.observers.idle(observer);
        }
    }
}
