//! ANRW'18's network with any number of clients. Rates and buffer scale with the paper's values for
//! 100 clients.
//!
//! ```text
//!              0.6 kbit/s a client, 200 ms            10 to 20 ms
//!   clients ── hub ═══════════════════════════ router ══════════════ interface ══ server
//!                  0.3 kbit/s a client, 400 ms                      2 to 4 ms
//!                  141 B a client wait at most
//! ```

use std::error::Error;
use std::time::Duration;

use conche_netsim::node::Node;
use conche_netsim::rng::{Entity, Purpose};
use conche_netsim::wired::{DropTail, Jitter, LinkConfig, Topology};
use conche_netsim::{BitRate, NodeId, Simulation};
use conche_proto::cc::AnyController;
use conche_proto::{EndpointConfig, Envelope, SharedConfig, TransmissionParameters};

use crate::application::Host;
use crate::{Ran, measured};

pub struct Dumbbell {
    pub clients: u32,
    pub pattern: Pattern,
    pub seconds: u64,
}

#[derive(Clone, Copy)]
pub enum Pattern {
    OneAfterAnother,
    Every(Duration),
}

/// CoAP messages: a bare header, and a frame of 94 bytes.
const RESPONSE_BYTES: usize = 66;

impl Dumbbell {
    pub fn run(&self) -> Result<Ran, Box<dyn Error>> {
        measured(|| self.build(), self.seconds)
    }

    fn build(&self) -> Result<Simulation<Node<Host>>, Box<dyn Error>> {
        let (net, server, clients) = self.network();
        let mut sim = Simulation::new(&net, 1, ())?;
        drop(net);
        let config = SharedConfig::from(EndpointConfig {
            transmission: TransmissionParameters { max_retransmit: 20, ..TransmissionParameters::default() },
            envelope: Envelope::open(Duration::from_secs(60)),
            token_length: 0,
            source_validation: conche_proto::SourceValidation::Off,
            ..EndpointConfig::default()
        });
        let controller = AnyController::by_name("default")?;
        let period = match self.pattern {
            Pattern::OneAfterAnother => None,
            Pattern::Every(period) => Some(period),
        };
        for node in clients.into_iter().chain([server]) {
            let host = if node == server { Host::server(RESPONSE_BYTES) } else { Host::client(server, period) };
            let seed = sim.streams().seed_bytes(Entity::Node(node), Purpose::named("endpoint"));
            sim.attach(node, Node::new(config.clone(), controller.clone(), seed, host)?)?;
        }
        Ok(sim)
    }

    fn network(&self) -> (Topology, NodeId, Vec<NodeId>) {
        let ms = Duration::from_millis;
        let clients = u64::from(self.clients);
        let slow =
            |bits, delay| LinkConfig { rate: Some(BitRate::bit(bits * clients)), delay, ..LinkConfig::default() };
        let jittery =
            |low, high| LinkConfig { jitter: Jitter::uniform_reordering(ms(low), ms(high)), ..LinkConfig::default() };
        let mut net = Topology::new();
        let [hub, router, interface, server] = ["hub", "router", "interface", "server"].map(|name| net.node(name));
        net.link("uplink", hub, router, slow(600, ms(200)));
        net.link("to server", router, interface, jittery(10, 20));
        net.link("processing", interface, server, jittery(2, 4));
        net.link("from server", server, router, jittery(10, 20));
        net.link("downlink", router, hub, LinkConfig { queue: DropTail::bytes(141 * clients), ..slow(300, ms(400)) });
        let clients = (0..self.clients)
            .map(|index| {
                let client = net.node(format!("client {index}"));
                net.duplex(format!("access {index}"), client, hub, LinkConfig::default());
                client
            })
            .collect();
        (net, server, clients)
    }
}
