//! Claims: statements of a paper as conditions on measured values.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ScenarioError, Unit};

/// A statement that measured values test.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name: a template of the labels in `each`.
    pub row: String,
    /// Column of the compared values.
    pub column: String,
    /// Comparison.
    pub compare: Compare,
    /// Compared rows. The second one of a difference or ratio is the subtrahend or denominator.
    /// Intervals are of the outcome per replication, as all schemes share random numbers.
    pub of: Vec<Operand>,
    /// Name of the outcome in results.
    #[serde(rename = "as")]
    pub outcome: String,
    /// Unit of the outcome.
    pub unit: Unit,
    /// Range of the outcome, both ends included; our interpretation if the statement has no
    /// numbers.
    pub range: Option<(f64, f64)>,
    /// Lower bound, in place of a range.
    pub above: Option<f64>,
    /// Upper bound, in place of a range.
    pub below: Option<f64>,
    /// Labels; the claim holds for each combination.
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
    /// The interval of the difference lies above 0. Takes no range; the outcome is the ratio.
    Apart,
    /// Ratio of the standard deviations over runs.
    Widths,
    /// The highest of several values minus the lowest. Rows are patterns with `*` as a wildcard.
    Spread,
    /// Share of the values' variance (R²) that a rising line explains; 0 if it does not rise. The
    /// rows' only `*` is the number on the line's axis.
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
