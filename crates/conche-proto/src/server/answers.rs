//! Answers of the endpoint itself (errors, 5.03 with Max-Age), and what a source may receive before
//! it has proved its address.

use alloc::boxed::Box;
use alloc::string::String;
use core::num::NonZeroU16;

use rand_core::RngCore;

use crate::PeerKey;
use crate::blockwise::Asked;
use crate::codec::{
    BLOCK_BYTES, Body, Code, MARKER_BYTES, Message, MessageId, NoResponse, OptionNumber, Overhead, OwnedMessage,
    SIZE_BYTES, Type, encode_empty,
};
use crate::config::SourceValidation;
use crate::exchange::{Reliability, Response};
use crate::hash::Fingerprint;
use crate::incoming::{Came, Waiting};
use crate::layers::Layers;
use crate::message::{GROUP_IDS, Received, Reply};
use crate::observe::REGISTER;
use crate::security::Security;
use crate::server::Server;
use crate::server::receive::Arrival;
use crate::server::validation::pings::{Due, Held, Origin, Pinged};
use crate::server::validation::{LIFETIME, Validation};
use crate::transport::{Departure, Source, allows, encoded};
use conche_cc::{Controller, Instant};

/// The answer to a datagram from a source that is not validated may have at most this many times its
/// bytes.
const FACTOR: usize = 3;

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Refuses a request without remembering it; a duplicate will get the same answer. A
    /// Non-confirmable request with a bad option is rejected silently (RFC 7252 §5.4.1), and one
    /// without room is treated as lost.
    pub(super) fn refuse(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        why: (Code, &str),
    ) {
        let (code, diagnostic) = why;
        if NoResponse::of(message).suppresses(code) {
            if message.ty() == Type::Confirmable {
                match arrival.security.is_plain() {
                    true => layers.transport.push_empty(arrival.source, Type::Acknowledgement, message.id()),
                    false => layers.transport.acknowledge_empty(now, arrival.source, arrival.what, message.id()),
                }
            }
            return;
        }
        if message.ty() == Type::NonConfirmable && matches!(code, Code::BAD_OPTION | Code::SERVICE_UNAVAILABLE) {
            return;
        }
        let body = match code {
            Code::SERVICE_UNAVAILABLE => layers.transport.config.try_later(),
            _ => self.explanation(layers, code, diagnostic, (message, &arrival.security)),
        };
        self.answer_at_once(layers, now, arrival, message, code, &body);
    }

    /// Refuses a request as [`refuse`](Self::refuse) does, but remembers a Confirmable one because
    /// the reason no longer exists for a duplicate, which must get the same answer (RFC 7252 §4.5).
    pub(super) fn refuse_with_copies(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        why: (Code, &str),
    ) {
        let (code, diagnostic) = why;
        if message.ty() != Type::Confirmable || NoResponse::of(message).suppresses(code) {
            return self.refuse(layers, now, arrival, message, why);
        }
        let body = self.explanation(layers, code, diagnostic, (message, &arrival.security));
        let (code, body) = self.as_it_may_leave(layers, now, arrival, message, (code, &body));
        self.answer_remembered(layers, now, arrival, message, code, &body);
    }

    /// Returns the answer to a request, or a smaller one that allowance and message size permit.
    fn as_it_may_leave(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        answer: (Code, &Body),
    ) -> (Code, Body) {
        let (code, body) = self.within_allowance(
            layers,
            now,
            &arrival.source.from,
            arrival.allowance,
            Overhead::of_response_to(message),
            answer,
        );
        // The longest tokens leave no room for a body.
        let overhead = Overhead::of_response_to(message).with(arrival.security.response_bytes());
        let fits = overhead.fits(&body, layers.transport.config.limits.message_bytes);
        (code, if fits { body } else { Body::EMPTY })
    }

    /// Answers a request without the application, and without remembering it.
    pub(super) fn answer_at_once(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        code: Code,
        body: &Body,
    ) {
        let fits = allows(arrival.allowance, Overhead::of_response_to(message).message(body));
        if !fits && code.is_success() && self.hold_request(layers, now, arrival, message) {
            return;
        }
        let (code, body) = self.as_it_may_leave(layers, now, arrival, message, (code, body));
        if arrival.security.is_plain() {
            return self.send_at_once(layers, now, arrival, message, code, &body);
        }
        // A duplicate would be a replay, so it must be recognised before it is unprotected.
        if message.ty() == Type::Confirmable {
            return self.answer_remembered(layers, now, arrival, message, code, &body);
        }
        layers.transport.remember_silence(now, arrival.what);
        let (code, body) = layers.protect(&arrival.security, Overhead::of_response_to(message), (code, &body));
        self.send_at_once(layers, now, arrival, message, code, &body);
    }

    /// Answers a request at once, and its duplicates in the same way without processing them.
    pub(super) fn answer_remembered(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        code: Code,
        body: &Body,
    ) {
        if message.ty() != Type::Confirmable {
            // If it cannot be remembered, a duplicate brings nothing new.
            if arrival.security.is_plain() {
                layers.transport.remember_silence(now, arrival.what);
            }
            return self.answer_at_once(layers, now, arrival, message, code, body);
        }
        let (id, token) = (message.id(), message.token());
        let (code, body) = layers.protect(&arrival.security, Overhead::of(&token), (code, body));
        let datagram = encoded(Type::Acknowledgement, code, id, &token, &body);
        let received = Received { what: arrival.what, confirmable: true, idempotent: Ok(()) };
        match layers.transport.remember(now, received, Reply::Datagram(datagram)) {
            Some(remembered) => {
                layers.transport.outbox.push_back(Departure::Remembered { to: arrival.source, id, remembered })
            }
            None => self.send_at_once(layers, now, arrival, message, code, &body),
        }
    }

    /// Sends an answer that is already protected.
    fn send_at_once(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        code: Code,
        body: &Body,
    ) {
        let &Arrival { source: to, group, .. } = arrival;
        let (ty, id) = if message.ty() == Type::Confirmable {
            (Type::Acknowledgement, message.id())
        } else {
            let Ok(peer) = self.open_peer(layers, now, to.from, group) else { return };
            layers.transport.peers.touch(now, peer);
            let Ok(id) = layers.transport.message_id(now, peer) else { return };
            (Type::NonConfirmable, id)
        };
        let datagram = encoded(ty, code, id, &message.token(), body);
        layers.transport.outbox.push_back(Departure::Message { to, datagram });
    }

    /// Returns a body with a diagnostic payload (RFC 7252 §5.5.2), truncated to the maximum message
    /// size.
    fn explanation(
        &self,
        layers: &Layers<P, C>,
        code: Code,
        diagnostic: &str,
        (message, security): (&Message<'_>, &Security),
    ) -> Body {
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

    /// Returns the number of bytes that may answer this message; `None` without a limit.
    #[inline]
    pub(crate) fn allowance(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        source: &Source<P>,
        hash: u64,
        message: &Message<'_>,
    ) -> Option<NonZeroU16> {
        if layers.transport.config.source_validation == SourceValidation::Off {
            return None;
        }
        // No source can be validated before the first one was asked for a proof.
        if let Some(validation) = &mut self.validation {
            if validation.validated.contains(now, hash) {
                return None;
            }
            if let Some(echo) = message.option(OptionNumber::ECHO)
                && let Some(age) = validation.age(now, &source.from, echo)
            {
                self.validate(layers, now, hash, now + LIFETIME.saturating_sub(age));
                return None;
            }
        }
        let bytes = u16::try_from(message.as_bytes().len().saturating_mul(FACTOR)).unwrap_or(u16::MAX);
        Some(NonZeroU16::new(bytes).unwrap_or(NonZeroU16::MIN))
    }

    /// Holds a request or answers it with 4.01 if its source must be validated first, because
    /// notifications or a burst of payloads would follow, or because repeating the request with an
    /// Echo value would repeat its effect. Returns whether it did.
    pub(super) fn challenges(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        asked: &Asked,
    ) -> bool {
        if arrival.allowance.is_none() {
            return false;
        }
        let follows = message.uint(OptionNumber::OBSERVE) == Some(REGISTER) || asked.is_in_sets();
        // After a ping the client repeats nothing. A client that sends a POST and sleeps would not
        // answer one.
        let repeats =
            layers.transport.config.source_validation == SourceValidation::Echo && !message.code().is_idempotent();
        if follows || repeats {
            self.hold_or_challenge(layers, now, arrival, message);
        }
        follows || repeats
    }

    /// Holds a request until its source is validated. If that is impossible, answers it with 4.01.
    pub(super) fn hold_or_challenge(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
    ) {
        if !self.hold_request(layers, now, arrival, message) {
            self.challenge_at_once(layers, now, arrival, message);
        }
    }

    /// Answers a request with 4.01 and an Echo value.
    fn challenge_at_once(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
    ) {
        let body =
            self.challenge(layers, now, &arrival.source.from, arrival.allowance, Overhead::of_response_to(message));
        self.answer_at_once(layers, now, arrival, message, Code::UNAUTHORIZED, &body);
    }

    /// Holds a request until its source is validated. Returns `false` if that is impossible.
    fn hold_request(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
    ) -> bool {
        let &Arrival { source, hash, group, what, .. } = arrival;
        let origin = Origin { source, hash, group, host: layers.transport.host_of(&source.from), what };
        let held = Held::Request(Box::new((arrival.clone(), OwnedMessage::from(*message))));
        self.hold(layers, now, &origin, held).is_ok()
    }

    /// Holds a message, and sends its source a ping unless one is unanswered.
    pub(super) fn hold(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        origin: &Origin<P>,
        held: Held<P>,
    ) -> Result<(), Held<P>> {
        if layers.transport.config.source_validation != SourceValidation::Ping {
            return Err(held);
        }
        while !self.validation_made(layers).pings.has_room(origin.group, &held) {
            let Some(overdue) = self.validation_made(layers).pings.make_room(now, origin.group) else {
                return Err(held);
            };
            self.give_up(layers, now, overdue);
        }
        let id = self.ping_id(layers);
        if let Some(id) = self.validation_made(layers).pings.hold(now, origin, id, held)? {
            self.ping_source(layers, origin.source, id);
        }
        Ok(())
    }

    fn ping_source(&mut self, layers: &mut Layers<P, C>, to: Source<P>, id: MessageId) {
        layers.transport.stats.validation_pings += 1;
        layers.transport.push_empty(to, Type::Confirmable, id);
    }

    /// Returns an unpredictable message ID outside the range for group requests.
    fn ping_id(&mut self, layers: &mut Layers<P, C>) -> MessageId {
        let id = layers.transport.random.next_u32() % u32::from(*GROUP_IDS.start());
        MessageId(u16::try_from(id).unwrap_or_default())
    }

    fn validation_made(&mut self, layers: &mut Layers<P, C>) -> &mut Validation<P> {
        let (random, ack_timeout) = (&mut layers.transport.random, layers.transport.config.transmission.ack_timeout);
        self.validation.get_or_insert_with(|| Box::new(Validation::new(random, ack_timeout)))
    }

    /// Returns whether a request is a retransmission of a held one, or of one with a held response.
    #[inline]
    pub(super) fn is_held(
        &mut self,
        layers: &mut Layers<P, C>,
        hash: u64,
        what: Fingerprint,
        allowance: Option<NonZeroU16>,
    ) -> bool {
        let Some(validation) = self.validation.as_mut().filter(|validation| !validation.pings.is_empty()) else {
            return false;
        };
        let held = allowance.is_some_and(|allowance| validation.pings.is_held(hash, what, allowance));
        layers.transport.stats.duplicates += u64::from(held);
        held
    }

    /// Handles an Empty ACK or a Reset. Returns whether it answers a ping, which validates the
    /// source.
    #[inline]
    pub(crate) fn validates(&mut self, layers: &mut Layers<P, C>, now: Instant, from: &P, id: MessageId) -> bool {
        if self.validation.as_ref().is_none_or(|validation| validation.pings.is_empty()) {
            return false;
        }
        let hash = layers.transport.peers.hash(from);
        let is_answer = self.validation_made(layers).pings.is_answered(now, hash, id);
        if is_answer {
            self.validate(layers, now, hash, now + LIFETIME);
        }
        is_answer
    }

    /// Marks a source as validated until then, and continues with its held messages.
    fn validate(&mut self, layers: &mut Layers<P, C>, now: Instant, hash: u64, until: Instant) {
        let validation = self.validation_made(layers);
        validation.validated.insert(now, hash, until);
        let held = validation.pings.take(hash).into_iter().flat_map(Pinged::into_held);
        for held in held {
            match held {
                Held::Request(request) => {
                    let (arrival, message) = *request;
                    self.receive_arrived(layers, now, &Arrival { allowance: None, ..arrival }, &message.view());
                }
                Held::Response(response) => {
                    let (waiting, security, response) = *response;
                    let waiting = Waiting { allowance: None, ..waiting };
                    self.send_response(layers, now, (&waiting, &security), None, response);
                }
            }
        }
    }

    /// Validates a peer that acknowledged a Confirmable response or notification.
    pub(crate) fn acknowledged_by(&mut self, layers: &mut Layers<P, C>, now: Instant, peer: u32) {
        if layers.transport.config.source_validation == SourceValidation::Off {
            return;
        }
        let peers = &mut layers.transport.peers;
        let state = peers.get_mut(peer);
        if state.trust.is_given(now) {
            let key = state.key;
            let hash = peers.hash(&key);
            self.validate(layers, now, hash, now + LIFETIME);
        }
    }

    /// Drops the messages held for a source that its ping did not reach.
    pub(crate) fn ping_unreachable(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        peer: &P,
        quoted: Option<&[u8]>,
    ) {
        let Some(validation) = self.validation.as_mut().filter(|validation| !validation.pings.is_empty()) else {
            return;
        };
        let id = quoted.map(|quoted| match *quoted {
            [_, _, high, low, ..] => MessageId(u16::from_be_bytes([high, low])),
            _ => MessageId(u16::MAX),
        });
        if id.is_some_and(|id| !quoted.is_some_and(|quoted| quoted.starts_with(&encode_empty(Type::Confirmable, id)))) {
            return;
        }
        let hash = layers.transport.peers.hash(peer);
        if id.is_some_and(|id| !validation.pings.has_id(hash, id)) {
            return;
        }
        let Some(pinged) = validation.pings.take(hash) else { return };
        for held in pinged.into_held() {
            if let Held::Response(response) = held {
                self.answered(layers, now, &response.0);
            }
        }
    }

    /// Sends another ping to a source, or gives the source up. Returns `false` if nothing is due.
    pub(super) fn ping_due(&mut self, layers: &mut Layers<P, C>, now: Instant) -> bool {
        let due = self.validation.as_mut().and_then(|validation| validation.pings.pop_due(now));
        match due {
            None => return false,
            Some(Due::Wait) => {}
            Some(Due::Ping(to, id)) => self.ping_source(layers, to, id),
            Some(Due::Over(pinged)) => self.give_up(layers, now, pinged),
        }
        true
    }

    /// Answers held messages of a source that did not answer its ping, or makes room, within the
    /// allowance: with the first block of 16 bytes, which leads a client without Echo to the body,
    /// or else with 4.01.
    fn give_up(&mut self, layers: &mut Layers<P, C>, now: Instant, pinged: Pinged<P>) {
        let mut credit = pinged.credit();
        for held in pinged.into_held() {
            match held {
                Held::Request(request) => self.challenge_at_once(layers, now, &request.0, &request.1.view()),
                Held::Response(response) => {
                    let (waiting, security, response) = *response;
                    let block =
                        security.is_plain().then(|| self.smallest_first_block(layers, now, &waiting, &response));
                    let bytes = |block: &Response| Overhead::of(&waiting.token).message(&block.body);
                    let allowance = waiting.allowance.map_or(0, |allowance| usize::from(allowance.get()));
                    let response = match block.flatten().filter(|block| bytes(block) <= allowance + credit) {
                        Some(block) => {
                            credit -= bytes(&block).saturating_sub(allowance);
                            Response { reliability: Some(Reliability::NeverConfirmable), ..block }
                        }
                        None => self.in_place_of(layers, now, &waiting, &response),
                    };
                    self.send_now(layers, now, (&waiting, &security), None, response);
                }
            }
        }
    }

    /// Returns an answer that fits into the allowance: the answer itself, 4.01 in place of a
    /// success, or only the code of an error.
    fn within_allowance(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        from: &P,
        allowance: Option<NonZeroU16>,
        overhead: Overhead,
        (code, body): (Code, &Body),
    ) -> (Code, Body) {
        if allows(allowance, overhead.message(body)) {
            (code, body.clone())
        } else if code.is_success() {
            (Code::UNAUTHORIZED, self.challenge(layers, now, from, allowance, overhead))
        } else {
            (code, Body::EMPTY)
        }
    }

    /// Holds a response that needs a proof of its source's address, or returns what is sent in its
    /// place.
    pub(super) fn hold_response(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        waiting: &Waiting<P>,
        security: &Security,
        response: Response,
    ) -> Option<Response> {
        let hash = layers.transport.peers.hash(&waiting.from);
        let source = Source { from: waiting.from, local: waiting.local };
        let ty = u8::from(waiting.came == Came::Confirmable);
        let what = layers.transport.fingerprint_of(source, hash, (ty, waiting.id, waiting.token.as_slice()));
        let origin = Origin { source, hash, group: waiting.group, host: layers.transport.host_of(&source.from), what };
        let held = Held::Response(Box::new((waiting.clone(), security.clone(), response)));
        match self.hold(layers, now, &origin, held) {
            Ok(()) => None,
            Err(Held::Response(response)) => Some(self.in_place_of(layers, now, waiting, &response.2)),
            Err(Held::Request(_)) => None,
        }
    }

    /// Returns a response that fits into the allowance: the response itself, 4.01, or only the code
    /// of the response if repeating the request would repeat its effect.
    fn in_place_of(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        waiting: &Waiting<P>,
        response: &Response,
    ) -> Response {
        let overhead = Overhead::of(&waiting.token);
        let repeatable =
            waiting.remembered.is_none_or(|remembered| layers.transport.received.is_idempotent(remembered));
        let answer = (response.code, &response.body);
        let (code, body) = match repeatable || allows(waiting.allowance, overhead.message(&response.body)) {
            true => self.within_allowance(layers, now, &waiting.from, waiting.allowance, overhead, answer),
            false => (response.code, Body::EMPTY),
        };
        Response { reliability: Some(Reliability::NeverConfirmable), ..Response::new(code, body) }
    }

    /// Returns a body with an Echo option, or an empty one if not even a brief value fits.
    pub(super) fn challenge(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        from: &P,
        allowance: Option<NonZeroU16>,
        overhead: Overhead,
    ) -> Body {
        layers.transport.stats.challenged += 1;
        let most = allowance.map_or(usize::MAX, |allowance| allowance.get().into());
        let room = overhead.room(most).unwrap_or_default();
        let echo = self.validation_made(layers).value(now, from, room);
        echo.and_then(|echo| Body::builder().option(OptionNumber::ECHO, &echo).build().ok()).unwrap_or_default()
    }
}
