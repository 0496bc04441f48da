//! Values over several cells: pooled, or compared per replication, with shared random numbers.

use std::collections::BTreeMap;

use super::cells::{CellRuns, Samples, View};
use crate::metrics::Sample;
use crate::metrics::statistic::{Measured, number, of_numbers};
use crate::scenario::{By, Pick, Statistic, Value};

#[derive(Clone, Copy)]
pub(super) struct Cells<'a> {
    pub(super) runs: &'a [CellRuns],
    pub(super) outcomes: &'a [Vec<Samples>],
}

type Labels<'a> = Vec<(&'a str, String)>;

impl<'a> Cells<'a> {
    /// `None` if the value belongs to another cell, or cells are missing.
    pub(super) fn measure(self, at: View<'_>, value: &Value) -> Option<Measured> {
        let is_last = |axis: &String| self.points(at, axis).last().cloned() == label(at, axis);
        if !value.over.iter().all(is_last) {
            return None;
        }
        let of = self.picked(at, value, &value.of, None)?;
        let one = self.samples(at, value, &of)?;
        let replications = one.len();
        let numbers: Vec<f64> = match value.by {
            None => one.iter().filter_map(|sample| number(value.statistic, sample)).collect(),
            Some(By::Label) => {
                let picked: f64 = of.first()?.1.parse().ok()?;
                let in_run = |run: usize| self.picked(at, value, &value.of, Some(run))?.first()?.1.parse().ok();
                let per_replication: Option<Vec<f64>> = (0..replications).map(in_run).collect();
                let measured =
                    of_numbers(Statistic::Mean, "", &per_replication.unwrap_or_else(|| vec![picked]), replications);
                return Some(Measured { value: picked, ci95: None, ..measured });
            }
            Some(by) => {
                let other = self.samples(at, value, &self.picked(at, value, &value.than, None)?)?;
                let runs = one.into_iter().zip(other);
                runs.filter_map(|(one, other)| compared(by, value.statistic, one, other)).collect()
            }
        };
        (!numbers.is_empty()).then(|| of_numbers(value.statistic, "", &numbers, replications))
    }

    /// Picks labels by means, or by replication `run`; `None` without such a point.
    fn picked<'v>(
        self,
        at: View<'_>,
        value: &'v Value,
        picks: &'v BTreeMap<String, Pick>,
        run: Option<usize>,
    ) -> Option<Labels<'v>> {
        let label = |(axis, pick): (&'v String, &'v Pick)| {
            let points = self.points(at, axis);
            let own = points.iter().position(|point| Some(point) == label(at, axis).as_ref());
            let point = match pick {
                Pick::At(label) if points.contains(label) => label.clone(),
                Pick::At(word) => match word.as_str() {
                    "first" => points.first()?.clone(),
                    "last" => points.last()?.clone(),
                    "previous" => points.get(own?.checked_sub(1)?)?.clone(),
                    _ => return None,
                },
                Pick::LevelsOff { gain_below_percent } => {
                    let mean = |point: &String| {
                        let samples = self.samples(at, value, &[(axis.as_str(), point.clone())]);
                        let chosen = samples.into_iter().flatten().enumerate();
                        let chosen = chosen.filter(|(place, _)| run.is_none_or(|run| run == *place));
                        let numbers: Vec<f64> = chosen.filter_map(|(_, one)| number(value.statistic, &one)).collect();
                        if numbers.is_empty() { 0.0 } else { numbers.iter().sum::<f64>() / numbers.len() as f64 }
                    };
                    let means: Vec<f64> = points.iter().map(mean).collect();
                    let enough = |pair: &[f64]| pair[1] < pair[0] * (1.0 + gain_below_percent / 100.0);
                    points.get(means.windows(2).position(enough).unwrap_or(points.len() - 1))?.clone()
                }
            };
            Some((axis.as_str(), point))
        };
        picks.iter().map(label).collect()
    }

    /// Lists the axis's points for this cell, in order.
    fn points(self, at: View<'_>, axis: &str) -> Vec<String> {
        let mut points = Vec::new();
        for runs in self.runs.iter().filter(|runs| runs.cell.part == at.runs.cell.part) {
            for scheme in 0..runs.cell.schemes.len() {
                let point = label(runs.view(at.span_index, scheme), axis);
                points.extend(point.filter(|point| !points.contains(point)));
            }
        }
        points
    }

    /// Merges, per replication, the pooled cells' samples; other axes have these labels, or this
    /// cell's.
    fn samples(self, at: View<'_>, value: &Value, labels: &[(&str, String)]) -> Option<Vec<Sample>> {
        let is_meant = |other: View<'_>, axis: &str| {
            let wanted = labels.iter().find(|(of, _)| *of == axis).map(|(_, label)| label.clone());
            let wanted = wanted.or_else(|| label(at, axis));
            value.over.iter().any(|over| over == axis) || label(other, axis) == wanted
        };
        let mut found: Vec<Vec<&Sample>> = Vec::new();
        let of_part = |(runs, _): &(&CellRuns, _)| runs.cell.part == at.runs.cell.part;
        for (runs, outcomes) in self.runs.iter().zip(self.outcomes).filter(of_part) {
            for scheme in 0..runs.cell.schemes.len() {
                let other = runs.view(at.span_index, scheme);
                let mut axes = runs.cell.labels.iter().map(|label| label.axis.as_str()).chain(["scheme"]);
                if !axes.all(|axis| is_meant(other, axis)) {
                    continue;
                }
                let sample = runs.place(value);
                found.resize(found.len().max(outcomes.len()), Vec::new());
                for (of_run, outcome) in found.iter_mut().zip(outcomes) {
                    of_run.push(&other.samples(outcome)[sample]);
                }
            }
        }
        (!found.is_empty()).then(|| found.into_iter().map(Sample::pooled).collect())
    }
}

fn label(at: View<'_>, axis: &str) -> Option<String> {
    at.runs.cell.label(axis, at.scheme).map(std::borrow::Cow::into_owned)
}

/// Returns by how much `one` exceeds `other`: a difference, or per cent.
fn compared(by: By, statistic: Statistic, one: Sample, other: Sample) -> Option<f64> {
    if by == By::Difference {
        return Some(number(statistic, &one)? - number(statistic, &other)?);
    }
    let (one, other) = Sample::of_common_flows(one, other);
    Some(100.0 * (number(statistic, &one)? / number(statistic, &other)? - 1.0))
}
