//! The runs of a cell, and their samples.

use std::io;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use conche_proto::cc::any::Named;

use super::storage;
use crate::campaign::{self, CellId, Kept, Replication, RunResult, RunTables};
use crate::metrics::{self, Endpoints, Sample};
use crate::scenario::{Cell, ControllerName, Metric, Pace, Period, Phase, Sender, Unit, Value};
use crate::trial::{self, Control, Observing, Record, RecordOptions, Routes, Sampling, Selection, TrialError};
use crate::units::Span;

pub(super) struct CellRuns {
    pub(super) cell: Cell,
    measured: Vec<(Metric, Option<usize>)>,
    routes: Arc<Routes>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum CellError {
    #[error(transparent)]
    Trial(#[from] TrialError),
    #[error(transparent)]
    Tables(#[from] io::Error),
}

/// Samples per span, scheme and metric.
#[derive(Clone, Debug)]
pub(super) struct Samples(Vec<Sample>);

/// The whole run (0), or a phase (1 + its index).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanIndex(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MetricIndex(usize);

#[derive(Clone)]
pub(super) struct View<'a> {
    pub(super) runs: &'a CellRuns,
    pub(super) scheme: &'a str,
    pub(super) phase: Option<&'a Phase>,
    pub(super) span: SpanIndex,
    /// Its samples in [`Samples`].
    range: Range<usize>,
}

impl CellRuns {
    pub(super) fn new(cell: Cell, routes: Arc<Routes>) -> Self {
        let mut measured = Vec::new();
        for value in &cell.scenario.values {
            let metric_key = metric_key(&cell, value);
            if !measured.contains(&metric_key) {
                measured.push(metric_key);
            }
        }
        Self { cell, measured, routes }
    }

    pub(super) fn metric_index(&self, value: &Value) -> MetricIndex {
        let metric_key = metric_key(&self.cell, value);
        let index = self.measured.iter().position(|known| *known == metric_key);
        MetricIndex(index.expect("every value's was listed"))
    }

    pub(super) fn view(&self, span: SpanIndex, scheme: usize) -> View<'_> {
        let phase = span.0.checked_sub(1).map(|phase| &self.cell.scenario.phases[phase]);
        let first = (span.0 * self.cell.schemes.len() + scheme) * self.measured.len();
        View { runs: self, scheme: &self.cell.schemes[scheme], phase, span, range: first..first + self.measured.len() }
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = SpanIndex> {
        (0..=self.cell.scenario.phases.len()).map(SpanIndex)
    }

    pub(super) fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.spans().flat_map(move |span| (0..self.cell.schemes.len()).map(move |scheme| self.view(span, scheme)))
    }

    pub(super) fn unit(&self, metric: MetricIndex) -> Unit {
        self.measured[metric.0].0.properties().unit
    }

    pub(super) fn controller_name(&self, control: Control) -> &str {
        match control {
            Control::Scheme(place) => &self.cell.schemes[place],
            Control::Traffic(place) => {
                self.cell.scenario.traffic[place].controller.as_ref().map_or("", ControllerName::name)
            }
        }
    }

    pub(super) fn nothing(&self) -> Samples {
        Samples(vec![Sample::None; self.spans().count() * self.cell.schemes.len() * self.measured.len()])
    }
}

impl<'a> View<'a> {
    pub(super) fn values(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let (cell, scheme) = (&self.runs.cell, self.scheme);
        cell.scenario.values.iter().filter(move |value| cell.is_among(&value.only, scheme))
    }

    pub(super) fn row(&self, value: &Value) -> String {
        let row = self.runs.cell.row(value.row.as_deref(), self.scheme);
        self.phase.map_or_else(|| row.clone(), |phase| format!("{row}/{}", phase.name))
    }

    pub(super) fn samples<'r>(&self, run: &'r Samples) -> impl Iterator<Item = (MetricIndex, &'r Sample)> + use<'r> {
        run.0[self.range.clone()].iter().enumerate().map(|(metric, sample)| (MetricIndex(metric), sample))
    }

    pub(super) fn sample<'r>(&self, run: &'r Samples, metric: MetricIndex) -> &'r Sample {
        &run.0[self.range.start + metric.0]
    }
}

/// Returns the SHA-256 of the running executable.
fn executable() -> &'static str {
    static HASH: LazyLock<String> = LazyLock::new(|| conche_results::executable().unwrap_or_default());
    &HASH
}

fn metric_key(cell: &Cell, value: &Value) -> (Metric, Option<usize>) {
    let place = |name: &String| cell.scenario.traffic.iter().position(|traffic| traffic.name == *name);
    (value.metric.clone(), value.traffic.as_ref().and_then(place))
}

impl campaign::RunnableCell for CellRuns {
    type Outcome = Samples;
    type Error = CellError;

    fn id(&self) -> CellId {
        let Cell { part, labels, mix, schemes, .. } = &self.cell;
        let axes = labels.iter().map(|label| (label.axis.clone(), label.point.clone())).collect();
        CellId { part: part.clone(), axes, mix: mix.clone(), schemes: schemes.clone() }
    }

