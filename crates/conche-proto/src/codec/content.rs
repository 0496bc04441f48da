//! [`Content`]: code, token, options and payload, independent of the transport (RFC 7252 §3,
//! RFC 8323 §3.2).
//!
//! CoAP over UDP precedes them with type and message ID, CoAP over TCP with a length. Decoding
//! checks everything once, so that later accesses cannot fail and cost at most a walk over the
//! options.

use core::time::Duration;

use super::token::split_length;
use super::wire::{PAYLOAD_MARKER, split_option};
use super::{Code, DecodeErrorKind, OptionNumber, OptionSpec, Token, decode_uint};

/// Well-formed code, token, options and payload in borrowed bytes.
///
/// ```
/// use conche_proto::codec::{Code, Content, OptionNumber};
///
/// // As a CoAP over TCP connection carries it: length 4 and token length 1, code, token, options.
/// let frame = b"\x41\x01\x07\xb3abc";
/// let [lengths, code, behind @ ..] = frame;
/// let content = Content::decode(Code(*code), lengths & 0xf, behind)?;
/// assert_eq!(content.option(OptionNumber::URI_PATH), Some(&b"abc"[..]));
/// assert_eq!(content.to_string(), "GET token=07 Uri-Path=abc");
/// # Ok::<(), conche_proto::codec::DecodeErrorKind>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Content<'a> {
    /// Token, options, payload marker and payload.
    bytes: &'a [u8],
    layout: Layout,
}

/// The result of decoding; together with the bytes it forms a [`Content`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    code: Code,
    /// Length of the extended token length, which precedes the token, in bytes.
    token_start: u8,
    token_end: u32,
    /// The options present, so that a lookup of an absent option needs no walk.
    present: Present,
    /// Offset of the payload marker, or of the end.
    options_end: usize,
}

/// The set of option numbers in a message: one bit per number below 31, the last bit for all
/// others.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Present(u32);

impl Present {
    #[inline]
    fn with(self, number: u32) -> Self {
        Self(self.0 | 1 << number.min(u32::BITS - 1))
    }

    /// Returns `false` if the option is certainly absent.
    #[inline]
    fn may_have(self, OptionNumber(number): OptionNumber) -> bool {
        self.0 >> u32::from(number).min(u32::BITS - 1) & 1 != 0
    }
}

impl<'a> Content<'a> {
    /// Decodes token, options and payload. `tkl` is the token length field of the message.
    ///
    /// # Errors
    ///
    /// The first violation of RFC 7252 §3, including a token longer than eight bytes. The rule that
    /// an Empty message has no content belongs to CoAP over UDP;
    /// [`Message::decode`](super::Message::decode) checks it.
    #[inline]
    pub fn decode(code: Code, tkl: u8, bytes: &'a [u8]) -> Result<Self, DecodeErrorKind> {
        Self::read(code, tkl, bytes, Token::MAX_LENGTH)
    }

    /// Decodes like [`decode`](Self::decode), with extended tokens (RFC 8974 §2.1).
    ///
    /// # Errors
    ///
    /// The first violation of RFC 7252 §3 as updated by RFC 8974.
    #[inline]
    pub fn decode_extended(code: Code, tkl: u8, bytes: &'a [u8]) -> Result<Self, DecodeErrorKind> {
        Self::read(code, tkl, bytes, Token::MAX_EXTENDED_LENGTH)
    }

    #[inline]
    pub(super) fn read(code: Code, tkl: u8, bytes: &'a [u8], longest_token: usize) -> Result<Self, DecodeErrorKind> {
        let (length, rest) = split_length(tkl, bytes, longest_token)?;
        let behind = rest.get(length as usize..).ok_or(DecodeErrorKind::TokenTruncated)?;
        // The extended token length has at most two bytes.
        let token_start = u8::try_from(bytes.len() - rest.len()).unwrap_or_default();
        let (options_end, present) = options_end(bytes.len(), behind)?;
        let layout = Layout { code, token_start, token_end: u32::from(token_start) + length, present, options_end };
        Ok(Self { bytes, layout })
    }

    /// Restores the content from bytes that decoded to this layout.
    pub(super) const fn decoded(bytes: &'a [u8], layout: Layout) -> Self {
        Self { bytes, layout }
    }

