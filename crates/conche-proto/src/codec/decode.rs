//! [`Message`]: a checked view of a datagram (RFC 7252 §3).

use core::ops::Deref;

use thiserror::Error;

use super::header::VERSION;
use super::{Code, Content, Header, MessageId, Token, Type};

/// A well-formed message inside a datagram that somebody else owns: the header's type and message ID, and the
/// [`Content`], whose methods are the message's as well.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    datagram: &'a [u8],
    ty: Type,
    id: MessageId,
    content: Content<'a>,
}

impl<'a> Message<'a> {
    /// Checks a datagram and answers the message in it.
    ///
    /// # Errors
    ///
    /// The first violation of RFC 7252 §3 and §4.1, with the header as far as the message layer needs it to react.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        let [first, second, third, fourth, behind @ ..] = datagram else {
            return Err(DecodeError { kind: DecodeErrorKind::TooShort, header: None });
        };
        if first >> 6 != VERSION {
            return Err(DecodeError { kind: DecodeErrorKind::Version, header: None });
        }
        let header = Header::from_bytes([*first, *second, *third, *fourth]);
        match content(header.code, first & 0xf, behind) {
            Ok(content) => Ok(Self { datagram, ty: header.ty, id: header.id, content }),
            Err(kind) => Err(DecodeError { kind, header: Some(header) }),
        }
    }

    /// A message of a datagram that gave this header and content when it was decoded.
    pub(super) const fn decoded(datagram: &'a [u8], ty: Type, id: MessageId, content: Content<'a>) -> Self {
        Self { datagram, ty, id, content }
    }

    /// Type, code and message ID.
    #[must_use]
    pub const fn header(&self) -> Header {
        Header { ty: self.ty, code: self.content.code(), id: self.id }
    }

    /// Type.
    #[must_use]
    pub const fn ty(&self) -> Type {
        self.ty
    }

    /// Message ID.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        self.id
    }

    /// Code, token, options and payload.
    #[must_use]
    pub const fn content(&self) -> Content<'a> {
        self.content
    }

    /// The datagram.
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
fn content(code: Code, token_length: u8, behind_header: &[u8]) -> Result<Content<'_>, DecodeErrorKind> {
    // A reserved token length is refused as such, even of an Empty message.
    let is_token_length = usize::from(token_length) <= Token::MAX_LENGTH;
    if code.is_empty() && is_token_length && (token_length > 0 || !behind_header.is_empty()) {
        return Err(DecodeErrorKind::EmptyWithContent);
    }
    Content::decode(code, token_length, behind_header)
}

/// A datagram is not a well-formed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[error("{kind}")]
pub struct DecodeError {
    /// What is wrong with it.
    pub kind: DecodeErrorKind,
    /// Its first four bytes, when they are there and of version 1: a malformed Confirmable message is rejected with a
    /// Reset that echoes its message ID (RFC 7252 §4.2). Without it the datagram is silently ignored (§3).
    pub header: Option<Header>,
}

/// What makes a datagram malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// Fewer than four bytes.
    #[error("the datagram is shorter than the 4-byte header")]
    TooShort,
    /// The version is not 1.
    #[error("the version is not 1")]
    Version,
    /// The token length is one of the reserved 9 to 15.
    #[error("the token length is reserved: tokens have at most 8 bytes")]
    TokenLength,
    /// The token is cut off.
    #[error("the message ends inside its token")]
    TokenTruncated,
    /// An Empty message has a token or bytes after the message ID (RFC 7252 §4.1).
    #[error("an Empty message carries a token or content")]
    EmptyWithContent,
    /// An option's delta has the reserved value 15.
    #[error("an option delta has the reserved value 15")]
    OptionDelta,
    /// An option's length has the reserved value 15.
    #[error("an option length has the reserved value 15")]
    OptionLength,
    /// An option's extension bytes or value are cut off.
    #[error("the message ends inside an option")]
    OptionTruncated,
    /// The deltas add up to a number that no option has (RFC 7252 §12.2).
    #[error("an option number exceeds 65535")]
    OptionNumberOverflow,
    /// Nothing follows the payload marker.
    #[error("the payload marker is followed by no payload")]
    PayloadMarker,
}
