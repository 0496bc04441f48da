//! ComMag'16: Betzler, Gomez, Demirkol, Paradells, "CoAP Congestion Control for the Internet of Things", IEEE
//! Communications Magazine 54(7), 2016.
//!
//! Six ways to compute the RTO are compared: the default of CoAP, which measures nothing, CoCoA, CoCoA without weak
//! samples, the last round-trip time alone, Linux's, and Peak-Hopper. Up to 40 clients share a GPRS modem, each working
//! all the time, or most of them in a burst.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scenario`] | the experiment as data |
//! | `gprs`, `motes` | the networks |
//! | `site` | what runs use of them |
//! | `cell` | one run |
//! | `measure` | what is measured of runs |
//! | `published` | the values that the paper states |
//! | `claims` | what the paper says in words, put to the test |
//! | `tables` | tables of text |
//!
//! The model and its parameters are in `scenarios/commag16.toml`; `docs/papers/commag16.md` discusses what comes out.

mod cell;
mod claims;
mod gprs;
mod measure;
mod motes;
mod published;
pub mod scenario;
mod site;
mod tables;

use self::cell::{Cell, Where, Workload};
use self::scenario::Scenario;
use super::Paper;
use crate::campaign::{self, Cost, ExperimentError, RunOptions, Watch};
use crate::experiment::{About, Bar, Effort, Experiment, replications};
use crate::report::Table;
use crate::results::Figure;
use crate::scenario::ScenarioError;

/// The paper, as [`PAPERS`](super::PAPERS) lists it.
pub const PAPER: Paper = Paper { name: NAME, scenario: SCENARIO, read };

const NAME: &str = "commag16";

/// The paper's scenario.
pub(crate) const SCENARIO: &str = include_str!("../../../../../scenarios/commag16.toml");

struct ComMag16(Scenario);

fn read(text: &str) -> Result<Box<dyn Experiment>, ScenarioError> {
    Ok(Box::new(ComMag16(Scenario::from_toml(text)?)))
}

impl Experiment for ComMag16 {
    fn about(&self) -> About<'_> {
        let scenario = &self.0;
        About {
            name: &scenario.name,
            title: &scenario.title,
            extent: format!("{} of {}", replications(scenario.replications.get()), scenario.continuous.duration),
            seed: scenario.seed,
        }
    }

    fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        self.0.adjust(effort)
    }

    fn measure(&self, options: RunOptions, watch: Watch<'_>) -> Result<(Vec<Figure>, Cost), ExperimentError> {
        let cells = cells(&self.0)?;
        let (outcomes, cost) = campaign::run(&cells, self.0.seed, options, watch)?;
        let mut figures = measure::features(&self.0);
        let series: Vec<_> = cells.iter().zip(&outcomes).flat_map(|(cell, runs)| measure::series(cell, runs)).collect();
        figures.extend(series.iter().map(|series| series.figure(&self.0.name)));
        figures.sort_by_key(|figure| measure::rank(&figure.item));
        figures.extend(claims::figures(&self.0, &series));
        Ok((figures, cost))
    }

    fn tables(&self, figures: &[Figure]) -> Vec<Table> {
        tables::tables(&self.0, figures)
    }

    fn bar(&self, figure: &Figure) -> Option<Bar> {
        bar(figure)
    }

    fn reason(&self, figure: &Figure) -> Option<&str> {
        reason(figure)
    }
}

fn cells(scenario: &Scenario) -> Result<Vec<Cell<'_>>, ScenarioError> {
    let mut cells = Vec::new();
    for scheme in scenario.schemes.iter() {
        let controller = scheme.build()?;
        for workload in [Workload::Continuous, Workload::Burst] {
            let gprs = scenario.gprs.iter().flat_map(|gprs| {
                let numbers = gprs.clients.iter().map(|clients| clients.get());
                // A burst needs clients beyond those that always work.
                let enough = |clients: &u32| workload == Workload::Continuous || *clients > scenario.burst.continuous;
                numbers.filter(enough).map(|clients| Where::Gprs(gprs, clients))
            });
            let places = gprs.chain(scenario.flocklab.iter().map(Where::FlockLab));
            cells.extend(places.map(|place| {
                let controller = controller.clone();
                Cell { scenario, scheme: &scheme.name, controller, workload, place }
            }));
        }
    }
    Ok(cells)
}

/// Throughput within the interval that is published with it, everything else within 15 %.
fn bar(figure: &Figure) -> Option<Bar> {
    match figure.item.as_str() {
        "fig1" => published::half_width(&figure.row, &figure.column).map(Bar::Within),
        "fig2" | "table2" => Some(Bar::Percent(15.0)),
        _ => None,
    }
}

/// What is beyond its bar, or against the paper's words, and why as far as we know.
fn reason(figure: &Figure) -> Option<&'static str> {
    let (of, cell) = figure.row.split_once('/').unwrap_or((&figure.row, ""));
    let known = match (figure.item.as_str(), of, cell) {
        ("fig2", "cocoa-s", "gprs/10" | "gprs/20") => {
            "CoCoA-S retransmits more only while round-trip times stay above what it last measured: within one run this \
             link is never slow for so long"
        }
        ("fig2", "b-rto", _) => {
            "the next round-trip time exceeds the last by a quarter less often: those of the paper vary more from one \
             exchange to the next than one link's can that gives the other schemes their initial RTOs"
        }
        ("fig2" | "table2", "ph", "gprs/20") => {
            "clients in a closed loop have a mean round-trip time of clients over throughput, which is the same for all \
             schemes that retransmit little; that of Peak-Hopper is published as 28 % above CoCoA's, its throughput as 9 % \
             below"
        }
        ("claims", "cocoa_settles_fastest", _) => {
            "CoCoA, Linux and Peak-Hopper settle within a few per cent of each other; what the burst was is not known"
        }
        ("claims", claim, _) if claim.starts_with("b_rto") || claim == "less_throughput_than_default" => {
            "with 30 clients and more the default collapses, and retransmits as much as B-RTO"
        }
        _ => return None,
    };
    Some(known)
}

#[cfg(test)]
mod tests;
