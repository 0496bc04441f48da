//! Tokens: what a response is matched to its request by (RFC 7252 §5.3.1).

use core::fmt;
use core::hash::{Hash, Hasher};

/// A token of at most eight bytes, stored inline. A foreign one is opaque: it is only compared and echoed.
#[derive(Clone, Copy, Default)]
pub struct Token {
    /// What lies behind `length` is zero.
    bytes: [u8; Self::MAX_LENGTH],
    length: u8,
}

impl Token {
    /// The longest token of RFC 7252, in bytes.
    pub const MAX_LENGTH: usize = 8;

    /// The zero-length token.
    pub const EMPTY: Self = Self { bytes: [0; Self::MAX_LENGTH], length: 0 };

    /// The token of these bytes, `None` for more than eight.
    #[must_use]
    pub fn new(token: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_LENGTH];
        bytes.get_mut(..token.len())?.copy_from_slice(token);
        Some(Self { bytes, length: u8::try_from(token.len()).ok()? })
    }

    /// The token's bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&self.bytes)
    }

    /// The token's bytes and zeros behind them.
    pub(super) const fn padded(&self) -> [u8; Self::MAX_LENGTH] {
        self.bytes
    }

    /// Its bytes as a number, with zeros behind them.
    pub(crate) const fn as_u64(&self) -> u64 {
        u64::from_le_bytes(self.bytes)
    }

    /// The same with this number in its last two bytes. One of fewer than six bytes stays as it is: what is left of it could
    /// be guessed.
    pub(crate) fn numbered(mut self, number: u16) -> Self {
        if self.length >= 6
            && let Some(last) = self.bytes.get_mut(..usize::from(self.length)).and_then(|bytes| bytes.last_chunk_mut())
        {
            *last = number.to_be_bytes();
        }
        self
    }

    /// The number in its last two bytes, if it has some.
    pub(crate) fn number(&self) -> Option<u16> {
        self.as_slice().last_chunk().map(|number| u16::from_be_bytes(*number))
    }

    /// The number of its bytes: TKL.
    #[must_use]
    pub const fn len(&self) -> u8 {
        self.length
    }

    /// It has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl From<[u8; 8]> for Token {
    fn from(bytes: [u8; 8]) -> Self {
        Self { bytes, length: 8 }
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && u64::from_ne_bytes(self.bytes) == u64::from_ne_bytes(other.bytes)
    }
}

impl Eq for Token {}

impl Hash for Token {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from_ne_bytes(self.bytes));
        state.write_u8(self.length);
    }
}

/// Hexadecimal digits, `-` for the empty token.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        self.as_slice().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
