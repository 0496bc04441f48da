//! Responses to received requests (RFC 7252 §5.2), by the application or by the endpoint itself.

use alloc::string::String;

use super::Server;
use super::group::DelayedResponse;
use super::pending_requests::{BodyStorage, PendingRequest, RequestKind, ResponseFilter};
use super::receive::{Arrival, ReceivedRequest};
use super::validation::needs_proof;
use crate::PeerKey;
use crate::codec::{
    BLOCK_BYTES, Block, Body, Code, Header, MARKER_BYTES, MessageId, NoResponse, OBSERVE_BYTES, OptionNumber, Overhead,
    SIZE_BYTES, Type,
};
use crate::config::SourceValidation;
use crate::error::{RespondError, SupersedeError};
use crate::event::StreamEnd;
use crate::hash::Keyed;
use crate::layers::Layers;
use crate::security::Security;
use crate::store::Compact;
use crate::transport::{
    Content, Departure, Exchange, ExchangeId, ObserverIndex, Opening, PeerIndex, Purpose, Received, Reliability, Reply,
    RequestId, Response, Source, allows, encode, encoded,
};
use conche_cc::Controller;

pub(super) struct AnsweredRequest<'a, P> {
    pub(super) pending: &'a PendingRequest<P>,
    pub(super) security: &'a Security,
}

impl<P> Clone for AnsweredRequest<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for AnsweredRequest<'_, P> {}

impl<P: PeerKey, C: Controller> Server<P, C> {
    pub(crate) fn respond(
        &mut self,
        layers: &mut Layers<P, C>,
        request: RequestId,
        mut response: Response,
    ) -> Result<Option<ExchangeId>, RespondError> {
        if self.has_streams() && self.is_answered(layers, request) {
            return Err(RespondError::NotPending);
        }
        let pending = self.pending_requests.get(request).ok_or(RespondError::NotPending)?;
        let plain = pending.requested.is_plain();
        let reserved = pending.rules.storage() == BodyStorage::Reserved;
        let overhead = Overhead::of(&pending.token).with(self.pending_requests.security(request).response_bytes());
        if Self::is_unwanted(pending, &response) {
            self.ignore(layers, request);
            return Ok(None);
        }
        self.check_code(&response)?;
        if self.has_streams() && self.answered_at_once(layers, request, &response)? {
            return Ok(None);
        }
        let registered = self.observers.created().and_then(|observers| observers.registered_by(request));
        let observer = registered.filter(|&observer| self.reserve_states(layers, observer, &response));
        // Only the first block has the Observe option (RFC 7959 §2.6).
        let overhead = overhead.with(if observer.is_some() { OBSERVE_BYTES } else { 0 });
        if !plain || !layers.transport.config.goes_whole(overhead, &response.body) {
            let pending = self.pending_requests.get(request).ok_or(RespondError::NotPending)?;
            let to = self.recipient(layers, pending, overhead);
            response = self.cut_response(layers, &to, response)?;
        } else if reserved {
            let pending = self.pending_requests.get(request).ok_or(RespondError::NotPending)?;
            let key = self.recipient(layers, pending, overhead).key;
            self.representations.forget(key);
        }
        if let Some(observer) = observer {
            response.body = self.first_response(layers.now, observer, &response);
        }
        self.check(layers, &response, overhead)?;
        let rest = if plain { None } else { self.rest_in_bursts(request, observer, &response) };
        let security = self.pending_requests.security(request).clone();
        let pending = self.pending_requests.remove(request).ok_or(RespondError::NotPending)?;
        let code = response.code;
        let exchange =
            self.send_response(layers, AnsweredRequest { pending: &pending, security: &security }, observer, response);
        if let Some(observer) = observer {
            self.registration_answered(layers, observer, code, exchange);
        }
        if let Some((block, observer)) = rest {
            self.send_behind_first(layers, &pending, block, observer);
        }
        // A Non-confirmable response that waits for a message ID is not reported further.
        Ok(exchange.filter(|&exchange| layers.transport.exchanges.live(exchange).is_some_and(Exchange::is_reportable)))
    }

    /// Returns the first block and, for an observed state, its observer and sequence number.
    fn rest_in_bursts(
        &self,
        request: RequestId,
        observer: Option<ObserverIndex>,
        response: &Response,
    ) -> Option<(Block, Option<(ObserverIndex, u32)>)> {
        let requested = self
            .pending_requests
            .get(request)?
            .requested
            .response_in_bursts()
            .filter(|requested| requested.num == 0 && requested.more)?;
        let content = response.body.content(response.code)?;
        let block = content.block(OptionNumber::Q_BLOCK2).ok()?.filter(|block| block.more && block.num == 0)?;
        Some((Block { more: requested.more, ..block }, observer.zip(content.uint(OptionNumber::OBSERVE))))
    }

