//! [`Store`]: a directory of results.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::exchanges::Exchanges;
use crate::file_names::{BOARD, COMPARISON, EXCHANGES, FIGURES, JOURNAL, MANIFEST, RUNS};
use crate::journal::{Journal, Run};
use crate::manifest::{Finished, Manifest, plain};
use crate::origin::{Origin, Program};
use crate::previous::{self, PreviousError};
use crate::sample::{Kept, Sample};
use crate::tables::{ExchangeRows, RunRows, Shape};

/// A directory of results under construction, shared by the threads that run experiments.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    journal: Journal,
    runs_shape: Shape,
    exchanges: Option<Exchanges>,
    done: Mutex<Done>,
}

/// Data that is rewritten at the end of each scenario.
#[derive(Debug)]
struct Done {
    manifest: Manifest,
    figures: Vec<u8>,
    runs: Vec<RunRows>,
}

/// The campaign of a store, and its directory.
#[derive(Clone, Debug)]
pub struct Begin<'a> {
    /// The directory; created if missing.
    pub directory: &'a Path,
    /// The program.
    pub program: Program,
    /// The arguments, the program's name first.
    pub command: Vec<String>,
    /// Number of threads.
    pub threads: usize,
    /// The scenarios, in the order of their runs.
    pub origins: &'a [Origin],
    /// Keeps every exchange.
    pub with_exchanges: bool,
    /// Removes earlier results. Otherwise, runs in the journal are not repeated.
    pub overwrites: bool,
}

/// Reasons why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It holds results that cannot be continued.
    #[error("cannot go on in {}: {problem}; name another directory, or begin anew with --overwrite", directory.display())]
    Previous {
        /// [`Store`]: a directory of results.
        directory: PathBuf,
        /// The problem.
        problem: PreviousError,
    },
    /// Another process is writing to it.
    #[error("another conche writes into {}; wait until it is done, or name another directory", .0.display())]
    Busy(PathBuf),
    /// It cannot be created or written.
    #[error("cannot write results into {}: name a directory that can be made or written to", directory.display())]
    Io {
        /// [`Store`]: a directory of results.
        directory: PathBuf,
        /// The reason.
        #[source]
        error: io::Error,
    },
}

