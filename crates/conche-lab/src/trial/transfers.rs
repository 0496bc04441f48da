//! Bulk transfers: between self-routing motes, and over wires by TCP.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use conche_netsim::mote::{Mote, MoteConfig, Role, Router};
use conche_netsim::routing::aodv::{Aodv, AodvConfig};
use conche_netsim::transport::bulk::{Bulk, End};
use conche_netsim::transport::tcp::{Acknowledgments, Receiver, Sender, SenderConfig};
use conche_netsim::{Instant, NodeId, RadioId, Simulation};
use conche_proto::cc::AnyController;

use super::error::TrialError;
use super::network::Network;
use super::record::{Control, Flow, Record, Transferred};
use crate::campaign::Replication;
use crate::scenario::{Nodes, Radio, Routing, Scenario, Tcp, Transfer};
use crate::units::Size;
use crate::workload::{Tally, Timer};

#[derive(Clone, Debug)]
pub(super) struct Mesh {
    pub(super) radio: RadioId,
    pub(super) nodes: Vec<NodeId>,
    pub(super) routing: Routing,
}

#[derive(Clone, Debug)]
pub(super) struct PlannedTransfer {
    /// Index of its flow.
    pub(super) place: usize,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) control: Control,
    pub(super) transfer: Transfer,
    /// With frozen routes.
    pub(super) route: Option<Route>,
}

type Host = Mote<AnyController, Timer>;

impl PlannedTransfer {
    pub(super) fn mote(&self, mesh: &Mesh, node: NodeId, controller: AnyController) -> Host {
        let Self { from, to, transfer, route, .. } = self;
        let router = match &mesh.routing {
            Routing::Aodv(aodv) => router(node, aodv),
            _ => Router::Frozen(route.iter().flat_map(|route| route.next_hops(node)).collect()),
        };
        let role = if node == *to {
            Role::Sink(*from, Receiver::new(transfer.segments.get(), transfer.acknowledgments))
        } else if node == *from {
            let config = SenderConfig {
                segments: transfer.segments.get(),
                segment_bytes: u32::try_from(transfer.datagram_octets()).unwrap_or(u32::MAX),
                window_limit: transfer.window.get(),
                min_rto: transfer.min_rto.0,
                max_timeouts: transfer.max_timeouts.get(),
                acknowledgments: transfer.acknowledgments,
            };
            Role::Source(*to, Sender::new(config, controller, Instant::ZERO))
        } else {
            Role::Relay
        };
        Mote::new(node, mote_config(mesh.radio, transfer), router, role)
    }

    pub(super) fn measure(&self, record: &mut Record, motes: &BTreeMap<NodeId, Host>) {
        record.handed_over = motes.values().map(|mote| mote.stats().handed_over).sum();
        record.given_up = motes.values().map(|mote| mote.stats().given_up).sum();
        let Self { place, from, to, transfer, .. } = self;
        let (Some(source), Some(sink)) = (motes.get(from), motes.get(to)) else { return };
        let (Role::Source(_, sender), Role::Sink(_, receiver)) = (source.role(), sink.role()) else { return };
        let (stats, done) = (sender.stats(), receiver.completed());
        let flow = &mut record.flows[*place];
        flow.tally = Tally::of_one(done);
        let round_trip = stats.round_trips.as_secs_f64() / f64::from(stats.samples);
        flow.transfer = Some(Transferred {
            bytes: transfer.payload.0 * u64::from(transfer.segments.get()),
            arrived: transfer.payload.0 * u64::from(receiver.received()),
            mean_round_trip_s: Some(round_trip).filter(|_| stats.samples > 0),
            routes: source.stats().routes_found.clone(),
        });
    }
}

fn mote_config(radio: RadioId, transfer: &Transfer) -> MoteConfig {
    // Both fit a frame, as checked.
    let octets = |size: Size| u8::try_from(size.0).unwrap_or(u8::MAX);
    let (header_octets, payload_octets) = (octets(transfer.header), octets(transfer.payload));
    MoteConfig { radio, header_octets, payload_octets, processing: transfer.processing.0 }
}

