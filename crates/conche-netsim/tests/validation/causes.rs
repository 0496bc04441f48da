//! Attribution of packets to transmissions of requests, from client to server and back.
//!
//! ```text
//!   client ── 4 s ──> server (answers after 2 ms)       RTO 2-3 s: each request is sent two or three times
//!          <── 4 s ──
//! ```

use std::collections::HashMap;
use std::time::Duration;

use conche_netsim::packet::{Packet, Transmission};
use conche_netsim::trace::Observer;
use conche_netsim::wired::{LinkConfig, Loss, Topology};
use conche_netsim::{Instant, PacketId, Simulation};

use crate::roles::{Role, attach, papers_config};

#[derive(Default)]
struct Copies {
    sent: HashMap<Transmission, PacketId>,
    requests: HashMap<Transmission, Instant>,
    responses: HashMap<Transmission, Instant>,
}

impl Observer for Copies {
    fn on_sent(&mut self, _: Instant, packet: &Packet) {
        if let Some(transmission) = packet.meta.transmission {
            assert_eq!(self.sent.insert(transmission, packet.meta.id), None, "each transmission leaves once");
        }
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        if let Some(transmission) = packet.meta.transmission {
            self.requests.insert(transmission, now);
        }
        if let Some(cause) = packet.meta.cause {
            let transmission = cause.transmission.expect("every answer here is to a request");
            assert_eq!(self.sent.get(&transmission), Some(&cause.packet));
            self.responses.insert(transmission, now);
        }
    }
}

fn run(loss: Loss) -> Copies {
    let mut net = Topology::new();
    let (client, server) = (net.node("client"), net.node("server"));
    net.duplex("link", client, server, LinkConfig { delay: Duration::from_secs(4), loss, ..LinkConfig::default() });
    let mut sim = Simulation::new(&net, 1, Copies::default()).expect("a valid topology");
    let processing = Duration::from_millis(2);
    attach(&mut sim, server, papers_config(8), Role::Server { fastest: processing, slowest: processing });
    attach(&mut sim, client, papers_config(8), Role::client(server, 50));
    sim.run();
    sim.into_parts().1
}

#[test]
fn each_copy_of_a_request_finds_its_own_response() {
    let copies = run(Loss::None);
    assert!(copies.sent.len() >= 100, "each request was sent at least twice");
    for transmission in copies.sent.keys() {
        let back = copies.responses[transmission] - copies.requests[transmission];
        // Only the original waits for the application; retransmissions get the cached response.
        let processing = if transmission.attempt == 0 { Duration::from_millis(2) } else { Duration::ZERO };
        assert_eq!(back, Duration::from_secs(4) + processing, "{transmission:?}");
    }
}

#[test]
fn lost_packets_have_no_response() {
    let copies = run(Loss::Bernoulli(0.3));
    assert!(copies.requests.len() < copies.sent.len());
    assert!(copies.responses.len() < copies.requests.len());
    assert!(copies.responses.keys().all(|transmission| copies.requests.contains_key(transmission)));
}
