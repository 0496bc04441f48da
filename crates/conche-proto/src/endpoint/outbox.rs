//! What waits to be polled: datagrams that are to leave.

use alloc::boxed::Box;
use alloc::vec::Vec;
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

/// The same in memory of its own, which is filled from its start: clearing it first would cost as much as the rest.
pub(super) fn encoded(ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Box<[u8]> {
    let mut front = [0; 4 + Token::MAX_LENGTH];
    let length = encode(&mut front, ty, code, id, token, &Body::EMPTY);
    let mut datagram = Vec::with_capacity(length + body.len());
    datagram.extend_from_slice(&front[..length]);
    datagram.extend_from_slice(body.as_bytes());
    datagram.into_boxed_slice()
}