/// Mixes seeds, so that neighbouring ones give different runs.
pub(super) fn mixed_seed(seed: u64, number: u64) -> u64 {
    seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) there: Vec<NodeId>,
    pub(super) back: Vec<NodeId>,
}

/// Frozen routes, shared by an experiment's cells.
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

    pub(super) fn next_hops(&self, at: NodeId) -> impl Iterator<Item = (NodeId, NodeId)> {
        let next = move |way: &Vec<NodeId>| {
            let place = way.iter().position(|node| *node == at)?;
            Some((*way.last()?, *way.get(place + 1)?))
        };
        [&self.there, &self.back].into_iter().filter_map(next)
    }
}

impl Routes {
    pub(super) fn of_hops(
        &self,
        scenario: &Scenario,
        transfer: &Transfer,
        pairs: Vec<(NodeId, NodeId)>,
        hops: u8,
        number: u32,
    ) -> Result<((NodeId, NodeId), Route), TrialError> {
        let mut discovery = scenario.clone();
        for radio in &mut discovery.radios {
            if let Routing::Frozen { aodv, mac } = &radio.routing {
                (radio.mac, radio.routing) = (**mac, Routing::Aodv(aodv.clone()));
            }
        }
        let Scenario { nodes, radios, seed, .. } = discovery.clone();
        let testbed = Testbed { nodes, radios, seed, pairs };
        // The lock makes cells wait for one discovery.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|(of, _)| *of == testbed).unwrap_or_else(|| {
            known.push((testbed, Vec::new()));
            known.len() - 1
        });
        let (Testbed { pairs, .. }, found) = &mut known[place];
        let mut left = number;
        for (number, pair) in pairs.iter().enumerate() {
            if number == found.len() {
                found.push(discover_route(&discovery, transfer, pair.0, pair.1, number as u64)?);
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
    from: NodeId,
    to: NodeId,
    number: u64,
) -> Result<Option<Route>, TrialError> {
    let network = Network::new(scenario, Replication { index: 0, count: 1, seed: scenario.seed })?;
    let seed = mixed_seed(scenario.seed, number);
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

fn router(node: NodeId, aodv: &AodvConfig) -> Router {
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

#[derive(Clone, Debug)]
pub(super) struct PlannedTcp {
    /// Index of its flow.
    pub(super) place: usize,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) control: Control,
    pub(super) tcp: Tcp,
}

type WiredHost = Bulk<AnyController, Timer>;

impl PlannedTcp {
    pub(super) fn host(&self, node: NodeId, controller: AnyController) -> WiredHost {
        let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        let (header, payload) = (bytes(self.tcp.header), bytes(self.tcp.payload));
        if node == self.to {
            let receiver = Receiver::new(self.tcp.segments.get(), Acknowledgments::Cumulative);
            return Bulk::new(self.from, End::Sink(receiver), header, payload);
        }
        let config = SenderConfig {
            segments: self.tcp.segments.get(),
            segment_bytes: u32::try_from(header + payload).unwrap_or(u32::MAX),
            window_limit: self.tcp.window.get(),
            min_rto: self.tcp.min_rto.0,
            max_timeouts: self.tcp.max_timeouts.get(),
            acknowledgments: Acknowledgments::Cumulative,
        };
        let sender = Sender::new(config, controller, Instant::ZERO).with_reno();
        Bulk::new(self.to, End::Source(sender), header, payload)
    }

    pub(super) fn measure(&self, flows: &mut [Flow], hosts: &BTreeMap<NodeId, WiredHost>) {
        let ends = (hosts.get(&self.from).map(Bulk::end), hosts.get(&self.to).map(Bulk::end));
        let (Some(End::Source(sender)), Some(End::Sink(receiver))) = ends else { return };
        let stats = sender.stats();
        let round_trip = stats.round_trips.as_secs_f64() / f64::from(stats.samples);
        let flow = &mut flows[self.place];
        flow.tally = Tally::of_one(receiver.completed());
        flow.transfer = Some(Transferred {
            bytes: self.tcp.payload.0 * u64::from(self.tcp.segments.get()),
            arrived: self.tcp.payload.0 * u64::from(receiver.received()),
            mean_round_trip_s: Some(round_trip).filter(|_| stats.samples > 0),
            routes: Vec::new(),
        });
    }
}
