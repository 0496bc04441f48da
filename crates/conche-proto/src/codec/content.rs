//! [`Content`]: code, token, options and payload, independent of the transport (RFC 7252 §3, RFC
//! 8323 §3.2), and URI components (RFC 7252 §6.5). Decoding checks them once; later accesses cannot
//! fail.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use super::option::{PAYLOAD_MARKER, split_option};
use super::token::split_length;
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
    bytes: &'a [u8],
    layout: Layout,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    code: Code,
    /// Size of the extended token length before the token, in bytes.
    token_start: u8,
    token_end: u32,
    /// Lets a lookup of an absent option skip the walk.
    present: OptionSet,
    /// Offset of the payload marker, or of the end.
    options_end: usize,
}

/// A set of option numbers: a bit for each below 31, and one for all others.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct OptionSet(u32);

impl OptionSet {
    #[inline]
    fn with(self, number: u32) -> Self {
        Self(self.0 | 1 << number.min(u32::BITS - 1))
    }

    #[inline]
    fn may_have(self, OptionNumber(number): OptionNumber) -> bool {
        self.0 >> u32::from(number).min(u32::BITS - 1) & 1 != 0
    }
}

impl<'a> Content<'a> {
    /// Decodes token, options and payload. `tkl` is the token length field.
    ///
    /// # Errors
    ///
    /// The first violation of RFC 7252 §3, including a token longer than eight bytes. Content in an
    /// Empty message is only an error over UDP, for [`Message::decode`](super::Message::decode).
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
        // At most two bytes.
        let token_start = u8::try_from(bytes.len() - rest.len()).unwrap_or_default();
        let (options_end, present) = options_end(bytes.len(), behind)?;
        let layout = Layout { code, token_start, token_end: u32::from(token_start) + length, present, options_end };
        Ok(Self { bytes, layout })
    }

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

    /// Returns the bytes of the token with its extended length.
    pub(crate) const fn encoded_token_len(&self) -> usize {
        self.layout.token_end as usize
    }

    /// Returns all options in order, including unknown and malformed ones.
    #[must_use]
    pub fn options(&self) -> Options<'a> {
        let options = self.layout.token_end as usize..self.layout.options_end;
        Options { rest: self.bytes.get(options).unwrap_or_default(), number: 0 }
    }

    pub(crate) fn encoded_options(&self) -> &'a [u8] {
        self.options().rest
    }

    /// Returns the first of the option's [`values`](Self::values).
    #[must_use]
    #[inline]
    pub fn option(&self, number: OptionNumber) -> Option<&'a [u8]> {
        self.values(number).next()
    }

    /// Returns an option as a number; `None` if absent or longer than 32 bits. As for all
    /// [`values`](Self::values), an elective option with an undefined length counts as absent.
    #[must_use]
    #[inline]
    pub fn uint(&self, number: OptionNumber) -> Option<u32> {
        self.option(number).and_then(decode_uint)
    }

    /// Returns the recognised values of an option. Excluded are those of a length out of range (RFC
    /// 7252 §5.4.3), supernumerary (§5.4.5), or not defined for this message (§5.4).
    #[must_use]
    #[inline]
    pub fn values(&self, number: OptionNumber) -> Values<'a> {
        match self.layout.present.may_have(number) {
            true => Values::new(self.options(), number, self.code()),
            false => Values { options: Options::encoded(&[]), number, spec: None },
        }
    }

    /// Returns Max-Age; 60 s if absent (RFC 7252 §5.10.5).
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

const DEFAULT_MAX_AGE: u32 = 60;

/// Checks the end of a content of `length` bytes. Returns the end of the options, and the options
/// present.
#[inline]
fn options_end(length: usize, mut rest: &[u8]) -> Result<(usize, OptionSet), DecodeErrorKind> {
    let (mut number, mut present) = (0_u32, OptionSet::default());
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
    /// Checked by [`Content::decode`].
    rest: &'a [u8],
    number: u16,
}

impl<'a> Options<'a> {
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

impl<'a> Content<'a> {
    /// Returns the first unrecognised critical option, which causes a rejection or 4.02 (RFC 7252
    /// §5.4.1). An option is unrecognised if
    ///
    /// - it is neither [recognised](field@super::OptionSpec::recognised) by the endpoint nor
    ///   `also_known`,
    /// - it is not defined for this code (§5.4),
    /// - its length is out of range (§5.4.3),
    /// - it is repeated but not repeatable (§5.4.5).
    #[must_use]
    pub fn unacceptable_option(&self, also_known: &[OptionNumber]) -> Option<OptionNumber> {
        self.pass_acceptable(also_known, |_| ()).err()
    }

