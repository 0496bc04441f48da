//! Computes the values of cells from their replications.

use std::collections::BTreeMap;

use conche_results::Axis;

use super::cells::{CellRuns, MetricIndex, Samples, View};
use super::published::Published;
use crate::comparison::{CellComparison, Entry};
use crate::metrics::Sample;
use crate::metrics::statistic::{self, Measured, number, of_numbers, percentiles};
use crate::scenario::{Better, By, Item, Pick, Purpose, Scenario, Statistic, Value, matches_any};
use crate::value::{MeasuredValue, Position};

const GRID: &str = "grid";

#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) value: MeasuredValue,
    pub(super) per_replication: Vec<f64>,
    pub(super) compared: Option<ComparedValue>,
}

/// Returns values by scheme, the whole run before its phases.
pub(super) fn of_cell(cells: Cells<'_>, place: usize, published: &Published) -> Vec<Series> {
    let runs = &cells.runs[place];
    let of_scheme = |scheme: usize| runs.spans().map(move |span| runs.view(span, scheme));
    let views = (0..runs.cell.schemes.len()).flat_map(of_scheme);
    views.flat_map(|view| of_view(cells, &view, &cells.outcomes[place], published)).collect()
}

fn of_view(cells: Cells<'_>, view: &View<'_>, outcomes: &[Samples], published: &Published) -> Vec<Series> {
    let runs = view.runs;
    let samples_of = |metric| -> Vec<&Sample> { outcomes.iter().map(|run| view.sample(run, metric)).collect() };
    // A metric's percentiles share one bootstrap.
    let mut percents: Vec<(MetricIndex, Vec<f64>)> = Vec::new();
    for value in view.values() {
        if let Statistic::Percentile(percent) = value.statistic {
            let metric = runs.metric_index(value);
            match percents.iter_mut().find(|(of, _)| *of == metric) {
                Some((_, percents)) => percents.push(percent),
                None => percents.push((metric, vec![percent])),
            }
        }
    }
    let of_metric = |(metric, percents): (MetricIndex, Vec<f64>)| {
        (metric, percentiles(&samples_of(metric), percents, runs.cell.scenario.seed))
    };
    let found: Vec<(MetricIndex, Vec<(f64, Measured)>)> = percents.into_iter().map(of_metric).collect();
    let of_value = |value: &Value| -> Vec<(usize, Series)> {
        let measured = match value.statistic {
            Statistic::Percentile(percent) => {
                let metric = runs.metric_index(value);
                let of_metric = found.iter().filter(|(of, _)| *of == metric).flat_map(|(_, found)| found);
                of_metric.filter(|(of, _)| of.total_cmp(&percent).is_eq()).take(1).map(|(_, one)| one.clone()).collect()
            }
            _ if value.is_across_cells() => cells.measure(view, value).into_iter().collect(),
            of => statistic::of(of, &samples_of(runs.metric_index(value))),
        };
        let series = |measured: Measured| {
            let (first_run, per_replication) = (measured.first_run, measured.per_replication.clone());
            let compared_value = ComparedValue::of(view, value, outcomes.len());
            let value = measured_value(cells.axes, view, published, value, measured);
            (first_run, Series { value, per_replication, compared: compared_value })
        };
        measured.into_iter().map(series).collect()
    };
    let values: Vec<&Value> = view.values().collect();
    // Interleaves values over the same windows.
    let alike =
        |one: &&Value, other: &&Value| one.metric.windows().is_some() && one.metric.windows() == other.metric.windows();
    let by_window = |values: &[&Value]| {
        let mut columns: Vec<_> = values.iter().map(|value| of_value(value).into_iter()).collect();
        let longest = columns.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        (0..longest).flat_map(|_| columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let mut series: Vec<(usize, Series)> = values.chunk_by(alike).flat_map(by_window).collect();
    // Keeps the order of the first replication.
    series.sort_by_key(|(first_run, _)| *first_run);
    series.into_iter().map(|(_, series)| series).collect()
}

fn measured_value(
    axes: &[(String, Axis)],
    view: &View<'_>,
    published: &Published,
    value: &Value,
    measured: Measured,
) -> MeasuredValue {
    let scenario = &view.runs.cell.scenario;
    let row = view.row(value);
    let column = value.column.replace("{}", &measured.label);
    MeasuredValue {
        scenario: scenario.name.clone(),
        item: value.item.clone().unwrap_or_else(|| item_of(scenario, &row, &column)),
        published: published.of(&row, &column),
        row,
        column,
        unit: value.unit(),
        measured: measured.value,
        ci95: measured.ci95,
        runs: measured.runs,
        position: position(axes, view, value),
    }
}

fn position(axes: &[(String, Axis)], view: &View<'_>, value: &Value) -> Position {
    let cell = &view.runs.cell;
    let on_axis = |(column, axis): &(String, Axis)| {
        let label = cell.labels.iter().find(|label| label.axis == axis.name && !value.over.contains(&label.axis))?;
        Some((column.clone(), axis.value_of(&label.point)))
    };
    Position {
        part: cell.part.clone(),
        axes: axes.iter().filter_map(on_axis).collect(),
        mix: cell.mix.clone(),
        scheme: Some(view.scheme.to_owned()),
        phase: view.phase.map(|phase| phase.name.clone()),
    }
}

fn item_of(scenario: &Scenario, row: &str, column: &str) -> String {
    let found = scenario.items.iter().find(|item| matches_any(&item.rows, row) && matches_any(&item.columns, column));
    found.map_or(GRID, |item| &item.name).to_owned()
}

/// Returns the item's position; unlisted items are last.
pub(super) fn rank(scenario: &Scenario, value: &MeasuredValue) -> usize {
    let named = || scenario.items.iter().enumerate().filter(|(_, item)| item.name == value.item);
    let is_listed = |item: &Item| matches_any(&item.rows, &value.row) && matches_any(&item.columns, &value.column);
    let found = named().find(|(_, item)| is_listed(item)).or_else(|| named().next());
    found.map_or(scenario.items.len(), |(place, _)| place)
}

#[derive(Clone, Copy)]
pub(super) struct Cells<'a> {
    pub(super) runs: &'a [CellRuns],
    pub(super) outcomes: &'a [Vec<Samples>],
    /// By the name of their columns.
    pub(super) axes: &'a [(String, Axis)],
}

type Labels<'a> = Vec<(&'a str, String)>;

