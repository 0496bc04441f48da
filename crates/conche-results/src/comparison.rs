//! Controllers compared: what each gave in each cell, and what that makes of it over all cells.
//!
//! Numbers have six decimals at most: the last bits of a float, which may differ between mathematical libraries, are not
//! written.

use serde::{Deserialize, Serialize};

use crate::SCHEMA;

/// A line of `comparison.ndjson`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// The version of the line.
    pub schema: u32,
    /// What it tells of.
    #[serde(flatten)]
    pub of: Compared,
}

/// What a line tells of.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Compared {
    /// A controller in a cell.
    Cell(InCell),
    /// A controller over all cells.
    Controller(Standing),
}

/// What a controller gave in a cell: in one row of an experiment, by one metric.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct InCell {
    /// The paper or scenario.
    pub paper: String,
    /// The row but for the scheme, such as `random/400/inf`.
    pub cell: String,
    /// The column, such as `fct_median_s`.
    pub metric: String,
    /// What is counted.
    pub unit: String,
    /// Whether `higher` or `lower` values are better.
    pub better: String,
    /// The controller.
    pub controller: String,
    /// What was measured; `None` if some replication had no value, as one that failed.
    pub value: Option<f64>,
    /// By how many times it is worse than the best one, or than that of the baseline; `None` without a value.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio; `None` for a single replication.
    pub ci95: Option<[f64; 2]>,
    /// The interval has no 1.
    pub apart: bool,
    /// What it was in each replication.
    pub runs: Vec<f64>,
}

/// What cells make of a controller. The first one of a comparison is the one that loses least.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Standing {
    /// The controller.
    pub controller: String,
    /// The controller that ratios are to; `None`: to the best one of each cell.
    pub baseline: Option<String>,
    /// Over all cells.
    #[serde(flatten)]
    pub all: Tally,
    /// Over those of each paper.
    pub papers: Vec<OfPaper>,
}

/// The same over the cells of a paper or scenario.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct OfPaper {
    /// Its name.
    pub paper: String,
    /// What its cells make.
    #[serde(flatten)]
    pub of: Tally,
}

/// What some cells make of a controller.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Tally {
    /// How many cells are compared.
    pub cells: usize,
    /// In how many of them it has no value.
    pub missing: usize,
    /// The worst ratio that is apart from 1; 1 if none is. `None` if there are no intervals. Where values are missing, it is at
    /// least that.
    pub regret: Option<f64>,
    /// The geometric mean of the ratios; `None` if it has no value somewhere.
    pub mean: Option<f64>,
    /// The 95 % interval of that.
    pub ci95: Option<[f64; 2]>,
    /// In how many cells it is behind: the ratio is apart from 1, and above.
    pub behind: usize,
    /// In how many cells it is ahead of the baseline: the ratio is apart from 1, and below.
    pub ahead: usize,
}

/// Why a line cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// The line is no JSON of a comparison.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The line has another schema version.
    #[error("it is of schema {0}, this conche's of schema {SCHEMA}")]
    Schema(u32),
}

impl Row {
    /// A line of the version that this crate writes.
    #[must_use]
    pub fn new(of: Compared) -> Self {
        Self { schema: SCHEMA, of }
    }

    /// The name of its file in a directory of results.
    pub const FILE: &str = "comparison.ndjson";

    /// Reads a line.
    ///
    /// # Errors
    /// If it is something else, or of another version.
    pub fn from_json(text: &str) -> Result<Self, RowError> {
        let row: Self = serde_json::from_str(text)?;
        match row.schema {
            SCHEMA => Ok(row),
            other => Err(RowError::Schema(other)),
        }
    }
}

impl Tally {
    /// The regret as boards have it: where values are missing, at least so much.
    #[must_use]
    pub fn shown_regret(&self) -> String {
        format!("{}{}", if self.missing > 0 { "≥" } else { "" }, shown(self.regret))
    }

    /// The interval of the mean as boards have it.
    #[must_use]
    pub fn shown_interval(&self) -> String {
        self.ci95.map(|bounds| bounds.map(|bound| shown(Some(bound))).join("…")).unwrap_or_default()
    }

    /// In which share of the cells it is behind, or ahead.
    #[must_use]
    pub fn shown_share(&self, of: usize) -> String {
        format!("{:.0} %", 100.0 * of as f64 / self.cells.max(1) as f64)
    }

    /// Regret and mean.
    #[must_use]
    pub fn shown_in_short(&self) -> String {
        format!("{} ({})", self.shown_regret(), shown(self.mean))
    }
}

/// A ratio with three digits or so, or a dash where there is none.
#[must_use]
pub fn shown(ratio: Option<f64>) -> String {
    match ratio {
        None => "–".to_owned(),
        Some(ratio) if ratio < 9.995 => format!("{ratio:.2}"),
        Some(ratio) if ratio < 99.95 => format!("{ratio:.1}"),
        Some(ratio) => format!("{ratio:.0}"),
    }
}

/// A number with at most six decimals.
#[must_use]
pub fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// Lines as they stand in a file.
///
/// # Errors
/// Never, but for a lack of memory.
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
        let papers = vec![OfPaper { paper: "p".to_owned(), of: tally.clone() }];
        let row = Row::new(Compared::Controller(Standing {
            controller: "mine".to_owned(),
            baseline: None,
            all: tally,
            papers,
        }));
        let json = String::from_utf8(to_ndjson(std::slice::from_ref(&row)).expect("memory")).expect("text");
        assert!(json.starts_with(r#"{"schema":1,"kind":"controller","controller":"mine","#), "{json}");
        assert_eq!(Row::from_json(&json).expect("it was written"), row);
        let other = json.replacen("\"schema\":1", "\"schema\":2", 1);
        assert!(Row::from_json(&other).is_err_and(|error| error.to_string().contains("schema 2")));
    }

    #[test]
    fn a_board_has_as_many_digits_as_tell_something() {
        let gap = Tally { cells: 8, missing: 1, regret: Some(23_617.25), ci95: Some([0.5, 12.34]), ..Tally::default() };
        assert_eq!([gap.shown_regret(), gap.shown_interval(), gap.shown_share(2)], ["≥23617", "0.50…12.3", "25 %"]);
        assert_eq!(gap.shown_in_short(), "≥23617 (–)");
    }

    #[test]
    fn numbers_have_six_decimals() {
        assert_eq!(format!("{:?}", [1.0 / 3.0, 2.0, -1e-9].map(rounded)), "[0.333333, 2.0, -0.0]");
    }
}