    /// Calls `pass` for each option up to the invalid one.
    #[inline]
    pub(crate) fn pass_acceptable(
        &self,
        also_known: &[OptionNumber],
        mut pass: impl FnMut(RawOption<'a>),
    ) -> Result<(), OptionNumber> {
        let mut previous = OptionNumber(0);
        for (position, option) in self.options().enumerate() {
            let repeated = core::mem::replace(&mut previous, option.number) == option.number && position > 0;
            pass(option);
            if option.number.is_critical() && !self.recognised(option, repeated, also_known) {
                return Err(option.number);
            }
        }
        Ok(())
    }

    #[inline]
    fn recognised(&self, option: RawOption<'_>, repeated: bool, also_known: &[OptionNumber]) -> bool {
        let Some(spec) = option.number.spec() else { return also_known.contains(&option.number) };
        (spec.recognised || also_known.contains(&option.number))
            && spec.used_in.includes(self.code())
            && spec.allows_length(option.value.len())
            && (spec.repeatable || !repeated)
    }
}

/// The default port, which a URI omits (RFC 7252 §6.1).
const DEFAULT_PORT: u32 = 5683;

impl<'a> Content<'a> {
    /// Returns the path of the request's URI (RFC 7252 §6.5): `/` for the root, otherwise `/`
    /// before each segment.
    ///
    /// Reserved characters are percent-encoded: the single segment `a/b` gives `/a%2Fb`.
    #[must_use]
    pub fn uri_path(&self) -> String {
        encode_path(self.values(OptionNumber::URI_PATH))
    }

    /// Returns the URI of a request to `destination` (RFC 7252 §6.5). Uri-Host and Uri-Port take
    /// precedence.
    #[must_use]
    pub fn request_uri(&self, destination: SocketAddr) -> String {
        let mut uri = String::from("coap://");
        match (self.option(OptionNumber::URI_HOST), destination.ip()) {
            // Brackets enclose an IP literal.
            (Some(host @ [b'[', .., b']']), _) => push_encoded(&mut uri, host, is_literal_of_address),
            (Some(host), _) => push_encoded(&mut uri, host, is_host_literal),
            (None, IpAddr::V4(address)) => uri.push_str(&format!("{address}")),
            (None, IpAddr::V6(address)) => uri.push_str(&format!("[{address}]")),
        }
        let port = self.uint(OptionNumber::URI_PORT).unwrap_or_else(|| destination.port().into());
        if port != DEFAULT_PORT {
            uri.push_str(&format!(":{port}"));
        }
        uri.push_str(&self.uri_path());
        let mut arguments = self.values(OptionNumber::URI_QUERY).peekable();
        if arguments.peek().is_some() {
            uri.push('?');
            uri.push_str(&encode_query(arguments));
        }
        uri
    }

    /// Returns the location of a created resource, as path and query (RFC 7252 §5.10.7); `None`
    /// without location options.
    #[must_use]
    pub fn location(&self) -> Option<String> {
        let segments = self.values(OptionNumber::LOCATION_PATH);
        let mut arguments = self.values(OptionNumber::LOCATION_QUERY).peekable();
        if segments.clone().next().is_none() && arguments.peek().is_none() {
            return None;
        }
        let mut location = encode_path(segments);
        if arguments.peek().is_some() {
            location.push('?');
            location.push_str(&encode_query(arguments));
        }
        Some(location)
    }

    /// Returns the query arguments, `key=value` or `key`, not percent-encoded. U+FFFD replaces
    /// bytes that are not UTF-8.
    pub fn uri_queries(&self) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        self.values(OptionNumber::URI_QUERY).map(String::from_utf8_lossy)
    }
}

/// Returns the absolute path of these segments, percent-encoded (RFC 7252 §6.5, steps 6 and 7); `/`
/// without segments.
#[must_use]
pub fn encode_path<'a>(segments: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        push_encoded(&mut path, segment, is_path_literal);
    }
    if path.is_empty() {
        path.push('/');
    }
    path
}

/// Returns the query of these arguments, percent-encoded and joined by `&` (RFC 7252 §6.5, steps 8
/// and 9).
#[must_use]
pub fn encode_query<'a>(arguments: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut query = String::new();
    for (index, argument) in arguments.into_iter().enumerate() {
        if index > 0 {
            query.push('&');
        }
        push_encoded(&mut query, argument, is_query_literal);
    }
    query
}

fn push_encoded(text: &mut String, bytes: &[u8], is_literal: fn(u8) -> bool) {
    const HEXADECIMAL: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if is_literal(byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push(char::from(HEXADECIMAL[usize::from(byte >> 4)]));
            text.push(char::from(HEXADECIMAL[usize::from(byte & 0xf)]));
        }
    }
}

/// pchar of RFC 3986: unreserved, sub-delims, `:` and `@`.
fn is_path_literal(byte: u8) -> bool {
    byte == b'&' || is_query_literal(byte) && !matches!(byte, b'/' | b'?')
}

/// reg-name of RFC 3986: unreserved and sub-delims.
fn is_host_literal(byte: u8) -> bool {
    is_path_literal(byte) && !matches!(byte, b':' | b'@')
}

/// An IP literal with its brackets.
fn is_literal_of_address(byte: u8) -> bool {
    is_host_literal(byte) || matches!(byte, b':' | b'[' | b']')
}

/// pchar, `/` and `?`, without the separator `&`.
fn is_query_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$'()*+,;=:@/?".contains(&byte)
}
