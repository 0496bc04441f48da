//! [`Body`]: encoded options and payload of an outgoing message.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use bytes::Bytes;
use smallvec::SmallVec;
use thiserror::Error;

use super::message::HEADER_LENGTH;
use super::option::{OptionHeader, PAYLOAD_MARKER};
use super::{
    Code, Content, ContentFormat, Encoder, Header, MAX_OPTION_LENGTH, MessagePool, OptionNumber, Options, OwnedMessage,
    RawOption, Token, UintBytes, encode_uint,
};

/// Encoded options and payload of a message. Clones share the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Body {
    bytes: Bytes,
}

impl Body {
    /// A body without options and payload.
    pub const EMPTY: Self = Self { bytes: Bytes::new() };

    /// Requires well-formed options and payload.
    pub(crate) const fn encoded(bytes: Bytes) -> Self {
        Self { bytes }
    }

    /// Returns a builder for a new body.
    #[must_use]
    pub fn builder() -> BodyBuilder {
        BodyBuilder::default()
    }

    /// Encodes a payload and its content format in memory of a [`MessagePool`].
    #[must_use]
    pub fn pooled(format: Option<ContentFormat>, payload: &[u8], pool: &mut MessagePool) -> Self {
        let format = format.and_then(|format| {
            let value = encode_uint(format.0.into());
            Some((OptionHeader::new(OptionNumber::CONTENT_FORMAT.0, value.len().into())?, value))
        });
        let marker = if payload.is_empty() { &[][..] } else { &[PAYLOAD_MARKER] };
        let bytes = match format {
            Some((header, value)) => {
                pool.join([&header.padded()[..usize::from(header.len())], value.as_slice(), marker, payload])
            }
            None => pool.join([marker, payload]),
        };
        Self { bytes }
    }

    pub(super) const fn shared(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the encoded bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the options in order.
    #[must_use]
    pub fn options(&self) -> Options<'_> {
        // The iterator stops at the payload marker.
        Options::encoded(&self.bytes)
    }

    /// Returns the first value of an option.
    #[must_use]
    pub fn option(&self, number: OptionNumber) -> Option<&[u8]> {
        self.options().find(|option| option.number == number).map(|option| option.value)
    }

    /// Returns a builder with these options, which shares the payload.
    #[must_use]
    pub fn to_builder(&self) -> BodyBuilder {
        BodyBuilder::new().options(self.options()).payload(self.payload())
    }

    /// Returns the number of encoded bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns `true` if there are neither options nor payload.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

const INLINE_OPTIONS: usize = 8;

/// Collects options in any order, and a payload.
///
/// ```
/// use conche_proto::codec::{BodyBuilder, OptionNumber};
///
/// let body = BodyBuilder::new().uint(OptionNumber::ACCEPT, 40).path("/.well-known/core").query("rt=temp").build()?;
/// assert_eq!(body.as_bytes(), b"\xbb.well-known\x04core\x47rt=temp\x21\x28");
/// # Ok::<(), conche_proto::codec::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BodyBuilder {
    options: SmallVec<[Entry; INLINE_OPTIONS]>,
    /// Concatenated in the order of the calls.
    values: SmallVec<[u8; 64]>,
    payload: Bytes,
}

#[derive(Clone, Debug)]
struct Entry {
    number: OptionNumber,
    value: Range<usize>,
}

impl BodyBuilder {
    /// Creates a builder without options and payload.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an option. Options of one number keep the order of the calls.
    #[must_use]
    pub fn option(mut self, number: OptionNumber, value: &[u8]) -> Self {
        let start = self.values.len();
        self.values.extend_from_slice(value);
        self.options.push(Entry { number, value: start..self.values.len() });
        self
    }

