//! Claims: statements of a paper as conditions on values.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ScenarioError, Unit};

/// A statement that measured values test.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name: a template of labels in `each`.
    pub row: String,
    /// Column of the compared values.
    pub column: String,
    /// Comparison.
    pub compare: Compare,
    /// Compared rows; the second is the subtrahend or denominator. Intervals are over the outcomes
    /// per replication, as schemes share random numbers.
    pub of: Vec<Operand>,
    /// Name of the outcome in results.
    #[serde(rename = "as")]
    pub outcome: String,
    /// Unit of the outcome.
    pub unit: Unit,
    /// Inclusive range of the outcome; our interpretation if the statement has no numbers.
    pub range: Option<(f64, f64)>,
    /// Lower bound, instead of a range.
    pub above: Option<f64>,
    /// Upper bound, instead of a range.
    pub below: Option<f64>,
    /// Labels; the claim must hold for each combination.
    #[serde(default)]
    pub each: BTreeMap<String, Vec<String>>,
}

/// A compared row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a row, or { least = [rows] } or { most = [rows] }")]
pub enum Operand {
    /// Template of the labels in `each`.
    Row(String),
    /// The row with the lowest value.
    Least {
        /// Rows.
        least: Vec<String>,
    },
    /// The row with the highest value.
    Most {
        /// Rows.
        most: Vec<String>,
    },
}

/// A comparison of values.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// The value itself.
    Value,
    /// The first minus the second.
    Difference,
    /// The first divided by the second.
    Ratio,
    /// The interval of the difference lies above 0; the outcome is the ratio. Takes no range.
    Apart,
    /// Ratio of the standard deviations.
    Widths,
    /// Highest minus lowest of several values. Rows are patterns with `*`.
    Spread,
    /// Share of variance (R²) that a rising line explains; 0 if it does not rise. The rows' only
    /// `*` is the x value.
    LineFrom(f64),
}

impl Claim {
    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let refuse = |problem: &str| Err(ScenarioError::new(format_args!("claims.{}", self.row), problem));
        let rows = match self.compare {
            Compare::Value => 1..=1,
            Compare::Spread | Compare::LineFrom(_) => 1..=usize::MAX,
            _ => 2..=2,
        };
        let is_bounded = self.range.is_some() || self.above.is_some() || self.below.is_some();
        match self.compare {
            _ if !rows.contains(&self.of.len()) => {
                refuse("a value is `of` one row, a spread or a line of any, every other comparison of two")
            }
            Compare::Apart if is_bounded => refuse("it is so or not; leave out the `range`"),
            Compare::Apart => Ok(()),
            _ if !is_bounded => refuse("say in which `range` it must lie, or `above` or `below` what"),
            _ => Ok(()),
        }
    }
}
