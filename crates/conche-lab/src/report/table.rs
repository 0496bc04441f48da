//! A table of text.

use std::fmt;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, TableComponent};

/// Returns an empty table, ruled around its header only.
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

/// A table with a title above and notes below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Column names.
    pub header: Vec<String>,
    /// Leading columns of names, aligned left; the others are numbers.
    pub names: usize,
    /// Rows.
    pub rows: Vec<Vec<String>>,
    /// Notes.
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