impl<'a> Cells<'a> {
    /// Measures; `None` in another cell, or if cells are missing.
    pub(super) fn measure(self, at: &View<'_>, value: &Value) -> Option<Measured> {
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

    fn picked<'v>(
        self,
        at: &View<'_>,
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

    fn points(self, at: &View<'_>, axis: &str) -> Vec<String> {
        let mut points = Vec::new();
        for runs in self.runs.iter().filter(|runs| runs.cell.part == at.runs.cell.part) {
            for scheme in 0..runs.cell.schemes.len() {
                let point = label(&runs.view(at.span, scheme), axis);
                points.extend(point.filter(|point| !points.contains(point)));
            }
        }
        points
    }

    /// Pools samples per replication over cells with these labels; other axes have this cell's.
    fn samples(self, at: &View<'_>, value: &Value, labels: &[(&str, String)]) -> Option<Vec<Sample>> {
        let is_meant = |other: &View<'_>, axis: &str| {
            let wanted = labels.iter().find(|(of, _)| *of == axis).map(|(_, label)| label.clone());
            let wanted = wanted.or_else(|| label(at, axis));
            value.over.iter().any(|over| over == axis) || label(other, axis) == wanted
        };
        let mut found: Vec<Vec<&Sample>> = Vec::new();
        let of_part = |(runs, _): &(&CellRuns, _)| runs.cell.part == at.runs.cell.part;
        for (runs, outcomes) in self.runs.iter().zip(self.outcomes).filter(of_part) {
            for scheme in 0..runs.cell.schemes.len() {
                let other = runs.view(at.span, scheme);
                let mut axes = runs.cell.labels.iter().map(|label| label.axis.as_str()).chain(["scheme"]);
                if !axes.all(|axis| is_meant(&other, axis)) {
                    continue;
                }
                let metric = runs.metric_index(value);
                found.resize(found.len().max(outcomes.len()), Vec::new());
                for (of_run, outcome) in found.iter_mut().zip(outcomes) {
                    of_run.push(other.sample(outcome, metric));
                }
            }
        }
        (!found.is_empty()).then(|| found.into_iter().map(Sample::pooled).collect())
    }
}

fn label(at: &View<'_>, axis: &str) -> Option<String> {
    at.runs.cell.label(axis, at.scheme).map(std::borrow::Cow::into_owned)
}

/// Returns the excess of `one` over `other`: a difference, or per cent.
fn compared(by: By, statistic: Statistic, one: Sample, other: Sample) -> Option<f64> {
    if by == By::Difference {
        return Some(number(statistic, &one)? - number(statistic, &other)?);
    }
    let (one, other) = Sample::of_common_flows(one, other);
    Some(100.0 * (number(statistic, &one)? / number(statistic, &other)? - 1.0))
}

#[derive(Clone, Debug)]
pub(super) struct ComparedValue {
    /// Row without the scheme.
    cell: String,
    scheme: String,
    better: Better,
    is_unnecessary: bool,
    replications: usize,
}

impl ComparedValue {
    /// Compares a primary value of a whole run without a mix of schemes.
    pub(super) fn of(view: &View<'_>, value: &Value, replications: usize) -> Option<Self> {
        let is_compared = value.primary && view.phase.is_none() && view.runs.cell.mix.is_none();
        let better = value.better().filter(|_| is_compared)?;
        let row = view.runs.cell.row(value.row.as_deref(), "");
        let labels: Vec<&str> = row.split('/').filter(|label| !label.is_empty()).collect();
        let is_unnecessary = value.metric.is_unnecessary();
        Some(Self { cell: labels.join("/"), scheme: view.scheme.to_owned(), better, is_unnecessary, replications })
    }
}

pub(super) fn cell_comparisons(series: &[Series], schemes: &[&str], purpose: Option<Purpose>) -> Vec<CellComparison> {
    let mut cells: Vec<CellComparison> = Vec::new();
    for Series { value, per_replication, compared } in series {
        let Some(ComparedValue { cell, scheme, better, is_unnecessary, replications }) = compared else { continue };
        let is_it = |known: &CellComparison| known.name == *cell && known.column == value.column;
        let place = cells.iter().position(is_it).unwrap_or_else(|| {
            cells.push(CellComparison {
                scenario: value.scenario.clone(),
                name: cell.clone(),
                column: value.column.clone(),
                purpose,
                unit: value.unit,
                better: *better,
                is_unnecessary: *is_unnecessary,
                entries: schemes.iter().map(|scheme| Entry::missing(scheme)).collect(),
            });
            cells.len() - 1
        });
        // An incomplete series covers other replications.
        let is_whole = per_replication.len() == *replications && per_replication.iter().all(|term| term.is_finite());
        if let Some(entry) = cells[place].entries.iter_mut().find(|entry| entry.controller == *scheme) {
            entry.value = Some(value.measured).filter(|value| is_whole && value.is_finite());
            entry.per_replication = if is_whole { per_replication.clone() } else { Vec::new() };
        }
    }
    cells
}
