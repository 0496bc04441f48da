//! What a paper says in words, put to the test with the measured values.
//!
//! Each claim is a row of item `claims`: what was compared, and in the column that ends in `_holds` 1 or 0.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use crate::report::{Align, Table, number};
use crate::results::{Figure, Unit};

/// A comparison of measured values with the paper's words.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What is claimed of what, such as `default_nearly_twice_cocoa/continuous/100/inf`.
    pub row: String,
    /// What was compared, such as `fct_median_ratio`.
    pub column: String,
    /// What that counts.
    pub unit: Unit,
    /// The value that the claim is about.
    pub measured: f64,
    /// How many replications it comes from.
    pub runs: u32,
    /// Whether it is as the paper says.
    pub holds: bool,
}

impl Claim {
    /// A value must lie in a range. Where words leave open how much is meant, the range is our reading of them.
    #[must_use]
    pub fn in_range(
        row: impl Into<String>,
        column: impl Into<String>,
        unit: Unit,
        (measured, runs): (f64, u32),
        range: &RangeInclusive<f64>,
    ) -> Self {
        Self { row: row.into(), column: column.into(), unit, measured, runs, holds: range.contains(&measured) }
    }

    /// One value is above another, and their 95 % confidence intervals do not overlap; what is shown is their ratio.
    #[must_use]
    pub fn clearly_above(row: impl Into<String>, higher: &Figure, lower: &Figure) -> Self {
        let holds = match (higher.ci95, lower.ci95) {
            (Some(higher), Some(lower)) => higher.low > lower.high,
            _ => false,
        };
        // Nothing is infinitely more than nothing; what matters is the verdict.
        let measured = if lower.measured == 0.0 { 0.0 } else { higher.measured / lower.measured };
        let (row, column) = (row.into(), "ratio_apart".to_owned());
        Self { row, column, unit: Unit::Ratio, measured, runs: higher.runs.min(lower.runs), holds }
    }

    /// The compared value and the verdict, as figures of this paper.
    #[must_use]
    pub fn figures(self, paper: &str) -> [Figure; 2] {
        let value = Figure {
            paper: paper.to_owned(),
            item: "claims".to_owned(),
            row: self.row,
            column: self.column.clone(),
            unit: self.unit,
            published: None,
            measured: self.measured,
            ci95: None,
            runs: self.runs,
        };
        let verdict = Figure {
            column: format!("{}_holds", self.column),
            unit: Unit::Verdict,
            published: Some(1.0),
            measured: if self.holds { 1.0 } else { 0.0 },
            ..value.clone()
        };
        [value, verdict]
    }
}

/// Figures by row and column.
#[derive(Clone, Debug)]
pub struct Values<'a>(HashMap<(&'a str, &'a str), &'a Figure>);

impl<'a> Values<'a> {
    /// An index of these figures. Of two of one row and column the later counts.
    #[must_use]
    pub fn new(figures: &'a [Figure]) -> Self {
        Self(figures.iter().map(|figure| ((figure.row.as_str(), figure.column.as_str()), figure)).collect())
    }

    /// The figure of this row and column.
    #[must_use]
    pub fn get(&self, row: &str, column: &str) -> Option<&'a Figure> {
        self.0.get(&(row, column)).copied()
    }
}

/// The claims among figures as a table of text.
pub(crate) fn table(figures: &[Figure]) -> Table {
    let claims = figures.iter().filter(|figure| figure.item == "claims");
    let (values, verdicts): (Vec<_>, Vec<_>) = claims.partition(|figure| figure.unit != Unit::Verdict);
    let rows = values.iter().zip(verdicts).map(|(value, verdict)| {
        let compared = value.column.trim_end_matches("_s").replace('_', " ");
        vec![
            value.row.replace('_', " "),
            compared,
            number(value.measured, value.unit),
            number(verdict.measured, verdict.unit),
        ]
    });
    Table {
        title: "What the paper says in words".to_owned(),
        header: ["claim", "compared", "measured", ""].map(String::from).into(),
        align: Align::FirstTwoLeft,
        rows: rows.collect(),
        ..Table::default()
    }
}
