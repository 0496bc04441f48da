//! Acknowledgements of requests, and their responses.

use crate::PeerKey;
use crate::blockwise::sets::lists_missing_blocks;
use crate::client::Client;
use crate::client::token::Tried;
use crate::codec::{Code, Message, OptionNumber, OwnedMessage, Type};
use crate::event::Event;
use crate::exchange::Failure;
use crate::hash::Fingerprint;
use crate::layers::Layers;
use crate::transport::Sender;
use conche_cc::control::AckKind;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Client<P, C> {
    /// Returns `true` if a response may refuse Q-Block, which no message acknowledges.
    pub(crate) fn may_refuse_sets(&self, message: &Message<'_>) -> bool {
        self.has_q_block()
            && message.ty() != Type::Confirmable
            && matches!(message.code(), Code::BAD_OPTION | Code::BAD_REQUEST)
    }

    /// Handles a separate response or a notification that is not a duplicate.
    pub(crate) fn receive_separate_response(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        sender: &Sender<P>,
        what: Fingerprint,
        message: &Message<'_>,
    ) {
        let &Sender { source, hash, peer, .. } = sender;
        let confirmable = message.ty() == Type::Confirmable;
        let found = peer.and_then(|peer| self.exchange_with_token(layers, peer, &message.token()));
        let found = found.filter(|&index| !self.is_late_notification(layers, index, message));
        #[cfg(feature = "oscore")]
        if layers.has_contexts() && self.receive_protected_response(layers, now, (source, what), (peer, found), message)
        {
            return;
        }
        if !self.group_requests.is_empty() && self.receive_group_response(layers, now, (source, hash), what, message) {
            return;
        }
        if let Some(subscription) = self.notified(layers, peer, message, found) {
            return self.receive_notification(layers, now, source, what, subscription, message);
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
                layers.transport.reject_response(now, source, hash, message.id());
            }
            return;
        };
        if message.unacceptable_option(&layers.transport.config.known_options).is_some() {
            if confirmable {
                layers.transport.reject_response(now, source, hash, message.id());
                layers.transport.exchanges.acknowledge(now, &mut layers.transport.peers, index, AckKind::Separate);
                self.fail(layers, now, index, Failure::UnacceptableResponse);
            }
            return;
        }
        if confirmable {
            // If it cannot be remembered, a duplicate will be rejected, which also ends the peer's
            // retransmissions.
            layers.transport.acknowledge_empty(now, source, what, message.id());
        } else if self.may_refuse_sets(message) && layers.transport.exchanges.get(index).is_in_sets() {
            // A registration is repeated with the same token: a duplicate of this refusal must not
            // answer it.
            layers.transport.remember_silence(now, what);
        }
        self.deliver(layers, now, index, AckKind::Separate, message);
    }

    /// Handles a piggybacked response.
    #[inline]
    pub(crate) fn receive_piggybacked(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        index: u32,
        message: &Message<'_>,
    ) {
        #[cfg(feature = "oscore")]
        if !layers.transport.exchanges.get(index).security.is_plain() {
            return self.receive_protected_piggybacked(layers, now, index, message);
        }
        if message.unacceptable_option(&layers.transport.config.known_options).is_some() {
            layers.transport.exchanges.acknowledge(now, &mut layers.transport.peers, index, AckKind::Piggybacked);
            return self.fail(layers, now, index, Failure::UnacceptableResponse);
        }
        self.deliver(layers, now, index, AckKind::Piggybacked, message);
    }

    /// Handles the acknowledgement of a request whose response comes later.
    pub(crate) fn request_acknowledged(&mut self, layers: &mut Layers<P, C>, now: Instant, index: u32) {
        layers.transport.exchanges.acknowledge(now, &mut layers.transport.peers, index, AckKind::Empty);
        if layers.transport.exchanges.get(index).wants_no_response() {
            return self.fail(layers, now, index, Failure::NoResponse);
        }
        let exchange = layers.transport.exchanges.get(index);
        let is_first = exchange.transfer.is_none() || exchange.asks_for_first_block();
        if is_first && self.is_reported(layers, index) {
            layers.announce_acknowledged(now, index);
        }
        layers.transport.exchanges.await_response(now, index);
        if layers.transport.exchanges.get(index).is_in_sets() {
            self.first_block_acknowledged(layers, now, index);
        }
    }

    /// Handles the response to a request: the exchange is over, unless it continues with further
    /// blocks.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        index: u32,
        kind: AckKind,
        message: &Message<'_>,
    ) {
        if layers.transport.exchanges.get(index).tries_token {
            let refused = message.code() == Code::BAD_REQUEST;
            if !self.token_tried(layers, now, index, if refused { Tried::Refused(kind) } else { Tried::Understood }) {
                return;
            }
        }
        if layers.transport.exchanges.get(index).is_in_sets() {
            return self.deliver_to_sets(layers, now, index, kind, message);
        }
        if let Some(subscription) = self.registers(layers, index) {
            return self.deliver_registration(layers, now, index, subscription, kind, OwnedMessage::from(*message));
        }
        layers.transport.exchanges.acknowledge(now, &mut layers.transport.peers, index, kind);
        let Some(message) = self.follow(layers, now, index, message) else { return };
        let (exchange, from, course) = layers.transport.exchanges.summary(now, &layers.transport.peers, index);
        layers.announce(Event::Response { exchange, from, message, course });
        self.close(layers, now, index);
    }
}
