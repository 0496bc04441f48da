//! [`Store`]: a directory of results.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::comparison::Row;
use crate::journal::{Journal, Places};
use crate::manifest::{Finished, Manifest, ManifestError, plain};
use crate::origin::{Origin, Program};
use crate::run::{Run, RunId};
use crate::run_table::RunTable;
use crate::sample::{Kept, Sample};
use crate::tables::{About, ExchangeRows, RunRows, SeriesRows, Shape};

/// A directory of results under construction, shared by threads.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// Runs of the plan, in its order.
    plan: Vec<RunId>,
    journal: Journal,
    runs_shape: Shape,
    exchanges: Option<RunTable>,
    /// With the time between samples.
    series: Option<(RunTable, Duration)>,
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
    /// Those of its options that affect results.
    pub options: String,
    /// The same for programs.
    pub effort: serde_json::Value,
    /// The part of the plan that this program runs, such as `1/8`; `None` for the whole.
    pub shard: Option<String>,
    /// Threads.
    pub threads: usize,
    /// Scenarios, in the order of their runs.
    pub origins: &'a [Origin],
    /// All runs of the plan, in the order of the files.
    pub plan: Vec<RunId>,
    /// Keeps every exchange.
    pub with_exchanges: bool,
    /// Keeps time series, sampled in this interval of simulated time.
    pub series: Option<Duration>,
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
    /// It has no results that could be merged.
    #[error("cannot merge {}: {problem}", directory.display())]
    Import {
        /// Directory.
        directory: PathBuf,
        /// Problem.
        problem: PreviousError,
    },
    /// A file in it cannot be written, which is known before the first run.
    #[error("cannot write {}: make it a file that can be written to, or name another directory", file.display())]
    File {
        /// File.
        file: PathBuf,
        /// Reason.
        #[source]
        error: io::Error,
    },
}

