//! Option values by their format.

use conche::OptionNumber;
use conche::codec::{OptionFormat, decode_uint};

use super::{escape, hexadecimal};
use crate::formats;

/// Formats a number, quoted text, or bytes. A content format is followed by its media type.
pub fn value(number: OptionNumber, value: &[u8]) -> String {
    match number.spec().map(|spec| spec.format) {
        Some(OptionFormat::Uint) => match decode_uint(value) {
            Some(uint) if matches!(number, OptionNumber::CONTENT_FORMAT | OptionNumber::ACCEPT) => {
                formats::name(uint).map_or_else(|| uint.to_string(), |name| format!("{uint} ({name})"))
            }
            Some(uint) => uint.to_string(),
            None => hexadecimal(value),
        },
        Some(OptionFormat::String) => format!("\"{}\"", escape(&String::from_utf8_lossy(value))),
        Some(OptionFormat::Empty) if value.is_empty() => String::new(),
        _ => hexadecimal(value),
    }
}
