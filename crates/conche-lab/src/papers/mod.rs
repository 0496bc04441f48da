//! Papers on CoAP congestion control, regenerated: a scenario, what was published, and the tables that show both.

mod claim;
pub mod commag16;
pub mod etfa14;
pub mod flocklab;
mod summary;
pub mod wiopt12;

pub(crate) use claim::table as claim_table;
pub use claim::{Claim, Values};
pub use summary::{Miss, Summary, misses, overview};

use serde::Deserialize;

use crate::composed::Composed;
use crate::experiment::Experiment;
use crate::scenario::ScenarioError;

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
pub const PAPERS: &[Paper] = &[etfa14::PAPER, commag16::PAPER, BDP19, wiopt12::PAPER, ANRW18];

/// Järvinen, Raitahila, Cao, Kojo, "Is CoAP Congestion Safe?", ANRW 2018.
pub const ANRW18: Paper = Paper {
    name: "anrw18",
    scenario: include_str!("../../../../scenarios/anrw18.toml"),
    read: |text| Ok(Box::new(Composed::read(text, paper_file)?)),
};

/// Ancillotti, Bruno, "BDP-CoAP: Leveraging Bandwidth-Delay Product for Congestion Control in CoAP", IEEE World Forum on
/// Internet of Things 2019.
pub const BDP19: Paper = Paper {
    name: "bdp19",
    scenario: include_str!("../../../../scenarios/bdp19.toml"),
    read: |text| Ok(Box::new(Composed::read(text, paper_file)?)),
};

/// The files beside the scenarios of papers.
pub(crate) fn paper_file(name: &str) -> Result<String, String> {
    match name {
        "anrw18.csv" => Ok(include_str!("../../../../scenarios/anrw18.csv").to_owned()),
        _ => Err("there is no such file".to_owned()),
    }
}

impl Paper {
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
    #[derive(Deserialize)]
    struct Header {
        model: Option<String>,
    }
    let Header { model } = toml::from_str(text)?;
    let Some(model) = model else {
        return Ok(Box::new(Composed::read(text, file)?));
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
mod tests {
    use super::*;

    #[test]
    fn every_paper_has_its_scenario() {
        for paper in PAPERS {
            let experiment = (paper.read)(paper.scenario).unwrap_or_else(|error| panic!("{}: {error}", paper.name));
            assert_eq!(experiment.about().name, paper.name);
            assert!(Paper::by_name(paper.name).is_some());
        }
    }

    #[test]
    fn a_figure_is_within_its_bar_or_beyond_it() {
        let figure = crate::results::Figure {
            paper: "anrw18".to_owned(),
            item: "table1".to_owned(),
            row: "default/continuous/50/14100".to_owned(),
            column: "fct_median_s".to_owned(),
            unit: crate::results::Unit::Seconds,
            published: Some(62.690),
            measured: 62.70,
            ci95: None,
            runs: 20,
        };
        let paper = ANRW18.experiment();
        assert_eq!(paper.within(&figure), Some(true));
        assert_eq!(paper.within(&crate::results::Figure { measured: 62.80, ..figure.clone() }), Some(false));
        assert_eq!(paper.within(&crate::results::Figure { published: None, ..figure }), None);
    }
}
