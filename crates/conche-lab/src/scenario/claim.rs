//! What is said in words, put to the test.

use std::collections::BTreeMap;

use conche_results::Verdict;
use serde::Deserialize;

use super::ScenarioError;
use crate::results::Unit;
use crate::stats::Interval;

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
    /// Of which rows. A difference or ratio has the second one below. Intervals are of the differences, ratios and so on of
    /// the same replications, whose random numbers all schemes share.
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
    /// The first is above the second: the interval of their difference lies above 0, and that is the claim, without a
    /// range. What is shown is their ratio.
    Apart,
    /// The standard deviation of the first over that of the second: how much more it differs from run to run.
    Widths,
    /// The largest of several values less the least. Their rows are patterns with `*` for anything.
    Spread,
    /// How near several values are to a rising line that is 0 here: the share of their variance that it explains (R²), 0 if the
    /// line does not rise. Their rows have one `*`, for the number that they belong to.
    LineFrom(f64),
}

impl Claim {
    /// What becomes of it with this interval of its outcome.
    #[must_use]
    pub fn judge(&self, interval: Option<Interval>) -> Verdict {
        let Some(Interval { low, high }) = interval else { return Verdict::Inconclusive };
        let above = if self.compare == Compare::Apart { Some(0.0) } else { self.above };
        let (least, most) = self.range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let is_within = least <= low && high <= most;
        let is_beyond = high < least || most < low;
        if is_within && above.is_none_or(|bound| bound < low) && self.below.is_none_or(|bound| high < bound) {
            Verdict::Holds
        } else if is_beyond || above.is_some_and(|bound| high <= bound) || self.below.is_some_and(|bound| bound <= low)
        {
            Verdict::Refuted
        } else {
            Verdict::Inconclusive
        }
    }

    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let refuse = |problem: &str| Err(ScenarioError::new(format!("claims.{}", self.row), problem.to_owned()));
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
