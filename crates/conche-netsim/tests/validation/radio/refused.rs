//! Invalid radio networks, and packets that do not fit.

use std::time::Duration;

use conche_netsim::mac::{ContikiMac, ControlTraffic, MacConfig, RadioConfig};
use conche_netsim::packet::Packet;
use conche_netsim::radio::{MediumConfig, Position, RadioError, Sinr, Udgm};
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::{Topology, TopologyError};
use conche_netsim::{Instant, Simulation};

use super::net::{everyone_hears, row};
use crate::plain::{Interval, Plain};

fn error_of(net: &Topology) -> String {
    Simulation::<Plain>::new(net, 1, ()).err().expect("refused").to_string()
}

#[test]
fn a_hop_needs_both_ends_in_its_network() {
    let mut net = Topology::new();
    let radio = net.radio("air", RadioConfig { medium: everyone_hears(), mac: MacConfig::ieee802154() });
    let (a, b) = (net.node("a"), net.node("b"));
    net.place(radio, a, Position::default());
    net.hop("a-b", radio, a, b);
    let expected =
        r#"radio network "air": link "a-b" is a hop from or to node "b", which is not placed in this radio network"#;
    assert_eq!(error_of(&net), expected);
    net.place(radio, b, Position::default());
    net.place(radio, a, Position::metres(1.0, 1.0));
    let expected = r#"radio network "air": node "a" is placed twice; a node has one station in a radio network"#;
    assert_eq!(error_of(&net), expected);
}

#[test]
fn parameters_out_of_range_are_named() {
    let refused = |medium| {
        let (net, _, _) = row(medium, MacConfig::ieee802154(), &[0.0, 1.0]);
        match Simulation::<Plain>::new(&net, 1, ()).err() {
            Some(TopologyError::Radio { error: RadioError::Parameter { parameter, .. }, .. }) => parameter,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(MediumConfig::Udgm(Udgm { success_ratio: 1.5, ..Udgm::default() })), "success_ratio");
    let disk = Udgm { transmission_range_m: 10.0, interference_range_m: 9.0, ..Udgm::default() };
    assert_eq!(refused(MediumConfig::Udgm(disk)), "interference_range_m");
    assert_eq!(refused(MediumConfig::Sinr(Sinr { noise_dbm: f64::NAN, ..Sinr::default() })), "noise_dbm");
}

#[test]
fn a_mac_that_cannot_work_is_refused() {
    let refused = |mac| {
        let (net, _, _) = row(everyone_hears(), mac, &[0.0, 1.0]);
        error_of(&net)
    };
    let asleep = MacConfig::contiki27_contikimac();
    assert!(refused(asleep.unacknowledged()).ends_with("ContikiMAC needs acknowledgments: they end its strobes"));
    let hasty = ContikiMac { cycle_time: Duration::from_millis(1), ..ContikiMac::contiki27() };
    assert!(refused(asleep.contikimac(hasty)).contains("cycle_time is 0.001, but it must be longer than"));
    let control = Some(ControlTraffic { interval: Duration::ZERO, psdu_octets: 50 });
    assert!(refused(MacConfig { control, ..asleep }).contains("interval is 0, but it must be at least 1 ms"));
}

#[derive(Default)]
struct Dropped(Vec<DropReason>);

impl Observer for Dropped {
    fn on_dropped(&mut self, _: Instant, _: &Packet, reason: DropReason) {
        self.0.push(reason);
    }
}

/// Short-address MHR and FCS leave 116 of 127 octets.
#[test]
fn a_packet_that_does_not_fit_into_a_frame_is_dropped() {
    for (bytes, fits) in [(116, true), (117, false), (300, false)] {
        let (net, _, nodes) = row(everyone_hears(), MacConfig::ieee802154(), &[0.0, 1.0]);
        let mut sim = Simulation::<Plain, _>::new(&net, 1, Dropped::default()).expect("a valid topology");
        let interval = Interval::Constant(Duration::ZERO);
        sim.attach(nodes[1], Plain::Source { to: nodes[0], left: 1, bytes, interval }).expect("a node");
        sim.attach(nodes[0], Plain::Sink(Vec::new())).expect("a node");
        sim.run();
        assert_eq!(sim.counters().delivered, u64::from(fits), "{bytes} bytes");
        assert_eq!(matches!(sim.observer().0[..], [DropReason::TooLong(_)]), !fits, "{bytes} bytes");
    }
}
