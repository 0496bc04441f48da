//! One run: a cell of a scenario under one seed, in virtual time.
//!
//! Clients and server are nodes that run conche's own endpoint; nothing here retransmits, matches or queues. What is
//! random belongs to an entity and a purpose, so that the same replication has the same jitter, processing times, batches
//! and dithering draws under every scheme.

mod application;
mod client;
mod network;
mod server;
mod tally;

use std::time::Duration;

use conche_netsim::node::Node;
use conche_netsim::rng::{Entity, Purpose};
use conche_netsim::{Ended, Simulation};
use conche_proto::cc::{AnyController, Instant};
use conche_proto::{EndpointConfig, SharedConfig};

use crate::campaign::Ran;
use crate::scenario::{Buffer, Endpoint, Scenario, Workload};
use crate::workload::Parameters;
use application::Application;
use client::Client;
use server::Server;
use tally::Tally;

/// What one run is made of.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// Where everything that all runs share comes from.
    pub scenario: &'a Scenario,
    /// How clients work.
    pub workload: &'a Workload,
    /// How many clients there are.
    pub clients: u32,
    /// The buffer in front of the bottleneck.
    pub buffer: &'a Buffer,
    /// The controllers; client i runs controller i modulo their number.
    pub controllers: &'a [AnyController],
}

/// What the clients of one controller went through in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Of each client: nanoseconds from the start to the last of its exchanges.
    pub completion_nanos: Vec<u64>,
    /// Of each client: copies that were sent although an earlier one of the same exchange got through, both ways.
    pub unnecessary: Vec<u64>,
    /// How many exchanges succeeded after 0, 1, 2, … MAX_RETRANSMIT retransmissions.
    pub retransmissions: Vec<u64>,
    /// Exchanges that failed; the client opened another one for each.
    pub failed: u64,
    /// Requests that were sent, originals and repetitions.
    pub copies: u64,
    /// Requests or responses that were lost.
    pub dropped: u64,
}

/// A run that came to no end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The scenario's network or endpoints make no sense together.
    #[error("the scenario cannot be run: {0}")]
    Setup(String),
    /// The time limit passed.
    #[error(
        "after {limit:?} of virtual time client {client} has completed {completed} of {exchanges} exchanges; \
         give it more time_limit or a network that lets it finish"
    )]
    Unfinished {
        /// The first client that was not done.
        client: u32,
        /// How many of its exchanges had succeeded.
        completed: u32,
        /// How many should have.
        exchanges: u32,
        /// The scenario's time limit.
        limit: Duration,
    },
}

impl Setup<'_> {
    /// Runs it under this seed, until every client is done and the network is empty; one outcome per controller.
    ///
    /// # Errors
    /// If it cannot start, or does not end within the scenario's time limit.
    pub fn run(&self, seed: u64) -> Result<Ran<Vec<Outcome>>, RunError> {
        let mut simulation = self.prepare(seed)?;
        let limit = self.scenario.time_limit.0;
        let ended = simulation.run_until(Instant::ZERO + limit);
        let events = simulation.events();
        let (nodes, tally) = simulation.into_parts();
        let clients = nodes.iter().filter_map(|(id, node)| match node.application() {
            Application::Client(client) => Some((*id, client)),
            Application::Server(_) => None,
        });
        let possible = usize::from(self.scenario.endpoint.max_retransmit) + 1;
        let none = Outcome { retransmissions: vec![0; possible], ..Outcome::default() };
        let mut outcomes = vec![none; self.controllers.len()];
        for (index, (id, client)) in (0..).zip(clients) {
            let Some(completed) = client.completed_at() else {
                debug_assert_eq!(ended, Ended::Limit, "an idle network has clients that wait for nothing");
                return Err(RunError::Unfinished {
                    client: index,
                    completed: client.completed(),
                    exchanges: self.workload.exchanges.get(),
                    limit,
                });
            };
            let outcome = &mut outcomes[index as usize % self.controllers.len()];
            outcome.completion_nanos.push(completed.as_nanos());
            outcome.add(client, tally.of(id));
        }
        Ok(Ran { outcome: outcomes, events })
    }

    fn prepare(&self, seed: u64) -> Result<Simulation<Node<Application>, Tally>, RunError> {
        let impossible = |problem: String| RunError::Setup(problem);
        let (topology, sites) =
            network::build(&self.scenario.network, &self.scenario.server, self.clients, self.buffer);
        let tally = Tally::new(topology.nodes().count());
        let mut simulation = Simulation::new(&topology, seed, tally).map_err(|error| impossible(error.to_string()))?;
        let streams = simulation.streams();
        let config = SharedConfig::from(endpoint_config(&self.scenario.endpoint));
        let server = Application::Server(Server::new(&self.scenario.server, &self.scenario.endpoint));
        let clients = sites.clients.iter().zip(self.controllers.iter().cycle()).map(|(id, controller)| {
            (*id, controller.clone(), Application::Client(Client::new(sites.server, self.workload)))
        });
        for (id, controller, application) in clients.chain([(sites.server, self.controllers[0].clone(), server)]) {
            let seed = streams.seed_bytes(Entity::Node(id), Purpose::named("endpoint"));
            let node = Node::new(config.clone(), controller, seed, application)
                .map_err(|error| impossible(error.to_string()))?;
            simulation.attach(id, node).map_err(|error| impossible(error.to_string()))?;
        }
        Ok(simulation)
    }
}

fn endpoint_config(endpoint: &Endpoint) -> EndpointConfig {
    let parameters = Parameters {
        max_retransmit: endpoint.max_retransmit,
        nstart: endpoint.nstart,
        timeout_cap: endpoint.timeout_cap.0,
        token_length: endpoint.token_length.into(),
        response_timeout: None,
    };
    parameters.config()
}

impl Outcome {
    fn add(&mut self, client: &Client, sent: tally::OfNode) {
        self.unnecessary.push(client.unnecessary());
        for (retransmissions, count) in client.retransmissions().iter().enumerate() {
            self.retransmissions[retransmissions] += u64::from(*count);
        }
        self.failed += client.failed();
        self.copies += sent.copies;
        self.dropped += sent.dropped;
    }
}

#[cfg(test)]
mod tests;
