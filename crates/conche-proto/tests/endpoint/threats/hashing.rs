//! Sources that share one address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use conche_proto::cc::AnyController;
use conche_proto::codec::Code;
use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Limits, Output};

use crate::support::direct::{changed, non};
use crate::support::world::{by_name, seed_of};

/// Socket addresses are peer keys.
struct Server {
    endpoint: Endpoint<SocketAddr, AnyController>,
    buffer: [u8; 1152],
}

impl Server {
    fn with_limits(limits: Limits) -> Self {
        let config = EndpointConfig { limits, ..EndpointConfig::default() };
        let endpoint = Endpoint::new(config, by_name("default"), seed_of(23));
        Self { endpoint: endpoint.expect("legal parameters"), buffer: [0; 1152] }
    }

    /// Returns the number of datagrams sent in answer.
    fn receive(&mut self, from: SocketAddr, datagram: &[u8]) -> usize {
        let mut sent = 0;
        self.endpoint.handle(Instant::ZERO, Input::datagram(from, datagram)).expect("drained");
        loop {
            match self.endpoint.poll(Instant::ZERO, &mut self.buffer) {
                Output::Event(Event::Request { id, .. }) => {
                    self.endpoint.respond(Instant::ZERO, id, changed()).expect("the request waits");
                }
                Output::Event(_) => {}
                Output::Transmit(_) => sent += 1,
                Output::Wait(_) => return sent,
            }
        }
    }
}

#[test]
fn the_ports_of_one_address_take_half_of_the_room_for_peers_and_no_more() {
    let mut server = Server::with_limits(Limits { peers: 1_000, ..Limits::default() });
    server.endpoint.set_source_groups(Box::new(|source: &SocketAddr| match source.ip().to_canonical() {
        IpAddr::V4(source) => u64::from(u32::from(source) >> 16),
        IpAddr::V6(_) => u64::MAX,
    }));
    let at = |network, port| SocketAddr::from((Ipv4Addr::new(10, network, 0, 7), port));
    for port in 0..5_000 {
        server.receive(at(100, port), &non(Code::POST, port));
    }
    assert_eq!(server.endpoint.occupancy().peers, 500);
    for network in 0..100 {
        assert_eq!(server.receive(at(network, 5683), &non(Code::POST, 1)), 1, "10.{network}.0.7 is served");
    }
}
