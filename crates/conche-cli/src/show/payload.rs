//! Payloads: in full for a terminal, or summarised for a trace.

use conche::ContentFormat;

use super::{cbor, escape, escape_lines, json};
use crate::formats::{self, Syntax};
use crate::hexadecimal::{dump, encode};

const SHOWN: usize = 64;

/// Larger payloads are not pretty-printed: indentation can multiply the size.
const LAID_OUT: usize = 1 << 20;

/// Ends in a newline: JSON, CBOR and links with a line per member, other text with control
/// characters escaped, other bytes as a dump.
pub fn pretty(format: Option<ContentFormat>, payload: &[u8]) -> String {
    let text = std::str::from_utf8(payload).ok();
    let pretty = match format.map(formats::syntax).filter(|_| payload.len() <= LAID_OUT) {
        Some(Syntax::Json) => text.and_then(json::pretty),
        Some(Syntax::Cbor) => cbor::pretty(payload),
        Some(Syntax::Links) => text.map(links),
        _ => None,
    };
    let mut shown = match pretty.as_deref().or(text) {
        Some(text) => escape_lines(&text.replace("\r\n", "\n")),
        None => dump(payload),
    };
    if !shown.is_empty() && !shown.ends_with('\n') {
        shown.push('\n');
    }
    shown
}

/// As in `"hello" (5 bytes)`.
pub fn summary(payload: &[u8]) -> String {
    let beginning = payload.get(..SHOWN).unwrap_or(payload);
    let shown = match (std::str::from_utf8(payload), beginning.utf8_chunks().next()) {
        (Ok(_), Some(chunk)) => format!("\"{}\"", escape(chunk.valid())),
        (Ok(_), None) => "\"\"".to_owned(),
        (Err(_), _) => encode(beginning),
    };
    let more = if payload.len() > SHOWN { "…" } else { "" };
    format!("{shown}{more} ({} byte{})", payload.len(), if payload.len() == 1 { "" } else { "s" })
}

/// Puts each link on its own line (RFC 6690 §2).
fn links(text: &str) -> String {
    let (mut lines, mut quoted, mut target, mut escaped) =
        (String::with_capacity(text.len() + 16), false, false, false);
    for character in text.chars() {
        lines.push(character);
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' if !target => quoted = !quoted,
            '<' | '>' if !quoted => target = character == '<',
            ',' if !quoted && !target => lines.push('\n'),
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_readable_text_for_each_format() {
        for (format, payload, expected) in [
            (Some(ContentFormat::JSON), &b"{\"a\":1}"[..], "{\n  \"a\": 1\n}\n"),
            (Some(ContentFormat::JSON), b"{\"a\"", "{\"a\"\n"),
            (Some(ContentFormat::CBOR), b"\x82\x01\x02", "[1, 2]\n"),
            (Some(ContentFormat::CBOR), b"\xff", "00000000  ff                                               |.|\n"),
            (Some(ContentFormat::LINK_FORMAT), b"</a,b>;title=\"x, \\\"y\",</c>", "</a,b>;title=\"x, \\\"y\",\n</c>\n"),
            (None, b"hello", "hello\n"),
            (None, b"two\r\nlines\n", "two\nlines\n"),
            (None, b"\x1b[2J", "\\u{1b}[2J\n"),
            (None, b"", ""),
        ] {
            assert_eq!(pretty(format, payload), expected, "{payload:?}");
        }
    }

    #[test]
    fn large_payloads_are_shown_unformatted() {
        let json = |length: usize| format!("[{}]", " ".repeat(length - 2)).into_bytes();
        assert_eq!(pretty(Some(ContentFormat::JSON), &json(LAID_OUT)), "[]\n");
        assert_eq!(pretty(Some(ContentFormat::JSON), &json(LAID_OUT + 1)).len(), LAID_OUT + 2);
    }

    #[test]
    fn a_summary_shows_the_beginning_and_the_length() {
        assert_eq!(summary(b"a\n"), "\"a\\n\" (2 bytes)");
        assert_eq!(summary(b"\xff"), "0xff (1 byte)");
        let text = format!("{}ü", "x".repeat(63));
        assert_eq!(summary(text.as_bytes()), format!("\"{}\"… (65 bytes)", "x".repeat(63)));
    }
}
