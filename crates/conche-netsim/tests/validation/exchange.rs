//! RFC 7252's default under independent loss.
//!
//! ```text
//!   client ── 25 ms, loss ──> server
//!          <── 25 ms, loss ──
//! ```
//!
//! If a transaction (request and response) fails with p, the exchange succeeds at its k-th
//! retransmission with probability proportional to p^k, after r and k timeouts: 2.5 s (2^k − 1) on
//! average, as the first is U(2, 3) s and each doubles. With MAX_RETRANSMIT = 4: E[duration |
//! success] = r + Σ p^k·2.5(2^k − 1) / Σ p^k, k = 0..4, and p^5 of the exchanges fail.

use std::time::Duration;

use conche_netsim::Simulation;
use conche_netsim::wired::{LinkConfig, Loss, Topology};

use crate::plain::mean;
use crate::roles::{Outcome, Role, attach, papers_config};

const EXCHANGES: u32 = 50_000;

fn run(transaction_loss: f64) -> Vec<Outcome> {
    let mut net = Topology::new();
    let (client, server) = (net.node("client"), net.node("server"));
    let loss = Loss::Bernoulli(1.0 - (1.0 - transaction_loss).sqrt());
    net.duplex("link", client, server, LinkConfig { delay: Duration::from_millis(25), loss, ..LinkConfig::default() });
    let mut sim = Simulation::new(&net, 5, ()).expect("a valid topology");
    attach(&mut sim, server, papers_config(4), Role::Server { fastest: Duration::ZERO, slowest: Duration::ZERO });
    attach(&mut sim, client, papers_config(4), Role::client(server, EXCHANGES));
    sim.run();
    sim.host(client).expect("attached").application().outcomes().to_vec()
}

fn assert_durations(p: f64, expected_seconds: f64, expected_retransmissions: f64) {
    let outcomes = run(p);
    assert_eq!(outcomes.len(), EXCHANGES as usize);
    let succeeded: Vec<_> = outcomes.iter().filter(|outcome| outcome.failure.is_none()).collect();

    let weights: f64 = (0..=4).map(|k| p.powi(k)).sum();
    let timers: f64 = (0..=4).map(|k| p.powi(k) * 2.5 * (2_f64.powi(k) - 1.0)).sum();
    assert!((0.05 + timers / weights - expected_seconds).abs() < 0.01, "the closed form itself");
    let (duration, error) = mean(succeeded.iter().map(|outcome| outcome.course.elapsed.as_secs_f64()));
    assert!((duration - expected_seconds).abs() < 3.0 * error + 0.01, "p = {p}: {duration:.3} s ± {error:.3}");

    let (retransmissions, error) = mean(succeeded.iter().map(|outcome| f64::from(outcome.course.transmissions) - 1.0));
    assert!(
        (retransmissions - expected_retransmissions).abs() < 3.0 * error + 0.005,
        "p = {p}: {retransmissions:.3} retransmissions ± {error:.3}"
    );

    let failed = outcomes.len() - succeeded.len();
    let expected = f64::from(EXCHANGES) * p.powi(5);
    assert!(
        (failed as f64 - expected).abs() < 3.0 * expected.sqrt() + 1.0,
        "p = {p}: {failed} of {expected:.1} failed"
    );
    assert!(outcomes.iter().filter(|outcome| outcome.failure.is_some()).all(|outcome| {
        let seconds = outcome.course.elapsed.as_secs_f64();
        (62.0..=93.0).contains(&seconds) && outcome.course.transmissions == 5
    }));
}

#[test]
fn durations_of_default_exchanges_at_28_6_percent_loss() {
    assert_durations(0.286, 1.47, 0.39);
}

#[test]
fn durations_of_default_exchanges_at_10_percent_loss() {
    assert_durations(0.1, 0.357, 0.111);
}
