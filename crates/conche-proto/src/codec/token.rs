//! Tokens, which match responses to requests (RFC 7252 §5.3.1, RFC 8974).

use alloc::boxed::Box;
use core::fmt;
use core::hash::{Hash, Hasher};

use super::option::{Field, extended};
use super::{DecodeErrorKind, Hexadecimal};

/// A token of at most eight bytes (RFC 7252), stored inline, or a longer, allocated one (RFC 8974).
/// Peers' tokens are only compared and echoed.
#[derive(Clone)]
pub struct Token(Bytes);

#[derive(Clone)]
enum Bytes {
    /// The bytes after `length` are zero.
    Short {
        length: Length,
        bytes: Word,
    },
    Long(Box<Long>),
}

/// Length and bytes fill a word each: a load that spans smaller stores would stall.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Length {
    Zero,
    One,
    Two,
    Three,
    Four,
    Five,
    Six,
    Seven,
    Eight,
}

impl Length {
    const ALL: [Self; Token::MAX_LENGTH + 1] =
        [Self::Zero, Self::One, Self::Two, Self::Three, Self::Four, Self::Five, Self::Six, Self::Seven, Self::Eight];

    const fn get(self) -> u8 {
        self as u8
    }
}

#[derive(Clone, Copy)]
#[repr(align(8))]
struct Word([u8; Token::MAX_LENGTH]);

/// Behind one pointer, so that it does not enlarge the type.
#[derive(Clone)]
struct Long {
    bytes: Box<[u8]>,
}

impl Token {
    /// The longest token of RFC 7252, in bytes.
    pub const MAX_LENGTH: usize = 8;

    /// The longest extended token, in bytes (RFC 8974 §2.1).
    pub const MAX_EXTENDED_LENGTH: usize = 65_804;

    /// The zero-length token.
    pub const EMPTY: Self = Self(Bytes::Short { length: Length::Zero, bytes: Word([0; Self::MAX_LENGTH]) });

    /// Creates a token; `None` for more than eight bytes.
    #[must_use]
    #[inline]
    pub fn new(token: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_LENGTH];
        bytes.get_mut(..token.len())?.copy_from_slice(token);
        Some(Self(Bytes::Short { length: *Length::ALL.get(token.len())?, bytes: Word(bytes) }))
    }

    /// Creates a token; `None` for more than 65 804 bytes. More than eight require RFC 8974.
    #[must_use]
    #[inline]
    pub fn extended(token: &[u8]) -> Option<Self> {
        if token.len() <= Self::MAX_LENGTH { Self::new(token) } else { Self::long(token) }
    }

    #[cold]
    fn long(token: &[u8]) -> Option<Self> {
        (token.len() <= Self::MAX_EXTENDED_LENGTH).then(|| Self(Bytes::Long(Box::new(Long { bytes: token.into() }))))
    }

    /// Returns the bytes of the token.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short { length, bytes: Word(bytes) } => bytes.get(..usize::from(length.get())).unwrap_or(bytes),
            Bytes::Long(long) => &long.bytes,
        }
    }

    #[inline]
    pub(super) fn padded(&self) -> Option<([u8; Self::MAX_LENGTH], u8)> {
        match self.0 {
            Bytes::Short { length, bytes: Word(bytes) } => Some((bytes, length.get())),
            Bytes::Long(_) => None,
        }
    }

    /// Returns a short token, padded with zeros, or the first eight bytes of a long one.
    #[inline]
    pub(crate) fn as_u64(&self) -> u64 {
        match &self.0 {
            Bytes::Short { bytes: Word(bytes), .. } => u64::from_le_bytes(*bytes),
            Bytes::Long(long) => long.bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)),
        }
    }

    /// Returns the token with `number` in its last two bytes; unchanged below six bytes: the rest
    /// would be guessable.
    pub(crate) fn numbered(mut self, number: u16) -> Self {
        let bytes = match &mut self.0 {
            Bytes::Short { length, bytes: Word(bytes) } if length.get() >= 6 => {
                bytes.get_mut(..usize::from(length.get()))
            }
            Bytes::Short { .. } => None,
            Bytes::Long(long) => Some(&mut *long.bytes),
        };
        if let Some(last) = bytes.and_then(|bytes| bytes.last_chunk_mut()) {
            *last = number.to_be_bytes();
        }
        self
    }

    pub(crate) fn number(&self) -> Option<u16> {
        self.as_slice().last_chunk().map(|number| u16::from_be_bytes(*number))
    }

    /// Returns the length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Bytes::Short { length, .. } => usize::from(length.get()),
            Bytes::Long(long) => long.bytes.len(),
        }
    }

    /// Returns `true` for the zero-length token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` for more than eight bytes, which require RFC 8974.
    #[must_use]
    pub fn is_extended(&self) -> bool {
        matches!(self.0, Bytes::Long(_))
    }

    /// Returns the size of the token in a message, in bytes, including one or two bytes of extended
    /// length from 13 bytes on.
    #[must_use]
    #[inline]
    pub fn encoded_len(&self) -> usize {
        match &self.0 {
            Bytes::Short { length, .. } => usize::from(length.get()),
            Bytes::Long(long) => Self::encoded_len_of(long.bytes.len()),
        }
    }

    #[inline]
    pub(crate) const fn encoded_len_of(length: usize) -> usize {
        length + (length >= 13) as usize + (length >= 269) as usize
    }

    /// Returns the token length field (TKL) of a message with this token.
    #[must_use]
    #[inline]
    pub fn tkl(&self) -> u8 {
        match self.0 {
            Bytes::Short { length, .. } => length.get(),
            Bytes::Long(_) => self.length_field().map_or(0, |field| field.nibble),
        }
    }

    pub(super) fn length_field(&self) -> Option<Field> {
        Field::new(u32::try_from(self.len()).ok()?)
    }

    /// Returns the token's weight in limits: 1, plus one for each 128 allocated bytes or part
    /// thereof.
    #[inline]
    pub(crate) fn places(&self) -> usize {
        Self::places_of(self.len())
    }

    #[inline]
    pub(crate) const fn places_of(length: usize) -> usize {
        if length <= Self::MAX_LENGTH { 1 } else { 1 + length.div_ceil(128) }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Short { .. } => 0,
            Bytes::Long(long) => long.bytes.len(),
        }
    }
}

