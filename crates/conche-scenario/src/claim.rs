//! Claims: statements of a paper as conditions on measured values.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ScenarioError, Unit};

/// A statement, tested with measured values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name: a template of the labels in `each`.
    pub row: String,
    /// The compared values.
    pub column: String,
    /// The comparison.
    pub compare: Compare,
    /// The compared rows. A difference or ratio has the second one as its subtrahend or
    /// denominator. Intervals are of the differences, ratios and so on within each replication,
    /// whose random numbers all schemes share.
    pub of: Vec<Operand>,
    /// The name of the outcome in results.
    #[serde(rename = "as")]
    pub outcome: String,
    /// The unit of the outcome.
    pub unit: Unit,
    /// The range of the outcome, both ends included. If the statement gives no numbers, the range
    /// is our interpretation.
    pub range: Option<(f64, f64)>,
    /// A lower bound, in place of a range.
    pub above: Option<f64>,
    /// An upper bound, in place of a range.
    pub below: Option<f64>,
    /// Labels; the claim holds for each combination.
    #[serde(default)]
    pub each: BTreeMap<String, Vec<String>>,
}

/// A compared row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a row, or { least = [rows] } or { most = [rows] }")]
pub enum Operand {
    /// A template of the labels in `each`.
    Row(String),
    /// The row with the lowest value.
    Least {
        /// The rows.
        least: Vec<String>,
    },
    /// The row with the highest value.
    Most {
        /// The rows.
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
    /// The first exceeds the second: the interval of their difference lies above 0. Takes no range;
    /// the outcome is their ratio.
    Apart,
    /// The ratio of the standard deviations over runs, first to second.
    Widths,
    /// The highest of several values minus the lowest. Their rows are patterns with `*` as a
    /// wildcard.
    Spread,
    /// The share of the variance of several values (R²) that a rising line explains; 0 if the line
    /// does not rise. Their rows have one `*`, at the number on the line's axis.
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
