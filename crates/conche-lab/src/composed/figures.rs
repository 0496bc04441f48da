//! What is made of the replications of a cell.

use super::cells::{CellRuns, Samples};
use super::published::Published;
use crate::metrics::{Measured, Sample, Statistic, percentiles};
use crate::results::Figure;
use crate::scenario::{Phase, Scenario, Value, matches_any};

/// The item of what is in no other.
const GRID: &str = "grid";

/// All values of a cell, scheme by scheme: of the whole run, then of each phase.
pub(super) fn of_cell(runs: &CellRuns, outcomes: &[Samples], published: &Published) -> Vec<Figure> {
    let schemes = runs.cell.schemes.iter().enumerate();
    let phases = || runs.cell.scenario.phases.iter().map(Some);
    let of_scheme = |(place, scheme): (usize, &String)| {
        let stretches = std::iter::once(None).chain(phases()).enumerate();
        let of_stretch = |(stretch, phase): (usize, Option<&Phase>)| {
            let samples: Vec<&[Sample]> = outcomes.iter().map(|run| run[stretch][place].as_slice()).collect();
            of_stretch(runs, &samples, published, scheme, phase)
        };
        stretches.flat_map(of_stretch).collect::<Vec<_>>()
    };
    schemes.flat_map(of_scheme).collect()
}

/// The values of a scheme in a phase, or in the whole. `outcomes` has the samples of each replication.
fn of_stretch(
    runs: &CellRuns,
    outcomes: &[&[Sample]],
    published: &Published,
    scheme: &str,
    phase: Option<&Phase>,
) -> Vec<Figure> {
    let cell = &runs.cell;
    let samples_of = |value: &Value| -> Vec<&Sample> {
        let sample = runs.place(value);
        outcomes.iter().map(|of_run| &of_run[sample]).collect()
    };
    let wanted = || cell.scenario.values.iter().filter(|value| cell.is_among(&value.only, scheme));
    // Percentiles of one thing come from one bootstrap.
    let mut percentiles_of: Vec<(usize, Vec<f64>)> = Vec::new();
    for value in wanted() {
        if let Statistic::Percentile(percent) = value.statistic {
            let sample = runs.place(value);
            match percentiles_of.iter_mut().find(|(known, _)| *known == sample) {
                Some((_, shares)) => shares.push(percent),
                None => percentiles_of.push((sample, vec![percent])),
            }
        }
    }
    let found: Vec<(usize, Vec<(f64, Measured)>)> = percentiles_of
        .into_iter()
        .map(|(sample, percents)| {
            let samples: Vec<&Sample> = outcomes.iter().map(|of_run| &of_run[sample]).collect();
            (sample, percentiles(&samples, percents, cell.scenario.seed))
        })
        .collect();
    let mut figures = Vec::new();
    for value in wanted() {
        let measured = match value.statistic {
            Statistic::Percentile(percent) => {
                let sample = runs.place(value);
                let of_sample = found.iter().filter(|(known, _)| *known == sample).flat_map(|(_, found)| found);
                of_sample.filter(|(of, _)| of.total_cmp(&percent).is_eq()).take(1).map(|(_, one)| one.clone()).collect()
            }
            statistic => statistic.of(&samples_of(value)),
        };
        let named = measured.into_iter().map(|measured| {
            let first_run = measured.first_run;
            (first_run, figure(runs, published, (scheme, phase), value, measured))
        });
        figures.extend(named);
    }
    // Stable: what the first replication has comes first, in the order of the values.
    figures.sort_by_key(|(first_run, _)| *first_run);
    figures.into_iter().map(|(_, figure)| figure).collect()
}

fn figure(
    runs: &CellRuns,
    published: &Published,
    (scheme, phase): (&str, Option<&Phase>),
    value: &Value,
    measured: Measured,
) -> Figure {
    let scenario = &runs.cell.scenario;
    let row = runs.cell.row(value.row.as_deref(), scheme);
    let row = phase.map_or_else(|| row.clone(), |phase| format!("{row}/{}", phase.name));
    let column = value.column.replace("{}", &measured.label);
    Figure {
        paper: scenario.name.clone(),
        item: value.item.clone().unwrap_or_else(|| item_of(scenario, &row, &column)),
        published: published.of(&row, &column),
        row,
        column,
        unit: value.metric.unit(),
        measured: measured.value,
        ci95: measured.ci95,
        runs: measured.runs,
    }
}

fn item_of(scenario: &Scenario, row: &str, column: &str) -> String {
    let found = scenario.items.iter().find(|item| matches_any(&item.rows, row) && matches_any(&item.columns, column));
    found.map_or(GRID, |item| &item.name).to_owned()
}

/// The place of an item among the scenario's; what is in none comes last.
pub(super) fn rank(scenario: &Scenario, item: &str) -> usize {
    scenario.items.iter().position(|known| known.name == item).unwrap_or(scenario.items.len())
}
