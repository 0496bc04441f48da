//! Received datagrams, datagrams to send, and their queue.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::IpAddr;

use super::Transport;
use super::deduplication::{Deduplication, Remembered, Reply};
use super::exchange::{ExchangeId, ExchangeIndex};
use super::peer::PeerIndex;
use super::transfer::{AfterPayload, SentPayload};
use crate::PeerKey;
use crate::codec::{Body, Code, Encoder, Header, MessageId, Token, Type, encode_empty, encode_to_vec};
use conche_cc::control::AbandonReason;
use conche_cc::{Controller, Instant};

/// A received datagram with its metadata.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Datagram<'a, P> {
    /// Source of the datagram.
    pub from: P,
    /// The UDP payload.
    pub bytes: &'a [u8],
    /// Local destination address, from which answers are sent (RFC 7252 §5.3.2). `None`: the
    /// operating system chooses.
    pub local: Option<IpAddr>,
    /// The datagram was sent to a group of which this endpoint is a member, or broadcast (RFC 7252
    /// §8).
    pub multicast: bool,
    /// The ECN codepoint of the IP header.
    pub ecn: Ecn,
    /// The layer below has validated the source address, as a DTLS handshake does: no
    /// [proof](crate::SourceValidation) is required.
    pub validated: bool,
}

impl<'a, P> Datagram<'a, P> {
    /// Creates a unicast datagram to the only local address.
    pub const fn new(from: P, bytes: &'a [u8]) -> Self {
        Self { from, bytes, local: None, multicast: false, ecn: Ecn::NotCapable, validated: false }
    }
}

/// Explicit Congestion Notification: the field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not-ECT: congestion causes loss.
    #[default]
    NotCapable,
    /// ECT(0).
    Capable0,
    /// ECT(1) (RFC 9331: low-latency service).
    Capable1,
    /// CE: a router on the path would have dropped the datagram.
    CongestionExperienced,
}

impl Ecn {
    /// Returns the two bits of the field.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Capable1 => 0b01,
            Self::Capable0 => 0b10,
            Self::CongestionExperienced => 0b11,
        }
    }
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transmit<P> {
    /// Destination of the datagram.
    pub to: P,
    /// Local address to send from: the destination address of the answered message. `None`: the
    /// operating system chooses.
    pub local: Option<IpAddr>,
    /// The ECN codepoint to send.
    pub ecn: Ecn,
    /// Length of the datagram in the buffer, in bytes.
    pub len: usize,
    /// The exchange that this datagram starts or continues, including registrations that the
    /// endpoint repeats, and payloads of a Q-Block burst (RFC 9177). `None` for answers: ACK, RST,
    /// piggybacked responses, reports about a burst.
    pub exchange: Option<ExchangeId>,
    /// 0 for an original transmission, n for the n-th retransmission, or for payloads sent after
    /// the n-th report of missing ones.
    pub attempt: u8,
}