    fn versions(&self) -> Vec<(String, String)> {
        let scenario = &self.cell.scenario;
        let of_schemes = self.cell.schemes.iter().filter_map(|name| Some(&scenario.scheme(name)?.controller));
        let of_traffic = scenario.traffic.iter().filter_map(|traffic| traffic.controller.as_ref());
        let named = of_schemes.chain(of_traffic).filter_map(|name| name.named(&scenario.controllers));
        let version = |named: &Named| named.version().map_or_else(|| executable().to_owned(), |of| of.to_string());
        let versions = named.map(|named| (named.name().to_owned(), version(named)));
        let mut versions: Vec<_> = versions.collect();
        versions.sort_unstable();
        versions.dedup();
        versions
    }

    fn name(&self) -> String {
        self.cell.row(None, &self.cell.schemes.join("+"))
    }

    fn replications(&self) -> u32 {
        self.cell.scenario.replications.get()
    }

    fn work(&self) -> u64 {
        let scenario = &self.cell.scenario;
        let size = |reference: &str| u64::from(scenario.most_nodes(reference));
        let seconds = scenario.duration.map_or(600, |duration| duration.0.as_secs());
        let of = |traffic: &crate::scenario::Traffic| {
            if let Sender::Transfer(transfer) = traffic.sender {
                let hops = traffic.hops.map_or(3 * traffic.take.unwrap_or(1), u32::from);
                return u64::from(hops) * u64::from(transfer.segments.get());
            }
            let flows = size(&traffic.from).max(size(&traffic.to));
            let by_time = match &traffic.pace {
                Pace::Closed => seconds,
                Pace::Every { interval, .. } | Pace::Poisson { interval } => seconds / interval.0.as_secs().max(1),
                Pace::Bursts { interval, exchanges } => {
                    u64::from(exchanges.get()) * seconds / interval.0.as_secs().max(1)
                }
                Pace::At(times) => times.len() as u64,
                Pace::OnOff { interval, .. } => seconds / interval.0.as_secs().max(1),
                Pace::Phases(intervals) => {
                    let of_phase =
                        |(phase, interval): (&Phase, &Span)| phase.lasts.0.as_secs() / interval.0.as_secs().max(1);
                    scenario.phases.iter().zip(intervals).map(of_phase).sum()
                }
            };
            let exchanges = traffic.exchanges.map_or(by_time, |exchanges| u64::from(exchanges.get()));
            // More clients cause more retransmissions.
            flows * exchanges + flows * flows * exchanges / 100
        };
        scenario.traffic.iter().map(of).sum::<u64>().max(1)
    }

    fn keep(&self, outcome: &Samples) -> Vec<Kept> {
        storage::keep(self, outcome)
    }

    fn restore(&self, samples: Vec<Sample>) -> Option<Samples> {
        (samples.len() == self.nothing().0.len()).then_some(Samples(samples))
    }

    fn run(&self, replication: Replication, tables: &mut RunTables) -> Result<RunResult<Samples>, CellError> {
        let RunTables { exchanges, series } = tables;
        let wants =
            |what: fn(RecordOptions) -> bool| self.measured.iter().any(|(metric, _)| what(metrics::wants(metric)));
        let wanted = RecordOptions {
            // Timelines need timeouts.
            timeouts: exchanges.is_some() || wants(|wanted| wanted.timeouts),
            arrivals: wants(|wanted| wanted.arrivals),
            link_drops: false,
        };
        let run = |sampling: Option<&mut Sampling<'_>>| {
            let observing = Observing { sampling, ..Observing::default() };
            trial::run_observed(&self.cell, wanted, replication, &self.routes, observing)
        };
        let RunResult { outcome: record, events } = match series {
            Some(rows) => storage::add_series(rows, self, replication, run)??,
            None => run(None)?,
        };
        if let Some(rows) = exchanges {
            storage::add_exchanges(rows, self, &record, replication)?;
            storage::add_timelines(rows, self, &record);
        }
        let scenario = &self.cell.scenario;
        let endpoints = |scheme: usize, traffic: Option<usize>| {
            let own = traffic.and_then(|place| scenario.traffic[place].controller.as_ref());
            let name = own.or_else(|| Some(&scenario.scheme(&self.cell.schemes[scheme])?.controller));
            let named = name.and_then(|name| name.named(&scenario.controllers));
            Endpoints { max_retransmit: scenario.endpoint.max_retransmit, features: named.map(|named| named.features) }
        };
        let samples = |record: &Record, is_part: bool| -> Vec<Sample> {
            let of_scheme = |scheme: usize| {
                let sample = move |(metric, traffic): &(Metric, Option<usize>)| {
                    if is_part && metric.properties().period == Period::WholeRun {
                        return Sample::None;
                    }
                    metrics::sample(
                        metric,
                        record,
                        Selection { scheme, traffic: *traffic },
                        endpoints(scheme, *traffic),
                    )
                };
                self.measured.iter().map(sample)
            };
            (0..self.cell.schemes.len()).flat_map(of_scheme).collect()
        };
        let phases = Phase::spans(&scenario.phases).flat_map(|(from, to)| samples(&record.during(from, to), true));
        Ok(RunResult { outcome: Samples(samples(&record, false).into_iter().chain(phases).collect()), events })
    }
}
