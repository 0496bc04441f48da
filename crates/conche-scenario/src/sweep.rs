//! The sweep: axes, points, and the cells of their combinations.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use toml::{Table, Value};

use super::{Scenario, ScenarioError, Texts, filled, matches_any, path};

/// An axis of the experiment: one or more varied values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Name in rows. The axis `scheme` always exists; it is first unless listed.
    pub name: String,
    /// Path of the value (`nodes.client.count`).
    pub path: Option<String>,
    /// Settings; each is its own label.
    #[serde(default)]
    pub values: Vec<Value>,
    /// Settings with labels, or of several values at once.
    #[serde(default)]
    pub points: Vec<Point>,
}

/// A point of an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Label in rows, possibly in parts (`static/60`).
    pub name: String,
    /// Setting at the axis' path.
    pub value: Option<Value>,
    /// Settings of other values, by path.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
}

pub(super) const SCHEME: &str = "scheme";

/// A cell's label on an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The axis.
    pub axis: String,
    /// The point.
    pub point: String,
}

impl Axis {
    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let refuse = |problem: &str| Err(ScenarioError::new(format_args!("sweep.{}", self.name), problem));
        match (self.name.as_str(), &self.path, self.values.is_empty(), self.points.is_empty()) {
            (SCHEME, None, true, true) => Ok(()),
            (SCHEME, ..) => refuse("its points are the schemes and mixes; only its place among the axes can be told"),
            (_, _, true, true) => refuse("it has no point; list `values` or `points`"),
            (_, _, false, false) => refuse("it has `values` and `points`; write all as `points`"),
            (_, None, false, true) => refuse("its values have no `path`; write it as in \"nodes.client.count\""),
            (_, None, true, false) if self.points.iter().any(|point| point.value.is_some()) => {
                refuse("a point's `value` is for the axis' `path`, which is missing")
            }
            _ => super::labels(&format!("sweep.{}", self.name), self.points().iter().map(|point| &point.name)),
        }
    }

    /// Returns whether each of its points replaces the value at this path.
    pub(super) fn replaces(&self, path: &str) -> bool {
        let points = self.points();
        !points.is_empty() && points.iter().all(|point| point.paths(self).any(|set| begins(path, set)))
    }

    /// Returns its points with labels.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let plain = |value: &Value| {
            let name = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Point { name, value: Some(value.clone()), set: BTreeMap::new() }
        };
        self.values.iter().map(plain).chain(self.points.iter().cloned()).collect()
    }
}

impl Point {
    pub(super) fn sets(&self, axis: &Axis, path: &str) -> bool {
        self.paths(axis).any(|set| begins(path, set) || begins(set, path))
    }

    /// Returns the paths that it sets.
    fn paths<'a>(&'a self, axis: &'a Axis) -> impl Iterator<Item = &'a String> {
        axis.path.iter().filter(|_| self.value.is_some()).chain(self.set.keys())
    }

    /// Returns its key path in the file.
    pub(super) fn path(&self, axis: &Axis) -> String {
        let index = axis.points().iter().position(|point| point == self).unwrap_or_default();
        let array = if axis.values.is_empty() { "points" } else { "values" };
        format!("sweep.{}.{array}.#{index}", axis.name)
    }

    pub(super) fn apply(&self, axis: &Axis, table: &mut Table) -> Result<(), ScenarioError> {
        if let (Some(path), Some(value)) = (&axis.path, &self.value) {
            let of_axis = |error: ScenarioError| error.at(format_args!("sweep.{}.path", axis.name));
            path::set(table, path, value.clone()).map_err(of_axis)?;
        }
        let set = |(path, value): (&String, &Value)| path::set(table, path, value.clone());
        self.set.iter().try_for_each(set).map_err(|error| error.at(format_args!("{}.set", self.path(axis))))
    }
}

