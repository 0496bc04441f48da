//! [`Run`] and [`RunId`]: the identity of runs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::origin::CellId;

/// A run of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Hash of all that its results depend on.
    pub id: RunId,
    /// Scenario.
    pub scenario: String,
    /// See [`Origin::settings`](crate::Origin::settings).
    pub settings: String,
    /// Cell.
    pub cell: CellId,
    /// Replication, from 0.
    pub replication: u32,
    /// Seed.
    pub seed: u64,
}

/// Hash of all that a run's results depend on: settings, cell, versions, replication and seed. In
/// text 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(u128);

/// A text that is no [`RunId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no ID of a run, which has 32 hexadecimal digits")]
pub struct NoRunId(String);

/// What the results of a cell's runs depend on, besides replication and seed.
#[derive(Clone, Debug)]
pub struct CellHash(Sha256);

impl CellHash {
    /// Hashes a cell. `versions` are of the algorithms that produce its results, by name.
    #[must_use]
    pub fn new(scenario: &str, settings: &str, cell: &CellId, versions: &[(&str, &str)]) -> Self {
        let mut hasher = Sha256::new();
        let mut add = |text: &str| {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        };
        add(scenario);
        add(settings);
        add(&serde_json::to_string(cell).unwrap_or_default());
        for (name, version) in versions {
            add(name);
            add(version);
        }
        Self(hasher)
    }

    /// Returns the ID of a run of this cell.
    #[must_use]
    pub fn run(&self, replication: u32, seed: u64) -> RunId {
        let hasher = self.0.clone().chain_update(replication.to_le_bytes()).chain_update(seed.to_le_bytes());
        let digest = hasher.finalize();
        RunId(digest[..16].iter().fold(0, |id, byte| id << 8 | u128::from(*byte)))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for RunId {
    type Err = NoRunId;

    fn from_str(text: &str) -> Result<Self, NoRunId> {
        let is_hexadecimal = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = is_hexadecimal.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        id.map(Self).ok_or_else(|| NoRunId(text.chars().take(40).collect()))
    }
}

impl TryFrom<String> for RunId {
    type Error = NoRunId;

    fn try_from(text: String) -> Result<Self, NoRunId> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_depends_on_all_that_results_depend_on() {
        let cell = |scheme: &str| CellId { schemes: vec![scheme.to_owned()], ..CellId::default() };
        let id = |scenario, settings, cell, versions: &[_], replication, seed| {
            CellHash::new(scenario, settings, &cell, versions).run(replication, seed)
        };
        let all = [
            id("a", "s", cell("x"), &[("lab", "1"), ("x", "1")], 0, 1),
            id("b", "s", cell("x"), &[("lab", "1"), ("x", "1")], 0, 1),
            id("a", "t", cell("x"), &[("lab", "1"), ("x", "1")], 0, 1),
            id("a", "s", cell("y"), &[("lab", "1"), ("x", "1")], 0, 1),
            id("a", "s", cell("x"), &[("lab", "1"), ("x", "2")], 0, 1),
            id("a", "s", cell("x"), &[("lab", "1"), ("x", "1")], 1, 1),
            id("a", "s", cell("x"), &[("lab", "1"), ("x", "1")], 0, 2),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(!all[..place].contains(one), "{place}");
        }
        assert_eq!(id("a", "s", cell("x"), &[("lab", "1"), ("x", "1")], 0, 1), all[0]);
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        let id = CellHash::new("a", "s", &CellId::default(), &[]).run(0, 1);
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "12", "+0000000000000000000000000000000", &"0".repeat(33), "zz"] {
            assert!(wrong.parse::<RunId>().is_err(), "{wrong}");
        }
    }
}
