//! Queues, retries and backoffs of Contiki and TinyOS.

use std::time::Duration;

use conche_netsim::mac::{AccessConfig, Contiki27, Contiki30, Contiki31, MacConfig, TinyOs, TransmitOutcome};
use conche_netsim::packet::Packet;
use conche_netsim::radio::{MediumConfig, Position, Udgm};
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::Topology;
use conche_netsim::{Instant, NodeId, Simulation};

use super::frames;
use super::net::{everyone_hears, row};
use crate::plain::{Interval, Plain};

/// ```text
///   sender ──> sink that is out of range
/// ```
#[test]
fn tinyos_sends_a_frame_once_more_than_its_retries() {
    let medium = MediumConfig::Udgm(Udgm { transmission_range_m: 10.0, interference_range_m: 10.0, ..Udgm::default() });
    for retries in [1_u8, 3, 5, 7] {
        let access = AccessConfig::TinyOs(TinyOs { retries, ..TinyOs::default() });
        let mac = MacConfig { access, ..MacConfig::tinyos() };
        let (net, radio, nodes) = row(medium.clone(), mac, &[0.0, 20.0]);
        let mut sim = Simulation::<Plain>::new(&net, 1, ()).expect("a valid topology");
        let interval = Interval::Constant(Duration::ZERO);
        sim.attach(nodes[1], Plain::Source { to: nodes[0], left: 1000, bytes: 50, interval }).expect("a node");
        sim.attach(nodes[0], Plain::Sink(Vec::new())).expect("a node");
        sim.run();
        let counters = sim.radio_counters(radio).expect("a radio network");
        let frames = 1000 * (u64::from(retries) + 1);
        assert_eq!((counters.frames, counters.unacknowledged, counters.received), (frames, 1000, 0));
        // Per frame: an initial backoff of 5.051 ms, 128 µs, 7 jiffies, 67 octets of 32 µs, a wait
        // of 256 jiffies.
        let per_frame = sim.now().as_nanos() as f64 / 1e6 / frames as f64;
        let expected = 5.051 + 0.128 + 7.0 / 32.768 + 67.0 * 0.032 + 256.0 / 32.768;
        assert!((per_frame / expected - 1.0).abs() < 0.015, "{per_frame:.3} ms instead of {expected:.3} ms");
    }
}

#[derive(Default)]
struct Refused(Vec<usize>);

impl Observer for Refused {
    fn on_dropped(&mut self, _: Instant, _: &Packet, reason: DropReason) {
        if let DropReason::QueueFull(link) = reason {
            self.0.push(link.index());
        }
    }
}

/// ```text
///            ╭── a
///   sender ──┼── b      10 packets for each, at once
///            ╰── c
/// ```
#[test]
fn contiki_has_room_for_two_neighbours_and_its_packet_buffers() {
    for (mac, buffers) in [(MacConfig::contiki27(), 8), (MacConfig::contiki31(), 16)] {
        let mut net = Topology::new();
        let radio = net.radio("air", conche_netsim::mac::RadioConfig { medium: everyone_hears(), mac });
        let senders: Vec<NodeId> = ["x", "y", "z"].iter().map(|name| net.node(*name)).collect();
        let hub = net.node("hub");
        net.place(radio, hub, Position::default());
        let neighbours: Vec<NodeId> = ["a", "b", "c"]
            .iter()
            .map(|name| {
                let node = net.node(*name);
                net.place(radio, node, Position::metres(1.0, 0.0));
                net.hop(format!("hub-{name}"), radio, hub, node);
                node
            })
            .collect();
        for sender in &senders {
            net.link(format!("to hub {sender}"), *sender, hub, conche_netsim::wired::LinkConfig::default());
        }
        let mut sim = Simulation::<Plain, _>::new(&net, 1, Refused::default()).expect("a valid topology");
        for (sender, neighbour) in senders.iter().zip(&neighbours) {
            let interval = Interval::Constant(Duration::ZERO);
            sim.attach(*sender, Plain::Source { to: *neighbour, left: 10, bytes: 50, interval }).expect("a node");
            sim.attach(*neighbour, Plain::Sink(Vec::new())).expect("a node");
        }
        sim.run();
        let delivered = |node| sim.host(node).expect("attached").arrivals().len();
        let delivered: Vec<usize> = neighbours.iter().map(|node| delivered(*node)).collect();
        // Packets alternate: a, b, c, a, ...; the third neighbour gets no queue.
        assert_eq!(delivered, [buffers / 2, buffers / 2, 0]);
        assert_eq!(sim.observer().0.len(), 30 - buffers);
    }
}

/// ```text
///   sender ── two frames, one transmission each ──> receiver that is out of range
/// ```
#[test]
fn after_a_frame_that_was_given_up_contiki_2_7_and_3_0_wait_for_a_time_base() {
    let once27 = AccessConfig::Contiki27(Contiki27 { max_transmissions: 1, ..Contiki27::default() });
    let once30 = AccessConfig::Contiki30(Contiki30 { max_transmissions: 1, ..Contiki30::default() });
    let once31 = AccessConfig::Contiki31(Contiki31 { max_frame_retries: 0, ..Contiki31::default() });
    for (access, pause_ms) in [(once27, 125), (once30, 125), (once31, 0)] {
        let mac = MacConfig { access, ..MacConfig::contiki31() };
        let (hosts, _) = frames::run(frames::disk(), mac, &[0.0, 15.0], &[(Some(1), 50), (Some(1), 50)]);
        let told: Vec<Instant> = hosts[0].told.iter().map(|(at, ..)| *at).collect();
        assert_eq!(frames::outcomes(&hosts[0]), [TransmitOutcome::NoAck; 2]);
        let transmission = told[0] - Instant::ZERO;
        assert_eq!(told[1] - told[0], transmission + Duration::from_millis(pause_ms), "{access:?}");
    }
}
