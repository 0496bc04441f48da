//! What is left of runs on disk: their samples, from which figures are made again, their values, and their exchanges.

use std::io;

use conche_netsim::Instant;
use conche_results::{ExchangeRow, ExchangeRows, Kept, Made, RowOf, RunRow, RunRows, Sample};

use super::cells::{CellRuns, Samples};
use crate::campaign::{CellId, Replication, seed_of};
use crate::compose::Record;
use crate::scenario::{Phase, Value};

/// The samples of a run, one after the other.
pub(super) fn keep(runs: &CellRuns, outcome: &Samples) -> Vec<Kept> {
    let mut kept = Vec::new();
    for (phase, of_stretch) in stretches(runs).zip(outcome) {
        for (scheme, samples) in runs.cell.schemes.iter().zip(of_stretch) {
            for (place, sample) in samples.iter().enumerate() {
                let made = |value: &Value| Made { row: runs.row(value, scheme, phase), column: value.column.clone() };
                let of_sample: Vec<&Value> = runs
                    .values(scheme)
                    .filter(|value| runs.place(value) == place && !value.is_across_cells())
                    .collect();
                kept.push(Kept {
                    phase: phase.map(|phase| phase.name.clone()),
                    scheme: scheme.clone(),
                    unit: runs.unit(place).name(),
                    figures: of_sample.into_iter().map(made).collect(),
                    sample: sample.clone(),
                });
            }
        }
    }
    kept
}

/// A run of which these samples were kept; `None` if it has more or fewer of them.
pub(super) fn restore(runs: &CellRuns, samples: Vec<Sample>) -> Option<Samples> {
    let mut samples = samples.into_iter();
    let mut outcome = runs.nothing();
    for sample in outcome.iter_mut().flatten().flatten() {
        *sample = samples.next()?;
    }
    samples.next().is_none().then_some(outcome)
}

/// Adds the values of a cell's runs: of each value what it is within a run.
pub(super) fn add_values(rows: &mut RunRows, runs: &CellRuns, outcomes: &[Option<Samples>]) -> io::Result<()> {
    let (scenario, cell) = (&runs.cell.scenario, runs.cell.id());
    for (replication, outcome) in (0..).zip(outcomes) {
        let seed = seed_of(scenario.seed, replication);
        for (phase, of_stretch) in stretches(runs).zip(outcome.iter().flatten()) {
            for (scheme, samples) in runs.cell.schemes.iter().zip(of_stretch) {
                let of = RowOf { scenario: &scenario.name, cell: &cell, scheme, replication, seed };
                for value in runs.values(scheme).filter(|value| !value.is_across_cells()) {
                    let row = runs.row(value, scheme, phase);
                    let unit = value.unit().name();
                    for (label, number) in value.statistic.in_run(&samples[runs.place(value)]) {
                        let metric = value.column.replace("{}", label);
                        let phase = phase.map(|phase| phase.name.as_str());
                        rows.push(&RunRow { of, phase, row: &row, metric: &metric, unit: &unit, value: number })?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Adds the exchanges of a run, flow by flow, each in the order of their ends.
pub(super) fn add_exchanges(
    rows: &mut ExchangeRows,
    runs: &CellRuns,
    record: &Record,
    replication: Replication,
) -> io::Result<()> {
    let (scenario, cell): (_, CellId) = (&runs.cell.scenario, runs.cell.id());
    let Replication { index: replication, seed, .. } = replication;
    let seconds = |at: Instant| (at - Instant::ZERO).as_secs_f64();
    for flow in &record.flows {
        let of =
            RowOf { scenario: &scenario.name, cell: &cell, scheme: &runs.cell.schemes[flow.scheme], replication, seed };
        for exchange in &flow.exchanges {
            rows.push(&ExchangeRow {
                of,
                traffic: &scenario.traffic[flow.traffic].name,
                client: number(flow.client.index()),
                server: number(flow.server.index()),
                start_s: seconds(exchange.began),
                end_s: seconds(exchange.ended),
                transmissions: exchange.transmissions,
                unnecessary: exchange.unnecessary,
                is_answered: exchange.answered,
                rtt_s: exchange.round_trip.map(|time| time.as_secs_f64()),
            })?;
        }
    }
    Ok(())
}

pub(super) fn number(node: usize) -> u32 {
    u32::try_from(node).unwrap_or(u32::MAX)
}

/// The whole run, and its phases.
fn stretches(runs: &CellRuns) -> impl Iterator<Item = Option<&Phase>> {
    std::iter::once(None).chain(runs.cell.scenario.phases.iter().map(Some))
}
