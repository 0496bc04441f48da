//! Bulk transfers between motes that discover their routes.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_netsim::mac::{MacConfig, RadioConfig};
use conche_netsim::mote::{Mote, MoteConfig, Role, Router};
use conche_netsim::radio::{MediumConfig, Position, Udgm};
use conche_netsim::routing::aodv::{Aodv, AodvConfig, Metric};
use conche_netsim::transport::tcp::{Acknowledgments, Receiver, Sender, SenderConfig, State};
use conche_netsim::wired::Topology;
use conche_netsim::{Instant, NodeId, RunEnd, Simulation};
use conche_proto::cc::AnyController;

const SEGMENTS: u32 = 100;
const PROCESSING: Duration = Duration::from_millis(1);

fn aodv() -> AodvConfig {
    AodvConfig {
        metric: Metric::HopCount,
        reply_wait: Duration::ZERO,
        net_traversal_time: Duration::from_secs(1),
        rreq_retries: 2,
        forward_jitter: Duration::from_millis(10),
        net_diameter: 10,
    }
}

type Routers = fn(NodeId, &[NodeId]) -> Router;

fn searching(node: NodeId, _: &[NodeId]) -> Router {
    Router::Aodv(Box::new(Aodv::new(node, aodv())))
}

fn frozen(node: NodeId, nodes: &[NodeId]) -> Router {
    let (first, last, at) = (nodes[0], nodes[nodes.len() - 1], node.index());
    let mut routes = BTreeMap::new();
    routes.extend(nodes.get(at + 1).map(|next| (last, *next)));
    routes.extend(at.checked_sub(1).map(|before| (first, nodes[before])));
    Router::Frozen(routes)
}

/// Motes 8 m apart with reception and interference ranges of 10 m; the first sends to the last.
fn transfer(motes: usize, window_limit: u16, mac: MacConfig, router: Routers) -> Simulation<Mote<AnyController>> {
    let medium = MediumConfig::Udgm(Udgm { transmission_range_m: 10.0, interference_range_m: 10.0, ..Udgm::default() });
    let mut net = Topology::new();
    let radio = net.radio("air", RadioConfig { medium, mac });
    let nodes: Vec<NodeId> = (0..motes).map(|i| net.node(format!("n{i}"))).collect();
    for (i, node) in nodes.iter().enumerate() {
        net.place(radio, *node, Position::metres(8.0 * i as f64, 0.0));
    }
    let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
    let acknowledgments = Acknowledgments::Cumulative;
    for (i, node) in nodes.iter().enumerate() {
        let config = SenderConfig {
            segments: SEGMENTS,
            segment_bytes: 96,
            window_limit,
            min_rto: Duration::from_millis(500),
            max_timeouts: 8,
            acknowledgments,
        };
        let role = if i == 0 {
            let controller = AnyController::by_name("rfc6298").expect("a controller");
            Role::Source(nodes[motes - 1], Sender::new(config, controller, Instant::ZERO))
        } else if i == motes - 1 {
            Role::Sink(nodes[0], Receiver::new(SEGMENTS, acknowledgments))
        } else {
            Role::Relay
        };
        let config = MoteConfig { radio, header_octets: 20, payload_octets: 96, processing: PROCESSING };
        sim.attach(*node, Mote::new(*node, config, router(*node, &nodes), role)).expect("a node");
    }
    sim
}

fn mote(sim: &Simulation<Mote<AnyController>>, index: usize) -> &Mote<AnyController> {
    sim.hosts().nth(index).expect("a mote").1
}

fn completed(sim: &Simulation<Mote<AnyController>>, sink: usize) -> Option<Instant> {
    let Role::Sink(_, receiver) = mote(sim, sink).role() else { panic!("it is the sink") };
    receiver.completed()
}

/// ```text
///   source ── sink
/// ```
///
/// A segment and its acknowledgment take: loading, a backoff of 5.051 ms, CCA, 7 jiffies, 133 or 37
/// octets of 32 µs, unloading (which hides the MAC's acknowledgment), processing.
#[test]
fn one_segment_at_a_time_takes_the_time_of_its_frames() {
    let ms = Duration::from_millis(2);
    let mac = MacConfig { load: ms, unload: ms, ..MacConfig::tinyos() };
    let mut sim = transfer(2, 1, mac, frozen);
    assert_eq!(sim.run(), RunEnd::Stopped);
    let Role::Source(_, sender) = mote(&sim, 0).role() else { panic!("it is the source") };
    let State::Completed(at) = sender.state() else { panic!("{:?}", sender.state()) };
    let frame = |octets: f64| 2.0 + 5.051 + 0.128 + 7.0 / 32.768 + octets * 0.032 + 2.0 + 1.0;
    let expected = f64::from(SEGMENTS) * (frame(133.0) + frame(37.0)) + 2.0 * frame(37.0);
    let took = at.as_nanos() as f64 / 1e6;
    // 202 backoffs with a standard deviation of 2.7 ms each.
    assert!((took - expected).abs() < 4.0 * 2.7 * 202.0_f64.sqrt(), "{took:.1} ms instead of {expected:.1} ms");
    assert_eq!(sender.stats().samples, SEGMENTS);
}

/// ```text
///   source ── relay ── relay ── sink
/// ```
#[test]
fn a_transfer_finds_its_route_and_completes() {
    let mut sim = transfer(4, 2, MacConfig::tinyos(), searching);
    assert_eq!(sim.run(), RunEnd::Stopped);
    assert_eq!(mote(&sim, 0).stats().routes_found[0], 3);
    assert!(completed(&sim, 3).is_some());
    assert!(mote(&sim, 1).stats().handed_over >= 2 * u64::from(SEGMENTS));
}

#[test]
fn a_transfer_without_a_way_is_aborted() {
    let no_way = |node: NodeId, nodes: &[NodeId]| {
        if node.index() == 1 { Router::Frozen(BTreeMap::new()) } else { frozen(node, nodes) }
    };
    let mut sim = transfer(4, 2, MacConfig::tinyos(), no_way);
    assert_eq!(sim.run(), RunEnd::Stopped);
    assert_eq!((completed(&sim, 3), mote(&sim, 1).stats().unroutable), (None, 8));
    // 1 s, doubled seven times up to the cap of 60 s.
    let seconds = sim.now().as_millis() / 1000;
    assert_eq!(seconds, 1 + 2 + 4 + 8 + 16 + 32 + 60 + 60);
}

/// Apart from processing, a segment's time is proportional to the number of hops.
#[test]
fn goodput_of_one_segment_at_a_time_falls_with_the_hops() {
    let seconds = |motes| {
        let mut sim = transfer(motes, 1, MacConfig::tinyos(), frozen);
        sim.run();
        let ends = 2.0 * PROCESSING.as_secs_f64() * f64::from(SEGMENTS);
        completed(&sim, motes - 1).expect("complete").as_nanos() as f64 / 1e9 - ends
    };
    let one = seconds(2);
    for hops in 2..=4 {
        let ratio = seconds(hops + 1) / one / hops as f64;
        assert!((ratio - 1.0).abs() < 0.05, "{ratio:.3} times one hop's time for each of {hops} hops");
    }
}
