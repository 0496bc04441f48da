//! Assigns servers to clients.

use conche_netsim::NodeId;
use conche_netsim::rng::{Entity, Purpose, Streams};

use super::error::TrialError;
use super::network::Network;
use crate::scenario::{Pairs, Traffic};

/// Returns clients and servers of flows. `streams` belong to the run, or to all runs if they share
/// pairs.
///
/// # Errors
/// If the traffic names unknown nodes.
pub(super) fn of(traffic: &Traffic, network: &Network, streams: &Streams) -> Result<Vec<(NodeId, NodeId)>, TrialError> {
    let named = |reference| network.nodes(reference).map_err(|problem| problem.of_traffic(&traffic.name));
    let (clients, servers) = (named(&traffic.from)?, named(&traffic.to)?);
    let mut pairs: Vec<(NodeId, NodeId)> = match traffic.pairs {
        Pairs::Dealt => {
            let count = clients.len().max(servers.len());
            (0..count).map(|index| (clients[index % clients.len()], servers[index % servers.len()])).collect()
        }
        Pairs::All => {
            let all = clients.iter().flat_map(|client| servers.iter().map(|server| (*client, *server)));
            all.filter(|(client, server)| client != server).collect()
        }
    };
    if let Some(name) = &traffic.shuffle {
        streams.stream(Entity::Run, Purpose::named(name)).shuffle(&mut pairs);
    }
    let take = traffic.take.map_or(usize::MAX, |take| take as usize);
    pairs = pairs.into_iter().skip(traffic.skip as usize).take(take).collect();
    match pairs.iter().find(|(client, server)| client == server) {
        Some(_) => Err(TrialError::AsksItself.of_traffic(&traffic.name)),
        None => Ok(pairs),
    }
}
