//! Reads hexadecimal digits.

/// Reads bytes in hexadecimal, two digits each.
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    let digit = |character: char| character.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Option<Vec<u8>> = digits.chars().map(digit).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
