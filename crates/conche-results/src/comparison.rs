//! Comparison of controllers: values per cell, and ranking over all cells.
//!
//! Numbers have at most six decimals; the last bits may differ between mathematical libraries.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;

/// A line of `comparison.ndjson`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// Schema version.
    pub schema: u32,
    /// Content.
    #[serde(flatten)]
    pub of: Compared,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[expect(clippy::large_enum_variant, reason = "a comparison has some thousand lines")]
pub enum Compared {
    /// A controller in a cell.
    Cell(InCell),
    /// A controller over all cells.
    Controller(Standing),
}

/// A controller's value of one metric in one cell.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct InCell {
    /// Scenario.
    pub scenario: String,
    /// Row without the scheme, such as `random/400/inf`.
    pub cell: String,
    /// Column, such as `fct_median_s`.
    pub column: String,
    /// The scenario's purpose, `design` or `judgement`, if it has one.
    #[serde(default)]
    pub purpose: Option<String>,
    /// Unit.
    pub unit: String,
    /// Better values: `higher` or `lower`.
    pub better: String,
    /// Controller.
    pub controller: String,
    /// Measured value; `None` if a replication has none.
    pub value: Option<f64>,
    /// Factor by which it is worse than the best controller or the baseline.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; `None` for one replication.
    pub ci95: Option<[f64; 2]>,
    /// Whether the interval excludes 1.
    pub apart: bool,
    /// Value in each replication.
    pub runs: Vec<f64>,
}

/// The ranking of a controller over the scenarios of one purpose; the first of a purpose is the
/// best.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Standing {
    /// Controller.
    pub controller: String,
    /// Purpose of the scenarios, `design` or `judgement`; `None` for those without one.
    #[serde(default)]
    pub purpose: Option<String>,
    /// Baseline of ratios; `None` for each cell's best controller.
    pub baseline: Option<String>,
    /// Over all cells.
    #[serde(flatten)]
    pub all: Tally,
    /// Number of points: rows with all their metrics.
    #[serde(default)]
    pub points: usize,
    /// Points in which another controller dominates this one.
    #[serde(default)]
    pub dominated: Vec<Dominated>,
    /// Ratios to `default`; `None` if it is not compared, or the baseline.
    #[serde(default)]
    pub to_default: Option<Tally>,
    /// Over cells in seconds where less is better.
    #[serde(default)]
    pub times: Tally,
    /// Over cells that measure unnecessary transmissions.
    #[serde(default)]
    pub unnecessary: Tally,
    /// Over the cells of each scenario.
    pub scenarios: Vec<OfScenario>,
}

/// A point in which controllers are better in every metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Dominated {
    /// Scenario.
    pub scenario: String,
    /// Row without the scheme.
    pub cell: String,
    /// The better controllers.
    pub by: Vec<String>,
}

/// Ranking over the cells of one scenario.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct OfScenario {
    /// Name.
    pub scenario: String,
    /// Ranking.
    #[serde(flatten)]
    pub of: Tally,
}

/// Statistics of a controller over some cells.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Tally {
    /// Compared cells.
    pub cells: usize,
    /// Cells without a value.
    pub missing: usize,
    /// Worst ratio that differs significantly from 1; 1 if none does. `None` without intervals. A
    /// lower bound if values are missing.
    pub regret: Option<f64>,
    /// Cell and metric with this ratio; `None` if no ratio differs.
    #[serde(default)]
    pub regret_in: Option<ColumnOfCell>,
    /// Geometric mean of the ratios; `None` if a value is missing.
    pub mean: Option<f64>,
    /// 95 % interval of the mean.
    pub ci95: Option<[f64; 2]>,
    /// Cells with a ratio significantly above 1.
    pub behind: usize,
    /// Cells with a ratio significantly below 1.
    pub ahead: usize,
}

/// A metric of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ColumnOfCell {
    /// Scenario.
    pub scenario: String,
    /// Row without the scheme.
    pub cell: String,
    /// Column.
    pub column: String,
}

/// Why a line cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// Invalid JSON of a comparison.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The line has another schema version.
    #[error("it is of schema {0}, this conche's of schema {SCHEMA}")]
    Schema(u32),
}

impl Row {
    /// Creates a line of the current schema version.
    #[must_use]
    pub fn new(of: Compared) -> Self {
        Self { schema: SCHEMA, of }
    }

    /// Its file name.
    pub const FILE: &str = "comparison.ndjson";

    /// Reads a line.
    ///
    /// # Errors
    /// If it is invalid or of another schema version.
    pub fn from_json(text: &str) -> Result<Self, RowError> {
        let row: Self = serde_json::from_str(text)?;
        match row.schema {
            SCHEMA => Ok(row),
            other => Err(RowError::Schema(other)),
        }
    }
}

impl Standing {
    /// Number of points in which this controller dominates.
    #[must_use]
    pub fn dominated_by(&self, controller: &str) -> usize {
        self.dominated.iter().filter(|point| point.by.iter().any(|name| name == controller)).count()
    }

