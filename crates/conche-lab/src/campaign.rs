//! Runs independent simulations in parallel, with the same results on any number of threads.
//!
//! Replication n has the same seed in every cell: common random numbers. A failed run leaves a gap.
//! A [`Store`] keeps finished runs, which are not repeated.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display};
use std::io;
use std::num::{NonZeroU32, NonZeroUsize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_results::{CellHash, Origin, Run, RunId};
pub use conche_results::{CellId, Failure, Kept, RunTables, Sample, Store};
use rand_core::RngCore;
use rayon::iter::{ParallelBridge, ParallelIterator};

use crate::scenario::ScenarioError;

/// Version of the simulator and the metrics. Raise it with each change that changes a result:
/// runs of another version are not reused.
pub const VERSION: &str = "1";

/// Maximum threads of a campaign. Users of [`RunOptions`] refuse more.
pub const MAX_JOBS: usize = 1024;

/// Options without effect on results.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// Maximum threads, also limited by the number of runs; by default one per core.
    pub jobs: Option<NonZeroUsize>,
    /// Store of runs; by default none.
    pub store: Option<&'a Store>,
    /// Uses only runs of the store: others fail, as these failures state.
    pub only_stored: Option<&'a [Failure]>,
    /// Once true, no further run begins, and the campaign ends with [`ExperimentError::Cancelled`];
    /// runs in progress end first, and the store keeps them.
    pub cancel: Option<&'a AtomicBool>,
    /// Surrounds the work of each worker thread.
    pub enter: Option<&'a Enter>,
}

/// Prepares a worker thread, such as for another language, and runs its work.
#[derive(Clone)]
#[cfg_attr(target_family = "wasm", expect(dead_code, reason = "it has no worker threads"))]
pub struct Enter(Arc<dyn Fn(Work) + Send + Sync>);

/// All work of a thread.
pub type Work = Box<dyn FnOnce() + Send>;

impl Enter {
    /// `enter` must run the work that it receives.
    pub fn new(enter: impl Fn(Work) + Send + Sync + 'static) -> Self {
        Self(Arc::new(enter))
    }
}

impl fmt::Debug for Enter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Enter")
    }
}

/// The panic of a controller that cannot continue: the run fails with this problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aborted(pub String);

impl RunOptions<'_> {
    fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }
}

/// A run of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// Hash of all that its results depend on.
    pub id: RunId,
    /// Its cell's place in the experiment.
    pub cell: usize,
    /// Replication.
    pub replication: Replication,
    /// Estimated duration, in a unit common to all runs.
    pub work: u64,
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

/// A part of the runs of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// One of `count` shards of about equal work, from 1.
    Shard {
        /// Number of the shard, from 1 to `count`.
        number: u32,
        /// Shards.
        count: NonZeroU32,
    },
    /// Runs by their IDs.
    Runs(HashSet<RunId>),
}

/// A run that no plan has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no run of these experiments has the ID {0}")]
pub struct UnknownRun(RunId);

impl Part {
    /// Selects from the plans of several experiments.
    ///
    /// # Errors
    /// An ID that no plan has.
    pub fn of(&self, plans: &[Vec<PlannedRun>]) -> Result<Vec<Vec<PlannedRun>>, UnknownRun> {
        let mut runs: Vec<(usize, usize, u64)> = Vec::new();
        for (experiment, plan) in plans.iter().enumerate() {
            runs.extend(plan.iter().enumerate().map(|(place, run)| (experiment, place, run.work)));
        }
        let id = |&(experiment, place, _): &(usize, usize, u64)| plans[experiment][place].id;
        match self {
            Self::Shard { number, count } => {
                runs.sort_by_key(|(_, _, work)| std::cmp::Reverse(*work));
                let (first, step) = (number.saturating_sub(1) as usize, count.get() as usize);
                runs = runs.into_iter().skip(first).step_by(step).collect();
                runs.sort_unstable();
            }
            Self::Runs(ids) => {
                runs.retain(|run| ids.contains(&id(run)));
                let found: HashSet<RunId> = runs.iter().map(id).collect();
                if let Some(unknown) = ids.iter().filter(|id| !found.contains(*id)).min() {
                    return Err(UnknownRun(*unknown));
                }
            }
        }
        let mut selected = vec![Vec::new(); plans.len()];
        for (experiment, place, _) in runs {
            selected[experiment].push(plans[experiment][place]);
        }
        Ok(selected)
    }
}

impl Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shard { number, count } => write!(f, "{number}/{count}"),
            Self::Runs(ids) => write!(f, "{} runs", ids.len()),
        }
    }
}

