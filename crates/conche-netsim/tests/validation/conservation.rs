//! Every packet sent is delivered, dropped or in flight; equal seeds give equal runs; random
//! streams are independent.
//!
//! ```text
//!   source a ─┐                                        ┌─> echo a
//!   source b ─┴─> left ══ rate, delay, jitter, ══> right ─┴─> echo b      and back likewise
//!                         loss, duplicates, queue
//! ```

use std::time::Duration;

use conche_netsim::packet::Packet;
use conche_netsim::trace::{Digest, DropReason, Observer};
use conche_netsim::wired::{
    Aqm, CoDel, Distribution, DropTail, InService, Jitter, Limit, LinkConfig, LinkTrace, Loss, Order, Pie, Red,
    Service, Stalls, Topology, Wakes,
};
use conche_netsim::{BitRate, Counters, Instant, LinkId, NodeId, RunEnd, Simulation};
use proptest::prelude::*;

use crate::plain::{Interval, Plain};

struct Network {
    topology: Topology,
    middle: LinkId,
    sources: [NodeId; 2],
    echoes: [NodeId; 2],
}

/// Builds the network; `access` is the link of source a.
fn network(middle: LinkConfig, access: LinkConfig) -> Network {
    let mut topology = Topology::new();
    let (left, right) = (topology.node("left"), topology.node("right"));
    let (middle, _) = topology.duplex("middle", left, right, middle);
    let sources = ["source a", "source b"].map(|name| topology.node(name));
    let echoes = ["echo a", "echo b"].map(|name| topology.node(name));
    topology.duplex("access a", sources[0], left, access);
    topology.duplex("access b", sources[1], left, LinkConfig::default());
    for echo in echoes {
        topology.duplex(format!("{echo}"), right, echo, LinkConfig::default());
    }
    Network { topology, middle, sources, echoes }
}

fn simulate<O: Observer>(network: &Network, seed: u64, observer: O) -> Simulation<Plain, O> {
    let mut sim = Simulation::new(&network.topology, seed, observer).expect("a valid topology");
    for (source, echo) in network.sources.into_iter().zip(network.echoes) {
        let interval = Interval::Poisson(Duration::from_millis(5));
        sim.attach(source, Plain::Source { to: echo, left: 300, bytes: 60, interval }).expect("a node");
        sim.attach(echo, Plain::Echo).expect("a node");
    }
    sim
}

fn rough() -> LinkConfig {
    LinkConfig {
        rate: Some(BitRate::kbit(200)),
        service: Service::Rayleigh,
        stalls: Stalls { probability: 0.01, mean: Duration::from_millis(300) },
        delay: Duration::from_millis(30),
        jitter: Jitter {
            distribution: Distribution::Exponential { mean: Duration::from_millis(8) },
            order: Order::Free,
        },
        queue: DropTail::bytes(500),
        aqm: None,
        wakes: None,
        duty_cycle: 1.0,
        loss: Loss::GilbertElliott { to_bad: 0.05, to_good: 0.4, loss_good: 0.01, loss_bad: 0.7 },
        duplicate: 0.05,
        header_bytes: 28,
    }
}

#[derive(Default)]
struct Tally(Counters);

impl Observer for Tally {
    fn on_sent(&mut self, _: Instant, _: &Packet) {
        self.0.sent += 1;
        self.0.in_flight += 1;
    }

    fn on_dropped(&mut self, _: Instant, _: &Packet, _: DropReason) {
        self.0.dropped += 1;
        self.0.in_flight -= 1;
    }

    fn on_duplicated(&mut self, _: Instant, _: &Packet, _: LinkId) {
        self.0.duplicated += 1;
        self.0.in_flight += 1;
    }

    fn on_delivered(&mut self, _: Instant, _: &Packet) {
        self.0.delivered += 1;
        self.0.in_flight -= 1;
    }
}

fn check<O>(sim: &Simulation<Plain, (Tally, O)>)
where
    O: Observer,
{
    let counters = sim.counters();
    assert_eq!(counters.sent + counters.duplicated, counters.delivered + counters.dropped + counters.in_flight);
    assert_eq!(counters, sim.observer().0.0);
}

