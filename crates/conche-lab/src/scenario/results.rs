//! What a scenario wants to know: values, which table or figure each belongs to, tables, claims.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ScenarioError, once};
use crate::metrics::{Metric, Statistic};
use crate::results::Unit;
use crate::stats::Interval;
use crate::units::Span;

/// A value of each cell: a metric of its flows, and what is made of the replications.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// What results call it, such as `fct_median_s`. Where a metric has several numbers, `{}` stands for the label of each.
    pub column: String,
    /// What is measured.
    pub metric: Metric,
    /// What is made of the replications. Default: the mean.
    #[serde(default)]
    pub statistic: Statistic,
    /// The traffic whose flows count; without, all.
    pub traffic: Option<String>,
    /// The row, as a template, where it is not the scenario's.
    pub row: Option<String>,
    /// The item, where `items` do not tell it.
    pub item: Option<String>,
    /// Only in cells with these labels.
    #[serde(default)]
    pub only: BTreeMap<String, Labels>,
    /// The axes over which cells are taken together, as if the flows of each replication were of one run. The value is that
    /// of the last of these cells.
    #[serde(default)]
    pub over: Vec<String>,
    /// Where on axes the cell is whose value it is, where that is another one.
    #[serde(default)]
    pub of: BTreeMap<String, Pick>,
    /// Where on axes the cell is that it is compared with, replication by replication, where that is another one.
    #[serde(default)]
    pub than: BTreeMap<String, Pick>,
    /// How it is compared.
    pub by: Option<By>,
}

/// What is measured where a scenario does not say what.
pub(super) fn standard() -> Vec<Value> {
    #[derive(Deserialize)]
    struct Standard {
        values: Vec<Value>,
    }
    once::from_text::<Standard>(include_str!("standard.toml")).expect("any scenario without values reads it").values
}

/// A place on an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a label, \"first\", \"last\", \"previous\", or { gain_below_percent = 1 }")]
pub enum Pick {
    /// That of this label; or the `first` or `last` one, or the one before the cell's own, `previous`.
    At(String),
    /// The first one after which the mean grows by less than this; if there is none, the last one.
    LevelsOff {
        /// In per cent.
        gain_below_percent: f64,
    },
}

/// How the values of two cells are compared, replication by replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The first less the second.
    Difference,
    /// By how many per cent the first is more: of flows, over those that have a value in both.
    Gain,
    /// Not at all: what is wanted is the place that `of` picks, whose label is a number.
    Label,
}

/// A label, or several of which one must be met, with `*` for anything.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Labels {
    /// This one.
    One(String),
    /// One of these.
    Any(Vec<String>),
}

/// A table or figure of a paper, or any group of values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What results call it. A value belongs to the first item that matches both its row and its column.
    pub name: String,
    /// What it shows.
    #[serde(default)]
    pub title: String,
    /// Patterns of rows, with `*` for anything. Default: all rows.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// Patterns of columns. Default: none, for an item that values name themselves.
    #[serde(default)]
    pub columns: Vec<String>,
}

/// A table of text over the results.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Only values of these items. Default: of all.
    #[serde(default)]
    pub items: Vec<String>,
    /// Only rows that match one of these patterns. Default: all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// Only columns that match one of these patterns. Default: all.
    #[serde(default = "anything")]
    pub columns: Vec<String>,
    /// The names at the left: a heading and a template of the row's labels, of `{column}` too, and of `{label}`, which is
    /// what stands for `{}` in a column.
    pub names: Vec<Head>,
    /// Templates by which labels are read out of rows, where they are not the scenario's; a row that fits none is not shown.
    #[serde(default)]
    pub labels: Vec<String>,
    /// What is side by side: a template. Default: nothing.
    #[serde(default)]
    pub across: String,
    /// What is shown of each, as templates of columns. Without, the published value, the measured one, its deviation and
    /// its interval: such a table has a line for each value.
    #[serde(default)]
    pub cells: Vec<Head>,
    /// Remarks below.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A heading and a template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The heading.
    #[serde(default)]
    pub head: String,
    /// The template.
    pub show: String,
    /// Of a name, what is shown for rows that do not have its labels. Default: such rows are not shown.
    pub missing: Option<String>,
}

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

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The outcome lies where it must, with all of its 95 % interval.
    Holds,
    /// Some of the interval lies where it must and some does not, or there is no interval.
    Inconclusive,
    /// No part of the interval lies where it must.
    Refuted,
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

/// How near a value must be to what was published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// Of the values of these items. Default: of all.
    #[serde(default)]
    pub items: Vec<String>,
    /// In rows that match one of these patterns. Default: in all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// By so many per cent of the published value at most. Without, within the interval that was published with it.
    pub percent: Option<f64>,
}

/// Published values that parameters were fitted on; what comes out for all others is a prediction.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The values of these items. Default: of all.
    #[serde(default)]
    pub items: Vec<String>,
    /// In rows that match one of these patterns. Default: in all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
}

