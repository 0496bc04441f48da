//! [`Effort`]: the amount of work.

/// Amount of work, and schemes. Default: the whole scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Uses few replications, and the `quick` values.
    pub quick: bool,
    /// Replications per cell.
    pub runs: Option<u32>,
    /// Seed.
    pub seed: Option<u64>,
    /// Schemes or controllers to run; empty for all schemes.
    pub controllers: Vec<String>,
    /// Additional schemes, if `controllers` is empty.
    pub also: Vec<String>,
    /// Values by path, in TOML or as plain text. Points of a sweep override them.
    pub set: Vec<(String, String)>,
    /// Compares controllers: each has its default configuration, and runs in all cells. Excludes
    /// mixes and parts with `only_schemes`.
    pub compares: bool,
    /// Labels of the cells to run, by axis; `*` is a wildcard. Labels of the same axis add up.
    pub only: Vec<(String, Vec<String>)>,
}

impl Effort {
    /// Returns the number of replications, from the scenario's full and quick ones.
    #[must_use]
    pub fn replications(&self, full: u32, quick: u32) -> u32 {
        self.runs.unwrap_or(if self.quick { quick.min(full) } else { full })
    }
}
