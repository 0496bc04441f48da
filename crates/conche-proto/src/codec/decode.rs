//! [`Message`]: a checked view of a datagram (RFC 7252 §3).
//!
//! [`Message::decode`] checks everything once, so that whatever is asked later cannot fail and costs no more than a walk
//! over the options.

use thiserror::Error;

use super::header::{HEADER_LENGTH, VERSION};
use super::wire::{PAYLOAD_MARKER, split_option};
use super::{Code, Header, MessageId, OptionNumber, Token, Type, decode_uint};

/// A well-formed message inside a datagram that somebody else owns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) layout: Layout,
}

/// What decoding found out about a datagram; with the bytes it makes a [`Message`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    header: Header,
    token_length: u8,
    /// Where the payload marker is, or the end of the message.
    options_end: usize,
}

impl<'a> Message<'a> {
    /// Checks a datagram and answers the message in it.
    ///
    /// # Errors
    ///
    /// The first violation of RFC 7252 §3 and §4.1, with the header as far as the message layer needs it to react.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        let [first, second, third, fourth, rest @ ..] = datagram else {
            return Err(DecodeError { kind: DecodeErrorKind::TooShort, header: None });
        };
        if first >> 6 != VERSION {
            return Err(DecodeError { kind: DecodeErrorKind::Version, header: None });
        }
        let header = Header::from_bytes([*first, *second, *third, *fourth]);
        let token_length = first & 0xf;
        match options_end(header.code, token_length, rest) {
            Ok(end) => {
                let options_end = HEADER_LENGTH + end;
                Ok(Self { bytes: datagram, layout: Layout { header, token_length, options_end } })
            }
            Err(kind) => Err(DecodeError { kind, header: Some(header) }),
        }
    }

    /// Type, code and message ID.
    #[must_use]
    pub const fn header(&self) -> Header {
        self.layout.header
    }

    /// Type.
    #[must_use]
    pub const fn ty(&self) -> Type {
        self.layout.header.ty
    }

    /// Code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.layout.header.code
    }

    /// Message ID.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        self.layout.header.id
    }

    /// Token.
    #[must_use]
    pub fn token(&self) -> Token {
        self.bytes.get(HEADER_LENGTH..self.options_start()).and_then(Token::new).unwrap_or_default()
    }

    /// All options in the order of the message, unknown and ill-formed ones included.
    #[must_use]
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.bytes.get(self.options_start()..self.layout.options_end).unwrap_or_default(), number: 0 }
    }

    /// The value of this option, of its first occurrence if it is repeatable. As [`values`](Self::values), this passes
    /// over what a recipient has to ignore.
    #[must_use]
    pub fn option(&self, number: OptionNumber) -> Option<&'a [u8]> {
        self.values(number).next()
    }

    /// The value of this option as a number; `None` too when it does not fit 32 bits.
    #[must_use]
    pub fn uint(&self, number: OptionNumber) -> Option<u32> {
        self.option(number).and_then(decode_uint)
    }

    /// The values of this option, without those that count as unrecognised: values of a length out of range
    /// (RFC 7252 §5.4.3), supernumerary occurrences (§5.4.5), options not defined for this message (§5.4).
    #[must_use]
    pub fn values(&self, number: OptionNumber) -> Values<'a> {
        Values::new(self.options(), number, self.code())
    }

    /// The payload; empty when there is none.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.layout.options_end + 1..).unwrap_or_default()
    }

    /// The datagram.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn options_start(&self) -> usize {
        HEADER_LENGTH + usize::from(self.layout.token_length)
    }
}

/// Checks what follows the header and answers where in it the options end.
fn options_end(code: Code, token_length: u8, after_header: &[u8]) -> Result<usize, DecodeErrorKind> {
    if usize::from(token_length) > Token::MAX_LENGTH {
        return Err(DecodeErrorKind::TokenLength);
    }
    if code.is_empty() && (token_length > 0 || !after_header.is_empty()) {
        return Err(DecodeErrorKind::EmptyWithContent);
    }
    let mut rest = after_header.get(usize::from(token_length)..).ok_or(DecodeErrorKind::TokenTruncated)?;
    let mut number = 0_u32;
    loop {
        match rest.split_first() {
            None => return Ok(after_header.len()),
            Some((&PAYLOAD_MARKER, [])) => return Err(DecodeErrorKind::PayloadMarker),
            Some((&PAYLOAD_MARKER, _)) => return Ok(after_header.len() - rest.len()),
            Some((&first, after)) => {
                let option = split_option(first, after)?;
                number += option.delta;
                if number > u16::MAX.into() {
                    return Err(DecodeErrorKind::OptionNumberOverflow);
                }
                rest = option.rest;
            }
        }
    }
}

/// An option as it stands in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// Its number.
    pub number: OptionNumber,
    /// Its value.
    pub value: &'a [u8],
}

/// The options of a message; see [`Message::options`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Checked by [`Message::decode`]: every split succeeds, no number overflows.
    rest: &'a [u8],
    number: u16,
}

impl<'a> Iterator for Options<'a> {
    type Item = RawOption<'a>;

    fn next(&mut self) -> Option<RawOption<'a>> {
        let (&first, after) = self.rest.split_first()?;
        let option = split_option(first, after).ok()?;
        self.number = self.number.checked_add(u16::try_from(option.delta).ok()?)?;
        self.rest = option.rest;
        Some(RawOption { number: OptionNumber(self.number), value: option.value })
    }
}

impl core::iter::FusedIterator for Options<'_> {}

/// The values of one option; see [`Message::values`].
#[derive(Clone, Debug)]
pub struct Values<'a> {
    options: Options<'a>,
    number: OptionNumber,
    spec: Option<&'static super::OptionSpec>,
}

impl<'a> Values<'a> {
    fn new(mut options: Options<'a>, number: OptionNumber, code: Code) -> Self {
        let spec = number.spec();
        if spec.is_some_and(|spec| !spec.used_in.includes(code)) {
            options.rest = &[];
        }
        Self { options, number, spec }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some(option) = self.options.next() {
            if option.number < self.number {
                continue;
            }
            if option.number > self.number {
                break;
            }
            let Some(spec) = self.spec else { return Some(option.value) };
            if !spec.repeatable {
                self.options.rest = &[];
            }
            if spec.allows_length(option.value.len()) {
                return Some(option.value);
            }
        }
        self.options.rest = &[];
        None
    }
}

impl core::iter::FusedIterator for Values<'_> {}

/// A datagram is not a well-formed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
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
