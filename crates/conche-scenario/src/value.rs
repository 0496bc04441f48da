//! What is measured of each cell, and what is made of it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ScenarioError, Texts, ensure};
use crate::units::Span;
use crate::{Better, Metric, Statistic, Unit};

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
    /// Only in cells with these labels, of which `*` stands for anything.
    #[serde(default)]
    pub only: BTreeMap<String, Texts>,
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
    /// Whether controllers are compared by it.
    #[serde(default)]
    pub primary: bool,
    /// Which of two values is the better one, where the metric does not tell.
    pub better: Option<Better>,
}

/// What is measured where a scenario does not say what.
pub(super) fn standard() -> Vec<Value> {
    #[derive(Deserialize)]
    struct Standard {
        values: Vec<Value>,
    }
    let read = toml::from_str::<Standard>(include_str!("standard.toml"));
    read.expect("any scenario without values reads it").values
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

    /// Refuses what controllers cannot be compared by.
    fn validate_primary(&self) -> Result<(), &'static str> {
        match self.better() {
            _ if !self.primary => Ok(()),
            _ if self.is_across_cells() => Err("it comes from several cells, and what is `primary` is of one"),
            None => Err("whether more of it is good is not known; say which is `better`, \"higher\" or \"lower\""),
            Some(_) => Ok(()),
        }
    }

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
    #[must_use]
    pub fn is_across_cells(&self) -> bool {
        !(self.over.is_empty() && self.of.is_empty() && self.than.is_empty())
    }

    /// Which of two values is the better one, if that is known.
    #[must_use]
    pub fn better(&self) -> Option<Better> {
        self.better.or(self.metric.better())
    }

    /// What it counts.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self.by {
            Some(By::Gain) => Unit::Percent,
            Some(By::Label) => Unit::Count,
            Some(By::Difference) | None => self.metric.unit(),
        }
    }
}