/// What a run keeps besides its samples.
#[derive(Debug, Default)]
pub struct RunTables {
    /// Table for its exchanges, if they are kept.
    pub exchanges: Option<ExchangeRows>,
    /// Table for its time series, if they are kept.
    pub series: Option<SeriesRows>,
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
        let Begin { program, command, options, effort, shard, threads, origins, plan, .. } = begin;
        let Begin { with_exchanges, series, overwrites, .. } = begin;
        if !overwrites {
            check_previous(&directory, origins)
                .map_err(|problem| StoreError::Previous { directory: directory.clone(), problem })?;
        }
        let open = || Journal::open(&directory.join(JOURNAL), overwrites);
        let (journal, mut notes) = open().map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => StoreError::Busy(directory.clone()),
            _ => failed(error),
        })?;
        if overwrites {
            remove_previous(&directory).map_err(failed)?;
        }
        match journal.others(&plan.iter().copied().collect()) {
            0 => {}
            1 => notes.push("1 run is not used: it is of other settings, such as --quick or --only".to_owned()),
            others => {
                notes
                    .push(format!("{others} runs are not used: they are of other settings, such as --quick or --only"));
            }
        }
        let texts = origins.iter().map(|origin| text_file(&origin.name));
        for file in WRITTEN.map(str::to_owned).into_iter().chain(texts) {
            let file = directory.join(file);
            check_writable(&file).map_err(|error| StoreError::File { file, error })?;
        }
        let about = About { version: &program.version, options: &options };
        let table = |name: &str, shape: Shape| RunTable::open(&directory.join(name), shape).map_err(failed);
        let exchanges = with_exchanges.then(|| table(EXCHANGES, Shape::exchanges(origins, &about))).transpose()?;
        let series_table = series.map(|interval| Ok((table(SERIES, Shape::series(origins, &about))?, interval)));
        let runs_shape = Shape::runs(origins, &about);
        let manifest = Manifest {
            effort,
            shard,
            exchanges: with_exchanges,
            series: series.map(nanos),
            ..Manifest::new(program, command, threads, origins)
        };
        let store = Self {
            plan,
            runs_shape,
            exchanges,
            series: series_table.transpose()?,
            done: Mutex::new(Done { manifest, values: Vec::new(), runs: Vec::new() }),
            journal,
            directory: directory.clone(),
        };
        origins.iter().try_for_each(|origin| store.write_origin(origin)).map_err(failed)?;
        store.lock().manifest.write(&directory).map_err(failed)?;
        Ok((store, notes.into_iter().map(|note| format!("{}: {note}", directory.join(JOURNAL).display())).collect()))
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns whether only a part of the plan is run.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.lock().manifest.shard.is_some()
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
    pub fn taken<O>(&self, run: RunId, restore: impl FnOnce(Vec<Sample>) -> Option<O>) -> Option<O> {
        if !self.has(run) {
            return None;
        }
        restore(self.journal.samples(run)?)
    }

    /// Returns whether a run is there, with its exchanges and time series if they are kept.
    #[must_use]
    pub fn has(&self, run: RunId) -> bool {
        let Some(Places { exchanges, series }) = self.journal.places(run) else { return false };
        let has_exchanges = self.exchanges.as_ref().is_none_or(|table| exchanges.is_some_and(|at| table.has(run, &at)));
        let has_series = self.series.as_ref().is_none_or(|(table, interval)| match series.as_deref() {
            Some(place @ [_, _, of]) => *of == nanos(*interval) && table.has(run, place),
            _ => false,
        });
        has_exchanges && has_series
    }

    /// Keeps the outcome of a run.
    pub fn keep(&self, run: &Run, events: u64, tables: RunTables, outcome: &[Kept]) {
        let RunTables { exchanges, series } = tables;
        let rows = exchanges.as_ref().zip(self.exchanges.as_ref());
        let of_exchanges = rows.and_then(|(rows, table)| table.write(rows.written(run.id)));
        let timelines = exchanges.as_ref().map(ExchangeRows::timelines).unwrap_or_default();
        let of_series = series.zip(self.series.as_ref()).and_then(|(rows, (table, interval))| {
            let mut place = table.write(rows.written())?;
            place.push(nanos(*interval));
            Some(place)
        });
        let places = Places { exchanges: of_exchanges, series: of_series };
        self.journal.add(run, events, places, timelines, outcome);
    }

    /// Adds the runs of the plan that another directory has, and calls `copied` after each.
    ///
    /// # Errors
    /// If it has no results, or they cannot be copied.
    pub fn import(&self, directory: &Path, copied: &mut dyn FnMut()) -> Result<(), StoreError> {
        let of = |problem| StoreError::Import { directory: directory.to_owned(), problem };
        let journal = directory.join(JOURNAL);
        if !journal.exists() {
            return Err(of(PreviousError::NoJournal));
        }
        let plan: HashSet<RunId> = self.plan.iter().copied().collect();
        let open = |name: &str, table: &RunTable| -> io::Result<Option<RunTable>> {
            let path = directory.join(name);
            path.exists().then(|| RunTable::open_stored(&path, table.shape().clone())).transpose()
        };
        let mut copy = || -> io::Result<()> {
            let exchanges = self.exchanges.as_ref().map(|table| open(EXCHANGES, table)).transpose()?.flatten();
            let series = self.series.as_ref().map(|(table, _)| open(SERIES, table)).transpose()?.flatten();
            Journal::read(&journal, |run, line, places| {
                if !plan.contains(&run) || self.has(run) {
                    return Ok(());
                }
                let imported = |from: &Option<RunTable>, to: Option<&RunTable>, place: Option<&Vec<u64>>| match (
                    from, to, place,
                ) {
                    (Some(from), Some(to), Some(place)) => to.import(from, run, place),
                    _ => Ok(None),
                };
                let of_exchanges = imported(&exchanges, self.exchanges.as_ref(), places.exchanges.as_ref())?;
                let of_series =
                    imported(&series, self.series.as_ref().map(|(table, _)| table), places.series.as_ref())?;
                let interval = places.series.as_ref().and_then(|place| place.get(2)).copied();
                let of_series = of_series.zip(interval).map(|(mut place, interval)| {
                    place.push(interval);
                    place
                });
                self.journal.add_line(run, line, Places { exchanges: of_exchanges, series: of_series });
                copied();
                Ok(())
            })
        };
        copy().map_err(|error| of(PreviousError::Unreadable(error)))
    }

    /// Returns the tables that a run fills.
    ///
    /// # Errors
    /// If a table cannot be begun.
    pub fn run_tables(&self, run: RunId) -> io::Result<RunTables> {
        let series = self.series.as_ref();
        let series = series.map(|(table, interval)| SeriesRows::new(table.shape().clone(), *interval, run));
        Ok(RunTables {
            exchanges: self.exchanges.as_ref().map(|table| ExchangeRows::new(table.shape().clone())),
            series: series.transpose()?,
        })
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

    /// Writes a scenario's results; of a part, only the manifest.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn finish(&self, name: &str, finished: &Finished<'_>) -> Result<(), StoreError> {
        let mut done = self.lock();
        let Done { manifest, values, runs } = &mut *done;
        manifest.finish(name, finished);
        if manifest.shard.is_some() {
            return manifest.write(&self.directory).map_err(|error| self.failed(error));
        }
        values.extend_from_slice(finished.values);
        let write = || {
            fs::write(self.directory.join(VALUES), values.as_slice())?;
            fs::write(self.directory.join(text_file(name)), finished.text)?;
            let file = File::create(self.directory.join(RUNS))?;
            let mut table = self.runs_shape.rows().begin(file, self.runs_shape.about())?;
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

    /// Closes the directory after all scenarios: puts the runs in the order of the plan.
    ///
    /// # Errors
    /// If anything could not be written, now or earlier.
    pub fn close(self) -> Result<(), StoreError> {
        let end = || {
            self.journal.problem().map_or(Ok(()), Err)?;
            self.put_in_order()?;
            let manifest = &mut self.lock().manifest;
            manifest.end();
            manifest.write(&self.directory)
        };
        end().map_err(|error| self.failed(error))
    }

    /// The journal is replaced last. Until then its places are wrong, which the IDs in the tables
    /// show: these runs would be run again.
    fn put_in_order(&self) -> io::Result<()> {
        let order = self.journal.in_order(&self.plan);
        let whole = self.plan.iter().filter(|run| self.journal.has(**run)).count();
        let moved = |table: Option<&RunTable>, place: fn(Places) -> Option<Vec<u64>>| {
            let Some(table) = table else { return Ok(None) };
            let of = |run: &RunId| Some((*run, place(self.journal.places(*run)?).unwrap_or_default()));
            let places: Vec<_> = order.iter().filter_map(of).collect();
            table.write_in_order(&places, whole).map(Some)
        };
        let exchanges = moved(self.exchanges.as_ref(), |places| places.exchanges)?;
        let series = moved(self.series.as_ref().map(|(table, _)| table), |places| places.series)?;
        self.journal.write_in_order(&order, |run, places| {
            let of = |moved: &Option<HashMap<RunId, Vec<u64>>>, before: &Option<Vec<u64>>| match moved {
                Some(moved) => moved.get(&run).cloned(),
                None => before.clone(),
            };
            Places { exchanges: of(&exchanges, &places.exchanges), series: of(&series, &places.series) }
        })?;
        let tables = self.exchanges.iter().chain(self.series.as_ref().map(|(table, _)| table));
        tables.into_iter().try_for_each(RunTable::replace)?;
        self.journal.replace()
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

/// Returns the runs that a directory has; none if it does not exist.
///
/// # Errors
/// If its journal cannot be read.
pub fn stored_runs(directory: &Path) -> io::Result<HashSet<RunId>> {
    let (path, mut runs) = (directory.join(JOURNAL), HashSet::new());
    if path.exists() {
        Journal::read(&path, |run, _, _| {
            runs.insert(run);
            Ok(())
        })?;
    }
    Ok(runs)
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
    /// The directory has no runs.
    #[error("it holds no {JOURNAL} of `conche run -o`")]
    NoJournal,
}

/// Checks that the directory can be continued with these scenarios.
fn check_previous(directory: &Path, origins: &[Origin]) -> Result<(), PreviousError> {
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
    Ok(())
}

fn check_writable(file: &Path) -> io::Result<()> {
    match fs::OpenOptions::new().write(true).open(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn text_file(name: &str) -> String {
    format!("{}.txt", plain(name))
}

fn nanos(interval: Duration) -> u64 {
    u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)
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
pub(crate) const SERIES: &str = "series.parquet";
const COMPARISON: &str = Row::FILE;
const BOARD: &str = "comparison.txt";
const WRITTEN: [&str; 7] = [MANIFEST, VALUES, RUNS, EXCHANGES, SERIES, COMPARISON, BOARD];

#[cfg(test)]
mod tests;
