//! RPL trees on media, and packets on them.

use std::f64::consts::TAU;
use std::time::Duration;

use conche_netsim::mac::{MacConfig, RadioConfig};
use conche_netsim::radio::{Gilbert, MediumConfig, Mrm31, PathLoss, Position, ReceptionCurve, Sinr, Udgm};
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::routing::{RplConfig, RplTree};
use conche_netsim::wired::{LinkConfig, Topology};
use conche_netsim::{BitRate, NodeId, Simulation};

use super::net::row;
use crate::plain::{Interval, Plain};

/// ```text
///   sender ── 15 m ──> sink
/// ```
#[test]
fn the_quality_of_a_link_equals_its_measured_delivery_ratio() {
    let ms = Duration::from_millis;
    let fading = Gilbert { mean_good: ms(40), mean_bad: ms(10), loss_bad: 0.5 };
    let path_loss = PathLoss::LogDistance {
        reference_loss_db: 58.5,
        exponent: 3.0,
        shadowing_sigma_db: 1.0,
        asymmetry_sigma_db: 1.0,
    };
    let curve = ReceptionCurve::Cc2420;
    let sinr = Sinr { path_loss, curve, sensitivity_dbm: -97.0, fading: Some(fading), ..Sinr::default() };
    let udgm = Udgm { transmission_range_m: 20.0, success_ratio: 0.2, ..Udgm::default() };
    let media = [
        (MediumConfig::Udgm(udgm), 0.45..0.65),
        (MediumConfig::Mrm31(Mrm31 { sensitivity_dbm: -64.0, ..Mrm31::default() }), 0.7..0.9),
        (MediumConfig::Sinr(sinr), 0.2..0.88),
    ];
    for (medium, sensible) in media {
        let seed = 4;
        let (net, radio, nodes) = row(medium.clone(), MacConfig::ieee802154().unacknowledged(), &[0.0, 15.0]);
        let quality = net.link_quality(radio, seed, 100).expect("a valid radio network");
        let expected = quality.ratio(nodes[1], nodes[0]);
        assert!(sensible.contains(&expected), "{medium:?}: {expected:.3}");
        let mut sim = Simulation::<Plain>::new(&net, seed, ()).expect("a valid topology");
        let interval = Interval::Constant(ms(20));
        sim.attach(nodes[1], Plain::Source { to: nodes[0], left: 40_000, bytes: 89, interval }).expect("a node");
        sim.attach(nodes[0], Plain::Sink(Vec::new())).expect("a node");
        sim.run();
        let counters = sim.radio_counters(radio).expect("a radio network");
        let share = counters.received as f64 / counters.frames as f64;
        // Four standard errors of the binomial, and as much for fading that outlasts a frame.
        assert!((share - expected).abs() < 0.02, "{medium:?}: {share:.4} instead of {expected:.4}");
    }
}

/// ```text
///   88 nodes on circles of 10, 20, .. 50 m ~~~ border router ── 115.2 kbit/s ── host
/// ```
///
/// The range is 13 m, so each circle is one hop further.
#[test]
fn every_node_of_a_tree_reaches_the_host_and_is_reached() {
    let medium = MediumConfig::Udgm(Udgm { transmission_range_m: 13.0, ..Udgm::default() });
    let mut net = Topology::new();
    let radio = net.radio("air", RadioConfig { medium, mac: MacConfig::contiki31() });
    let (router, host) = (net.node("router"), net.node("host"));
    net.place(radio, router, Position::metres(0.0, 0.0));
    let slip = LinkConfig { rate: Some(BitRate::bit(115_200)), ..LinkConfig::default() };
    net.duplex("slip", router, host, slip);
    let mut nodes: Vec<(NodeId, u16)> = Vec::new();
    for (ring, count) in (1..).zip([6_u32, 12, 18, 24, 28]) {
        for i in 0..count {
            let (angle, radius) = (TAU * f64::from(i) / f64::from(count), 10.0 * f64::from(ring));
            let node = net.node(format!("node {ring}.{i}"));
            net.place(radio, node, Position::metres(radius * angle.cos(), radius * angle.sin()));
            nodes.push((node, ring));
        }
    }
    let quality = net.link_quality(radio, 1, 100).expect("a valid radio network");
    let mut ties = Streams::new(1).stream(Entity::Run, Purpose::named("rpl"));
    let tree = RplTree::new(&quality, router, RplConfig::default(), &mut ties);
    assert_eq!(tree.unreached().count(), 0);
    assert!(nodes.iter().all(|(node, ring)| tree.hops(*node) == Some(*ring)));
    tree.install(&mut net, radio);

    let mut sim = Simulation::<Plain>::new(&net, 1, ()).expect("a valid topology");
    sim.attach(host, Plain::Echo).expect("a node");
    for (turn, (node, _)) in (1..).zip(&nodes) {
        // Without collisions: one after the other.
        let interval = Interval::Constant(Duration::from_millis(200) * turn);
        sim.attach(*node, Plain::Source { to: host, left: 1, bytes: 40, interval }).expect("a node");
    }
    sim.run();
    assert_eq!(sim.counters().delivered, 2 * nodes.len() as u64);
    let hops: u64 = nodes.iter().map(|(_, ring)| 2 * u64::from(*ring)).sum();
    assert_eq!(sim.radio_counters(radio).expect("a radio network").frames, hops);
}
