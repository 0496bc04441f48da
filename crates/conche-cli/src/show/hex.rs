//! Bytes in hexadecimal.

use std::fmt::Write;

use conche::codec::Hexadecimal;

/// Bytes per line of a dump.
const LINE: usize = 16;

/// Formats bytes as `0x` and two digits each.
pub fn hexadecimal(bytes: &[u8]) -> String {
    format!("0x{}", Hexadecimal(bytes))
}

/// Formats a hex dump of sixteen bytes per line: offset, bytes in hexadecimal, and printable ASCII.
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
        assert_eq!(hexadecimal(b"\x0a\xff"), "0x0aff");
    }
}
