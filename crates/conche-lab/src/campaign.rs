//! Many independent runs, in parallel on all cores, with results that do not depend on how many there are.
//!
//! An experiment is a list of cells (what is compared), each of which runs several times under other random numbers
//! (replications). The seed of a replication is the same in every cell: common random numbers.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Duration;

use conche_netsim::rng::{Entity, Purpose, Streams};
use cpu_time::ThreadTime;
use rand_core::RngCore;
use rayon::iter::{ParallelBridge, ParallelIterator};

use crate::scenario::ScenarioError;

/// What may differ from one invocation to the next without changing results.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Threads; by default as many as there are cores.
    pub jobs: Option<NonZeroUsize>,
}

/// How far the runs are, in units of estimated work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Work done.
    pub done: u64,
    /// All work.
    pub total: u64,
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

/// Why an experiment could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExperimentError {
    /// Some of its values do not go together.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run failed.
    #[error("{cell}, replication {replication}: {problem}")]
    Run {
        /// Which cell.
        cell: String,
        /// Counted from 0.
        replication: u32,
        /// What happened.
        problem: String,
    },
    /// The operating system gives no threads.
    #[error("cannot start the worker threads: {0}")]
    Threads(String),
}

/// What is compared in an experiment.
pub trait Cell: Sync {
    /// What a run of it gives.
    type Outcome: Send;

    /// Its name in errors.
    fn name(&self) -> String;

    /// How many replications it has.
    fn replications(&self) -> u32;

    /// About how long a run takes, in any unit that all cells of the experiment share.
    fn work(&self) -> u64;

    /// Runs it once.
    ///
    /// # Errors
    /// Why it cannot be run, as a message to the user.
    fn run(&self, replication: Replication) -> Result<Ran<Self::Outcome>, String>;
}

/// For each cell, what each of its replications gave.
pub type Outcomes<C> = Vec<Vec<<C as Cell>::Outcome>>;

/// Runs every cell as often as it says. For each cell, in their order, the answer has one outcome a replication.
///
/// # Errors
/// The first run, in the order of cells, that fails; or if there are no threads.
pub fn run<C: Cell>(
    cells: &[C],
    seed: u64,
    options: RunOptions,
    watch: Watch<'_>,
) -> Result<(Outcomes<C>, Cost), ExperimentError> {
    let mut jobs: Vec<(usize, u32)> = cells
        .iter()
        .enumerate()
        .flat_map(|(cell, of)| (0..of.replications()).map(move |index| (cell, index)))
        .collect();
    // The longest first, so that no thread is left alone with one at the end.
    jobs.sort_by_key(|(cell, _)| std::cmp::Reverse(cells[*cell].work()));
    let total = jobs.iter().map(|(cell, _)| cells[*cell].work()).sum();
    let tally = Mutex::new((Progress { done: 0, total }, Cost::default()));
    let one = |(place, index): (usize, u32)| {
        let cell = &cells[place];
        let began = ThreadTime::now();
        let replication = Replication { index, count: cell.replications(), seed: seed_of(seed, index) };
        let ran = cell.run(replication);
        let cpu = began.elapsed();
        // A thread that panicked has ended the experiment already.
        let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (progress, cost) = &mut *tally;
        progress.done += cell.work();
        cost.runs += 1;
        cost.events += ran.as_ref().map_or(0, |ran| ran.events);
        cost.cpu += cpu;
        watch(*progress);
        ((place, index), ran)
    };
    let mut all: Vec<_> = threads(options)?.install(|| jobs.into_iter().par_bridge().map(one).collect());
    all.sort_by_key(|(job, _)| *job);
    let mut outcomes: Outcomes<C> = cells.iter().map(|_| Vec::new()).collect();
    for ((place, replication), ran) in all {
        let failed = |problem| ExperimentError::Run { cell: cells[place].name(), replication, problem };
        outcomes[place].push(ran.map_err(failed)?.outcome);
    }
    let (_, cost) = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok((outcomes, cost))
}

/// As many threads as the options say.
pub(crate) fn threads(options: RunOptions) -> Result<rayon::ThreadPool, ExperimentError> {
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

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.events += other.events;
        self.cpu += other.cpu;
    }
}
