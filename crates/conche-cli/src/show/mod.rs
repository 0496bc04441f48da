//! Messages and payloads as readable text, on terminals or in pipes.

mod cbor;
mod json;
mod payload;

pub use payload::{pretty as pretty_payload, summary as payload_summary};

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width};
use conche::codec::{Escaped, OptionFormat, decode_uint};
use conche::{ContentFormat, OptionNumber};
use conche_lab::table::{self, ruled};
use console::{Style, Term};

use crate::hexadecimal;

/// Maximum nesting to indent. Deeper values are shown unchanged.
const DEEPEST: usize = 32;

/// Ignores a failed write.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
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

/// Lays a table out for standard output: wrapped to a terminal's width; otherwise one line per row,
/// for grep.
pub fn laid_out(table: Table) -> String {
    laid_out_within(table, terminal_width())
}

fn laid_out_within(mut table: Table, width: Option<u16>) -> String {
    table.set_content_arrangement(match width {
        Some(_) => ContentArrangement::Dynamic,
        None => ContentArrangement::Disabled,
    });
    if let Some(width) = width {
        table.set_width(width);
        keep_words(&mut table, width);
    }
    table.trim_fmt()
}

fn terminal_width() -> Option<u16> {
    Term::stdout().size_checked().map(|(_, columns)| columns)
}

pub fn fitted(of: &table::Table) -> String {
    let mut table = ruled();
    table.set_header(&of.header).add_rows(&of.rows);
    for column in table.column_iter_mut().skip(of.names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let notes: String = of.notes.iter().map(|note| format!("  {note}\n")).collect();
    format!("{}\n{}\n{notes}", of.title, laid_out_within(table, terminal_width()))
}

/// Makes each column at least as wide as its longest word, if that fits.
fn keep_words(table: &mut Table, width: u16) {
    let rows: Vec<&Row> = table.header().into_iter().chain(table.row_iter()).collect();
    let mut widths: Vec<usize> = Vec::new();
    for (index, cell) in rows.iter().flat_map(|row| row.cell_iter().enumerate()) {
        let content = cell.content();
        let longest = content.split_whitespace().map(console::measure_text_width).max().unwrap_or_default();
        widths.resize(widths.len().max(index + 1), 0);
        widths[index] = widths[index].max(longest + 2);
    }
    let borders = widths.len() + 1;
    if widths.iter().sum::<usize>() + borders > usize::from(width) {
        return;
    }
    for (column, width) in table.column_iter_mut().zip(widths) {
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
    }
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

    fn table() -> Table {
        let mut table = ruled();
        table.set_header(["resource", "title"]).add_row(["/a", "a title of several words and some more"]);
        table.add_row(["/a-path-that-is-long", "short"]);
        table
    }

    #[test]
    fn a_table_fits_the_terminal() {
        for width in [20, 30, 40, 80] {
            let text = laid_out_within(table(), Some(width));
            let widest = text.lines().map(console::measure_text_width).max();
            assert!(widest.is_some_and(|widest| widest <= width.into()), "{width}:\n{text}");
            assert!(width < 40 || text.contains("/a-path-that-is-long"), "words stay whole:\n{text}");
        }
    }

    #[test]
    fn without_a_terminal_a_row_is_a_line_without_blanks_at_its_end() {
        let text = laid_out_within(table(), None);
        assert!(text.lines().any(|line| line.trim_start().starts_with("/a ") && line.ends_with("some more")), "{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    }

    #[test]
    fn text_of_a_peer_cannot_command_the_terminal() {
        assert_eq!(escape("plain, ünïcode\n"), "plain, ünïcode\\n");
        assert_eq!(escape_lines("a\tb\nc"), "a\tb\nc");
        assert_eq!(escape_lines("\u{1b}[2J\u{9b}m\u{7f}\r\0"), "\\u{1b}[2J\\u{9b}m\\u{7f}\\r\\u{0}");
        assert_eq!(escape_lines("user\u{202e}txt"), "user\\u{202e}txt");
    }
}
