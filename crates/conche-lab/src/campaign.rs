//! Runs independent simulations in parallel, with the same results on any number of threads.
//!
//! Replication n has the same seed in every cell: common random numbers. A failed run leaves a gap.
//! A [`Store`] keeps finished runs, which are not repeated.

use std::any::Any;
use std::fmt::{self, Display};
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use conche_netsim::rng::{Entity, Purpose, Streams};
pub use conche_results::{CellId, Failure, Kept, RunTables, Sample, Store};
use conche_results::{Origin, Run};
use cpu_time::ThreadTime;
use rand_core::RngCore;
use rayon::iter::{ParallelBridge, ParallelIterator};

use crate::scenario::ScenarioError;

/// Options without effect on results.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// Threads; by default one per core.
    pub jobs: Option<NonZeroUsize>,
    /// Store of runs; by default none.
    pub store: Option<&'a Store>,
}

/// Progress in units of estimated work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Work done.
    pub done: u64,
    /// Total work.
    pub total: u64,
    /// Runs from the store.
    pub reused: u64,
}

/// Receives progress from the worker threads.
pub type Watch<'a> = &'a (dyn Fn(Progress) + Sync);

/// One run of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// Index from 0.
    pub index: u32,
    /// Replications of the cell.
    pub count: u32,
    /// Seed.
    pub seed: u64,
}

/// Result of one run.
#[derive(Clone, Debug)]
pub struct RunResult<T> {
    /// Measurements.
    pub outcome: T,
    /// Simulator events processed.
    pub events: u64,
}

/// Cost of simulating, on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of runs.
    pub runs: u64,
    /// Events of all runs.
    pub events: u64,
    /// CPU time of all threads.
    pub cpu: Duration,
}

/// How a campaign ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Runs, including failed ones.
    pub runs: u64,
    /// Runs from the store.
    pub reused: u64,
    /// Failed runs in the order of cells.
    pub failures: Vec<Failure>,
    /// Cost of the other runs.
    pub cost: Cost,
}

/// Why an experiment cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Values of the scenario contradict.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The runs have too many values for a table.
    #[error("cannot make a table of all runs: {0}")]
    Table(#[from] std::io::Error),
    /// The system refuses threads.
    #[error("cannot start the worker threads: {0}")]
    Threads(String),
}

enum RunError<E> {
    Cell(E),
    Table(io::Error),
    Panicked(String),
}

impl<E: Display> Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cell(error) => error.fmt(f),
            Self::Table(error) => error.fmt(f),
            Self::Panicked(message) => write!(f, "it panicked: {message}"),
        }
    }
}

/// A cell that a campaign runs.
pub trait RunnableCell: Sync {
    /// Result of one run.
    type Outcome: Send;
    /// Why it cannot run, for the user.
    type Error: Display + Send;

    /// Identity of the cell.
    fn id(&self) -> CellId;

    /// Name in error messages.
    fn name(&self) -> String;

    /// Number of replications.
    fn replications(&self) -> u32;

    /// Estimated duration of a run, in a unit common to all cells.
    fn work(&self) -> u64;

    /// Runs the cell once, and fills `tables`.
    ///
    /// # Errors
    /// If the cell cannot run.
    fn run(&self, replication: Replication, tables: &mut RunTables) -> Result<RunResult<Self::Outcome>, Self::Error>;

    /// Returns a run's samples to keep.
    fn keep(&self, outcome: &Self::Outcome) -> Vec<Kept>;

    /// Rebuilds an outcome from kept samples; `None` if they do not fit.
    fn restore(&self, samples: Vec<Sample>) -> Option<Self::Outcome>;
}

/// Per cell, each replication's outcome; `None` for a failed one.
pub type Outcomes<C> = Vec<Vec<Option<<C as RunnableCell>::Outcome>>>;