    /// Sends a response, or holds it until its source is validated.
    #[inline]
    pub(super) fn send_response(
        &mut self,
        layers: &mut Layers<P, C>,
        request: AnsweredRequest<'_, P>,
        observer: Option<ObserverIndex>,
        mut response: Response,
    ) -> Option<ExchangeId> {
        let pending = request.pending;
        if pending.allowance.is_some() {
            if needs_proof(pending, &response) {
                response = self.hold_response(layers, request, response)?;
            }
            response.reliability = Some(Reliability::NeverConfirmable);
        }
        self.send_now(layers, request, observer, response)
    }

    /// Sends a response regardless of the allowance of its source.
    #[inline]
    pub(super) fn send_now(
        &mut self,
        layers: &mut Layers<P, C>,
        request: AnsweredRequest<'_, P>,
        observer: Option<ObserverIndex>,
        response: Response,
    ) -> Option<ExchangeId> {
        let pending = request.pending;
        match pending.peer.map(Compact::get) {
            Some(_) if pending.is_to_group() => {
                self.respond_at_leisure(layers, pending.clone(), response);
                None
            }
            Some(peer) if !pending.can_piggyback() => {
                self.respond_separately(layers, request, peer, observer, response)
            }
            _ => {
                self.piggyback(layers, request, &response);
                None
            }
        }
    }

    pub(crate) fn acknowledge(&mut self, layers: &mut Layers<P, C>, request: RequestId) -> Result<(), RespondError> {
        let pending = self.pending_requests.get(request).ok_or(RespondError::NotPending)?;
        if pending.can_piggyback() {
            self.piggybacking_over(layers, request);
        }
        self.pending_requests.get(request).map(drop).ok_or(RespondError::NotPending)
    }

    /// Drops a request without a response; a Confirmable one is acknowledged.
    pub(crate) fn ignore(&mut self, layers: &mut Layers<P, C>, request: RequestId) {
        self.unregister(layers, request);
        self.forget_stream(layers, request, None);
        let Some(pending) = self.pending_requests.remove(request) else { return };
        if pending.can_piggyback() {
            self.reply(layers, &pending, Reply::EmptyAck);
        }
        self.answered(layers, &pending);
    }

    pub(crate) fn supersede(
        &mut self,
        layers: &mut Layers<P, C>,
        exchange: ExchangeId,
        response: Response,
    ) -> Result<(), SupersedeError> {
        let found = layers.transport.exchanges.live(exchange).ok_or(SupersedeError::NotOutstanding)?;
        if !matches!(found.purpose, Purpose::Response(_)) {
            return Err(SupersedeError::NotOutstanding);
        }
        let overhead = Overhead::of(&found.token);
        let security = found.security.clone();
        self.check_code(&response)?;
        self.check(layers, &response, overhead.with(security.response_bytes()))?;
        let (code, body) = layers.protect(&security, overhead, response.code, &response.body);
        let content = Content { code, body };
        layers.transport.exchanges.supersede(&mut layers.transport.peers, exchange.index, content);
        Ok(())
    }

    /// Sends an Empty ACK, and the response will be separate. If the peer table is full, the
    /// request is refused in the ACK.
    pub(super) fn piggybacking_over(&mut self, layers: &mut Layers<P, C>, request: RequestId) {
        let Some(pending) = self.pending_requests.get(request).cloned() else { return };
        match self.open_peer(layers, pending.from, pending.group) {
            Ok(peer) => {
                layers.transport.peers.hold(peer);
                if layers.transport.config.source_validation != SourceValidation::Off && pending.allowance.is_none() {
                    layers.transport.peers.validated(peer);
                }
                self.pending_requests.acknowledged(request, peer);
                self.reply(layers, &pending, Reply::EmptyAck);
            }
            Err(_) => {
                layers.transport.stats.overloaded += 1;
                self.unregister(layers, request);
                self.forget_stream(layers, request, Some(StreamEnd::Refused));
                let body = layers.transport.config.try_later();
                let security = self.pending_requests.security(request).clone();
                self.pending_requests.remove(request);
                let refused = AnsweredRequest { pending: &pending, security: &security };
                self.piggyback(layers, refused, &Response::new(Code::SERVICE_UNAVAILABLE, body));
            }
        }
    }

