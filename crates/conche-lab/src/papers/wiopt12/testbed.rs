//! The testbed: its motes, the losses between them, and routes and pairs that every run has in common.

use std::collections::BTreeMap;

use conche_netsim::mac::{AccessConfig, BinaryExponential, MacConfig, RadioConfig, TinyOs};
use conche_netsim::mote::{Mote, MoteConfig, Role, Router};
use conche_netsim::radio::{MediumConfig, PathLoss, Position, ReceptionCurve, Sinr};
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::routing::aodv::{self, Aodv, AodvConfig, LqiMap};
use conche_netsim::wired::Topology;
use conche_netsim::{Instant, NodeId, RadioId, Simulation};
use conche_proto::cc::AnyController;

use super::scenario::{Metric, Scenario};

/// What all runs have in common.
#[derive(Clone, Debug)]
pub struct Testbed {
    positions: Vec<Position>,
    medium: MediumConfig,
    /// Routes of the static scenario, by their length.
    pub(super) routes: BTreeMap<u8, Vec<Route>>,
    /// Pairs of the dynamic scenario, as indices of motes.
    pub(super) pairs: Vec<(usize, usize)>,
}

/// A frozen route: the motes on the way there, and on the way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// From the source to the sink.
    pub there: Vec<NodeId>,
    /// From the sink to the source.
    pub back: Vec<NodeId>,
}

/// A backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backoff {
    /// TinyOS's.
    TinyOs,
    /// Binary exponential.
    Beb,
}

/// A network of the testbed's motes.
pub(super) struct Net {
    pub(super) topology: Topology,
    pub(super) nodes: Vec<NodeId>,
    pub(super) mote: MoteConfig,
}

impl Testbed {
    /// Draws the testbed, finds its routes and chooses its pairs.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let streams = Streams::new(scenario.testbed.seed);
        let grid = scenario.testbed;
        let place =
            |row: u32, column: u32| Position::metres(f64::from(column) * grid.pitch_m, f64::from(row) * grid.pitch_m);
        let positions: Vec<Position> = (0..grid.rows.get())
            .flat_map(|row| (0..grid.columns.get()).map(move |column| place(row, column)))
            .collect();
        let medium = MediumConfig::Sinr(sinr(scenario, &positions, &streams));
        let mut testbed = Self { positions, medium, routes: BTreeMap::new(), pairs: Vec::new() };
        let shuffled = testbed.shuffled_pairs(&streams);
        testbed.pairs = shuffled.iter().copied().take(scenario.dynamic.pairs.get() as usize).collect();
        testbed.find_routes(scenario, &shuffled);
        testbed
    }

    /// All ordered pairs of motes in a random order.
    fn shuffled_pairs(&self, streams: &Streams) -> Vec<(usize, usize)> {
        let count = self.positions.len();
        let mut pairs: Vec<_> =
            (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b).collect();
        let mut stream = streams.stream(Entity::Run, Purpose::named("pairs"));
        stream.shuffle(&mut pairs);
        pairs
    }

    /// Looks for a route between one pair after another, until there are enough of each length. All pairs may be too few
    /// for a length: then it has the routes that there are.
    fn find_routes(&mut self, scenario: &Scenario, pairs: &[(usize, usize)]) {
        let wanted = scenario.fixed.replications.get() as usize;
        let mut routes: BTreeMap<u8, Vec<Route>> = scenario.fixed.hops.iter().map(|hops| (*hops, Vec::new())).collect();
        for (number, (from, to)) in pairs.iter().enumerate() {
            if routes.values().all(|found| found.len() >= wanted) {
                break;
            }
            let Some(route) = self.find_route(scenario, (*from, *to), number as u64) else { continue };
            let found = routes.get_mut(&route.hops());
            found.filter(|found| found.len() < wanted).into_iter().for_each(|found| found.push(route.clone()));
        }
        self.routes = routes;
    }

    /// Runs AODV until it has found a route.
    fn find_route(&self, scenario: &Scenario, (from, to): (usize, usize), number: u64) -> Option<Route> {
        let net = self.net(scenario, Backoff::TinyOs, scenario.mac.retries);
        let seed = scenario.testbed.seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut sim = Simulation::<Mote<AnyController>>::new(&net.topology, seed, ()).expect("a checked network");
        for (index, node) in net.nodes.iter().enumerate() {
            let role = if index == from { Role::Seeker(net.nodes[to]) } else { Role::Relay };
            let router = Router::Aodv(Box::new(Aodv::new(*node, aodv(scenario, scenario.fixed.metric))));
            sim.attach(*node, Mote::new(*node, net.mote, router, role)).expect("a node of this network");
        }
        sim.run_until(Instant::ZERO + scenario.time_limit.0);
        let there = way(&sim, net.nodes[from], net.nodes[to])?;
        let back = way(&sim, net.nodes[to], net.nodes[from])?;
        Some(Route { there, back })
    }

    /// The motes with one radio network.
    pub(super) fn net(&self, scenario: &Scenario, backoff: Backoff, retries: u8) -> Net {
        let mut topology = Topology::new();
        let config = RadioConfig { medium: self.medium.clone(), mac: mac(scenario, backoff, retries) };
        let radio = topology.radio("channel 26", config);
        let place = |(number, position): (usize, &Position)| {
            let node = topology.node(format!("mote {number}"));
            topology.place(radio, node, *position);
            node
        };
        let nodes = self.positions.iter().enumerate().map(place).collect();
        Net { mote: mote(scenario, radio), topology, nodes }
    }
}

