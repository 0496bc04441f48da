//! Papers on CoAP congestion control, regenerated: a scenario, what was published, and the tables that show both.

pub mod anrw18;
pub mod bdp19;
mod claim;
pub mod commag16;
pub mod etfa14;
pub mod flocklab;
mod summary;
pub mod wiopt12;

pub use claim::{Claim, Values};
pub use summary::{Miss, Summary, misses, overview};

use serde::Deserialize;

use crate::experiment::Experiment;
use crate::report;
use crate::results::Figure;
use crate::scenario::{Scenario, ScenarioError};

/// A paper whose experiment conche repeats.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its short name, such as `anrw18`; that of its scenario too.
    pub name: &'static str,
    /// The text of its scenario.
    pub scenario: &'static str,
    /// Reads a scenario with the network and workloads of this paper, which may be a user's own.
    pub read: fn(&str) -> Result<Box<dyn Experiment>, ScenarioError>,
    /// How near a figure must be to what was published; `None` where nothing is promised.
    pub bar: fn(&Figure) -> Option<Bar>,
    /// Why a figure is beyond its bar, or a claim does not hold, where that is known.
    pub reason: fn(&Figure) -> Option<&'static str>,
}

/// How near a measured value must be to the published one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// By so many per cent of it at most.
    Percent(f64),
    /// By so much at most, in the figure's unit: the half-width of the confidence interval that was published.
    Within(f64),
}

/// All papers, in the order in which they are listed.
pub const PAPERS: &[Paper] = &[etfa14::PAPER, commag16::PAPER, bdp19::PAPER, wiopt12::PAPER, anrw18::PAPER];

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

    /// Whether a figure is as near to what was published as it must be; `None` where nothing is promised.
    #[must_use]
    pub fn within(&self, figure: &Figure) -> Option<bool> {
        let published = figure.published?;
        let most = match (self.bar)(figure)? {
            Bar::Percent(percent) => published.abs() * percent / 100.0,
            Bar::Within(most) => most,
        };
        Some((figure.measured - published).abs() <= most)
    }
}

/// Reads a user's scenario: of the network and workloads of the paper that its `model` names, and of clients behind one
/// bottleneck without it.
///
/// # Errors
/// What is wrong, where, and what would be right.
pub fn read(text: &str) -> Result<Box<dyn Experiment>, ScenarioError> {
    #[derive(Deserialize)]
    struct Header {
        model: Option<String>,
    }
    let Header { model } = toml::from_str(text)?;
    let Some(model) = model else {
        return Ok(Box::new(report::Plain(Scenario::from_toml(text)?)));
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
        let figure = Figure {
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
        let paper = Paper::by_name("anrw18").expect("a paper");
        assert_eq!(paper.within(&figure), Some(true));
        assert_eq!(paper.within(&Figure { measured: 62.80, ..figure.clone() }), Some(false));
        assert_eq!(paper.within(&Figure { published: None, ..figure }), None);
    }
}
