//! What `manifest.json` says: what was run, by which program, and how it ended.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use crate::SCHEMA;
use crate::origin::{Origin, Program, sha256};

/// The manifest.
#[derive(Debug, Serialize)]
pub(crate) struct Manifest {
    schema: u32,
    pub(crate) state: State,
    command: Vec<String>,
    program: Program,
    started: Time,
    pub(crate) finished: Option<Time>,
    threads: usize,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) failures: Vec<Failure>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// It goes on, or was ended from outside.
    Running,
    /// Every run is there.
    Complete,
    /// Some runs failed.
    Failed,
}

#[derive(Debug, Serialize)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    title: String,
    extent: String,
    seed: u64,
    file: String,
    sha256: String,
    files: Vec<String>,
    settings: String,
    runs: Option<u64>,
    from_journal: Option<u64>,
    events: Option<u64>,
    cpu_s: Option<f64>,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
}

/// In UTC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(SystemTime);

impl Time {
    pub(crate) fn now() -> Self {
        Self(SystemTime::now())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_seconds(self.0))
    }
}

impl Manifest {
    pub(crate) fn new(program: Program, command: Vec<String>, threads: usize, origins: &[Origin]) -> Self {
        Self {
            schema: SCHEMA,
            state: State::Running,
            command,
            program,
            started: Time::now(),
            finished: None,
            threads,
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
            seed: origin.seed,
            file: origin.file(),
            sha256: sha256(origin.text.as_bytes()),
            files: origin.files.iter().map(|(name, _)| Origin::beside(name)).collect(),
            settings: origin.settings.clone(),
            runs: None,
            from_journal: None,
            events: None,
            cpu_s: None,
        }
    }

    pub(crate) fn finish(&mut self, finished: &Finished<'_>) {
        self.runs = Some(finished.runs);
        self.from_journal = Some(finished.from_journal);
        self.events = Some(finished.events);
        self.cpu_s = Some(finished.cpu.as_millis() as f64 / 1e3);
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
        let json = serde_json::to_string(&Time(SystemTime::UNIX_EPOCH)).expect("memory");
        assert_eq!(json, "\"1970-01-01T00:00:00Z\"");
    }
}
