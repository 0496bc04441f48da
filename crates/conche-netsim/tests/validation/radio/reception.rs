//! Bit error and packet reception ratios.

use std::time::Duration;

use conche_netsim::Simulation;
use conche_netsim::mac::MacConfig;
use conche_netsim::radio::{MediumConfig, PathLoss, ReceptionCurve, Sinr};

use super::net::row;
use crate::plain::{Interval, Plain};

fn ratio(db: f64) -> f64 {
    10_f64.powf(db / 10.0)
}

/// PRR = (1 − BER)^(8L) of IEEE Std 802.15.4-2006, annex E.
#[test]
fn oqpsk_reception_follows_the_formula_of_the_standard() {
    for (db, octets, expected) in [(0.0, 36, 0.9545), (0.0, 106, 0.872), (1.0, 106, 0.989)] {
        let prr = ReceptionCurve::Oqpsk.packet_reception_ratio(ratio(db), octets);
        assert!((prr - expected).abs() < 0.0005, "{db} dB, {octets} octets: {prr:.4}");
    }
}

/// TOSSIM's curve is 1 dB wide and applies to whole frames.
#[test]
fn cc2420_reception_follows_tossim() {
    for (db, expected) in [(5.0, 0.79), (6.0, 0.99)] {
        for octets in [20, 127] {
            let prr = ReceptionCurve::Cc2420.packet_reception_ratio(ratio(db), octets);
            assert!((prr - expected).abs() < 0.005, "{db} dB: {prr:.4}");
        }
    }
}

/// ```text
///   sender ── signal 0 or 1 dB above the noise ──> sink
/// ```
#[test]
fn frames_arrive_with_the_probability_of_their_signal_to_noise_ratio() {
    for (db, payload, expected) in [(0.0, 89, 0.872), (1.0, 89, 0.989), (0.0, 19, 0.9545)] {
        let path_loss = PathLoss::Matrix(vec![vec![90.0 - db; 2]; 2]);
        let sinr = Sinr { path_loss, noise_dbm: -90.0, ..Sinr::default() };
        let mac = MacConfig::ieee802154().unacknowledged();
        let (net, radio, nodes) = row(MediumConfig::Sinr(sinr), mac, &[0.0, 1.0]);
        let mut sim = Simulation::<Plain>::new(&net, 9, ()).expect("a valid topology");
        let interval = Interval::Constant(Duration::ZERO);
        sim.attach(nodes[1], Plain::Source { to: nodes[0], left: 100_000, bytes: payload, interval }).expect("a node");
        sim.attach(nodes[0], Plain::Sink(Vec::new())).expect("a node");
        sim.run();
        let counters = sim.radio_counters(radio).expect("a radio network");
        let share = counters.received as f64 / counters.frames as f64;
        // Four standard errors, and the rounding of the expected value.
        assert!((share - expected).abs() < 0.0043 + 0.0005, "{db} dB: {share:.4}");
    }
}
