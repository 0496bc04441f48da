//! What is said of an experiment, and how much of it is run.

use std::fmt;

/// How near a measured value must be to the published one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// By so many per cent of it at most.
    Percent(f64),
    /// By so much at most, in the figure's unit: the half-width of the confidence interval that was published.
    Within(f64),
}

/// Where a published value stands to the parameters of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Parameters were fitted on it.
    Fitted,
    /// Nothing was.
    Predicted,
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
    /// Other values than the scenario's, by their paths, in TOML or as plain text; those of a sweep's points come after.
    pub set: Vec<(String, String)>,
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