/// Why values are not as published.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The values of these items. Default: of all.
    #[serde(default)]
    pub items: Vec<String>,
    /// In rows that match one of these patterns. Default: in all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// Why.
    pub text: String,
}

fn anything() -> Vec<String> {
    vec!["*".to_owned()]
}

/// What distinguishes the schemes, shown beside what is measured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    /// The item of each scheme's bytes of state for a peer.
    pub item: String,
    /// The title of the table.
    pub title: String,
}

impl Verdict {
    /// As a figure has it: 1 if the claim holds, 0 if it is refuted, and one half in between.
    #[must_use]
    pub const fn number(self) -> f64 {
        match self {
            Self::Holds => 1.0,
            Self::Inconclusive => 0.5,
            Self::Refuted => 0.0,
        }
    }
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

impl Labels {
    /// Whether a label is among them.
    #[must_use]
    pub fn contain(&self, label: &str) -> bool {
        match self {
            Self::One(one) => matches(one, label),
            Self::Any(any) => matches_any(any, label),
        }
    }
}

impl Value {
    pub(super) fn validate(&self, axes: &[&str], traffic: &[&str], longest: Span) -> Result<(), ScenarioError> {
        let place = || format!("values.{}", self.column);
        let named = [
            ("only", self.only.keys().collect::<Vec<_>>()),
            ("over", self.over.iter().collect()),
            ("of", self.of.keys().collect()),
            ("than", self.than.keys().collect()),
        ];
        for (key, named) in named {
            if let Some(unknown) = named.into_iter().find(|axis| !axes.contains(&axis.as_str())) {
                let problem = format!("there is no axis `{unknown}`; the axes are {}", axes.join(", "));
                return Err(ScenarioError::new(format!("{}.{key}", place()), problem));
            }
        }
        self.validate_comparison().map_err(|problem| ScenarioError::new(place(), problem.to_owned()))?;
        match &self.traffic {
            Some(unknown) if !traffic.contains(&unknown.as_str()) => {
                let problem = format!("there is no traffic `{unknown}`; there is {}", traffic.join(", "));
                Err(ScenarioError::new(format!("{}.traffic", place()), problem))
            }
            _ => self.metric.validate(self.statistic, longest).map_err(|problem| ScenarioError::new(place(), problem)),
        }
    }
}

impl Value {
    /// Refuses comparisons that say nothing.
    fn validate_comparison(&self) -> Result<(), &'static str> {
        let compares = matches!(self.by, Some(By::Difference | By::Gain));
        match self.statistic {
            _ if compares && self.of.is_empty() && self.than.is_empty() => Err("say `than` what it is more"),
            _ if !compares && !self.than.is_empty() => Err("say whether it is compared `by` difference or gain"),
            _ if self.by == Some(By::Label) && self.of.len() != 1 => Err("a label is that of one axis in `of`"),
            Statistic::Mean | Statistic::Median | Statistic::Deviation => Ok(()),
            _ if self.by.is_some() => Err("only means, medians and deviations of replications are compared"),
            _ if !self.over.is_empty() => Err("only means, medians and deviations are taken over several cells"),
            _ => Ok(()),
        }?;
        match self.over.is_empty() || self.metric.can_be_pooled() {
            true => Ok(()),
            false => Err("what it measures is of one run, and has no meaning `over` several cells"),
        }
    }

    /// Whether it needs other cells than its own.
    pub(crate) fn is_across_cells(&self) -> bool {
        !(self.over.is_empty() && self.of.is_empty() && self.than.is_empty())
    }

    /// What it counts.
    pub(crate) fn unit(&self) -> Unit {
        match self.by {
            Some(By::Gain) => Unit::Percent,
            Some(By::Label) => Unit::Count,
            Some(By::Difference) | None => self.metric.unit(),
        }
    }
}

/// Whether a text matches a pattern, in which `*` stands for anything.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(after, &rest[at..]))
}

/// Whether a text matches one of these.
#[must_use]
pub fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

/// A template with `{name}` replaced by what `of` knows of it; `None` if it does not know one.
#[must_use]
pub fn filled<'a>(template: &str, of: impl Fn(&str) -> Option<std::borrow::Cow<'a, str>>) -> Option<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}')?;
        text.push_str(before);
        text.push_str(&of(name)?);
        rest = behind;
    }
    text.push_str(rest);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_what_its_stars_stand_for() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("default/*/2500", "default/random/50/2500", true),
            ("default/*/2500", "default/random/50/25000", false),
            ("default/*", "default@a+b/random", false),
            ("*-fb*", "cocoa-fb1/x", true),
            ("fct_*_s", "fct_median_s", true),
            ("a", "b", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_template_is_filled_or_not_at_all() {
        let of = |name: &str| (name == "a").then_some("1".into());
        assert_eq!(filled("x{a}y{a}", of).as_deref(), Some("x1y1"));
        assert_eq!(filled("plain", of).as_deref(), Some("plain"));
        assert_eq!(filled("{a}{b}", of), None);
    }
}
