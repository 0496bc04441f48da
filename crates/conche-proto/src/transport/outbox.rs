//! The queue of datagrams to be sent.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::IpAddr;

use crate::codec::{Body, Code, Encoder, MessageId, Token, Type, encode_empty, encode_to_vec};
use crate::exchange::ExchangeId;
use crate::message::{Deduplication, Remembered, Reply};

/// The source of a datagram and the local address it came to: the return path of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<P> {
    pub(crate) from: P,
    pub(crate) local: Option<IpAddr>,
}

/// A datagram to be sent.
#[derive(Debug)]
pub(crate) enum Departure<P> {
    /// The message of an exchange, encoded when polled.
    Exchange(ExchangeId),
    /// The reply stored in the deduplication table.
    Remembered { to: Source<P>, id: MessageId, remembered: Remembered },
    /// An Empty ACK or a Reset.
    Empty { to: Source<P>, ty: Type, id: MessageId },
    /// A message that is not stored elsewhere.
    Message { to: Source<P>, datagram: Box<[u8]> },
}

impl<P> Departure<P> {
    /// Creates the departure for a reply that is not stored elsewhere.
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

/// All departures in order.
pub(crate) struct Outbox<P> {
    departures: VecDeque<Departure<P>>,
    /// Number of departures at the front that do not refer to the deduplication table.
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

    /// Copies pending replies from the deduplication table, which is about to evict entries.
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

/// Reserves exactly one place in an empty queue. A queue that is drained in time needs no more, and
/// the usual four places would be a fifth of the memory of an endpoint with one peer.
#[inline]
pub(crate) fn reserve_first<T>(outputs: &mut VecDeque<T>) {
    if outputs.capacity() == 0 {
        outputs.reserve_exact(1);
    }
}

/// Copies `datagram` to the front of `buf`; `None` if it does not fit.
#[inline]
pub(crate) fn write(datagram: &[u8], buf: &mut [u8]) -> Option<usize> {
    buf.get_mut(..datagram.len())?.copy_from_slice(datagram);
    Some(datagram.len())
}

/// Encodes a message at the front of `buf`; `None` if it does not fit.
#[inline]
pub(crate) fn encode(buf: &mut [u8], ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Option<usize> {
    if code.is_empty() {
        return write(&encode_empty(ty, id), buf);
    }
    let mut encoder = Encoder::new(buf, ty, code, id, token).ok()?;
    encoder.body(body).ok().map(|encoder| encoder.finish())
}

/// Encodes a message into a new allocation.
#[inline]
pub(crate) fn encoded(ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Box<[u8]> {
    encode_to_vec(ty, code, id, token, body).into_boxed_slice()
}
