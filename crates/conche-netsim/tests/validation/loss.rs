//! Loss and duplication.

use std::time::Duration;

use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::wired::{LinkConfig, Loss, LossProcess, Topology};
use conche_netsim::{Instant, NodeId, Simulation};

use crate::plain::{Arrival, Interval, Plain};

const PACKETS: u32 = 200_000;

/// ```text
///   source ── link 1 ──> relay ── ... ── link n ──> sink
/// ```
struct Chain {
    sim: Simulation<Plain>,
    sink: NodeId,
}

impl Chain {
    fn of(hops: u32, link: LinkConfig) -> Self {
        let mut net = Topology::new();
        let nodes: Vec<NodeId> = (0..=hops).map(|i| net.node(format!("node{i}"))).collect();
        for pair in nodes.windows(2) {
            net.link(format!("{}>", pair[0]), pair[0], pair[1], link);
        }
        let mut sim = Simulation::new(&net, 11, ()).expect("a valid topology");
        let (source, sink) = (nodes[0], nodes[hops as usize]);
        attach(&mut sim, source, sink);
        sim.attach(sink, Plain::Sink(Vec::new())).expect("a node");
        Self { sim, sink }
    }

    fn run(mut self) -> Vec<Arrival> {
        self.sim.run();
        self.sim.host(self.sink).expect("attached").arrivals().to_vec()
    }
}

fn attach(sim: &mut Simulation<Plain>, source: NodeId, to: NodeId) {
    let interval = Interval::Constant(Duration::from_millis(1));
    sim.attach(source, Plain::Source { to, left: PACKETS, bytes: 20, interval }).expect("a node");
}

/// A transaction over h hops without link-layer retransmissions fails with 1 − q^2h: modelled as a
/// chain of 2h links.
#[test]
fn loss_over_h_hops_and_back_is_one_minus_q_to_the_2h() {
    let q: f64 = 0.92;
    for hops in 1..=4 {
        let link = LinkConfig { loss: Loss::Bernoulli(1.0 - q), ..LinkConfig::default() };
        let arrived = Chain::of(2 * hops, link).run().len() as f64 / f64::from(PACKETS);
        let expected = q.powi(2 * i32::try_from(hops).expect("small"));
        let standard_error = (expected * (1.0 - expected) / f64::from(PACKETS)).sqrt();
        assert!(
            (arrived - expected).abs() < 3.0 * standard_error,
            "{hops} hops: {arrived:.4} instead of {expected:.4}"
        );
    }
}

#[test]
fn gilbert_elliott_loses_in_bursts_of_its_mean_length() {
    let loss = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_good: 0.0, loss_bad: 1.0 };
    let arrivals = Chain::of(1, LinkConfig { loss, ..LinkConfig::default() }).run();
    let lost = f64::from(PACKETS) - arrivals.len() as f64;
    let gaps = arrivals.windows(2).filter(|pair| pair[1].number > pair[0].number + 1).count() as f64;
    let (share, burst) = (lost / f64::from(PACKETS), lost / gaps);
    // About 1900 bursts with σ = 4.5: three standard errors are 0.31 of length, 0.0046 of share.
    assert!((share - 0.01 / 0.21).abs() < 0.0046, "lost {share:.4}");
    assert!((burst - 5.0).abs() < 0.31, "mean burst {burst:.2}");
}