impl<P> Transmit<P> {
    /// Creates an answer of `len` bytes, sent from any local address.
    pub const fn new(to: P, len: usize) -> Self {
        Self { to, local: None, ecn: Ecn::NotCapable, len, exchange: None, attempt: 0 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<P> {
    pub(crate) source: Source<P>,
    pub(crate) hash: u64,
    pub(crate) peer: Option<PeerIndex>,
    pub(crate) validated: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<P> {
    pub(crate) from: P,
    pub(crate) local: Option<IpAddr>,
}

#[derive(Debug)]
pub(crate) enum Departure<P> {
    /// The message of an exchange, encoded when polled.
    Exchange(ExchangeId),
    Remembered {
        to: Source<P>,
        id: MessageId,
        remembered: Remembered,
    },
    Empty {
        to: Source<P>,
        ty: Type,
        id: MessageId,
    },
    Message {
        to: Source<P>,
        datagram: Box<[u8]>,
    },
}

impl<P> Departure<P> {
    pub(crate) fn forgotten(to: Source<P>, id: MessageId, reply: Reply) -> Self {
        match reply {
            Reply::Datagram(datagram) => Self::Message { to, datagram },
            Reply::Short { length, bytes } => {
                Self::Message { to, datagram: bytes.get(..usize::from(length)).unwrap_or(&bytes).into() }
            }
            Reply::EmptyAck | Reply::Silence | Reply::Pending => Self::Empty { to, ty: Type::Acknowledgement, id },
        }
    }
}

pub(crate) struct Outbox<P> {
    departures: VecDeque<Departure<P>>,
    /// Departures at the front that do not refer to the deduplication table.
    kept: usize,
}

impl<P: Copy> Outbox<P> {
    pub(crate) fn new() -> Self {
        Self { departures: VecDeque::new(), kept: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.departures.len()
    }

    #[inline]
    pub(crate) fn push_back(&mut self, departure: Departure<P>) {
        reserve_first(&mut self.departures);
        self.departures.push_back(departure);
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Departure<P>> {
        self.kept = self.kept.saturating_sub(1);
        self.departures.pop_front()
    }

    /// Copies pending replies before entries are evicted.
    pub(crate) fn keep(&mut self, received: &Deduplication) {
        for departure in self.departures.range_mut(self.kept..) {
            if let &mut Departure::Remembered { to, id, remembered } = departure
                && let Some(reply) = received.reply(remembered).filter(|reply| !matches!(reply, Reply::Pending))
            {
                *departure = Departure::forgotten(to, id, reply.clone());
            }
        }
        self.kept = self.departures.len();
    }
}

/// Reserves exactly one place in an empty queue: the usual four would be a fifth of the memory of
/// an endpoint with one peer.
#[inline]
pub(crate) fn reserve_first<T>(outputs: &mut VecDeque<T>) {
    if outputs.capacity() == 0 {
        outputs.reserve_exact(1);
    }
}

/// `None` if it does not fit.
#[inline]
pub(crate) fn write(datagram: &[u8], buf: &mut [u8]) -> Option<usize> {
    buf.get_mut(..datagram.len())?.copy_from_slice(datagram);
    Some(datagram.len())
}

/// `None` if it does not fit.
#[inline]
pub(crate) fn encode(buf: &mut [u8], header: Header, token: &Token, body: &Body) -> Option<usize> {
    let Header { ty, code, id } = header;
    if code.is_empty() {
        return write(&encode_empty(ty, id), buf);
    }
    let mut encoder = Encoder::new(buf, ty, code, id, token).ok()?;
    encoder.body(body).ok().map(|encoder| encoder.finish())
}

#[inline]
pub(crate) fn encoded(ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Box<[u8]> {
    encode_to_vec(ty, code, id, token, body).into_boxed_slice()
}

/// A message of a Q-Block burst (RFC 9177).
pub(crate) struct Payload {
    pub(crate) code: Code,
    pub(crate) token: Token,
    pub(crate) body: Body,
    pub(crate) first: bool,
    pub(crate) begins: bool,
}

impl<P: PeerKey, C: Controller> Transport<P, C> {
    /// Writes a reply; `None` if it is obsolete.
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

    /// Writes the message of an exchange to `buf`; `id` is that of a group request. `None` if it
    /// does not fit: the exchange has failed.
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
        let Some(len) = encode(buf, Header { ty, code: content.code, id: message_id }, token, &content.body) else {
            self.too_large(now, id.index);
            return None;
        };
        let (to, local) = (self.peers.get(exchange.peer).key, exchange.local);
        Some(Transmit { to, local, ecn: Ecn::NotCapable, len, exchange: None, attempt: 0 })
    }

    /// Reports a transmission to the controller. Returns its number.
    #[inline]
    pub(crate) fn sent(&mut self, now: Instant, index: ExchangeIndex) -> u8 {
        let attempt = self.exchanges.sent(now, &mut self.peers, index, &mut self.random);
        self.stats.retransmissions += u64::from(attempt > 0);
        attempt
    }

    /// Returns the next payload's ID; `None` if the exchange is over, or no ID is free yet.
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

    /// Writes a payload of a burst; `None` if it does not fit: the exchange has failed.
    pub(crate) fn write_payload(
        &mut self,
        now: Instant,
        id: ExchangeId,
        message_id: MessageId,
        payload: &Payload,
        buf: &mut [u8],
    ) -> Option<(Transmit<P>, AfterPayload)> {
        let Payload { code, token, body, first, .. } = payload;
        if !self.exchanges.get(id.index).sent.is_empty() {
            self.exchanges.identify_as(id.index, message_id);
        }
        let exchange = self.exchanges.get(id.index);
        let (to, local) = (self.peers.get(exchange.peer).key, exchange.local);
        let Some(len) = encode(buf, Header { ty: Type::NonConfirmable, code: *code, id: message_id }, token, body)
        else {
            self.too_large(now, id.index);
            return None;
        };
        let bytes = u32::try_from(len).unwrap_or(u32::MAX);
        let left = self.exchanges.payload_left(
            now,
            &mut self.peers,
            id.index,
            SentPayload { first: *first, bytes },
            &mut self.random,
        );
        let attempt = self.exchanges.get(id.index).attempt();
        match left {
            AfterPayload::Over => self.abandon(now, id.index, AbandonReason::Cancelled),
            AfterPayload::Waits => self.stats.retransmissions += u64::from(attempt > 0),
        }
        Some((Transmit { to, local, ecn: Ecn::NotCapable, len, exchange: Some(id), attempt }, left))
    }

    #[cold]
    fn too_large(&mut self, now: Instant, index: ExchangeIndex) {
        self.stats.oversized += 1;
        self.abandon(now, index, AbandonReason::Cancelled);
    }
}
