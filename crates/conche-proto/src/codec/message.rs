//! [`Message`]: a checked view of a datagram (RFC 7252 §3); [`OwnedMessage`]: one that outlives its
//! datagram.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use core::fmt;
use core::ops::Deref;

use bytes::{Bytes, BytesMut};
use thiserror::Error;

use super::content::Layout;
use super::{Body, Code, Content, Encoder, OptionNumber, Token, Values};

/// A well-formed message in a borrowed datagram. Dereferences to [`Content`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    datagram: &'a [u8],
    ty: Type,
    id: MessageId,
    content: Content<'a>,
}

impl<'a> Message<'a> {
    /// Decodes a datagram.
    ///
    /// # Errors
    ///
    /// The first violation of RFC 7252 §3 and §4.1, including a token longer than eight bytes.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        Self::read(datagram, Token::MAX_LENGTH)
    }

    /// Decodes a datagram with extended tokens of up to 65 804 bytes (RFC 8974 §2.1).
    ///
    /// # Errors
    ///
    /// As for [`decode`](Self::decode), except that only the token length 15 is reserved.
    ///
    /// ```
    /// use conche_proto::codec::{DecodeErrorKind, Message};
    ///
    /// // Type NON, TKL 13, and a token of 13 + 0 bytes.
    /// let datagram = b"\x5d\x01\x00\x07\x00thirteen byte";
    /// assert_eq!(Message::decode_extended(datagram)?.token().as_slice(), b"thirteen byte");
    /// assert_eq!(Message::decode(datagram).map_err(|error| error.kind), Err(DecodeErrorKind::TokenLength));
    /// # Ok::<(), conche_proto::codec::DecodeError>(())
    /// ```
    pub fn decode_extended(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        Self::read(datagram, Token::MAX_EXTENDED_LENGTH)
    }

    #[inline]
    pub(crate) fn read(datagram: &'a [u8], longest_token: usize) -> Result<Self, DecodeError> {
        let [first, second, third, fourth, behind @ ..] = datagram else {
            return Err(DecodeError { kind: DecodeErrorKind::TooShort, header: None });
        };
        if first >> 6 != VERSION {
            return Err(DecodeError { kind: DecodeErrorKind::Version, header: None });
        }
        let header = Header::from_bytes([*first, *second, *third, *fourth]);
        match content(header.code, first & 0xf, behind, longest_token) {
            Ok(content) => Ok(Self { datagram, ty: header.ty, id: header.id, content }),
            Err(kind) => Err(DecodeError { kind, header: Some(header) }),
        }
    }

    pub(super) const fn decoded(datagram: &'a [u8], ty: Type, id: MessageId, content: Content<'a>) -> Self {
        Self { datagram, ty, id, content }
    }

    /// Returns type, code and message ID.
    #[must_use]
    pub const fn header(&self) -> Header {
        Header { ty: self.ty, code: self.content.code(), id: self.id }
    }

    /// Returns the type.
    #[must_use]
    pub const fn ty(&self) -> Type {
        self.ty
    }

    /// Returns the message ID.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        self.id
    }

    /// Returns code, token, options and payload.
    #[must_use]
    pub const fn content(&self) -> Content<'a> {
        self.content
    }

    /// Returns the datagram.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.datagram
    }
}

impl<'a> Deref for Message<'a> {
    type Target = Content<'a>;

    fn deref(&self) -> &Content<'a> {
        &self.content
    }
}

#[inline]
fn content(code: Code, tkl: u8, behind_header: &[u8], longest_token: usize) -> Result<Content<'_>, DecodeErrorKind> {
    // A reserved token length precedes the check for an Empty message.
    let reserved = if longest_token > Token::MAX_LENGTH { 15 } else { Token::MAX_LENGTH + 1 };
    if code.is_empty() && usize::from(tkl) < reserved && (tkl > 0 || !behind_header.is_empty()) {
        return Err(DecodeErrorKind::EmptyWithContent);
    }
    Content::read(code, tkl, behind_header, longest_token)
}

/// The datagram is not a well-formed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[error("{kind}")]
pub struct DecodeError {
    /// The violation.
    pub kind: DecodeErrorKind,
    /// The first four bytes, if present and of version 1. A malformed Confirmable message gets a
    /// Reset with its message ID (RFC 7252 §4.2); a datagram without this header is ignored (§3).
    pub header: Option<Header>,
}

