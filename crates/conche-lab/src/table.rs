//! Text tables and number formats.

use std::fmt;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, TableComponent};

use conche_results::Verdict;

use crate::scenario::Unit;
use crate::value::MeasuredValue;

/// Returns an empty table with lines around its header only.
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
    /// Leading columns of names, left-aligned; the others hold numbers.
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
        writeln!(f, "{}", table.trim_fmt())?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))
    }
}

/// Formats a value with its unit's decimals.
#[must_use]
pub fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Exchanges | Unit::Bytes | Unit::BitsPerSecond => format!("{value:.0}"),
        Unit::Copies | Unit::Percent => format!("{value:.1}"),
        Unit::PerSecond | Unit::Count | Unit::Ratio => format!("{value:.2}"),
        Unit::Verdict => Verdict::of(value).words().to_owned(),
        Unit::Seconds if value.abs() < 10.0 => format!("{value:.3}"),
        Unit::Seconds if value.abs() < 100.0 => format!("{value:.2}"),
        Unit::Seconds if value.abs() < 1000.0 => format!("{value:.1}"),
        Unit::Seconds => format!("{value:.0}"),
    }
}

/// Formats the deviation from the published value, such as `-0.31 %`, if any.
#[must_use]
pub fn deviation(value: &MeasuredValue) -> String {
    value.deviation_percent().map(|percent| format!("{percent:+.2} %")).unwrap_or_default()
}

/// Formats the confidence interval, such as `62.59 … 62.79`, if any.
#[must_use]
pub fn interval(value: &MeasuredValue) -> String {
    let show = |bound| match value.unit {
        Unit::Seconds => format!("{bound:.3}"),
        unit => number(bound, unit),
    };
    value.ci95.map(|interval| format!("{} … {}", show(interval.low), show(interval.high))).unwrap_or_default()
}
