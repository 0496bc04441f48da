//! `manifest.json`: scenarios, program, and the campaign's outcome.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::origin::{Origin, Program, sha256};
use crate::run::RunId;

/// The manifest. Missing keys are empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Manifest {
    /// Schema version.
    pub schema: u32,
    /// State of the campaign.
    pub state: State,
    /// Command line.
    pub command: Vec<String>,
    /// Program.
    pub program: Program,
    /// Start time, in UTC.
    pub started: Option<String>,
    /// End time, in UTC.
    pub finished: Option<String>,
    /// Threads.
    pub threads: Option<usize>,
    /// Options that affect results.
    pub effort: serde_json::Value,
    /// The part of the plan that was run, such as `1/8`; `None` for the whole.
    pub shard: Option<String>,
    /// Whether exchanges are kept.
    pub exchanges: bool,
    /// Interval of time series in nanoseconds, if kept.
    pub series: Option<u64>,
    /// Scenarios.
    pub scenarios: Vec<Scenario>,
    /// Runs that failed.
    pub failures: Vec<Failure>,
}

/// State of the campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Running, or killed.
    #[default]
    Running,
    /// All runs succeeded.
    Complete,
    /// All runs of a shard succeeded.
    Partial,
    /// Some runs failed.
    Failed,
}

/// A scenario that was run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Scenario {
    /// Short name, which its values carry.
    pub name: String,
    /// Title.
    pub title: String,
    /// Replications and durations.
    pub extent: String,
    /// Seed.
    pub seed: Option<u64>,
    /// Copy in the directory.
    pub file: Option<String>,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Copies of the files it names.
    pub files: Vec<String>,
    /// Fingerprint of all that its runs depend on.
    pub settings: String,
    /// Runs of the whole campaign.
    pub planned: Option<u64>,
    /// Runs, at the scenario's end.
    pub runs: Option<u64>,
    /// Runs from the journal.
    pub from_journal: Option<u64>,
    /// Simulated events of the other runs.
    pub events: Option<u64>,
    /// CPU time of the other runs, in seconds.
    pub cpu_s: Option<f64>,
    /// Agreement with published values.
    pub score: Option<Score>,
}

/// Agreement of a scenario with published values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Score {
    /// Values with a bar.
    pub promised: usize,
    /// Values within their bar.
    pub within: usize,
    /// Agreement of fitted values.
    pub fitted: Near,
    /// Agreement of predicted values.
    pub predicted: Near,
    /// Claims that hold.
    pub hold: usize,
    /// Refuted claims.
    pub refuted: usize,
    /// Inconclusive claims.
    pub inconclusive: usize,
}

/// Distance of measured from published values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Near {
    /// Number of values.
    pub values: usize,
    /// Values within 15 % of the published ones.
    pub within: usize,
    /// Mean of |ln(measured / published)|.
    pub mean_log_ratio: Option<f64>,
}

/// A run that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Failure {
    /// ID.
    pub run: RunId,
    /// Scenario.
    pub scenario: String,
    /// Name of the cell.
    pub cell: String,
    /// Replication, from 0.
    pub replication: u32,
    /// Seed.
    pub seed: u64,
    /// Problem.
    pub problem: String,
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not a manifest.
    #[error("is no JSON of a manifest: {0}")]
    Json(#[from] serde_json::Error),
    /// The manifest has another schema version.
    #[error("is of schema {0}, this conche's of schema {SCHEMA}")]
    Schema(u32),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, replication {}: {}", self.cell, self.replication, self.problem)
    }
}

/// The results of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Finished<'a> {
    /// Its values, one line each.
    pub values: &'a [u8],
    /// Its tables.
    pub text: &'a str,
    /// Runs, including failed ones.
    pub runs: u64,
    /// Runs from the journal.
    pub from_journal: u64,
    /// Failed runs.
    pub failures: &'a [Failure],
    /// Simulated events of the other runs.
    pub events: u64,
    /// CPU time of the other runs.
    pub cpu: Duration,
    /// Agreement with published values, if any.
    pub score: Option<Score>,
}

fn in_utc(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

impl Manifest {
    /// Its file name.
    pub const FILE: &str = "manifest.json";

    /// Reads a manifest.
    ///
    /// # Errors
    /// If it is invalid or of another schema version.
    pub fn from_json(text: &str) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct Version {
            #[serde(default)]
            schema: u32,
        }
        // Another schema version may differ in everything else.
        match serde_json::from_str::<Version>(text)?.schema {
            SCHEMA => Ok(serde_json::from_str(text)?),
            other => Err(ManifestError::Schema(other)),
        }
    }

    /// Creates the manifest of a campaign that begins now.
    #[must_use]
    pub fn new(program: Program, command: Vec<String>, threads: usize, origins: &[Origin]) -> Self {
        Self {
            schema: SCHEMA,
            command,
            program,
            started: Some(in_utc(SystemTime::now())),
            threads: Some(threads),
            scenarios: origins.iter().map(Scenario::new).collect(),
            ..Self::default()
        }
    }

    /// Records the end of a scenario.
    pub fn finish(&mut self, name: &str, finished: &Finished<'_>) {
        let scenarios = self.scenarios.iter_mut();
        scenarios.filter(|scenario| scenario.name == name).for_each(|of| of.finish(finished));
        self.failures.extend_from_slice(finished.failures);
    }

    /// Records the end of the campaign.
    pub fn end(&mut self) {
        self.state = match (self.failures.is_empty(), &self.shard) {
            (false, _) => State::Failed,
            (true, Some(_)) => State::Partial,
            (true, None) => State::Complete,
        };
        self.finished = Some(in_utc(SystemTime::now()));
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
            planned: origin.runs,
            ..Self::default()
        }
    }

    fn finish(&mut self, finished: &Finished<'_>) {
        self.runs = Some(finished.runs);
        self.from_journal = Some(finished.from_journal);
        self.events = Some(finished.events);
        self.cpu_s = Some(finished.cpu.as_millis() as f64 / 1e3);
        self.score = finished.score;
    }
}

impl Origin {
    pub(crate) fn file(&self) -> String {
        format!("scenarios/{}.toml", plain(&self.name))
    }

    /// Returns a file's path in the results; files from elsewhere are beside the scenario.
    pub(crate) fn beside(name: &str) -> String {
        let parts = || name.split(['/', '\\']);
        let is_below = parts().all(|part| !matches!(part, "" | "." | ".."));
        let below = if is_below { name } else { parts().next_back().unwrap_or_default() };
        let below: Vec<String> = below.split('/').map(plain).collect();
        format!("scenarios/{}", below.join("/"))
    }
}

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
