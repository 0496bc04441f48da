//! NAT: addresses of nodes behind it, and the end of their mappings.
//!
//! ```text
//!   a ──> router (NAT, 30 s) ──> server
//!   b ──/ 2 ms                1 ms
//! ```

use std::time::Duration;

use conche_netsim::host::{Host, Port, Received};
use conche_netsim::packet::Packet;
use conche_netsim::pcapng::{Capture, PcapNg};
use conche_netsim::sim::NoSuchNode;
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::{LinkConfig, Topology, TopologyError};
use conche_netsim::{Instant, NodeId, Simulation};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Keeps senders of packets.
#[derive(Debug, Default)]
struct Receiver(Vec<NodeId>);

impl Host for Receiver {
    type Timer = ();

    fn start(&mut self, _: &mut Port<'_, ()>) {}
    fn timer(&mut self, _: &mut Port<'_, ()>, (): ()) {}
    fn wake(&mut self, _: &mut Port<'_, ()>) {}

    fn receive(&mut self, _: &mut Port<'_, ()>, packet: Received<'_>) {
        self.0.push(packet.meta.from);
    }
}

#[derive(Default)]
struct Drops(Vec<DropReason>);

impl Observer for Drops {
    fn on_dropped(&mut self, _: Instant, _: &Packet, reason: DropReason) {
        self.0.push(reason);
    }
}

struct Home {
    net: Topology,
    a: NodeId,
    b: NodeId,
    router: NodeId,
    server: NodeId,
}

fn home() -> Home {
    let mut net = Topology::new();
    let [a, b, router, server] = ["a", "b", "router", "server"].map(|name| net.node(name));
    let wire = |ms| LinkConfig { delay: Duration::from_millis(ms), ..LinkConfig::default() };
    net.duplex("lan a", a, router, wire(2));
    net.duplex("lan b", b, router, wire(2));
    net.duplex("wan", router, server, wire(1));
    net.nat(a, router, TIMEOUT);
    net.nat(b, router, TIMEOUT);
    Home { net, a, b, router, server }
}

fn simulation<O: Observer>(home: &Home, observer: O) -> Simulation<Receiver, O> {
    let mut sim = Simulation::new(&home.net, 1, observer).expect("a valid topology");
    for node in [home.a, home.b, home.router, home.server] {
        sim.attach(node, Receiver::default()).expect("a node");
    }
    sim
}

fn senders<O: Observer>(sim: &Simulation<Receiver, O>, node: NodeId) -> &[NodeId] {
    &sim.host(node).expect("attached").0
}

/// Sends at this time, and returns the sender that the server sees.
fn seen<O: Observer>(sim: &mut Simulation<Receiver, O>, at_ms: u64, from: NodeId, server: NodeId) -> NodeId {
    sim.run_until(Instant::from_millis(at_ms));
    sim.send(from, server, b"up").expect("nodes");
    sim.run();
    *senders(sim, server).last().expect("an arrival")
}

#[test]
fn a_node_keeps_its_address_until_the_timeout_after_its_last_datagram() {
    let home = home();
    let mut sim = simulation(&home, ());
    // A packet passes the NAT 2 ms after it is sent.
    let [first, other] = [home.a, home.b].map(|node| seen(&mut sim, 10, node, home.server));
    let [refreshed, last] = [30_009, 60_008].map(|at| seen(&mut sim, at, home.a, home.server));
    assert_eq!([first, refreshed], [last, last], "the mapping lasts 30 s from each datagram");
    let late = seen(&mut sim, 60_008 + 30_000, home.a, home.server);
    assert_ne!(late, first, "at the timeout it is over");
    assert!(![first, late].contains(&other) && ![home.a, home.b].contains(&first));
    assert_eq!([first, other, late].map(|of| sim.addresses().node(of)), [home.a, home.b, home.a]);
}

#[test]
fn answers_reach_a_mapped_address_only_and_do_not_refresh_it() {
    let home = home();
    let mut sim = simulation(&home, Drops::default());
    let first = seen(&mut sim, 0, home.a, home.server);
    for at in [10_000, 29_000, 30_002] {
        sim.run_until(Instant::from_millis(at));
        sim.send(home.server, first, b"down").expect("an address");
        sim.run();
    }
    // The mapping is from 2 ms to 30 002 ms; the last answer is at the NAT at 30 003 ms.
    assert_eq!(senders(&sim, home.a), [home.server; 2]);
    let second = seen(&mut sim, 31_000, home.a, home.server);
    sim.send(home.server, first, b"to the old address").expect("an address");
    sim.send(home.server, second, b"to the new address").expect("an address");
    sim.send(home.server, home.a, b"to the address inside").expect("a node");
    sim.run();
    assert_eq!(senders(&sim, home.a), [home.server; 3]);
    assert_eq!(sim.observer().0, [DropReason::NoMapping(home.router); 3]);
    assert_eq!(sim.send(second, home.server, b""), Err(NoSuchNode(second)), "nodes send from their own address");
    let counters = sim.counters();
    assert_eq!((counters.sent, counters.delivered, counters.dropped), (8, 5, 3));
}

#[test]
fn a_nat_that_loses_its_state_gives_new_addresses() {
    let home = home();
    let mut sim = simulation(&home, Drops::default());
    let [of_a, of_b] = [home.a, home.b].map(|node| seen(&mut sim, 0, node, home.server));
    assert!(sim.rebind(home.a));
    assert!(!sim.rebind(home.server), "it is behind no NAT");
    sim.send(home.server, of_a, b"down").expect("an address");
    sim.send(home.server, of_b, b"down").expect("an address");
    sim.run();
    assert_eq!([home.a, home.b].map(|node| senders(&sim, node).len()), [0, 1]);
    assert_ne!(seen(&mut sim, 1000, home.a, home.server), of_a);
    assert_eq!(seen(&mut sim, 1000, home.b, home.server), of_b);
}

#[test]
fn nodes_inside_and_the_nat_itself_see_no_other_address() {
    let home = home();
    let mut sim = simulation(&home, Drops::default());
    for (from, to) in [(home.a, home.b), (home.a, home.router), (home.router, home.a), (home.server, home.router)] {
        sim.send(from, to, b"untranslated").expect("nodes");
        sim.run();
        assert_eq!(senders(&sim, to).last(), Some(&from));
    }
    assert!(sim.observer().0.is_empty());
}

#[test]
fn no_node_is_a_nat_for_itself() {
    let mut home = home();
    home.net.nat(home.a, home.a, TIMEOUT);
    let error = Simulation::<Receiver>::new(&home.net, 1, ()).expect_err("no NAT");
    assert_eq!(error, TopologyError::OwnNat("a".to_owned()));
}

#[test]
fn a_capture_has_the_address_of_the_nat_and_a_port_for_each_mapping() {
    let home = home();
    let capture = PcapNg::new(Vec::new(), &home.net, Capture::BothEnds).expect("memory");
    let mut sim = simulation(&home, capture);
    let first = seen(&mut sim, 0, home.a, home.server);
    seen(&mut sim, 40_000, home.a, home.server);
    sim.send(home.server, first, b"down").expect("an address");
    sim.run();
    let (_, capture) = sim.into_parts();
    let file = capture.finish().expect("memory");
    let has = |bytes: &[u8]| file.windows(bytes.len()).any(|window| window == bytes);
    // Destination 10.0.0.3 and ports of the last answer; node n is 10.0.0.(n + 1).
    let from_port =
        |port: u16| [&[10, 0, 0, 3, 10, 0, 0, 4][..], &port.to_be_bytes(), &5683_u16.to_be_bytes()].concat();
    assert!([1024, 1026].into_iter().all(|port| has(&from_port(port))), "the second mapping has a port of its own");
    assert!(has(b"; dropped: no NAT mapping"));
}