/// Runs all replications of all cells.
///
/// # Errors
/// If threads cannot start.
pub fn run<C: RunnableCell>(
    cells: &[C],
    origin: &Origin,
    options: RunOptions<'_>,
    watch: Watch<'_>,
) -> Result<(Outcomes<C>, Completion), ExperimentError> {
    let mut jobs: Vec<(usize, u32)> = cells
        .iter()
        .enumerate()
        .flat_map(|(cell, of)| (0..of.replications()).map(move |index| (cell, index)))
        .collect();
    // Longest first, to balance threads at the end.
    jobs.sort_by_key(|(cell, _)| std::cmp::Reverse(cells[*cell].work()));
    let total = jobs.iter().map(|(cell, _)| cells[*cell].work()).sum();
    let progress = Progress { done: 0, total, reused: 0 };
    let tally = Mutex::new((progress, Completion { runs: jobs.len() as u64, ..Completion::default() }));
    let one = |(place, index): (usize, u32)| {
        let cell = &cells[place];
        let began = ThreadTime::now();
        let replication = Replication { index, count: cell.replications(), seed: seed_of(origin.seed, index) };
        let kept = options.store.map(|store| (store, run_of(origin, cell, replication)));
        let reused = kept.as_ref().and_then(|(store, run)| store.taken(run, |samples| cell.restore(samples)));
        let is_reused = reused.is_some();
        let ran = match reused {
            Some(outcome) => Ok(RunResult { outcome, events: 0 }),
            None => run_once(cell, replication, kept.as_ref()),
        };
        let cpu = began.elapsed();
        // Another thread's panic has already ended the experiment.
        let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (progress, Completion { reused, cost, .. }) = &mut *tally;
        progress.done += cell.work();
        if is_reused {
            *reused += 1;
            progress.reused = *reused;
        } else {
            cost.runs += 1;
            cost.events += ran.as_ref().map_or(0, |ran| ran.events);
            cost.cpu += cpu;
        }
        watch(*progress);
        ((place, replication), ran)
    };
    let mut all: Vec<_> = threads(options)?.install(|| jobs.into_iter().par_bridge().map(one).collect());
    all.sort_unstable_by_key(|((place, replication), _)| (*place, replication.index));
    let (_, mut completion) = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut outcomes: Outcomes<C> = cells.iter().map(|_| Vec::new()).collect();
    for ((place, replication), ran) in all {
        let failed = |problem: RunError<C::Error>| Failure {
            scenario: origin.name.clone(),
            cell: cells[place].name(),
            replication: replication.index,
            seed: replication.seed,
            problem: problem.to_string(),
        };
        let outcome = ran.map(|ran| ran.outcome).map_err(|problem| completion.failures.push(failed(problem)));
        outcomes[place].push(outcome.ok());
    }
    Ok((outcomes, completion))
}

fn run_of(origin: &Origin, cell: &impl RunnableCell, Replication { index, seed, .. }: Replication) -> Run {
    let (scenario, settings) = (origin.name.clone(), origin.settings.clone());
    Run { scenario, settings, cell: cell.id(), replication: index, seed }
}

fn run_once<C: RunnableCell>(
    cell: &C,
    replication: Replication,
    kept: Option<&(&Store, Run)>,
) -> Result<RunResult<C::Outcome>, RunError<C::Error>> {
    let tables = kept.map(|(store, _)| store.run_tables()).transpose().map_err(RunError::Table)?;
    let mut tables = tables.unwrap_or_default();
    let run = AssertUnwindSafe(|| cell.run(replication, &mut tables));
    let ran = catch_unwind(run).map_err(|panic| RunError::Panicked(message(&*panic).to_owned()))?;
    let ran = ran.map_err(RunError::Cell)?;
    if let Some((store, run)) = kept {
        store.keep(run, ran.events, tables, &cell.keep(&ran.outcome));
    }
    Ok(ran)
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it does not say why")
}

pub(crate) fn threads(options: RunOptions<'_>) -> Result<rayon::ThreadPool, ExperimentError> {
    let threads = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.map_or(0, NonZeroUsize::get));
    threads.build().map_err(|error| ExperimentError::Threads(error.to_string()))
}

/// Returns the seed of a replication.
#[must_use]
pub fn seed_of(seed: u64, replication: u32) -> u64 {
    let mut stream = Streams::new(seed).stream(Entity::Run, Purpose::named("replication"));
    (0..=replication).map(|_| stream.next_u64()).last().unwrap_or(seed)
}

impl Cost {
    /// Events per second of CPU time; `None` if nothing ran.
    #[must_use]
    pub fn events_per_second(&self) -> Option<f64> {
        (!self.cpu.is_zero()).then(|| self.events as f64 / self.cpu.as_secs_f64())
    }
}
