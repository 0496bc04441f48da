//! ETFA'14: Betzler, Gomez, Demirkol, Kovatsch, "Congestion Control for CoAP Cloud Services", IEEE ETFA 2014.
//!
//! Clients in the Internet ask 30 motes of the testbed FlockLab, with radios that are always on (NullRDC) or duty-cycled
//! (ContikiMAC): each mote alone, all at the same time, and a burst on top of a few. CoCoA, which measures round-trip
//! times, is compared with the default of CoAP and with one of shorter timeouts.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scenario`] | the experiment as data |
//! | `cell` | one run |
//! | `measure` | what is measured of it |
//! | `published` | the values that the paper states |
//! | `claims` | what the paper says in words, put to the test |
//! | `tables` | tables of text |
//!
//! The model and its parameters are in `scenarios/etfa14.toml`; `docs/papers/etfa14.md` discusses what comes out.

mod cell;
mod claims;
mod measure;
mod published;
pub mod scenario;
mod tables;

use self::cell::Cell;
use self::scenario::Scenario;
use super::Paper;
use crate::campaign::{self, Cost, ExperimentError, RunOptions, Watch};
use crate::experiment::{About, Bar, Effort, Experiment, replications};
use crate::report::Table;
use crate::results::Figure;
use crate::scenario::ScenarioError;

/// The paper, as [`PAPERS`](super::PAPERS) lists it.
pub const PAPER: Paper = Paper { name: NAME, scenario: SCENARIO, read };

const NAME: &str = "etfa14";

const SCENARIO: &str = include_str!("../../../../../scenarios/etfa14.toml");

struct Etfa14(Scenario);

fn read(text: &str) -> Result<Box<dyn Experiment>, ScenarioError> {
    Ok(Box::new(Etfa14(Scenario::from_toml(text)?)))
}

impl Experiment for Etfa14 {
    fn about(&self) -> About<'_> {
        let scenario = &self.0;
        About {
            name: &scenario.name,
            title: &scenario.title,
            extent: format!("{} of {}", replications(scenario.replications.get()), scenario.many.duration),
            seed: scenario.seed,
        }
    }

    fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        self.0.adjust(effort)
    }

    fn measure(&self, options: RunOptions, watch: Watch<'_>) -> Result<(Vec<Figure>, Cost), ExperimentError> {
        let cells = cells(&self.0)?;
        let (outcomes, cost) = campaign::run(&cells, self.0.seed, options, watch)?;
        let mut figures: Vec<Figure> = cells
            .iter()
            .zip(outcomes)
            .flat_map(|(cell, outcomes)| measure::figures(&self.0.name, cell, &outcomes))
            .collect();
        let claims = claims::claims(&figures).into_iter().flat_map(|claim| claim.figures(&self.0.name));
        let claims: Vec<Figure> = claims.collect();
        // Stable, so that the values of an item stay in the scenario's order.
        figures.sort_by(|a, b| a.item.cmp(&b.item));
        figures.extend(claims);
        Ok((figures, cost))
    }

    fn tables(&self, figures: &[Figure]) -> Vec<Table> {
        tables::tables(figures)
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
    for rdc in scenario.rdcs.iter() {
        for workload in scenario.workloads.iter().copied() {
            for scheme in scenario.schemes.iter() {
                let controller = scheme.build()?;
                cells.push(Cell { scenario, rdc, workload, scheme, controller });
            }
        }
    }
    Ok(cells)
}

fn reason(figure: &Figure) -> Option<&'static str> {
    match figure.item.as_str() {
        "table3" => Some(
            "the default's published retries need a loss of 12 to 17 %, CoCoA's one of 5 %: the testbed was not the same in \
             both series of runs",
        ),
        "claims" if figure.row.starts_with("settling_s") => Some(
            "most of a burst waits for the motes with the worst links, where CoCoA's backoff by 3 makes its last copies as \
             late as the default's",
        ),
        "claims" if figure.row.contains("/nullrdc") => Some(
            "without duty cycle half of the clients' time is useful, not a third: the paper's network lost more under load",
        ),
        _ => None,
    }
}

/// The two tables that the network was calibrated with; of the others no numbers are known.
fn bar(figure: &Figure) -> Option<Bar> {
    let calibrated = figure.row.starts_with("coap/") || figure.row.starts_with("cocoa/");
    calibrated.then_some(Bar::Percent(15.0))
}

#[cfg(test)]
mod tests;
