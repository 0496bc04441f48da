//! Reception: dispatches messages by type, code class and exchange.

use super::Endpoint;
use crate::PeerKey;
use crate::client::TokenTrial;
use crate::codec::{Code, Message, Type};
use crate::event::Event;
use crate::hash::Keyed;
use crate::transport::{Datagram, ExchangeId, ExchangeIndex, Failure, PeerIndex, Purpose, Sender, Source};
use conche_cc::Controller;
use conche_cc::control::{AbandonReason, AckKind};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Dispatches a datagram (RFC 7252 §4.2, §4.3). A Confirmable message without meaning is
    /// rejected with a Reset, others are ignored.
    pub(super) fn receive(&mut self, datagram: &Datagram<'_, P>) {
        let &Datagram { from, bytes, local, validated, .. } = datagram;
        let transport = &mut self.layers.transport;
        transport.stats.datagrams_received += 1;
        transport.stats.bytes_received += bytes.len() as u64;
        if datagram.multicast {
            return self.server.receive_by_group(&mut self.layers, datagram);
        }
        let source = Source { from, local };
        // Borrowed, because a copy would be as large as the result.
        let decoded = Message::read(bytes, transport.config.longest_echoed_token());
        let message = match &decoded {
            Ok(message) => message,
            Err(error) => {
                transport.stats.malformed += 1;
                if let Some(header) = error.header.filter(|header| header.ty == Type::Confirmable) {
                    transport.push_empty(source, Type::Reset, header.id);
                }
                return;
            }
        };
        let code = message.code();
        if message.ty() == Type::Acknowledgement {
            return self.receive_acknowledgement(&from, message);
        }
        let hash = transport.peers.hash(&from);
        let peer = transport.peers.find(&from, hash);
        if let Some(peer) = peer {
            transport.peers.get_mut(peer).heard();
        }
        let sender = Sender { source, hash, peer, validated };
        match message.ty() {
            Type::Confirmable | Type::NonConfirmable if code.is_request() => {
                self.server.receive_request(&mut self.layers, &sender, message);
            }
            Type::Confirmable | Type::NonConfirmable if code.is_response() => {
                self.receive_separate_response(&sender, message);
            }
            Type::Confirmable | Type::NonConfirmable => transport.reject(source, message),
            Type::Reset if code.is_empty() => self.receive_reset(&sender, message),
            Type::Acknowledgement | Type::Reset => {}
        }
        self.layers.transport.ask_again(self.layers.now, peer);
    }

    /// Finds the exchange by message ID, without a hash.
    #[inline]
    fn receive_acknowledgement(&mut self, from: &P, message: &Message<'_>) {
        let peer = self.layers.transport.peers.find_unhashed(from);
        if let Some(peer) = peer {
            self.layers.transport.peers.get_mut(peer).heard();
        }
        match message.code() {
            Code::EMPTY if self.server.validates(&mut self.layers, from, message.id()) => {}
            Code::EMPTY => self.receive_empty_ack(peer, message),
            code if code.is_response() => self.receive_piggybacked_response(peer, message),
            _ => {}
        }
        self.layers.transport.ask_again(self.layers.now, peer);
    }

    /// Handles a network error. A quoted message must match an outstanding one (RFC 7252 §4.2);
    /// otherwise the error may be forged.
    pub(super) fn unreachable(&mut self, peer: P, quoted: Option<&[u8]>) {
        self.server.ping_unreachable(&mut self.layers, &peer, quoted);
        let transport = &mut self.layers.transport;
        let Some(peer) = transport.peers.peek(&peer) else { return };
        let failed = match quoted {
            None => transport.exchanges.outstanding(&transport.peers, peer),
            Some(quoted) => transport.quoted_exchange(peer, quoted).into_iter().collect(),
        };
        self.all_unreachable(failed);
    }

    pub(super) fn all_unreachable(&mut self, exchanges: impl IntoIterator<Item = ExchangeId>) {
        for exchange in exchanges {
            let transport = &mut self.layers.transport;
            // The previous failure may have removed the observer.
            if transport.exchanges.live(exchange).is_some() {
                transport.abandon(self.layers.now, exchange.index, AbandonReason::Unreachable);
                self.fail(exchange.index, Failure::Unreachable);
            }
        }
    }

    fn receive_separate_response(&mut self, sender: &Sender<P>, message: &Message<'_>) {
        let &Sender { source, hash, validated, .. } = sender;
        let fingerprint = self.layers.transport.fingerprint(source, hash, message);
        if (message.ty() == Type::Confirmable || self.client.may_refuse_q_block(message))
            && let Some(remembered) = self.layers.transport.received.find(self.layers.now, fingerprint)
        {
            // The response may have the ID of a remembered request; the allowance limits the reply
            // to that.
            let allowance = match validated {
                true => None,
                false => self.server.allowance(&mut self.layers, &source, hash, message),
            };
            return self.layers.transport.receive_duplicate(source, message, remembered, allowance);
        }
        self.client.receive_separate_response(&mut self.layers, sender, fingerprint, message);
    }

    #[inline]
    fn receive_piggybacked_response(&mut self, peer: Option<PeerIndex>, message: &Message<'_>) {
        let transport = &mut self.layers.transport;
        let Some(index) = transport.exchange_with_id(self.layers.now, peer, message) else { return };
        let exchange = transport.exchanges.get(index);
        let purpose = exchange.purpose;
        if !exchange.confirmable
            || purpose == Purpose::Request
                && exchange.token.as_slice() != message.token_bytes()
                && !exchange.has_token_of_burst(message)
        {
            transport.stats.unmatched += 1;
            return;
        }
        match purpose {
            // Any ACK ends the retransmission of a response, whatever it carries (RFC 7252 §5.2.2).
            Purpose::Response(_) | Purpose::Notification(_) | Purpose::Ping => self.acknowledged(index),
            Purpose::Request => self.client.receive_piggybacked(&mut self.layers, index, message),
            // These exchanges have no Confirmable messages, or no messages.
            Purpose::State(_) | Purpose::Handshake => {}
        }
    }

    fn receive_empty_ack(&mut self, peer: Option<PeerIndex>, message: &Message<'_>) {
        let transport = &mut self.layers.transport;
        let Some(index) = transport.exchange_with_id(self.layers.now, peer, message) else { return };
        let exchange = transport.exchanges.get_mut(index);
        let trusted = transport.peers.get_mut(exchange.peer).trust.is_given(self.layers.now);
        match exchange.purpose {
            _ if !exchange.awaits_ack() => {}
            // Always trusted: no other message confirms the arrival, and without trust a few
            // guesses would hold the peer's slot until the exchange is given up.
            Purpose::Response(_) | Purpose::Notification(_) | Purpose::Ping => self.acknowledged(index),
            Purpose::Request if trusted => self.client.request_acknowledged(&mut self.layers, index),
            Purpose::Request => exchange.doubtful_ack = true,
            Purpose::State(_) | Purpose::Handshake => {}
        }
    }

    /// Completes a response, notification or ping. Its sender then counts as validated, except for
    /// a ping: this releases messages that may end other exchanges, so it comes last.
    fn acknowledged(&mut self, index: ExchangeIndex) {
        let transport = &mut self.layers.transport;
        let exchange = transport.exchanges.get(index);
        let (peer, is_ping) = (exchange.peer, exchange.purpose == Purpose::Ping);
        transport.acknowledge(self.layers.now, index, AckKind::Empty);
        self.complete(index);
        if !is_ping {
            self.server.acknowledged_by(&mut self.layers, peer);
        }
    }

    fn complete(&mut self, index: ExchangeIndex) {
        if self.layers.transport.exchanges.get(index).purpose == Purpose::Ping {
            self.layers.announce_acknowledged(index);
            self.layers.transport.close(self.layers.now, index);
        } else {
            self.server.acknowledged(&mut self.layers, index);
        }
    }

    /// Handles a Reset: it answers a ping, and ends any other exchange if the peer's message IDs
    /// are trusted.
    fn receive_reset(&mut self, sender: &Sender<P>, message: &Message<'_>) {
        let &Sender { source, hash, peer, .. } = sender;
        if self.server.validates(&mut self.layers, &source.from, message.id()) {
            return;
        }
        let transport = &mut self.layers.transport;
        let trusted = peer.is_none_or(|peer| transport.peers.get_mut(peer).trust.is_given(self.layers.now));
        if trusted
            && !transport.rejectable.is_empty()
            && let Some(token) = transport.rejectable.reject(Keyed::fingerprint(hash, 0, message.id().0))
        {
            self.layers.announce(Event::Rejected { from: source.from, token });
            if let Some(peer) = peer {
                self.server.reject_notification(&mut self.layers, peer, message.id());
            }
            return;
        }
        if trusted
            && self.server.has_observers()
            && let Some(peer) = peer
            && transport.exchanges.with_id(peer, message.id()).is_none()
            && self.server.reject_notification(&mut self.layers, peer, message.id())
        {
            return;
        }
        if trusted && self.server.reject_upload(hash, message.id()) {
            return;
        }
        let transport = &mut self.layers.transport;
        let Some(index) = transport.exchange_with_id(self.layers.now, peer, message) else { return };
        let exchange = transport.exchanges.get(index);
        let (purpose, tries_token) = (exchange.purpose, exchange.tries_token);
        if exchange.pings_observer() {
            // Always accepted: otherwise a few guesses would remove an observer. It is no proof if
            // message IDs are not trusted.
            transport.acknowledge(self.layers.now, index, AckKind::Empty);
            return self.complete(index);
        }
        // A Reset is the only answer to a ping, so it is accepted like an Empty ACK of a response.
        if !trusted && purpose != Purpose::Ping {
            return;
        }
        transport.abandon(self.layers.now, index, AbandonReason::Reset);
        if tries_token && !self.client.token_tried(&mut self.layers, index, TokenTrial::Rejected) {
            return;
        }
        if purpose == Purpose::Ping {
            self.layers.transport.exchanges.get_mut(index).acknowledged = Some(self.layers.now);
            self.complete(index);
        } else {
            self.fail(index, Failure::Reset);
        }
    }
}
