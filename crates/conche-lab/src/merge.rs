//! Merges directories with parts of the runs into the results of all runs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use conche_results::{Failure, Manifest, Program, RunId, StoreError};

use crate::campaign::{ExperimentError, Progress, RunOptions, Watch};
use crate::directory::{Output, ResultDirectory};
use crate::experiment::{Experiment, Measured};
use crate::scenario::{Effort, ScenarioError};

/// A directory with a part of the runs.
#[derive(Clone, Debug)]
pub struct StoredPart {
    /// Directory.
    pub directory: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its scenarios, not adjusted by the manifest's options.
    pub experiments: Vec<Experiment>,
}

/// Parts of the same experiments, adjusted by their options.
#[derive(Debug)]
pub struct Parts {
    effort: Effort,
    experiments: Vec<Experiment>,
    directories: Vec<PathBuf>,
    failures: Vec<Failure>,
    exchanges: bool,
    series: Option<Duration>,
}

/// Results of all runs.
#[derive(Debug)]
pub struct Merged {
    /// Their directory, still open.
    pub directory: ResultDirectory,
    /// Notes about unusable earlier runs.
    pub notes: Vec<String>,
    /// Experiments and their results.
    pub results: Vec<(Experiment, Measured)>,
}

/// Why parts cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// Without parts there are no experiments.
    #[error("name the directories of the parts")]
    NoParts,
    /// The parts are of other experiments.
    #[error("{problem}; merge parts of one command")]
    Mixed {
        /// Difference, with both directories.
        problem: String,
    },
    /// The manifest's options do not fit its scenario.
    #[error("{}: {problem}", directory.display())]
    Options {
        /// Directory.
        directory: PathBuf,
        /// Problem.
        problem: ScenarioError,
    },
    /// The manifest does not state the options.
    #[error("{}: manifest.json does not state the options: {problem}", directory.display())]
    NoOptions {
        /// Directory.
        directory: PathBuf,
        /// Problem.
        problem: serde_json::Error,
    },
    /// Runs are in no part.
    #[error("{missing} of {runs} runs are in no part, such as {first}; {} has the others: merge the other parts into it, or make them with the command of the parts, without --shard", directory.display())]
    Missing {
        /// Runs in no part.
        missing: usize,
        /// All runs.
        runs: usize,
        /// Scenario, cell and replication of the first of them.
        first: String,
        /// Directory of the merged runs.
        directory: PathBuf,
    },
    /// A directory cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The values cannot be computed.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
}

impl Parts {
    /// Adjusts the experiments of parts by their options.
    ///
    /// # Errors
    /// If they are of different experiments.
    pub fn new(parts: &[StoredPart]) -> Result<Self, MergeError> {
        let [first, others @ ..] = parts else { return Err(MergeError::NoParts) };
        others.iter().try_for_each(|other| first.check_same(other))?;
        let effort = first.effort()?;
        let adjusted = first.experiments.iter().map(|experiment| {
            let mut experiment = experiment.clone();
            let directory = first.directory.clone();
            experiment.adjust(&effort).map_err(|problem| MergeError::Options { directory, problem })?;
            Ok(experiment)
        });
        Ok(Self {
            experiments: adjusted.collect::<Result<_, MergeError>>()?,
            effort,
            directories: parts.iter().map(|part| part.directory.clone()).collect(),
            failures: parts.iter().flat_map(|part| part.manifest.failures.iter().cloned()).collect(),
            exchanges: parts.iter().all(|part| part.manifest.exchanges),
            series: first.manifest.series.map(Duration::from_nanos),
        })
    }

    /// Returns the options of the parts.
    #[must_use]
    pub fn effort(&self) -> &Effort {
        &self.effort
    }

    /// Merges the parts into a directory, and computes the values.
    ///
    /// Progress counts each run twice: when it is copied, and when its values are computed.
    ///
    /// # Errors
    /// If a run is missing, or a directory cannot be read or written.
    pub fn merge(
        &self,
        into: &Path,
        program: Program,
        overwrites: bool,
        watch: Watch<'_>,
    ) -> Result<Merged, MergeError> {
        let Self { effort, experiments, exchanges, series, .. } = self;
        let output = Output {
            directory: into,
            program,
            effort,
            part: None,
            plan: None,
            jobs: None,
            exchanges: *exchanges,
            series: *series,
            overwrites,
        };
        let (directory, notes) = ResultDirectory::open(output, experiments)?;
        let plans: Vec<_> = experiments.iter().map(Experiment::plan).collect();
        let runs = plans.iter().map(Vec::len).sum::<usize>();
        let all = Progress { done: 0, total: 2 * runs as u64, reused: 0 };
        let mut copied = 0;
        for part in &self.directories {
            directory.store().import(part, &mut || {
                copied += 1;
                watch(Progress { done: copied, ..all });
            })?;
        }
        let failed: HashSet<RunId> = self.failures.iter().map(|failure| failure.run).collect();
        let mut missing = Vec::new();
        for (experiment, plan) in experiments.iter().zip(&plans) {
            let of_none = plan.iter().filter(|run| !directory.store().has(run.id) && !failed.contains(&run.id));
            missing.extend(of_none.map(|run| (experiment, run)));
        }
        if let Some((experiment, run)) = missing.first() {
            let cells = experiment.planned_cells();
            let cell = cells.get(run.cell).map(|(_, name)| name.as_str()).unwrap_or_default();
            let first = format!("{}: {cell}, replication {}", experiment.name(), run.replication.index);
            return Err(MergeError::Missing { missing: missing.len(), runs, first, directory: into.to_owned() });
        }
        let store = Some(directory.store());
        let options = RunOptions { store, only_stored: Some(&self.failures), ..RunOptions::default() };
        let mut results = Vec::new();
        let mut done = runs as u64;
        for (experiment, plan) in experiments.iter().zip(&plans) {
            let work = plan.len() as u64;
            let show = |progress: Progress| {
                let part = work.saturating_mul(progress.done).checked_div(progress.total).unwrap_or(work);
                watch(Progress { done: done + part, ..all });
            };
            let measured = experiment.measure(options, &show)?;
            directory.save(experiment, &measured)?;
            results.push((experiment.clone(), measured));
            done += work;
        }
        Ok(Merged { directory, notes, results })
    }
}

impl StoredPart {
    fn effort(&self) -> Result<Effort, MergeError> {
        let of = |problem| MergeError::NoOptions { directory: self.directory.clone(), problem };
        serde_json::from_value(self.manifest.effort.clone()).map_err(of)
    }

    fn check_same(&self, other: &Self) -> Result<(), MergeError> {
        let names = |of: &Self| -> Vec<(String, String)> {
            of.manifest.scenarios.iter().map(|of| (of.name.clone(), of.settings.clone())).collect()
        };
        let (here, there) = (self.directory.display(), other.directory.display());
        let problem = if names(self) != names(other) {
            format!("{here} and {there} are not of the same scenarios")
        } else if self.manifest.effort != other.manifest.effort {
            format!("{here} and {there} were run with other options: `{}` and `{}`", self.effort()?, other.effort()?)
        } else if self.manifest.series != other.manifest.series {
            format!("{here} and {there} have time series with other intervals, or one has none")
        } else {
            return Ok(());
        };
        Err(MergeError::Mixed { problem })
    }
}
