//! What waits to be polled: datagrams that are to leave.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::IpAddr;

use crate::codec::{Body, Code, Encoder, MessageId, Token, Type, encode_empty, encode_to_vec};
use crate::exchange::ExchangeId;
use crate::message::{Deduplication, Remembered, Reply};

/// The source of a datagram and the local address it came to: the return path of its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<P> {
    pub(super) from: P,
    pub(super) local: Option<IpAddr>,
}

/// A datagram that is to leave.
#[derive(Debug)]
pub(super) enum Departure<P> {
    /// A copy of an exchange's message, encoded when it leaves.
    Exchange(ExchangeId),
    /// The reply that the deduplication table remembers.
    Remembered { to: Source<P>, id: MessageId, remembered: Remembered },
    /// An Empty ACK or a Reset.
    Empty { to: Source<P>, ty: Type, id: MessageId },
    /// A message that nothing remembers.
    Message { to: Source<P>, datagram: Box<[u8]> },
}

impl<P> Departure<P> {
    /// A reply that nothing remembers.
    pub(super) fn forgotten(to: Source<P>, id: MessageId, reply: Reply) -> Self {
        match reply {
            Reply::Datagram(datagram) => Self::Message { to, datagram },
            Reply::Short { length, bytes } => {
                Self::Message { to, datagram: bytes.get(..usize::from(length)).unwrap_or(&bytes).into() }
            }
            Reply::EmptyAck | Reply::Silence | Reply::Pending => Self::Empty { to, ty: Type::Acknowledgement, id },
        }
    }
}

/// All departures, in order.
pub(super) struct Outbox<P> {
    departures: VecDeque<Departure<P>>,
    /// So many of them, from the first on, need no deduplication table.
    kept: usize,
}

impl<P: Copy> Outbox<P> {
    pub(super) fn new() -> Self {
        Self { departures: VecDeque::new(), kept: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.departures.len()
    }

    #[inline]
    pub(super) fn push_back(&mut self, departure: Departure<P>) {
        reserve_first(&mut self.departures);
        self.departures.push_back(departure);
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<Departure<P>> {
        self.kept = self.kept.saturating_sub(1);
        self.departures.pop_front()
    }

    /// The table is about to forget entries: the replies that are to leave are kept here.
    pub(super) fn keep(&mut self, received: &Deduplication) {
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

/// Makes room for one output where there was none for any. What is drained in time never has more, and room for the usual
/// four would be a fifth of what an endpoint with one peer takes.
#[inline]
pub(super) fn reserve_first<T>(outputs: &mut VecDeque<T>) {
    if outputs.capacity() == 0 {
        outputs.reserve_exact(1);
    }
}

/// Copies `datagram` to the front of `buf`; `None` if it does not fit.
#[inline]
pub(super) fn write(datagram: &[u8], buf: &mut [u8]) -> Option<usize> {
    buf.get_mut(..datagram.len())?.copy_from_slice(datagram);
    Some(datagram.len())
}

/// Encodes a message at the front of `buf`; `None` if it does not fit.
#[inline]
pub(super) fn encode(buf: &mut [u8], ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Option<usize> {
    if code.is_empty() {
        return write(&encode_empty(ty, id), buf);
    }
    let mut encoder = Encoder::new(buf, ty, code, id, token).ok()?;
    encoder.body(body).ok().map(|encoder| encoder.finish())
}

/// The same in memory of its own.
#[inline]
pub(super) fn encoded(ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Box<[u8]> {
    encode_to_vec(ty, code, id, token, body).into_boxed_slice()
}
