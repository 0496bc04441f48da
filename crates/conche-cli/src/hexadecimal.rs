//! Bytes in hexadecimal.

use std::fmt::Write;

use conche::codec::Hexadecimal;

/// Bytes per line of a dump.
const LINE: usize = 16;

pub fn encode(bytes: &[u8]) -> String {
    format!("0x{}", Hexadecimal(bytes))
}

/// Formats a dump: offset, bytes in hexadecimal, and printable ASCII.
pub fn dump(bytes: &[u8]) -> String {
    let mut dump = String::new();
    for (line, bytes) in bytes.chunks(LINE).enumerate() {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x} ")).collect();
        let printable = |&byte: &u8| if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' };
        let text: String = bytes.iter().map(printable).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(dump, "{:08x}  {digits:width$} |{text}|", line * LINE, width = 3 * LINE);
    }
    dump
}

pub fn decode(digits: &str) -> Option<Vec<u8>> {
    let digit = |character: char| character.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Option<Vec<u8>> = digits.chars().map(digit).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_shows_offset_bytes_and_ascii() {
        let dump = dump(b"\x00\xff conche: 0123456\x1b");
        let expected = "\
00000000  00 ff 20 63 6f 6e 63 68 65 3a 20 30 31 32 33 34  |.. conche: 01234|
00000010  35 36 1b                                         |56.|
";
        assert_eq!(dump, expected);
        assert_eq!(encode(b"\x0a\xff"), "0x0aff");
    }
}
