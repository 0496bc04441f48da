//! Fragmented datagrams, and control traffic.
//!
//! The headers take 67 octets. A payload of 100 bytes takes two fragments: 56 bytes in a PSDU of
//! 127, 44 in one of 72.

use std::time::Duration;

use conche_netsim::mac::{ControlTraffic, MacConfig, QueueConfig, RadioConfig, RadioCounters};
use conche_netsim::packet::Packet;
use conche_netsim::radio::{MediumConfig, Position, Udgm};
use conche_netsim::sixlowpan::Sixlowpan;
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::Topology;
use conche_netsim::{Counters, Instant, NodeId, Simulation};

use super::net::{everyone_hears, row};
use crate::plain::{Interval, Plain};

fn with_sixlowpan(mac: MacConfig) -> MacConfig {
    MacConfig { sixlowpan: Some(Sixlowpan::default()), ..mac }
}

#[derive(Default)]
struct Dropped(Vec<DropReason>);

impl Observer for Dropped {
    fn on_dropped(&mut self, _: Instant, _: &Packet, reason: DropReason) {
        self.0.push(reason);
    }
}

fn run(
    medium: MediumConfig,
    mac: MacConfig,
    bytes: usize,
    packets: u32,
) -> (Vec<Instant>, Counters, RadioCounters, Vec<DropReason>) {
    let (net, radio, nodes) = row(medium, mac, &[0.0, 5.0]);
    let mut sim = Simulation::<Plain, _>::new(&net, 1, Dropped::default()).expect("a valid topology");
    let interval = Interval::Constant(Duration::from_millis(100));
    sim.attach(nodes[0], Plain::Sink(Vec::new())).expect("a node");
    sim.attach(nodes[1], Plain::Source { to: nodes[0], left: packets, bytes, interval }).expect("a node");
    sim.run();
    let arrivals = sim.host(nodes[0]).expect("attached").arrivals().iter().map(|arrival| arrival.at).collect();
    let (counters, radio) = (sim.counters(), sim.radio_counters(radio).expect("a radio network"));
    (arrivals, counters, radio, sim.into_parts().1.0)
}

#[test]
fn a_packet_that_fits_takes_one_frame_and_one_octet_more_takes_two() {
    for (bytes, frames) in [(60, 1), (61, 2), (100, 2), (200, 3)] {
        let (arrivals, counters, radio, _) = run(everyone_hears(), with_sixlowpan(MacConfig::ieee802154()), bytes, 10);
        assert_eq!((arrivals.len(), counters.delivered, counters.dropped), (10, 10, 0), "{bytes} bytes");
        assert_eq!((radio.frames, radio.received, radio.duplicates), (10 * frames, 10 * frames, 0), "{bytes} bytes");
    }
}

/// ```text
///   │ CCA 128 │ turnaround 192 │ 127 + 6 octets: 4256 µs │ CCA │ turnaround │ 72 + 6 octets: 2496 µs │
/// ```
#[test]
fn a_packet_arrives_with_its_last_fragment() {
    let mac = with_sixlowpan(MacConfig::contiki27());
    let (arrivals, ..) = run(everyone_hears(), mac, 100, 1);
    let expected = Duration::from_micros(2 * (128 + 192) + 4256 + 2496);
    assert_eq!(arrivals, [Instant::from_millis(100) + expected]);
}

/// Without acknowledgments a frame arrives with probability 3/4 at the edge of the disk, a packet
/// of three fragments with 27/64.
#[test]
fn a_packet_is_lost_once_with_any_of_its_fragments() {
    let udgm = Udgm { transmission_range_m: 5.0, success_ratio: 0.75, ..Udgm::default() };
    let (arrivals, counters, radio, dropped) =
        run(MediumConfig::Udgm(udgm), with_sixlowpan(MacConfig::contiki27()), 200, 10_000);
    assert_eq!((counters.sent, counters.delivered + counters.dropped, counters.in_flight), (10_000, 10_000, 0));
    assert_eq!(radio.frames, 30_000, "what is left of a lost packet is sent all the same");
    // Standard error: 0.5 %.
    let share = arrivals.len() as f64 / 10_000.0;
    assert!((share - 27.0 / 64.0).abs() < 0.02, "{share}");
    assert!(dropped.iter().all(|reason| matches!(reason, DropReason::Lost(_))));
}

#[test]
fn a_packet_whose_fragments_find_no_room_is_refused_as_a_whole() {
    for (packets, delivered) in [(2, 0), (3, 1), (8, 1)] {
        let queue = QueueConfig { packets: Some(packets), neighbours: Some(2) };
        let mac = MacConfig { queue, ..with_sixlowpan(MacConfig::contiki27()) };
        let (_, counters, radio, dropped) = run(everyone_hears(), mac, 200, 1);
        assert_eq!((counters.delivered, radio.frames), (delivered, 3 * delivered), "room for {packets}");
        assert_eq!(dropped.len() as u64, 1 - delivered);
        assert!(dropped.iter().all(|reason| matches!(reason, DropReason::QueueFull(_))));
    }
}

/// ```text
///   30 stations in reach of each other: a frame of 90 octets from each, every 60 s
/// ```
#[test]
fn control_traffic_keeps_its_rate_and_reaches_all_but_no_host() {
    let control = Some(ControlTraffic { interval: Duration::from_secs(60), psdu_octets: 90 });
    for mac in [MacConfig::contiki27(), MacConfig::contiki27_contikimac()] {
        let mac = MacConfig { control, ..mac };
        let mut net = Topology::new();
        let radio = net.radio("air", RadioConfig { medium: everyone_hears(), mac });
        let nodes: Vec<NodeId> = (0..30).map(|i| net.node(format!("n{i}"))).collect();
        for node in &nodes {
            net.place(radio, *node, Position::default());
        }
        let mut sim = Simulation::<Plain>::new(&net, 1, ()).expect("a valid topology");
        for node in &nodes {
            sim.attach(*node, Plain::Sink(Vec::new())).expect("a node");
        }
        sim.run_until(Instant::from_millis(3600 * 1000));
        let counters = sim.radio_counters(radio).expect("a radio network");
        // 60 intervals each; the first is partial, and the last one's frame may not be due yet.
        assert!((30 * 58..=30 * 60).contains(&counters.control), "{}", counters.control);
        assert_eq!(sim.counters(), Counters::default());
        let share = counters.received as f64 / (29 * counters.control) as f64;
        assert!(share > 0.9, "{share} received");
    }
}
