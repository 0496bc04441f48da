//! Waiting times of M/D/1 and M/G/1, and the capacity of a drop-tail queue.

use std::time::Duration;

use conche_netsim::wired::{DropTail, InService, LinkConfig, Service, Topology};
use conche_netsim::{BitRate, NodeId, Simulation};

use crate::plain::{Arrival, Interval, Plain, mean};

/// 66 bytes of UDP payload and 28 of headers at 30 kbit/s.
const SERVICE: Duration = Duration::from_nanos(25_066_667);
const PAYLOAD_BYTES: usize = 66;

/// ```text
///   source ── 30 kbit/s, queue ──> sink
/// ```
fn run(queue: DropTail, packets: u32, interval: Interval) -> Vec<Arrival> {
    run_over(LinkConfig { queue, ..LinkConfig::default() }, packets, interval)
}

fn run_over(link: LinkConfig, packets: u32, interval: Interval) -> Vec<Arrival> {
    let mut net = Topology::new();
    let (source, sink) = (net.node("source"), net.node("sink"));
    net.link("link", source, sink, LinkConfig { rate: Some(BitRate::kbit(30)), ..link });
    let mut sim = Simulation::new(&net, 7, ()).expect("a valid topology");
    attach(&mut sim, source, Plain::Source { to: sink, left: packets, bytes: PAYLOAD_BYTES, interval });
    attach(&mut sim, sink, Plain::Sink(Vec::new()));
    sim.run();
    sim.host(sink).expect("attached").arrivals().to_vec()
}

fn attach(sim: &mut Simulation<Plain>, node: NodeId, host: Plain) {
    sim.attach(node, host).expect("a node of the topology");
}

/// Wq = ρs/2(1−ρ) (Pollaczek 1930, Khinchine 1932).
fn assert_waits(load: f64, packets: u32, expected_ms: f64, tolerance: f64) {
    let arrivals = run(DropTail::default(), packets, Interval::Poisson(SERVICE.div_f64(load)));
    assert_eq!(arrivals.len(), packets as usize);
    let waits = arrivals.iter().map(|arrival| (arrival.at - arrival.sent_at - SERVICE).as_secs_f64() * 1e3);
    let (measured_ms, _) = mean(waits);
    let deviation = measured_ms / expected_ms - 1.0;
    assert!(deviation.abs() < tolerance, "rho {load}: {measured_ms:.2} ms is {:.2} % off", deviation * 100.0);
}

// Tolerances are about three standard errors, which grow as 1/(1-ρ), because consecutive waits are
// correlated.

#[test]
fn waits_of_m_d_1_at_half_load_are_half_a_service_time() {
    assert_waits(0.5, 400_000, 12.53, 0.01);
}

#[test]
fn waits_of_m_d_1_at_four_fifths_load_are_two_service_times() {
    assert_waits(0.8, 1_000_000, 50.13, 0.015);
}

#[test]
fn waits_of_m_d_1_at_nine_tenths_load_are_four_and_a_half_service_times() {
    assert_waits(0.9, 2_000_000, 112.8, 0.03);
}

/// Wq = λE[S²]/2(1−ρ), with E[S²] = 4s²/π for Rayleigh's distribution and 2s² for the exponential
/// one.
#[test]
fn waits_at_a_link_whose_service_varies_are_those_of_m_g_1() {
    for (service, square) in [(Service::Rayleigh, 4.0 / std::f64::consts::PI), (Service::Exponential, 2.0)] {
        let link = LinkConfig { service, ..LinkConfig::default() };
        let arrivals = run_over(link, 400_000, Interval::Poisson(SERVICE.div_f64(0.5)));
        let (sojourn_ms, _) = mean(arrivals.iter().map(|arrival| (arrival.at - arrival.sent_at).as_secs_f64() * 1e3));
        let expected_ms = SERVICE.as_secs_f64() * 1e3 + 12.53 * square;
        let deviation = sojourn_ms / expected_ms - 1.0;
        assert!(deviation.abs() < 0.01, "{service:?}: {sojourn_ms:.2} ms is {:.2} % off", deviation * 100.0);
    }
}

/// W(n+1) = max(0, W(n) + s − t(n)) (Lindley 1952), to the nanosecond.
#[test]
fn waiting_times_follow_lindleys_recursion() {
    let arrivals = run(DropTail::default(), 20_000, Interval::Poisson(SERVICE.div_f64(0.9)));
    let mut wait = Duration::ZERO;
    for pair in arrivals.windows(2) {
        let gap = pair[1].sent_at - pair[0].sent_at;
        wait = (wait + SERVICE).saturating_sub(gap);
        assert_eq!(pair[1].at - pair[1].sent_at, wait + SERVICE, "packet {}", pair[1].number);
    }
}

#[test]
fn a_burst_fills_2500_bytes_with_26_waiting_frames_and_one_in_service() {
    let burst = |queue| run(queue, 1000, Interval::Constant(Duration::ZERO));
    let excluded = burst(DropTail::bytes(2500));
    assert_eq!(excluded.len(), 27);
    assert_eq!(burst(DropTail { in_service: InService::Included, ..DropTail::bytes(2500) }).len(), 26);
    for (arrival, departed) in excluded.iter().zip(1..) {
        assert_eq!(arrival.at.as_nanos(), departed * 25_066_667);
    }
}

/// Per service time one frame leaves and two arrive: the full queue accepts every second frame.
#[test]
fn a_full_queue_takes_as_many_frames_as_leave() {
    let arrivals = run(DropTail::packets(10), 1000, Interval::Constant(SERVICE / 2));
    let last = arrivals.last().expect("some arrive").at;
    assert_eq!(arrivals.len() as u128, (last.as_nanos() as u128 - SERVICE.as_nanos() / 2).div_ceil(SERVICE.as_nanos()));
    // 1000 frames in 500 service times: 500 leave, one is in service and ten wait at the end.
    assert!((509..=511).contains(&arrivals.len()), "{}", arrivals.len());
}
