//! Routes of a testbed, discovered before any run and then frozen.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use conche_netsim::mote::{Mote, Role, Router};
use conche_netsim::routing::aodv::{Aodv, AodvConfig};
use conche_netsim::{Instant, NodeId, Simulation};
use conche_proto::cc::AnyController;

use super::error::TrialError;
use super::network::Network;
use super::transfers::{Mesh, mote_config, seed_apart};
use crate::campaign::Replication;
use crate::scenario::{Nodes, Radio, Routing, Scenario, Transfer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) there: Vec<NodeId>,
    pub(super) back: Vec<NodeId>,
}

/// Routes discovered so far, shared by an experiment's cells.
#[derive(Debug, Default)]
pub struct Routes(Mutex<Vec<(Testbed, Vec<Option<Route>>)>>);

#[derive(Debug, PartialEq)]
struct Testbed {
    nodes: Vec<Nodes>,
    radios: Vec<Radio>,
    seed: u64,
    pairs: Vec<(NodeId, NodeId)>,
}

impl Route {
    pub(super) fn hops(&self) -> usize {
        self.there.len() - 1
    }

    /// Returns a mote's next hop toward each end.
    pub(super) fn next_hops(&self, at: NodeId) -> impl Iterator<Item = (NodeId, NodeId)> {
        let next = move |way: &Vec<NodeId>| {
            let place = way.iter().position(|node| *node == at)?;
            Some((*way.last()?, *way.get(place + 1)?))
        };
        [&self.there, &self.back].into_iter().filter_map(next)
    }
}

impl Routes {
    /// The `number`-th pair with a route of `hops` hops, in order, and the route.
    ///
    /// # Errors
    /// If there are too few such pairs, or the network is invalid.
    pub(super) fn of_hops(
        &self,
        scenario: &Scenario,
        transfer: &Transfer,
        pairs: Vec<(NodeId, NodeId)>,
        (hops, number): (u8, u32),
    ) -> Result<((NodeId, NodeId), Route), TrialError> {
        let mut discovery = scenario.clone();
        for radio in &mut discovery.radios {
            if let Routing::Frozen { aodv, mac } = &radio.routing {
                (radio.mac, radio.routing) = (**mac, Routing::Aodv(aodv.clone()));
            }
        }
        let Scenario { nodes, radios, seed, .. } = discovery.clone();
        let testbed = Testbed { nodes, radios, seed, pairs };
        // Under the lock, cells wait for one discovery.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|(of, _)| *of == testbed).unwrap_or_else(|| {
            known.push((testbed, Vec::new()));
            known.len() - 1
        });
        let (Testbed { pairs, .. }, found) = &mut known[place];
        let mut left = number;
        for (number, pair) in pairs.iter().enumerate() {
            if number == found.len() {
                found.push(discover_route(&discovery, transfer, *pair, number as u64)?);
            }
            match &found[number] {
                Some(route) if route.hops() == usize::from(hops) && left == 0 => return Ok((*pair, route.clone())),
                Some(route) if route.hops() == usize::from(hops) => left -= 1,
                _ => {}
            }
        }
        Err(TrialError::TooFewRoutes { pairs: number - left, hops })
    }
}

fn discover_route(
    scenario: &Scenario,
    transfer: &Transfer,
    (from, to): (NodeId, NodeId),
    number: u64,
) -> Result<Option<Route>, TrialError> {
    let network = Network::new(scenario, Replication { index: 0, count: 1, seed: scenario.seed })?;
    let seed = seed_apart(scenario.seed, number);
    let mut simulation = Simulation::<Mote<AnyController>>::new(&network.topology, seed, ())?;
    let simulation = &mut simulation;
    for Mesh { radio, nodes, routing } in &network.meshes {
        let Routing::Aodv(aodv) = routing else { continue };
        for node in nodes {
            let role = if *node == from { Role::Seeker(to) } else { Role::Relay };
            let mote = Mote::new(*node, mote_config(*radio, transfer), router(*node, aodv), role);
            simulation.attach(*node, mote)?;
        }
    }
    let limit = scenario.duration.or(scenario.time_limit).map_or(Duration::MAX, |span| span.0);
    simulation.run_until(Instant::ZERO + limit);
    let route = |from, to| follow_route(simulation, from, to);
    Ok(route(from, to).zip(route(to, from)).map(|(there, back)| Route { there, back }))
}

pub(super) fn router(node: NodeId, aodv: &AodvConfig) -> Router {
    Router::Aodv(Box::new(Aodv::new(node, aodv.clone())))
}

fn follow_route(simulation: &Simulation<Mote<AnyController>>, from: NodeId, to: NodeId) -> Option<Vec<NodeId>> {
    let mut way = vec![from];
    while let Some(at) = way.last().filter(|at| **at != to) {
        let Router::Aodv(aodv) = simulation.host(*at)?.router() else { return None };
        let next = aodv.next_hop(to).filter(|next| !way.contains(next))?;
        way.push(next);
    }
    Some(way)
}
