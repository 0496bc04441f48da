//! Run data on disk: samples, from which values are recomputed, per-run values, and exchanges.

use std::io;

use conche_netsim::Instant;
use conche_results::{ExchangeRow, ExchangeRows, Kept, Made, RowOf, RunRow, RunRows, Sample};

use super::cells::{CellRuns, Samples, View};
use crate::campaign::{Cell, Replication, seed_of};
use crate::metrics::statistic;
use crate::scenario::Value;
use crate::trial::Record;

pub(super) fn keep(runs: &CellRuns, outcome: &Samples) -> Vec<Kept> {
    let of_view = |view: View<'_>| {
        let kept = move |(place, sample): (usize, &Sample)| {
            let is_of_it = |value: &&Value| runs.place(value) == place && !value.is_across_cells();
            let made = |value: &Value| Made { row: view.row(value), column: value.column.clone() };
            Kept {
                phase: view.phase.map(|phase| phase.name.clone()),
                scheme: view.scheme.to_owned(),
                unit: runs.unit(place).name(),
                figures: view.values().filter(is_of_it).map(made).collect(),
                sample: sample.clone(),
            }
        };
        view.samples(outcome).iter().enumerate().map(kept).collect::<Vec<_>>()
    };
    runs.views().flat_map(of_view).collect()
}

pub(super) fn add_values(rows: &mut RunRows, runs: &CellRuns, outcomes: &[Option<Samples>]) -> io::Result<()> {
    let (scenario, cell) = (&runs.cell.scenario, runs.id());
    for (replication, outcome) in (0..).zip(outcomes) {
        let seed = seed_of(scenario.seed, replication);
        let Some(outcome) = outcome else { continue };
        for view in runs.views() {
            let of = RowOf { scenario: &scenario.name, cell: &cell, scheme: view.scheme, replication, seed };
            let (phase, samples) = (view.phase.map(|phase| phase.name.as_str()), view.samples(outcome));
            for value in view.values().filter(|value| !value.is_across_cells()) {
                let (row, unit) = (view.row(value), value.unit().name());
                for (label, number) in statistic::in_run(value.statistic, &samples[runs.place(value)]) {
                    let metric = value.column.replace("{}", label);
                    rows.push(&RunRow { of, phase, row: &row, metric: &metric, unit: &unit, value: number })?;
                }
            }
        }
    }
    Ok(())
}

/// Adds exchanges flow by flow, by end.
pub(super) fn add_exchanges(
    rows: &mut ExchangeRows,
    runs: &CellRuns,
    record: &Record,
    replication: Replication,
) -> io::Result<()> {
    let (scenario, cell) = (&runs.cell.scenario, runs.id());
    let Replication { index: replication, seed, .. } = replication;
    let seconds = |at: Instant| (at - Instant::ZERO).as_secs_f64();
    for flow in &record.flows {
        let of = RowOf { scenario: &scenario.name, cell: &cell, scheme: runs.controller_name(flow), replication, seed };
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
