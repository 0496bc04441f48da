//! Builds a scenario's topology.

use std::collections::{BTreeMap, HashMap};
use std::f64::consts::TAU;
use std::sync::Arc;

use conche_netsim::mac::RadioConfig;
use conche_netsim::radio::{MediumConfig, PathLoss, Position, Sinr};
use conche_netsim::rng::{Entity, Purpose, Stream, Streams};
use conche_netsim::routing::RplTree;
use conche_netsim::wired::{LinkConfig, Topology};
use conche_netsim::{BitRate, LinkId, NodeId, RadioId};
use conche_proto::PathKey;

use super::error::TrialError;
use super::measured_links;
use super::transfers::Mesh;
use crate::campaign::Replication;
use crate::scenario::{Draw, Link, Nodes, Placement, Radio, Routing, Scenario, Selected, Spread};
use crate::stats::normal_quantile;

const PREFIX_BITS: u8 = 64;

pub(super) struct Network {
    pub(super) topology: Topology,
    groups: BTreeMap<String, Vec<NodeId>>,
    pub(super) prefixes: Arc<[PathKey]>,
    /// Links by name: one per group member and direction.
    links: BTreeMap<String, Vec<LinkId>>,
    pub(super) radios: Vec<RadioId>,
    /// Radio hops from each node to its root.
    pub(super) hops: HashMap<NodeId, u16>,
    pub(super) meshes: Vec<Mesh>,
    /// Border routers, and motes missing in their full tables.
    unknown: Vec<(NodeId, NodeId)>,
}

impl Network {
    /// Keeps the scenario's order, so that additions at its end leave other random streams
    /// unchanged.
    pub(super) fn new(scenario: &Scenario, replication: Replication) -> Result<Self, TrialError> {
        let mut network = Self {
            topology: Topology::new(),
            groups: BTreeMap::new(),
            prefixes: Arc::default(),
            links: BTreeMap::new(),
            radios: Vec::new(),
            hops: HashMap::new(),
            meshes: Vec::new(),
            unknown: Vec::new(),
        };
        let mut prefixes = Vec::new();
        for nodes in scenario.nodes.iter() {
            let topology = &mut network.topology;
            let members = nodes.names().map(|name| topology.node(name)).collect();
            let first = prefixes.last().map_or(0, |last: &PathKey| last.prefix() >> PREFIX_BITS) + 1;
            let each = nodes.size().div_ceil(nodes.prefixes.map_or(1, |prefixes| prefixes.get())).max(1);
            let prefix =
                |place: u32| PathKey::new((first + u128::from(place / each)) << PREFIX_BITS, 128 - PREFIX_BITS);
            prefixes.extend((0..nodes.size()).map(prefix));
            network.groups.insert(nodes.name.clone(), members);
        }
        network.prefixes = prefixes.into();
        for radio in &scenario.radios {
            let seed = if radio.fixed { scenario.seed } else { replication.seed };
            network.radio(scenario, radio, seed)?;
        }
        for link in &scenario.links {
            network.link(link, replication)?;
        }
        for nat in &scenario.nats {
            let (at, inside) = (network.nodes(&nat.at), network.nodes(&nat.inside));
            for (index, node) in inside.iter().enumerate() {
                network.topology.nat(*node, at[index / (inside.len() / at.len())], nat.timeout.0);
            }
        }
        for (root, mote) in std::mem::take(&mut network.unknown) {
            network.topology.no_route(root, mote);
        }
        Ok(network)
    }

    /// Resolves `mote`, `mote[3]` or `mote[1..4]`, whose nodes the scenario's reader has checked.
    pub(super) fn nodes(&self, reference: &str) -> Vec<NodeId> {
        let Selected { group, members } = Selected::parse(reference).expect("a checked reference");
        let all = &self.groups[group];
        let Some(members) = members else { return all.clone() };
        members.into_iter().flat_map(|range| &all[range.start as usize..range.end as usize]).copied().collect()
    }

    /// Returns a group's links, which the scenario's reader has checked.
    pub(super) fn links(&self, name: &str) -> &[LinkId] {
        &self.links[name]
    }

    /// Returns links, and marks them as changing.
    pub(super) fn changing(&mut self, name: &str) -> Vec<LinkId> {
        let links = self.links(name).to_vec();
        links.iter().for_each(|link| self.topology.allow_changes(*link));
        links
    }

