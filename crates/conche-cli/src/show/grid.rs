//! Tables on standard output, as wide as the terminal.

use std::ops::Range;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width};
use conche_lab::table::{self, ruled};
use console::{Term, measure_text_width};

/// Blanks around a cell, and between two columns.
const PADDING: usize = 2;
const GAP: usize = 1;

/// A table of text and numbers.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Column names.
    pub header: Vec<String>,
    /// Leading columns that name the row.
    pub names: usize,
    /// Columns of numbers, right-aligned.
    pub numbers: Range<usize>,
    pub rows: Vec<Vec<String>>,
}

/// Formats a table with its title and notes.
pub fn titled(of: &table::Table) -> String {
    let grid =
        Grid { header: of.header.clone(), names: of.names, numbers: of.names..of.header.len(), rows: of.rows.clone() };
    let notes: String = of.notes.iter().map(|note| format!("  {note}\n")).collect();
    format!("{}\n{}\n{notes}", of.title, grid.laid_out())
}

/// The widths of a column: of its longest word, and of its longest cell.
#[derive(Clone, Copy, Default)]
struct Bounds {
    least: usize,
    natural: usize,
}

impl Grid {
    /// Lays the table out for a terminal. Otherwise a row is one line, for grep.
    pub fn laid_out(&self) -> String {
        self.laid_out_within(Term::stdout().size_checked().map(|(_, columns)| columns.into()))
    }

    /// Words and numbers are never broken: columns that do not fit follow below in a table of their
    /// own, beside the names, and a line overflows if one column is too wide.
    fn laid_out_within(&self, width: Option<usize>) -> String {
        let Some(width) = width else {
            return self.table(&Vec::from_iter(0..self.header.len())).trim_fmt();
        };
        let bounds: Vec<Bounds> = (0..self.header.len()).map(|column| self.bounds(column)).collect();
        let mut bands: Vec<Vec<usize>> = Vec::new();
        for column in self.names.min(bounds.len())..bounds.len() {
            let fits = |band: &&mut Vec<usize>| {
                let columns = band.iter().chain([&column]);
                total(columns.map(|&column| bounds[column].least)) <= width
            };
            match bands.last_mut().filter(fits) {
                Some(band) => band.push(column),
                None => bands.push((0..self.names).chain([column]).collect()),
            }
        }
        let band = |columns: Vec<usize>| {
            let mut table = self.table(&columns);
            let widths = fill(columns.iter().map(|&column| bounds[column]).collect(), width);
            let cap = |width: usize| u16::try_from(width).unwrap_or(u16::MAX);
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(cap(total(widths.iter().copied()).max(width)));
            for (column, width) in table.column_iter_mut().zip(widths) {
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(cap(width))));
            }
            table.trim_fmt()
        };
        bands.into_iter().map(band).collect::<Vec<_>>().join("\n\n")
    }

    fn table(&self, columns: &[usize]) -> comfy_table::Table {
        let mut table = ruled();
        let of = |row: &Vec<String>| columns.iter().map(|&column| cell(row, column).to_owned()).collect::<Vec<_>>();
        table.set_header(of(&self.header)).add_rows(self.rows.iter().map(of));
        table.set_content_arrangement(ContentArrangement::Disabled);
        for (column, index) in table.column_iter_mut().zip(columns) {
            if self.numbers.contains(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    fn bounds(&self, column: usize) -> Bounds {
        let cells = [&self.header].into_iter().chain(&self.rows).map(|row| cell(row, column));
        cells.fold(Bounds::default(), |bounds, cell| {
            let whole = measure_text_width(cell);
            // An interval or a percentage has blanks, but is one number.
            let least = match cell.contains(char::is_alphabetic) {
                true => cell.split_whitespace().map(measure_text_width).max().unwrap_or_default(),
                false => whole,
            };
            Bounds { least: bounds.least.max(least + PADDING), natural: bounds.natural.max(whole + PADDING) }
        })
    }
}

fn cell(row: &[String], column: usize) -> &str {
    row.get(column).map_or("", String::as_str)
}

fn total(widths: impl Iterator<Item = usize>) -> usize {
    widths.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Gives the columns their least widths, and what remains to the narrowest that need more.
fn fill(columns: Vec<Bounds>, width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.least).collect();
    for _ in total(widths.iter().copied())..width {
        let wrapped = widths.iter_mut().zip(&columns).filter(|(width, column)| **width < column.natural);
        match wrapped.map(|(width, _)| width).min() {
            Some(narrowest) => *narrowest += 1,
            None => break,
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|&cell| cell.to_owned()).collect()
    }

    fn numbers() -> Grid {
        let header = ["run", "controller", "median time", "delivered", "95 % interval", "deviation", "loss", "verdict"];
        let row = ["default/continuous/100/250/0", "cocoa-plus", "39.78", "1234567", "39.61 … 39.94", "-0.31 %", "0.2"];
        Grid {
            header: strings(&header),
            names: 2,
            numbers: 2..8,
            rows: vec![strings(&[&row[..], &["does not hold"]].concat())],
        }
    }

    fn text() -> Grid {
        Grid {
            header: strings(&["resource", "title", "format (ct)"]),
            names: 1,
            numbers: 0..0,
            rows: vec![
                strings(&["/a", "a title of several words that needs more than one line of a narrow terminal", "text"]),
                strings(&["/multi-format", "short", "text, json, cbor, senml+json"]),
            ],
        }
    }

    fn widest(text: &str) -> usize {
        text.lines().map(measure_text_width).max().unwrap_or_default()
    }

    #[test]
    fn numbers_and_names_are_never_broken_and_names_are_repeated() {
        for (width, bands) in [(60, 5), (80, 2), (100, 2), (160, 1)] {
            let text = numbers().laid_out_within(Some(width));
            assert!(widest(&text) <= width, "{width}:\n{text}");
            assert_eq!(text.matches("default/continuous/100/250/0").count(), bands, "{width}:\n{text}");
            assert_eq!(text.matches("cocoa-plus").count(), bands, "{width}:\n{text}");
            for whole in ["39.78", "1234567", "39.61 … 39.94", "-0.31 %", "0.2"] {
                assert_eq!(text.matches(whole).count(), 1, "{whole} at {width}:\n{text}");
            }
        }
    }

    #[test]
    fn text_wraps_between_words() {
        for width in [40, 60, 80, 100] {
            let laid_out = text().laid_out_within(Some(width));
            assert!(widest(&laid_out) <= width, "{width}:\n{laid_out}");
            let words: Vec<&str> = laid_out.split_whitespace().collect();
            for row in &text().rows {
                for word in row.iter().flat_map(|cell| cell.split_whitespace()) {
                    assert!(words.contains(&word), "{word} at {width}:\n{laid_out}");
                }
            }
        }
    }

    #[test]
    fn a_column_wider_than_the_terminal_overflows() {
        let laid_out = numbers().laid_out_within(Some(20));
        assert!(laid_out.contains("default/continuous/100/250/0   cocoa-plus    39.78"), "{laid_out}");
    }

    #[test]
    fn without_a_terminal_a_row_is_a_line_without_blanks_at_its_end() {
        let laid_out = text().laid_out_within(None);
        assert!(
            laid_out.lines().any(|line| line.trim_start().starts_with("/a ") && line.ends_with("text")),
            "{laid_out}"
        );
        assert!(laid_out.lines().all(|line| line.trim_end() == line), "{laid_out}");
    }
}
