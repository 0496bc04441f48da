//! Reception: decodes datagrams and dispatches messages by type and code class.

use core::num::NonZeroU16;

use super::bodies::Whole;
use super::discovery::Tried;
use super::options::Said;
use super::{Datagram, Endpoint, Event};
use crate::PeerKey;
use crate::blockwise::Full;
use crate::blockwise::sets::lists_missing_blocks;
use crate::codec::{Code, Message, OptionNumber, OwnedMessage, Token, Type};
use crate::config::SourceValidation;
use crate::exchange::{ExchangeId, Failure, Purpose};
use crate::hash::{Fingerprint, Keyed};
use crate::incoming::{Came, RequestId, ResponseRules, Waiting};
use crate::message::{Received, Remembered, Reply};
use crate::security::Security;
use crate::shares::Group;
use crate::store::Number;
use crate::transport::Source;
use conche_cc::control::{AbandonReason, AckKind};
use conche_cc::{Controller, Instant};

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct Arrival<P> {
    pub(super) source: Source<P>,
    /// Hash of the peer's key.
    pub(super) hash: u64,
    /// Key of the request in the deduplication table.
    pub(super) what: Fingerprint,
    /// Group charged for the request.
    pub(super) group: Group,
    /// Maximum size of the answer in bytes; `None` without limit.
    pub(super) allowance: Option<NonZeroU16>,
    pub(super) came: Came,
    /// Protection of the request, also for its answer.
    pub(super) security: Security,
}

/// Resources held by an accepted request.
pub(super) struct Taken {
    /// Peer state, if the response needs it.
    peer: Option<Number>,
    /// Deduplication entry.
    remembered: Option<Remembered>,
}

impl<P: PeerKey> Arrival<P> {
    /// Creates the table entry of the request.
    #[inline]
    pub(super) fn waiting(&self, message: &Message<'_>, said: &Said, taken: Taken) -> Waiting<P> {
        let Source { from, local } = self.source;
        Waiting {
            from,
            local,
            id: message.id(),
            token: message.token(),
            generation: 0,
            came: self.came,
            peer: taken.peer,
            remembered: taken.remembered,
            group: self.group,
            asked: said.asked,
            allowance: self.allowance,
            rules: ResponseRules::new(said.unwanted, said.keeping),
        }
    }
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Handles a datagram (RFC 7252 §4.2, §4.3): dispatches it by type and code class. A
    /// Confirmable message without meaning is rejected with a Reset, others are ignored.
    pub(super) fn receive(&mut self, now: Instant, datagram: &Datagram<'_, P>) {
        let &Datagram { from, bytes, validated, .. } = datagram;
        self.transport.stats.datagrams_received += 1;
        self.transport.stats.bytes_received += bytes.len() as u64;
        if datagram.multicast {
            return self.receive_by_group(now, datagram);
        }
        // Borrowed, because a copy would be as large as the result.
        let decoded = Message::read(bytes, self.transport.config.longest_echoed_token());
        let message = match &decoded {
            Ok(message) => message,
            Err(error) => {
                self.transport.stats.malformed += 1;
                if let Some(header) = error.header.filter(|header| header.ty == Type::Confirmable) {
                    self.transport.push_empty(Source { from, local: datagram.local }, Type::Reset, header.id);
                }
                return;
            }
        };
        let code = message.code();
        if message.ty() == Type::Acknowledgement {
            return self.receive_acknowledgement(now, &from, message);
        }
        let source = Source { from, local: datagram.local };
        let hash = self.transport.peers.hash(&from);
        let peer = self.transport.peers.find(&from, hash);
        if let Some(peer) = peer {
            self.transport.peers.get_mut(peer).heard();
        }
        match message.ty() {
            Type::Confirmable | Type::NonConfirmable if code.is_request() => {
                self.receive_request(now, (source, validated), (hash, peer), message)
            }
            Type::Confirmable | Type::NonConfirmable if code.is_response() => {
                self.receive_separate_response(now, (source, validated), hash, peer, message);
            }
            Type::Confirmable | Type::NonConfirmable => self.transport.reject(source, message),
            Type::Reset if code.is_empty() => self.receive_reset(now, source, hash, peer, message),
            Type::Acknowledgement | Type::Reset => {}
        }
        self.transport.ask_again(now, peer);
    }

