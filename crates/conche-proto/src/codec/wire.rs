//! Encodes option headers (RFC 7252 §3.1) and token lengths (RFC 8974 §2.1).
//!
//! A delta or length up to 12 is in its nibble; 13 announces one more byte (minus 13), 14 two more
//! (minus 269); 15 is reserved, except in the payload marker `0xff`.

use super::DecodeErrorKind;

/// The byte between options and payload.
pub(super) const PAYLOAD_MARKER: u8 = 0xff;

/// The longest option value, in bytes: 269 + 65535.
pub const MAX_OPTION_LENGTH: usize = EXTENDED_16 as usize + u16::MAX as usize;

/// The smallest delta or length with one extension byte.
const EXTENDED_8: u32 = 13;
/// The smallest delta or length with two extension bytes.
const EXTENDED_16: u32 = 269;

pub(super) struct Split<'a> {
    /// Difference to the previous number; at most 65804.
    pub delta: u32,
    pub value: &'a [u8],
    pub rest: &'a [u8],
}

/// Splits off an option. `first` is its first byte and not the payload marker; `rest` follows it.
#[inline]
pub(super) fn split_option(first: u8, rest: &[u8]) -> Result<Split<'_>, DecodeErrorKind> {
    let (delta, rest) = extended(first >> 4, rest, DecodeErrorKind::OptionDelta)?;
    let (length, rest) = extended(first & 0xf, rest, DecodeErrorKind::OptionLength)?;
    let (value, rest) = rest.split_at_checked(length as usize).ok_or(DecodeErrorKind::OptionTruncated)?;
    Ok(Split { delta, value, rest })
}

/// Decodes a nibble with its extension bytes; also returns the remaining bytes.
#[inline]
pub(super) fn extended(nibble: u8, rest: &[u8], reserved: DecodeErrorKind) -> Result<(u32, &[u8]), DecodeErrorKind> {
    match (nibble, rest) {
        (0..=12, _) => Ok((nibble.into(), rest)),
        (13, [extension, rest @ ..]) => Ok((EXTENDED_8 + u32::from(*extension), rest)),
        (14, [high, low, rest @ ..]) => Ok((EXTENDED_16 + u32::from(u16::from_be_bytes([*high, *low])), rest)),
        (13 | 14, _) => Err(DecodeErrorKind::OptionTruncated),
        _ => Err(reserved),
    }
}

/// The one to five bytes before an option value.
#[derive(Clone, Copy)]
pub(super) struct OptionHeader {
    /// Left-aligned. A number stays in a register; an array filled byte by byte would not.
    packed: u64,
    length: u8,
}

impl OptionHeader {
    /// Returns the header for a value of `length` bytes; `None` beyond [`MAX_OPTION_LENGTH`].
    #[inline]
    pub(super) fn new(delta: u16, length: usize) -> Option<Self> {
        let delta = Field::new(delta.into())?;
        let length = Field::new(u32::try_from(length).ok()?)?;
        let first = u64::from(delta.nibble << 4 | length.nibble);
        let with_delta = first << delta.extension_bits | u64::from(delta.extension);
        let complete = with_delta << length.extension_bits | u64::from(length.extension);
        let bits = 8 + delta.extension_bits + length.extension_bits;
        Some(Self { packed: complete << (u64::BITS - u32::from(bits)), length: bits / 8 })
    }

    #[inline]
    pub(super) const fn len(self) -> u8 {
        self.length
    }

    /// Returns the bytes, padded with zeros.
    #[inline]
    pub(super) const fn padded(self) -> [u8; 8] {
        self.packed.to_be_bytes()
    }

    pub(super) fn bytes(self) -> impl Iterator<Item = u8> {
        self.padded().into_iter().take(self.length.into())
    }
}

/// An encoded delta or length.
pub(super) struct Field {
    pub(super) nibble: u8,
    pub(super) extension: u16,
    pub(super) extension_bits: u8,
}

impl Field {
    #[inline]
    pub(super) fn new(value: u32) -> Option<Self> {
        let (nibble, extension, extension_bits) = match value {
            0..EXTENDED_8 => (u8::try_from(value).ok()?, 0, 0),
            EXTENDED_8..EXTENDED_16 => (13, value - EXTENDED_8, 8),
            _ => (14, value - EXTENDED_16, 16),
        };
        Some(Self { nibble, extension: u16::try_from(extension).ok()?, extension_bits })
    }
}