    pub(super) const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.layout.code
    }

    /// Returns the token.
    #[must_use]
    #[inline]
    pub fn token(&self) -> Token {
        Token::extended(self.token_bytes()).unwrap_or_default()
    }

    /// Returns the bytes of the token.
    #[must_use]
    #[inline]
    pub fn token_bytes(&self) -> &'a [u8] {
        let Layout { token_start, token_end, .. } = self.layout;
        self.bytes.get(usize::from(token_start)..token_end as usize).unwrap_or_default()
    }

    /// Returns the size of the token in the message, with its extended length, in bytes.
    pub(crate) const fn encoded_token_len(&self) -> usize {
        self.layout.token_end as usize
    }

    /// Returns all options in the order of the message, including unknown and malformed ones.
    #[must_use]
    pub fn options(&self) -> Options<'a> {
        let options = self.layout.token_end as usize..self.layout.options_end;
        Options { rest: self.bytes.get(options).unwrap_or_default(), number: 0 }
    }

    pub(crate) fn encoded_options(&self) -> &'a [u8] {
        self.options().rest
    }

    /// Returns the first value of an option. Like [`values`](Self::values), this skips values that
    /// a recipient must ignore.
    #[must_use]
    #[inline]
    pub fn option(&self, number: OptionNumber) -> Option<&'a [u8]> {
        self.values(number).next()
    }

    /// Returns the value of an option as a number; `None` if it is absent or does not fit 32 bits.
    #[must_use]
    #[inline]
    pub fn uint(&self, number: OptionNumber) -> Option<u32> {
        self.option(number).and_then(decode_uint)
    }

    /// Returns the values of an option without those that count as unrecognised: values of a length
    /// out of range (RFC 7252 §5.4.3), supernumerary occurrences (§5.4.5), options not defined for
    /// this message (§5.4).
    #[must_use]
    #[inline]
    pub fn values(&self, number: OptionNumber) -> Values<'a> {
        match self.layout.present.may_have(number) {
            true => Values::new(self.options(), number, self.code()),
            false => Values { options: Options::encoded(&[]), number, spec: None },
        }
    }

    /// Returns the freshness lifetime of the response: its Max-Age, or 60 s without one (RFC 7252
    /// §5.10.5).
    #[must_use]
    pub fn max_age(&self) -> Duration {
        Duration::from_secs(self.uint(OptionNumber::MAX_AGE).unwrap_or(DEFAULT_MAX_AGE).into())
    }

    /// Returns the payload; empty if there is none.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.layout.options_end + 1..).unwrap_or_default()
    }
}

/// Default Max-Age in seconds.
const DEFAULT_MAX_AGE: u32 = 60;

/// Checks options and payload at the end of a content of `length` bytes. Returns the offset at
/// which the options end, and the options present.
#[inline]
fn options_end(length: usize, mut rest: &[u8]) -> Result<(usize, Present), DecodeErrorKind> {
    let (mut number, mut present) = (0_u32, Present::default());
    loop {
        match rest.split_first() {
            None => return Ok((length, present)),
            Some((&PAYLOAD_MARKER, [])) => return Err(DecodeErrorKind::PayloadMarker),
            Some((&PAYLOAD_MARKER, _)) => return Ok((length - rest.len(), present)),
            Some((&first, after)) => {
                let option = split_option(first, after)?;
                number += option.delta;
                if number > u16::MAX.into() {
                    return Err(DecodeErrorKind::OptionNumberOverflow);
                }
                present = present.with(number);
                rest = option.rest;
            }
        }
    }
}

/// An encoded option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// The option number.
    pub number: OptionNumber,
    /// The option value.
    pub value: &'a [u8],
}

/// Iterator over the options of a message; see [`Content::options`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Checked by [`Content::decode`]: every split succeeds and no number overflows.
    rest: &'a [u8],
    number: u16,
}

impl<'a> Options<'a> {
    /// Iterates over well-formed options, with or without a payload after them.
    pub(super) const fn encoded(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, number: 0 }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = RawOption<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawOption<'a>> {
        let (&first, after) = self.rest.split_first()?;
        let option = split_option(first, after).ok()?;
        self.number = self.number.checked_add(u16::try_from(option.delta).ok()?)?;
        self.rest = option.rest;
        Some(RawOption { number: OptionNumber(self.number), value: option.value })
    }
}

impl core::iter::FusedIterator for Options<'_> {}

/// Iterator over the values of one option; see [`Content::values`].
#[derive(Clone, Debug)]
pub struct Values<'a> {
    options: Options<'a>,
    number: OptionNumber,
    spec: Option<&'static OptionSpec>,
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
