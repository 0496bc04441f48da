//! Waits that ContikiMAC's sleeping receivers cause for senders and neighbours.
//!
//! A frame with 50 bytes of UDP payload has a PSDU of 63 octets, 2.208 ms on the air. With the gap
//! of 0.397 ms and the turnaround of 0.192 ms, strobes repeat every 2.797 ms.

use std::time::Duration;

use conche_netsim::mac::{ContikiMac, MacConfig, RadioCounters, Rdc, TransmitOutcome};
use conche_netsim::radio::{MediumConfig, PathLoss, Sinr, Udgm};
use conche_netsim::sixlowpan::Sixlowpan;
use conche_netsim::{Instant, Simulation};

use super::frames::{self, disk, outcomes};
use super::net::row;
use crate::plain::{Arrival, Interval, Plain};

const STROBE_MS: f64 = 2.208;
const GAP_MS: f64 = 0.3967 + 0.192;
const STROBE_INTERVAL_MS: f64 = STROBE_MS + GAP_MS;
const ASSESSMENT_MS: f64 = 6.0 * 0.6104;

struct Sender {
    place: usize,
    every_ms: f64,
    packets: u32,
}

fn run(
    medium: MediumConfig,
    mac: MacConfig,
    places_m: &[f64],
    senders: &[Sender],
    seed: u64,
) -> (Vec<Arrival>, RadioCounters) {
    let (net, radio, nodes) = row(medium, mac, places_m);
    let mut sim = Simulation::<Plain>::new(&net, seed, ()).expect("a valid topology");
    sim.attach(nodes[0], Plain::Sink(Vec::new())).expect("a node");
    for sender in senders {
        let interval = Interval::Constant(Duration::from_secs_f64(sender.every_ms / 1e3));
        let source = Plain::Source { to: nodes[0], left: sender.packets, bytes: 50, interval };
        sim.attach(nodes[sender.place], source).expect("a node");
    }
    sim.run();
    let counters = sim.radio_counters(radio).expect("a radio network");
    (sim.host(nodes[0]).expect("attached").arrivals().to_vec(), counters)
}