/// Returns whether a path is another one, or leads through it.
fn begins(long: &str, short: &str) -> bool {
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Names the points of a cell's sweep, which may have set the value.
pub(super) fn within_points(error: ScenarioError, points: &[(&Axis, Point)]) -> ScenarioError {
    if points.is_empty() {
        return error;
    }
    let names: Vec<_> = points.iter().map(|(axis, point)| format!("{} {}", axis.name, point.name)).collect();
    let culprit = points.iter().find(|(axis, point)| error.path().is_some_and(|path| point.sets(axis, path)));
    let path = culprit.map(|(axis, point)| match error.path().filter(|_| error.is_unknown_key()) {
        Some(key) if axis.path.as_deref().is_some_and(|path| begins(path, key)) => format!("sweep.{}.path", axis.name),
        Some(key) if point.set.keys().any(|path| begins(path, key)) => format!("{}.set", point.path(axis)),
        _ => point.path(axis),
    });
    error.at_points(&names.join(", "), path)
}

pub(super) fn combinations(axes: &[Axis]) -> Vec<Vec<(&Axis, Point)>> {
    axes.iter().fold(vec![Vec::new()], |begun, axis| {
        let points = axis.points();
        let extended = |combination: Vec<_>| {
            let with = move |point: &Point| {
                let mut longer: Vec<(&Axis, Point)> = combination.clone();
                longer.push((axis, point.clone()));
                longer
            };
            points.iter().map(with).collect::<Vec<_>>()
        };
        begun.into_iter().flat_map(extended).collect()
    })
}

/// A scenario with one value per axis, and its schemes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Scenario, the same for all schemes.
    pub scenario: Arc<Scenario>,
    /// Part of the experiment.
    pub part: Option<String>,
    /// Labels on the axes, except that of schemes.
    pub labels: Vec<Label>,
    /// Schemes of its clients; several for a mix.
    pub schemes: Vec<String>,
    /// Mix.
    pub mix: Option<String>,
}

impl Cell {
    /// Returns a scheme's row name: `scheme/…`, or `scheme@mix/…` in a mix.
    #[must_use]
    pub fn row(&self, template: Option<&str>, scheme: &str) -> String {
        let template = template.map_or_else(|| self.scenario.row_template(), Cow::from);
        filled(&template, |name| self.label(name, scheme)).unwrap_or_else(|| template.into_owned())
    }

    /// Returns its label on an axis.
    #[must_use]
    pub fn label(&self, axis: &str, scheme: &str) -> Option<Cow<'_, str>> {
        match (axis, &self.mix) {
            ("scheme", Some(mix)) => Some(format!("{scheme}@{mix}").into()),
            ("scheme", None) => Some(scheme.to_owned().into()),
            ("mix", mix) => Some(mix.as_deref().unwrap_or_default().into()),
            _ => self.labels.iter().find(|label| label.axis == axis).map(|label| label.point.as_str().into()),
        }
    }

    /// Adds the cell's part and points to a problem.
    #[must_use]
    pub fn locate(&self, problem: ScenarioError) -> ScenarioError {
        let point = |label: &Label| {
            let axis = self.scenario.sweep.iter().find(|axis| axis.name == label.axis)?;
            Some((axis, axis.points().into_iter().find(|point| point.name == label.point)?))
        };
        let points: Vec<_> = self.labels.iter().filter_map(point).collect();
        within_points(problem, &points).within_part(self.part.as_deref())
    }

    pub(super) fn labels_on(&self, axis: &str) -> Vec<String> {
        self.schemes.iter().filter_map(|scheme| Some(self.label(axis, scheme)?.into_owned())).collect()
    }

    /// Returns whether it has these labels.
    #[must_use]
    pub fn is_among<'a>(&self, only: impl IntoIterator<Item = (&'a String, &'a Texts)>, scheme: &str) -> bool {
        only.into_iter().all(|(axis, of)| self.label(axis, scheme).is_some_and(|label| matches_any(of.all(), &label)))
    }

    pub(super) fn has_clients_for_all(&self) -> bool {
        let traffic = self.scenario.traffic.iter();
        let most = traffic.map(|traffic| self.scenario.most_nodes(&traffic.from)).max().unwrap_or(0);
        self.schemes.len() <= most as usize
    }
}
