//! What waits to be polled: datagrams that are to leave.

use alloc::boxed::Box;
use alloc::vec;
use core::net::IpAddr;

use crate::codec::{Body, Code, Encoder, MessageId, Token, Type, encode_empty};
use crate::exchange::ExchangeId;
use crate::message::Remembered;

/// Whom a datagram came from and which of our addresses it came to: the way back for what answers it.
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

/// Copies `datagram` to the front of `buf`.
pub(super) fn write(datagram: &[u8], buf: &mut [u8]) -> usize {
    buf[..datagram.len()].copy_from_slice(datagram);
    datagram.len()
}

/// Encodes a message whose size was checked when it was submitted.
pub(super) fn encode(buf: &mut [u8], ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> usize {
    if code.is_empty() {
        return write(&encode_empty(ty, id), buf);
    }
    Encoder::new(buf, ty, code, id, token)
        .and_then(|mut encoder| encoder.body(body).map(|encoder| encoder.finish()))
        .expect("the size of the message was checked against Limits::message_bytes, and poll's buffer against that")
}

/// The same in memory of its own.
pub(super) fn encoded(ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Box<[u8]> {
    let mut datagram = vec![0; 4 + usize::from(token.len()) + body.len()].into_boxed_slice();
    encode(&mut datagram, ty, code, id, token, body);
    datagram
}
