//! [`Body`]: the encoded options and payload of an outgoing message.

use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use bytes::Bytes;
use smallvec::SmallVec;
use thiserror::Error;

use super::wire::{OptionHeader, PAYLOAD_MARKER};
use super::{ContentFormat, MAX_OPTION_LENGTH, MessagePool, OptionNumber, Options, RawOption, encode_uint};

/// Encoded options, payload marker and payload of a message. The endpoint adds header and token to
/// each transmission. Clones share the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Body {
    bytes: Bytes,
}

impl Body {
    /// A body without options and payload.
    pub const EMPTY: Self = Self { bytes: Bytes::new() };

    /// Creates a body from bytes that are well-formed options and payload.
    pub(crate) const fn encoded(bytes: Bytes) -> Self {
        Self { bytes }
    }

    /// Returns a builder for a new body.
    #[must_use]
    pub fn builder() -> BodyBuilder {
        BodyBuilder::default()
    }

    /// Encodes a payload and its content format, without other options, in memory of a
    /// [`MessagePool`].
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

    /// Returns the options in the order of the message.
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

    /// Returns a builder with the same options and payload. The payload is shared.
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

/// Number of options that a builder holds without allocating.
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
    /// Option values, concatenated in the order of the calls.
    values: SmallVec<[u8; 64]>,
    payload: Bytes,
}

#[derive(Clone, Debug)]
struct Entry {
    number: OptionNumber,
    /// Range of the option's value in `values`.
    value: Range<usize>,
}

impl BodyBuilder {
    /// Creates a builder without options and payload.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an option. Options of the same number keep the order of the calls.
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

    /// Adds an option of format uint, encoded in its shortest form.
    #[must_use]
    pub fn uint(self, number: OptionNumber, value: u32) -> Self {
        self.option(number, encode_uint(value).as_slice())
    }

    /// Adds Content-Format.
    #[must_use]
    pub fn content_format(self, format: ContentFormat) -> Self {
        self.uint(OptionNumber::CONTENT_FORMAT, format.0.into())
    }

    /// Adds a Uri-Path option for each segment of an absolute path (RFC 7252 §6.4). `/` and the
    /// empty path add none; a trailing slash adds an empty segment. Nothing is percent-decoded.
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

    /// Returns `true` if there are neither options nor payload yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.options.is_empty() && self.payload.is_empty()
    }

    /// Sorts the options and encodes the body.
    ///
    /// # Errors
    ///
    /// If a recipient would reject or ignore an option according to [`OptionNumber::spec`]. For
    /// options without a definition, only the length that an option header can encode is checked.
    pub fn build(mut self) -> Result<Body, BuildError> {
        self.options.sort_by_key(|entry| entry.number);
        let headers = self.option_headers()?;
        let options = headers.iter().map(|header| usize::from(header.len())).sum::<usize>() + self.values.len();
        let marker = usize::from(!self.payload.is_empty());
        // Exact capacity: `Bytes` reallocates a vector that has spare capacity.
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

    /// Checks the sorted options and returns their headers.
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

/// AbandonReason a body cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The value's length is outside the range that the option's definition allows.
    #[error("a value of {length} bytes for option {number}: {} to {} bytes are allowed", allowed.start(), allowed.end())]
    ValueLength {
        /// The option.
        number: OptionNumber,
        /// Length of the given value, in bytes.
        length: usize,
        /// Allowed lengths, in bytes.
        allowed: RangeInclusive<usize>,
    },
    /// An option that is not repeatable was added more than once.
    #[error("option {number} was given more than once, but it is not repeatable")]
    Repeated {
        /// The option.
        number: OptionNumber,
    },
    /// A path segment is `.` or `..`, which Uri-Path must not contain (RFC 7252 §5.10.1).
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
