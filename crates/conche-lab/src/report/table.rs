//! A table of text.

use std::fmt;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, TableComponent};

/// An empty table with lines only around its head.
#[must_use]
pub fn ruled() -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    for between_rows in [
        TableComponent::HorizontalLines,
        TableComponent::MiddleIntersections,
        TableComponent::LeftBorderIntersections,
        TableComponent::RightBorderIntersections,
    ] {
        table.remove_style(between_rows);
    }
    table
}

/// A table with a title and, below it, what a reader must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The names of its columns.
    pub header: Vec<String>,
    /// How many of the first columns are names, and so stand at the left; the others are numbers.
    pub names: usize,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = ruled();
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.header).add_rows(&self.rows);
        for column in table.column_iter_mut().skip(self.names) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{}", self.title)?;
        writeln!(f, "{table}")?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))
    }
}
