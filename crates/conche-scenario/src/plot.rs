//! [`Plot`]: a plot of a report.

use serde::Deserialize;

use super::items::{anything, filled, matches, matches_any, parsed};
use super::{Item, Scenario, ScenarioError, Texts, ensure, templates};

/// A plot of a report: values along an axis, with a line or bar group per series.
///
/// `x`, `series` and `panels` take a label's name (`clients`), an axis' path
/// (`nodes.client.count`), or a template (`{scheme}, {workload}`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// Kind of marks.
    pub kind: Kind,
    /// Label along the horizontal axis.
    pub x: String,
    /// Label with colours and shapes. Default: schemes.
    #[serde(default = "by_scheme")]
    pub series: String,
    /// Label of panels side by side, with equal axes.
    pub panels: Option<String>,
    /// Drawn columns. `{name}` parses a label. A box has five columns (low percentile, quartile,
    /// median, quartile, high percentile), or one with a value per run.
    pub y: Texts,
    /// Items of the values. Default: all.
    #[serde(default)]
    pub items: Vec<String>,
    /// Patterns of rows. Default: all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// Templates that parse row labels, instead of the scenario's.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Rows with published values to draw. Default: all.
    #[serde(default = "anything")]
    pub published: Vec<String>,
    /// Horizontal axis.
    #[serde(default)]
    pub x_axis: Style,
    /// Vertical axis.
    #[serde(default)]
    pub y_axis: Style,
    /// Notes below.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Kind of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Connected points.
    Line,
    /// Separate points.
    Points,
    /// Grouped bars from 0.
    Bars,
    /// Boxes between quartiles, with median and whiskers.
    Box,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Style {
    /// Title. Default: name of the label or column.
    pub title: String,
    /// Unit. Default: that of the values.
    pub unit: String,
    /// Logarithmic scale.
    pub log: bool,
    /// Upper end of the vertical axis, such as 1 for an index.
    pub to: Option<f64>,
}

fn by_scheme() -> String {
    "scheme".to_owned()
}

impl Plot {
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

    /// Returns the template of `x`, `series` or `panels`.
    #[must_use]
    pub fn template(&self, wanted: &str, sections: &[Scenario]) -> String {
        if wanted.contains('{') {
            return wanted.to_owned();
        }
        let mut axes = sections.iter().flat_map(|section| &section.sweep);
        let axis = axes.find(|axis| axis.path.as_deref() == Some(wanted));
        format!("{{{}}}", axis.map_or(wanted, |axis| &axis.name))
    }

    /// Returns the index of the template in `y` that matches the column.
    #[must_use]
    pub fn place_of(&self, item: &str, row: &str, column: &str) -> Option<usize> {
        let of_items = self.items.is_empty() || self.items.iter().any(|known| known == item);
        let is_wanted = of_items && matches_any(&self.rows, row);
        let columns = || self.y.all().iter().position(|template| parsed(template, column).is_some());
        is_wanted.then(columns).flatten()
    }
}

fn names(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

fn may_be(template: &str, column: &str) -> bool {
    if column.contains("{}") {
        let pattern = column.replace("{}", "*");
        if pattern == "*" && !template.contains('{') {
            return template.parse::<f64>().is_ok();
        }
        let any_label = filled(template, |_| Some("*".into()));
        return template.contains('{') && any_label.as_ref() == Some(&pattern) || matches(&pattern, template);
    }
    parsed(template, column).is_some()
}
