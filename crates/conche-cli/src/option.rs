//! Parsers of options, tokens and block sizes.

use conche::codec::BlockSize;
use conche::{OptionNumber, Token};

use crate::error::ArgumentError;
use crate::hexadecimal::decode;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawOption {
    pub number: OptionNumber,
    pub value: Vec<u8>,
}

/// Parses `NUM,VALUE`; `NUM` alone is an option with an empty value.
pub fn parse(text: &str) -> Result<RawOption, ArgumentError> {
    let (number, value) = text.split_once(',').unwrap_or((text, ""));
    let number = number.parse().map_err(|_| ArgumentError::OptionNumber(number.to_owned()))?;
    Ok(RawOption { number: OptionNumber(number), value: bytes(value)? })
}

pub fn parse_token(text: &str) -> Result<Token, ArgumentError> {
    let bytes = bytes(text)?;
    let (length, max) = (bytes.len(), Token::MAX_EXTENDED_LENGTH);
    Token::extended(&bytes).ok_or(ArgumentError::TokenLength { length, max })
}

pub fn parse_block(text: &str) -> Result<BlockSize, ArgumentError> {
    let size = text.parse().ok().and_then(|bytes| BlockSize::fitting(bytes).filter(|size| size.bytes() == bytes));
    size.ok_or(ArgumentError::BlockSize)
}

/// Parses text, or hexadecimal after `0x`.
fn bytes(text: &str) -> Result<Vec<u8>, ArgumentError> {
    let Some(digits) = text.strip_prefix("0x") else {
        return Ok(text.as_bytes().to_vec());
    };
    decode(digits).ok_or_else(|| ArgumentError::Hexadecimal(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_has_a_number_and_a_value_in_text_or_hexadecimal() {
        let option = |number, value: &[u8]| Ok(RawOption { number: OptionNumber(number), value: value.to_vec() });
        assert_eq!(parse("15,rt=x"), option(15, b"rt=x"));
        assert_eq!(parse("2048,0x00fF"), option(2048, &[0, 255]));
        assert_eq!(parse("5"), option(5, b""));
        assert_eq!(parse("11,a,b"), option(11, b"a,b"));
        for wrong in ["", "x,1", "65536,", "1,0x123", "1,0xgg"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_block_has_a_power_of_two_of_bytes() {
        assert_eq!((parse_block("16"), parse_block("1024")), (Ok(BlockSize::B16), Ok(BlockSize::B1024)));
        for wrong in ["", "8", "100", "2048", "64B"] {
            assert!(parse_block(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_has_at_most_8_bytes() {
        assert_eq!(parse_token("0x0102"), Ok(Token::new(&[1, 2]).expect("it fits")));
        assert_eq!(parse_token("123456789").map(|token| token.len()), Ok(9), "RFC 8974");
        assert!(parse_token(&"1".repeat(65_805)).is_err());
    }
}
