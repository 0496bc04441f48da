//! The arithmetic of option headers (RFC 7252 §3.1), shared by everything that reads or writes options.
//!
//! A delta or length up to 12 sits in its nibble; 13 announces one more byte (minus 13), 14 two more (minus 269); 15 is
//! reserved, save for the byte `0xff`, which is the payload marker.

use super::DecodeErrorKind;

/// The byte between options and payload.
pub(super) const PAYLOAD_MARKER: u8 = 0xff;

/// The longest value that an option header can announce: 269 + 65535 bytes.
pub const MAX_OPTION_LENGTH: usize = EXTENDED_16 as usize + u16::MAX as usize;

/// The first delta or length that needs one extension byte.
const EXTENDED_8: u16 = 13;
/// The first delta or length that needs two extension bytes.
const EXTENDED_16: u16 = 269;

/// One option split off the front of an option sequence.
pub(super) struct Split<'a> {
    /// Difference to the previous option's number; at most 65804, so that a sum with it never wraps 32 bits.
    pub delta: u32,
    pub value: &'a [u8],
    pub rest: &'a [u8],
}

/// Splits the option off whose first byte, not the payload marker, is `first`; `rest` is what follows that byte.
#[inline]
pub(super) fn split_option(first: u8, rest: &[u8]) -> Result<Split<'_>, DecodeErrorKind> {
    let (delta, rest) = extended(first >> 4, rest, DecodeErrorKind::OptionDelta)?;
    let (length, rest) = extended(first & 0xf, rest, DecodeErrorKind::OptionLength)?;
    let (value, rest) = rest.split_at_checked(length as usize).ok_or(DecodeErrorKind::OptionTruncated)?;
    Ok(Split { delta, value, rest })
}

#[inline]
fn extended(nibble: u8, rest: &[u8], reserved: DecodeErrorKind) -> Result<(u32, &[u8]), DecodeErrorKind> {
    match (nibble, rest) {
        (0..=12, _) => Ok((nibble.into(), rest)),
        (13, [extension, rest @ ..]) => Ok((u32::from(EXTENDED_8) + u32::from(*extension), rest)),
        (14, [high, low, rest @ ..]) => {
            Ok((u32::from(EXTENDED_16) + u32::from(u16::from_be_bytes([*high, *low])), rest))
        }
        (13 | 14, _) => Err(DecodeErrorKind::OptionTruncated),
        _ => Err(reserved),
    }
}

/// The one to five bytes before an option's value.
#[derive(Clone, Copy)]
pub(super) struct OptionHeader {
    bytes: [u8; 5],
    length: u8,
}

impl OptionHeader {
    /// The header for a value of `length` bytes; `None` beyond [`MAX_OPTION_LENGTH`].
    #[inline]
    pub(super) fn new(delta: u16, length: usize) -> Option<Self> {
        let mut header = Self { bytes: [0; 5], length: 1 };
        let delta = header.extend(delta.into())?;
        let length = header.extend(u32::try_from(length).ok()?)?;
        header.bytes[0] = delta << 4 | length;
        Some(header)
    }

    /// The header's bytes and zeros behind them.
    pub(super) const fn padded(&self) -> &[u8; 5] {
        &self.bytes
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&self.bytes)
    }

    /// Appends the extension bytes of a delta or length and answers its nibble.
    #[inline]
    fn extend(&mut self, value: u32) -> Option<u8> {
        if value < EXTENDED_8.into() {
            return u8::try_from(value).ok();
        }
        if value < EXTENDED_16.into() {
            self.push(u8::try_from(value - u32::from(EXTENDED_8)).ok()?);
            return Some(13);
        }
        let [high, low] = u16::try_from(value - u32::from(EXTENDED_16)).ok()?.to_be_bytes();
        self.push(high);
        self.push(low);
        Some(14)
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(usize::from(self.length)) {
            *slot = byte;
            self.length += 1;
        }
    }
}