    /// Marks all wired links as changing.
    pub(super) fn allow_all_changes(&mut self) {
        let links = self.topology.links().map(|(link, _)| link).filter(|link| !self.topology.is_hop(*link));
        links.collect::<Vec<_>>().into_iter().for_each(|link| self.topology.allow_changes(link));
    }

    fn link(&mut self, link: &Link, replication: Replication) -> Result<(), TrialError> {
        let of = |problem: TrialError| problem.of_link(&link.name);
        let ends = link.ends()?;
        let (from, to) = (self.nodes(ends.from), self.nodes(ends.to));
        let count = from.len().max(to.len());
        if [&from, &to].iter().any(|nodes| !count.is_multiple_of(nodes.len())) {
            return Err(of(TrialError::Unpaired { from: from.len(), to: to.len() }));
        }
        let rate =
            link.wire.rate.map(|mean| link.spread.map_or(mean, |spread| rate(spread, mean, &link.name, replication)));
        let wire = LinkConfig { rate, ..link.wire };
        let mut made = Vec::new();
        for index in 0..count {
            let name = if count == 1 { link.name.clone() } else { format!("{}[{index}]", link.name) };
            // Members of the smaller group share the larger equally, in order.
            let [from, to] = [&from, &to].map(|nodes| nodes[index / (count / nodes.len())]);
            // A router without a route to the mote also lacks its hosts.
            let behind =
                |mote, host| self.unknown.iter().filter(move |(_, of)| *of == mote).map(move |(root, _)| (*root, host));
            let back = ends.both_ways.then(|| behind(to, from)).into_iter().flatten();
            let unknown: Vec<_> = behind(from, to).chain(back).collect();
            self.unknown.extend(unknown);
            if ends.both_ways {
                let (there, back) = self.topology.duplex(name, from, to, wire);
                made.extend([there, back]);
            } else {
                made.push(self.topology.link(name, from, to, wire));
            }
        }
        if let Some(trace) = &link.trace {
            let rates = trace.rates(&link.name)?;
            made.iter().for_each(|made| self.topology.rates(*made, rates.clone(), trace.start.map(|start| start.0)));
        }
        self.links.insert(link.name.clone(), made);
        Ok(())
    }

    /// `seed` draws places, links and tree.
    fn radio(&mut self, scenario: &Scenario, radio: &Radio, seed: u64) -> Result<(), TrialError> {
        let of = |problem: TrialError| problem.of_radio(&radio.name);
        let streams = Streams::new(seed);
        let mut stations = Vec::new();
        for station in radio.stations.iter() {
            let members = self.nodes(station);
            let group = scenario.nodes.iter().find(|nodes| nodes.name == *station);
            let places = group.and_then(|nodes| positions(nodes, &streams));
            let places = places.ok_or_else(|| of(TrialError::Unplaced(station.clone())))?;
            stations.extend(members.into_iter().zip(places));
        }
        let places: Vec<Position> = stations.iter().map(|(_, place)| *place).collect();
        let mut links = streams.stream(Entity::Run, Purpose::named("links"));
        let mut medium = measured_links::medium(radio, &places, &mut links).map_err(of)?;
        if let (true, MediumConfig::Sinr(Sinr { path_loss, .. })) = (radio.fixed, &mut medium) {
            *path_loss = PathLoss::Matrix(path_loss.between_all(&places, &streams));
        }
        let id = self.topology.radio(&radio.name, RadioConfig { medium: medium.clone(), mac: radio.mac });
        self.radios.push(id);
        for (node, place) in &stations {
            self.topology.place(id, *node, *place);
        }
        let Routing::Rpl { root, tree, psdu_octets, routes } = &radio.routing else {
            let nodes = stations.into_iter().map(|(node, _)| node).collect();
            self.meshes.push(Mesh { radio: id, nodes, routing: radio.routing.clone() });
            return Ok(());
        };
        let root = self.nodes(root)[0];
        let quality = self.topology.link_quality(id, seed, *psdu_octets).map_err(|error| of(error.into()))?;
        let quality = measured_links::waking(quality, &medium, radio.mac.rdc);
        let tree = RplTree::new(&quality, root, *tree, &mut streams.stream(Entity::Run, Purpose::named("rpl")));
        let unreached = tree.unreached().count();
        if unreached > 0 {
            return Err(of(TrialError::Unreached(unreached)));
        }
        tree.install(&mut self.topology, id);
        if let Some(room) = routes {
            let chance = &mut streams.stream(Entity::Run, Purpose::named("routes"));
            self.unknown.extend(tree.beyond(usize::from(*room), chance).into_iter().map(|node| (root, node)));
        }
        let stations = quality.nodes().iter().filter_map(|node| Some((*node, tree.hops(*node)?)));
        self.hops.extend(stations);
        Ok(())
    }
}