/// The states of a loss process in time, seen by frames that all lose in the bad state only:
/// durations are exponential, whatever the traffic.
#[test]
fn timed_gilbert_elliott_has_exponential_bursts_whatever_the_traffic() {
    let (good, bad) = (0.9, 0.1);
    let (mean_good, mean_bad) = (Duration::from_secs_f64(good), Duration::from_secs_f64(bad));
    let loss = Loss::TimedGilbertElliott { mean_good, mean_bad, loss_good: 0.0, loss_bad: 1.0 };
    let arrivals = Chain::of(1, LinkConfig { loss, ..LinkConfig::default() }).run();
    let lost = f64::from(PACKETS) - arrivals.len() as f64;
    // 200 s hold 200 cycles: the standard error of the share is 0.1·0.9·√(2/200).
    assert!((lost / f64::from(PACKETS) - 0.1).abs() < 3.0 * 0.009, "lost {lost}");
    // At one packet a millisecond, a burst of n packets lasts n milliseconds within one.
    let bursts: Vec<f64> = arrivals
        .windows(2)
        .map(|pair| f64::from(pair[1].number - pair[0].number - 1) * 1e-3)
        .filter(|burst| *burst > 0.0)
        .collect();
    assert!((bursts.len() as f64 - 200.0).abs() < 3.0 * 200_f64.sqrt(), "{} bursts", bursts.len());
    for seconds in [0.05, 0.1, 0.2, 0.3] {
        let share = bursts.iter().filter(|burst| **burst > seconds).count() as f64 / bursts.len() as f64;
        let expected = (-seconds / bad).exp();
        let error = (expected * (1.0 - expected) / bursts.len() as f64).sqrt();
        assert!((share - expected).abs() < 3.0 * error + 0.01, "{share} last {seconds} s, instead of {expected}");
    }
}

/// Frames at random times meet the bad state with its share of the time, and both states lose with
/// their own probability; a frame Δ later meets the same state again with probability
/// π + (1 − π)·exp(−Δ(1/good + 1/bad)).
#[test]
fn frames_meet_the_states_of_timed_gilbert_elliott_by_their_share_of_the_time() {
    let (mean_good, mean_bad) = (Duration::from_millis(30), Duration::from_millis(10));
    let loss = Loss::TimedGilbertElliott { mean_good, mean_bad, loss_good: 0.02, loss_bad: 0.6 };
    let arrivals = Chain::of(1, LinkConfig { loss, ..LinkConfig::default() }).run();
    let mut lost = vec![true; PACKETS as usize];
    arrivals.iter().for_each(|arrival| lost[arrival.number as usize] = false);
    let share = |count: usize| count as f64 / f64::from(PACKETS);
    let expected = 0.25 * 0.6 + 0.75 * 0.02;
    // 5000 cycles: states add 0.58·0.25·0.75·√(2/5000) to the error.
    let measured = share(lost.iter().filter(|lost| **lost).count());
    assert!((measured - expected).abs() < 3.0 * 0.0023, "{measured} instead of {expected}");
    let memory = (-0.001_f64 * (1.0 / 0.03 + 1.0 / 0.01)).exp();
    let both = expected.powi(2) + 0.25 * 0.75 * 0.58_f64.powi(2) * memory;
    let measured = share(lost.windows(2).filter(|pair| pair[0] && pair[1]).count());
    assert!((measured - both).abs() < 3.0 * 0.002, "{measured} instead of {both}");
}

#[test]
fn the_states_of_timed_gilbert_elliott_are_the_same_under_any_traffic() {
    let (mean_good, mean_bad) = (Duration::from_millis(300), Duration::from_millis(100));
    let loss = Loss::TimedGilbertElliott { mean_good, mean_bad, loss_good: 0.0, loss_bad: 1.0 };
    let run = |every_ms: usize| {
        let stream = |name| Streams::new(3).stream(Entity::Run, Purpose::named(name));
        let mut process = LossProcess::new(loss, stream("loss"), stream("sojourns"));
        let times = (0..60_000_u64).step_by(every_ms);
        times.filter(|ms| ms.is_multiple_of(50) & process.next_is_lost(Instant::from_millis(*ms))).collect::<Vec<_>>()
    };
    let sparse = run(50);
    assert!(!sparse.is_empty());
    assert_eq!(run(1), sparse);
}

#[test]
fn duplicates_arrive_beside_their_originals_and_are_counted_apart() {
    let link = LinkConfig { duplicate: 0.1, ..LinkConfig::default() };
    let mut chain = Chain::of(1, link);
    chain.sim.run();
    let counters = chain.sim.counters();
    assert_eq!((counters.sent, counters.dropped), (u64::from(PACKETS), 0));
    assert_eq!(counters.delivered, counters.sent + counters.duplicated);
    let share = counters.duplicated as f64 / f64::from(PACKETS);
    assert!((share - 0.1).abs() < 3.0 * (0.09 / f64::from(PACKETS)).sqrt(), "duplicated {share:.4}");
}
