//! Overlapping frames, links and fading in each medium.

use std::time::Duration;

use conche_netsim::host::{Host, Port, Received};
use conche_netsim::mac::{AccessConfig, AttemptConfig, Ieee802154, MacConfig, RadioCounters};
use conche_netsim::radio::{Gilbert, MediumConfig, Mrm31, PathLoss, Sinr, Udgm};
use conche_netsim::{NodeId, Simulation};

use super::net::row;

enum Scripted {
    Sender { to: NodeId, at_micros: Vec<u64> },
    Sink(Vec<NodeId>),
}

impl Host for Scripted {
    type Timer = ();

    fn start(&mut self, port: &mut Port<'_, ()>) {
        if let Self::Sender { at_micros, .. } = self {
            for micros in at_micros {
                port.set_timer(Duration::from_micros(*micros), ());
            }
        }
    }

    fn timer(&mut self, port: &mut Port<'_, ()>, (): ()) {
        if let Self::Sender { to, .. } = self {
            port.send(*to, &[0; 89], None, None);
        }
    }

    fn receive(&mut self, _: &mut Port<'_, ()>, packet: Received<'_>) {
        if let Self::Sink(from) = self {
            from.push(packet.meta.from);
        }
    }

    fn wake(&mut self, _: &mut Port<'_, ()>) {}
}

/// No backoff, assessment or acknowledgment: a frame of 100 octets (3.392 ms) starts as soon as it
/// is sent.
fn blunt() -> MacConfig {
    let access = AccessConfig::Ieee802154(Ieee802154 { min_be: 0, max_be: 0, ..Ieee802154::default() });
    let attempt = AttemptConfig { cca: None, tx_turnaround: Duration::ZERO, ..AttemptConfig::default() };
    MacConfig { access, attempt, ..MacConfig::ieee802154() }.unacknowledged()
}

/// ```text
///   sink ── near ── far
/// ```
fn received(medium: MediumConfig, places_m: [f64; 2], sent_at_micros: [u64; 2]) -> Vec<usize> {
    let (net, _, nodes) = row(medium, blunt(), &[0.0, places_m[0], places_m[1]]);
    let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
    sim.attach(nodes[0], Scripted::Sink(Vec::new())).expect("a node");
    for (node, at) in nodes[1..].iter().zip(sent_at_micros) {
        sim.attach(*node, Scripted::Sender { to: nodes[0], at_micros: vec![at] }).expect("a node");
    }
    sim.run();
    match sim.host(nodes[0]) {
        Some(Scripted::Sink(from)) => from.iter().map(|node| node.index()).collect(),
        _ => panic!("the sink is a sink"),
    }
}

fn udgm() -> MediumConfig {
    MediumConfig::Udgm(Udgm {
        transmission_range_m: 10.0,
        interference_range_m: 20.0,
        carrier_range_m: 20.0,
        success_ratio: 1.0,
    })
}

#[test]
fn in_unit_disks_any_overlap_destroys_both() {
    assert_eq!(received(udgm(), [5.0, 9.0], [0, 4000]), [1, 2], "apart");
    assert_eq!(received(udgm(), [5.0, 9.0], [0, 3392]), [1, 2], "one after the other");
    assert_eq!(received(udgm(), [5.0, 9.0], [0, 3391]), [0; 0], "a microsecond");
    assert_eq!(received(udgm(), [5.0, 9.0], [1000, 0]), [0; 0], "the stronger one later");
}

#[test]
fn in_unit_disks_frames_disturb_farther_than_they_are_received() {
    assert_eq!(received(udgm(), [5.0, 15.0], [0, 9000]), [1]);
    assert_eq!(received(udgm(), [5.0, 15.0], [0, 3000]), [0; 0]);
    assert_eq!(received(udgm(), [5.0, 15.0], [1000, 0]), [0; 0]);
    assert_eq!(received(udgm(), [5.0, 20.1], [0, 1000]), [1]);
}

/// Almost every frame is received at 10 m; at 20 m the signal is 6 dB weaker.
fn mrm31() -> MediumConfig {
    MediumConfig::Mrm31(Mrm31 { sensitivity_dbm: -85.0, ..Mrm31::default() })
}

#[test]
fn in_mrm31_a_later_frame_steals_the_receiver_unless_it_is_weaker_by_3_db() {
    assert_eq!(received(mrm31(), [10.0, 20.0], [0, 1000]), [1], "the weaker one is harmless");
    assert_eq!(received(mrm31(), [10.0, 20.0], [1000, 0]), [1], "the stronger one steals");
    assert_eq!(received(mrm31(), [10.0, 10.0], [0, 1000]), [2], "an equal one steals");
    assert_eq!(received(mrm31(), [10.0, 13.0], [0, 1000]), [2], "even one that is 2.3 dB weaker");
}

#[test]
fn in_mrm31_an_undetected_frame_does_not_interfere() {
    let deaf = MediumConfig::Mrm31(Mrm31 { sensitivity_dbm: -64.0, ..Mrm31::default() });
    assert_eq!(received(deaf, [5.0, 400.0], [1000, 0]), [1]);
}

/// 30 dB per decade: the signal at 2 m is 9 dB weaker than at 1 m.
fn sinr(capture_threshold_db: Option<f64>) -> MediumConfig {
    MediumConfig::Sinr(Sinr { capture_threshold_db, ..Sinr::default() })
}

#[test]
fn with_interference_the_stronger_frame_survives_and_takes_over_only_by_capture() {
    assert_eq!(received(sinr(None), [1.0, 2.0], [0, 1000]), [1], "9 dB above the interference");
    assert_eq!(received(sinr(None), [1.0, 2.0], [1000, 0]), [0; 0], "the receiver is at the weaker one");
    assert_eq!(received(sinr(Some(6.0)), [1.0, 2.0], [1000, 0]), [1], "capture");
    assert_eq!(received(sinr(Some(10.0)), [1.0, 2.0], [1000, 0]), [0; 0], "too little for capture");
}

fn count(medium: MediumConfig, distance_m: f64, frames: u64, gap_micros: u64) -> RadioCounters {
    let (net, radio, nodes) = row(medium, blunt(), &[0.0, distance_m]);
    let mut sim = Simulation::new(&net, 5, ()).expect("a valid topology");
    let at_micros = (0..frames).map(|i| i * gap_micros).collect();
    sim.attach(nodes[1], Scripted::Sender { to: nodes[0], at_micros }).expect("a node");
    sim.attach(nodes[0], Scripted::Sink(Vec::new())).expect("a node");
    sim.run();
    sim.radio_counters(radio).expect("a radio network")
}

#[test]
fn the_success_ratio_of_unit_disks_falls_with_the_square_of_the_distance() {
    let medium = Udgm { transmission_range_m: 10.0, success_ratio: 0.6, ..Udgm::default() };
    for (distance_m, expected) in [(10.0, 0.6), (5.0, 0.9), (0.0, 1.0)] {
        let counters = count(MediumConfig::Udgm(medium), distance_m, 20_000, 5000);
        let share = counters.received as f64 / counters.frames as f64;
        assert!((share - expected).abs() < 0.0139, "{distance_m} m: {share:.4}");
    }
}

#[test]
fn mrm31_receives_with_the_probability_of_the_distance() {
    let medium = Mrm31 { sensitivity_dbm: -64.0, ..Mrm31::default() };
    for distance_m in [10.0, 15.0, 20.0] {
        let counters = count(MediumConfig::Mrm31(medium), distance_m, 20_000, 5000);
        let share = counters.received as f64 / counters.frames as f64;
        let expected = medium.reception_probability(distance_m);
        assert!((share - expected).abs() < 0.0139, "{distance_m} m: {share:.4} instead of {expected:.4}");
    }
}

#[test]
fn slow_fading_loses_its_share() {
    let fading = Gilbert { mean_good: Duration::from_millis(450), mean_bad: Duration::from_millis(50), loss_bad: 0.65 };
    let medium = Sinr { fading: Some(fading), ..Sinr::default() };
    let counters = count(MediumConfig::Sinr(medium), 1.0, 100_000, 10_000);
    let lost = 1.0 - counters.received as f64 / counters.frames as f64;
    // 2000 bad states in 1000 s: four standard errors are 0.65·0.1·4·√(1.8/2000).
    assert!((lost - 0.065).abs() < 0.008, "{lost:.4}");
}

/// Frames arrive, but not their acknowledgments: retries are duplicates.
#[test]
fn asymmetric_links_lose_acknowledgments_and_copies_are_rejected() {
    let there_only = vec![vec![0.0, 300.0], vec![60.0, 0.0]];
    let medium = MediumConfig::Sinr(Sinr { path_loss: PathLoss::Matrix(there_only), ..Sinr::default() });
    let (net, radio, nodes) = row(medium, MacConfig::ieee802154(), &[0.0, 1.0]);
    let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
    sim.attach(nodes[1], Scripted::Sender { to: nodes[0], at_micros: vec![0, 200_000] }).expect("a node");
    sim.attach(nodes[0], Scripted::Sink(Vec::new())).expect("a node");
    sim.run();
    let counters = sim.radio_counters(radio).expect("a radio network");
    let expected = RadioCounters {
        frames: 8,
        acknowledgments: 8,
        received: 8,
        duplicates: 6,
        no_ack: 8,
        unacknowledged: 2,
        ..RadioCounters::default()
    };
    assert_eq!(counters, expected);
    assert_eq!((sim.counters().delivered, sim.counters().dropped), (2, 0), "given up, but delivered");
}

/// Two stations at equal distance assess the channel for 128 µs, then turn round for 192 µs. The
/// second detects the first only if its assessment ends after the first one's turnaround.
#[test]
fn a_channel_assessment_detects_frames_that_began_before_its_end() {
    let access = AccessConfig::Ieee802154(Ieee802154 { min_be: 0, max_be: 0, ..Ieee802154::default() });
    let mac = MacConfig { access, ..MacConfig::ieee802154() }.unacknowledged();
    for (second_micros, hears) in [(0, false), (100, false), (192, false), (193, true), (3000, true)] {
        let (net, radio, nodes) = row(udgm(), mac, &[0.0, 5.0, -5.0]);
        let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
        sim.attach(nodes[0], Scripted::Sink(Vec::new())).expect("a node");
        for (node, at) in nodes[1..].iter().zip([0, second_micros]) {
            sim.attach(*node, Scripted::Sender { to: nodes[0], at_micros: vec![at] }).expect("a node");
        }
        sim.run();
        let counters = sim.radio_counters(radio).expect("a radio network");
        assert_eq!((counters.busy > 0, counters.received), (hears, u64::from(hears)), "{second_micros} µs");
    }
}
