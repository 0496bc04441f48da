//! How much of an experiment is run.

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
    /// Other values than the scenario's, by their paths, in TOML or as plain text; those of a sweep's points come after.
    pub set: Vec<(String, String)>,
    /// To compare controllers: each as the program knows it, whatever scheme of the scenario has its name, and only cells that
    /// all of them run. Mixes have none, nor have parts with `only_schemes`.
    pub compares: bool,
    /// Only the cells that have, on this axis, one of these labels; a `*` stands for anything.
    pub only: Vec<(String, Vec<String>)>,
}

impl Effort {
    /// How many replications a cell has, of which the scenario wants `full` and for a first impression `quick`.
    #[must_use]
    pub fn replications(&self, full: u32, quick: u32) -> u32 {
        self.runs.unwrap_or(if self.quick { quick.min(full) } else { full })
    }
}
