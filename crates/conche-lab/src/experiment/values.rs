//! Computes a cell's values from its replications.

use super::cells::{Samples, View};
use super::claims::Series;
use super::compared_values::ComparedValue;
use super::pooled::Cells;
use super::published::Published;
use crate::metrics::Sample;
use crate::metrics::statistic::{self, Measured, percentiles};
use crate::results::MeasuredValue;
use crate::scenario::{Item, Scenario, Statistic, Value, matches_any};

/// Item of values without another.
const GRID: &str = "grid";

/// Returns values scheme by scheme: the whole run, then each phase.
pub(super) fn of_cell(cells: Cells<'_>, place: usize, published: &Published) -> Vec<Series> {
    let runs = &cells.runs[place];
    let of_scheme = |scheme: usize| (0..runs.spans()).map(move |span_index| runs.view(span_index, scheme));
    let views = (0..runs.cell.schemes.len()).flat_map(of_scheme);
    views.flat_map(|view| of_view(cells, view, &cells.outcomes[place], published)).collect()
}

fn of_view(cells: Cells<'_>, view: View<'_>, outcomes: &[Samples], published: &Published) -> Vec<Series> {
    let runs = view.runs;
    let samples_of = |place: usize| -> Vec<&Sample> { outcomes.iter().map(|run| &view.samples(run)[place]).collect() };
    // A metric's percentiles share one bootstrap.
    let mut percents: Vec<(usize, Vec<f64>)> = Vec::new();
    for value in view.values() {
        if let Statistic::Percentile(percent) = value.statistic {
            let sample = runs.place(value);
            match percents.iter_mut().find(|(of, _)| *of == sample) {
                Some((_, percents)) => percents.push(percent),
                None => percents.push((sample, vec![percent])),
            }
        }
    }
    let of_sample = |(sample, percents): (usize, Vec<f64>)| {
        (sample, percentiles(&samples_of(sample), percents, runs.cell.scenario.seed))
    };
    let found: Vec<(usize, Vec<(f64, Measured)>)> = percents.into_iter().map(of_sample).collect();
    let of_value = |value: &Value| -> Vec<(usize, Series)> {
        let measured = match value.statistic {
            Statistic::Percentile(percent) => {
                let sample = runs.place(value);
                let of_sample = found.iter().filter(|(of, _)| *of == sample).flat_map(|(_, found)| found);
                of_sample.filter(|(of, _)| of.total_cmp(&percent).is_eq()).take(1).map(|(_, one)| one.clone()).collect()
            }
            _ if value.is_across_cells() => cells.measure(view, value).into_iter().collect(),
            of => statistic::of(of, &samples_of(runs.place(value))),
        };
        let series = |measured: Measured| {
            let (first_run, per_replication) = (measured.first_run, measured.per_replication.clone());
            let figure = figure(view, published, value, measured);
            (first_run, Series { figure, per_replication, compared: ComparedValue::of(view, value, outcomes.len()) })
        };
        measured.into_iter().map(series).collect()
    };
    let values: Vec<&Value> = view.values().collect();
    // Values over the same windows are interleaved by window.
    let alike =
        |one: &&Value, other: &&Value| one.metric.windows().is_some() && one.metric.windows() == other.metric.windows();
    let by_window = |values: &[&Value]| {
        let mut columns: Vec<_> = values.iter().map(|value| of_value(value).into_iter()).collect();
        let longest = columns.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        (0..longest).flat_map(|_| columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let mut series: Vec<(usize, Series)> = values.chunk_by(alike).flat_map(by_window).collect();
    // Stable sort: the first replication's labels first, in value order.
    series.sort_by_key(|(first_run, _)| *first_run);
    series.into_iter().map(|(_, series)| series).collect()
}

fn figure(view: View<'_>, published: &Published, value: &Value, measured: Measured) -> MeasuredValue {
    let scenario = &view.runs.cell.scenario;
    let row = view.row(value);
    let column = value.column.replace("{}", &measured.label);
    MeasuredValue {
        paper: scenario.name.clone(),
        item: value.item.clone().unwrap_or_else(|| item_of(scenario, &row, &column)),
        published: published.of(&row, &column),
        row,
        column,
        unit: value.unit(),
        measured: measured.value,
        ci95: measured.ci95,
        runs: measured.runs,
    }
}

fn item_of(scenario: &Scenario, row: &str, column: &str) -> String {
    let found = scenario.items.iter().find(|item| matches_any(&item.rows, row) && matches_any(&item.columns, column));
    found.map_or(GRID, |item| &item.name).to_owned()
}

/// The item's position in the scenario; unlisted ones last.
pub(super) fn rank(scenario: &Scenario, figure: &MeasuredValue) -> usize {
    let named = || scenario.items.iter().enumerate().filter(|(_, item)| item.name == figure.item);
    let is_listed = |item: &Item| matches_any(&item.rows, &figure.row) && matches_any(&item.columns, &figure.column);
    let found = named().find(|(_, item)| is_listed(item)).or_else(|| named().next());
    found.map_or(scenario.items.len(), |(place, _)| place)
}
