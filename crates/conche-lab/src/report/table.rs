//! A table of text.

use std::fmt;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, TableComponent};

use super::{deviation, interval};
use crate::results::{Figure, Unit};

/// A table with a title and, below it, what a reader must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The names of its columns.
    pub header: Vec<String>,
    /// How many of the first columns are names; the others are numbers.
    pub align: Align,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Which columns are names, and so stand at the left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// The first one.
    #[default]
    FirstLeft,
    /// The first two.
    FirstTwoLeft,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
        let between_rows = [TableComponent::HorizontalLines, TableComponent::MiddleIntersections];
        for line in between_rows
            .into_iter()
            .chain([TableComponent::LeftBorderIntersections, TableComponent::RightBorderIntersections])
        {
            table.remove_style(line);
        }
        table.set_header(&self.header).add_rows(&self.rows);
        let names = match self.align {
            Align::FirstLeft => 1,
            Align::FirstTwoLeft => 2,
        };
        for column in table.column_iter_mut().skip(names) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{}", self.title)?;
        writeln!(f, "{table}")?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))
    }
}

/// A table of figures beside what was published: one row a figure, `names` being what its first two columns say.
#[must_use]
pub fn comparison<'a>(
    title: &str,
    header: [&str; 2],
    figures: impl IntoIterator<Item = &'a Figure>,
    names: impl Fn(&Figure) -> [String; 2],
) -> Table {
    let show = |value: f64, unit| match unit {
        Unit::Seconds => format!("{value:.3}"),
        unit => super::number(value, unit),
    };
    let rows = figures.into_iter().map(|figure| {
        let [first, second] = names(figure);
        let published = figure.published.map(|value| show(value, figure.unit)).unwrap_or_default();
        vec![first, second, published, show(figure.measured, figure.unit), deviation(figure), interval(figure)]
    });
    let columns = ["published", "measured", "deviation", "95 % interval"];
    Table {
        title: title.to_owned(),
        header: header.iter().chain(&columns).map(|name| (*name).to_owned()).collect(),
        align: Align::FirstTwoLeft,
        rows: rows.collect(),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;

    #[test]
    fn a_comparison_shows_published_measured_deviation_and_interval() {
        let figure = Figure {
            paper: "anrw18".to_owned(),
            item: "table1".to_owned(),
            row: "default/continuous/50/2500".to_owned(),
            column: "fct_median_s".to_owned(),
            unit: Unit::Seconds,
            published: Some(62.0),
            measured: 62.31,
            ci95: Some(Interval { low: 62.2, high: 62.4 }),
            runs: 20,
        };
        let names = |figure: &Figure| [figure.row.clone(), figure.column.clone()];
        let text = comparison("Table 1", ["cell", "value"], [&figure], names).to_string();
        let line = text.lines().find(|line| line.contains("fct_median_s")).expect("a row");
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            cells,
            ["default/continuous/50/2500", "fct_median_s", "62.000", "62.310", "+0.50", "%", "62.200", "…", "62.400"]
        );
    }
}
