//! Datagrams of a program outside the simulation, sent at the times of a simulated source.
//!
//! ```text
//!   source ── 80 kbit/s, 20 ms, loss 10 %, 500 B ──> sink
//! ```

use std::time::Duration;

use conche_netsim::sim::NoSuchNode;
use conche_netsim::wired::{DropTail, LinkConfig, Loss, Topology};
use conche_netsim::{BitRate, Counters, Instant, NodeId, Simulation};

use crate::plain::{Arrival, Interval, Plain};

const PACKETS: u32 = 200;
const BYTES: usize = 72;
const INTERVAL: Duration = Duration::from_millis(7);

fn network() -> (Topology, NodeId, NodeId) {
    let mut net = Topology::new();
    let (source, sink) = (net.node("source"), net.node("sink"));
    let wire = LinkConfig {
        rate: Some(BitRate::kbit(80)),
        delay: Duration::from_millis(20),
        loss: Loss::Bernoulli(0.1),
        queue: DropTail::bytes(500),
        ..LinkConfig::default()
    };
    net.link("link", source, sink, wire);
    (net, source, sink)
}

fn simulation(net: &Topology, sink: NodeId) -> Simulation<Plain> {
    let mut sim = Simulation::new(net, 3, ()).expect("a valid topology");
    sim.attach(sink, Plain::Sink(Vec::new())).expect("a node");
    sim
}

fn seen(sim: &Simulation<Plain>, sink: NodeId) -> (Vec<Arrival>, Counters) {
    (sim.host(sink).expect("attached").arrivals().to_vec(), sim.counters())
}

fn simulated() -> (Vec<Arrival>, Counters) {
    let (net, source, sink) = network();
    let mut sim = simulation(&net, sink);
    let host = Plain::Source { to: sink, left: PACKETS, bytes: BYTES, interval: Interval::Constant(INTERVAL) };
    sim.attach(source, host).expect("a node");
    sim.run();
    seen(&sim, sink)
}

#[test]
fn datagrams_from_outside_fare_like_those_of_a_host() {
    let (net, source, sink) = network();
    let mut sim = simulation(&net, sink);
    let simulated = simulated();
    let first = simulated.0[0].sent_at;
    for number in 0..PACKETS {
        let at = first + INTERVAL * number;
        // Events happen at their own times, as in real time.
        while let Some(next) = sim.next_time().filter(|next| *next < at) {
            sim.run_until(next);
        }
        sim.run_until(at);
        assert_eq!(sim.now(), at, "the time advances without events");
        let mut bytes = vec![0; BYTES];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        sim.send(source, sink, &bytes).expect("two nodes");
    }
    sim.run();
    assert_eq!(seen(&sim, sink), simulated);
    assert!(simulated.1.dropped > 20, "{:?}", simulated.1);
}

#[test]
fn a_node_without_a_host_can_send_and_an_unknown_node_cannot() {
    let (net, source, sink) = network();
    let mut sim = simulation(&net, sink);
    assert_eq!(sim.next_time(), None);
    sim.send(source, sink, b"datagram").expect("two nodes");
    assert!(sim.next_time() >= Some(Instant::from_millis(20)), "{:?}", sim.next_time());
    assert_eq!(sim.send(source, NodeId::BROADCAST, b""), Err(NoSuchNode(NodeId::BROADCAST)));
    assert_eq!(sim.counters().sent, 1);
}

#[test]
fn a_node_answers_an_echo_request_in_place_of_its_host() {
    let mut net = Topology::new();
    let [program, router, server] = ["program", "router", "server"].map(|name| net.node(name));
    let delay = |millis| LinkConfig { delay: Duration::from_millis(millis), ..LinkConfig::default() };
    net.duplex("access", program, router, delay(8));
    net.duplex("core", router, server, delay(20));
    let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
    for node in [program, server] {
        sim.attach(node, Plain::Sink(Vec::new())).expect("a node");
    }
    // Of a sink's datagrams, the first four bytes are a number.
    sim.send_echo_request(program, server, &7u32.to_be_bytes()).expect("two nodes");
    sim.send_echo_request(program, router, &9u32.to_be_bytes()).expect("two nodes");
    sim.run();
    let arrivals = |node| sim.host(node).expect("attached").arrivals().to_vec();
    let replies = arrivals(program);
    let replies: Vec<_> = replies.iter().map(|reply| (reply.number, reply.at - Instant::ZERO)).collect();
    assert_eq!(replies, [(9, Duration::from_millis(16)), (7, Duration::from_millis(56))]);
    assert_eq!(arrivals(server), [], "its host receives no echo request");
    let Counters { sent, delivered, dropped, in_flight, .. } = sim.counters();
    assert_eq!((sent, delivered, dropped, in_flight), (4, 4, 0, 0));
    let failed = sim.send_echo_request(program, NodeId::BROADCAST, b"");
    assert_eq!(failed, Err(NoSuchNode(NodeId::BROADCAST)));
}
