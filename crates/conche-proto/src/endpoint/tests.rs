//! Work per message, counted in buckets and entries that searches visit.

#![expect(clippy::cast_possible_truncation, reason = "parts of a number")]

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::vec::Vec;

use super::*;
use crate::codec::{Body, Code, MessageId, Token, Type, encode_empty, encode_to_vec};
use crate::config::EndpointConfig;
use conche_cc::AnyController;

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Buckets and entries visited by all searches so far: one or two per search, unless an
    /// attacker makes keys collide.
    fn lookup_steps(&self) -> u64 {
        let transport = &self.layers.transport;
        transport.peers.steps() + transport.exchanges.steps() + transport.received.steps()
    }
}

type Peer = Endpoint<SocketAddr, AnyController>;

fn endpoint() -> Peer {
    let controller = AnyController::by_name("default").expect("a known controller");
    Endpoint::new(EndpointConfig::default(), controller, [23; 32]).expect("legal parameters")
}

fn datagram(ty: Type, code: Code, id: u16) -> Vec<u8> {
    encode_to_vec(ty, code, MessageId(id), &Token::from(*b"token678"), &Body::EMPTY)
}

fn con(code: Code, id: u16) -> Vec<u8> {
    datagram(Type::Confirmable, code, id)
}

fn non(code: Code, id: u16) -> Vec<u8> {
    datagram(Type::NonConfirmable, code, id)
}

/// Answers requests. Returns the other events.
fn receive(endpoint: &mut Peer, from: SocketAddr, datagram: &[u8]) -> Vec<Event<SocketAddr>> {
    let mut events = Vec::new();
    endpoint.handle(Instant::ZERO, Input::datagram(from, datagram)).expect("drained");
    let mut buffer = [0; 1152];
    loop {
        match endpoint.poll(Instant::ZERO, &mut buffer) {
            Output::Event(Event::Request { id, .. }) => {
                let changed = Response::new(Code::CHANGED, Body::EMPTY);
                endpoint.respond(Instant::ZERO, id, changed).expect("the request waits");
            }
            Output::Event(event) => events.push(event),
            Output::Transmit(_) => {}
            Output::Wait(_) => return events,
        }
    }
}

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

/// Returns the table steps of a server for requests of these sources with these message IDs.
fn steps(datagram: fn(Code, u16) -> Vec<u8>, sources: impl Fn(u64) -> (SocketAddr, u16)) -> u64 {
    let mut server = endpoint();
    for n in 0..DATAGRAMS {
        let (from, id) = sources(n);
        receive(&mut server, from, &datagram(Code::GET, id));
    }
    assert_eq!(server.stats().requests_received, DATAGRAMS, "all of them are different");
    server.lookup_steps()
}

/// Makes one factor of foldhash's multiplication 0 with its public seed.
const INTERFACE: u64 = 0xc0ac_29b7_c97c_50dd;

type Pattern = fn(u64) -> (u16, u16);

/// Collide, for one address, in hashes without keys or with weak mixing.
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
fn consecutive_message_ids_hash_evenly_from_any_port() {
    const IDS: u64 = 10_000;
    for port in (0..300).step_by(7) {
        let mut server = endpoint();
        for id in 0..IDS {
            receive(&mut server, source(1, INTERFACE, port), &con(Code::GET, id as u16));
        }
        assert_eq!(server.stats().requests_received, IDS, "all of them are different");
        let steps = server.lookup_steps();
        // Two buckets, for peers and deduplication, and at most one entry on average.
        assert!(steps <= 3 * IDS, "{steps} steps for {IDS} requests from port {port}");
    }
}

#[test]
fn ten_thousand_requests_that_were_acknowledged_end_in_linear_work() {
    const REQUESTS: u64 = 10_000;
    let (mut client, server) = (endpoint(), source(0, 1, 5683));
    let mut requested = Vec::new();
    for _ in 0..REQUESTS {
        let request = Request::new(Code::GET, Body::builder().path("/t").build().expect("short"));
        let exchange = client.request(Instant::ZERO, server, request).expect("room");
        let mut buffer = [0; 1152];
        let Output::Transmit(transmit) = client.poll(Instant::ZERO, &mut buffer) else { panic!("it leaves at once") };
        let sent = Message::decode(&buffer[..transmit.len]).expect("well-formed");
        let (id, token) = (sent.id(), sent.token());
        receive(&mut client, server, &encode_empty(Type::Acknowledgement, id));
        requested.push((exchange, token));
    }
    assert_eq!(client.occupancy().exchanges, 10_000);
    let before = client.lookup_steps();
    for (n, (exchange, token)) in (0..).zip(&requested) {
        if n % 2 == 0 {
            assert!(client.cancel(Instant::ZERO, *exchange));
        } else {
            let response = encode_to_vec(Type::NonConfirmable, Code::CONTENT, MessageId(n), token, &Body::EMPTY);
            assert!(matches!(receive(&mut client, server, &response)[..], [Event::Response { .. }]));
        }
    }
    assert_eq!(client.occupancy().exchanges, 0);
    let steps = client.lookup_steps() - before;
    assert!(steps <= 4 * REQUESTS, "{steps} steps");
}
