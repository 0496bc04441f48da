//! Receivers that sleep, and duty cycles.
//!
//! ```text
//!   gateway ── downlink ──> device ── uplink ──> gateway
//! ```

use std::time::Duration;

use conche_netsim::packet::Packet;
use conche_netsim::trace::Observer;
use conche_netsim::units::SpanRange;
use conche_netsim::wired::{LinkConfig, Loss, Topology, TopologyError, Wakes};
use conche_netsim::{BitRate, ChangeError, Instant, NodeId, Simulation};

use crate::plain::{Interval, Plain, mean};

const PAYLOAD_BYTES: usize = 72;
/// 100 bytes at 80 kbit/s.
const AIRTIME: Duration = Duration::from_millis(10);

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn range(least: u64, most: u64) -> Option<SpanRange> {
    SpanRange::new(ms(least), ms(most))
}

fn rate() -> LinkConfig {
    LinkConfig { rate: Some(BitRate::kbit(80)), ..LinkConfig::default() }
}

#[derive(Default)]
struct Deliveries(Vec<(NodeId, Instant, Instant)>);

impl Observer for Deliveries {
    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        self.0.push((packet.meta.to, packet.meta.sent_at, now));
    }
}

struct Pair {
    net: Topology,
    gateway: NodeId,
    device: NodeId,
}

impl Pair {
    fn new(downlink: LinkConfig, uplink: LinkConfig) -> Self {
        let mut net = Topology::new();
        let [gateway, device] = ["gateway", "device"].map(|name| net.node(name));
        net.link("downlink", gateway, device, downlink);
        net.link("uplink", device, gateway, uplink);
        Self { net, gateway, device }
    }

    /// Returns the times of packets toward the device: sent and received.
    fn run(&self, down: (u32, Interval), up: (u32, Interval)) -> Vec<(Instant, Instant)> {
        let mut sim = Simulation::new(&self.net, 5, Deliveries::default()).expect("a valid topology");
        let ends = [(self.gateway, self.device, down), (self.device, self.gateway, up)];
        for (from, to, (left, interval)) in ends {
            let host = match left {
                0 => Plain::Sink(Vec::new()),
                left => Plain::Source { to, left, bytes: PAYLOAD_BYTES, interval },
            };
            sim.attach(from, host).expect("a node");
        }
        sim.run();
        let deliveries = sim.observer().0.iter().filter(|(to, ..)| *to == self.device);
        deliveries.map(|(_, sent, received)| (*sent, *received)).collect()
    }

    fn received_ms(&self, down: (u32, Interval), up: (u32, Interval)) -> Vec<u64> {
        self.run(down, up).into_iter().map(|(_, received)| received.as_millis()).collect()
    }
}

const SILENT: (u32, Interval) = (0, Interval::Constant(Duration::ZERO));
const BURST: Interval = Interval::Constant(Duration::ZERO);

/// W = (P − L)²/2P for windows of length L every P.
#[test]
fn frames_wait_for_a_periodic_window_half_the_time_between_windows() {
    for (lasting, expected) in [(0, 5.12), (2560, 2.88)] {
        let wakes = Wakes { every: Some(ms(10_240)), lasting: ms(lasting), ..Wakes::default() };
        let pair = Pair::new(LinkConfig { wakes: Some(wakes), ..LinkConfig::default() }, LinkConfig::default());
        let frames = pair.run((40_000, Interval::Poisson(ms(7000))), SILENT);
        assert_eq!(frames.len(), 40_000);
        let (wait, error) = mean(frames.iter().map(|(sent, received)| (*received - *sent).as_secs_f64()));
        // Frames that wait together are correlated: on average 1.5 of them.
        assert!((wait - expected).abs() < 4.0 * error, "{wait:.3} s instead of {expected} s");
    }
}

#[test]
fn with_a_rate_a_window_without_length_carries_one_frame_and_others_as_many_as_begin_in_it() {
    for (lasting, frames) in [(0, 1), (9, 1), (10, 2), (35, 4)] {
        let wakes = Wakes { every: Some(ms(1000)), lasting: ms(lasting), ..Wakes::default() };
        let received = Pair::new(LinkConfig { wakes: Some(wakes), ..rate() }, rate()).received_ms((13, BURST), SILENT);
        let windows: Vec<usize> = received.chunk_by(|a, b| b - a < 500).map(<[u64]>::len).collect();
        assert_eq!(windows[1..windows.len() - 1], vec![frames; windows.len() - 2], "{lasting} ms: {received:?}");
    }
}

