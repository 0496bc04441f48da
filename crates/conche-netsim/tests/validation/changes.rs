//! Changes during a run.
//!
//! ```text
//!   source ── 100 bytes in 10 ms, 5 ms ──> sink
//! ```

use std::time::Duration;

use conche_netsim::packet::Packet;
use conche_netsim::sim::NoSuchNode;
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::{Distribution, Jitter, LinkConfig, Loss, Order, Service, Stalls, Topology};
use conche_netsim::{BitRate, ChangeError, Instant, LinkId, NodeId, RunEnd, Simulation};

use crate::plain::{Interval, Plain};

const PACKETS: u32 = 10;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn config(kilobits: u64) -> LinkConfig {
    LinkConfig { rate: Some(BitRate::kbit(kilobits)), delay: ms(5), ..LinkConfig::default() }
}

#[derive(Default)]
struct Drops(Vec<(Instant, DropReason)>);

impl Observer for Drops {
    fn on_dropped(&mut self, now: Instant, _: &Packet, reason: DropReason) {
        self.0.push((now, reason));
    }
}

struct Run {
    sim: Simulation<Plain, Drops>,
    source: NodeId,
    sink: NodeId,
    link: LinkId,
}

fn run(config: LinkConfig, changing: bool, interval: Duration) -> Run {
    let mut net = Topology::new();
    let (source, sink) = (net.node("source"), net.node("sink"));
    let link = net.link("link", source, sink, config);
    if changing {
        net.allow_changes(link);
    }
    let mut sim = Simulation::new(&net, 5, Drops::default()).expect("a valid topology");
    let interval = Interval::Constant(interval);
    sim.attach(source, Plain::Source { to: sink, left: PACKETS, bytes: 72, interval }).expect("a node");
    sim.attach(sink, Plain::Sink(Vec::new())).expect("a node");
    Run { sim, source, sink, link }
}

impl Run {
    fn until(&mut self, milliseconds: u64) {
        self.sim.run_until(Instant::from_millis(milliseconds));
    }

    fn arrivals_ms(&self) -> Vec<u128> {
        let arrivals = self.sim.host(self.sink).expect("attached").arrivals();
        arrivals.iter().map(|arrival| (arrival.at - Instant::ZERO).as_millis()).collect()
    }
}

#[test]
fn a_link_that_may_change_is_the_link_until_it_does() {
    let jitter = Jitter { distribution: Distribution::Exponential { mean: ms(8) }, order: Order::Free };
    let loss = Loss::GilbertElliott { to_bad: 0.2, to_good: 0.4, loss_good: 0.3, loss_bad: 0.7 };
    let stalls = Stalls { probability: 0.1, mean: ms(30) };
    let rough = LinkConfig { service: Service::Rayleigh, stalls, jitter, loss, duplicate: 0.2, ..config(80) };
    let [fixed, changing] = [false, true].map(|changing| {
        let mut run = run(rough, changing, ms(9));
        run.sim.run();
        (run.sim.host(run.sink).expect("attached").arrivals().to_vec(), run.sim.observer().0.clone())
    });
    assert!(!fixed.0.is_empty() && !fixed.1.is_empty());
    assert_eq!(fixed, changing);
}

#[test]
fn a_changed_rate_and_delay_apply_to_later_transmissions_only() {
    let mut run = run(config(80), true, Duration::ZERO);
    run.until(34);
    assert_eq!(run.sim.link_config(run.link), Ok(config(80)));
    run.sim.change_link(run.link, LinkConfig { delay: ms(1), ..config(40) }).expect("it changes");
    run.sim.run();
    // The fourth packet, in transmission, enters the wire at 40 ms, when the delay is 1 ms.
    assert_eq!(run.arrivals_ms(), [15, 25, 35, 41, 61, 81, 101, 121, 141, 161]);
}

#[test]
fn a_link_without_a_rate_lets_go_of_all_that_waits() {
    let mut run = run(config(80), true, Duration::ZERO);
    run.until(34);
    run.sim.change_link(run.link, LinkConfig { delay: ms(5), ..LinkConfig::default() }).expect("it changes");
    run.sim.run();
    assert_eq!(run.arrivals_ms(), [15, 25, 35, 45, 45, 45, 45, 45, 45, 45]);
}

#[test]
fn a_link_that_goes_down_drops_queued_and_arriving_packets() {
    // From 8 ms on, a packet arrives every 8 ms and one departs every 10 ms.
    let mut run = run(config(80), true, ms(8));
    run.until(33);
    run.sim.set_link_up(run.link, false).expect("it changes");
    run.until(50);
    run.sim.set_link_up(run.link, true).expect("it changes");
    run.sim.run();
    let down = DropReason::LinkDown(run.link);
    // At 33 ms the third packet is in transmission and the fourth waits; the next arrive at 40 and
    // 48 ms.
    let at = [33, 33, 40, 48].map(|ms| (Instant::from_millis(ms), down));
    assert_eq!(run.sim.observer().0, at);
    assert_eq!(run.arrivals_ms(), [23, 33, 71, 81, 91, 101]);
}

