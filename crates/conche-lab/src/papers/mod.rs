//! Papers on CoAP congestion control, regenerated: a scenario, what was published, and the tables that show both.

pub mod anrw18;

use crate::metrics::Measurements;
use crate::report::Table;
use crate::results::Figure;
use crate::scenario::Scenario;

/// A paper whose experiment conche repeats.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its short name, such as `anrw18`; that of its scenario too.
    pub name: &'static str,
    /// Every measured value of the experiment, beside what the paper published.
    pub figures: fn(&[Measurements]) -> Vec<Figure>,
    /// The paper's tables and figures as tables of text.
    pub tables: fn(&[Figure]) -> Vec<Table>,
}

/// All papers, in the order in which they are listed.
pub const PAPERS: &[Paper] = &[anrw18::PAPER];

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
    pub fn scenario(&self) -> Scenario {
        Scenario::built_in(self.name).expect("each paper has a scenario of its name: a test looks for it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_paper_has_its_scenario() {
        for paper in PAPERS {
            assert_eq!(paper.scenario().name, paper.name);
            assert!(Paper::by_name(paper.name).is_some());
        }
    }
}
