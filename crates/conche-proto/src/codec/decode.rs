//! [`Message`]: a checked view of a datagram (RFC 7252 §3).

use core::ops::Deref;

use thiserror::Error;

use super::header::VERSION;
use super::{Code, Content, Header, MessageId, Token, Type};

/// A well-formed message in a borrowed datagram: type, message ID and [`Content`]. Dereferences to
/// its content.
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
    /// The first violation of RFC 7252 §3 and §4.1, with the header if the message layer needs it
    /// to react. A token longer than eight bytes is a violation.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        Self::read(datagram, Token::MAX_LENGTH)
    }

    /// Decodes a datagram with extended tokens of up to 65 804 bytes (RFC 8974 §2.1).
    ///
    /// # Errors
    ///
    /// As for [`decode`](Self::decode), except that the token lengths 13 and 14 announce an
    /// extended length and only 15 is reserved (RFC 8974).
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

    /// Decodes a datagram. Tokens may exceed eight bytes if `longest_token` does.
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

    /// Restores the message of a datagram that decoded to this header and content.
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
    // A reserved token length has precedence over the check for an Empty message.
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
    /// The first four bytes, if present and of version 1. A malformed Confirmable message is
    /// rejected with a Reset that echoes its message ID (RFC 7252 §4.2). A datagram without this
    /// header is silently ignored (§3).
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
    /// The token length is reserved: 9 to 15 without RFC 8974, 15 with it.
    #[error("the token length is reserved: it is 15, or more than 8 without RFC 8974")]
    TokenLength,
    /// The token is truncated.
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
    /// An option's extension bytes or value are truncated.
    #[error("the message ends inside an option")]
    OptionTruncated,
    /// The deltas add up to an option number above 65535 (RFC 7252 §12.2).
    #[error("an option number exceeds 65535")]
    OptionNumberOverflow,
    /// The payload marker is not followed by a payload.
    #[error("the payload marker is followed by no payload")]
    PayloadMarker,
}
