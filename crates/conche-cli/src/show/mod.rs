//! Messages and payloads as readable text, on terminals or in pipes.

mod cbor;
mod grid;
mod json;
mod payload;

pub use grid::{Grid, titled};
pub use payload::{pretty as pretty_payload, summary as payload_summary};

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use conche::codec::{Escaped, OptionFormat, decode_uint};
use conche::{ContentFormat, OptionNumber};
use console::Style;

use crate::Global;
use crate::hexadecimal;

/// Maximum nesting to indent. Deeper values are shown unchanged.
const DEEPEST: usize = 32;

/// Ignores a failed write.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

pub fn notes(lines: &[String], global: &Global) {
    if !global.quiet {
        lines.iter().for_each(note);
    }
}

pub fn escape(text: &str) -> String {
    Escaped(text).to_string()
}

pub fn escape_lines(text: &str) -> String {
    let parts = text.split_inclusive(['\n', '\t']).map(|part| {
        let end = part.chars().next_back().filter(|end| matches!(end, '\n' | '\t'));
        let inner = end.and_then(|end| part.strip_suffix(end)).unwrap_or(part);
        Escaped(inner).to_string() + end.map(String::from).as_deref().unwrap_or_default()
    });
    parts.collect()
}

/// Colours verdicts at line ends, on a terminal without `NO_COLOR`.
pub fn colour_verdicts(text: &str) -> Cow<'_, str> {
    if !console::colors_enabled() {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| {
        let (style, verdict) = match line.trim_end() {
            end if end.ends_with("does not hold") => (Style::new().red(), "does not hold"),
            end if end.ends_with("inconclusive") => (Style::new().yellow(), "inconclusive"),
            end if end.ends_with("holds") => (Style::new().green(), "holds"),
            _ => return line.to_owned(),
        };
        let before = line.trim_end().strip_suffix(verdict).unwrap_or_default();
        let behind = line.strip_prefix(before).and_then(|rest| rest.strip_prefix(verdict)).unwrap_or_default();
        format!("{before}{}{behind}", style.apply_to(verdict))
    };
    Cow::Owned(text.split_inclusive('\n').map(line).collect())
}

pub fn option_value(number: OptionNumber, value: &[u8]) -> String {
    match number.spec().map(|spec| spec.format) {
        Some(OptionFormat::Uint) => match decode_uint(value) {
            Some(uint) if matches!(number, OptionNumber::CONTENT_FORMAT | OptionNumber::ACCEPT) => {
                u16::try_from(uint).map_or_else(|_| uint.to_string(), |format| ContentFormat(format).to_string())
            }
            Some(uint) => uint.to_string(),
            None => hexadecimal::encode(value),
        },
        Some(OptionFormat::String) => format!("\"{}\"", escape(&String::from_utf8_lossy(value))),
        Some(OptionFormat::Empty) if value.is_empty() => String::new(),
        _ => hexadecimal::encode(value),
    }
}

pub fn place(file: &Path, text: &str, span: Range<usize>, message: &str) -> String {
    let file = file.display().to_string();
    let place = Snippet::source(text).path(&file).annotation(AnnotationKind::Primary.span(span));
    Renderer::plain().render(&[Level::ERROR.primary_title(message).element(place)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_peer_cannot_command_the_terminal() {
        assert_eq!(escape("plain, ünïcode\n"), "plain, ünïcode\\n");
        assert_eq!(escape_lines("a\tb\nc"), "a\tb\nc");
        assert_eq!(escape_lines("\u{1b}[2J\u{9b}m\u{7f}\r\0"), "\\u{1b}[2J\\u{9b}m\\u{7f}\\r\\u{0}");
        assert_eq!(escape_lines("user\u{202e}txt"), "user\\u{202e}txt");
    }
}
