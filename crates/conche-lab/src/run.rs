//! All runs of a scenario, in parallel on all cores, with results that do not depend on how many there are.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_proto::cc::AnyController;
use rand_core::RngCore;
use rayon::iter::{IntoParallelRefIterator, ParallelBridge, ParallelIterator};

use crate::metrics::Measurements;
use crate::results::Key;
use crate::scenario::{Buffer, Network, Scenario, ScenarioError, Workload};
use crate::simulate::{Outcome, RunError, Setup};

/// What may differ from the scenario from one invocation to the next, without changing the experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Threads; by default as many as there are cores.
    pub jobs: Option<NonZeroUsize>,
}

/// How far a scenario's runs are, in units of estimated work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Work done.
    pub done: u64,
    /// All work.
    pub total: u64,
}

/// What the clients of one scheme went through in one cell, over all replications.
#[derive(Clone, Debug)]
pub struct CellResult {
    /// Which clients of which cell.
    pub key: Key,
    /// How many exchanges each of these clients completed.
    pub exchanges: u32,
    /// One outcome per replication, in their order.
    pub outcomes: Vec<Outcome>,
}

/// Why a scenario could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExperimentError {
    /// Some of its values do not go together.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run failed.
    #[error("{cell}, replication {replication}: {error}")]
    Run {
        /// Schemes, workload, clients and buffer.
        cell: String,
        /// Counted from 0.
        replication: u32,
        /// What happened.
        error: RunError,
    },
    /// The operating system gives no threads.
    #[error("cannot start the worker threads: {0}")]
    Threads(String),
}

/// Runs every combination of schemes and mixes, workloads, clients and buffers as often as the scenario says, and
/// measures each.
///
/// `progress` is called from the worker threads after each run. Results are in the scenario's order.
///
/// # Errors
/// If a scheme cannot be built, a run fails, or there are no threads.
pub fn run(
    scenario: &Scenario,
    options: RunOptions,
    progress: impl Fn(Progress) + Sync,
) -> Result<Vec<Measurements>, ExperimentError> {
    let cells = cells(scenario)?;
    let replications = scenario.replications.get();
    let mut jobs: Vec<Job> =
        (0..cells.len()).flat_map(|cell| (0..replications).map(move |replication| Job { cell, replication })).collect();
    // The longest first, so that no thread is left alone with one at the end.
    jobs.sort_by_key(|job| std::cmp::Reverse(cells[job.cell].work()));
    let total = jobs.iter().map(|job| cells[job.cell].work()).sum();
    let done = AtomicU64::new(0);
    let threads = rayon::ThreadPoolBuilder::new()
        .num_threads(options.jobs.map_or(0, NonZeroUsize::get))
        .build()
        .map_err(|error| ExperimentError::Threads(error.to_string()))?;
    threads.install(|| {
        let run = |job: Job| {
            let cell = &cells[job.cell];
            let outcome = cell.setup(scenario).run(seed_of(scenario.seed, job.replication));
            let done = done.fetch_add(cell.work(), Ordering::Relaxed) + cell.work();
            progress(Progress { done, total });
            (job, outcome)
        };
        let results = gather(&cells, jobs.into_iter().par_bridge().map(run).collect())?;
        Ok(results.par_iter().map(|cell| Measurements::of(cell, scenario.seed)).collect())
    })
}

/// One run to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    cell: usize,
    replication: u32,
}

/// A combination of schemes, workload, clients and buffer.
struct Cell<'a> {
    /// The schemes' names; several in a mix.
    schemes: Vec<&'a str>,
    mix: Option<&'a str>,
    controllers: Vec<AnyController>,
    workload: &'a Workload,
    clients: u32,
    buffer: &'a Buffer,
}

impl Cell<'_> {
    fn setup<'a>(&'a self, scenario: &'a Scenario) -> Setup<'a> {
        Setup {
            scenario,
            workload: self.workload,
            clients: self.clients,
            buffer: self.buffer,
            controllers: &self.controllers,
        }
    }

    /// About how long a run takes: exchanges, and the more copies of each the more clients share the buffer.
    fn work(&self) -> u64 {
        let exchanges = u64::from(self.clients) * u64::from(self.workload.exchanges.get());
        exchanges + exchanges * u64::from(self.clients) * self.buffer.size.0.min(100_000) / 10_000_000
    }

    fn key(&self, scheme: &str) -> Key {
        Key {
            scheme: scheme.to_owned(),
            mix: self.mix.map(str::to_owned),
            workload: self.workload.name.clone(),
            clients: self.clients,
            buffer: self.buffer.name.clone(),
        }
    }
}

fn cells(scenario: &Scenario) -> Result<Vec<Cell<'_>>, ScenarioError> {
    let Network::SharedBottleneck(network) = &scenario.network;
    let alone = scenario.schemes.iter().map(|scheme| (None, vec![scheme.name.as_str()]));
    let mixed = scenario
        .mixes
        .iter()
        .map(|mix| (Some(mix.name.as_str()), mix.schemes.iter().map(String::as_str).collect::<Vec<_>>()));
    let mut cells = Vec::new();
    for (mix, schemes) in alone.chain(mixed) {
        let controllers = schemes
            .iter()
            .filter_map(|name| scenario.scheme(name))
            .map(|scheme| scheme.build())
            .collect::<Result<Vec<_>, _>>()?;
        for workload in scenario.workloads.iter() {
            for clients in network.clients.iter().map(|clients| clients.get()) {
                // A mix in which a scheme has no client would be none.
                if (clients as usize) < schemes.len() {
                    continue;
                }
                for buffer in network.downlink.buffers.iter() {
                    let (schemes, controllers) = (schemes.clone(), controllers.clone());
                    cells.push(Cell { schemes, mix, controllers, workload, clients, buffer });
                }
            }
        }
    }
    Ok(cells)
}

/// Replications differ in nothing but their seed, which is the same under every scheme: common random numbers.
fn seed_of(seed: u64, replication: u32) -> u64 {
    let mut stream = Streams::new(seed).stream(Entity::Run, Purpose::named("replication"));
    (0..=replication).map(|_| stream.next_u64()).last().unwrap_or(seed)
}

fn gather(
    cells: &[Cell<'_>],
    mut outcomes: Vec<(Job, Result<Vec<Outcome>, RunError>)>,
) -> Result<Vec<CellResult>, ExperimentError> {
    outcomes.sort_by_key(|(job, _)| *job);
    let mut results: Vec<CellResult> = Vec::new();
    for (job, outcome) in outcomes {
        let cell = &cells[job.cell];
        let outcome = outcome.map_err(|error| ExperimentError::Run {
            cell: cell.key(&cell.schemes.join("+")).to_string(),
            replication: job.replication,
            error,
        })?;
        if job.replication == 0 {
            results.extend(cell.schemes.iter().map(|scheme| CellResult {
                key: cell.key(scheme),
                exchanges: cell.workload.exchanges.get(),
                outcomes: Vec::new(),
            }));
        }
        let first = results.len() - cell.schemes.len();
        for (result, outcome) in results[first..].iter_mut().zip(outcome) {
            result.outcomes.push(outcome);
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests;
