//! Many independent runs, in parallel on all cores, with results that do not depend on how many there are.
//!
//! An experiment is a list of cells (what is compared), each of which runs several times under other random numbers
//! (replications). The seed of a replication is the same in every cell: common random numbers.
//!
//! A run that fails leaves a gap, and the others go on. With a [`Store`] each is kept as soon as it is over, and not run again.

use std::any::Any;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use conche_netsim::rng::{Entity, Purpose, Streams};
pub use conche_results::{CellId, ExchangeRows, Failure, Kept, Sample, Store};
use conche_results::{Origin, Run};
use cpu_time::ThreadTime;
use rand_core::RngCore;
use rayon::iter::{ParallelBridge, ParallelIterator};

use crate::scenario::ScenarioError;

/// What may differ from one invocation to the next without changing results.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// Threads; by default as many as there are cores.
    pub jobs: Option<NonZeroUsize>,
    /// Where runs are kept, and taken from; by default nowhere.
    pub store: Option<&'a Store>,
}

/// How far the runs are, in units of estimated work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Work done.
    pub done: u64,
    /// All work.
    pub total: u64,
    /// How many runs were not run again, because their results are kept.
    pub taken: u64,
}

/// Who is told of progress, from the threads that work.
pub type Watch<'a> = &'a (dyn Fn(Progress) + Sync);

/// One of the runs of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// Which one, counted from 0.
    pub index: u32,
    /// How many the cell has.
    pub count: u32,
    /// Where its random numbers come from.
    pub seed: u64,
}

/// What one run gives.
#[derive(Clone, Debug)]
pub struct Ran<T> {
    /// What was measured.
    pub outcome: T,
    /// How many events the simulator took.
    pub events: u64,
}

/// What simulating has cost. It depends on the machine, and so is no part of any result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Runs.
    pub runs: u64,
    /// Events of all runs.
    pub events: u64,
    /// CPU time that the runs took, added up over threads. Unlike the time that passes it says the same when others use the
    /// machine as well.
    pub cpu: Duration,
}

/// How a campaign has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// How many runs it has, with those that failed.
    pub runs: u64,
    /// How many of them were not run again.
    pub taken: u64,
    /// Those that failed, in the order of cells.
    pub failures: Vec<Failure>,
    /// What the others have cost.
    pub cost: Cost,
}

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Some of its values do not go together.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Its runs have more values than a table can have.
    #[error("cannot make a table of all runs: {0}")]
    Table(#[from] std::io::Error),
    /// The operating system gives no threads.
    #[error("cannot start the worker threads: {0}")]
    Threads(String),
}

/// What is compared in an experiment.
pub trait Cell: Sync {
    /// What a run of it gives.
    type Outcome: Send;

    /// What distinguishes it from the others.
    fn id(&self) -> CellId;

    /// Its name in errors.
    fn name(&self) -> String;

    /// How many replications it has.
    fn replications(&self) -> u32;

    /// About how long a run takes, in any unit that all cells of the experiment share.
    fn work(&self) -> u64;

    /// Runs it once, and adds its exchanges to those that are wanted, if it has any.
    ///
    /// # Errors
    /// Why it cannot be run, as a message to the user.
    fn run(&self, replication: Replication, exchanges: Option<&mut ExchangeRows>)
    -> Result<Ran<Self::Outcome>, String>;

    /// What is kept of a run.
    fn keep(&self, outcome: &Self::Outcome) -> Vec<Kept>;

    /// What a run gave, of which these samples were kept; `None` if it cannot have been of this cell.
    fn restore(&self, samples: Vec<Sample>) -> Option<Self::Outcome>;
}

/// For each cell, what each of its replications gave; `None` of one that failed.
pub type Outcomes<C> = Vec<Vec<Option<<C as Cell>::Outcome>>>;

/// Runs every cell as often as it says. For each cell, in their order, the answer has one outcome a replication.
///
/// # Errors
/// If there are no threads.
pub fn run<C: Cell>(
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
    // The longest first, so that no thread is left alone with one at the end.
    jobs.sort_by_key(|(cell, _)| std::cmp::Reverse(cells[*cell].work()));
    let total = jobs.iter().map(|(cell, _)| cells[*cell].work()).sum();
    let progress = Progress { done: 0, total, taken: 0 };
    let tally = Mutex::new((progress, Completion { runs: jobs.len() as u64, ..Completion::default() }));
    let one = |(place, index): (usize, u32)| {
        let cell = &cells[place];
        let began = ThreadTime::now();
        let replication = Replication { index, count: cell.replications(), seed: seed_of(origin.seed, index) };
        let kept = options.store.map(|store| (store, run_of(origin, cell, replication)));
        let taken = kept.as_ref().and_then(|(store, run)| store.taken(run, |samples| cell.restore(samples)));
        let is_taken = taken.is_some();
        let ran = match taken {
            Some(outcome) => Ok(Ran { outcome, events: 0 }),
            None => run_once(cell, replication, kept.as_ref()),
        };
        let cpu = began.elapsed();
        // A thread that panicked here has ended the experiment already.
        let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (progress, Completion { taken, cost, .. }) = &mut *tally;
        progress.done += cell.work();
        if is_taken {
            *taken += 1;
            progress.taken = *taken;
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
        let failed = |problem| Failure {
            scenario: origin.name.clone(),
            cell: cells[place].name(),
            replication: replication.index,
            seed: replication.seed,
            problem,
        };
        let outcome = ran.map(|ran| ran.outcome).map_err(|problem| completion.failures.push(failed(problem)));
        outcomes[place].push(outcome.ok());
    }
    Ok((outcomes, completion))
}

fn run_of(origin: &Origin, cell: &impl Cell, Replication { index, seed, .. }: Replication) -> Run {
    let (scenario, settings) = (origin.name.clone(), origin.settings.clone());
    Run { scenario, settings, cell: cell.id(), replication: index, seed }
}

/// Runs a cell, and keeps what it gives. What panics fails, and nothing else does.
fn run_once<C: Cell>(
    cell: &C,
    replication: Replication,
    kept: Option<&(&Store, Run)>,
) -> Result<Ran<C::Outcome>, String> {
    let mut exchanges = kept.and_then(|(store, _)| store.exchange_rows());
    let run = AssertUnwindSafe(|| cell.run(replication, exchanges.as_mut()));
    let ran = catch_unwind(run).unwrap_or_else(|panic| Err(format!("it panicked: {}", message(&*panic))))?;
    if let Some((store, run)) = kept {
        store.keep(run, ran.events, exchanges.as_ref(), &cell.keep(&ran.outcome));
    }
    Ok(ran)
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it does not say why")
}

/// As many threads as the options say.
pub(crate) fn threads(options: RunOptions<'_>) -> Result<rayon::ThreadPool, ExperimentError> {
    let threads = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.map_or(0, NonZeroUsize::get));
    threads.build().map_err(|error| ExperimentError::Threads(error.to_string()))
}

/// The seed of a replication, counted from 0, of an experiment with this seed: replications differ in nothing else.
#[must_use]
pub fn seed_of(seed: u64, replication: u32) -> u64 {
    let mut stream = Streams::new(seed).stream(Entity::Run, Purpose::named("replication"));
    (0..=replication).map(|_| stream.next_u64()).last().unwrap_or(seed)
}

impl Cost {
    /// Events a second of CPU time; `None` if nothing ran.
    #[must_use]
    pub fn events_per_second(&self) -> Option<f64> {
        (!self.cpu.is_zero()).then(|| self.events as f64 / self.cpu.as_secs_f64())
    }
}
