//! Links whose rate follows a trace.
//!
//! ```text
//!   source ── rate over time ──> sink
//! ```

use std::time::Duration;

use conche_netsim::wired::{LinkConfig, RateTrace, Topology, TopologyError};
use conche_netsim::{BitRate, Instant, Simulation};

use crate::plain::{Arrival, Interval, Plain};

type Rows = [(f64, f64)];

const SECOND: Duration = Duration::from_secs(1);

/// Packets of 100 bytes with headers.
fn run(
    config: LinkConfig,
    trace: Option<(&Rows, Option<Duration>)>,
    packets: (u32, Interval),
    seed: u64,
) -> Vec<Arrival> {
    let mut net = Topology::new();
    let (source, sink) = (net.node("source"), net.node("sink"));
    let link = net.link("link", source, sink, config);
    if let Some((rows, start)) = trace {
        net.rates(link, RateTrace::new(rows).expect("a trace"), start);
    }
    let mut sim = Simulation::new(&net, seed, ()).expect("a valid topology");
    let (left, interval) = packets;
    sim.attach(source, Plain::Source { to: sink, left, bytes: 72, interval }).expect("a node");
    sim.attach(sink, Plain::Sink(Vec::new())).expect("a node");
    sim.run();
    sim.host(sink).expect("attached").arrivals().to_vec()
}

const BURST: Interval = Interval::Constant(Duration::ZERO);
const OUTAGES: &Rows = &[(0.0, 80_000.0), (2.0, 0.0), (3.0, 40_000.0), (4.0, 0.0)];

#[test]
fn a_link_with_a_trace_of_one_rate_is_a_link_of_that_rate() {
    let traffic = (2000, Interval::Poisson(Duration::from_millis(12)));
    let rate = LinkConfig { rate: Some(BitRate::kbit(80)), ..LinkConfig::default() };
    let constant: &Rows = &[(0.0, 80_000.0), (0.5, 80_000.0), (1.0, 0.0)];
    let traced = run(LinkConfig::default(), Some((constant, None)), traffic, 3);
    assert_eq!(traced.len(), 2000);
    assert_eq!(run(rate, None, traffic, 3), traced);
}

/// A period of 4 s carries 200 + 50 packets: 100 bytes take 10 ms, and 20 ms.
#[test]
fn a_backlog_leaves_as_the_trace_permits() {
    let arrivals = run(LinkConfig::default(), Some((OUTAGES, Some(Duration::ZERO))), (1000, BURST), 3);
    let at: Vec<u64> = arrivals.iter().map(|arrival| arrival.at.as_millis()).collect();
    for (number, expected) in (0..).zip(&at) {
        let (period, within) = (number / 250, number % 250 + 1);
        let time = if within <= 200 { 10 * within } else { 3000 + 20 * (within - 200) };
        assert_eq!(4000 * period + time, *expected, "packet {number}");
    }
}

#[test]
fn a_run_starts_at_a_random_time_of_the_trace_unless_it_is_written() {
    let first = |start, seed| run(LinkConfig::default(), Some((OUTAGES, start)), (1, BURST), seed)[0].at;
    assert_eq!(first(Some(2 * SECOND), 1), Instant::from_millis(1020), "1 s of outage");
    assert_eq!(first(Some(7 * SECOND), 1), Instant::from_millis(20), "in the second period");
    // An outage is a quarter of the time: of 400 runs, 100 with a standard error of 8.7.
    let waiting = (0..400).filter(|seed| first(None, *seed) > Instant::from_millis(20)).count();
    assert!((74..=129).contains(&waiting), "{waiting}");
}

#[test]
fn a_trace_beside_a_duty_cycle_is_refused() {
    let mut net = Topology::new();
    let (source, sink) = (net.node("source"), net.node("sink"));
    let link = net.link("link", source, sink, LinkConfig { duty_cycle: 0.5, ..LinkConfig::default() });
    net.rates(link, RateTrace::new(OUTAGES).expect("a trace"), None);
    let refused = Simulation::<Plain>::new(&net, 1, ()).err();
    assert_eq!(refused, Some(TopologyError::DutyCycleWithoutRate("link".to_owned())));
}