impl FromStr for Part {
    type Err = &'static str;

    /// Reads a shard, such as `2/8`.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let parts = text.split_once('/').and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        let shard = parts.filter(|(number, count): &(u32, NonZeroU32)| (1..=count.get()).contains(number));
        let (number, count) = shard.ok_or("a shard is its number and the number of all, from 1/8 to 8/8")?;
        Ok(Self::Shard { number, count })
    }
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
    /// [`RunOptions::cancel`] has become true.
    #[error("the experiment was cancelled")]
    Cancelled,
}

enum RunError<E> {
    Cell(E),
    NotStored(Option<String>),
    Table(io::Error),
    Aborted(Aborted),
    Panicked(String),
}

impl<E: Display> Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cell(error) => error.fmt(f),
            Self::NotStored(problem) => f.write_str(problem.as_deref().unwrap_or("it has not been run")),
            Self::Table(error) => error.fmt(f),
            Self::Aborted(Aborted(problem)) => f.write_str(problem),
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

    /// Names and versions of the algorithms that its results depend on.
    fn versions(&self) -> Vec<(String, String)>;

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

/// Per cell, each replication's outcome; `None` for failed runs and those not selected.
pub type Outcomes<C> = Vec<Vec<Option<<C as RunnableCell>::Outcome>>>;

/// Returns all runs, by cell and replication.
pub fn plan<C: RunnableCell>(cells: &[C], origin: &Origin) -> Vec<PlannedRun> {
    let most = cells.iter().map(RunnableCell::replications).max().unwrap_or(0);
    let seeds: Vec<u64> = seeds(origin.seed).take(most as usize).collect();
    let of_cell = |(place, cell): (usize, &C)| {
        let versions = cell.versions();
        let versions = versions.iter().map(|(name, version)| (name.as_str(), version.as_str()));
        let versions: Vec<(&str, &str)> = [("conche-lab", VERSION)].into_iter().chain(versions).collect();
        let hash = CellHash::new(&origin.name, &origin.settings, &cell.id(), &versions);
        let (count, work) = (cell.replications(), cell.work());
        let run = move |(index, seed): (u32, u64)| PlannedRun {
            id: hash.run(index, seed),
            cell: place,
            replication: Replication { index, count, seed },
            work,
        };
        (0..count).zip(seeds.iter().copied()).map(run).collect::<Vec<_>>()
    };
    cells.iter().enumerate().flat_map(of_cell).collect()
}

/// Runs these runs of the cells.
///
/// # Errors
/// If threads cannot start, or it is cancelled.
pub fn run<C: RunnableCell>(
    cells: &[C],
    origin: &Origin,
    runs: &[PlannedRun],
    options: RunOptions<'_>,
    watch: Watch<'_>,
) -> Result<(Outcomes<C>, Completion), ExperimentError> {
    let mut runs = runs.to_vec();
    // Longest first, to balance threads at the end.
    runs.sort_by_key(|run| std::cmp::Reverse(run.work));
    let total = runs.iter().map(|run| run.work).sum();
    let progress = Progress { done: 0, total, reused: 0 };
    let tally = Mutex::new((progress, Completion { runs: runs.len() as u64, ..Completion::default() }));
    let failures = |of: &[Failure]| of.iter().map(|failure| (failure.run, failure.problem.clone())).collect();
    let only_stored: Option<HashMap<RunId, String>> = options.only_stored.map(failures);
    let one = |planned: PlannedRun| {
        let PlannedRun { id, cell, work, .. } = planned;
        let cell = &cells[cell];
        let began = thread_time();
        let reused = options.store.and_then(|store| store.taken(id, |samples| cell.restore(samples)));
        let is_reused = reused.is_some();
        let ran = match (reused, &only_stored) {
            (Some(outcome), _) => Ok(RunResult { outcome, events: 0 }),
            (None, Some(failures)) => Err(RunError::NotStored(failures.get(&id).cloned())),
            (None, None) => run_once(cell, origin, planned, options.store),
        };
        let cpu = thread_time().saturating_sub(began);
        // Another thread's panic has already ended the experiment.
        let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (progress, Completion { reused, cost, .. }) = &mut *tally;
        progress.done += work;
        if is_reused {
            *reused += 1;
            progress.reused = *reused;
        } else {
            cost.runs += 1;
            cost.events += ran.as_ref().map_or(0, |ran| ran.events);
            cost.cpu += cpu;
        }
        watch(*progress);
        (planned, ran)
    };
    let count = runs.len();
    let begun = runs.into_iter().take_while(|_| !options.is_cancelled());
    let mut all: Vec<_> = on_threads(options, count, || begun.par_bridge().map(one).collect())?;
    if options.is_cancelled() {
        return Err(ExperimentError::Cancelled);
    }
    all.sort_unstable_by_key(|(run, _)| (run.cell, run.replication.index));
    let (_, mut completion) = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let none = |cell: &C| (0..cell.replications()).map(|_| None).collect();
    let mut outcomes: Outcomes<C> = cells.iter().map(none).collect();
    for (PlannedRun { id, cell, replication, .. }, ran) in all {
        let failed = |problem: RunError<C::Error>| Failure {
            run: id,
            scenario: origin.name.clone(),
            cell: cells[cell].name(),
            replication: replication.index,
            seed: replication.seed,
            problem: problem.to_string(),
        };
        let outcome = ran.map(|ran| ran.outcome).map_err(|problem| completion.failures.push(failed(problem)));
        outcomes[cell][replication.index as usize] = outcome.ok();
    }
    Ok((outcomes, completion))
}

