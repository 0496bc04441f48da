//! Papers on CoAP congestion control, regenerated: a scenario, what was published, and the tables that show both.

mod claim;
mod summary;
pub mod wiopt12;

pub(crate) use claim::table as claim_table;
pub use claim::{Claim, Values};
pub use summary::{Miss, Summary, misses, overview};

use serde::Deserialize;

use crate::composed::Composed;
use crate::experiment::Experiment;
use crate::scenario::{Files, ScenarioError};

/// A paper whose experiment conche repeats.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its short name, such as `anrw18`; that of its scenario too.
    pub name: &'static str,
    /// The text of its scenario.
    pub scenario: &'static str,
    /// Reads a scenario with the network and workloads of this paper, which may be a user's own.
    pub read: fn(&str) -> Result<Box<dyn Experiment>, ScenarioError>,
}

/// All papers, in the order in which they are listed.
pub const PAPERS: &[Paper] = &[ETFA14, COMMAG16, BDP19, wiopt12::PAPER, ANRW18];

/// Betzler, Gomez, Demirkol, Kovatsch, "Congestion Control for CoAP Cloud Services", ETFA 2014.
pub const ETFA14: Paper = Paper::composed("etfa14", include_str!("../../../../scenarios/etfa14.toml"));

/// Betzler, Gomez, Demirkol, Paradells, "CoAP Congestion Control for the Internet of Things", IEEE Communications Magazine
/// 54(7), 2016.
pub const COMMAG16: Paper = Paper::composed("commag16", include_str!("../../../../scenarios/commag16.toml"));

/// Järvinen, Raitahila, Cao, Kojo, "Is CoAP Congestion Safe?", ANRW 2018.
pub const ANRW18: Paper = Paper::composed("anrw18", include_str!("../../../../scenarios/anrw18.toml"));

/// Ancillotti, Bruno, "BDP-CoAP: Leveraging Bandwidth-Delay Product for Congestion Control in CoAP", IEEE World Forum on
/// Internet of Things 2019.
pub const BDP19: Paper = Paper::composed("bdp19", include_str!("../../../../scenarios/bdp19.toml"));

/// The files beside the scenarios of papers.
pub(crate) fn paper_file(name: &str) -> Result<String, String> {
    let text = match name {
        "anrw18.csv" => include_str!("../../../../scenarios/anrw18.csv"),
        "commag16.csv" => include_str!("../../../../scenarios/commag16.csv"),
        "etfa14.csv" => include_str!("../../../../scenarios/etfa14.csv"),
        "flocklab-links.csv" => include_str!("../../../../scenarios/flocklab-links.csv"),
        "flocklab-places.csv" => include_str!("../../../../scenarios/flocklab-places.csv"),
        _ => return Err("there is no such file".to_owned()),
    };
    Ok(text.to_owned())
}

impl Paper {
    /// A paper whose scenario composes its network and traffic.
    const fn composed(name: &'static str, scenario: &'static str) -> Self {
        Self { name, scenario, read: |text| Ok(Box::new(Composed::read(text, paper_file)?)) }
    }

    /// The paper of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        PAPERS.iter().find(|paper| paper.name == name)
    }

    /// The paper's experiment.
    ///
    /// # Panics
    /// Never: each paper's scenario comes with conche.
    #[must_use]
    pub fn experiment(&self) -> Box<dyn Experiment> {
        (self.read)(self.scenario).expect("the scenarios of papers are valid: a test reads them all")
    }
}

/// Reads a user's scenario: one that composes its network and traffic or, with a `model`, one of the network and workloads
/// of that paper. `file` gives the texts of files that it names.
///
/// # Errors
/// What is wrong, where, and what would be right.
pub fn read(text: &str, file: impl Fn(&str) -> Result<String, String>) -> Result<Box<dyn Experiment>, ScenarioError> {
    read_with(text, &file)
}

/// The same for any files, so that it is compiled once, not for each kind of them.
fn read_with(text: &str, file: Files<'_>) -> Result<Box<dyn Experiment>, ScenarioError> {
    #[derive(Deserialize)]
    struct Header {
        model: Option<String>,
    }
    let Header { model } = toml::from_str(text)?;
    let Some(model) = model else {
        return Ok(Box::new(Composed::read_with(text, file)?));
    };
    match Paper::by_name(&model) {
        Some(paper) => (paper.read)(text),
        None => {
            let known: Vec<_> = PAPERS.iter().map(|paper| paper.name).collect();
            Err(ScenarioError::new(
                "model",
                format!("there is no model `{model}`; the models are {}", known.join(", ")),
            ))
        }
    }
}

#[cfg(test)]
mod tests;
