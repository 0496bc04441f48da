//! Frames of hosts with their own routing.

use std::time::Duration;

use conche_netsim::host::{Host, Port, Received};
use conche_netsim::mac::{MacConfig, QueueConfig, RadioConfig, TransmitOutcome};
use conche_netsim::radio::{MediumConfig, PathLoss, Position, Sinr, Udgm};
use conche_netsim::wired::Topology;
use conche_netsim::{Counters, Instant, NodeId, PacketId, RadioId, Simulation};

#[derive(Default)]
pub struct Router {
    pub frames: Vec<(RadioId, NodeId, usize)>,
    pub sent: Vec<PacketId>,
    pub told: Vec<(Instant, PacketId, TransmitOutcome)>,
    pub heard: Vec<(Instant, NodeId, usize, Option<f64>)>,
}

impl Host for Router {
    type Timer = ();

    fn start(&mut self, port: &mut Port<'_, ()>) {
        for (radio, to, bytes) in &self.frames {
            self.sent.push(port.transmit(*radio, *to, &vec![7; *bytes]));
        }
    }

    fn receive(&mut self, port: &mut Port<'_, ()>, packet: Received<'_>) {
        assert_eq!(packet.meta.to, port.node());
        self.heard.push((port.now(), packet.meta.from, packet.bytes.len(), packet.snr_db));
    }

    fn transmitted(&mut self, port: &mut Port<'_, ()>, frame: PacketId, outcome: TransmitOutcome) {
        self.told.push((port.now(), frame, outcome));
    }

