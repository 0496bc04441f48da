//! Terminal output: width, colours, and text without control sequences.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width};
use conche::codec::Escaped;
use conche_lab::report::{self, ruled};
use console::{Style, Term};

/// Width without a terminal, as in a pipe.
const WIDTH: u16 = 100;

/// Prints a line on standard error. A failed write, such as on a full disk, is ignored: the result
/// does not depend on it.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Escapes control characters in a peer's text.
pub fn escape(text: &str) -> String {
    Escaped(text).to_string()
}

/// Escapes control characters except newlines and tabs.
pub fn escape_lines(text: &str) -> String {
    let parts = text.split_inclusive(['\n', '\t']).map(|part| {
        let end = part.chars().next_back().filter(|end| matches!(end, '\n' | '\t'));
        let inner = end.and_then(|end| part.strip_suffix(end)).unwrap_or(part);
        Escaped(inner).to_string() + end.map(String::from).as_deref().unwrap_or_default()
    });
    parts.collect()
}

/// Returns a table for standard output: at most as wide as the terminal, with lines around its
/// header only.
pub fn table() -> Table {
    let mut table = ruled();
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(Term::stdout().size_checked().map_or(WIDTH, |(_, columns)| columns));
    table
}

/// Formats a table with title and notes, at most as wide as the terminal.
pub fn fitted(of: &report::Table) -> String {
    let mut table = table();
    table.set_header(&of.header).add_rows(&of.rows);
    for column in table.column_iter_mut().skip(of.names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    keep_words(&mut table);
    let notes: String = of.notes.iter().map(|note| format!("  {note}\n")).collect();
    format!("{}\n{table}\n{notes}", of.title)
}

/// Makes each column at least as wide as its longest word, so that no word breaks on a narrow
/// terminal. Call it after all rows are added.
pub fn keep_words(table: &mut Table) {
    let rows: Vec<&Row> = table.header().into_iter().chain(table.row_iter()).collect();
    let mut widths: Vec<usize> = Vec::new();
    for (index, cell) in rows.iter().flat_map(|row| row.cell_iter().enumerate()) {
        let content = cell.content();
        let longest = content.split_whitespace().map(console::measure_text_width).max().unwrap_or_default();
        widths.resize(widths.len().max(index + 1), 0);
        widths[index] = widths[index].max(longest);
    }
    for (column, width) in table.column_iter_mut().zip(widths) {
        let with_padding = u16::try_from(width + 2).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(with_padding)));
    }
}

/// Colours verdicts at line ends green, red or yellow, on a terminal without `NO_COLOR`.
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
