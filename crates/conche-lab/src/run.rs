//! All runs of a scenario of clients behind one bottleneck, and what is measured of them.

use conche_proto::cc::AnyController;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::campaign::{self, Cost, ExperimentError, Ran, Replication, RunOptions, Watch};
use crate::metrics::Measurements;
use crate::results::Key;
use crate::scenario::{Buffer, Network, Scenario, ScenarioError, Workload};
use crate::simulate::{Outcome, Setup};

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

/// Runs every combination of schemes and mixes, workloads, clients and buffers as often as the scenario says, and
/// measures each. Results are in the scenario's order.
///
/// # Errors
/// If a scheme cannot be built, a run fails, or there are no threads.
pub fn run(
    scenario: &Scenario,
    options: RunOptions,
    watch: Watch<'_>,
) -> Result<(Vec<Measurements>, Cost), ExperimentError> {
    let cells = cells(scenario)?;
    let (outcomes, cost) = campaign::run(&cells, scenario.seed, options, watch)?;
    let results: Vec<CellResult> =
        cells.iter().zip(outcomes).flat_map(|(cell, outcomes)| cell.by_scheme(outcomes)).collect();
    let measure = || results.par_iter().map(|cell| Measurements::of(cell, scenario.seed)).collect();
    Ok((campaign::threads(options)?.install(measure), cost))
}

/// A combination of schemes, workload, clients and buffer.
struct Combination<'a> {
    scenario: &'a Scenario,
    /// The schemes' names; several in a mix.
    schemes: Vec<&'a str>,
    mix: Option<&'a str>,
    controllers: Vec<AnyController>,
    workload: &'a Workload,
    clients: u32,
    buffer: &'a Buffer,
}

impl Combination<'_> {
    fn setup(&self) -> Setup<'_> {
        Setup {
            scenario: self.scenario,
            workload: self.workload,
            clients: self.clients,
            buffer: self.buffer,
            controllers: &self.controllers,
        }
    }

    /// One result for each scheme, out of what each replication gave for all of them.
    fn by_scheme(&self, replications: Vec<Vec<Outcome>>) -> Vec<CellResult> {
        let result = |scheme: &&str| CellResult {
            key: self.key(scheme),
            exchanges: self.workload.exchanges.get(),
            outcomes: Vec::new(),
        };
        let mut results: Vec<CellResult> = self.schemes.iter().map(result).collect();
        for outcomes in replications {
            for (result, outcome) in results.iter_mut().zip(outcomes) {
                result.outcomes.push(outcome);
            }
        }
        results
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

impl campaign::Cell for Combination<'_> {
    type Outcome = Vec<Outcome>;

    fn name(&self) -> String {
        self.key(&self.schemes.join("+")).to_string()
    }

    fn replications(&self) -> u32 {
        self.scenario.replications.get()
    }

    /// Exchanges, and the more copies of each the more clients share the buffer.
    fn work(&self) -> u64 {
        let exchanges = u64::from(self.clients) * u64::from(self.workload.exchanges.get());
        exchanges + exchanges * u64::from(self.clients) * self.buffer.size.0.min(100_000) / 10_000_000
    }

    fn run(&self, replication: Replication) -> Result<Ran<Vec<Outcome>>, String> {
        self.setup().run(replication.seed).map_err(|error| error.to_string())
    }
}

fn cells(scenario: &Scenario) -> Result<Vec<Combination<'_>>, ScenarioError> {
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
                    cells.push(Combination { scenario, schemes, mix, controllers, workload, clients, buffer });
                }
            }
        }
    }
    Ok(cells)
}

#[cfg(test)]
mod tests;