fn run_once<C: RunnableCell>(
    cell: &C,
    origin: &Origin,
    PlannedRun { id, replication, .. }: PlannedRun,
    store: Option<&Store>,
) -> Result<RunResult<C::Outcome>, RunError<C::Error>> {
    let tables = store.map(|store| store.run_tables(id)).transpose().map_err(RunError::Table)?;
    let mut tables = tables.unwrap_or_default();
    let run = AssertUnwindSafe(|| cell.run(replication, &mut tables));
    let ran = catch_unwind(run).map_err(|panic| match panic.downcast() {
        Ok(aborted) => RunError::Aborted(*aborted),
        Err(panic) => RunError::Panicked(message(&*panic).to_owned()),
    })?;
    let ran = ran.map_err(RunError::Cell)?;
    if let Some(store) = store {
        let (scenario, settings) = (origin.name.clone(), origin.settings.clone());
        let Replication { index, seed, .. } = replication;
        let run = Run { id, scenario, settings, cell: cell.id(), replication: index, seed };
        store.keep(&run, ran.events, tables, &cell.keep(&ran.outcome));
    }
    Ok(ran)
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it does not say why")
}

/// Does the work, which has this number of tasks, on the threads of the options.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn on_threads<T: Send>(
    options: RunOptions<'_>,
    tasks: usize,
    work: impl FnOnce() -> T + Send,
) -> Result<T, ExperimentError> {
    let jobs = options.jobs.map_or(0, |jobs| jobs.get().min(tasks.max(1)));
    let threads = rayon::ThreadPoolBuilder::new().num_threads(jobs);
    let built = match options.enter {
        None => threads.build(),
        Some(enter) => {
            let start = |thread: rayon::ThreadBuilder| {
                let enter = enter.clone();
                std::thread::Builder::new().spawn(move || enter.0(Box::new(move || thread.run()))).map(drop)
            };
            threads.spawn_handler(start).build()
        }
    };
    Ok(built.map_err(|error| ExperimentError::Threads(error.to_string()))?.install(work))
}

/// Does the work on the calling thread, which is rayon's only one.
#[cfg(target_family = "wasm")]
pub(crate) fn on_threads<T>(_: RunOptions<'_>, _: usize, work: impl FnOnce() -> T) -> Result<T, ExperimentError> {
    Ok(work())
}

/// Returns the CPU time of this thread; 0 on WebAssembly, which has no such clock.
fn thread_time() -> Duration {
    #[cfg(not(target_family = "wasm"))]
    return cpu_time::ThreadTime::now().as_duration();
    #[cfg(target_family = "wasm")]
    return Duration::ZERO;
}

/// Returns the seeds of replications 0, 1, ….
pub fn seeds(seed: u64) -> impl Iterator<Item = u64> {
    let mut stream = Streams::new(seed).stream(Entity::Run, Purpose::named("replication"));
    std::iter::repeat_with(move || stream.next_u64())
}

/// Returns the seed of a replication.
#[must_use]
pub fn seed_of(seed: u64, replication: u32) -> u64 {
    seeds(seed).nth(replication as usize).unwrap_or(seed)
}

impl Cost {
    /// Events per second of CPU time; `None` if nothing ran.
    #[must_use]
    pub fn events_per_second(&self) -> Option<f64> {
        (!self.cpu.is_zero()).then(|| self.events as f64 / self.cpu.as_secs_f64())
    }
}
