//! Radio networks of plain hosts.

use std::f64::consts::TAU;
use std::time::Duration;

use conche_netsim::host::{Host, Port, Received};
use conche_netsim::mac::{MacConfig, RadioConfig};
use conche_netsim::radio::{MediumConfig, Position, Udgm};
use conche_netsim::wired::Topology;
use conche_netsim::{Instant, NodeId, RadioId, Simulation};

pub enum Saturated {
    /// Starts within 100 ms. Every 100 ms it refills its queue of 64 packets, more than it sends in
    /// that time.
    Sender {
        to: NodeId,
        bytes: usize,
    },
    Sink,
}

impl Host for Saturated {
    type Timer = ();

    fn start(&mut self, port: &mut Port<'_, ()>) {
        let first = port.rng().below(100_000_000);
        port.set_timer(Duration::from_nanos(first), ());
    }

    fn timer(&mut self, port: &mut Port<'_, ()>, (): ()) {
        let Self::Sender { to, bytes } = *self else { return };
        for _ in 0..40 {
            port.send(to, &vec![0; bytes], None, None);
        }
        port.set_timer(Duration::from_millis(100), ());
    }

    fn receive(&mut self, _: &mut Port<'_, ()>, _: Received<'_>) {}

    fn wake(&mut self, _: &mut Port<'_, ()>) {}
}

pub fn everyone_hears() -> MediumConfig {
    MediumConfig::Udgm(Udgm::default())
}

pub fn row(medium: MediumConfig, mac: MacConfig, places_m: &[f64]) -> (Topology, RadioId, Vec<NodeId>) {
    let mut net = Topology::new();
    let radio = net.radio("air", RadioConfig { medium, mac });
    let nodes: Vec<NodeId> = (0..places_m.len()).map(|i| net.node(format!("n{i}"))).collect();
    for (node, place) in nodes.iter().zip(places_m) {
        net.place(radio, *node, Position::metres(*place, 0.0));
    }
    for (i, node) in nodes.iter().enumerate().skip(1) {
        net.duplex_hop(format!("hop{i}"), radio, *node, nodes[0]);
    }
    (net, radio, nodes)
}

pub fn saturated_star(
    medium: MediumConfig,
    mac: MacConfig,
    senders: usize,
    bytes: usize,
    seconds: u64,
    seed: u64,
) -> (Simulation<Saturated>, RadioId, NodeId) {
    let mut net = Topology::new();
    let radio = net.radio("air", RadioConfig { medium, mac });
    let sink = net.node("sink");
    net.place(radio, sink, Position::metres(0.0, 0.0));
    let nodes: Vec<NodeId> = (0..senders)
        .map(|i| {
            let node = net.node(format!("n{i}"));
            let angle = TAU * i as f64 / senders as f64;
            net.place(radio, node, Position::metres(10.0 * angle.cos(), 10.0 * angle.sin()));
            net.duplex_hop(format!("hop{i}"), radio, node, sink);
            node
        })
        .collect();
    let mut sim = Simulation::new(&net, seed, ()).expect("a valid topology");
    sim.attach(sink, Saturated::Sink).expect("a node");
    for node in nodes {
        sim.attach(node, Saturated::Sender { to: sink, bytes }).expect("a node");
    }
    sim.run_until(Instant::from_millis(seconds * 1000));
    (sim, radio, sink)
}