#[test]
fn a_node_that_is_cut_off_neither_sends_nor_receives_nor_forwards() {
    let mut net = Topology::new();
    let [a, middle, b] = ["a", "middle", "b"].map(|name| net.node(name));
    net.duplex("left", a, middle, LinkConfig { delay: ms(2), ..LinkConfig::default() });
    net.duplex("right", middle, b, LinkConfig::default());
    for node in [a, middle, b] {
        let mut sim = Simulation::new(&net, 1, Drops::default()).expect("a valid topology");
        let interval = Interval::Constant(ms(10));
        sim.attach(a, Plain::Source { to: b, left: 3, bytes: 20, interval }).expect("a node");
        sim.attach(b, Plain::Sink(Vec::new())).expect("a node");
        sim.run_until(Instant::from_millis(15));
        sim.set_node_up(node, false).expect("a node");
        sim.run_until(Instant::from_millis(25));
        sim.set_node_up(node, true).expect("a node");
        sim.run();
        let drops: Vec<DropReason> = sim.observer().0.iter().map(|(_, reason)| *reason).collect();
        assert_eq!(drops, [DropReason::NodeDown(node)]);
        let numbers: Vec<u32> =
            sim.host(b).expect("attached").arrivals().iter().map(|arrival| arrival.number).collect();
        assert_eq!(numbers, [0, 2], "{node}");
    }
}

#[test]
fn a_reboot_returns_the_old_host_and_the_new_one_gets_later_packets() {
    let mut run = run(config(80), true, Duration::ZERO);
    run.until(40);
    let before = run.sim.reboot(run.sink, Plain::Sink(Vec::new())).expect("a node").expect("it had a host");
    assert_eq!(before.arrivals().len(), 3);
    run.sim.run();
    assert_eq!(run.arrivals_ms(), [45, 55, 65, 75, 85, 95, 105]);
}

#[test]
fn timers_die_with_their_host() {
    let mut run = run(config(80), true, ms(20));
    run.until(50);
    // The old host's next packet would leave at 60 ms; the new one's leave at 53 and 56 ms.
    let interval = Interval::Constant(ms(3));
    let fresh = Plain::Source { to: run.sink, left: 2, bytes: 72, interval };
    let before = run.sim.reboot(run.source, fresh).expect("a node");
    assert!(matches!(before, Some(Plain::Source { left: 8, .. })));
    run.sim.run();
    let sent: Vec<u128> = {
        let arrivals = run.sim.host(run.sink).expect("attached").arrivals();
        arrivals.iter().map(|arrival| (arrival.sent_at - Instant::ZERO).as_millis()).collect()
    };
    assert_eq!(sent, [20, 40, 53, 56]);
}

#[test]
fn invalid_link_and_node_changes_return_an_error() {
    let mut run = run(config(80), false, Duration::ZERO);
    let link = run.link;
    let mut larger = Topology::new();
    let [node, unknown] = [0, 1, 2].map(|number| larger.node(number.to_string()))[1..] else { unreachable!() };
    larger.link("first", node, unknown, config(1));
    let other = larger.link("second", node, unknown, config(1));
    assert_eq!(run.sim.link_config(link), Err(ChangeError::Fixed(link)));
    assert_eq!(run.sim.change_link(link, config(1)), Err(ChangeError::Fixed(link)));
    assert_eq!(run.sim.set_link_up(link, false), Err(ChangeError::Fixed(link)));
    assert_eq!(run.sim.set_link_up(other, false), Err(ChangeError::NoSuchLink(other)));
    assert_eq!(run.sim.set_node_up(unknown, false), Err(NoSuchNode(unknown)));
    assert!(run.sim.reboot(unknown, Plain::Echo).is_err());
    let mut changing = self::run(config(80), true, Duration::ZERO);
    let zero = LinkConfig { rate: Some(BitRate::bit(0)), ..config(1) };
    assert!(matches!(changing.sim.change_link(changing.link, zero), Err(ChangeError::Config(_))));
}

#[test]
fn a_run_that_goes_idle_is_at_its_limit_unless_that_is_the_end_of_time() {
    let mut run = run(config(80), false, Duration::ZERO);
    assert_eq!(run.sim.run_until(Instant::from_millis(5_000)), RunEnd::Idle);
    assert_eq!(run.sim.now(), Instant::from_millis(5_000));
    assert_eq!(run.sim.run(), RunEnd::Idle);
    assert_eq!(run.sim.now(), Instant::from_millis(5_000));
    assert_eq!(run.arrivals_ms().last(), Some(&105));
}
