//! [`Store`]: a directory of results.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::comparison::Row;
use crate::exchanges::Exchanges;
use crate::journal::{Journal, Run};
use crate::manifest::{Finished, Manifest, ManifestError, plain};
use crate::origin::{Origin, Program};
use crate::sample::{Kept, Sample};
use crate::tables::{ExchangeRows, RunRows, Shape};

/// A directory of results under construction, shared by threads.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    journal: Journal,
    runs_shape: Shape,
    exchanges: Option<Exchanges>,
    done: Mutex<Done>,
}

#[derive(Debug)]
struct Done {
    manifest: Manifest,
    values: Vec<u8>,
    runs: Vec<RunRows>,
}

/// A campaign and its directory.
#[derive(Clone, Debug)]
pub struct Begin<'a> {
    /// Directory; created if missing.
    pub directory: &'a Path,
    /// Program.
    pub program: Program,
    /// Arguments, the program's name first.
    pub command: Vec<String>,
    /// Threads.
    pub threads: usize,
    /// Scenarios, in the order of their runs.
    pub origins: &'a [Origin],
    /// Keeps every exchange.
    pub with_exchanges: bool,
    /// Removes earlier results, instead of continuing them.
    pub overwrites: bool,
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Its results cannot be continued.
    #[error("cannot go on in {}: {problem}; name another directory, or begin anew with --overwrite", directory.display())]
    Previous {
        /// Directory.
        directory: PathBuf,
        /// Problem.
        problem: PreviousError,
    },
    /// Another process is writing to it.
    #[error("another conche writes into {}; wait until it is done, or name another directory", .0.display())]
    Busy(PathBuf),
    /// It cannot be created or written.
    #[error("cannot write results into {}: name a directory that can be made or written to", directory.display())]
    Io {
        /// Directory.
        directory: PathBuf,
        /// Reason.
        #[source]
        error: io::Error,
    },
}

impl Store {
    /// Opens a directory; returns notes about unusable earlier runs.
    ///
    /// # Errors
    /// If it cannot be written, or its results cannot be continued.
    pub fn open(begin: Begin<'_>) -> Result<(Self, Vec<String>), StoreError> {
        let directory = begin.directory.to_owned();
        let failed = |error: io::Error| StoreError::Io { directory: directory.clone(), error };
        fs::create_dir_all(&directory).map_err(failed)?;
        let Begin { program, command, threads, origins, with_exchanges, overwrites, .. } = begin;
        if !overwrites {
            check_previous(&directory, &program, origins)
                .map_err(|problem| StoreError::Previous { directory: directory.clone(), problem })?;
        }
        // Changes nothing before the journal is locked.
        let open = || Journal::open(&directory.join(JOURNAL), origins, overwrites);
        let (journal, notes) = open().map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => StoreError::Busy(directory.clone()),
            _ => failed(error),
        })?;
        if overwrites {
            remove_previous(&directory).map_err(failed)?;
        }
        let exchanges = with_exchanges.then(|| Exchanges::open(&directory.join(EXCHANGES), Shape::exchanges(origins)));
        let manifest = Manifest::new(program, command, threads, origins);
        let store = Self {
            runs_shape: Shape::runs(origins),
            exchanges: exchanges.transpose().map_err(failed)?,
            done: Mutex::new(Done { manifest, values: Vec::new(), runs: Vec::new() }),
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

    /// Returns an earlier run's outcome, which `restore` rebuilds from samples.
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
        self.journal.add(run, events, place, timelines, outcome);
    }

    /// Returns a table for a run's exchanges, if they are kept.
    #[must_use]
    pub fn exchange_rows(&self) -> Option<ExchangeRows> {
        self.exchanges.as_ref().map(Exchanges::rows)
    }

    /// Returns a table for the values of runs.
    #[must_use]
    pub fn run_rows(&self) -> RunRows {
        RunRows::new(self.runs_shape.clone())
    }

    /// Adds the values of a scenario's runs.
    pub fn add_runs(&self, rows: RunRows) {
        self.lock().runs.push(rows);
    }

    /// Writes a scenario's results.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn finish(&self, name: &str, finished: &Finished<'_>) -> Result<(), StoreError> {
        let mut done = self.lock();
        let Done { manifest, values, runs } = &mut *done;
        values.extend_from_slice(finished.values);
        manifest.scenarios.iter_mut().filter(|scenario| scenario.name == name).for_each(|of| of.finish(finished));
        manifest.failures.extend_from_slice(finished.failures);
        let write = || {
            fs::write(self.directory.join(VALUES), values.as_slice())?;
            fs::write(self.directory.join(format!("{}.txt", plain(name))), finished.text)?;
            let file = File::create(self.directory.join(RUNS))?;
            let mut table = self.runs_shape.rows().begin(file)?;
            runs.iter().try_for_each(|rows| rows.rows().write(&mut table))?;
            table.finish()?;
            manifest.write(&self.directory)
        };
        write().map_err(|error| self.failed(error))
    }

    /// Writes a comparison's lines, and its ranking as text.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write_comparison(&self, lines: &[u8], text: &str) -> Result<(), StoreError> {
        let write = || {
            fs::write(self.directory.join(COMPARISON), lines)?;
            fs::write(self.directory.join(BOARD), text)
        };
        write().map_err(|error| self.failed(error))
    }

    /// Closes the directory after all scenarios.
    ///
    /// # Errors
    /// If anything could not be written, now or earlier.
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
    fn write(&self, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        let new = directory.join("manifest.json.new");
        fs::write(&new, text)?;
        fs::rename(new, directory.join(MANIFEST))
    }
}

