//! Loss and duplication.

use std::time::Duration;

use conche_netsim::wired::{LinkConfig, Loss, Topology};
use conche_netsim::{NodeId, Simulation};

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
