//! What `manifest.json` says: what was run, by which program, and how it ended.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::origin::{Origin, Program, sha256};

/// The manifest. What one does not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Manifest {
    /// The version of the file.
    pub schema: u32,
    /// How far it is.
    pub state: State,
    /// The command line.
    pub command: Vec<String>,
    /// The program.
    pub program: Program,
    /// When it began, in UTC.
    pub started: Option<String>,
    /// When it was over.
    pub finished: Option<String>,
    /// How many threads ran it.
    pub threads: Option<usize>,
    /// What was run.
    pub scenarios: Vec<Scenario>,
    /// Runs that failed.
    pub failures: Vec<Failure>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It goes on, or was ended from outside.
    #[default]
    Running,
    /// Every run is there.
    Complete,
    /// Some runs failed.
    Failed,
}

/// A scenario that was run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
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
    /// Its copy in the directory.
    pub file: Option<String>,
    /// SHA-256 of that, in hexadecimal.
    pub sha256: String,
    /// Copies of the files that it names.
    pub files: Vec<String>,
    /// What stands for all that its runs depend on.
    pub settings: String,
    /// How many runs there are.
    pub runs: Option<u64>,
    /// How many of them were taken from the journal.
    pub from_journal: Option<u64>,
    /// Events of the others.
    pub events: Option<u64>,
    /// CPU time of these, in seconds.
    pub cpu_s: Option<f64>,
    /// How near it came to what was published.
    pub score: Option<Score>,
}

/// How near a scenario came to what was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Score {
    /// Figures that a bar is set for.
    pub promised: usize,
    /// Those of them that are within it.
    pub within: usize,
    /// The values that the network was fitted on.
    pub fitted: Near,
    /// Those that it predicts.
    pub predicted: Near,
    /// Claims that hold.
    pub hold: usize,
    /// Those that are refuted.
    pub refuted: usize,
    /// Those that are inconclusive.
    pub inconclusive: usize,
}

/// How near published values were met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Near {
    /// How many there are.
    pub values: usize,
    /// Those of them that were met within 15 %.
    pub within: usize,
    /// The mean of |ln(measured / published)|, if any has a ratio.
    pub mean_log_ratio: Option<f64>,
}

/// A run that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Failure {
    /// Its scenario.
    pub scenario: String,
    /// The name of its cell.
    pub cell: String,
    /// Which replication, counted from 0.
    pub replication: u32,
    /// Where its random numbers came from.
    pub seed: u64,
    /// What happened.
    pub problem: String,
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is not what was written.
    #[error("is no JSON of a manifest: {0}")]
    Json(#[from] serde_json::Error),
    /// It is of another version.
    #[error("is of schema {0}, this conche's of schema {SCHEMA}")]
    Schema(u32),
}

/// As `default/continuous, replication 3: what happened`.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, replication {}: {}", self.cell, self.replication, self.problem)
    }
}

/// How a scenario ended.
#[derive(Clone, Debug, Default)]
pub struct Finished<'a> {
    /// Its figures, one line each.
    pub figures: &'a [u8],
    /// Its tables, for people.
    pub text: &'a str,
    /// How many runs it has, with those that failed.
    pub runs: u64,
    /// How many of them were taken from the journal.
    pub from_journal: u64,
    /// Those that failed.
    pub failures: &'a [Failure],
    /// Events of the runs that were not taken from the journal.
    pub events: u64,
    /// CPU time of these.
    pub cpu: Duration,
    /// How near it came to what was published, if anything was.
    pub score: Option<Score>,
}

