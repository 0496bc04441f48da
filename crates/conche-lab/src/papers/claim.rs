//! What a paper says in words, put to the test with the measured values.
//!
//! Each claim is a row of item `claims`: what was compared, and in the column that ends in `_holds` 1, 0 or, if that is
//! inconclusive, 0.5.

use std::collections::HashMap;

use crate::report::{Align, Table, interval, number};
use crate::results::{Figure, Unit};

/// The item of claims.
pub(crate) const CLAIMS: &str = "claims";

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
    let claims = figures.iter().filter(|figure| figure.item == CLAIMS);
    let (values, verdicts): (Vec<_>, Vec<_>) = claims.partition(|figure| figure.unit != Unit::Verdict);
    let rows = values.iter().zip(verdicts).map(|(value, verdict)| {
        let compared = value.column.trim_end_matches("_s").replace('_', " ");
        vec![
            value.row.replace('_', " "),
            compared,
            number(value.measured, value.unit),
            interval(value),
            number(verdict.measured, verdict.unit),
        ]
    });
    Table {
        title: "What the paper says in words".to_owned(),
        header: ["claim", "compared", "measured", "95 %", ""].map(String::from).into(),
        align: Align::FirstTwoLeft,
        rows: rows.collect(),
        ..Table::default()
    }
}
