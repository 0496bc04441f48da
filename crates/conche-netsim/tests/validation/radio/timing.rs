//! Time per frame of one station.
//!
//! ```text
//!   sender ── always something to send ──> sink
//!
//!   │ backoff 0..7 · 320 │ CCA 128 │ turnaround 192 │ frame 32·(6 + PSDU) │ turnaround 192 │ ACK 352 │ spacing 640 │ µs
//! ```
//!
//! With a mean backoff of 1120 µs, an MHR of 9 octets (short addresses) and an FCS of 2, a frame
//! with x octets of payload takes T = 1120 + 128 + 192 + 32(6 + 9 + x + 2) + [192 + 352] + 640 µs.

use std::time::Duration;

use conche_netsim::Simulation;
use conche_netsim::mac::{AttemptConfig, MacConfig};

use super::net::{everyone_hears, row};
use crate::plain::{Interval, Plain};

/// The backoff's standard deviation is 733 µs: its mean's is below 0.03 % of the shortest T.
const FRAMES: u32 = 400_000;
const BACKOFF_NANOS: u64 = 320_000;

/// Asserts that each frame takes `fixed_micros` and 0 to 7 backoff periods, and that mean time and
/// rate are within 0.1 % of `expected_micros` and `expected_kbits`.
fn assert_frame_time(mac: MacConfig, payload: usize, fixed_micros: u64, expected_micros: f64, expected_kbits: f64) {
    let (net, _, nodes) = row(everyone_hears(), mac, &[0.0, 1.0]);
    let mut sim = Simulation::<Plain>::new(&net, 3, ()).expect("a valid topology");
    let interval = Interval::Constant(Duration::ZERO);
    let source = Plain::Source { to: nodes[0], left: FRAMES, bytes: payload, interval };
    sim.attach(nodes[0], Plain::Sink(Vec::new())).expect("a node");
    sim.attach(nodes[1], source).expect("a node");
    sim.run();

    let arrivals = sim.host(nodes[0]).expect("attached").arrivals();
    assert_eq!(arrivals.len(), FRAMES as usize);
    let mut counts = [0_u32; 8];
    for pair in arrivals.windows(2) {
        let gap = u64::try_from((pair[1].at - pair[0].at).as_nanos()).expect("milliseconds");
        let backoff = gap.checked_sub(fixed_micros * 1000).expect("no frame is shorter than its fixed part");
        assert_eq!(backoff % BACKOFF_NANOS, 0, "a backoff of {backoff} ns");
        counts[usize::try_from(backoff / BACKOFF_NANOS).expect("small")] += 1;
    }
    // The eight are equally frequent, within five standard errors.
    assert!(counts.iter().all(|count| count.abs_diff(FRAMES / 8) < 1050), "{counts:?}");

    let elapsed = arrivals[arrivals.len() - 1].at - arrivals[0].at;
    let mean_micros = elapsed.as_secs_f64() * 1e6 / f64::from(FRAMES - 1);
    let kbits = payload as f64 * 8e3 / mean_micros;
    assert!((mean_micros / expected_micros - 1.0).abs() < 0.001, "{mean_micros:.2} µs");
    assert!((kbits / expected_kbits - 1.0).abs() < 0.001, "{kbits:.3} kbit/s");
}

#[test]
fn a_frame_of_100_octets_without_acknowledgment_takes_5824_us() {
    assert_frame_time(MacConfig::ieee802154().unacknowledged(), 100, 4704, 5824.0, 137.36);
}

#[test]
fn a_frame_of_100_octets_with_acknowledgment_takes_6368_us() {
    assert_frame_time(MacConfig::ieee802154(), 100, 5248, 6368.0, 125.63);
}

#[test]
fn a_frame_of_20_octets_with_acknowledgment_takes_3808_us() {
    assert_frame_time(MacConfig::ieee802154(), 20, 2688, 3808.0, 42.02);
}

#[test]
fn the_longest_frame_gives_146_kbit_s_and_135_with_acknowledgment() {
    assert_frame_time(MacConfig::ieee802154().unacknowledged(), 116, 5216, 6336.0, 146.46);
    assert_frame_time(MacConfig::ieee802154(), 116, 5760, 6880.0, 134.88);
}

/// Latré et al. (Throughput and delay analysis of unslotted IEEE 802.15.4, Journal of Networks
/// 2006) omit clear channel assessment and turnaround: 162.2 kbit/s, 64.9 % of the channel, without
/// addresses and acknowledgment.
#[test]
fn without_assessment_and_turnaround_122_octets_take_6016_us() {
    let attempt = AttemptConfig { cca: None, tx_turnaround: Duration::ZERO, ..AttemptConfig::default() };
    let mac = MacConfig { attempt, overhead_octets: 5, ..MacConfig::ieee802154() }.unacknowledged();
    assert_frame_time(mac, 122, 4896, 6016.0, 162.2);
}
