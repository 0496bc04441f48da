//! Memory of a simulated client: a million fit into 2 GiB before their first request, 3 GiB after
//! it.

use std::time::Duration;

use allocation_counter::measure;
use conche_netsim::node::{Application, Context, Node};
use conche_netsim::rng::{Entity, Purpose};
use conche_netsim::wired::{DropTail, LinkConfig, Topology};
use conche_netsim::{BitRate, NodeId, RunEnd, Simulation};
use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code};
use conche_proto::{EndpointConfig, Event, Request, Response, SharedConfig};

const CLIENTS: usize = 20_000;
const MILLION: u64 = 1_000_000;

#[derive(Default)]
struct Host {
    server: Option<NodeId>,
    answered: bool,
}

impl Application for Host {
    type Timer = ();

    fn start(&mut self, context: &mut Context<'_, Self>) {
        if self.server.is_some() {
            // One client at a time, so that packets in flight do not count.
            context.set_timer(Duration::from_millis(10 * context.node().index() as u64), ());
        }
    }

    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>) {
        match event {
            Event::Request { id, .. } => {
                context.respond(id, Response::new(Code::CONTENT, Body::EMPTY)).map(drop).expect("it waits");
            }
            Event::Response { .. } => self.answered = true,
            _ => {}
        }
    }

    fn timer(&mut self, context: &mut Context<'_, Self>, (): ()) {
        if let Some(server) = self.server {
            context.request(server, Request::new(Code::GET, Body::EMPTY)).expect("an empty queue");
        }
    }
}

/// Runs clients behind a hub and a server behind a bottleneck. Returns the number of clients that
/// received a response.
fn dumbbell(clients: usize, asking: bool) -> usize {
    let mut net = Topology::new();
    let (hub, server) = (net.node("hub"), net.node("server"));
    let bottleneck =
        LinkConfig { rate: Some(BitRate::kbit(100)), queue: DropTail::bytes(2500), ..LinkConfig::default() };
    net.duplex("bottleneck", hub, server, bottleneck);
    let clients: Vec<NodeId> = (0..clients)
        .map(|index| {
            let client = net.node(format!("client {index}"));
            net.duplex(format!("access {index}"), client, hub, LinkConfig::default());
            client
        })
        .collect();
    let mut sim = Simulation::<Node<Host>>::new(&net, 1, ()).expect("a valid network");
    drop(net);
    let config = SharedConfig::from(EndpointConfig::default());
    let controller = AnyController::by_name("cocoa").expect("a controller");
    let asked = asking.then_some(server);
    for (node, server) in clients.iter().map(|&client| (client, asked)).chain([(server, None)]) {
        let seed = sim.streams().seed_bytes(Entity::Node(node), Purpose::named("endpoint"));
        let application = Host { server, answered: false };
        let host = Node::new(config.clone(), controller.clone(), seed, application).expect("valid parameters");
        sim.attach(node, host).expect("a node");
    }
    assert_eq!(sim.run(), RunEnd::Idle);
    clients.iter().filter(|&&client| sim.host(client).is_some_and(|host| host.application().answered)).count()
}

fn bytes_of_a_client(asking: bool) -> u64 {
    let mut answered = 0;
    let taken = measure(|| answered = dumbbell(CLIENTS, asking));
    assert_eq!(answered, if asking { CLIENTS } else { 0 });
    let each = taken.bytes_max / CLIENTS as u64;
    println!("{each} bytes for each client, asking: {asking}");
    each
}

#[test]
fn a_million_idle_clients_fit_into_two_gibibytes() {
    assert!(bytes_of_a_client(false) < (2 << 30) / MILLION);
}

#[test]
fn a_million_clients_that_had_an_exchange_fit_into_three_gibibytes() {
    assert!(bytes_of_a_client(true) < (3 << 30) / MILLION);
}