/// The ways in which a datagram can be malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The datagram has fewer than four bytes.
    #[error("the datagram is shorter than the 4-byte header")]
    TooShort,
    /// The version is not 1.
    #[error("the version is not 1")]
    Version,
    /// The token length is reserved: 9 to 15, or 15 with RFC 8974.
    #[error("the token length is reserved: it is 15, or more than 8 without RFC 8974")]
    TokenLength,
    /// The token is truncated.
    #[error("the message ends inside its token")]
    TokenTruncated,
    /// An Empty message has content (RFC 7252 §4.1).
    #[error("an Empty message carries a token or content")]
    EmptyWithContent,
    /// An option's delta has the reserved value 15.
    #[error("an option delta has the reserved value 15")]
    OptionDelta,
    /// An option's length has the reserved value 15.
    #[error("an option length has the reserved value 15")]
    OptionLength,
    /// An option's extension bytes or value are truncated.
    #[error("the message ends inside an option")]
    OptionTruncated,
    /// An option number exceeds 65535 (RFC 7252 §12.2).
    #[error("an option number exceeds 65535")]
    OptionNumberOverflow,
    /// The payload marker is not followed by a payload.
    #[error("the payload marker is followed by no payload")]
    PayloadMarker,
}

/// The message type (RFC 7252 §4.2, §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// CON: retransmitted until acknowledged or reset.
    Confirmable,
    /// NON: never acknowledged.
    NonConfirmable,
    /// ACK: acknowledges a Confirmable message, with or without a response.
    Acknowledgement,
    /// RST: the message with this ID could not be processed.
    Reset,
}

impl Type {
    pub(super) const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0 => Self::Confirmable,
            1 => Self::NonConfirmable,
            2 => Self::Acknowledgement,
            _ => Self::Reset,
        }
    }

    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::Confirmable => 0,
            Self::NonConfirmable => 1,
            Self::Acknowledgement => 2,
            Self::Reset => 3,
        }
    }
}

/// Prints `CON`, `NON`, `ACK` or `RST`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Confirmable => "CON",
            Self::NonConfirmable => "NON",
            Self::Acknowledgement => "ACK",
            Self::Reset => "RST",
        })
    }
}

/// The message ID: detects duplicates, and matches ACK and RST (RFC 7252 §4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u16);

/// Prints `0x1a2b`.
impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// Type, code and message ID, needed even if the rest is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The type (T).
    pub ty: Type,
    /// The code.
    pub code: Code,
    /// The message ID.
    pub id: MessageId,
}

/// The protocol version, in the two highest bits.
pub(super) const VERSION: u8 = 1;

pub(super) const HEADER_LENGTH: usize = 4;

impl Header {
    pub(super) const fn from_bytes([first, code, id_high, id_low]: [u8; HEADER_LENGTH]) -> Self {
        Self { ty: Type::from_bits(first >> 4), code: Code(code), id: MessageId(u16::from_be_bytes([id_high, id_low])) }
    }

    pub(crate) fn of(datagram: &[u8]) -> Option<Self> {
        datagram.first_chunk().map(|bytes| Self::from_bytes(*bytes))
    }

    pub(super) const fn to_bytes(self, tkl: u8) -> [u8; HEADER_LENGTH] {
        let [id_high, id_low] = self.id.0.to_be_bytes();
        [VERSION << 6 | self.ty.bits() << 4 | tkl, self.code.0, id_high, id_low]
    }
}

/// A well-formed message with its datagram. Clones, payload slices and [pooled](Self::pooled)
/// neighbours share memory.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedMessage {
    datagram: Bytes,
    ty: Type,
    id: MessageId,
    layout: Layout,
}

impl OwnedMessage {
    /// Decodes and stores a datagram.
    ///
    /// # Errors
    ///
    /// As for [`Message::decode`].
    pub fn decode(datagram: impl Into<Box<[u8]>>) -> Result<Self, DecodeError> {
        Self::from_bytes(Bytes::from(datagram.into()))
    }

    /// Decodes and stores a datagram without a copy.
    ///
    /// # Errors
    ///
    /// As for [`Message::decode`].
    pub fn from_bytes(datagram: Bytes) -> Result<Self, DecodeError> {
        Self::read(datagram, Token::MAX_LENGTH)
    }

    pub(super) fn read(datagram: Bytes, longest_token: usize) -> Result<Self, DecodeError> {
        let message = Message::read(&datagram, longest_token)?;
        let (ty, id, layout) = (message.ty(), message.id(), message.layout());
        Ok(Self { datagram, ty, id, layout })
    }