    pub(super) fn check_code(&self, response: &Response) -> Result<(), RespondError> {
        if response.code.is_response() { Ok(()) } else { Err(RespondError::NotAResponse(response.code)) }
    }

    pub(super) fn check(
        &self,
        layers: &Layers<P, C>,
        response: &Response,
        overhead: Overhead,
    ) -> Result<(), RespondError> {
        let bytes = overhead.message(&response.body);
        let limit = layers.transport.config.limits.message_bytes;
        if bytes > limit { Err(RespondError::TooLarge { bytes, limit }) } else { Ok(()) }
    }

    #[inline]
    fn piggyback(&mut self, layers: &mut Layers<P, C>, request: AnsweredRequest<'_, P>, response: &Response) {
        let AnsweredRequest { pending, security } = request;
        self.pending_requests.give_back(pending.group, &pending.token);
        let protected;
        let (code, body) = if security.is_plain() {
            (&response.code, &response.body)
        } else {
            let overhead = Overhead::of(&pending.token);
            protected = layers.protect(security, overhead, response.code, &response.body);
            (&protected.0, &protected.1)
        };
        let (ty, id, token) = (Type::Acknowledgement, pending.id, &pending.token);
        let mut bytes = [0; Reply::SHORT];
        let short = match Overhead::of(token).fits(body, Reply::SHORT) {
            true => encode(&mut bytes, Header { ty, code: *code, id }, token, body)
                .and_then(|length| u8::try_from(length).ok()),
            false => None,
        };
        let reply = match short {
            Some(length) => Reply::Short { length, bytes },
            None => Reply::Datagram(encoded(ty, *code, id, token, body)),
        };
        self.reply(layers, pending, reply);
    }

    /// Sends a reply, also to duplicates while the request is remembered.
    #[inline(always)]
    pub(crate) fn reply(&mut self, layers: &mut Layers<P, C>, pending: &PendingRequest<P>, reply: Reply) {
        let &PendingRequest { from, local, id, .. } = pending;
        let to = Source { from, local };
        let forgotten = match pending.remembered {
            Some(remembered) => match layers.transport.received.set_reply(remembered, reply) {
                Ok(()) => return layers.transport.outbox.push_back(Departure::Remembered { to, id, remembered }),
                Err(reply) => reply,
            },
            None => reply,
        };
        layers.transport.outbox.push_back(Departure::forgotten(to, id, forgotten));
    }

    /// Sends a separate response. A Non-confirmable one is sent at once: the peer's requests set
    /// the pace. It waits only if all message IDs are in use, and is dropped if
    /// [`Limits::queue_per_peer`](crate::Limits::queue_per_peer) messages wait for the peer
    /// already.
    fn respond_separately(
        &mut self,
        layers: &mut Layers<P, C>,
        request: AnsweredRequest<'_, P>,
        peer: PeerIndex,
        observer: Option<ObserverIndex>,
        response: Response,
    ) -> Option<ExchangeId> {
        let AnsweredRequest { pending, security } = request;
        // The client of a Q-Block upload does not ask again (RFC 9177 §4.3).
        let (code, body) = match security.is_plain() {
            true => (response.code, response.body),
            false => layers.protect(security, Overhead::of(&pending.token), response.code, &response.body),
        };
        let awaited = pending.kind == RequestKind::Confirmable || pending.requested.q_block1().is_some();
        let by_default = if awaited { Reliability::Confirmable } else { Reliability::NeverConfirmable };
        let reliability = response.reliability.unwrap_or(by_default);
        let confirmable = reliability == Reliability::Confirmable;
        let free_id = match confirmable {
            true => None,
            false => layers.transport.message_id(layers.now, peer).ok(),
        };
        if let Some(id) = free_id {
            if let Some(observer) = observer {
                self.observers.answer_left(layers.now, observer, id);
            }
            self.send_rejectable(layers, pending, id, code, &body);
            self.answered(layers, pending);
            return None;
        }
        if !confirmable
            && layers.transport.peers.get(peer).messages().queued as usize
                >= layers.transport.config.limits.queue_per_peer
        {
            layers.transport.stats.responses_expired += 1;
            self.answered(layers, pending);
            return None;
        }
        let mut opening = Opening {
            purpose: Purpose::Response(pending.group),
            code,
            body,
            token: pending.token.clone(),
            local: pending.local,
            reliability: if confirmable { reliability } else { Reliability::NeverConfirmable },
            security: security.clone(),
            ..Opening::EMPTY
        };
        let exchange = layers.transport.open(layers.now, peer, &mut opening);
        layers.transport.peers.let_go(layers.now, peer);
        exchange
    }

