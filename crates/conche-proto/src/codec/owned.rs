//! [`OwnedMessage`]: a received message that outlives its datagram.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use core::fmt;

use bytes::Bytes;

use super::content::Layout;
use super::header::HEADER_LENGTH;
use super::{
    Body, Code, Content, DecodeError, Encoder, Header, Message, MessageId, MessagePool, OptionNumber, Token, Type,
    Values,
};

/// A well-formed message with its datagram. Clones, payload slices and [pooled](Self::pooled)
/// neighbours share the memory.
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

    /// Encodes a message as if it had been received; `None` for an Empty message with content.
    #[must_use]
    pub fn encode(ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Option<Self> {
        let mut datagram = vec![0; HEADER_LENGTH + token.encoded_len() + body.len()];
        Encoder::new(&mut datagram, ty, code, id, token).ok()?.body(body).ok()?;
        Self::read(datagram.into(), Token::MAX_EXTENDED_LENGTH).ok()
    }

    /// Copies a message into a pool. This does not allocate as long as earlier messages are dropped
    /// in time; [`MessagePool`] describes the cost of keeping one.
    #[must_use]
    #[inline]
    pub fn pooled(message: Message<'_>, pool: &mut MessagePool) -> Self {
        Self::copied(message, pool.copy(message.as_bytes()))
    }

    #[inline]
    fn copied(message: Message<'_>, datagram: Bytes) -> Self {
        Self { datagram, ty: message.ty(), id: message.id(), layout: message.layout() }
    }

    /// Returns the borrowed message, for the methods that are not forwarded below.
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

    /// Returns the payload without a copy: it keeps the whole datagram in memory.
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

/// Copies the message into its own allocation.
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
