//! What every experiment offers, whatever its network: it can be made smaller, measured, and shown.

use std::fmt;

use crate::campaign::{Cost, ExperimentError, RunOptions, Watch};
use crate::report::Table;
use crate::results::Figure;
use crate::scenario::{Document, ScenarioError};

/// An experiment that was read from a scenario.
pub trait Experiment: Send + Sync {
    /// What it is, and how much of it will be run.
    fn about(&self) -> About<'_>;

    /// Changes how much is run, and of which schemes.
    ///
    /// # Errors
    /// If a controller is unknown; the error lists the valid ones.
    fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError>;

    /// Runs it. The figures depend on the scenario alone, not on the options.
    ///
    /// # Errors
    /// If it cannot be run.
    fn measure(&self, options: RunOptions, watch: Watch<'_>) -> Result<(Vec<Figure>, Cost), ExperimentError>;

    /// Its figures as tables of text.
    fn tables(&self, figures: &[Figure]) -> Vec<Table>;

    /// How near a figure must be to what was published; `None` where nothing is promised.
    fn bar(&self, figure: &Figure) -> Option<Bar>;

    /// Why a figure is beyond its bar, or a claim does not hold, where that is known.
    fn reason(&self, figure: &Figure) -> Option<&str>;

    /// What it was read from, if that is a scenario that composes its network and traffic.
    fn document(&self) -> Option<&Document> {
        None
    }

    /// Whether a figure is as near to what was published as it must be; `None` where nothing is promised.
    fn within(&self, figure: &Figure) -> Option<bool> {
        let published = figure.published?;
        let most = match self.bar(figure)? {
            Bar::Percent(percent) => published.abs() * percent / 100.0,
            Bar::Within(most) => most,
        };
        Some((figure.measured - published).abs() <= most)
    }
}

/// How near a measured value must be to the published one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// By so many per cent of it at most.
    Percent(f64),
    /// By so much at most, in the figure's unit: the half-width of the confidence interval that was published.
    Within(f64),
}

/// What an experiment is, and how much of it will be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About<'a> {
    /// Its short name, which its figures carry.
    pub name: &'a str,
    /// What it is about, in a line.
    pub title: &'a str,
    /// How much of it will be run, such as `20 replications`.
    pub extent: String,
    /// Where all its random numbers come from.
    pub seed: u64,
}

/// The title, and in a second line the rest.
impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}, seed {}", self.title, self.extent, self.seed)
    }
}

/// `1 replication`, `20 replications`.
pub(crate) fn replications(number: u32) -> String {
    format!("{number} replication{}", if number == 1 { "" } else { "s" })
}

/// How much of an experiment is run, and of which schemes. The default is all that the scenario says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// A first impression: few replications, and shorter or fewer cells where the scenario says so.
    pub quick: bool,
    /// Replications of each cell, instead of the scenario's.
    pub runs: Option<u32>,
    /// Another seed than the scenario's.
    pub seed: Option<u64>,
    /// These schemes instead of the scenario's: names of those, and of conche's controllers. Empty: all of the scenario's.
    pub controllers: Vec<String>,
    /// These schemes beside all of the scenario's, where `controllers` names none.
    pub also: Vec<String>,
}

impl Effort {
    /// How many replications a cell has, of which the scenario wants `full` and for a first impression `quick`.
    #[must_use]
    pub fn replications(&self, full: u32, quick: u32) -> u32 {
        self.runs.unwrap_or(if self.quick { quick.min(full) } else { full })
    }
}