    /// Encodes a message as if received; `None` for an Empty message with content.
    #[must_use]
    pub fn encode(ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Option<Self> {
        let mut datagram = vec![0; HEADER_LENGTH + token.encoded_len() + body.len()];
        Encoder::new(&mut datagram, ty, code, id, token).ok()?.body(body).ok()?;
        Self::read(datagram.into(), Token::MAX_EXTENDED_LENGTH).ok()
    }

    /// Copies a message into a pool; see [`MessagePool`].
    #[must_use]
    #[inline]
    pub fn pooled(message: Message<'_>, pool: &mut MessagePool) -> Self {
        Self::copied(message, pool.copy(message.as_bytes()))
    }

    #[inline]
    fn copied(message: Message<'_>, datagram: Bytes) -> Self {
        Self { datagram, ty: message.ty(), id: message.id(), layout: message.layout() }
    }

    /// Returns the borrowed message, with all methods.
    #[must_use]
    pub fn view(&self) -> Message<'_> {
        Message::decoded(&self.datagram, self.ty, self.id, self.content())
    }

    /// Returns the content; see [`Message::content`].
    #[must_use]
    pub fn content(&self) -> Content<'_> {
        Content::decoded(self.datagram.get(HEADER_LENGTH..).unwrap_or_default(), self.layout)
    }

    /// Returns the header; see [`Message::header`].
    #[must_use]
    pub fn header(&self) -> Header {
        self.view().header()
    }

    /// Returns the code; see [`Content::code`].
    #[must_use]
    pub fn code(&self) -> Code {
        self.content().code()
    }

    /// Returns the token; see [`Content::token`].
    #[must_use]
    pub fn token(&self) -> Token {
        self.content().token()
    }

    /// Returns the first value of an option; see [`Content::option`].
    #[must_use]
    pub fn option(&self, number: OptionNumber) -> Option<&[u8]> {
        self.content().option(number)
    }

    /// Returns an option as a number; see [`Content::uint`].
    #[must_use]
    pub fn uint(&self, number: OptionNumber) -> Option<u32> {
        self.content().uint(number)
    }

    /// Returns the values of an option; see [`Content::values`].
    #[must_use]
    pub fn values(&self, number: OptionNumber) -> Values<'_> {
        self.content().values(number)
    }

    /// Returns the payload; see [`Content::payload`].
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.content().payload()
    }

    /// Returns the payload without a copy; keeps the whole datagram in memory.
    #[must_use]
    pub fn payload_bytes(&self) -> Bytes {
        self.datagram.slice_ref(self.payload())
    }

    /// Returns the path; see [`Content::uri_path`].
    #[must_use]
    pub fn uri_path(&self) -> String {
        self.content().uri_path()
    }

    /// Returns the query arguments; see [`Content::uri_queries`].
    pub fn uri_queries(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.content().uri_queries()
    }
}

impl From<Message<'_>> for OwnedMessage {
    #[inline]
    fn from(message: Message<'_>) -> Self {
        Self::copied(message, Bytes::copy_from_slice(message.as_bytes()))
    }
}

impl fmt::Display for OwnedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

impl fmt::Debug for OwnedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.view(), f)
    }
}

/// Memory for [`OwnedMessage::pooled`]: chunks of [`CHUNK`](Self::CHUNK) bytes, reused once all
/// their messages are dropped.
///
/// A message or a slice of its payload keeps its chunk in memory; larger messages have their own
/// allocation. To keep a small message for long, copy it: `OwnedMessage::from(message.view())`.
#[derive(Debug, Default)]
pub struct MessagePool {
    /// Empty; its capacity is the rest of the chunk.
    chunk: BytesMut,
}

impl MessagePool {
    /// Chunk size in bytes: three messages of the maximum size in RFC 7252 §4.6.
    pub const CHUNK: usize = 4096;

    /// Creates a pool without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Bytes {
        self.join([bytes])
    }

    #[inline]
    pub(super) fn join<const N: usize>(&mut self, parts: [&[u8]; N]) -> Bytes {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > Self::CHUNK {
            return parts.concat().into();
        }
        if length > self.chunk.capacity() {
            // With a whole chunk, `reserve` can reuse the old one if it is free.
            self.chunk.reserve(Self::CHUNK);
        }
        parts.iter().for_each(|part| self.chunk.extend_from_slice(part));
        self.chunk.split().freeze()
    }
}
