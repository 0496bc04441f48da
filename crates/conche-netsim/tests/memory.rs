//! How much memory a simulated client takes: a million idle ones fit into 4 GiB.

use std::hint::black_box;

use allocation_counter::measure;
use conche_netsim::node::{Application, Context, Node};
use conche_netsim::rng::{Entity, Purpose};
use conche_netsim::wired::{DropTail, LinkConfig, Topology};
use conche_netsim::{BitRate, Ended, NodeId, Simulation};
use conche_proto::cc::AnyController;
use conche_proto::{EndpointConfig, Event};

/// Asks nothing.
struct Idle;

impl Application for Idle {
    type Controller = AnyController;
    type Timer = ();

    fn start(&mut self, _: &mut Context<'_, Self>) {}
    fn event(&mut self, _: &mut Context<'_, Self>, _: Event<NodeId>) {}
    fn timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}
}

/// Clients behind one hub, and a server behind a bottleneck, after their first instant.
fn dumbbell(clients: usize) {
    let mut net = Topology::new();
    let (hub, server) = (net.node("hub"), net.node("server"));
    let bottleneck =
        LinkConfig { rate: Some(BitRate::kbit(30)), queue: DropTail::bytes(2500), ..LinkConfig::default() };
    net.duplex("bottleneck", hub, server, bottleneck);
    let clients: Vec<NodeId> = (0..clients)
        .map(|index| {
            let client = net.node(format!("client {index}"));
            net.duplex(format!("access {index}"), client, hub, LinkConfig::default());
            client
        })
        .collect();
    let mut sim = Simulation::<Node<Idle>>::new(&net, 1, ()).expect("a valid network");
    drop(net);
    let controller = AnyController::by_name("cocoa").expect("a controller");
    for node in clients.into_iter().chain([server]) {
        let seed = sim.streams().seed_bytes(Entity::Node(node), Purpose::named("endpoint"));
        let host = Node::new(EndpointConfig::default(), controller.clone(), seed, Idle).expect("valid parameters");
        sim.attach(node, host).expect("a node");
    }
    assert_eq!(sim.run(), Ended::Idle);
    black_box(&sim);
}

/// It was two before endpoints had tables for blocks, observation and groups, which an idle one has no use for.
#[test]
fn a_million_idle_clients_fit_into_four_gibibytes() {
    const CLIENTS: usize = 20_000;
    let taken = measure(|| dumbbell(CLIENTS));
    let each = taken.bytes_max / CLIENTS as u64;
    println!("{each} bytes for each client, at the peak");
    assert!(each < (4 << 30) / 1_000_000, "{each} bytes for each client");
}