    /// Returns the controller that dominates in most points, and their number; of equal ones, the
    /// first by name.
    #[must_use]
    pub fn dominated_most_by(&self) -> Option<(&str, usize)> {
        let all: BTreeSet<&str> = self.dominated.iter().flat_map(|point| &point.by).map(String::as_str).collect();
        let counted = all.into_iter().rev().map(|name| (name, self.dominated_by(name)));
        counted.max_by_key(|(_, points)| *points)
    }
}

impl Tally {
    /// Formats the regret, or the number of cells without a value: the worst ratio of the other
    /// cells would hide them.
    #[must_use]
    pub fn shown_regret(&self) -> String {
        match self.missing {
            0 => shown(self.regret),
            1 => "fails in 1 cell".to_owned(),
            missing => format!("fails in {missing} cells"),
        }
    }

    /// Formats the interval of the mean.
    #[must_use]
    pub fn shown_interval(&self) -> String {
        self.ci95.map(|bounds| bounds.map(|bound| shown(Some(bound))).join("…")).unwrap_or_default()
    }

    /// Formats cells as a share.
    #[must_use]
    pub fn shown_share(&self, of: usize) -> String {
        format!("{:.0} %", 100.0 * of as f64 / self.cells.max(1) as f64)
    }

    /// Formats regret and mean, which needs all cells.
    #[must_use]
    pub fn shown_in_short(&self) -> String {
        match self.mean {
            None => self.shown_regret(),
            Some(mean) => format!("{} ({})", self.shown_regret(), shown(Some(mean))),
        }
    }
}

/// Formats about three digits.
#[must_use]
pub fn shown(ratio: Option<f64>) -> String {
    match ratio {
        None => "–".to_owned(),
        Some(ratio) if ratio < 9.995 => format!("{ratio:.2}"),
        Some(ratio) if ratio < 99.95 => format!("{ratio:.1}"),
        Some(ratio) => format!("{ratio:.0}"),
    }
}

/// Rounds a number to six decimals.
#[must_use]
pub fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// Returns the lines of a file.
///
/// # Errors
/// Only if memory is exhausted.
pub fn to_ndjson(rows: &[Row]) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut text, row)?;
        text.push(b'\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_as_it_was_written_and_one_of_another_version_is_refused() {
        let tally = Tally { cells: 3, regret: Some(1.5), ci95: Some([1.0, 1.2]), ..Tally::default() };
        let scenarios = vec![OfScenario { scenario: "p".to_owned(), of: tally.clone() }];
        let dominated =
            vec![Dominated { scenario: "p".to_owned(), cell: "1".to_owned(), by: vec!["other".to_owned()] }];
        let standing =
            Standing { controller: "mine".to_owned(), all: tally, dominated, scenarios, ..Standing::default() };
        let row = Row::new(Compared::Controller(standing));
        let json = String::from_utf8(to_ndjson(std::slice::from_ref(&row)).expect("memory")).expect("text");
        assert!(json.starts_with(r#"{"schema":1,"kind":"controller","controller":"mine","#), "{json}");
        assert_eq!(Row::from_json(&json).expect("it was written"), row);
        let other = json.replacen("\"schema\":1", "\"schema\":2", 1);
        assert!(Row::from_json(&other).is_err_and(|error| error.to_string().contains("schema 2")));
    }

    #[test]
    fn the_most_frequent_dominator_is_the_first_of_equals() {
        let point =
            |by: &[&str]| Dominated { by: by.iter().map(|name| (*name).to_owned()).collect(), ..Dominated::default() };
        let of = |points: &[&[&str]]| Standing {
            dominated: points.iter().map(|by| point(by)).collect(),
            ..Standing::default()
        };
        assert_eq!(of(&[&["b", "a"], &["b"]]).dominated_most_by(), Some(("b", 2)));
        assert_eq!(of(&[&["b"], &["a"]]).dominated_most_by(), Some(("a", 1)));
        assert_eq!(of(&[]).dominated_most_by(), None);
        assert_eq!(of(&[&["b", "a"], &["b"]]).dominated_by("a"), 1);
    }

    #[test]
    fn a_board_has_as_many_digits_as_tell_something() {
        let gap = Tally { cells: 8, missing: 1, regret: Some(23_617.25), ci95: Some([0.5, 12.34]), ..Tally::default() };
        assert_eq!(
            [gap.shown_regret(), gap.shown_interval(), gap.shown_share(2)],
            ["fails in 1 cell", "0.50…12.3", "25 %"]
        );
        assert_eq!(gap.shown_in_short(), "fails in 1 cell");
    }

    #[test]
    fn numbers_have_six_decimals() {
        assert_eq!(format!("{:?}", [1.0 / 3.0, 2.0, -1e-9].map(rounded)), "[0.333333, 2.0, -0.0]");
    }
}
