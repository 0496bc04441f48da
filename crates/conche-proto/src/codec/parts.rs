//! Rewrites options and payloads, to split bodies into blocks and to reassemble them.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use smallvec::SmallVec;

use super::body::Body;
use super::header::HEADER_LENGTH;
use super::wire::{OptionHeader, PAYLOAD_MARKER};
use super::{Code, Content, Encoder, Header, OptionNumber, OwnedMessage, RawOption, Token, UintBytes, encode_uint};

impl Body {
    /// Returns options and payload as the content of a message with this code.
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

    /// Returns a copy with this ETag added.
    pub(crate) fn with_etag(&self, etag: &[u8]) -> Self {
        self.with_options(&|_| true, &[RawOption { number: OptionNumber::ETAG, value: etag }], &self.payload())
    }

    /// Returns a copy with this Request-Tag in place of its own (RFC 9175 §3).
    pub(crate) fn with_request_tag(&self, tag: &[u8]) -> Self {
        const NUMBER: OptionNumber = OptionNumber::REQUEST_TAG;
        self.with_options(&|number| number != NUMBER, &[RawOption { number: NUMBER, value: tag }], &self.payload())
    }

    /// Returns a copy with this option of format uint in place of existing options of that number.
    /// Clones of the result share its bytes.
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

    /// Not generic, so that it is compiled once and not per caller.
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
    /// Encodes the options without those selected by `left_out`.
    pub(crate) fn options_without(&self, left_out: impl Fn(OptionNumber) -> bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_options(&mut bytes, self.options().filter(|option| !left_out(option.number)));
        bytes
    }
}

/// Returns the encoded size of options in ascending order and a payload.
pub(crate) fn content_length(options: &[RawOption<'_>], payload: &[u8]) -> usize {
    encoded_length(options) + marked_length(payload)
}

/// Appends options in ascending order, and a payload.
pub(crate) fn write_content(bytes: &mut Vec<u8>, options: &[RawOption<'_>], payload: &[u8]) {
    write_options(bytes, options.iter().copied());
    if !payload.is_empty() {
        bytes.push(PAYLOAD_MARKER);
        bytes.extend_from_slice(payload);
    }
}

/// Returns the size of a payload and its marker.
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

/// A message assembled from consecutive parts of its payload.
///
/// Header and token are known only with the last part. The buffer reserves room in front for the
/// longest of them, and the message starts at an offset into that room. Nothing is moved.
#[derive(Debug)]
pub(crate) struct Joined {
    code: Code,
    bytes: Vec<u8>,
    start: usize,
}

/// Room for header and token.
const FRONT: usize = HEADER_LENGTH + Token::MAX_LENGTH;

impl Joined {
    /// Starts a message with the options of `content` selected by `kept`, and an empty payload.
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

    /// Returns the allocated memory in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the memory needed for `more` further payload bytes. The buffer grows by half each
    /// time, so that parts are copied twice on average, up to the size for a payload of `most`
    /// bytes.
    pub(crate) fn capacity_with(&self, more: usize, most: usize) -> usize {
        let needed = self.bytes.len().saturating_add(more);
        if needed <= self.bytes.capacity() {
            return self.bytes.capacity();
        }
        (self.bytes.capacity() / 2 * 3).min(self.start.saturating_add(most)).max(needed)
    }

    /// Appends a part of the payload; `most` as in [`capacity_with`](Self::capacity_with).
    pub(crate) fn push(&mut self, part: &[u8], most: usize) {
        let capacity = self.capacity_with(part.len(), most);
        self.bytes.reserve_exact(capacity.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(part);
    }

    /// Returns the whole message, with header and token of the last part.
    pub(crate) fn finish(mut self, header: Header, token: &Token) -> Option<OwnedMessage> {
        if self.bytes.len() == self.start {
            self.bytes.pop();
        }
        let header = Header { code: self.code, ..header }.to_bytes(token.tkl());
        let Some(front) = FRONT.checked_sub(HEADER_LENGTH + token.encoded_len()) else {
            // The reserved room is too small for an extended token (RFC 8974).
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
            let mut joined = Joined::new(&content, |number| number != OptionNumber::BLOCK1);
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
        let whole = Joined::new(&content, |_| true).finish(header, &Token::EMPTY).expect("well-formed");
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
