//! Jitter with and without reordering.
//!
//! ```text
//!   source ── 100 ms + U(10, 20) ms ──> sink
//! ```

use std::time::Duration;

use conche_netsim::Simulation;
use conche_netsim::wired::{Distribution, Jitter, LinkConfig, Order, Topology};

use crate::plain::{Arrival, Interval, Plain, mean};

const PACKETS: u32 = 100_000;
const WIDTH_MS: f64 = 10.0;

fn run(order: Order, interval: Duration) -> Vec<Arrival> {
    let ms = Duration::from_millis;
    let mut net = Topology::new();
    let (source, sink) = (net.node("source"), net.node("sink"));
    let jitter = Jitter { distribution: Distribution::Uniform { low: ms(10), high: ms(20) }, order };
    net.link("link", source, sink, LinkConfig { delay: ms(100), jitter, ..LinkConfig::default() });
    let mut sim = Simulation::new(&net, 3, ()).expect("a valid topology");
    let interval = Interval::Constant(interval);
    sim.attach(source, Plain::Source { to: sink, left: PACKETS, bytes: 20, interval }).expect("a node");
    sim.attach(sink, Plain::Sink(Vec::new())).expect("a node");
    sim.run();
    sim.host(sink).expect("attached").arrivals().to_vec()
}

fn delays_ms(arrivals: &[Arrival]) -> impl Iterator<Item = f64> {
    arrivals.iter().map(|arrival| (arrival.at - arrival.sent_at).as_secs_f64() * 1e3)
}

#[test]
fn delays_are_uniform_between_their_bounds() {
    let arrivals = run(Order::Free, Duration::from_millis(2));
    assert!(delays_ms(&arrivals).all(|delay| (110.0..=120.0).contains(&delay)));
    let (average, error) = mean(delays_ms(&arrivals));
    assert!((average - 115.0).abs() < 4.0 * error, "{average:.3} ms");
    let (square, error) = mean(delays_ms(&arrivals).map(|delay| (delay - 115.0).powi(2)));
    assert!((square - WIDTH_MS.powi(2) / 12.0).abs() < 4.0 * error, "variance {square:.3} ms²");
}

/// A packet overtakes the one sent d before it with probability (w − d)²/2w².
#[test]
fn packets_overtake_their_predecessors_as_often_as_two_draws_say() {
    for spacing_ms in [0, 2, 6, 10] {
        let mut arrivals = run(Order::Free, Duration::from_millis(spacing_ms));
        arrivals.sort_unstable_by_key(|arrival| arrival.number);
        let overtaken = arrivals.windows(2).map(|pair| f64::from(u8::from(pair[1].at < pair[0].at)));
        let (share, error) = mean(overtaken);
        let expected = (WIDTH_MS - spacing_ms as f64).powi(2) / (2.0 * WIDTH_MS.powi(2));
        // Neighbouring pairs share a draw: the true standard error is smaller.
        assert!((share - expected).abs() <= 4.0 * error, "{spacing_ms} ms apart: {share:.4} instead of {expected:.4}");
    }
}

/// With order kept, a packet sent d = 6 ms after its predecessor waits for at most that one. Its
/// delay depends on two draws, E[max(u, v − d)] = 15 ms + (w − d)³/6w²; earlier packets do not
/// matter, since 2d > w.
#[test]
fn jitter_with_kept_order_has_the_closed_form_mean_delay() {
    let arrivals = run(Order::Kept, Duration::from_millis(6));
    assert!(arrivals.is_sorted_by_key(|arrival| arrival.number));
    let (average, error) = mean(delays_ms(&arrivals));
    let expected = 115.0 + (WIDTH_MS - 6.0).powi(3) / (6.0 * WIDTH_MS.powi(2));
    assert!((average - expected).abs() < 4.0 * error, "{average:.3} ms instead of {expected:.3} ms");
}