/// Why a directory's results cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum PreviousError {
    /// The directory has runs, but no manifest.
    #[error("it holds a {JOURNAL} without a {MANIFEST}")]
    NoManifest,
    /// The manifest cannot be opened.
    #[error("its {MANIFEST} cannot be read: {0}")]
    Unreadable(io::Error),
    /// The manifest is invalid.
    #[error("its {MANIFEST} {0}")]
    Manifest(#[from] ManifestError),
    /// The results are of other scenarios.
    #[error("it holds results of {there}, not of {here}")]
    OtherScenarios {
        /// Names in the directory.
        there: String,
        /// Names of the scenarios to run.
        here: String,
    },
    /// The scenario, or a file it names, has changed.
    #[error("it holds results of another scenario {scenario}: its {file} is not what is to be run")]
    OtherText {
        /// Scenario.
        scenario: String,
        /// File that differs.
        file: String,
    },
    /// Another build of conche wrote the results.
    #[error("it holds results of another build of conche, {there}; this is {here}")]
    OtherBuild {
        /// Build that wrote the results.
        there: Box<Program>,
        /// This build.
        here: Box<Program>,
    },
}

/// Fails if this program cannot continue the directory with these scenarios.
fn check_previous(directory: &Path, program: &Program, origins: &[Origin]) -> Result<(), PreviousError> {
    let text = match fs::read_to_string(directory.join(MANIFEST)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let has_runs = directory.join(JOURNAL).exists();
            return if has_runs { Err(PreviousError::NoManifest) } else { Ok(()) };
        }
        Err(error) => return Err(PreviousError::Unreadable(error)),
    };
    let manifest = Manifest::from_json(&text)?;
    let there: Vec<&str> = manifest.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    let here: Vec<&str> = origins.iter().map(|origin| origin.name.as_str()).collect();
    if there != here {
        let [there, here] = [there, here].map(|names| names.join(", "));
        return Err(PreviousError::OtherScenarios { there, here });
    }
    for origin in origins {
        let files = origin.files.iter().map(|(name, text)| (Origin::beside(name), text));
        for (file, text) in [(origin.file(), &origin.text)].into_iter().chain(files) {
            if fs::read_to_string(directory.join(&file)).ok().as_ref() != Some(text) {
                return Err(PreviousError::OtherText { scenario: origin.name.clone(), file });
            }
        }
    }
    let there = manifest.program;
    if program.sha256.is_none() || there.sha256 != program.sha256 {
        return Err(PreviousError::OtherBuild { there: Box::new(there), here: Box::new(program.clone()) });
    }
    Ok(())
}

fn remove_previous(directory: &Path) -> io::Result<()> {
    WRITTEN.iter().try_for_each(|name| match fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
}

const MANIFEST: &str = Manifest::FILE;
const JOURNAL: &str = crate::journal::FILE;
const VALUES: &str = "figures.ndjson";
const RUNS: &str = "runs.parquet";
const EXCHANGES: &str = "exchanges.parquet";
const COMPARISON: &str = Row::FILE;
const BOARD: &str = "comparison.txt";
/// All files but the journal, scenarios and text tables.
const WRITTEN: [&str; 6] = [MANIFEST, VALUES, RUNS, EXCHANGES, COMPARISON, BOARD];

#[cfg(test)]
mod tests;
