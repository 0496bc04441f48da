//! The cells of the experiment: each scheme on each medium under each workload.

use std::time::Duration;

use conche_netsim::Instant;
use conche_netsim::radio::MediumConfig;
use conche_proto::cc::AnyController;

use super::measure::{Record, Stretch, Value};
use super::run::{Setup, Workload};
use super::scenario::Scenario;
use crate::campaign::{self, Ran, Replication};
use crate::results::Unit;
use crate::scenario::ScenarioError;

/// A scheme on a medium under a workload.
pub(super) struct Cell<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) scheme: &'a str,
    pub(super) controller: AnyController,
    pub(super) medium: (&'static str, MediumConfig),
    pub(super) workload: Workload,
}

/// Values of one run that belong to one row.
pub(super) struct Section {
    pub(super) item: &'static str,
    pub(super) row: String,
    pub(super) values: Vec<Value>,
}

/// All cells, in the order of workloads, media and schemes.
pub(super) fn cells(scenario: &Scenario) -> Result<Vec<Cell<'_>>, ScenarioError> {
    let fixed = scenario.fixed.rates.iter().map(|rate| Workload::Static(*rate));
    let mut cells = Vec::new();
    for workload in fixed.chain([Workload::Dynamic, Workload::Mixed]) {
        for medium in scenario.network.media.all() {
            for scheme in scenario.schemes.iter() {
                let (controller, medium, workload) = (scheme.build()?, medium.clone(), workload.clone());
                cells.push(Cell { scenario, scheme: &scheme.name, controller, medium, workload });
            }
        }
    }
    Ok(cells)
}

impl campaign::Cell for Cell<'_> {
    type Outcome = Vec<Section>;

    fn name(&self) -> String {
        format!("{}/{}/{}", self.scheme, self.medium.0, self.workload.name())
    }

    fn replications(&self) -> u32 {
        self.scenario.replications.get()
    }

    /// Milliseconds of virtual time, the more the nearer the network is to saturation.
    fn work(&self) -> u64 {
        let rate = match self.workload {
            Workload::Static(rate) => rate,
            Workload::Dynamic => self.scenario.dynamic.highest / 2.0,
            Workload::Mixed => self.scenario.mixed.confirmable_rate,
        };
        let load = (rate / SATURATION_BITS_PER_SECOND).clamp(0.1, 1.0);
        let millis = self.setup().duration().as_secs_f64() * 1000.0 * load;
        Duration::from_secs_f64(millis).as_secs().max(1)
    }

    fn run(&self, replication: Replication) -> Result<Ran<Vec<Section>>, String> {
        let (record, events) = self.setup().run(replication.seed)?;
        Ok(Ran { outcome: self.sections(&record), events })
    }
}

/// About where a mote's goodput stops to grow.
const SATURATION_BITS_PER_SECOND: f64 = 150.0;

impl Workload {
    /// What rows call it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Static(rate) => format!("static/{rate}"),
            Self::Dynamic => "dynamic".to_owned(),
            Self::Mixed => "mixed".to_owned(),
        }
    }
}

impl Cell<'_> {
    fn setup(&self) -> Setup<'_> {
        Setup {
            scenario: self.scenario,
            medium: &self.medium.1,
            controller: self.controller.clone(),
            workload: &self.workload,
        }
    }

    fn stretch(&self, from: Duration, to: Duration, window: Duration) -> Stretch {
        let message_bits = self.scenario.messages.request.0 as f64 * 8.0;
        Stretch { from: Instant::ZERO + from, to: Instant::ZERO + to, window, message_bits }
    }

    fn sections(&self, record: &Record) -> Vec<Section> {
        let measurement = self.scenario.measurement;
        let (zero, end, window) = (Duration::ZERO, self.setup().duration(), measurement.fairness_window.0);
        let row = campaign::Cell::name(self);
        let whole = self.stretch(zero, end, window);
        let mut values = record.values(whole);
        match self.workload {
            Workload::Static(_) => {
                let mean_hops =
                    record.motes.iter().map(|mote| f64::from(mote.hops)).sum::<f64>() / record.motes.len() as f64;
                let frames = record.frames as f64 / record.arrivals.len().max(1) as f64;
                values.push(Value { column: "hops_mean".to_owned(), unit: Unit::Count, value: mean_hops });
                values.push(Value { column: "frames_per_message".to_owned(), unit: Unit::Count, value: frames });
                let series = self.stretch(zero, end, measurement.series_window.0);
                let series = record.series(measurement.series_hops, series);
                vec![Section { item: "fig1", row: row.clone(), values }, self.series(row, &series)]
            }
            Workload::Dynamic => {
                let (step, rates) = (self.scenario.dynamic.step.0, self.scenario.dynamic.rates());
                let steps = (0..).zip(&rates).map(|(place, rate)| {
                    let stretch = self.stretch(step * place, step * (place + 1), window.min(step));
                    Section { item: "fig3", row: format!("{row}/{}/{rate}", place + 1), values: record.values(stretch) }
                });
                let steps: Vec<_> = steps.collect();
                std::iter::once(Section { item: "fig3", row, values }).chain(steps).collect()
            }
            Workload::Mixed => {
                let unaware = record.unaware_goodput(whole);
                values.push(Value { column: "goodput_unaware".to_owned(), unit: Unit::BitsPerSecond, value: unaware });
                vec![Section { item: "fig4", row, values }]
            }
        }
    }

    /// Goodput over time, a column each window, named by its end.
    fn series(&self, row: String, series: &[f64]) -> Section {
        let window = self.scenario.measurement.series_window.0.as_secs();
        let value = |(place, goodput): (u64, &f64)| Value {
            column: format!("goodput_until_{}s", place * window),
            unit: Unit::BitsPerSecond,
            value: *goodput,
        };
        let hops = self.scenario.measurement.series_hops;
        let values = (1..).zip(series).map(value).collect();
        Section { item: "fig2", row: format!("{row}/{hops}_hops"), values }
    }
}
