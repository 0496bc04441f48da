//! What a scenario wants to see drawn: the figures of a report.

use serde::Deserialize;

use super::results::{anything, filled, matches, matches_any, parsed};
use super::{Item, Scenario, ScenarioError, Texts, ensure, templates};

/// A figure of a report: values along an axis, a line or group of bars for each of a series.
///
/// Labels are read out of rows and columns as they are for tables. Where one is asked for by `x`, `series` or `panels`, that
/// is its name, such as `clients`; the path that is varied, such as `nodes.client.count`; or a template of several, such as
/// `{scheme}, {workload}`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// How values are drawn.
    pub kind: Kind,
    /// What stands along the horizontal axis.
    pub x: String,
    /// What has a colour and a shape of its own. Default: schemes.
    #[serde(default = "by_scheme")]
    pub series: String,
    /// What is drawn side by side, over the same axes. Default: one panel.
    pub panels: Option<String>,
    /// The columns that are drawn. A `{name}` in one reads a label out of it. A box has five: a percentile below, a quartile, the median,
    /// a quartile, a percentile above; or one, of which the runs' own values are drawn.
    pub y: Texts,
    /// Only values of these items. Default: of all.
    #[serde(default)]
    pub items: Vec<String>,
    /// Only rows that match one of these patterns. Default: all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// Templates by which labels are read out of rows, where they are not the scenario's; a row that fits none is not drawn.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The rows over whose values the published ones are drawn, where there are some. Default: all.
    #[serde(default = "anything")]
    pub published: Vec<String>,
    /// The horizontal axis.
    #[serde(default)]
    pub x_axis: Style,
    /// The vertical axis.
    #[serde(default)]
    pub y_axis: Style,
    /// Remarks below.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Points that are joined.
    Line,
    /// Points that are not.
    Points,
    /// Bars from 0, in groups.
    Bars,
    /// A box between quartiles, with the median in it and whiskers.
    Box,
}

/// How an axis looks.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Style {
    /// What is written along it. Default: the name of the label or column.
    pub title: String,
    /// The unit. Default: that of the values.
    pub unit: String,
    /// Whether equal distances are equal factors.
    pub log: bool,
    /// Where the vertical axis ends, such as at 1 for an index that is never more. Default: above all values.
    pub to: Option<f64>,
}

fn by_scheme() -> String {
    "scheme".to_owned()
}

impl Plot {
    /// Checks that all that it names is there: in one of the sections at least.
    pub(super) fn validate(&self, items: &[Item], sections: &[Scenario]) -> Result<(), ScenarioError> {
        let place = |key: &str| format!("figure.{}.{key}", self.title);
        let listed = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let known: Vec<&str> = items.iter().map(|item| item.name.as_str()).chain(["grid"]).collect();
        for item in &self.items {
            let problem = format_args!("there is no item `{item}`; the items are {}", listed(&known));
            ensure(known.contains(&item.as_str()), place("items"), problem)?;
        }
        let values = sections.iter().flat_map(|section| &section.values);
        let (columns, mut known): (_, Vec<&str>) = (self.y.all(), values.map(|value| value.column.as_str()).collect());
        known.dedup();
        for column in columns {
            let problem = format_args!("there is no column `{column}`; the columns are {}", listed(&known));
            ensure(known.iter().any(|known| may_be(column, known)), place("y"), problem)?;
        }
        let boxed = self.kind != Kind::Box || matches!(columns.len(), 1 | 5);
        ensure(boxed, place("y"), format_args!("{} columns; a box is of one column or of five", columns.len()))?;
        let own = self.labels.iter().map(String::as_str);
        let rows: Vec<String> = templates(sections).map(std::borrow::Cow::into_owned).collect();
        let of_rows = rows.iter().map(String::as_str).filter(|_| self.labels.is_empty());
        let mut known: Vec<&str> =
            own.chain(of_rows).chain(columns.iter().map(String::as_str)).flat_map(names).collect();
        known.push("column");
        known.sort_unstable();
        known.dedup();
        for (key, wanted) in [("x", Some(&self.x)), ("series", Some(&self.series)), ("panels", self.panels.as_ref())] {
            let template = wanted.map(|wanted| self.template(wanted, sections)).unwrap_or_default();
            for name in names(&template) {
                let problem = format_args!("there is no label `{name}`; the labels are {}", listed(&known));
                ensure(known.contains(&name), place(key), problem)?;
            }
        }
        Ok(())
    }

    /// The template that `x`, `series` or `panels` stand for.
    #[must_use]
    pub fn template(&self, wanted: &str, sections: &[Scenario]) -> String {
        if wanted.contains('{') {
            return wanted.to_owned();
        }
        let mut axes = sections.iter().flat_map(|section| &section.sweep);
        let axis = axes.find(|axis| axis.path.as_deref() == Some(wanted));
        format!("{{{}}}", axis.map_or(wanted, |axis| &axis.name))
    }

    /// Whether a value belongs to it, and the place of its column among those that are drawn.
    #[must_use]
    pub fn place_of(&self, item: &str, row: &str, column: &str) -> Option<usize> {
        let of_items = self.items.is_empty() || self.items.iter().any(|known| known == item);
        let is_wanted = of_items && matches_any(&self.rows, row);
        let columns = || self.y.all().iter().position(|template| parsed(template, column).is_some());
        is_wanted.then(columns).flatten()
    }
}

/// The names between braces.
fn names(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

/// Whether columns that a value makes may be those that a template reads.
fn may_be(template: &str, column: &str) -> bool {
    if column.contains("{}") {
        let pattern = column.replace("{}", "*");
        // A column that is nothing but a label may be called anything; that it is a number is so far true of all.
        if pattern == "*" && !template.contains('{') {
            return template.parse::<f64>().is_ok();
        }
        let any_label = filled(template, |_| Some("*".into()));
        return template.contains('{') && any_label.as_ref() == Some(&pattern) || matches(&pattern, template);
    }
    parsed(template, column).is_some()
}
