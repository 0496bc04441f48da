//! Hidden stations, which do not detect each other's signals.
//!
//! ```text
//!   a ── 10 m ── sink ── 10 m ── b          transmission, interference and carrier range: 15 m
//! ```
//!
//! Both send Poisson processes of rate λ without acknowledgment. A frame of length T is lost if the
//! other station begins one within T before or after its start: 1 − e^(−2λT).

use std::time::Duration;

use conche_netsim::Simulation;
use conche_netsim::mac::{AccessConfig, Ieee802154, MacConfig};
use conche_netsim::radio::{MediumConfig, Udgm};

use super::net::row;
use crate::plain::{Interval, Plain};

/// PSDU 109: 3.68 ms on the air.
const AIRTIME_SECONDS: f64 = 115.0 * 32e-6;
const RATE: f64 = 20.0;
const FRAMES: u32 = 100_000;

fn lost_share(carrier_range_m: f64) -> f64 {
    let disk = 15.0;
    let udgm = Udgm { transmission_range_m: disk, interference_range_m: disk, carrier_range_m, success_ratio: 1.0 };
    // Without backoff, frames start as the Poisson process, except those that wait for another.
    let access = Ieee802154 { min_be: 0, max_be: 0, ..Ieee802154::default() };
    let mac = MacConfig { access: AccessConfig::Ieee802154(access), ..MacConfig::ieee802154() }.unacknowledged();
    let (net, radio, nodes) = row(MediumConfig::Udgm(udgm), mac, &[0.0, 10.0, -10.0]);
    let mut sim = Simulation::<Plain>::new(&net, 4, ()).expect("a valid topology");
    let interval = Interval::Poisson(Duration::from_secs_f64(1.0 / RATE));
    for sender in [nodes[1], nodes[2]] {
        sim.attach(sender, Plain::Source { to: nodes[0], left: FRAMES, bytes: 98, interval }).expect("a node");
    }
    sim.attach(nodes[0], Plain::Sink(Vec::new())).expect("a node");
    sim.run();
    let counters = sim.radio_counters(radio).expect("a radio network");
    1.0 - counters.received as f64 / counters.frames as f64
}

#[test]
fn a_hidden_pair_collides_with_probability_1_less_e_to_the_minus_2_lambda_t() {
    let (measured, expected) = (lost_share(15.0), 1.0 - (-2.0 * RATE * AIRTIME_SECONDS).exp());
    assert!((expected - 0.137).abs() < 0.0005, "the closed form itself");
    // Collisions come in pairs: a standard error of 0.0011, as of 100 000 frames. A station's own
    // frames do not overlap, which makes its process slightly more regular.
    assert!((measured - expected).abs() < 0.005, "{measured:.4} instead of {expected:.4}");
}

/// Within carrier range, the pair collides only if one begins while the other turns round.
#[test]
fn stations_within_carrier_range_seldom_collide() {
    let measured = lost_share(25.0);
    assert!((0.001..0.03).contains(&measured), "{measured:.4}");
}
