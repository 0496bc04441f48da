//! What was run, when, and by which program.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use super::ReadError;

const FILE: &str = "manifest.json";

/// The version of the file that is known.
const SCHEMA: u32 = 1;

/// What was run. What a manifest does not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// The version of the file.
    pub schema: u32,
    /// `complete`, `failed` if some runs did, or `running`, which is so after an interruption too.
    pub state: String,
    /// The command line.
    pub command: Vec<String>,
    /// The program.
    pub program: Program,
    /// When it began, by UTC.
    pub started: Option<String>,
    /// When it was over.
    pub finished: Option<String>,
    /// How many threads ran it.
    pub threads: Option<u32>,
    /// The experiments.
    pub scenarios: Vec<Scenario>,
    /// Runs that failed.
    pub failures: Vec<Failure>,
}

/// The program that ran it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Program {
    /// Its version.
    pub version: Option<String>,
    /// The commit that it was compiled from.
    pub commit: Option<String>,
    /// Whether the sources had changes beyond that commit.
    pub dirty: Option<bool>,
}

/// An experiment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Scenario {
    /// Its short name, which its figures carry.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// How much of it was run.
    pub extent: String,
    /// Where its random numbers come from.
    pub seed: Option<u64>,
    /// The copy of its scenario, in the directory.
    pub file: Option<String>,
    /// What stands for all that its runs depend on.
    pub settings: Option<String>,
    /// How many runs there are.
    pub runs: Option<u64>,
    /// How long they took, in seconds of a processor.
    pub cpu_s: Option<f64>,
}

/// A run that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// The experiment.
    pub scenario: String,
    /// The cell.
    pub cell: String,
    /// Which replication.
    pub replication: u32,
    /// What happened.
    pub problem: String,
}

impl Manifest {
    pub(super) fn read(directory: &Path) -> Result<Self, ReadError> {
        let file = directory.join(FILE);
        let text = std::fs::read_to_string(&file).map_err(|source| match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                ReadError::NoResults { directory: directory.to_owned(), missing: FILE }
            }
            _ => ReadError::Unreadable { file: file.clone(), source },
        })?;
        let manifest: Self = serde_json::from_str(&text).map_err(|error| ReadError::Line {
            file: file.clone(),
            line: error.line(),
            problem: error.to_string(),
        })?;
        match manifest.schema {
            SCHEMA => Ok(manifest),
            found => Err(ReadError::Schema { file, found, known: SCHEMA }),
        }
    }
}