fn once(place: usize, at_ms: f64) -> Sender {
    Sender { place, every_ms: at_ms, packets: 1 }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn delay_ms(arrival: &Arrival) -> f64 {
    ms(arrival.at - arrival.sent_at)
}

/// ```text
///   sender ──> sleeping receiver        W ~ U(0, 125 ms)
/// ```
///
/// The receiver wakes up W after the first strobe began, x after the last one, and receives the
/// next one S + P − x later, with strobes of length S at intervals of P. After waking up in a gap,
/// its second assessment detects the next strobe after its start, so it receives the one after
/// that. The mean over x is S + P/2 + (P − S).
#[test]
fn a_receiver_of_unknown_phase_is_waited_for_uniformly_up_to_a_cycle() {
    for hertz in [8, 16, 32] {
        let cycle_ms = 1000.0 / f64::from(hertz);
        let mac = MacConfig::contiki27().contikimac(ContikiMac::contiki27().channel_check_rate(hertz));
        let waits: Vec<f64> = (0..2000)
            .map(|seed| {
                let (arrivals, counters) = run(disk(), mac, &[0.0, 5.0], &[once(1, 0.0)], seed);
                assert_eq!((arrivals.len(), counters.acknowledgments, counters.duplicates), (1, 1, 0));
                delay_ms(&arrivals[0]) - ASSESSMENT_MS
            })
            .collect();
        let reception_ms = STROBE_MS + STROBE_INTERVAL_MS / 2.0 + GAP_MS;
        let mean = waits.iter().sum::<f64>() / 2000.0 - reception_ms;
        // The standard error of the mean is 0.65 % of the cycle.
        assert!((mean / cycle_ms - 0.5).abs() < 0.02, "{mean:.2} ms at {hertz} Hz");
        let longest = cycle_ms + 2.0 * STROBE_INTERVAL_MS;
        assert!(waits.iter().all(|wait| (STROBE_MS..longest).contains(wait)), "{hertz} Hz");
        // Only at 8 Hz are strobes short enough not to blur the cycle's quarters.
        for quarter in (0..4).filter(|_| hertz == 8) {
            let from = reception_ms + f64::from(quarter) * cycle_ms / 4.0;
            let count = waits.iter().filter(|wait| (from..from + cycle_ms / 4.0).contains(*wait)).count();
            assert!(count.abs_diff(500) < 80, "{count} of 2000 in quarter {quarter}");
        }
    }
}

/// ```text
///   sender ──> sleeping receiver <── neighbour, in range of the sender
/// ```
#[test]
fn the_channel_is_busy_during_the_whole_wait_and_a_neighbour_defers() {
    let mac = MacConfig::contiki27_contikimac();
    let mut waits = 0;
    for seed in 0..100 {
        let (alone, _) = run(disk(), mac, &[0.0, 5.0, 4.0], &[once(1, 0.0)], seed);
        let wait_ms = delay_ms(&alone[0]);
        if wait_ms < 30.0 {
            continue;
        }
        waits += 1;
        for share in [0.2, 0.5, 0.8] {
            let begin = ASSESSMENT_MS + share * (wait_ms - 10.0);
            let (both, counters) = run(disk(), mac, &[0.0, 5.0, 4.0], &[once(1, 0.0), once(2, begin)], seed);
            assert!(counters.busy >= 1, "seed {seed}: clear {begin:.1} ms into {wait_ms:.1} ms");
            assert_eq!((both.len(), both[0], counters.no_ack), (2, alone[0], 0), "seed {seed}");
        }
    }
    assert!(waits > 50);
}

/// A receiver with a known phase is strobed for at most 16.7 ms: six strobes.
#[test]
fn a_receiver_of_known_phase_takes_six_strobes_at_most_and_less_than_a_cycle() {
    let every_ms = 1037.0;
    let senders = [Sender { place: 1, every_ms, packets: 1001 }];
    let (first, counters) = run(disk(), MacConfig::contiki27_contikimac(), &[0.0, 5.0], &[once(1, every_ms)], 3);
    let first_frames = counters.frames;
    assert_eq!(first.len(), 1);
    let (arrivals, counters) = run(disk(), MacConfig::contiki27_contikimac(), &[0.0, 5.0], &senders, 3);
    assert_eq!((arrivals.len(), counters.succeeded, counters.no_ack, counters.busy), (1001, 1001, 0, 0));
    assert!(counters.frames <= first_frames + 6 * 1000, "{} frames", counters.frames);
    // The sender starts 15.9 ms ahead and strobes 12.2 ms before the receiver is due.
    assert!(counters.frames >= first_frames + 4 * 1000, "{} frames", counters.frames);
    let mean = arrivals[1..].iter().map(delay_ms).sum::<f64>() / 1000.0;
    // U(0, 125 ms) for the phase minus the guard time, the guard time, and the strobe.
    assert!((mean - (62.5 + 15.87 + STROBE_MS)).abs() < 5.0, "{mean:.2} ms");
    assert!(arrivals[1..].iter().all(|arrival| delay_ms(arrival) < 125.0 + 16.7 + 3.7 + 3.0));
}

/// A link without a return path: rows are senders; 60 dB of loss leave −60 dBm.
fn one_way() -> MediumConfig {
    let losses = vec![vec![0.0, f64::INFINITY], vec![60.0, 0.0]];
    MediumConfig::Sinr(Sinr { path_loss: PathLoss::Matrix(losses), tx_power_dbm: 0.0, ..Sinr::default() })
}

/// ```text
///   sender ──> receiver, whose acknowledgments are lost
/// ```
#[test]
fn lost_acknowledgments_lead_to_copies_that_are_dropped() {
    for seed in 0..20 {
        let (arrivals, counters) =
            run(one_way(), MacConfig::contiki27_contikimac(), &[0.0, 5.0], &[once(1, 0.0)], seed);
        assert_eq!(arrivals.len(), 1);
        // Five full trains. The receiver wakes up at least once in each, and twice if early.
        assert_eq!((counters.no_ack, counters.unacknowledged, counters.succeeded), (5, 1, 0));
        assert!((5..=10).contains(&counters.received), "{} copies", counters.received);
        assert_eq!(counters.duplicates, counters.received - 1);
        assert_eq!(counters.acknowledgments, counters.received);
        // Each lasts 127.4 ms: the 46th strobe is the last to begin before.
        assert_eq!(counters.frames, 5 * 46);
    }
}

/// ```text
///   a ── 10 m ── receiver ── 10 m ── b          all ranges: 15 m
/// ```
#[test]
fn strobes_of_two_hidden_senders_collide_until_both_give_up() {
    let disk = 15.0;
    let udgm =
        Udgm { transmission_range_m: disk, interference_range_m: disk, carrier_range_m: disk, success_ratio: 1.0 };
    let mac = MacConfig::contiki27_contikimac();
    for seed in 0..20 {
        let places = [0.0, 10.0, -10.0];
        let (alone, _) = run(MediumConfig::Udgm(udgm), mac, &places, &[once(1, 0.0)], seed);
        assert!(delay_ms(&alone[0]) < 135.0);
        let both = [once(1, 0.0), once(2, 0.0)];
        let (arrivals, counters) = run(MediumConfig::Udgm(udgm), mac, &places, &both, seed);
        // Both trains of 131 ms are lost; then both senders wait for 125 ms and a random time.
        assert!(arrivals.iter().all(|arrival| delay_ms(arrival) > 131.0 + 125.0), "seed {seed}: {arrivals:?}");
        assert!(counters.no_ack >= 2, "seed {seed}");
    }
}

#[test]
fn a_broadcast_is_strobed_for_a_full_cycle_and_wakes_each_neighbour_once() {
    let mac = MacConfig::contiki27_contikimac();
    let (hosts, counters) = frames::run(disk(), mac, &[0.0, 5.0, 10.0, 15.0], &[(None, 50)]);
    let heard: Vec<usize> = hosts.iter().map(|host| host.heard.len()).collect();
    assert_eq!((heard, counters.delivered, counters.broadcast), (vec![0, 1, 1, 0], 2, 1));
    assert_ne!(hosts[1].heard[0].0, hosts[2].heard[0].0, "each wakes up at its own time");
    assert_eq!(outcomes(&hosts[0]), [TransmitOutcome::Sent]);
    let (from, to) = (ASSESSMENT_MS + 127.4, ASSESSMENT_MS + 127.4 + STROBE_INTERVAL_MS);
    assert!((from..to).contains(&ms(hosts[0].told[0].0 - Instant::ZERO)));
}

#[test]
fn a_short_frame_is_padded() {
    let mac = MacConfig::contiki27_contikimac();
    let heard = |bytes| {
        let (hosts, _) = frames::run(disk(), mac, &[0.0, 5.0], &[(Some(1), bytes)]);
        hosts[1].heard[0].0
    };
    assert_eq!(heard(1), heard(30), "43 octets are 30 and a header of 13");
    assert_ne!(heard(30), heard(31));
}

/// ```text
///   30 stations in reach of each other, silent for an hour
/// ```
#[test]
fn sleeping_and_waking_in_silence_costs_no_event() {
    let places: Vec<f64> = (0..30).map(f64::from).collect();
    let (net, radio, nodes) = row(MediumConfig::Udgm(Udgm::default()), MacConfig::contiki27_contikimac(), &places);
    let mut sim = Simulation::<Plain>::new(&net, 1, ()).expect("a valid topology");
    let interval = Interval::Constant(Duration::from_secs(3600));
    sim.attach(nodes[0], Plain::Sink(Vec::new())).expect("a node");
    sim.attach(nodes[1], Plain::Source { to: nodes[0], left: 1, bytes: 50, interval }).expect("a node");
    sim.run_until(Instant::from_millis(3_599_999));
    assert_eq!(sim.events(), 0);
    sim.run();
    assert_eq!(sim.radio_counters(radio).expect("a radio network").succeeded, 1);
    // At most one train of 46 strobes, and some events per station that it wakes up.
    assert!(sim.events() < 46 * 4 + 30 * 5, "{} events", sim.events());
}

#[test]
fn presets_back_off_by_their_cycle() {
    let mac = MacConfig::contiki30().contikimac(ContikiMac::contiki30().channel_check_rate(16));
    let Rdc::ContikiMac(config) = mac.rdc else { panic!("duty-cycled") };
    let conche_netsim::mac::AccessConfig::Contiki30(access) = mac.access else { panic!("Contiki's access") };
    assert_eq!((config.cycle_time, access.time_base), (Duration::from_micros(62_500), config.cycle_time));
}

/// ```text
///   sender ── 3 fragments ──> sleeping receiver
///
///   │ wait for the receiver: U(0, 125 ms) │ 127 │ ACK │ 127 or less │ ACK │ the last one │ ACK │
/// ```
///
/// Each fragment announces the next, which keeps the receiver awake until the last.
#[test]
fn frames_that_wait_for_one_neighbour_follow_in_a_burst() {
    let mac = MacConfig { sixlowpan: Some(Sixlowpan::default()), ..MacConfig::contiki27_contikimac() };
    for seed in 0..50 {
        let (net, radio, nodes) = row(disk(), mac, &[0.0, 5.0]);
        let mut sim = Simulation::<Plain>::new(&net, seed, ()).expect("a valid topology");
        let interval = Interval::Constant(Duration::from_secs(1));
        sim.attach(nodes[0], Plain::Sink(Vec::new())).expect("a node");
        sim.attach(nodes[1], Plain::Source { to: nodes[0], left: 10, bytes: 200, interval }).expect("a node");
        sim.run();
        let counters = sim.radio_counters(radio).expect("a radio network");
        assert_eq!((counters.succeeded, counters.no_ack, counters.received), (30, 0, 30), "seed {seed}");
        let arrivals = sim.host(nodes[0]).expect("attached").arrivals();
        // The first fragment waits for the cycle, the others for two frames and acknowledgments.
        assert!(arrivals.iter().all(|arrival| delay_ms(arrival) < 125.0 + 16.7 + 3.7 + 3.0 * 6.0), "seed {seed}");
        // Two of three frames per packet are sent once.
        let first_fragments = counters.frames - 20;
        assert!(first_fragments < 28 + 9 * 5, "{first_fragments} strobes of 10 first fragments");
        sim.run_until(Instant::from_millis(3_600_000));
        assert_eq!(sim.run(), conche_netsim::RunEnd::Idle);
    }
}

/// ```text
///   sender ── 8 packets at once ──> sleeping receiver
/// ```
#[test]
fn a_queue_is_emptied_in_one_burst() {
    let senders = [Sender { place: 1, every_ms: 0.0, packets: 8 }];
    for seed in 0..20 {
        let (arrivals, counters) = run(disk(), MacConfig::contiki27_contikimac(), &[0.0, 5.0], &senders, seed);
        assert_eq!((arrivals.len(), counters.succeeded, counters.no_ack), (8, 8, 0));
        let burst = arrivals[7].at - arrivals[0].at;
        // Seven frames, each with 0.641 ms to read the previous acknowledgment.
        assert!((ms(burst) - 7.0 * (STROBE_INTERVAL_MS + 0.641)).abs() < 0.1, "{burst:?}");
    }
}

/// ```text
///   sender ── 2 packets at once ──> receiver, whose acknowledgments are lost
/// ```
///
/// A receiver sleeps after a lone frame. After a frame that announces another it stays awake and
/// receives the rest of the train as well.
#[test]
fn a_receiver_stays_on_for_the_frame_that_is_announced() {
    let received = |packets| -> u64 {
        let senders = [Sender { place: 1, every_ms: 0.0, packets }];
        let of = |seed| run(one_way(), MacConfig::contiki27_contikimac(), &[0.0, 5.0], &senders, seed);
        (0..20)
            .map(|seed| {
                let (arrivals, counters) = of(seed);
                assert_eq!((arrivals.len(), counters.unacknowledged), (packets as usize, u64::from(packets)));
                counters.received
            })
            .sum()
    };
    let (alone, announcing) = (received(1), received(2) - received(1));
    assert!((100..117).contains(&alone), "{alone} receptions in 100 trains");
    // It wakes up amid 46 strobes, and misses every other one while it acknowledges.
    assert!((100 * 9..100 * 14).contains(&announcing), "{announcing} receptions in 100 trains");
}

/// ```text
///   sender ── 2 packets at once ──> sleeping receiver
/// ```
///
/// Without bursts, the second frame is received at the receiver's next wake-up; 2.7 also sets a
/// timer for it, 3.0 does not.
#[test]
fn without_bursts_version_2_7_waits_a_time_base_after_each_frame() {
    let between = |mac: MacConfig, config: ContikiMac, seed| {
        let mac = mac.contikimac(ContikiMac { with_bursts: false, ..config });
        let senders = [Sender { place: 1, every_ms: 0.0, packets: 2 }];
        let (arrivals, _) = run(disk(), mac, &[0.0, 5.0], &senders, seed);
        ms(arrivals[1].at - arrivals[0].at)
    };
    for seed in 0..20 {
        let old = between(MacConfig::contiki27(), ContikiMac::contiki27(), seed);
        let new = between(MacConfig::contiki30(), ContikiMac::contiki30(), seed);
        assert!((old - 250.0).abs() < 20.0, "{old:.1} ms, seed {seed}");
        assert!((new - 125.0).abs() < 20.0, "{new:.1} ms, seed {seed}");
    }
}