#[test]
fn the_devices_of_a_group_wake_at_uniform_times() {
    const DEVICES: u32 = 400;
    let mut net = Topology::new();
    let gateway = net.node("gateway");
    let wakes = Some(Wakes { every: Some(ms(10_000)), ..Wakes::default() });
    let mut sources = Vec::new();
    for device in 0..DEVICES {
        let [source, device] = ["source", "device"].map(|name| net.node(format!("{name}{device}")));
        net.link(format!("from {source}"), source, gateway, LinkConfig::default());
        net.link(format!("to {device}"), gateway, device, LinkConfig { wakes, ..LinkConfig::default() });
        sources.push((source, device));
    }
    let mut sim = Simulation::new(&net, 5, Deliveries::default()).expect("a valid topology");
    for (source, device) in sources {
        sim.attach(source, Plain::Source { to: device, left: 1, bytes: 4, interval: BURST }).expect("a node");
        sim.attach(device, Plain::Sink(Vec::new())).expect("a node");
    }
    sim.run();
    let first = sim.observer().0.iter().map(|(_, _, received)| (*received - Instant::ZERO).as_secs_f64());
    let mut first: Vec<f64> = first.collect();
    first.sort_unstable_by(f64::total_cmp);
    // Kolmogorov and Smirnov: the largest distance exceeds 1.63/√n in 1 % of all samples.
    let distance = |(index, time): (u32, f64)| (time / 10.0 - f64::from(index) / f64::from(DEVICES)).abs();
    let largest = (0..).zip(first).map(distance).fold(0.0, f64::max);
    assert!(largest < 1.63 / f64::from(DEVICES).sqrt(), "{largest}");
}

/// LoRaWAN's class A: one frame for each uplink, 1 s after its end.
#[test]
fn a_class_a_device_receives_a_frame_after_each_uplink() {
    let wakes = Some(Wakes { after_uplink: [range(1000, 1000), range(2000, 2000)], ..Wakes::default() });
    let pair = Pair::new(LinkConfig { wakes, ..rate() }, rate());
    let every = Interval::Constant(ms(10_000));
    assert_eq!(pair.received_ms((4, BURST), (5, every)), [11_020, 21_020, 31_020, 41_020]);
    // The second window carries a frame that is too late for the first one: sent at 11.5 s.
    assert_eq!(pair.received_ms((1, Interval::Constant(ms(11_500))), (5, every)), [12_020]);
    assert_eq!(pair.received_ms((1, Interval::Constant(ms(12_500))), (5, every)), [21_020]);
    assert_eq!(pair.received_ms((4, BURST), (2, every)), [11_020, 21_020], "the others wait");
}

#[test]
fn a_lost_uplink_opens_no_window() {
    let wakes = Some(Wakes { after_uplink: [range(1000, 1000), None], ..Wakes::default() });
    let uplink = LinkConfig { loss: Loss::Bernoulli(1.0), ..rate() };
    let pair = Pair::new(LinkConfig { wakes, ..rate() }, uplink);
    assert_eq!(pair.received_ms((1, BURST), (5, Interval::Constant(ms(1000)))), [0_u64; 0]);
}

/// A device that stays awake after each of its frames, as before eDRX.
#[test]
fn frames_pass_at_once_while_the_device_is_awake_after_an_uplink() {
    let wakes = Some(Wakes { every: Some(ms(1_000_000)), after_uplink: [range(0, 2000), None], ..Wakes::default() });
    for uplink in [LinkConfig::default(), rate(), LinkConfig { delay: ms(700), ..LinkConfig::default() }] {
        let airtime = if uplink.rate.is_some() { 10 } else { 0 };
        let pair = Pair::new(LinkConfig { wakes, ..LinkConfig::default() }, uplink);
        // Uplinks at 10 and 20 s; frames at 3, 6, 9 … s.
        let received = pair.received_ms((7, Interval::Constant(ms(3000))), (2, Interval::Constant(ms(10_000))));
        let [first, second] = [10_000, 20_000].map(|at| at + airtime);
        assert_eq!(received, [first, first, first, 12_000, second, second, 21_000]);
    }
}

#[test]
fn a_duty_cycle_silences_the_sender_after_each_frame() {
    let pair = Pair::new(LinkConfig { duty_cycle: 0.01, ..rate() }, rate());
    let received = pair.received_ms((4, BURST), SILENT);
    assert_eq!(received, [10, 1010, 2010, 3010]);
    assert_eq!(pair.received_ms((3, Interval::Constant(ms(1500))), SILENT), [1510, 3010, 4510], "the silence is over");
}