impl Store {
    /// Opens a directory. Returns notes about earlier runs that cannot be used.
    ///
    /// # Errors
    /// If it cannot be written, or holds results that cannot be continued.
    pub fn open(begin: Begin<'_>) -> Result<(Self, Vec<String>), StoreError> {
        let directory = begin.directory.to_owned();
        let failed = |error: io::Error| StoreError::Io { directory: directory.clone(), error };
        fs::create_dir_all(&directory).map_err(failed)?;
        let Begin { program, command, threads, origins, with_exchanges, overwrites, .. } = begin;
        if !overwrites {
            previous::check(&directory, &program, origins)
                .map_err(|problem| StoreError::Previous { directory: directory.clone(), problem })?;
        }
        // The journal's lock protects the directory, so nothing is changed before it is open.
        let open = || Journal::open(&directory.join(JOURNAL), origins, overwrites);
        let (journal, notes) = open().map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => StoreError::Busy(directory.clone()),
            _ => failed(error),
        })?;
        if overwrites {
            previous::remove(&directory).map_err(failed)?;
        }
        let exchanges = with_exchanges.then(|| Exchanges::open(&directory.join(EXCHANGES), Shape::exchanges(origins)));
        let manifest = Manifest::new(program, command, threads, origins);
        let store = Self {
            runs_shape: Shape::runs(origins),
            exchanges: exchanges.transpose().map_err(failed)?,
            done: Mutex::new(Done { manifest, figures: Vec::new(), runs: Vec::new() }),
            journal,
            directory: directory.clone(),
        };
        origins.iter().try_for_each(|origin| store.write_origin(origin)).map_err(failed)?;
        store.lock().manifest.write(&directory).map_err(failed)?;
        Ok((store, notes.into_iter().map(|note| format!("{}: {note}", directory.join(JOURNAL).display())).collect()))
    }

    /// Returns the path of the journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.directory.join(JOURNAL)
    }

    fn lock(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_origin(&self, origin: &Origin) -> io::Result<()> {
        let files = origin.files.iter().map(|(name, text)| (Origin::beside(name), text));
        for (file, text) in [(origin.file(), &origin.text)].into_iter().chain(files) {
            let path = self.directory.join(file);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, text)?;
        }
        Ok(())
    }

    /// Returns the outcome of an earlier run, if present. `restore` rebuilds it from its samples.
    pub fn taken<O>(&self, run: &Run, restore: impl FnOnce(Vec<Sample>) -> Option<O>) -> Option<O> {
        let groups = match &self.exchanges {
            Some(exchanges) => Some((exchanges.find(self.journal.exchanges(run)?)?, exchanges)),
            None => None,
        };
        let outcome = restore(self.journal.samples(run)?)?;
        if let Some((groups, exchanges)) = groups {
            exchanges.keep(groups);
        }
        Some(outcome)
    }

    /// Keeps the outcome of a run.
    pub fn keep(&self, run: &Run, events: u64, exchanges: Option<&ExchangeRows>, outcome: &[Kept]) {
        let place = exchanges.zip(self.exchanges.as_ref()).and_then(|(rows, exchanges)| exchanges.write(rows));
        let timelines = exchanges.map(ExchangeRows::timelines).unwrap_or_default();
        self.journal.add(run, events, place, (timelines, outcome));
    }

    /// Returns a table for the exchanges of a run, if they are kept.
    #[must_use]
    pub fn exchange_rows(&self) -> Option<ExchangeRows> {
        self.exchanges.as_ref().map(Exchanges::rows)
    }

    /// Returns a table for the values of a scenario's runs.
    #[must_use]
    pub fn run_rows(&self) -> RunRows {
        RunRows::new(self.runs_shape.clone())
    }

    /// Adds the values of a scenario's runs.
    pub fn add_runs(&self, rows: RunRows) {
        self.lock().runs.push(rows);
    }

    /// Writes the results of a scenario.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&self, name: &str, finished: &Finished<'_>) -> Result<(), StoreError> {
        let mut done = self.lock();
        let Done { manifest, figures, runs } = &mut *done;
        figures.extend_from_slice(finished.figures);
        manifest.scenarios.iter_mut().filter(|scenario| scenario.name == name).for_each(|of| of.finish(finished));
        manifest.failures.extend_from_slice(finished.failures);
        let write = || {
            fs::write(self.directory.join(FIGURES), figures.as_slice())?;
            fs::write(self.directory.join(format!("{}.txt", plain(name))), finished.text)?;
            let file = File::create(self.directory.join(RUNS))?;
            let mut table = self.runs_shape.rows().begin(file)?;
            runs.iter().try_for_each(|rows| rows.rows().write(&mut table))?;
            table.finish()?;
            manifest.write(&self.directory)
        };
        write().map_err(|error| self.failed(error))
    }

    /// Writes a comparison of controllers: its lines, and the ranking as text.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_comparison(&self, lines: &[u8], text: &str) -> Result<(), StoreError> {
        let write = || {
            fs::write(self.directory.join(COMPARISON), lines)?;
            fs::write(self.directory.join(BOARD), text)
        };
        write().map_err(|error| self.failed(error))
    }

    /// Closes the directory at the end of all scenarios.
    ///
    /// # Errors
    /// If something could not be written, now or earlier.
    pub fn close(self) -> Result<(), StoreError> {
        let end = || {
            self.journal.problem().map_or(Ok(()), Err)?;
            self.exchanges.as_ref().map_or(Ok(()), Exchanges::close)?;
            let manifest = &mut self.lock().manifest;
            manifest.end();
            manifest.write(&self.directory)
        };
        end().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::Io { directory: self.directory.clone(), error }
    }
}

impl Manifest {
    /// Replaces an earlier manifest atomically.
    fn write(&self, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        let new = directory.join("manifest.json.new");
        fs::write(&new, text)?;
        fs::rename(new, directory.join(MANIFEST))
    }
}

#[cfg(test)]
mod tests;
