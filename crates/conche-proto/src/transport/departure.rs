//! Transmission: writes replies and the messages of exchanges into a buffer.

use super::{Departure, Ecn, Source, Transmit, Transport, encode, write};
use crate::PeerKey;
use crate::codec::{Body, Code, MessageId, Token, Type, encode_empty};
use crate::exchange::{ExchangeId, Left};
use crate::message::Reply;
use conche_cc::control::AbandonReason;
use conche_cc::{Controller, Instant};

/// A message of a Q-Block burst (RFC 9177).
pub(crate) struct Payload {
    pub(crate) code: Code,
    pub(crate) token: Token,
    pub(crate) body: Body,
    /// Whether it is the first of a train.
    pub(crate) first: bool,
    /// Whether it is the first of a body.
    pub(crate) begins: bool,
}

impl<P: PeerKey, C: Controller> Transport<P, C> {
    /// Writes a reply to `buf`; `None` if it is obsolete.
    pub(crate) fn write_reply(&mut self, departure: Departure<P>, buf: &mut [u8]) -> Option<Transmit<P>> {
        let (to, len) = match departure {
            Departure::Exchange(_) => return None,
            Departure::Remembered { to, id, remembered } => match self.received.reply(remembered)? {
                Reply::Datagram(datagram) => (to, write(datagram, buf)),
                Reply::Short { length, bytes } => (to, write(bytes.get(..usize::from(*length)).unwrap_or(bytes), buf)),
                Reply::EmptyAck => (to, write(&encode_empty(Type::Acknowledgement, id), buf)),
                Reply::Silence | Reply::Pending => return None,
            },
            Departure::Empty { to, ty, id } => {
                self.stats.resets_sent += u64::from(ty == Type::Reset);
                (to, write(&encode_empty(ty, id), buf))
            }
            Departure::Message { to, datagram } => (to, write(&datagram, buf)),
        };
        let Source { from, local } = to;
        let Some(len) = len else {
            self.stats.oversized += 1;
            return None;
        };
        Some(Transmit { to: from, local, ecn: Ecn::NotCapable, len, exchange: None, attempt: 0 })
    }

    /// Writes the message of an exchange to `buf`, with this message ID if it is that of a group
    /// request. `None` if it does not fit: the exchange has failed.
    #[inline]
    pub(crate) fn write_exchange(
        &mut self,
        now: Instant,
        id: ExchangeId,
        group_id: Option<MessageId>,
        buf: &mut [u8],
    ) -> Option<Transmit<P>> {
        let exchange = self.exchanges.get(id.index);
        let token = exchange.transfer.as_ref().and_then(|transfer| transfer.token.as_ref());
        let token = token.unwrap_or_else(|| exchange.token_sent());
        let (ty, content) = (exchange.message_type(), &exchange.content);
        let message_id = group_id.unwrap_or(exchange.id);
        let Some(len) = encode(buf, ty, content.code, message_id, token, &content.body) else {
            self.too_large(now, id.index);
            return None;
        };
        let (to, local) = (self.peers.get(exchange.peer).key, exchange.local);
        Some(Transmit { to, local, ecn: Ecn::NotCapable, len, exchange: None, attempt: 0 })
    }

    /// Reports to the controller that the message of an exchange was sent. Returns the number of the
    /// transmission.
    #[inline]
    pub(crate) fn sent(&mut self, now: Instant, index: u32) -> u8 {
        let attempt = self.exchanges.sent(now, &mut self.peers, index, &mut self.random);
        self.stats.retransmissions += u64::from(attempt > 0);
        attempt
    }

    /// Returns the message ID of the next payload of a burst. `None` if the exchange is over or no
    /// message ID is free; the payload then leaves later.
    pub(crate) fn payload_id(&mut self, now: Instant, id: ExchangeId) -> Option<MessageId> {
        let exchange = self.exchanges.live(id)?;
        if exchange.sent.is_empty() {
            return Some(exchange.id);
        }
        let peer = exchange.peer;
        match self.message_id(now, peer) {
            Ok(id) => Some(id),
            Err(free) => {
                self.exchanges.depart_later(id.index, free);
                None
            }
        }
    }

    /// Writes a payload of a burst to `buf`. `None` if it does not fit: the exchange has failed.
    pub(crate) fn write_payload(
        &mut self,
        now: Instant,
        id: ExchangeId,
        message_id: MessageId,
        payload: &Payload,
        buf: &mut [u8],
    ) -> Option<(Transmit<P>, Left)> {
        let Payload { code, token, body, first, .. } = payload;
        if !self.exchanges.get(id.index).sent.is_empty() {
            self.exchanges.identify_as(id.index, message_id);
        }
        let exchange = self.exchanges.get(id.index);
        let (to, local) = (self.peers.get(exchange.peer).key, exchange.local);
        let Some(len) = encode(buf, Type::NonConfirmable, *code, message_id, token, body) else {
            self.too_large(now, id.index);
            return None;
        };
        let bytes = u32::try_from(len).unwrap_or(u32::MAX);
        let left = self.exchanges.payload_left(now, &mut self.peers, id.index, (*first, bytes), &mut self.random);
        let attempt = self.exchanges.get(id.index).attempt();
        match left {
            Left::Over => self.exchanges.abandon(now, &mut self.peers, id.index, AbandonReason::Cancelled),
            Left::Waits => self.stats.retransmissions += u64::from(attempt > 0),
        }
        Some((Transmit { to, local, ecn: Ecn::NotCapable, len, exchange: Some(id), attempt }, left))
    }

    /// Abandons an exchange whose message does not fit into a datagram.
    #[cold]
    fn too_large(&mut self, now: Instant, index: u32) {
        self.stats.oversized += 1;
        self.exchanges.abandon(now, &mut self.peers, index, AbandonReason::Cancelled);
    }
}