    fn timer(&mut self, _: &mut Port<'_, ()>, (): ()) {}
    fn wake(&mut self, _: &mut Port<'_, ()>) {}
}

/// Runs a row of stations without hops. The first transmits these frames, each to a place in the
/// row or as a broadcast.
pub fn run(
    medium: MediumConfig,
    mac: MacConfig,
    places_m: &[f64],
    frames: &[(Option<usize>, usize)],
) -> (Vec<Router>, Counters) {
    let mut net = Topology::new();
    let radio = net.radio("air", RadioConfig { medium, mac });
    let nodes: Vec<NodeId> = (0..places_m.len()).map(|i| net.node(format!("n{i}"))).collect();
    let stranger = net.node("without a station");
    for (node, place) in nodes.iter().zip(places_m) {
        net.place(radio, *node, Position::metres(*place, 0.0));
    }
    let address = |to: Option<usize>| to.map_or(NodeId::BROADCAST, |to| *nodes.get(to).unwrap_or(&stranger));
    let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
    for node in &nodes {
        sim.attach(*node, Router::default()).expect("a node");
    }
    let frames = frames.iter().map(|(to, bytes)| (radio, address(*to), *bytes)).collect();
    sim.attach(nodes[0], Router { frames, ..Router::default() }).expect("a node");
    sim.run();
    let counters = sim.counters();
    (sim.into_parts().0.into_iter().map(|(_, host)| host).collect(), counters)
}

pub fn disk() -> MediumConfig {
    MediumConfig::Udgm(Udgm { transmission_range_m: 10.0, interference_range_m: 10.0, ..Udgm::default() })
}

pub fn outcomes(host: &Router) -> Vec<TransmitOutcome> {
    host.told.iter().map(|(_, _, outcome)| *outcome).collect()
}

/// ```text
///   sender ── 5 m ── a ── 5 m ── b ── 5 m ── out of range
/// ```
#[test]
fn a_broadcast_reaches_all_in_range_at_once_and_is_not_acknowledged() {
    let (hosts, counters) = run(disk(), MacConfig::ieee802154(), &[0.0, 5.0, 10.0, 15.0], &[(None, 50)]);
    let heard: Vec<usize> = hosts.iter().map(|host| host.heard.len()).collect();
    assert_eq!(heard, [0, 1, 1, 0]);
    assert_eq!(hosts[1].heard, hosts[2].heard);
    let (at, frame, outcome) = hosts[0].told[0];
    assert_eq!((at, frame, outcome), (hosts[1].heard[0].0, hosts[0].sent[0], TransmitOutcome::Sent));
    let expected = Counters { sent: 1, duplicated: 2, delivered: 2, broadcast: 1, ..Counters::default() };
    assert_eq!(counters, expected);
}

#[test]
fn a_host_receives_the_outcome_of_acknowledged_and_lost_frames() {
    let (hosts, counters) = run(disk(), MacConfig::ieee802154(), &[0.0, 5.0, 15.0], &[(Some(1), 50), (Some(2), 50)]);
    assert_eq!(outcomes(&hosts[0]), [TransmitOutcome::Sent, TransmitOutcome::NoAck]);
    assert_eq!((hosts[1].heard.len(), hosts[2].heard.len()), (1, 0));
    // The acknowledgment ends 192 µs and 352 µs after the frame.
    assert_eq!(hosts[0].told[0].0, hosts[1].heard[0].0 + Duration::from_micros(192 + 352));
    assert_eq!((counters.delivered, counters.dropped, counters.in_flight), (1, 1, 0));
}

#[test]
fn a_host_receives_the_reason_for_a_refused_frame() {
    let queue = QueueConfig { packets: Some(1), neighbours: None };
    let mac = MacConfig { queue, ..MacConfig::ieee802154() };
    let frames = [(Some(1), 50), (Some(1), 50), (Some(1), 200), (Some(9), 50)];
    let (hosts, counters) = run(disk(), mac, &[0.0, 5.0], &frames);
    let expected =
        [TransmitOutcome::QueueFull, TransmitOutcome::TooLong, TransmitOutcome::NoStation, TransmitOutcome::Sent];
    assert_eq!(outcomes(&hosts[0]), expected);
    assert_eq!((counters.sent, counters.delivered, counters.dropped), (4, 1, 3));
}

/// 40 dB at 1 m with exponent 3: −70 dBm at 10 m, 28 dB above the noise.
#[test]
fn a_receiver_gets_the_signal_to_noise_ratio() {
    let path_loss = PathLoss::LogDistance {
        reference_loss_db: 40.0,
        exponent: 3.0,
        shadowing_sigma_db: 0.0,
        asymmetry_sigma_db: 0.0,
    };
    let sinr = Sinr { tx_power_dbm: 0.0, noise_dbm: -98.0, path_loss, ..Sinr::default() };
    let (hosts, _) = run(MediumConfig::Sinr(sinr), MacConfig::ieee802154(), &[0.0, 10.0], &[(Some(1), 50)]);
    let snr_db = hosts[1].heard[0].3.expect("a medium with noise");
    assert!((snr_db - 28.0).abs() < 1e-6, "{snr_db} dB");
    let (hosts, _) = run(disk(), MacConfig::ieee802154(), &[0.0, 10.0], &[(Some(1), 50)]);
    assert_eq!(hosts[1].heard[0].3, None, "disks have no noise");
}

#[test]
fn loading_and_unloading_a_frame_take_their_time_once_each() {
    let arrival = |load_ms, unload_ms, acknowledged| {
        let (load, unload) = (Duration::from_millis(load_ms), Duration::from_millis(unload_ms));
        let mac = MacConfig { load, unload, ..MacConfig::ieee802154() };
        let mac = if acknowledged { mac } else { mac.unacknowledged() };
        let (hosts, _) = run(disk(), mac, &[0.0, 5.0], &[(if acknowledged { Some(1) } else { None }, 50)]);
        (hosts[1].heard[0].0, hosts[0].told[0].0)
    };
    for acknowledged in [false, true] {
        let (heard, told) = arrival(0, 0, acknowledged);
        let ms = Duration::from_millis;
        assert_eq!(arrival(2, 0, acknowledged), (heard + ms(2), told + ms(2)));
        assert_eq!(arrival(0, 3, acknowledged), (heard + ms(3), told));
    }
}
