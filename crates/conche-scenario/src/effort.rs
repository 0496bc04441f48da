//! [`Effort`]: the amount of work.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Amount of work, and schemes. Default: the whole scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
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

/// The options of the command that have this effect.
impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quick, runs, seed, controllers, set, only, .. } = self;
        let flag = quick.then(|| "--quick".to_owned());
        let runs = runs.map(|runs| format!("--runs {runs}"));
        let seed = seed.map(|seed| format!("--seed {seed}"));
        let controllers = (!controllers.is_empty()).then(|| format!("--controllers {}", controllers.join(",")));
        let set = set.iter().map(|(path, value)| format!("--set {path}={value}"));
        let only = only.iter().map(|(axis, labels)| format!("--only {axis}={}", labels.join(",")));
        let all = flag.into_iter().chain(runs).chain(seed).chain(controllers).chain(set).chain(only);
        f.write_str(&all.collect::<Vec<_>>().join(" "))
    }
}