fn positions(nodes: &Nodes, streams: &Streams) -> Option<Vec<Position>> {
    let each = |place: &dyn Fn(u32) -> Position| (0..nodes.size()).map(place).collect();
    Some(match nodes.place.as_ref()? {
        Placement::At(places) => places.iter().map(|(x, y)| Position::metres(*x, *y)).collect(),
        Placement::Line { spacing_m, from: (x, y) } => {
            each(&|index| Position::metres(x + spacing_m * f64::from(index), *y))
        }
        Placement::Grid { columns, spacing_m } => each(&|index| {
            let (row, column) = (index / columns.get(), index % columns.get());
            Position::metres(spacing_m * f64::from(column), spacing_m * f64::from(row))
        }),
        Placement::Circles { counts, spacing_m } => {
            let circle = |(ring, count): (u32, &u32)| {
                let (radius, count) = (spacing_m * f64::from(ring), *count);
                (0..count).map(move |place| Position::polar(radius, TAU * f64::from(place) / f64::from(count)))
            };
            (1..).zip(counts.iter()).flat_map(circle).collect()
        }
        Placement::Field { width_m, height_m } => {
            let mut stream: Stream = streams.stream(Entity::Run, Purpose::named(&nodes.name));
            (0..nodes.size()).map(|_| Position::metres(width_m * stream.unit(), height_m * stream.unit())).collect()
        }
    })
}

/// Draws a rate from a stream named after the link; whole bits hide differences between machines.
fn rate(spread: Spread, mean: BitRate, name: &str, replication: Replication) -> BitRate {
    let z = match spread.draw {
        Draw::Independent => Streams::new(replication.seed).stream(Entity::Run, Purpose::named(name)).normal(),
        Draw::Stratified => normal_quantile((f64::from(replication.index) + 0.5) / f64::from(replication.count)),
    };
    // exp(μ + σ²/2) is a lognormal distribution's mean.
    let drawn = mean.as_bits() as f64 * (spread.sigma * z - spread.sigma * spread.sigma / 2.0).exp();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, and casts saturate
    let bits = drawn.round() as u64;
    BitRate::bit(bits.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(draw: Draw, count: u32) -> Vec<f64> {
        let of_run = |index| {
            let replication = Replication { index, count, seed: u64::from(index) };
            rate(Spread { sigma: 0.5, draw }, BitRate::kbit(15), "uplink", replication).as_bits() as f64
        };
        (0..count).map(of_run).collect()
    }

    #[test]
    fn rates_of_runs_are_lognormal_around_their_mean() {
        let rates = rates(Draw::Independent, 20_000);
        let mean = rates.iter().sum::<f64>() / 20_000.0;
        // Coefficient of variation √(exp(σ²) − 1) = 0.533.
        assert!((mean / 15_000.0 - 1.0).abs() < 4.0 * 0.533 / 20_000_f64.sqrt(), "{mean}");
        let logarithms: Vec<f64> = rates.iter().map(|rate| (rate / 15_000.0).ln() + 0.125).collect();
        let variance = logarithms.iter().map(|log| log * log).sum::<f64>() / 20_000.0;
        assert!((variance - 0.25).abs() < 4.0 * 0.25 * (2.0_f64 / 20_000.0).sqrt(), "{variance}");
    }

    #[test]
    fn stratified_rates_have_their_mean_with_few_runs_already() {
        let rates = rates(Draw::Stratified, 15);
        assert!(rates.is_sorted(), "each from the next part of the distribution");
        assert!((rates[7] - 15_000.0 * (-0.125_f64).exp()).abs() < 1.0, "the middle one is the median");
        let mean = rates.iter().sum::<f64>() / 15.0;
        assert!((mean / 15_000.0 - 1.0).abs() < 0.02, "{mean}");
    }
}
