//! Twenty clients fetch a resource through one slow link, recorded in a capture file.
//!
//! ```text
//!   client0 ─┐                 30 kbit/s, 200 ms
//!   client1 ─┼─ left ═══════════════════════════════ right ─── server
//!     ...   ─┘            5 frames wait at most
//! ```
//!
//! `cargo run --release -p conche-netsim --example dumbbell [FILE]`, then open FILE
//! (dumbbell.pcapng) in Wireshark.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::time::Duration;

use conche_netsim::node::{Application, Context, Node};
use conche_netsim::pcapng::{Capture, PcapNg};
use conche_netsim::rng::{Entity, Purpose};
use conche_netsim::wired::{DropTail, LinkConfig, Topology};
use conche_netsim::{BitRate, NodeId, Simulation};
use conche_proto::cc::default::CoapDefault;
use conche_proto::codec::{Body, Code};
use conche_proto::{EndpointConfig, Event, Request, Response};

enum Role {
    Client { server: NodeId, left: u32, retransmissions: u32 },
    Server,
}

impl Application for Role {
    type Timer = ();

    fn start(&mut self, context: &mut Context<'_, Self>) {
        if let Role::Client { server, .. } = *self {
            context.request(server, Request::new(Code::GET, Body::default())).expect("nothing is queued");
        }
    }

    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>) {
        match (self, event) {
            (Role::Server, Event::Request { id, .. }) => {
                let body = Body::builder().payload(vec![b'.'; 61]).build().expect("a payload of 61 bytes");
                context.respond(id, Response::new(Code::CONTENT, body)).expect("it is waiting");
            }
            (Role::Client { server, left, retransmissions }, Event::Response { course, .. }) => {
                *retransmissions += course.transmissions - 1;
                *left -= 1;
                if *left > 0 {
                    context.request(*server, Request::new(Code::GET, Body::default())).expect("nothing is queued");
                }
            }
            _ => {}
        }
    }

    fn timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut net = Topology::new();
    let (left, right, server) = (net.node("left"), net.node("right"), net.node("server"));
    let bottleneck = LinkConfig {
        rate: Some(BitRate::kbit(30)),
        delay: Duration::from_millis(200),
        queue: DropTail::packets(5),
        ..LinkConfig::default()
    };
    net.duplex("bottleneck", left, right, bottleneck);
    net.duplex("lan", right, server, LinkConfig::default());
    let clients: Vec<NodeId> = (0..20).map(|i| net.node(format!("client{i}"))).collect();
    for client in &clients {
        net.duplex(format!("access{}", client.index()), *client, left, LinkConfig::default());
    }

    let path = std::env::args().nth(1).unwrap_or_else(|| "dumbbell.pcapng".to_owned());
    let capture = PcapNg::new(BufWriter::new(File::create(&path)?), &net, Capture::Senders)?;
    let mut sim = Simulation::new(&net, 1, capture)?;
    for node in clients.iter().copied().chain([server]) {
        let role = if node == server { Role::Server } else { Role::Client { server, left: 10, retransmissions: 0 } };
        let seed = sim.streams().seed_bytes(Entity::Node(node), Purpose::named("endpoint"));
        sim.attach(node, Node::new(EndpointConfig::default(), CoapDefault::default(), seed, role)?)?;
    }
    sim.run();

    let (counters, events) = (sim.counters(), sim.events());
    let (hosts, capture) = sim.into_parts();
    capture.finish()?;
    let retransmitted = |host: &Node<Role>| match host.application() {
        Role::Client { retransmissions, .. } => *retransmissions,
        Role::Server => 0,
    };
    let retransmissions: u32 = hosts.iter().map(|(_, host)| retransmitted(host)).sum();
    println!("200 exchanges, {retransmissions} retransmissions, {} packets dropped, {events} events", counters.dropped);
    println!("{path} is for Wireshark; each packet's comment says which exchange and which copy it is.");
    Ok(())
}
