//! WiOpt'12: Betzler, Gomez, Demirkol, Paradells, "Should We Use the Default Protocol Settings for Networks of Constrained
//! Devices?", WiOpt 2012.
//!
//! Bulk transfers over a simplified TCP between motes that route by AODV, under the default settings of each layer and
//! under others: backoff, retries, route metric, acknowledgments, retransmission timers, window.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scenario`] | the scenario |
//! | [`testbed`] | the motes, routes and pairs that all runs have in common |
//! | [`transfer`] | one transfer |
//! | [`plan`] | which transfers are run |
//! | `samples` | what is measured of them, one value for each replication |
//! | `figures` | what the paper's figures show of that |
//! | `claims` | what the paper says in words, put to the test |
//! | `tables` | tables of text |
//!
//! The parameters are in `scenarios/wiopt12.toml`; `docs/papers/wiopt12.md` discusses what comes out.

mod claims;
mod figures;
pub mod plan;
mod samples;
pub mod scenario;
mod tables;
pub mod testbed;
#[cfg(test)]
mod tests;
pub mod transfer;

use self::plan::{Combination, Plan, Results};
use self::scenario::Scenario;
use self::testbed::Testbed;
use super::Paper;
use conche_results::{Origin, fingerprint};

use crate::campaign::{self, Completion, ExperimentError, RunOptions, Watch};
use crate::experiment::{About, Bar, Effort, Experiment};
use crate::report::Table;
use crate::results::Figure;
use crate::scenario::ScenarioError;

/// The paper, as [`PAPERS`](super::PAPERS) lists it. No value of it is compared as a number: its figures are known by what
/// the text says of them.
pub const PAPER: Paper = Paper { name: NAME, scenario: SCENARIO, read };

const NAME: &str = "wiopt12";

const SCENARIO: &str = include_str!("../../../../../scenarios/wiopt12.toml");

struct Wiopt12(Scenario, String, bool);

fn read(text: &str) -> Result<Box<dyn Experiment>, ScenarioError> {
    Ok(Box::new(Wiopt12(Scenario::from_toml(text)?, text.to_owned(), false)))
}

impl Experiment for Wiopt12 {
    fn about(&self) -> About<'_> {
        let scenario = &self.0;
        About { name: &scenario.name, title: &scenario.title, extent: scenario.extent(), seed: scenario.seed }
    }

    fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        self.2 |= effort.quick;
        self.0.adjust(effort)
    }

    fn origin(&self) -> Origin {
        let about = self.about();
        let axes = vec!["settings".to_owned()];
        // Which schemes and how often, runs say themselves.
        let quick = if self.2 { "quick" } else { "" };
        let settings = fingerprint(&[self.1.as_str(), quick]);
        Origin {
            name: about.name.to_owned(),
            title: about.title.to_owned(),
            seed: about.seed,
            text: self.1.clone(),
            files: Vec::new(),
            settings,
            axes,
            extent: about.extent,
        }
    }

    fn measure(&self, options: RunOptions<'_>, watch: Watch<'_>) -> Result<(Vec<Figure>, Completion), ExperimentError> {
        let scenario = &self.0;
        let (results, completion) = run(scenario, &self.origin(), options, watch)?;
        let mut figures = figures::figures(scenario, &results);
        figures.extend(claims::figures(scenario, &figures));
        Ok((figures, completion))
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

/// Runs all that the scenario asks for.
fn run(
    scenario: &Scenario,
    origin: &Origin,
    options: RunOptions<'_>,
    watch: Watch<'_>,
) -> Result<(Results, Completion), ExperimentError> {
    let testbed = Testbed::new(scenario);
    let keys = Plan(scenario).keys();
    let cells: Vec<_> = keys.iter().map(|key| Combination { scenario, testbed: &testbed, key: *key }).collect();
    let (outcomes, completion) = campaign::run(&cells, origin, options, watch)?;
    // Of a run that failed there is no transfer.
    let outcomes = outcomes.into_iter().map(|runs| runs.into_iter().map(Option::unwrap_or_default).collect());
    Ok((keys.into_iter().zip(outcomes).collect(), completion))
}
