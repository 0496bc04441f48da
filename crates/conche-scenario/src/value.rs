//! [`Value`]: a metric and its statistic, per cell.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ScenarioError, Statistic, Texts, ensure};
use crate::units::Span;
use crate::{Better, Metric, Numbers, Unit};

/// A value per cell: a metric of flows, and a statistic over replications.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Name in results (`fct_median_s`). Each number's label replaces `{}`.
    pub column: String,
    /// Metric.
    pub metric: Metric,
    /// Statistic over replications. Default: the mean.
    #[serde(default)]
    pub statistic: Statistic,
    /// Traffic of the flows. Default: all.
    pub traffic: Option<String>,
    /// Row template. Default: the scenario's.
    pub row: Option<String>,
    /// Item, if no `items` match.
    pub item: Option<String>,
    /// Labels of the cells; `*` is a wildcard.
    #[serde(default)]
    pub only: BTreeMap<String, Texts>,
    /// Axes over which cells are pooled, as if the flows of a replication belonged to one run. The
    /// value is that of the last pooled cell.
    #[serde(default)]
    pub over: Vec<String>,
    /// Labels of another cell to take the value from.
    #[serde(default)]
    pub of: BTreeMap<String, Pick>,
    /// Labels of another cell to compare with, per replication.
    #[serde(default)]
    pub than: BTreeMap<String, Pick>,
    /// Comparison.
    pub by: Option<By>,
    /// Compares controllers by this value.
    #[serde(default)]
    pub primary: bool,
    /// Direction of improvement, if the metric has none.
    pub better: Option<Better>,
}

pub(super) fn standard() -> Vec<Value> {
    #[derive(Deserialize)]
    struct Standard {
        values: Vec<Value>,
    }
    let read = toml::from_str::<Standard>(include_str!("standard.toml"));
    read.expect("any scenario without values reads it").values
}

/// A point on an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a label, \"first\", \"last\", \"previous\", or { gain_below_percent = 1 }")]
pub enum Pick {
    /// This label; or `first`, `last`, or `previous` to the cell's own.
    At(String),
    /// The first one after which the mean grows by less than this; else the last.
    LevelsOff {
        /// In per cent.
        gain_below_percent: f64,
    },
}

/// Comparison of two cells, per replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The first minus the second.
    Difference,
    /// Excess of the first in per cent; of flows with a value in both.
    Gain,
    /// None: the value is the numeric label selected by `of`.
    Label,
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
            for axis in named {
                let problem = format_args!("there is no axis `{axis}`; the axes are {}", axes.join(", "));
                ensure(axes.contains(&axis.as_str()), format_args!("{}.{key}", place()), problem)?;
            }
        }
        self.validate_comparison().map_err(|problem| ScenarioError::new(place(), problem))?;
        if let Some(of) = &self.traffic {
            let problem = format_args!("there is no traffic `{of}`; there is {}", traffic.join(", "));
            ensure(traffic.contains(&of.as_str()), format_args!("{}.traffic", place()), problem)?;
        }
        self.validate_primary().map_err(|problem| ScenarioError::new(place(), problem))?;
        self.metric.validate(self.statistic, longest).map_err(|problem| ScenarioError::new(place(), problem))
    }

    fn validate_primary(&self) -> Result<(), &'static str> {
        match self.better() {
            _ if !self.primary => Ok(()),
            _ if self.is_across_cells() => Err("it comes from several cells, and what is `primary` is of one"),
            None => Err("whether more of it is good is not known; say which is `better`, \"higher\" or \"lower\""),
            Some(_) => Ok(()),
        }
    }

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
        match self.over.is_empty() || self.metric.properties().numbers != Numbers::One {
            true => Ok(()),
            false => Err("what it measures is of one run, and has no meaning `over` several cells"),
        }
    }

    /// Whether it needs other cells.
    #[must_use]
    pub fn is_across_cells(&self) -> bool {
        !(self.over.is_empty() && self.of.is_empty() && self.than.is_empty())
    }

    /// Returns the direction of improvement, if known.
    #[must_use]
    pub fn better(&self) -> Option<Better> {
        self.better.or_else(|| self.metric.properties().better)
    }

    /// Returns its unit.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self.by {
            Some(By::Gain) => Unit::Percent,
            Some(By::Label) => Unit::Count,
            Some(By::Difference) | None => self.metric.properties().unit,
        }
    }
}