    /// Handles an acknowledgement, which concerns a known peer and is matched by message ID, so
    /// that no hash is needed.
    #[inline]
    fn receive_acknowledgement(&mut self, now: Instant, from: &P, message: &Message<'_>) {
        let peer = self.transport.peers.find_unhashed(from);
        if let Some(peer) = peer {
            self.transport.peers.get_mut(peer).heard();
        }
        match message.code() {
            Code::EMPTY if self.validates(now, from, message.id()) => {}
            Code::EMPTY => self.receive_empty_ack(now, peer, message),
            code if code.is_response() => self.receive_piggybacked_response(now, peer, message),
            _ => {}
        }
        self.transport.ask_again(now, peer);
    }

    /// Handles a network error. A quoted message must match an outstanding one (RFC 7252 §4.2);
    /// otherwise the error may be forged, and is ignored.
    pub(super) fn unreachable(&mut self, now: Instant, peer: P, quoted: Option<&[u8]>) {
        self.ping_unreachable(now, &peer, quoted);
        let Some(peer) = self.transport.peers.peek(&peer) else { return };
        let failed = match quoted {
            None => self.transport.exchanges.outstanding(&self.transport.peers, peer),
            Some(quoted) => self.transport.quoted_exchange(peer, quoted).into_iter().collect(),
        };
        self.all_unreachable(now, failed);
    }

    pub(super) fn all_unreachable(&mut self, now: Instant, exchanges: impl IntoIterator<Item = ExchangeId>) {
        for exchange in exchanges {
            // The previous failure may have removed the observer.
            if self.transport.exchanges.live(exchange).is_some() {
                self.transport.exchanges.abandon(
                    now,
                    &mut self.transport.peers,
                    exchange.index,
                    AbandonReason::Unreachable,
                );
                self.fail(now, exchange.index, Failure::Unreachable);
            }
        }
    }

    /// Handles a request: a new one, a duplicate of a remembered one (RFC 7252 §4.5), or one to be
    /// refused. An accepted request has room for its response, without a time limit.
    #[inline]
    fn receive_request(
        &mut self,
        now: Instant,
        (source, validated): (Source<P>, bool),
        (hash, peer): (u64, Option<u32>),
        message: &Message<'_>,
    ) {
        let limiter = self.transport.limiters.as_mut().and_then(|limiters| limiters.requests.as_mut());
        if limiter.is_some_and(|limiter| !limiter.admits(now, Group::of(hash))) {
            self.transport.stats.limited += 1;
            return;
        }
        let allowance = if validated { None } else { self.allowance(now, &source, hash, message) };
        let what = self.transport.fingerprint(source, hash, message);
        if self.is_held(hash, what, allowance) {
            return;
        }
        if let Some(remembered) = self.transport.received.find(now, what) {
            return self.transport.receive_copy(source, message, remembered, allowance);
        }
        if message.ty() == Type::NonConfirmable && peer.is_some_and(|peer| self.transport.lacks_ids(now, peer, message))
        {
            self.transport.stats.overloaded += 1;
            return;
        }
        let came = if message.ty() == Type::Confirmable { Came::Confirmable } else { Came::NonConfirmable };
        let (group, security) = (self.transport.group_of(&source.from, hash), Security::PLAIN);
        let arrival = Arrival { source, hash, what, group, allowance, came, security };
        #[cfg(feature = "oscore")]
        if message.option(OptionNumber::OSCORE).is_some() && self.has_contexts() {
            return self.receive_protected(now, arrival, message);
        }
        self.receive_arrived(now, &arrival, message);
    }