    fn send_rejectable(
        &mut self,
        layers: &mut Layers<P, C>,
        pending: &PendingRequest<P>,
        id: MessageId,
        code: Code,
        body: &Body,
    ) {
        let to = Source { from: pending.from, local: pending.local };
        let datagram = encoded(Type::NonConfirmable, code, id, &pending.token, body);
        let fingerprint = Keyed::fingerprint(layers.transport.peers.hash(&pending.from), 0, id.0);
        layers.transport.rejectable.sent(fingerprint, pending.token.clone());
        layers.transport.outbox.push_back(Departure::Message { to, datagram });
    }

    pub(super) fn answered(&mut self, layers: &mut Layers<P, C>, pending: &PendingRequest<P>) {
        if pending.is_to_group() {
            self.delayed_responses.give_back(pending.group);
        }
        self.pending_requests.give_back(pending.group, &pending.token);
        if let Some(peer) = pending.peer.map(Compact::get) {
            layers.transport.peers.let_go(layers.now, peer);
        }
    }

    /// Returns `true` according to No-Response (RFC 7967), or if the response is useless to a group
    /// request.
    pub(super) fn is_unwanted(pending: &PendingRequest<P>, response: &Response) -> bool {
        match pending.kind {
            RequestKind::ToGroup(ResponseFilter::Default) if response.even_to_group => false,
            RequestKind::ToGroup(ResponseFilter::Default) => {
                !response.code.is_success() || response.body.payload().is_empty()
            }
            _ => pending.rules.unwanted().suppresses(response.code),
        }
    }

    fn respond_at_leisure(&mut self, layers: &mut Layers<P, C>, pending: PendingRequest<P>, response: Response) {
        let by_default = layers.transport.config.transmission.default_leisure;
        let leisure = layers.transport.config.multicast.and_then(|multicast| multicast.leisure).unwrap_or(by_default);
        self.delayed_responses.push(layers.now, leisure, &mut layers.transport.random, pending, response);
    }

    /// Sends the next due response to a group request, as a Non-confirmable message, unless no
    /// message ID is free. Returns `false` if none is due.
    pub(super) fn leisure_over(&mut self, layers: &mut Layers<P, C>) -> bool {
        let due = self.delayed_responses.created().and_then(|leisure| leisure.pop_due(layers.now));
        let Some(DelayedResponse { pending, code, body, .. }) = due else { return false };
        match pending.peer.map(|peer| layers.transport.message_id(layers.now, peer.get())) {
            Some(Ok(id)) => self.send_rejectable(layers, &pending, id, code, &body),
            _ => layers.transport.stats.responses_expired += 1,
        }
        self.answered(layers, &pending);
        true
    }

    /// Refuses a request without remembering it. A Non-confirmable request with a bad option is
    /// rejected silently (RFC 7252 §5.4.1), and one without room is treated as lost.
    pub(super) fn refuse(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        code: Code,
        diagnostic: &str,
    ) {
        let ReceivedRequest { arrival, message } = received;
        if NoResponse::of(message).suppresses(code) {
            if message.ty() == Type::Confirmable {
                match arrival.security.is_plain() {
                    true => layers.transport.push_empty(arrival.source, Type::Acknowledgement, message.id()),
                    false => layers.transport.acknowledge_empty(
                        layers.now,
                        arrival.source,
                        arrival.fingerprint,
                        message.id(),
                    ),
                }
            }
            return;
        }
        if message.ty() == Type::NonConfirmable && matches!(code, Code::BAD_OPTION | Code::SERVICE_UNAVAILABLE) {
            return;
        }
        let body = match code {
            Code::SERVICE_UNAVAILABLE => layers.transport.config.try_later(),
            _ => self.explanation(layers, received, code, diagnostic),
        };
        self.answer_at_once(layers, received, code, &body);
    }

    /// Refuses a request, and remembers it if it is Confirmable: a duplicate must get the same
    /// answer (RFC 7252 §4.5) although the reason is gone.
    pub(super) fn refuse_with_copies(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        code: Code,
        diagnostic: &str,
    ) {
        let message = received.message;
        if message.ty() != Type::Confirmable || NoResponse::of(message).suppresses(code) {
            return self.refuse(layers, received, code, diagnostic);
        }
        let body = self.explanation(layers, received, code, diagnostic);
        let (code, body) = self.as_it_may_leave(layers, received, code, &body);
        self.answer_remembered(layers, received, code, &body);
    }

