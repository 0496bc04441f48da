//! What every experiment offers, whatever its network: it can be made smaller, measured, and shown.

use crate::campaign::{Cost, ExperimentError, RunOptions, Watch};
use crate::report::Table;
use crate::results::Figure;
use crate::scenario::ScenarioError;

/// An experiment that was read from a scenario.
pub trait Experiment: Send + Sync {
    /// Its short name, which its figures carry.
    fn name(&self) -> &str;

    /// What it is about, in a line.
    fn title(&self) -> &str;

    /// Where all its random numbers come from.
    fn seed(&self) -> u64;

    /// How much of it will be run, such as `20 replications`.
    fn extent(&self) -> String;

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
}

/// How much of an experiment is run, and of which schemes. The default is all that the scenario says.
#[derive(Clone, Debug, Default)]
pub struct Effort {
    /// A first impression: few replications, and shorter or fewer cells where the scenario says so.
    pub quick: bool,
    /// Replications of each cell, instead of the scenario's.
    pub runs: Option<u32>,
    /// Another seed than the scenario's.
    pub seed: Option<u64>,
    /// These schemes instead of the scenario's: names of those, and of conche's controllers. Empty: all of the scenario's.
    pub controllers: Vec<String>,
}

impl Effort {
    /// How many replications a cell has, of which the scenario wants `full` and for a first impression `quick`.
    #[must_use]
    pub fn replications(&self, full: u32, quick: u32) -> u32 {
        self.runs.unwrap_or(if self.quick { quick.min(full) } else { full })
    }
}
