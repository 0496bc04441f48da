//! ANRW'18: Järvinen, Raitahila, Cao, Kojo, "Is CoAP Congestion Safe?", Applied Networking Research Workshop 2018.
//!
//! Up to 400 devices share a narrow link with a drop-tail buffer of several sizes. The default congestion control of CoAP
//! collapses where the buffer lets round-trip times grow beyond its timeouts; CoCoA does so for clients that start anew
//! again and again; full backoff, the paper's proposal, does not.
//!
//! | module | what it holds |
//! |---|---|
//! | [`published`] | the values that the paper states |
//! | [`items`] | which table or figure of the paper a value belongs to |
//! | [`claims`] | what the paper says in words, put to the test |
//! | `tables` | tables of text |
//!
//! The model and its parameters are in `scenarios/anrw18.toml`; `docs/papers/anrw18.md` discusses what comes out.

pub mod claims;
pub mod items;
pub mod published;
mod tables;

use super::{Bar, Paper};
use crate::campaign::{Cost, ExperimentError, RunOptions, Watch};
use crate::experiment::{About, Effort, Experiment};
use crate::metrics::Measurements;
use crate::report::Table;
use crate::results::Figure;
use crate::run;
use crate::scenario::{Scenario, ScenarioError};

/// The paper, as [`PAPERS`](super::PAPERS) lists it.
pub const PAPER: Paper = Paper { name: NAME, scenario: SCENARIO, read, bar, reason: |_| None };

const NAME: &str = "anrw18";

/// The paper's scenario.
pub(crate) const SCENARIO: &str = include_str!("../../../../../scenarios/anrw18.toml");

struct Anrw18(Scenario);

fn read(text: &str) -> Result<Box<dyn Experiment>, ScenarioError> {
    Ok(Box::new(Anrw18(Scenario::from_toml(text)?)))
}

impl Experiment for Anrw18 {
    fn about(&self) -> About<'_> {
        self.0.about()
    }

    fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        self.0.adjust(effort)
    }

    fn measure(&self, options: RunOptions, watch: Watch<'_>) -> Result<(Vec<Figure>, Cost), ExperimentError> {
        let (measured, cost) = run::run(&self.0, options, watch)?;
        Ok((figures(&measured), cost))
    }

    fn tables(&self, figures: &[Figure]) -> Vec<Table> {
        tables::tables(figures)
    }
}

/// Table 1 follows from a closed form, up to the losses of the small buffer; Table 2 is one sample of a random process;
/// what is read off a figure is good to about a second.
fn bar(figure: &Figure) -> Option<Bar> {
    match figure.item.as_str() {
        "table1" if figure.row.ends_with("14100") => Some(Bar::Percent(0.1)),
        "table1" => Some(Bar::Percent(0.5)),
        "table2" => Some(Bar::Percent(7.0)),
        "claims" => None,
        _ => Some(Bar::Percent(5.0)),
    }
}

/// Every value of every cell, each under the table or figure of the paper that it belongs to, then the claims.
fn figures(measured: &[Measurements]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = measured
        .iter()
        .flat_map(|cell| {
            cell.figures(NAME, "").map(|figure| {
                let item = items::item_of(&cell.key, &figure.column).to_owned();
                let published = published::of(&figure.row, &figure.column);
                Figure { item, published, ..figure }
            })
        })
        .collect();
    figures.extend(measured.iter().flat_map(items::table_2));
    // Stable, so that the values of an item stay in the scenario's order.
    figures.sort_by_key(|figure| items::rank(&figure.item));
    figures.extend(claims::figures(measured));
    figures
}

#[cfg(test)]
mod tests;