    /// Returns the answer, or a smaller one that allowance and message size permit.
    fn as_it_may_leave(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        code: Code,
        body: &Body,
    ) -> (Code, Body) {
        let ReceivedRequest { arrival, message } = received;
        let (code, body) = self.within_allowance(layers, received.room(), code, body);
        // The longest tokens leave no room for a body.
        let overhead = Overhead::of_response_to(message).with(arrival.security.response_bytes());
        let fits = overhead.fits(&body, layers.transport.config.limits.message_bytes);
        (code, if fits { body } else { Body::EMPTY })
    }

    /// Answers a request without remembering it.
    pub(super) fn answer_at_once(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        code: Code,
        body: &Body,
    ) {
        let ReceivedRequest { arrival, message } = received;
        let fits = allows(arrival.allowance, Overhead::of_response_to(message).message(body));
        if !fits && code.is_success() && self.hold_request(layers, received) {
            return;
        }
        let (code, body) = self.as_it_may_leave(layers, received, code, body);
        if arrival.security.is_plain() {
            return self.send_at_once(layers, received, code, &body);
        }
        // A duplicate would be a replay: it must be recognised before it is unprotected.
        if message.ty() == Type::Confirmable {
            return self.answer_remembered(layers, received, code, &body);
        }
        layers.transport.remember_silence(layers.now, arrival.fingerprint);
        let (code, body) = layers.protect(&arrival.security, Overhead::of_response_to(message), code, &body);
        self.send_at_once(layers, received, code, &body);
    }

    /// Answers a request, and its duplicates without processing them.
    pub(super) fn answer_remembered(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        code: Code,
        body: &Body,
    ) {
        let ReceivedRequest { arrival, message } = received;
        if message.ty() != Type::Confirmable {
            // If it cannot be remembered, a duplicate brings nothing new.
            if arrival.security.is_plain() {
                layers.transport.remember_silence(layers.now, arrival.fingerprint);
            }
            return self.answer_at_once(layers, received, code, body);
        }
        let (id, token) = (message.id(), message.token());
        let (code, body) = layers.protect(&arrival.security, Overhead::of(&token), code, body);
        let datagram = encoded(Type::Acknowledgement, code, id, &token, &body);
        let entry = Received { fingerprint: arrival.fingerprint, confirmable: true, idempotent: Ok(()) };
        match layers.transport.remember(layers.now, entry, Reply::Datagram(datagram)) {
            Some(remembered) => {
                layers.transport.outbox.push_back(Departure::Remembered { to: arrival.source, id, remembered })
            }
            None => self.send_at_once(layers, received, code, &body),
        }
    }

    fn send_at_once(&mut self, layers: &mut Layers<P, C>, received: ReceivedRequest<'_, P>, code: Code, body: &Body) {
        let ReceivedRequest { arrival, message } = received;
        let &Arrival { source: to, group, .. } = arrival;
        let (ty, id) = if message.ty() == Type::Confirmable {
            (Type::Acknowledgement, message.id())
        } else {
            let Ok(peer) = self.open_peer(layers, to.from, group) else { return };
            layers.transport.peers.touch(layers.now, peer);
            let Ok(id) = layers.transport.message_id(layers.now, peer) else { return };
            (Type::NonConfirmable, id)
        };
        let datagram = encoded(ty, code, id, &message.token(), body);
        layers.transport.outbox.push_back(Departure::Message { to, datagram });
    }

    /// Returns a diagnostic payload (RFC 7252 §5.5.2), truncated to the maximum message size.
    fn explanation(
        &self,
        layers: &Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        code: Code,
        diagnostic: &str,
    ) -> Body {
        let (message, security) = (received.message, &received.arrival.security);
        let limits = &layers.transport.config.limits;
        let mut body = Body::builder();
        if code == Code::REQUEST_ENTITY_TOO_LARGE {
            let hint = self.smaller_block(layers, message, security);
            // Block1 shows that the body would be accepted in blocks (RFC 7959 §2.9.3).
            if let Some(block) = hint {
                body = body.option(OptionNumber::BLOCK1, block.encode().as_slice());
            }
            let by_message = hint.is_none() && message.as_bytes().len() > limits.message_bytes;
            let largest = if by_message { limits.message_bytes } else { limits.body_bytes };
            body = body.uint(OptionNumber::SIZE1, u32::try_from(largest).unwrap_or(u32::MAX));
        }
        let added = BLOCK_BYTES + SIZE_BYTES + MARKER_BYTES + security.response_bytes();
        let room = Overhead::of_response_to(message).with(added).room(limits.message_bytes).unwrap_or_default();
        let text = &diagnostic[..diagnostic.floor_char_boundary(room)];
        body.payload(String::from(text)).build().unwrap_or_default()
    }
}
