//! Sources chosen to make table keys collide.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use conche_proto::cc::AnyController;
use conche_proto::codec::Code;
use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Limits, Output};

use crate::support::direct::{changed, con, non};
use crate::support::world::{by_name, seed_of};

const DATAGRAMS: u64 = 40_000;

fn source(prefix: u64, interface: u64, port: u16) -> SocketAddr {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&(0x2001_0db8_0000_0000_u64 | prefix).to_be_bytes());
    octets[8..].copy_from_slice(&interface.to_le_bytes());
    SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, 0))
}

/// An ordinary address: a multiple of the golden ratio, which repeats late and looks random.
fn ordinary(n: u64) -> (SocketAddr, u16) {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (source(n, mixed, (mixed >> 32) as u16), (mixed >> 48) as u16)
}

/// A server with socket addresses as peer keys that answers every request.
struct Server {
    endpoint: Endpoint<SocketAddr, AnyController>,
    buffer: [u8; 1152],
}

impl Server {
    fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    fn with_limits(limits: Limits) -> Self {
        let config = EndpointConfig { limits, ..EndpointConfig::default() };
        let endpoint = Endpoint::new(config, by_name("default"), seed_of(23));
        Self { endpoint: endpoint.expect("legal parameters"), buffer: [0; 1152] }
    }

    /// Delivers a datagram; returns the number of datagrams sent in answer.
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

/// Returns the number of table steps of a server for requests of these sources with these message
/// IDs.
fn steps(datagram: fn(Code, u16) -> Vec<u8>, sources: impl Fn(u64) -> (SocketAddr, u16)) -> u64 {
    let mut server = Server::new();
    for n in 0..DATAGRAMS {
        let (from, id) = sources(n);
        server.receive(from, &datagram(Code::GET, id));
    }
    assert_eq!(server.endpoint.stats().requests_received, DATAGRAMS, "all of them are different");
    server.endpoint.lookup_steps()
}

/// The interface identifier that makes one factor of foldhash's multiplication 0 with its public
/// seed.
const INTERFACE: u64 = 0xc0ac_29b7_c97c_50dd;

/// The port and the message ID of the n-th datagram.
type Pattern = fn(u64) -> (u16, u16);

/// Patterns of (port, message ID) of one address that collide in hashes without keys or with weak
/// mixing.
const PATTERNS: &[(&str, Pattern)] = &[
    ("IDs in a row from ports in a row", |n| ((n >> 8) as u16, n as u16)),
    ("equal low bits", |n| ((n >> 8 << 8) as u16, (n << 8) as u16 | (n >> 16) as u16)),
    ("equal sums", |n| ((n as u16).wrapping_neg(), n as u16)),
    ("the same in both", |n| (n as u16, n as u16)),
    ("equal differences to all ones", |n| (!(n as u16), n as u16)),
];

#[test]
fn requests_from_chosen_addresses_cost_no_more_lookups_than_ordinary_ones() {
    // Non-confirmable requests create peers, so that the peer index is attacked as well.
    for (ty, datagram) in [("CON", con as fn(Code, u16) -> Vec<u8>), ("NON", non)] {
        let usual = steps(datagram, ordinary);
        let chosen = steps(datagram, |n| (source(n, INTERFACE, 5683), 7));
        assert!(usual <= 4 * DATAGRAMS, "{ty}: {usual} steps for ordinary sources");
        assert!(2 * chosen <= 3 * usual, "{ty}: {chosen} steps for chosen sources, {usual} for ordinary ones");
    }
}

#[test]
fn requests_from_chosen_ports_with_chosen_ids_cost_no_more_lookups_than_ordinary_ones() {
    for (ty, datagram) in [("CON", con as fn(Code, u16) -> Vec<u8>), ("NON", non)] {
        let usual = steps(datagram, ordinary);
        for (name, pattern) in PATTERNS {
            let chosen = steps(datagram, |n| {
                let (port, id) = pattern(n);
                (source(1, INTERFACE, port), id)
            });
            assert!(2 * chosen <= 3 * usual, "{ty}, {name}: {chosen} steps, {usual} for ordinary ones");
        }
    }
}

#[test]
fn message_ids_in_a_row_are_spread_whatever_port_they_come_from() {
    const IDS: u64 = 10_000;
    for port in (0..300).step_by(7) {
        let mut server = Server::new();
        for id in 0..IDS {
            server.receive(source(1, INTERFACE, port), &con(Code::GET, id as u16));
        }
        assert_eq!(server.endpoint.stats().requests_received, IDS, "all of them are different");
        let steps = server.endpoint.lookup_steps();
        // Two buckets, for the peer table and the deduplication table, and at most one entry on
        // average.
        assert!(steps <= 3 * IDS, "{steps} steps for {IDS} requests from port {port}");
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