    /// Handles a request that is not a duplicate, after unprotecting it if necessary.
    #[inline]
    pub(super) fn receive_arrived(&mut self, now: Instant, arrival: &Arrival<P>, message: &Message<'_>) {
        let acceptable = self.acceptable(message, &arrival.security);
        let said = match &acceptable {
            Ok(said) => said,
            Err((code, diagnostic)) => return self.refuse(now, arrival, message, (*code, diagnostic)),
        };
        if self.challenges(now, arrival, message, &said.asked) {
            return;
        }
        let mut whole = Whole::AsItIs;
        if said.asked.is_in_sets() {
            match self.receive_of_set(now, arrival, message, &said.asked) {
                Some(delivered) => whole = delivered,
                None => return,
            }
        } else if !said.asked.is_plain() {
            if self.receive_of_stream(now, arrival, message, *said) {
                return;
            }
            match self.receive_block(now, arrival, message, &said.asked) {
                Some(delivered) => whole = delivered,
                None => return,
            }
        }
        let taken_in = match self.with_place(now, arrival, *said) {
            Ok(said) => self.take_in(now, arrival, message, &said),
            Err(Full) => None,
        };
        let Some(id) = taken_in else {
            self.transport.stats.overloaded += 1;
            if let Whole::Received(key) = whole {
                self.drop_upload(key);
            }
            return self.refuse(now, arrival, message, (Code::SERVICE_UNAVAILABLE, ""));
        };
        if !self.observers.is_empty() {
            self.observation_renewed(now, id, message);
        }
        self.transport.stats.requests_received += 1;
        let message = match whole {
            Whole::AsItIs => None,
            Whole::Joined(key) => self.joined(key, message),
            Whole::Received(key) => self.received_in_sets(key, message),
        }
        .unwrap_or_else(|| OwnedMessage::pooled(*message, &mut self.requests));
        self.announce(Event::Request { id, from: arrival.source.from, message });
    }