/// A frame of duration t occupies the link for S = t/d, of which it takes the first part: waits are
/// those of M/D/1 with service times S, Wq = ρS/2(1−ρ).
#[test]
fn waits_under_a_duty_cycle_are_those_of_m_d_1() {
    let pair = Pair::new(LinkConfig { duty_cycle: 0.1, ..rate() }, rate());
    let frames = pair.run((200_000, Interval::Poisson(ms(200))), SILENT);
    let (wait, _) = mean(frames.iter().map(|(sent, received)| (*received - *sent - AIRTIME).as_secs_f64() * 1e3));
    assert!((wait / 50.0 - 1.0).abs() < 0.015, "{wait} ms instead of 50 ms");
}

#[test]
fn a_window_that_opens_in_a_silence_is_used_when_the_silence_ends() {
    let wakes = Some(Wakes { every: Some(ms(1000)), lasting: ms(400), ..Wakes::default() });
    let pair = Pair::new(LinkConfig { wakes, duty_cycle: 0.01, ..rate() }, rate());
    let received = pair.received_ms((3, BURST), SILENT);
    assert!(received.windows(2).all(|pair| pair[1] - pair[0] == 1000), "{received:?}");
    let pair = Pair::new(LinkConfig { wakes, duty_cycle: 10.0 / 1200.0, ..rate() }, rate());
    let received = pair.received_ms((6, BURST), SILENT);
    assert!(received.windows(2).all(|pair| (1200..2400).contains(&(pair[1] - pair[0]))), "{received:?}");
}

#[test]
fn impossible_windows_and_duty_cycles_are_refused() {
    let error = |downlink: LinkConfig| {
        let mut net = Pair::new(downlink, rate()).net;
        let behind = net.node("behind");
        net.link("to behind", behind, behind, LinkConfig::default());
        Simulation::<Plain>::new(&net, 1, ()).err().expect("it is refused").to_string()
    };
    let wakes = |wakes| LinkConfig { wakes: Some(wakes), ..rate() };
    for (config, expected) in [
        (LinkConfig { duty_cycle: 0.0, ..rate() }, "a duty cycle of 0 is not above 0 and up to 1"),
        (LinkConfig { duty_cycle: f64::NAN, ..rate() }, "a duty cycle of NaN is not above 0 and up to 1"),
        (LinkConfig { duty_cycle: 0.5, ..LinkConfig::default() }, "without a rate its frames take no time"),
        (wakes(Wakes::default()), "its receiver never wakes; give `wakes` an `every` or `after_uplink`"),
        (wakes(Wakes { every: Some(ms(5)), lasting: ms(5), ..Wakes::default() }), "make `for` shorter than `every`"),
        (wakes(Wakes { every: Some(ms(0)), ..Wakes::default() }), "make `for` shorter than `every`"),
    ] {
        let error = error(config);
        assert!(error.starts_with("link \"downlink\"") && error.contains(expected), "{error}");
    }
    let asleep = wakes(Wakes { after_uplink: [range(0, 10), None], ..Wakes::default() });
    let mut net = Topology::new();
    let [gateway, device] = ["gateway", "device"].map(|name| net.node(name));
    net.link("downlink", gateway, device, asleep);
    assert_eq!(
        Simulation::<Plain>::new(&net, 1, ()).err(),
        Some(TopologyError::NoUplink("downlink".to_owned())),
        "the device cannot send"
    );
    let mut net = Topology::new();
    let [gateway, device] = ["gateway", "device"].map(|name| net.node(name));
    let downlink = net.link("downlink", gateway, device, rate());
    net.link("uplink", device, gateway, rate());
    net.allow_changes(downlink);
    let mut traced = net.clone();
    traced.trace(downlink, "1\n".parse().expect("a trace"));
    let mut sim = Simulation::<Plain>::new(&net, 1, ()).expect("a valid topology");
    let late = ChangeError::Config(TopologyError::LateUplinks(downlink.to_string()));
    assert_eq!(sim.change_link(downlink, asleep), Err(late));
    sim.change_link(downlink, wakes(Wakes { every: Some(ms(9)), ..Wakes::default() })).expect("it needs no uplinks");
    traced.link("sleeping", gateway, device, LinkConfig { duty_cycle: 0.5, ..rate() });
    assert!(Simulation::<Plain>::new(&traced, 1, ()).is_ok(), "another link");
    let mut both = Pair::new(LinkConfig { duty_cycle: 0.5, ..rate() }, rate());
    let downlink = both.net.links().find(|(_, name)| *name == "downlink").expect("it exists").0;
    both.net.trace(downlink, "1\n".parse().expect("a trace"));
    assert_eq!(
        Simulation::<Plain>::new(&both.net, 1, ()).err(),
        Some(TopologyError::SleepingTrace("downlink".to_owned()))
    );
}
