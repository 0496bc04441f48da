//! CoAP over radio and wires.
//!
//! ```text
//!   client 1 ─╮  802.15.4, one hop
//!   client 2 ─┼───────────── border router ── 20 ms, 1 Mbit/s ── server
//!   client 3 ─╯
//! ```

use std::time::Duration;

use conche_netsim::mac::{MacConfig, RadioConfig};
use conche_netsim::node::Node;
use conche_netsim::packet::Packet;
use conche_netsim::radio::Position;
use conche_netsim::trace::{Digest, DropReason, Observer};
use conche_netsim::wired::{LinkConfig, Topology};
use conche_netsim::{BitRate, Instant, NodeId, RadioId, Simulation};

use super::net::everyone_hears;
use crate::roles::{Role, attach, papers_config};

const EXCHANGES: u32 = 200;

fn simulate<O: Observer>(mac: MacConfig, clients: u32, seed: u64, observer: O) -> (Simulation<Node<Role>, O>, RadioId) {
    let mut net = Topology::new();
    let radio = net.radio("air", RadioConfig { medium: everyone_hears(), mac });
    let (router, server) = (net.node("router"), net.node("server"));
    let delay = Duration::from_millis(20);
    let wire = LinkConfig { rate: Some(BitRate::mbit(1)), delay, ..LinkConfig::default() };
    net.duplex("wire", router, server, wire);
    net.place(radio, router, Position::metres(0.0, 0.0));
    let clients: Vec<NodeId> = (1..=clients)
        .map(|i| {
            let client = net.node(format!("client{i}"));
            net.place(radio, client, Position::metres(f64::from(i), 0.0));
            net.duplex_hop(format!("hop{i}"), radio, client, router);
            client
        })
        .collect();
    let mut sim = Simulation::new(&net, seed, observer).expect("a valid topology");
    attach(&mut sim, server, papers_config(4), Role::Server { fastest: Duration::ZERO, slowest: Duration::ZERO });
    for client in clients {
        attach(&mut sim, client, papers_config(4), Role::client(server, EXCHANGES));
    }
    sim.run();
    (sim, radio)
}

/// Two radio hops with backoffs of 1.12 ms on average, 3.2 ms for the request and 4.0 for the
/// response, and 40.6 ms on the wire.
#[test]
fn an_exchange_takes_two_hops_and_the_wire() {
    let (sim, radio) = simulate(MacConfig::ieee802154(), 1, 1, ());
    let outcomes: Vec<_> = sim.hosts().flat_map(|(_, host)| host.application().outcomes()).collect();
    assert_eq!(outcomes.len(), EXCHANGES as usize);
    assert!(outcomes.iter().all(|outcome| outcome.failure.is_none() && outcome.course.transmissions == 1));
    let mean = outcomes.iter().map(|outcome| outcome.course.elapsed.as_secs_f64()).sum::<f64>() / f64::from(EXCHANGES);
    assert!((0.043..0.052).contains(&mean), "{mean:.4} s");
    let counters = sim.radio_counters(radio).expect("a radio network");
    assert_eq!((counters.frames, counters.succeeded, counters.no_ack), (400, 400, 0));
}

#[derive(Default)]
struct Drops {
    on_air: u64,
    elsewhere: u64,
}

impl Observer for Drops {
    fn on_dropped(&mut self, _: Instant, _: &Packet, reason: DropReason) {
        match reason {
            DropReason::ChannelBusy(_) | DropReason::Unacknowledged(_) | DropReason::Lost(_) => self.on_air += 1,
            _ => self.elsewhere += 1,
        }
    }
}

#[test]
fn every_packet_is_delivered_or_dropped_under_each_mac() {
    for mac in [
        MacConfig::ieee802154(),
        MacConfig::ieee802154().unacknowledged(),
        MacConfig::contiki27(),
        MacConfig::contiki30(),
        MacConfig::contiki31(),
        MacConfig::tinyos(),
        MacConfig::tinyos_binary_exponential(),
    ] {
        let (sim, radio) = simulate(mac, 20, 2, Drops::default());
        let (counters, drops) = (sim.counters(), sim.observer());
        assert_eq!(counters.in_flight, 0, "{mac:?}");
        assert_eq!(counters.sent, counters.delivered + counters.dropped, "{mac:?}");
        assert_eq!(counters.dropped, drops.on_air + drops.elsewhere, "{mac:?}");
        let ended = sim.hosts().map(|(_, host)| host.application().outcomes().len()).sum::<usize>();
        assert_eq!(ended, 20 * EXCHANGES as usize, "{mac:?}");
        let radio = sim.radio_counters(radio).expect("a radio network");
        assert!(radio.received <= radio.frames && radio.duplicates <= radio.received, "{mac:?}: {radio:?}");
        assert_eq!(mac.attempt.acknowledgment.is_some(), radio.acknowledgments > 0, "{mac:?}");
    }
}

#[test]
fn equal_seeds_give_equal_runs_and_others_others() {
    let digest = |seed| simulate(MacConfig::ieee802154(), 10, seed, Digest::default()).0.observer().as_u64();
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}
