//! [`Effort`]: the selected part of an experiment.

/// The amount of work, and the schemes. By default, the whole scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// A first impression: few replications, and the scenario's `quick` values.
    pub quick: bool,
    /// Replications of each cell; overrides the scenario.
    pub runs: Option<u32>,
    /// The seed; overrides the scenario.
    pub seed: Option<u64>,
    /// Schemes to run: names of the scenario's schemes, or of controllers. Empty: all schemes of
    /// the scenario.
    pub controllers: Vec<String>,
    /// Additional schemes, if `controllers` is empty.
    pub also: Vec<String>,
    /// Values by path, in TOML or as plain text; overridden by points of a sweep.
    pub set: Vec<(String, String)>,
    /// Compares controllers: uses each with its default configuration even if a scheme has its
    /// name, and only cells that all of them run. Excludes mixes, and parts with `only_schemes`.
    pub compares: bool,
    /// Selects cells with one of these labels on this axis; `*` is a wildcard.
    pub only: Vec<(String, Vec<String>)>,
}

impl Effort {
    /// Returns the number of replications, given the scenario's full and quick numbers.
    #[must_use]
    pub fn replications(&self, full: u32, quick: u32) -> u32 {
        self.runs.unwrap_or(if self.quick { quick.min(full) } else { full })
    }
}
