//! Answers of the endpoint itself: Resets, errors, and 5.03 with Max-Age.

use alloc::string::String;

use crate::PeerKey;
use crate::codec::{
    BLOCK_BYTES, Body, Code, MARKER_BYTES, Message, NoResponse, OptionNumber, Overhead, SIZE_BYTES, Type,
};
use crate::layers::Layers;
use crate::message::{Received, Reply};
use crate::security::Security;
use crate::server::Server;
use crate::server::receive::Arrival;
use crate::transport::{Departure, allows, encoded};
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Refuses a request without remembering it; a duplicate will get the same answer. A
    /// Non-confirmable request with a bad option is rejected silently (RFC 7252 §5.4.1), and one
    /// without room is treated as lost.
    pub(crate) fn refuse(
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
    pub(crate) fn refuse_with_copies(
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
    pub(crate) fn as_it_may_leave(
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
    pub(crate) fn answer_at_once(
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
    pub(crate) fn answer_remembered(
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
    pub(crate) fn send_at_once(
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
    pub(crate) fn explanation(
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
}