    /// Adds decoded options.
    #[must_use]
    pub fn options<'a>(self, options: impl IntoIterator<Item = RawOption<'a>>) -> Self {
        options.into_iter().fold(self, |builder, option| builder.option(option.number, option.value))
    }

    /// Adds an option of format uint in its shortest form.
    #[must_use]
    pub fn uint(self, number: OptionNumber, value: u32) -> Self {
        self.option(number, encode_uint(value).as_slice())
    }

    /// Adds Content-Format.
    #[must_use]
    pub fn content_format(self, format: ContentFormat) -> Self {
        self.uint(OptionNumber::CONTENT_FORMAT, format.0.into())
    }

    /// Adds a Uri-Path option for each segment of an absolute path (RFC 7252 §6.4): none for `/`,
    /// an empty one after a trailing slash. Does not percent-decode.
    #[must_use]
    pub fn path(self, path: &str) -> Self {
        match path.strip_prefix('/').unwrap_or(path) {
            "" => self,
            segments => segments.split('/').fold(self, Self::segment),
        }
    }

    /// Adds one Uri-Path segment, which may contain any character.
    #[must_use]
    pub fn segment(self, segment: &str) -> Self {
        self.option(OptionNumber::URI_PATH, segment.as_bytes())
    }

    /// Adds one Uri-Query argument, `key=value` or `key`.
    #[must_use]
    pub fn query(self, argument: &str) -> Self {
        self.option(OptionNumber::URI_QUERY, argument.as_bytes())
    }

    /// Returns the first value of an option.
    #[must_use]
    pub fn value(&self, number: OptionNumber) -> Option<&[u8]> {
        let entry = self.options.iter().find(|entry| entry.number == number)?;
        self.values.get(entry.value.clone())
    }

    /// Sets the payload.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Returns `true` if there are neither options nor payload.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.options.is_empty() && self.payload.is_empty()
    }

    /// Sorts the options and encodes the body.
    ///
    /// # Errors
    ///
    /// If [`OptionNumber::spec`] does not allow an option's value or repetition. For unknown
    /// options, only the maximum length is checked.
    pub fn build(mut self) -> Result<Body, BuildError> {
        self.options.sort_by_key(|entry| entry.number);
        let headers = self.option_headers()?;
        let options = headers.iter().map(|header| usize::from(header.len())).sum::<usize>() + self.values.len();
        let marker = usize::from(!self.payload.is_empty());
        // `Bytes` reallocates a vector with spare capacity.
        let mut bytes = Vec::with_capacity(options + marker + self.payload.len());
        for (header, Entry { value, .. }) in headers.into_iter().zip(self.options) {
            bytes.extend(header.bytes());
            bytes.extend_from_slice(self.values.get(value).unwrap_or_default());
        }
        if !self.payload.is_empty() {
            bytes.push(PAYLOAD_MARKER);
            bytes.extend_from_slice(&self.payload);
        }
        Ok(Body { bytes: bytes.into() })
    }

    fn option_headers(&self) -> Result<SmallVec<[OptionHeader; INLINE_OPTIONS]>, BuildError> {
        let mut previous = None;
        let headers = self.options.iter().map(|Entry { number, value }| {
            let value = self.values.get(value.clone()).unwrap_or_default();
            check(*number, value, previous == Some(*number))?;
            let delta = number.0 - previous.map_or(0, |OptionNumber(previous)| previous);
            previous = Some(*number);
            OptionHeader::new(delta, value.len()).ok_or_else(|| BuildError::length(*number, value))
        });
        headers.collect()
    }
}

fn check(number: OptionNumber, value: &[u8], repeated: bool) -> Result<(), BuildError> {
    if number == OptionNumber::URI_PATH && matches!(value, b"." | b"..") {
        return Err(BuildError::DotSegment);
    }
    let Some(spec) = number.spec() else { return Ok(()) };
    if repeated && !spec.repeatable {
        return Err(BuildError::Repeated { number });
    }
    if !spec.allows_length(value.len()) {
        return Err(BuildError::length(number, value));
    }
    Ok(())
}

