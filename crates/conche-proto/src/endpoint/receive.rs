//! The way in: what a datagram is, and what it means.

use alloc::format;
use alloc::vec;

use super::transmit::{Departure, encode};
use super::{Endpoint, Event, Failure, RequestId, TimerKey};
use crate::PeerKey;
use crate::codec::{Body, Code, Message, OptionNumber, OwnedMessage, Token, Type};
use crate::exchange::{Purpose, State};
use crate::message::{Received, Reply};
use conche_cc::control::{AckKind, Why};
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// A datagram arrived (RFC 7252 §4.2, §4.3): each type and code class goes its way, and what has none is rejected
    /// with a Reset if it is Confirmable, and ignored otherwise.
    pub(super) fn receive(&mut self, now: Instant, from: P, bytes: &[u8]) {
        self.stats.datagrams_received += 1;
        self.stats.bytes_received += bytes.len() as u64;
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => {
                self.stats.malformed += 1;
                if let Some(header) = error.header.filter(|header| header.ty == Type::Confirmable) {
                    self.outbox.push_back(Departure::Empty {
                        to: from,
                        local: self.local,
                        ty: Type::Reset,
                        id: header.id,
                    });
                }
                return;
            }
        };
        let peer = self.peers.find(&from);
        if let Some(peer) = peer {
            self.peers.get_mut(peer).heard();
        }
        let code = message.code();
        match message.ty() {
            Type::Confirmable | Type::NonConfirmable if code.is_request() => self.receive_request(now, from, &message),
            Type::Confirmable | Type::NonConfirmable if code.is_response() => {
                self.receive_separate_response(now, from, peer, &message);
            }
            Type::Confirmable | Type::NonConfirmable => self.reject(from, &message),
            Type::Acknowledgement if code.is_empty() => self.receive_empty_ack(now, peer, &message),
            Type::Acknowledgement if code.is_response() => self.receive_piggybacked_response(now, peer, &message),
            Type::Reset if code.is_empty() => self.receive_reset(now, peer, &message),
            Type::Acknowledgement | Type::Reset => {}
        }
        // The controller is asked again after every event of the peer.
        if let Some(peer) = peer.filter(|&peer| !self.peers.get(peer).queue.is_empty()) {
            self.admit_waiting(now, peer);
        }
    }

    /// Our datagram could not be delivered. A quoted message must be one that is outstanding (RFC 7252 §4.2), or
    /// somebody is forging errors.
    pub(super) fn unreachable(&mut self, now: Instant, peer: P, quoted: Option<&[u8]>) {
        let Some(peer) = self.peers.find(&peer) else { return };
        let failed: smallvec::SmallVec<[u32; 2]> = match quoted {
            None => {
                let waits = |&&index: &&u32| self.exchanges[index as usize].state == State::AwaitingAck;
                self.peers.get(peer).exchanges.iter().filter(waits).copied().collect()
            }
            Some(quoted) => self.quoted_exchange(peer, quoted).into_iter().collect(),
        };
        for index in failed {
            self.abandon(now, index, Why::Unreachable);
            self.fail(now, index, Failure::Unreachable);
        }
    }

    /// The outstanding exchange whose message starts like `quoted`: type, code, message ID and token.
    fn quoted_exchange(&self, peer: u32, quoted: &[u8]) -> Option<u32> {
        let (header, rest) = quoted.split_first_chunk::<4>()?;
        let id = crate::codec::MessageId(u16::from_be_bytes([header[2], header[3]]));
        let &index = self.by_id.get(&(peer, id))?;
        let exchange = &self.exchanges[index as usize];
        let token = exchange.token.as_slice();
        let mut expected = [0; 12];
        let length = encode(&mut expected, exchange.message_type(), exchange.code, id, &exchange.token, &Body::EMPTY);
        let same = expected[..4] == header[..] && length == 4 + token.len() && rest.starts_with(token);
        (same && exchange.state == State::AwaitingAck).then_some(index)
    }

    /// A message without context or of a reserved class; a ping is answered in the same way.
    fn reject(&mut self, from: P, message: &Message<'_>) {
        if message.ty() == Type::Confirmable {
            self.outbox.push_back(Departure::Empty { to: from, local: self.local, ty: Type::Reset, id: message.id() });
        }
    }

    fn receive_request(&mut self, now: Instant, from: P, message: &Message<'_>) {
        if self.limiter.as_mut().is_some_and(|limiter| !limiter.admits(now, &from)) {
            self.stats.limited += 1;
            return;
        }
        let confirmable = message.ty() == Type::Confirmable;
        if let Some((index, generation)) = self.received.find(now, from, self.local, message.id()) {
            return self.receive_copy(from, message, index, generation);
        }
        if let Some((code, diagnostic)) = self.refusal(message) {
            return self.refuse(now, from, message, code, &diagnostic);
        }
        let received = Received {
            from,
            local: self.local,
            id: message.id(),
            confirmable,
            idempotent: message.code().is_idempotent(),
        };
        let pending = Reply::Pending { token: message.token(), confirmable, acknowledged: false };
        let Ok((index, generation)) = self.received.insert(now, received, pending) else {
            self.stats.overloaded += 1;
            return self.answer_statelessly(
                now,
                from,
                message,
                Code::SERVICE_UNAVAILABLE,
                "too many requests to remember",
            );
        };
        if confirmable {
            self.timers.set(TimerKey::Request(index), now + self.config.separate_after);
        }
        self.stats.requests_received += 1;
        let id = RequestId { index, generation };
        self.events.push_back(Event::Request { id, from, message: OwnedMessage::from(*message) });
    }

    /// A message ID that is remembered came again (RFC 7252 §4.5).
    fn receive_copy(&mut self, from: P, message: &Message<'_>, index: u32, generation: u32) {
        self.stats.duplicates += 1;
        match self.received.get(index, generation) {
            // A Confirmable message is no copy of a Non-confirmable one: its sender reused the ID, and has to learn it.
            Some((_, _, Reply::Silence | Reply::Pending { confirmable: false, .. })) => self.reject(from, message),
            _ if message.ty() == Type::Confirmable => self.push_remembered(index, generation),
            _ => {}
        }
    }

    /// The error that the endpoint itself answers a request with.
    fn refusal(&self, message: &Message<'_>) -> Option<(Code, alloc::string::String)> {
        if message.as_bytes().len() > self.config.limits.message_bytes {
            let limit = self.config.limits.message_bytes;
            return Some((Code::REQUEST_ENTITY_TOO_LARGE, format!("messages of up to {limit} bytes are accepted")));
        }
        if let Some(option) = message.unacceptable_option(&self.config.known_options) {
            return Some((Code::BAD_OPTION, format!("critical option {} is unknown or malformed", option.0)));
        }
        [OptionNumber::PROXY_URI, OptionNumber::PROXY_SCHEME]
            .iter()
            .any(|&option| message.option(option).is_some())
            .then(|| (Code::PROXYING_NOT_SUPPORTED, "this is no proxy".into()))
    }

    /// Refuses a request. One that came as Non-confirmable with a bad option is rejected silently (RFC 7252 §5.4.1).
    fn refuse(&mut self, now: Instant, from: P, message: &Message<'_>, code: Code, diagnostic: &str) {
        if message.ty() == Type::Confirmable || code != Code::BAD_OPTION {
            self.answer_statelessly(now, from, message, code, diagnostic);
        }
    }

    /// Answers a request without remembering it; a duplicate will get the same answer.
    fn answer_statelessly(&mut self, now: Instant, from: P, message: &Message<'_>, code: Code, diagnostic: &str) {
        let mut body = Body::builder();
        if code == Code::REQUEST_ENTITY_TOO_LARGE {
            body = body.uint(OptionNumber::SIZE1, u32::try_from(self.config.limits.message_bytes).unwrap_or(u32::MAX));
        }
        let body = body.payload(diagnostic).build().unwrap_or_default();
        let (ty, id) = if message.ty() == Type::Confirmable {
            (Type::Acknowledgement, message.id())
        } else {
            let Ok(peer) = self.open_peer(now, from) else { return };
            let Ok(id) = self.peers.get_mut(peer).ids.allocate(now, self.derived.exchange_lifetime) else { return };
            (Type::NonConfirmable, id)
        };
        let token = message.token();
        let mut datagram = vec![0; 4 + usize::from(token.len()) + body.len()].into_boxed_slice();
        encode(&mut datagram, ty, code, id, &token, &body);
        self.outbox.push_back(Departure::Message { to: from, local: self.local, datagram });
    }

    fn receive_separate_response(&mut self, now: Instant, from: P, peer: Option<u32>, message: &Message<'_>) {
        let confirmable = message.ty() == Type::Confirmable;
        if confirmable && let Some((index, generation)) = self.received.find(now, from, self.local, message.id()) {
            return self.receive_copy(from, message, index, generation);
        }
        let Some(index) = peer.and_then(|peer| self.request_with_token(peer, message.token())) else {
            self.stats.unmatched += 1;
            return self.reject(from, message);
        };
        if message.unacceptable_option(&self.config.known_options).is_some() {
            self.reject(from, message);
            if confirmable {
                self.acknowledge_exchange(now, index, AckKind::Separate);
                self.fail(now, index, Failure::UnacceptableResponse);
            }
            return;
        }
        if confirmable {
            let received = Received { from, local: self.local, id: message.id(), confirmable, idempotent: true };
            // If it cannot be remembered, a duplicate will be rejected, which also ends the peer's retransmissions.
            let _ = self.received.insert(now, received, Reply::EmptyAck);
            self.outbox.push_back(Departure::Empty {
                to: from,
                local: self.local,
                ty: Type::Acknowledgement,
                id: message.id(),
            });
        }
        self.deliver(now, index, AckKind::Separate, OwnedMessage::from(*message));
    }

    /// The request with this token, if it has left: nobody can answer one that has not.
    fn request_with_token(&self, peer: u32, token: Token) -> Option<u32> {
        let &index = self.by_token.get(&(peer, token))?;
        (!self.exchanges[index as usize].sent.is_empty()).then_some(index)
    }

    /// The exchange with this message ID, if it has left.
    fn exchange_with_id(&mut self, peer: Option<u32>, message: &Message<'_>) -> Option<u32> {
        let found = peer
            .and_then(|peer| self.by_id.get(&(peer, message.id())).copied())
            .filter(|&index| !self.exchanges[index as usize].sent.is_empty());
        if found.is_none() {
            self.stats.unmatched += 1;
            if let Some(peer) = peer.filter(|_| message.ty() == Type::Acknowledgement) {
                self.peers.get_mut(peer).mismatched_ack(message.id());
            }
        }
        found
    }

    fn receive_piggybacked_response(&mut self, now: Instant, peer: Option<u32>, message: &Message<'_>) {
        let Some(index) = self.exchange_with_id(peer, message) else { return };
        let exchange = &self.exchanges[index as usize];
        let purpose = exchange.purpose;
        if !exchange.confirmable || (purpose == Purpose::Request && exchange.token != message.token()) {
            self.stats.unmatched += 1;
            return;
        }
        match purpose {
            // Any matching ACK ends the retransmission of a separate response, whatever it carries (RFC 7252 §5.2.2).
            Purpose::Response | Purpose::Ping => {
                self.acknowledge_exchange(now, index, AckKind::Empty);
                self.complete(now, index);
            }
            Purpose::Request if message.unacceptable_option(&self.config.known_options).is_some() => {
                self.acknowledge_exchange(now, index, AckKind::Piggybacked);
                self.fail(now, index, Failure::UnacceptableResponse);
            }
            Purpose::Request => self.deliver(now, index, AckKind::Piggybacked, OwnedMessage::from(*message)),
        }
    }

    fn receive_empty_ack(&mut self, now: Instant, peer: Option<u32>, message: &Message<'_>) {
        let Some(index) = self.exchange_with_id(peer, message) else { return };
        let exchange = &self.exchanges[index as usize];
        let trusted = self.peers.get(exchange.peer).trusts_empty_acks();
        match exchange.purpose {
            _ if !exchange.awaits_ack() => {}
            Purpose::Response | Purpose::Ping => {
                self.acknowledge_exchange(now, index, AckKind::Empty);
                self.complete(now, index);
            }
            Purpose::Request if trusted => {
                self.acknowledge_exchange(now, index, AckKind::Empty);
                self.push_acknowledged(now, index);
                let exchange = &mut self.exchanges[index as usize];
                exchange.state = State::AwaitingResponse;
                exchange.state_until = now + self.derived.response_timeout;
                let wake = exchange.wake();
                self.timers.set(TimerKey::Exchange(index), wake);
            }
            Purpose::Request => {}
        }
    }

    fn receive_reset(&mut self, now: Instant, peer: Option<u32>, message: &Message<'_>) {
        let Some(index) = self.exchange_with_id(peer, message) else { return };
        self.abandon(now, index, Why::Reset);
        if self.exchanges[index as usize].purpose == Purpose::Ping {
            self.exchanges[index as usize].acknowledged = Some(now);
            self.complete(now, index);
        } else {
            self.fail(now, index, Failure::Reset);
        }
    }
}
