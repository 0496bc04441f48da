//! BDP'19: Ancillotti, Bruno, "BDP-CoAP: Leveraging Bandwidth-Delay Product for Congestion Control in CoAP", IEEE World
//! Forum on Internet of Things 2019.
//!
//! Motes on circles around a sink send it Confirmable messages over several hops of IEEE 802.15.4. BDP-CoAP, the paper's
//! proposal, paces them at an estimate of the bottleneck's bandwidth; the paper compares its fairness, goodput,
//! retransmissions and losses with those of CoAP's default and of CoCoA+.
//!
//! | module | what it holds |
//! |---|---|
//! | `scenario`, `media` | the experiment as data |
//! | `network` | motes, sink and the tree of RPL |
//! | `mote` | what sits on a mote |
//! | `run` | one run |
//! | `measure` | what is measured of it |
//! | `cell` | schemes × media × workloads |
//! | `claims` | what the paper says in words, put to the test |
//! | `tables` | tables of text |
//!
//! The model and its parameters are in `scenarios/bdp19.toml`; `docs/papers/bdp19.md` discusses what comes out.

mod cell;
mod claims;
mod measure;
mod media;
mod mote;
mod network;
mod run;
mod scenario;
mod tables;

use super::Paper;
use crate::campaign::{self, Cost, ExperimentError, RunOptions, Watch};
use crate::experiment::{About, Bar, Effort, Experiment, replications};
use crate::report::Table;
use crate::results::{Figure, Row};
use crate::scenario::{AtLeastOne, ScenarioError, select};
use cell::Section;
use scenario::Scenario;

/// The paper, as [`PAPERS`](super::PAPERS) lists it.
pub const PAPER: Paper = Paper { name: "bdp19", scenario: SCENARIO, read };

/// The paper's scenario.
const SCENARIO: &str = include_str!("../../../../../scenarios/bdp19.toml");

struct Bdp19(Scenario);

fn read(text: &str) -> Result<Box<dyn Experiment>, ScenarioError> {
    Ok(Box::new(Bdp19(Scenario::from_toml(text)?)))
}

impl Experiment for Bdp19 {
    fn about(&self) -> About<'_> {
        let scenario = &self.0;
        About {
            name: &scenario.name,
            title: &scenario.title,
            extent: format!(
                "{} of {} (static) and {} (mixed)",
                replications(scenario.replications.get()),
                scenario.fixed.duration,
                scenario.mixed.duration
            ),
            seed: scenario.seed,
        }
    }

    fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        let scenario = &mut self.0;
        let number = effort.replications(scenario.replications.get(), scenario.quick_replications());
        if effort.quick {
            scenario.quick();
        }
        scenario.replications = AtLeastOne::new(number).unwrap_or(scenario.replications);
        scenario.seed = effort.seed.unwrap_or(scenario.seed);
        if !effort.controllers.is_empty() {
            scenario.schemes = select(&scenario.schemes, &effort.controllers)?;
        }
        scenario.validate()
    }

    fn measure(&self, options: RunOptions, watch: Watch<'_>) -> Result<(Vec<Figure>, Cost), ExperimentError> {
        let cells = cell::cells(&self.0)?;
        let (outcomes, cost) = campaign::run(&cells, self.0.seed, options, watch)?;
        let mut figures: Vec<Figure> = outcomes.iter().flat_map(|of_cell| self.figures(of_cell)).collect();
        // Stable, so that the values of an item stay in the order of cells.
        figures.sort_by(|a, b| a.item.cmp(&b.item));
        figures.extend(claims::figures(&self.0, &figures));
        Ok((figures, cost))
    }

    fn tables(&self, figures: &[Figure]) -> Vec<Table> {
        tables::tables(figures)
    }

    /// Of this paper no numbers are known.
    fn bar(&self, _figure: &Figure) -> Option<Bar> {
        None
    }

    fn reason(&self, figure: &Figure) -> Option<&str> {
        claims::reason(figure)
    }
}

impl Bdp19 {
    /// The values of a cell as means over its replications. One that some replications do not have, as where no mote is so
    /// many hops away, is a mean over the others.
    fn figures(&self, replications: &[Vec<Section>]) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (place, section) in replications.iter().flatten().take(replications.first().map_or(0, Vec::len)).enumerate()
        {
            let row = Row { paper: &self.0.name, item: section.item, row: &section.row };
            let of_all = || replications.iter().flat_map(|sections| &sections[place].values);
            let mut seen: Vec<&str> = Vec::new();
            for value in of_all() {
                if seen.contains(&value.column.as_str()) {
                    continue;
                }
                seen.push(&value.column);
                let values: Vec<f64> =
                    of_all().filter(|other| other.column == value.column).map(|other| other.value).collect();
                figures.push(row.mean(&value.column, value.unit, &values, None));
            }
        }
        figures
    }
}

#[cfg(test)]
mod tests;