/// A time in UTC.
fn in_utc(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

impl Manifest {
    /// The name of its file in a directory of results.
    pub const FILE: &str = "manifest.json";

    /// Reads what was written.
    ///
    /// # Errors
    /// If it is something else, or of another version.
    pub fn from_json(text: &str) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct Version {
            #[serde(default)]
            schema: u32,
        }
        // Of another version all else may be different.
        match serde_json::from_str::<Version>(text)?.schema {
            SCHEMA => Ok(serde_json::from_str(text)?),
            other => Err(ManifestError::Schema(other)),
        }
    }

    /// It is over, and some runs failed or none.
    pub(crate) fn end(&mut self) {
        self.state = if self.failures.is_empty() { State::Complete } else { State::Failed };
        self.finished = Some(in_utc(SystemTime::now()));
    }

    pub(crate) fn new(program: Program, command: Vec<String>, threads: usize, origins: &[Origin]) -> Self {
        Self {
            schema: SCHEMA,
            state: State::Running,
            command,
            program,
            started: Some(in_utc(SystemTime::now())),
            finished: None,
            threads: Some(threads),
            scenarios: origins.iter().map(Scenario::new).collect(),
            failures: Vec::new(),
        }
    }
}

impl Scenario {
    fn new(origin: &Origin) -> Self {
        Self {
            name: origin.name.clone(),
            title: origin.title.clone(),
            extent: origin.extent.clone(),
            seed: Some(origin.seed),
            file: Some(origin.file()),
            sha256: sha256(origin.text.as_bytes()),
            files: origin.files.iter().map(|(name, _)| Origin::beside(name)).collect(),
            settings: origin.settings.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn finish(&mut self, finished: &Finished<'_>) {
        self.runs = Some(finished.runs);
        self.from_journal = Some(finished.from_journal);
        self.events = Some(finished.events);
        self.cpu_s = Some(finished.cpu.as_millis() as f64 / 1e3);
        self.score = finished.score;
    }
}

impl Origin {
    /// The name of its file in the directory of results.
    pub(crate) fn file(&self) -> String {
        format!("scenarios/{}.toml", plain(&self.name))
    }

    /// The name there of a file that it names. One that is somewhere else is put beside the scenario.
    pub(crate) fn beside(name: &str) -> String {
        let parts = || name.split(['/', '\\']);
        let is_below = parts().all(|part| !matches!(part, "" | "." | ".."));
        let below = if is_below { name } else { parts().next_back().unwrap_or_default() };
        let below: Vec<String> = below.split('/').map(plain).collect();
        format!("scenarios/{}", below.join("/"))
    }
}

/// A name as that of a file which is nowhere else.
pub(crate) fn plain(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_alphanumeric() || "-_.+".contains(c) { c } else { '_' }).collect();
    if plain.chars().all(|c| c == '.') { "_".to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_directory() {
        assert_eq!(plain("anrw18"), "anrw18");
        assert_eq!(plain("../x y"), ".._x_y");
        assert_eq!(plain(".."), "_");
        assert_eq!(plain(""), "_");
        assert_eq!(Origin::beside("data/links.csv"), "scenarios/data/links.csv");
        assert_eq!(Origin::beside("../../links.csv"), "scenarios/links.csv");
        assert_eq!(Origin::beside("/etc/passwd"), "scenarios/passwd");
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(in_utc(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn a_manifest_reads_as_it_was_written_and_one_of_another_version_is_refused() {
        let program = Program { version: "1.2.3".to_owned(), ..Program::default() };
        let mut manifest = Manifest::new(program, vec!["conche".to_owned()], 2, &[]);
        manifest.scenarios.push(Scenario {
            seed: Some(u64::MAX),
            score: Some(Score::default()),
            ..Scenario::default()
        });
        manifest.end();
        let json = serde_json::to_string(&manifest).expect("memory");
        assert_eq!(Manifest::from_json(&json).expect("what was written"), manifest);
        let other = json.replacen("\"schema\":1", "\"schema\":2", 1).replace("\"complete\"", "7");
        assert!(matches!(Manifest::from_json(&other), Err(ManifestError::Schema(2))));
        assert!(matches!(Manifest::from_json("7"), Err(ManifestError::Json(_))));
    }
}
