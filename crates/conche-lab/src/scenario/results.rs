//! What a scenario wants to know: values, which table or figure each belongs to, tables, claims.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ScenarioError;
use crate::metrics::{Metric, Statistic};
use crate::results::Unit;
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
    /// The names at the left: a heading and a template of the row's labels, of `{column}` too.
    pub names: Vec<Head>,
    /// Templates by which labels are read out of rows, where they are not the scenario's; a row that fits none is not shown.
    #[serde(default)]
    pub labels: Vec<String>,
    /// A template by which labels are read out of columns. Default: none are.
    pub column: Option<String>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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

pub(super) fn anything() -> Vec<String> {
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
        let rows = if self.compare == Compare::Value { 1 } else { 2 };
        let is_bounded = self.range.is_some() || self.above.is_some() || self.below.is_some();
        match self.compare {
            _ if self.of.len() != rows => refuse("a value is `of` one row, every other comparison of two"),
            Compare::Apart if is_bounded => refuse("values are apart or not; leave out the `range`"),
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
        if let Some(unknown) = self.only.keys().find(|axis| !axes.contains(&axis.as_str())) {
            let problem = format!("there is no axis `{unknown}`; the axes are {}", axes.join(", "));
            return Err(ScenarioError::new(format!("{}.only", place()), problem));
        }
        match &self.traffic {
            Some(unknown) if !traffic.contains(&unknown.as_str()) => {
                let problem = format!("there is no traffic `{unknown}`; there is {}", traffic.join(", "));
                Err(ScenarioError::new(format!("{}.traffic", place()), problem))
            }
            _ => self.metric.validate(self.statistic, longest).map_err(|problem| ScenarioError::new(place(), problem)),
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

/// The labels in a text that a template made: what [`filled`] put in.
#[must_use]
pub fn parsed<'a>(template: &'a str, row: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
    let mut labels = Vec::new();
    let (mut template, mut row) = (template, row);
    while let Some((literal, rest)) = template.split_once('{') {
        row = row.strip_prefix(literal)?;
        let (name, behind) = rest.split_once('}')?;
        let next = behind.split('{').next().unwrap_or_default();
        let end = if next.is_empty() { row.len() } else { row.find(next)? };
        labels.push((name, &row[..end]));
        (template, row) = (behind, &row[end..]);
    }
    (template == row && !labels.iter().any(|(_, label)| label.contains('/'))).then_some(labels)
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

    #[test]
    fn labels_are_read_out_of_a_row() {
        let template = "{scheme}/{workload}/{clients}";
        let expected = vec![("scheme", "a@b"), ("workload", "random"), ("clients", "400")];
        assert_eq!(parsed(template, "a@b/random/400"), Some(expected));
        assert_eq!(parsed(template, "a/random"), None);
        assert_eq!(parsed(template, "a/random/400/inf"), None);
    }
}