/// Reason why a body cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The value's length is outside the option's range.
    #[error("a value of {length} bytes for option {number}: {} to {} bytes are allowed", allowed.start(), allowed.end())]
    ValueLength {
        /// The option.
        number: OptionNumber,
        /// Length of the given value, in bytes.
        length: usize,
        /// Allowed lengths, in bytes.
        allowed: RangeInclusive<usize>,
    },
    /// An option that is not repeatable was added again.
    #[error("option {number} was given more than once, but it is not repeatable")]
    Repeated {
        /// The option.
        number: OptionNumber,
    },
    /// A path segment is `.` or `..` (RFC 7252 §5.10.1).
    #[error("a path segment is \".\" or \"..\": resolve the path first")]
    DotSegment,
}

impl BuildError {
    fn length(number: OptionNumber, value: &[u8]) -> Self {
        let allowed = number
            .spec()
            .map_or(0..=MAX_OPTION_LENGTH, |spec| usize::from(*spec.length.start())..=usize::from(*spec.length.end()));
        Self::ValueLength { number, length: value.len(), allowed }
    }
}

impl Body {
    /// Returns the body as the content of a message with this code.
    #[must_use]
    pub fn content(&self, code: Code) -> Option<Content<'_>> {
        // Always `Some`: a built body is well-formed.
        Content::decode(code, 0, self.as_bytes()).ok()
    }

    /// Returns the payload without a copy.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        match self.payload_slice() {
            [] => Bytes::new(),
            payload => self.shared().slice_ref(payload),
        }
    }

    pub(crate) fn payload_slice(&self) -> &[u8] {
        self.content(Code::CONTENT).map_or(&[], |content| content.payload())
    }

    pub(crate) fn with_etag(&self, etag: &[u8]) -> Self {
        self.with_options(&|_| true, &[RawOption { number: OptionNumber::ETAG, value: etag }], &self.payload())
    }

    /// Returns a copy with this Request-Tag (RFC 9175 §3).
    pub(crate) fn with_request_tag(&self, tag: &[u8]) -> Self {
        const NUMBER: OptionNumber = OptionNumber::REQUEST_TAG;
        self.with_options(&|number| number != NUMBER, &[RawOption { number: NUMBER, value: tag }], &self.payload())
    }

    /// Returns a copy in which this option of format uint replaces others of its number.
    #[must_use]
    pub fn with_uint(&self, number: OptionNumber, value: u32) -> Self {
        self.rewritten(|other| other != number, &[(number, encode_uint(value))], &self.payload())
    }

    /// Returns a copy with the options selected by `kept`, the options `added`, and this payload.
    pub(crate) fn rewritten(
        &self,
        kept: impl Fn(OptionNumber) -> bool,
        added: &[(OptionNumber, UintBytes)],
        payload: &[u8],
    ) -> Self {
        self.with_uints(&kept, added, payload)
    }

    /// Not generic: compiled once.
    fn with_uints(
        &self,
        kept: &dyn Fn(OptionNumber) -> bool,
        added: &[(OptionNumber, UintBytes)],
        payload: &[u8],
    ) -> Self {
        let added: SmallVec<[RawOption<'_>; 4]> =
            added.iter().map(|(number, value)| RawOption { number: *number, value: value.as_slice() }).collect();
        self.with_options(kept, &added, payload)
    }

    fn with_options(&self, kept: &dyn Fn(OptionNumber) -> bool, added: &[RawOption<'_>], payload: &[u8]) -> Self {
        let mut options: SmallVec<[RawOption<'_>; 16]> = SmallVec::new();
        if let Some(content) = self.content(Code::CONTENT) {
            options.extend(content.options().filter(|option| kept(option.number)));
        }
        options.extend_from_slice(added);
        options.sort_by_key(|option| option.number);
        let mut bytes = Vec::with_capacity(content_length(&options, payload));
        write_content(&mut bytes, &options, payload);
        Self::encoded(bytes.into())
    }
}

impl Content<'_> {
    pub(crate) fn options_without(&self, left_out: impl Fn(OptionNumber) -> bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_options(&mut bytes, self.options().filter(|option| !left_out(option.number)));
        bytes
    }
}

/// Returns the encoded size of ascending options and a payload.
pub(crate) fn content_length(options: &[RawOption<'_>], payload: &[u8]) -> usize {
    encoded_length(options) + marked_length(payload)
}

pub(crate) fn write_content(bytes: &mut Vec<u8>, options: &[RawOption<'_>], payload: &[u8]) {
    write_options(bytes, options.iter().copied());
    if !payload.is_empty() {
        bytes.push(PAYLOAD_MARKER);
        bytes.extend_from_slice(payload);
    }
}

fn marked_length(payload: &[u8]) -> usize {
    payload.len() + usize::from(!payload.is_empty())
}

fn encoded_length(options: &[RawOption<'_>]) -> usize {
    let mut before = 0;
    let length = |option: &RawOption<'_>| {
        let delta = option.number.0 - core::mem::replace(&mut before, option.number.0);
        OptionHeader::new(delta, option.value.len()).map_or(0, |header| header.len().into()) + option.value.len()
    };
    options.iter().map(length).sum()
}

fn write_options<'a>(bytes: &mut Vec<u8>, options: impl IntoIterator<Item = RawOption<'a>>) {
    let mut before = 0;
    for option in options {
        let Some(header) = OptionHeader::new(option.number.0 - before, option.value.len()) else { continue };
        before = option.number.0;
        bytes.extend(header.bytes());
        bytes.extend_from_slice(option.value);
    }
}

/// A message assembled from consecutive parts of its payload. The buffer reserves room for the
/// longest header and token, which come with the last part.
#[derive(Debug)]
pub(crate) struct JoinedBody {
    code: Code,
    bytes: Vec<u8>,
    start: usize,
}

const FRONT: usize = HEADER_LENGTH + Token::MAX_LENGTH;

impl JoinedBody {
    pub(crate) fn new(content: &Content<'_>, kept: impl Fn(OptionNumber) -> bool) -> Self {
        let options: SmallVec<[RawOption<'_>; 16]> = content.options().filter(|option| kept(option.number)).collect();
        let mut bytes = Vec::with_capacity(FRONT + encoded_length(&options) + 1 + content.payload().len());
        bytes.resize(FRONT, 0);
        write_options(&mut bytes, options);
        bytes.push(PAYLOAD_MARKER);
        let start = bytes.len();
        Self { code: content.code(), bytes, start }
    }

    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the capacity for `more` payload bytes. It grows by half, up to a payload of `most`
    /// bytes, so that parts are copied twice on average.
    pub(crate) fn capacity_with(&self, more: usize, most: usize) -> usize {
        let needed = self.bytes.len().saturating_add(more);
        if needed <= self.bytes.capacity() {
            return self.bytes.capacity();
        }
        (self.bytes.capacity() / 2 * 3).min(self.start.saturating_add(most)).max(needed)
    }

    pub(crate) fn push(&mut self, part: &[u8], most: usize) {
        let capacity = self.capacity_with(part.len(), most);
        self.bytes.reserve_exact(capacity.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(part);
    }

    pub(crate) fn finish(mut self, header: Header, token: &Token) -> Option<OwnedMessage> {
        if self.bytes.len() == self.start {
            self.bytes.pop();
        }
        let header = Header { code: self.code, ..header }.to_bytes(token.tkl());
        let Some(front) = FRONT.checked_sub(HEADER_LENGTH + token.encoded_len()) else {
            // An extended token (RFC 8974) exceeds the reserved room.
            let mut bytes = vec![0; HEADER_LENGTH + token.encoded_len()];
            Encoder::framed(&mut bytes, &header, token).ok()?;
            bytes.extend_from_slice(self.bytes.get(FRONT..)?);
            return OwnedMessage::read(bytes.into(), Token::MAX_EXTENDED_LENGTH).ok();
        };
        Encoder::framed(self.bytes.get_mut(front..FRONT)?, &header, token).ok()?;
        OwnedMessage::from_bytes(Bytes::from(self.bytes).slice(front..)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{ContentFormat, Message, MessageId, Type};

    #[test]
    fn a_body_is_rewritten_in_the_order_of_its_options() {
        let body = Body::builder().path("/large").uint(OptionNumber::ACCEPT, 0).payload("0123456789").build();
        let body = body.expect("legal options");
        let size = (OptionNumber::BLOCK2, encode_uint(0x16));
        let block = body.rewritten(|number| number != OptionNumber::ACCEPT, &[size], &body.payload()[2..4]);
        assert_eq!(block.as_bytes(), b"\xb5large\xc1\x16\xff23");
        assert_eq!(body.rewritten(|_| true, &[], b"").payload(), Bytes::new());
        assert_eq!(body.rewritten(|_| true, &[], &body.payload()), body);
    }

    #[test]
    fn parts_are_joined_behind_the_header_of_the_last_one() {
        let content = Content::decode(Code::PUT, 0, b"\xb1a\xd1\x03\x08\xff01").expect("well-formed");
        for token in [&b""[..], b"t", b"8 bytes!", b"9 bytes..", &[7; 13], &[7; 300]] {
            let mut joined = JoinedBody::new(&content, |number| number != OptionNumber::BLOCK1);
            for part in [&b"0123"[..], b"45", b"6"] {
                joined.push(part, 7);
            }
            assert_eq!(joined.payload(), b"0123456");
            let header = Header { ty: Type::NonConfirmable, code: Code::EMPTY, id: MessageId(7) };
            let whole = joined.finish(header, &Token::extended(token).expect("short")).expect("well-formed");
            assert_eq!((whole.header().ty, whole.header().id, whole.code()), (header.ty, header.id, Code::PUT));
            assert_eq!((whole.token().as_slice(), whole.payload()), (token, &b"0123456"[..]));
            assert_eq!(whole.option(OptionNumber::URI_PATH), Some(&b"a"[..]));
            assert_eq!(whole.option(OptionNumber::BLOCK1), None);
            assert!(Message::decode_extended(whole.view().as_bytes()).is_ok());
        }
    }

    #[test]
    fn nothing_joined_has_no_payload_marker() {
        let content = Content::decode(Code::CONTENT, 0, b"").expect("well-formed");
        let header = Header { ty: Type::Acknowledgement, code: Code::CONTENT, id: MessageId(7) };
        let whole = JoinedBody::new(&content, |_| true).finish(header, &Token::EMPTY).expect("well-formed");
        assert_eq!(whole.view().as_bytes(), b"\x60\x45\x00\x07");
    }

    #[test]
    fn an_option_put_in_stands_where_a_builder_would_have_put_it() {
        let with = |etag: &[u8], observe: Option<u32>, payload: &'static str| {
            let mut body = Body::builder().option(OptionNumber::ETAG, etag).content_format(ContentFormat::JSON);
            if let Some(value) = observe {
                body = body.uint(OptionNumber::OBSERVE, value);
            }
            body.option(OptionNumber(2_000), b"far").payload(payload).build().expect("legal options")
        };
        for payload in ["", "21.5"] {
            for value in [0, 1, 0x1234, 0xff_ffff] {
                let wanted = with(b"tag", Some(value), payload);
                assert_eq!(with(b"tag", None, payload).with_uint(OptionNumber::OBSERVE, value), wanted);
                assert_eq!(with(b"tag", Some(77), payload).with_uint(OptionNumber::OBSERVE, value), wanted);
            }
        }
        assert_eq!(Body::EMPTY.with_uint(OptionNumber::OBSERVE, 7).as_bytes(), b"\x61\x07");
    }
}