/// Splits off the token length announced by the first byte (RFC 8974 §2.1). Each length has one
/// encoding: the extended forms start at 13 and 269.
#[inline]
pub(super) fn split_length(nibble: u8, bytes: &[u8], most: usize) -> Result<(u32, &[u8]), DecodeErrorKind> {
    match usize::from(nibble) {
        0..=Token::MAX_LENGTH => Ok((nibble.into(), bytes)),
        _ if most <= Token::MAX_LENGTH => Err(DecodeErrorKind::TokenLength),
        _ => split_extended_length(nibble, bytes, most),
    }
}

#[cold]
fn split_extended_length(nibble: u8, bytes: &[u8], most: usize) -> Result<(u32, &[u8]), DecodeErrorKind> {
    let (length, rest) = extended(nibble, bytes, DecodeErrorKind::TokenLength).map_err(|kind| match kind {
        DecodeErrorKind::OptionTruncated => DecodeErrorKind::TokenTruncated,
        kind => kind,
    })?;
    if length as usize > most { Err(DecodeErrorKind::TokenLength) } else { Ok((length, rest)) }
}

impl Default for Token {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl From<[u8; 8]> for Token {
    fn from(bytes: [u8; 8]) -> Self {
        Self(Bytes::Short { length: Length::Eight, bytes: Word(bytes) })
    }
}

impl PartialEq for Token {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Bytes::Short { length, bytes }, Bytes::Short { length: other, bytes: others }) => {
                length == other && u64::from_ne_bytes(bytes.0) == u64::from_ne_bytes(others.0)
            }
            (Bytes::Long(long), Bytes::Long(other)) => long.bytes == other.bytes,
            _ => false,
        }
    }
}

impl Eq for Token {}

impl Hash for Token {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Bytes::Short { length, bytes } => {
                state.write_u64(u64::from_ne_bytes(bytes.0));
                state.write_u8(length.get());
            }
            Bytes::Long(long) => long.bytes.hash(state),
        }
    }
}

/// Prints hexadecimal digits, `-` for the empty token.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        Hexadecimal(self.as_slice()).fmt(f)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn nine_bytes_are_no_token() {
        assert!(Token::new(&[0; 9]).is_none());
        assert_eq!(Token::new(&[7; 8]), Some(Token::from([7; 8])));
    }

    #[test]
    fn trailing_zeros_distinguish_tokens() {
        assert_ne!(Token::new(&[1]), Token::new(&[1, 0]));
        assert_ne!(Token::new(&[]), Token::new(&[0]));
        assert_eq!(Token::new(&[]), Some(Token::EMPTY));
    }

    #[test]
    fn a_token_prints_in_hexadecimal() {
        assert_eq!(format!("{:?}", Token::new(&[0, 0xab]).expect("short enough")), "Token(00ab)");
        assert_eq!(format!("{}", Token::EMPTY), "-");
    }
}