fn links() -> BoxedStrategy<LinkConfig> {
    let limit =
        prop_oneof![Just(Limit::Unlimited), (0..2000_u64).prop_map(Limit::Bytes), (0..20_u64).prop_map(Limit::Packets)];
    let in_service = prop_oneof![Just(InService::Excluded), Just(InService::Included)];
    let loss = prop_oneof![Just(Loss::None), (0.0..=1.0).prop_map(Loss::Bernoulli)];
    let rate = prop::option::of((1..1000_u64).prop_map(BitRate::kbit));
    let order = prop_oneof![Just(Order::Kept), Just(Order::Free)];
    let aqm = prop_oneof![
        Just(None),
        Just(Some(Aqm::Red(Red { weight: 0.1, min_packets: 1.0, max_packets: 3.0, ..Red::default() }))),
        (1..50_u64).prop_map(|ms| {
            let (target, interval) = (Duration::from_millis(ms), Duration::from_millis(10 * ms));
            Some(Aqm::CoDel(CoDel { target, interval, mtu_bytes: 100 }))
        }),
        Just(Some(Aqm::Pie(Pie { mean_packet_bytes: 50, max_burst: Duration::ZERO, ..Pie::default() }))),
    ];
    let service = prop_oneof![Just(Service::Exact), Just(Service::Rayleigh), Just(Service::Exponential)];
    let wakes = prop_oneof![
        Just(None),
        (1..50_u64, 0..50_u64).prop_map(|(closed, lasting)| {
            let [every, lasting] = [closed + lasting, lasting].map(Duration::from_millis);
            Some(Wakes { every: Some(every), lasting, ..Wakes::default() })
        })
    ];
    let management = (limit, aqm, wakes, prop_oneof![Just(1.0), 0.1..=1.0_f64]);
    (rate, (service, 0.0..=0.1_f64), 0..50_u64, 0..50_u64, order, management, in_service, loss, 0.0..=0.5_f64)
        .prop_map(|(rate, (service, stalls), delay, high, order, management, in_service, loss, duplicate)| {
            let (limit, aqm, wakes, duty_cycle) = management;
            LinkConfig {
                rate,
                service,
                stalls: Stalls { probability: stalls, mean: Duration::from_millis(500) },
                delay: Duration::from_millis(delay),
                jitter: Jitter {
                    distribution: Distribution::Uniform { low: Duration::ZERO, high: Duration::from_millis(high) },
                    order,
                },
                queue: DropTail { limit, in_service },
                aqm,
                wakes,
                duty_cycle: if rate.is_some() { duty_cycle } else { 1.0 },
                loss,
                duplicate,
                header_bytes: 28,
            }
        })
        .boxed()
}

#[derive(Clone, Debug)]
enum Change {
    Link(Box<LinkConfig>),
    LinkUp(bool),
    NodeUp(usize, bool),
    Reboot(usize),
}

fn changes() -> impl Strategy<Value = Vec<(u64, Change)>> {
    let change = prop_oneof![
        links().prop_map(|config| Change::Link(Box::new(config))),
        any::<bool>().prop_map(Change::LinkUp),
        (0..4_usize, any::<bool>()).prop_map(|(node, up)| Change::NodeUp(node, up)),
        (0..4_usize).prop_map(Change::Reboot),
    ];
    prop::collection::vec((0..300_u64, change), 0..12)
}

