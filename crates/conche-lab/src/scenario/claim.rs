//! What is said in words, put to the test.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ScenarioError;
use crate::results::Unit;

/// What is said in words, put to the test with the measured values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name and what it is of: a template of the labels in `each`.
    pub row: String,
    /// The values that are compared.
    pub column: String,
    /// What they are compared by.
    pub compare: Compare,
    /// Of which rows. A difference or ratio has the second one below. A difference of means has the interval of the
    /// differences of the single replications.
    pub of: Vec<Operand>,
    /// What results call the outcome.
    #[serde(rename = "as")]
    pub outcome: String,
    /// What the outcome counts.
    pub unit: Unit,
    /// Where it must lie for the claim to hold, both ends included; where words leave open how much is meant, this is our
    /// reading of them.
    pub range: Option<(f64, f64)>,
    /// Or what it must exceed.
    pub above: Option<f64>,
    /// Or what it must stay below.
    pub below: Option<f64>,
    /// The claim is made for each combination of these.
    #[serde(default)]
    pub each: BTreeMap<String, Vec<String>>,
    /// The claim is made only where this is so.
    pub given: Option<Given>,
}

/// A condition of a claim: a value lies in a range.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// The value's column.
    pub column: String,
    /// Its row: a template.
    pub of: String,
    /// The number that it is divided by first: a template. Default: 1.
    pub over: Option<String>,
    /// Where it must lie.
    pub range: (f64, f64),
}

/// A row that is compared, or one of several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a row, or { least = [rows] } or { most = [rows] }")]
pub enum Operand {
    /// This one: a template of the labels in `each`.
    Row(String),
    /// That with the least value of these.
    Least {
        /// The rows.
        least: Vec<String>,
    },
    /// That with the largest one.
    Most {
        /// The rows.
        most: Vec<String>,
    },
}

/// What values are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// One value, with the range.
    Value,
    /// The first less the second.
    Difference,
    /// The first over the second.
    Ratio,
    /// The first is above the second, and their 95 % intervals do not overlap: the claim holds then, without a range. What
    /// is shown is their ratio.
    Apart,
    /// The width of the first one's 95 % interval over that of the second: how much more it differs from run to run.
    Widths,
    /// One value is above 0 with all of its 95 % interval: the claim holds then, without a range.
    Clear,
    /// The largest of several values less the least. Their rows are patterns with `*` for anything.
    Spread,
    /// The share of several values' 95 % intervals that are crossed by the rising line which is nearest to the values and is 0
    /// here; their rows have one `*`, for the number that they belong to.
    LineFrom(f64),
}

impl Claim {
    /// Whether it holds with this outcome.
    #[must_use]
    pub fn holds(&self, outcome: f64) -> bool {
        self.range.is_none_or(|(low, high)| (low..=high).contains(&outcome))
            && self.above.is_none_or(|bound| outcome > bound)
            && self.below.is_none_or(|bound| outcome < bound)
    }

    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let refuse = |problem: &str| Err(ScenarioError::new(format!("claims.{}", self.row), problem.to_owned()));
        let rows = match self.compare {
            Compare::Value | Compare::Clear => 1..=1,
            Compare::Spread | Compare::LineFrom(_) => 1..=usize::MAX,
            _ => 2..=2,
        };
        let is_bounded = self.range.is_some() || self.above.is_some() || self.below.is_some();
        match self.compare {
            _ if !rows.contains(&self.of.len()) => {
                refuse("a value is `of` one row, a spread or a line of any, every other comparison of two")
            }
            Compare::Apart | Compare::Clear if is_bounded => refuse("it is so or not; leave out the `range`"),
            Compare::Apart | Compare::Clear => Ok(()),
            _ if !is_bounded => refuse("say in which `range` it must lie, or `above` or `below` what"),
            _ => Ok(()),
        }
    }
}