    /// Accepts a request: checks the room for its response, holds the peer's state if the response
    /// needs it, and remembers the request. Only idempotent requests may be accepted without being
    /// remembered.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        said: &Said,
    ) -> Option<RequestId> {
        let places = Token::places_of(message.token_bytes().len());
        if !self.incoming.admits(arrival.group, places, self.transport.config.limits.incoming) {
            return None;
        }
        let taken = self.take_in_place(now, arrival, message)?;
        let id = self.incoming.insert(now, || arrival.waiting(message, said, taken))?;
        self.incoming.protect(id, &arrival.security);
        Some(id)
    }

    /// Accepts a message of a request that already has its place. Inlined, so that the result stays
    /// in registers.
    #[inline(always)]
    pub(super) fn take_in_place(&mut self, now: Instant, arrival: &Arrival<P>, message: &Message<'_>) -> Option<Taken> {
        let &Arrival { source, what, group, .. } = arrival;
        let confirmable = message.ty() == Type::Confirmable;
        let idempotent = if message.code().is_idempotent() { Ok(()) } else { Err(group) };
        let reply = if confirmable { Reply::Pending } else { Reply::Silence };
        let peer = if confirmable { None } else { Some(self.open_peer(now, source.from, group).ok()?) };
        let remembered = self.transport.remember(now, Received { what, confirmable, idempotent }, reply);
        if remembered.is_none() && idempotent.is_err() {
            return None;
        }
        if let Some(peer) = peer {
            self.transport.peers.hold(peer);
            if self.transport.config.source_validation != SourceValidation::Off && arrival.allowance.is_none() {
                self.transport.peers.validated(peer);
            }
        }
        Some(Taken { peer: peer.and_then(Number::of), remembered })
    }

    fn receive_separate_response(
        &mut self,
        now: Instant,
        (source, validated): (Source<P>, bool),
        hash: u64,
        peer: Option<u32>,
        message: &Message<'_>,
    ) {
        let confirmable = message.ty() == Type::Confirmable;
        let what = self.transport.fingerprint(source, hash, message);
        let refuses_sets =
            self.sets.is_some() && !confirmable && matches!(message.code(), Code::BAD_OPTION | Code::BAD_REQUEST);
        if (confirmable || refuses_sets)
            && let Some(remembered) = self.transport.received.find(now, what)
        {
            // The response may have the ID of a remembered request; the reply to that is limited by
            // the allowance.
            let allowance = if validated { None } else { self.allowance(now, &source, hash, message) };
            return self.transport.receive_copy(source, message, remembered, allowance);
        }
        let found = peer.and_then(|peer| self.exchange_with_token(peer, &message.token()));
        let found = found.filter(|&index| !self.is_late_notification(index, message));
        #[cfg(feature = "oscore")]
        if self.has_contexts() && self.receive_protected_response(now, (source, what), (peer, found), message) {
            return;
        }
        if !self.inquiries.is_empty() && self.receive_group_response(now, (source, hash), what, message) {
            return;
        }
        if let Some(subscription) = self.notified(peer, message, found) {
            return self.receive_notification(now, source, what, subscription, message);
        }
        if found.is_some_and(|index| self.transport.exchanges.get(index).is_late(message)) {
            self.transport.stats.duplicates += 1;
            if confirmable {
                self.transport.push_empty(source, Type::Acknowledgement, message.id());
            }
            return;
        }
        let Some(index) = found else {
            self.transport.stats.unmatched += 1;
            // Only a Reset tells a server that we no longer observe (RFC 7641 §3.6), or that we
            // have stopped sending it a body (RFC 9177 §4.3).
            if confirmable || message.uint(OptionNumber::OBSERVE).is_some() || lists_missing_blocks(message) {
                self.transport.reject_response(now, source, hash, message.id());
            }
            return;
        };
        if message.unacceptable_option(&self.transport.config.known_options).is_some() {
            if confirmable {
                self.transport.reject_response(now, source, hash, message.id());
                self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, AckKind::Separate);
                self.fail(now, index, Failure::UnacceptableResponse);
            }
            return;
        }
        if confirmable {
            // If it cannot be remembered, a duplicate will be rejected, which also ends the peer's
            // retransmissions.
            self.transport.acknowledge_empty(now, source, what, message.id());
        } else if refuses_sets && self.transport.exchanges.get(index).is_in_sets() {
            // A registration is repeated with the same token: a duplicate of this refusal must not
            // answer it.
            self.transport.remember_silence(now, what);
        }
        self.deliver(now, index, AckKind::Separate, message);
    }

    #[inline]
    fn receive_piggybacked_response(&mut self, now: Instant, peer: Option<u32>, message: &Message<'_>) {
        let Some(index) = self.transport.exchange_with_id(now, peer, message) else { return };
        let exchange = self.transport.exchanges.get(index);
        let (purpose, is_request) = (exchange.purpose, exchange.purpose == Purpose::Request);
        if !exchange.confirmable
            || is_request && exchange.token.as_slice() != message.token_bytes() && !exchange.has_token_of_set(message)
        {
            self.transport.stats.unmatched += 1;
            return;
        }
        match purpose {
            // Any matching ACK ends the retransmission of a response, whatever it carries (RFC 7252
            // §5.2.2).
            Purpose::Response(_) | Purpose::Notification(_) | Purpose::Ping => self.message_acknowledged(now, index),
            #[cfg(feature = "oscore")]
            Purpose::Request if !exchange.security.is_plain() => {
                self.receive_protected_piggybacked(now, index, message);
            }
            Purpose::Request if message.unacceptable_option(&self.transport.config.known_options).is_some() => {
                self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, AckKind::Piggybacked);
                self.fail(now, index, Failure::UnacceptableResponse);
            }
            Purpose::Request => self.deliver(now, index, AckKind::Piggybacked, message),
            // These exchanges have no Confirmable messages, or no messages.
            Purpose::State(_) | Purpose::Handshake => {}
        }
    }

    fn receive_empty_ack(&mut self, now: Instant, peer: Option<u32>, message: &Message<'_>) {
        let Some(index) = self.transport.exchange_with_id(now, peer, message) else { return };
        let exchange = self.transport.exchanges.get_mut(index);
        let (purpose, exchange_peer) = (exchange.purpose, exchange.peer);
        let trusted = self.transport.peers.get_mut(exchange_peer).trust.is_given(now);
        match purpose {
            _ if !exchange.awaits_ack() => {}
            // Always trusted: no other message confirms the arrival, and without trust a few
            // guesses would hold the peer's slot until the exchange is given up.
            Purpose::Response(_) | Purpose::Notification(_) | Purpose::Ping => self.message_acknowledged(now, index),
            Purpose::Request if trusted => self.request_acknowledged(now, index),
            Purpose::Request => exchange.doubtful_ack = true,
            Purpose::State(_) | Purpose::Handshake => {}
        }
    }

    /// Handles the acknowledgement of a response, a notification or a ping. Its sender then counts as
    /// validated, unless it was a ping: this releases messages that may end other exchanges, so it
    /// comes last.
    fn message_acknowledged(&mut self, now: Instant, index: u32) {
        let exchange = self.transport.exchanges.get(index);
        let (peer, is_ping) = (exchange.peer, exchange.purpose == Purpose::Ping);
        self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, AckKind::Empty);
        self.complete(now, index);
        if !is_ping {
            self.acknowledged_by(now, peer);
        }
    }

    /// Handles the acknowledgement of a request whose response comes later.
    pub(super) fn request_acknowledged(&mut self, now: Instant, index: u32) {
        self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, AckKind::Empty);
        if self.transport.exchanges.get(index).wants_no_response() {
            return self.fail(now, index, Failure::NoResponse);
        }
        let exchange = self.transport.exchanges.get(index);
        if exchange.transfer.is_none() || exchange.asks_for_first_block() {
            self.push_acknowledged(now, index);
        }
        self.transport.exchanges.await_response(now, index);
        if self.transport.exchanges.get(index).is_in_sets() {
            self.first_block_acknowledged(now, index);
        }
    }

    /// Handles a Reset: it answers a ping, and ends any other exchange if the peer's message IDs
    /// are trusted.
    fn receive_reset(&mut self, now: Instant, source: Source<P>, hash: u64, peer: Option<u32>, message: &Message<'_>) {
        if self.validates(now, &source.from, message.id()) {
            return;
        }
        let trusted = peer.is_none_or(|peer| self.transport.peers.get_mut(peer).trust.is_given(now));
        if trusted
            && !self.transport.rejectable.is_empty()
            && let Some(token) = self.transport.rejectable.reject(Keyed::fingerprint(hash, 0, message.id().0))
        {
            self.announce(Event::Rejected { from: source.from, token });
            if let Some(peer) = peer.filter(|_| !self.observers.is_empty()) {
                self.reject_notification(now, peer, message.id());
            }
            return;
        }
        if trusted
            && !self.observers.is_empty()
            && let Some(peer) = peer
            && self.transport.exchanges.with_id(peer, message.id()).is_none()
            && self.reject_notification(now, peer, message.id())
        {
            return;
        }
        if trusted && self.reject_upload(hash, message.id()) {
            return;
        }
        let Some(index) = self.transport.exchange_with_id(now, peer, message) else { return };
        let purpose = self.transport.exchanges.get(index).purpose;
        if self.transport.exchanges.get(index).pings_observer() {
            // Always accepted; otherwise a few guesses would remove an observer. It is no proof if
            // message IDs are not trusted.
            self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, AckKind::Empty);
            return self.complete(now, index);
        }
        // A Reset is the only answer to a ping, so it is accepted like an Empty ACK of a response.
        if !trusted && purpose != Purpose::Ping {
            return;
        }
        self.transport.exchanges.abandon(now, &mut self.transport.peers, index, AbandonReason::Reset);
        if self.transport.exchanges.get(index).tries_token && !self.token_tried(now, index, Tried::Rejected) {
            return;
        }
        if purpose == Purpose::Ping {
            self.transport.exchanges.get_mut(index).acknowledged = Some(now);
            self.complete(now, index);
        } else {
            self.fail(now, index, Failure::Reset);
        }
    }
}