impl Route {
    /// Its length.
    #[must_use]
    pub fn hops(&self) -> u8 {
        u8::try_from(self.there.len() - 1).unwrap_or(u8::MAX)
    }

    /// Where a mote on it sends what is for each end.
    pub(super) fn next_hops(&self, at: NodeId) -> BTreeMap<NodeId, NodeId> {
        let next = |way: &[NodeId]| {
            let to = *way.last()?;
            let place = way.iter().position(|node| *node == at)?;
            Some((to, *way.get(place + 1)?))
        };
        [next(&self.there), next(&self.back)].into_iter().flatten().collect()
    }
}

/// The motes from one to another by their routes.
fn way(sim: &Simulation<Mote<AnyController>>, from: NodeId, to: NodeId) -> Option<Vec<NodeId>> {
    let mut way = vec![from];
    while let Some(at) = way.last().filter(|at| **at != to) {
        let Router::Aodv(aodv) = sim.host(*at)?.router() else { return None };
        let next = aodv.next_hop(to).filter(|next| !way.contains(next))?;
        way.push(next);
    }
    Some(way)
}

fn sinr(scenario: &Scenario, positions: &[Position], streams: &Streams) -> Sinr {
    let radio = &scenario.radio;
    let drawn = PathLoss::LogDistance {
        reference_loss_db: radio.reference_loss_db,
        exponent: radio.path_loss_exponent,
        shadowing_sigma_db: radio.shadowing_sigma_db,
        asymmetry_sigma_db: 0.0,
    };
    Sinr {
        tx_power_dbm: radio.tx_power_dbm,
        path_loss: PathLoss::Matrix(drawn.between_all(positions, streams)),
        noise_dbm: radio.noise_dbm,
        sensitivity_dbm: radio.sensitivity_dbm,
        interference_floor_dbm: radio.interference_floor_dbm,
        cca_threshold_dbm: radio.cca_threshold_dbm,
        curve: ReceptionCurve::Transitional {
            middle_db: radio.transition_middle_db,
            width_db: radio.transition_width_db,
        },
        ..Sinr::default()
    }
}

fn mac(scenario: &Scenario, backoff: Backoff, retries: u8) -> MacConfig {
    let mac = &scenario.mac;
    let access = match backoff {
        Backoff::TinyOs => AccessConfig::TinyOs(TinyOs {
            initial_jiffies: mac.tinyos.initial_jiffies,
            congestion_jiffies: mac.tinyos.congestion_jiffies,
            retries,
        }),
        Backoff::Beb => AccessConfig::BinaryExponential(BinaryExponential {
            window_symbols: mac.beb.window_symbols,
            max_doublings: mac.beb.max_doublings,
            max_busy: mac.beb.max_busy,
            retries,
        }),
    };
    let overhead_octets = octets(scenario.transfer.mac_header.0);
    MacConfig { access, overhead_octets, load: mac.load.0, unload: mac.unload.0, ..MacConfig::tinyos() }
}

fn mote(scenario: &Scenario, radio: RadioId) -> MoteConfig {
    let transfer = &scenario.transfer;
    MoteConfig {
        radio,
        header_octets: octets(transfer.header.0),
        payload_octets: octets(transfer.payload.0),
        processing: transfer.processing.0,
    }
}

/// The protocol's parameters under a metric.
pub(super) fn aodv(scenario: &Scenario, metric: Metric) -> AodvConfig {
    let routing = &scenario.routing;
    let (metric, reply_wait) = match metric {
        Metric::HopCount => (aodv::Metric::HopCount, std::time::Duration::ZERO),
        Metric::PathDr => {
            let delivery_ratio = routing.delivery_ratio.to_vec();
            let map = LqiMap { snr_db: routing.lqi_at_snr_db, lqi: routing.lqi, delivery_ratio };
            (aodv::Metric::PathDr(map), routing.reply_wait.0)
        }
    };
    AodvConfig {
        metric,
        reply_wait,
        net_traversal_time: routing.net_traversal_time.0,
        rreq_retries: routing.rreq_retries,
        forward_jitter: routing.forward_jitter.0,
        net_diameter: routing.net_diameter,
    }
}

fn octets(size: u64) -> u8 {
    u8::try_from(size).expect("the scenario was checked: it fits into a frame")
}