impl Network {
    fn change<O: Observer>(&self, sim: &mut Simulation<Plain, O>, change: &Change) {
        let node = |index: usize| [self.sources, self.echoes].concat()[index];
        match change {
            Change::Link(config) => sim.change_link(self.middle, **config).expect("it changes"),
            Change::LinkUp(up) => sim.set_link_up(self.middle, *up).expect("it changes"),
            Change::NodeUp(index, up) => sim.set_node_up(node(*index), *up).expect("a node"),
            Change::Reboot(index) => {
                let fresh = if *index < 2 { Plain::Sink(Vec::new()) } else { Plain::Echo };
                let before = sim.reboot(node(*index), fresh).expect("a node");
                assert!(before.is_some());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changes_and_traces_lose_no_packet_either(
        middle in links(), access in links(), trace in prop::collection::vec(0..20_u64, 1..20), traced: bool,
        changes in changes(), seed: u64,
    ) {
        let mut net = network(middle, access);
        net.topology.allow_changes(net.middle);
        if traced && middle.wakes.is_none() && middle.duty_cycle >= 1.0 {
            let mut time_ms = 1;
            let lines: Vec<String> = trace.iter().map(|gap| { time_ms += gap; time_ms.to_string() }).collect();
            net.topology.trace(net.middle, lines.join("\n").parse::<LinkTrace>().expect("a trace"));
        }
        let run = |piece_ms: u64| {
            let mut sim = simulate(&net, seed, (Tally::default(), Digest::default()));
            let mut now = Instant::ZERO;
            for (gap_ms, change) in &changes {
                let at = now + Duration::from_millis(*gap_ms);
                while now < at {
                    now = (now + Duration::from_millis(piece_ms)).min(at);
                    sim.run_until(now);
                    assert_eq!(sim.now(), now);
                    check(&sim);
                }
                net.change(&mut sim, change);
                check(&sim);
            }
            assert_eq!(sim.run(), RunEnd::Idle);
            check(&sim);
            assert_eq!(sim.counters().in_flight, 0);
            (sim.observer().1, sim.events())
        };
        prop_assert_eq!(run(7), run(100_000));
    }

    #[test]
    fn at_all_times_packets_are_delivered_dropped_or_in_flight(middle in links(), access in links(), seed: u64) {
        let mut sim = simulate(&network(middle, access), seed, Tally::default());
        let mut limit = Instant::ZERO;
        loop {
            let ended = sim.run_until(limit);
            let counters = sim.counters();
            prop_assert_eq!(counters.sent + counters.duplicated, counters.delivered + counters.dropped + counters.in_flight);
            prop_assert_eq!(counters, sim.observer().0);
            if ended == RunEnd::Idle {
                prop_assert_eq!(counters.in_flight, 0);
                prop_assert!(counters.sent >= 600);
                break;
            }
            limit += Duration::from_millis(100);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let digest = |seed| {
        let mut sim = simulate(&network(rough(), rough()), seed, Digest::default());
        sim.run();
        assert!(sim.counters().dropped > 0 && sim.counters().duplicated > 0);
        *sim.observer()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn stopping_and_going_on_changes_nothing() {
    let mut whole = simulate(&network(rough(), rough()), 1, Digest::default());
    whole.run();
    let mut pieces = simulate(&network(rough(), rough()), 1, Digest::default());
    let mut limit = Instant::ZERO;
    while pieces.run_until(limit) == RunEnd::Limit {
        limit += Duration::from_millis(7);
    }
    assert_eq!(pieces.observer(), whole.observer());
    assert_eq!(pieces.events(), whole.events());
}

struct Flow {
    source: NodeId,
    arrivals: Vec<(Instant, Vec<u8>)>,
}

impl Observer for Flow {
    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        if packet.meta.from == self.source {
            self.arrivals.push((now, packet.bytes().to_vec()));
        }
    }
}

#[test]
fn a_further_draw_in_one_entity_moves_no_other() {
    // The middle link draws nothing, so b's flow depends only on the draws of its own source.
    let run = |access| {
        let net = network(LinkConfig { delay: Duration::from_millis(3), ..LinkConfig::default() }, access);
        let mut sim = simulate(&net, 1, Flow { source: net.sources[1], arrivals: Vec::new() });
        sim.run();
        sim.into_parts().1.arrivals
    };
    let quiet = run(LinkConfig::default());
    assert_eq!(quiet.len(), 300);
    assert_eq!(run(rough()), quiet);
}

#[test]
fn a_change_of_the_jitter_moves_no_loss() {
    let run = |jitter| {
        let middle = LinkConfig { loss: Loss::Bernoulli(0.3), jitter, ..LinkConfig::default() };
        let net = network(middle, LinkConfig::default());
        let mut sim = simulate(&net, 1, Flow { source: net.sources[0], arrivals: Vec::new() });
        sim.run();
        let mut survivors: Vec<Vec<u8>> = sim.into_parts().1.arrivals.into_iter().map(|(_, bytes)| bytes).collect();
        survivors.sort_unstable();
        survivors
    };
    let steady = run(Jitter::default());
    assert!((150..290).contains(&steady.len()));
    assert_eq!(run(Jitter::uniform_reordering(Duration::ZERO, Duration::from_micros(100))), steady);
}
