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

/// A well-formed message and the datagram that it is in, in memory that it shares with its clones, with the slices taken
/// of it, and with its neighbours when it is [pooled](Self::pooled).
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedMessage {
    datagram: Bytes,
    ty: Type,
    id: MessageId,
    layout: Layout,
}

impl OwnedMessage {
    /// Checks a datagram and keeps it.
    ///
    /// # Errors
    ///
    /// As [`Message::decode`].
    pub fn decode(datagram: impl Into<Box<[u8]>>) -> Result<Self, DecodeError> {
        Self::from_bytes(Bytes::from(datagram.into()))
    }

    /// Checks a datagram and keeps it without a copy.
    ///
    /// # Errors
    ///
    /// As [`Message::decode`].
    pub fn from_bytes(datagram: Bytes) -> Result<Self, DecodeError> {
        Self::read(datagram, Token::MAX_LENGTH)
    }

    pub(super) fn read(datagram: Bytes, longest_token: usize) -> Result<Self, DecodeError> {
        let message = Message::read(&datagram, longest_token)?;
        let (ty, id, layout) = (message.ty(), message.id(), message.layout());
        Ok(Self { datagram, ty, id, layout })
    }

    /// Encodes a message, as if it had been received. `None` if it would not be legal: an Empty one has no content.
    #[must_use]
    pub fn encode(ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Option<Self> {
        let mut datagram = vec![0; HEADER_LENGTH + token.encoded_len() + body.len()];
        Encoder::new(&mut datagram, ty, code, id, token).ok()?.body(body).ok()?;
        Self::read(datagram.into(), Token::MAX_EXTENDED_LENGTH).ok()
    }

    /// Copies a message into a pool, which allocates nothing as long as earlier ones are dropped in time. What one that
    /// is kept for long costs is said at [`MessagePool`].
    #[must_use]
    #[inline]
    pub fn pooled(message: Message<'_>, pool: &mut MessagePool) -> Self {
        Self::copied(message, pool.copy(message.as_bytes()))
    }

    /// `message` in a copy of its datagram.
    #[inline]
    fn copied(message: Message<'_>, datagram: Bytes) -> Self {
        Self { datagram, ty: message.ty(), id: message.id(), layout: message.layout() }
    }

    /// The message, borrowed; everything that is not forwarded below is asked there.
    #[must_use]
    pub fn view(&self) -> Message<'_> {
        Message::decoded(&self.datagram, self.ty, self.id, self.content())
    }

    /// As [`Message::content`].
    #[must_use]
    pub fn content(&self) -> Content<'_> {
        Content::decoded(self.datagram.get(HEADER_LENGTH..).unwrap_or_default(), self.layout)
    }

    /// As [`Message::header`].
    #[must_use]
    pub fn header(&self) -> Header {
        self.view().header()
    }

    /// As [`Content::code`].
    #[must_use]
    pub fn code(&self) -> Code {
        self.content().code()
    }

    /// As [`Content::token`].
    #[must_use]
    pub fn token(&self) -> Token {
        self.content().token()
    }

    /// As [`Content::option`].
    #[must_use]
    pub fn option(&self, number: OptionNumber) -> Option<&[u8]> {
        self.content().option(number)
    }

    /// As [`Content::uint`].
    #[must_use]
    pub fn uint(&self, number: OptionNumber) -> Option<u32> {
        self.content().uint(number)
    }

    /// As [`Content::values`].
    #[must_use]
    pub fn values(&self, number: OptionNumber) -> Values<'_> {
        self.content().values(number)
    }

    /// As [`Content::payload`].
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.content().payload()
    }

    /// The payload, shared with this message instead of copied: it keeps the whole datagram in memory.
    #[must_use]
    pub fn payload_bytes(&self) -> Bytes {
        self.datagram.slice_ref(self.payload())
    }

    /// As [`Content::uri_path`].
    #[must_use]
    pub fn uri_path(&self) -> String {
        self.content().uri_path()
    }

    /// As [`Content::uri_queries`].
    pub fn uri_queries(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.content().uri_queries()
    }
}

/// Copies the message into memory of its own.
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
