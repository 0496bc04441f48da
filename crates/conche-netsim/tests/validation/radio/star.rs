//! Saturated stars, compared with ns-3 3.44's lr-wpan module. `tests/models/star_ns3.py` prints its
//! values, which vary by up to 1.5 % between seeds.
//!
//! ```text
//!          n1   n2          n senders on a circle of 10 m, always with a packet of 100 octets for the sink;
//!        n8  sink  n3       everyone hears everyone; log-distance path loss of exponent 3, 46.67 dB at 1 m;
//!          n7  ...          O-QPSK bit errors, the receiver keeps the first frame
//! ```
//!
//! At equal strength the first of two overlapping frames usually survives (0 dB: 0.86), as in ns-3.
//! If every overlap destroyed both, stars of ten or more would deliver far less. Senders start at
//! random times: otherwise their backoffs, which like all times are multiples of 32 µs, would stay
//! on one lattice and collide more.

use conche_netsim::mac::{MacConfig, QueueConfig, RadioCounters};
use conche_netsim::radio::{MediumConfig, PathLoss, Sinr};

use super::net::{everyone_hears, saturated_star};

fn like_ns3() -> MediumConfig {
    let path_loss = PathLoss::LogDistance {
        reference_loss_db: 46.67,
        exponent: 3.0,
        shadowing_sigma_db: 0.0,
        asymmetry_sigma_db: 0.0,
    };
    // Thermal noise of 5 MHz; sensitivity at 1 % losses without noise figure; ED 10 dB above it.
    MediumConfig::Sinr(Sinr {
        path_loss,
        noise_dbm: -106.6,
        sensitivity_dbm: -106.6,
        cca_threshold_dbm: -96.6,
        ..Sinr::default()
    })
}

fn run(medium: MediumConfig, mac: MacConfig, senders: usize, seconds: u64) -> RadioCounters {
    let mac = MacConfig { queue: QueueConfig { packets: Some(64), neighbours: None }, ..mac };
    let (sim, radio, _) = saturated_star(medium, mac, senders, 100, seconds, 1);
    sim.radio_counters(radio).expect("a radio network")
}

/// Within 3 % of ns-3's; the standard error is below 1 %.
#[test]
fn acknowledged_packets_of_saturated_stars_are_those_of_ns3() {
    for (senders, seconds, expected) in
        [(2, 100, 164.1), (5, 100, 166.6), (10, 100, 142.6), (20, 150, 106.9), (50, 300, 39.6)]
    {
        let counters = run(like_ns3(), MacConfig::ieee802154(), senders, seconds);
        let rate = counters.succeeded as f64 / seconds as f64;
        assert!((rate / expected - 1.0).abs() < 0.03, "{senders} senders: {rate:.1}/s instead of {expected}/s");
    }
}

#[test]
fn received_packets_of_saturated_stars_without_acknowledgment_are_those_of_ns3() {
    for (senders, expected) in [(2, 185.0), (10, 204.6)] {
        let counters = run(like_ns3(), MacConfig::ieee802154().unacknowledged(), senders, 100);
        let rate = counters.received as f64 / 100.0;
        assert!((rate / expected - 1.0).abs() < 0.03, "{senders} senders: {rate:.1}/s instead of {expected}/s");
    }
}

/// Lost acknowledgments cause retransmissions; the sink delivers each packet once.
#[test]
fn lost_acknowledgments_make_copies_that_are_not_delivered() {
    let mac = MacConfig { queue: QueueConfig { packets: Some(64), neighbours: None }, ..MacConfig::ieee802154() };
    let (sim, radio, _) = saturated_star(everyone_hears(), mac, 10, 100, 20, 1);
    let counters = sim.radio_counters(radio).expect("a radio network");
    assert!(counters.duplicates > 100, "{counters:?}");
    assert_eq!(sim.counters().delivered, counters.received - counters.duplicates);
}
