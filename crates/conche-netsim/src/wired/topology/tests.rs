//! Routes of packets, and invalid topologies.

use std::time::Duration;

use super::*;
use crate::host::{Host, Port, Received};
use crate::packet::Packet;
use crate::trace::{DropReason, Observer};
use crate::wired::{Jitter, Loss, Stalls};
use crate::{BitRate, Instant, Simulation};

enum Probe {
    To(NodeId),
    Sink,
}

impl Host for Probe {
    type Timer = ();

    fn start(&mut self, port: &mut Port<'_, ()>) {
        if let Self::To(node) = self {
            port.send(*node, b"probe", None, None);
        }
    }

    fn receive(&mut self, _: &mut Port<'_, ()>, _: Received<'_>) {}
    fn timer(&mut self, _: &mut Port<'_, ()>, (): ()) {}
    fn wake(&mut self, _: &mut Port<'_, ()>) {}
}

#[derive(Default)]
struct End(Option<Result<Instant, DropReason>>);

impl Observer for End {
    fn on_delivered(&mut self, now: Instant, _: &Packet) {
        self.0 = Some(Ok(now));
    }

    fn on_dropped(&mut self, _: Instant, _: &Packet, reason: DropReason) {
        self.0 = Some(Err(reason));
    }
}

fn probe(net: &Topology, from: NodeId, to: NodeId) -> Result<Instant, DropReason> {
    let mut sim = Simulation::new(net, 1, End::default()).expect("a valid topology");
    sim.attach(from, Probe::To(to)).expect("a node");
    sim.attach(to, Probe::Sink).expect("a node");
    sim.run();
    sim.observer().0.expect("the packet has ended somewhere")
}

fn delay(millis: u64) -> LinkConfig {
    LinkConfig { delay: Duration::from_millis(millis), ..LinkConfig::default() }
}

/// ```text
///   a ──1 ms── b ──1 ms── c ──1 ms── d
///   └─────────50 ms───────┘
/// ```
struct Diamond {
    net: Topology,
    a: NodeId,
    d: NodeId,
    detour: LinkId,
    direct: LinkId,
}

fn diamond() -> Diamond {
    let mut net = Topology::new();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| net.node(name));
    let (detour, _) = net.duplex("ab", a, b, delay(1));
    net.duplex("bc", b, c, delay(1));
    net.duplex("cd", c, d, delay(1));
    let (direct, _) = net.duplex("ac", a, c, delay(50));
    Diamond { net, a, d, detour, direct }
}

#[test]
fn packets_take_the_fewest_links() {
    let Diamond { net, a, d, .. } = diamond();
    assert_eq!(probe(&net, a, d), Ok(Instant::from_millis(51)));
    assert_eq!(probe(&net, d, a), Ok(Instant::from_millis(51)));
}

#[test]
fn of_equally_short_routes_the_first_link_wins() {
    let mut net = Topology::new();
    let (a, b) = (net.node("a"), net.node("b"));
    net.link("first", a, b, delay(7));
    net.link("second", a, b, delay(1));
    assert_eq!(probe(&net, a, b), Ok(Instant::from_millis(7)));
}

#[test]
fn a_static_route_overrides_and_the_last_one_counts() {
    let Diamond { mut net, a, d, detour, direct } = diamond();
    net.route(a, d, direct);
    net.route(a, d, detour);
    assert_eq!(probe(&net, a, d), Ok(Instant::from_millis(3)));
}

#[test]
fn a_static_route_on_a_node_with_one_link_leaves_its_other_destinations_alone() {
    let Diamond { mut net, a, d, .. } = diamond();
    let last = net.links().find(|(_, name)| *name == "cd<").expect("duplex made it").0;
    net.route(d, a, last);
    assert_eq!(probe(&net, d, NodeId(1)), Ok(Instant::from_millis(2)));
}

#[test]
fn a_missing_route_drops_only_packets_to_that_destination() {
    let Diamond { mut net, a, d, .. } = diamond();
    net.no_route(a, d);
    assert_eq!(probe(&net, a, d), Err(DropReason::NoRoute(a)));
    assert!(probe(&net, d, a).is_ok() && probe(&net, a, NodeId(1)).is_ok());
}

#[test]
fn packets_without_a_way_are_dropped_where_they_are_stuck() {
    let mut net = Topology::new();
    let (a, b, island) = (net.node("a"), net.node("b"), net.node("island"));
    net.link("ab", a, b, delay(1));
    assert_eq!(probe(&net, a, island), Err(DropReason::NoRoute(b)));
    assert_eq!(probe(&net, island, a), Err(DropReason::NoRoute(island)));
}

#[test]
fn a_loop_of_routes_ends_at_the_hop_limit() {
    for link in [LinkConfig::default(), delay(1)] {
        let mut net = Topology::new();
        let [a, b, unreachable] = ["a", "b", "unreachable"].map(|name| net.node(name));
        let (there, back) = net.duplex("ab", a, b, link);
        net.route(a, unreachable, there);
        net.route(b, unreachable, back);
        assert!(matches!(probe(&net, a, unreachable), Err(DropReason::HopLimit(_))));
    }
}

#[test]
fn a_node_without_a_host_receives_nothing() {
    let mut net = Topology::new();
    let (a, b) = (net.node("a"), net.node("b"));
    net.link("ab", a, b, delay(1));
    let mut sim = Simulation::new(&net, 1, End::default()).expect("a valid topology");
    sim.attach(a, Probe::To(b)).expect("a node");
    sim.run();
    assert_eq!(sim.observer().0, Some(Err(DropReason::NoHost(b))));
    assert_eq!((sim.counters().dropped, sim.counters().in_flight), (1, 0));
}

#[test]
fn a_packet_to_oneself_takes_no_link() {
    let mut net = Topology::new();
    let a = net.node("a");
    let mut sim = Simulation::new(&net, 1, End::default()).expect("a valid topology");
    sim.attach(a, Probe::To(a)).expect("a node");
    sim.run();
    assert_eq!(sim.observer().0, Some(Ok(Instant::ZERO)));
}

fn error_of(config: LinkConfig) -> TopologyError {
    let mut net = Topology::new();
    let (a, b) = (net.node("a"), net.node("b"));
    net.link("ab", a, b, config);
    net.build(&Streams::new(1)).expect_err("it must be refused")
}

#[test]
fn impossible_links_are_refused() {
    let ms = Duration::from_millis;
    assert_eq!(
        error_of(LinkConfig { rate: Some(BitRate::bit(0)), ..LinkConfig::default() }),
        TopologyError::ZeroRate("ab".to_owned())
    );
    assert_eq!(
        error_of(LinkConfig { jitter: Jitter::uniform_reordering(ms(2), ms(1)), ..LinkConfig::default() }),
        TopologyError::EmptyJitter("ab".to_owned())
    );
    let states = Loss::TimedGilbertElliott { mean_good: ms(1), mean_bad: ms(0), loss_good: 0.0, loss_bad: 1.0 };
    assert_eq!(
        error_of(LinkConfig { loss: states, ..LinkConfig::default() }).to_string(),
        "link \"ab\": mean_bad is 0s, but a state lasts longer; leave `loss` out for a link without losses"
    );
    for (config, parameter) in [
        (LinkConfig { duplicate: -0.1, ..LinkConfig::default() }, "duplicate"),
        (LinkConfig { stalls: Stalls { probability: 1.1, ..Stalls::default() }, ..LinkConfig::default() }, "stalls"),
        (LinkConfig { loss: Loss::Bernoulli(f64::NAN), ..LinkConfig::default() }, "loss"),
        (
            LinkConfig {
                loss: Loss::TimedGilbertElliott { mean_good: ms(1), mean_bad: ms(1), loss_good: 0.0, loss_bad: 1.1 },
                ..LinkConfig::default()
            },
            "loss_bad",
        ),
        (
            LinkConfig {
                loss: Loss::GilbertElliott { to_bad: 0.1, to_good: 1.5, loss_good: 0.0, loss_bad: 1.0 },
                ..LinkConfig::default()
            },
            "to_good",
        ),
    ] {
        let error = error_of(config);
        assert!(matches!(&error, TopologyError::Probability { parameter: p, .. } if *p == parameter), "{error}");
    }
}

#[test]
fn names_are_unique_and_routes_start_where_they_say() {
    let mut twice = Topology::new();
    twice.node("a");
    twice.node("a");
    assert_eq!(twice.build(&Streams::new(1)).expect_err("twice"), TopologyError::DuplicateName("a".to_owned()));

    let Diamond { mut net, a, d, .. } = diamond();
    let elsewhere = net.links().find(|(_, name)| *name == "cd>").expect("duplex made it").0;
    net.route(a, d, elsewhere);
    let error = net.build(&Streams::new(1)).expect_err("it starts at c");
    assert_eq!(error.to_string(), "node \"a\" cannot route over link \"cd>\", which starts at \"c\"");

    let mut foreign = Topology::new();
    let here = foreign.node("here");
    foreign.link("out", here, NodeId(9), LinkConfig::default());
    assert_eq!(foreign.build(&Streams::new(1)).expect_err("no node 9"), TopologyError::Unknown("node 9".to_owned()));
}
