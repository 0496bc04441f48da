//! The directory with the results of experiments: opened before their runs, written after them.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;
use std::time::Duration;

use conche_results::comparison::{Row, to_ndjson};
use conche_results::{Begin, Finished, Origin, Program, RunId, Store, StoreError};

use crate::campaign::Completion;
use crate::comparison::rankings;
use crate::experiment::{Experiment, Measured};
use crate::papers::Summary;
use crate::scenario::Effort;
use crate::value::write_json;

/// A directory to open.
#[derive(Clone, Debug)]
pub struct Output<'a> {
    /// Directory; created if missing.
    pub directory: &'a Path,
    /// Program.
    pub program: Program,
    /// Options that the experiments were adjusted by.
    pub effort: &'a Effort,
    /// The part of the runs that is made, such as `1/8`; `None` for all.
    pub part: Option<String>,
    /// Runs that it is opened for, in their order; by default all of the experiments. A few of a
    /// million runs are opened without hashing them all.
    pub plan: Option<Vec<RunId>>,
    /// Threads; by default one per core.
    pub jobs: Option<NonZeroUsize>,
    /// Keeps every exchange.
    pub exchanges: bool,
    /// Keeps time series, sampled in this interval of simulated time.
    pub series: Option<Duration>,
    /// Removes earlier results, instead of continuing them.
    pub overwrites: bool,
}

/// Returns the arguments of the running program, its name first; those that are no text have
/// replacement characters.
#[must_use]
pub fn command_line() -> Vec<String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// An open directory of results.
#[derive(Debug)]
pub struct ResultDirectory {
    store: Store,
    /// First line of text files.
    heading: String,
}

impl ResultDirectory {
    /// Opens the directory of these experiments; returns notes about unusable earlier runs.
    ///
    /// # Errors
    /// If it cannot be written, or its results cannot be continued.
    pub fn open(output: Output<'_>, experiments: &[Experiment]) -> Result<(Self, Vec<String>), StoreError> {
        let Output { directory, program, effort, part, plan, jobs, exchanges, series, overwrites } = output;
        let options = effort.to_string();
        let space = if options.is_empty() { "" } else { " " };
        let heading = format!("conche {}{space}{options}", program.version);
        let threads = jobs.or_else(|| thread::available_parallelism().ok());
        let origins: Vec<Origin> = experiments.iter().map(Experiment::origin).collect();
        let (store, notes) = Store::open(Begin {
            directory,
            program,
            command: command_line(),
            options,
            effort: serde_json::to_value(effort).unwrap_or_default(),
            shard: part,
            threads: threads.map_or(1, NonZeroUsize::get),
            origins: &origins,
            plan: plan.unwrap_or_else(|| experiments.iter().flat_map(Experiment::plan).map(|run| run.id).collect()),
            with_exchanges: exchanges,
            series,
            overwrites,
        })?;
        Ok((Self { store, heading }, notes))
    }

    /// Returns its runs.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Writes an experiment's results, or records the end of a part.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn save(&self, experiment: &Experiment, measured: &Measured) -> Result<(), StoreError> {
        let Completion { runs, reused, failures, cost } = &measured.completion;
        let mut finished = Finished {
            runs: *runs,
            from_journal: *reused,
            failures,
            events: cost.events,
            cpu: cost.cpu,
            ..Finished::default()
        };
        if self.store.is_part() {
            return self.store.finish(experiment.name(), &finished);
        }
        let mut values = Vec::new();
        write_json(&measured.values, &mut values).map_err(|error| self.failed(error))?;
        let tables = experiment.tables(&measured.values);
        let tables: String = tables.iter().map(|table| format!("\n{table}")).collect();
        let text = format!("{}\n{experiment}\n{tables}", self.heading);
        finished.values = &values;
        finished.text = &text;
        finished.score = Some(Summary::new(experiment, &measured.values).score());
        self.store.finish(experiment.name(), &finished)
    }

    /// Writes the comparison of controllers in these experiments, and its ranking as text.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn save_comparison<'a>(
        &self,
        experiments: impl IntoIterator<Item = &'a Experiment>,
        rows: &[Row],
    ) -> Result<(), StoreError> {
        let lines = to_ndjson(rows).map_err(|error| self.failed(error.into()))?;
        let origins: String = experiments.into_iter().map(|of| format!("{}\n", of.summary())).collect();
        let rankings: String = rankings(rows).iter().map(|ranking| format!("\n{ranking}")).collect();
        self.store.write_comparison(&lines, &format!("{}\n{origins}{rankings}", self.heading))
    }

    /// Closes it after all experiments.
    ///
    /// # Errors
    /// If anything could not be written, now or earlier.
    pub fn close(self) -> Result<(), StoreError> {
        self.store.close()
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::Io { directory: self.store.directory().to_owned(), error }
    }
}
