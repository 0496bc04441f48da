//! Attempts to fill tables and queues.

use std::collections::HashSet;

use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code, MessageId, Type};
use conche_proto::{
    Endpoint, EndpointConfig, Event, Input, Instant, Limits, Output, OutputsPending, RequestError, Response,
};

use crate::support::world::{by_name, seed_of};
use crate::support::{request, s, wire};

type Server = Endpoint<u32, AnyController>;

fn endpoint(limits: Limits) -> Server {
    let config = EndpointConfig { limits, ..EndpointConfig::default() };
    Endpoint::new(config, by_name("default"), seed_of(11)).expect("legal parameters")
}

/// Returns the code sent, and whether the application received the request.
fn ask(server: &mut Server, now: Instant, from: u32, bytes: &[u8]) -> (Option<Code>, bool) {
    let mut buffer = [0; 1152];
    server.handle(now, Input::datagram(from, bytes)).expect("drained");
    let (mut answer, mut handled) = (None, false);
    loop {
        match server.poll(now, &mut buffer) {
            Output::Transmit(transmit) => answer = Some(wire::decode(&buffer[..transmit.len]).code()),
            Output::Event(Event::Request { id, .. }) => {
                handled = true;
                let body = Body::builder().payload("0123456789abcdef").build().expect("no options");
                server.respond(now, id, Response::new(Code::CONTENT, body)).expect("it waits");
            }
            Output::Event(event) => panic!("{event:?}"),
            Output::Wait(_) => return (answer, handled),
        }
    }
}

#[test]
fn a_million_sources_fill_no_more_than_the_table_and_others_are_served() {
    const CAPACITY: usize = 1 << 20;
    let (mut honest, mut served) = (0, 0);
    let memory = allocation_counter::measure(|| {
        let mut server = endpoint(Limits { deduplication_bytes: CAPACITY, ..Limits::default() });
        let flood = wire::request(Type::Confirmable, Code::GET, 1, b"spoofed", "/test");
        for source in 0..1_000_000 {
            let now = Instant::ZERO + s(1) * source / 20_000;
            ask(&mut server, now, source, &flood);
            if source % 1_000 == 0 {
                // A client that POSTs, with duplicates, during the flood.
                let post = wire::request(Type::Confirmable, Code::POST, (source / 1_000) as u16, b"honest", "/test");
                honest += 1;
                let (answer, handled) = ask(&mut server, now, u32::MAX, &post);
                served += u32::from(handled && answer == Some(Code::CONTENT));
                assert_eq!(ask(&mut server, now, u32::MAX, &post), (answer, false), "a POST is executed once");
            }
        }
        assert!(server.occupancy().deduplication_bytes <= CAPACITY + 64);
        assert_eq!(server.occupancy().peers, 0, "piggybacked responses need no state of the peer");
    });
    assert!(served * 100 >= honest * 99, "{served} of {honest}");
    println!("{} bytes of heap at most", memory.bytes_max);
    let limit = (CAPACITY + CAPACITY / 20) as u64;
    assert!(memory.bytes_max <= limit, "{} bytes of heap for a table of {CAPACITY}", memory.bytes_max);
}

#[test]
fn a_table_full_of_posts_refuses_more_and_executes_none_twice() {
    let mut server = endpoint(Limits { deduplication_bytes: 64 << 10, ..Limits::default() });
    let mut executed = HashSet::new();
    let mut refused = 0;
    for round in 0..3 {
        for source in 0..2_000 {
            let post = wire::request(Type::Confirmable, Code::POST, 7, b"t", "/test");
            let (answer, handled) = ask(&mut server, Instant::ZERO + s(round), source, &post);
            if handled {
                assert!(executed.insert(source), "the POST of {source} was executed twice");
            }
            refused += u32::from(answer == Some(Code::SERVICE_UNAVAILABLE));
        }
    }
    assert!(refused > 0 && !executed.is_empty());
    assert_eq!(server.stats().overloaded, u64::from(refused));
    let post = wire::request(Type::Confirmable, Code::POST, 7, b"t", "/test");
    let later = Instant::ZERO + s(247 + 3);
    assert_eq!(ask(&mut server, later, 5_000, &post), (Some(Code::CONTENT), true), "it recovers");
}

#[test]
fn a_million_submissions_to_a_black_hole_fail_at_once_beyond_the_queue() {
    let mut client = endpoint(Limits::default());
    let limit = Limits::default().queue_per_peer;
    let mut accepted = 0;
    for _ in 0..1_000_000 {
        match client.request(Instant::ZERO, 1, request(Code::GET, "/test")) {
            Ok(_) => accepted += 1,
            Err(error) => assert_eq!(error, RequestError::QueueFull { limit }),
        }
    }
    assert_eq!(accepted, 1 + limit, "one leaves, the others wait");
    let limit = Limits::default().queue;
    let mut peer = 2;
    let refused = loop {
        match client.request(Instant::ZERO, peer, request(Code::GET, "/test")) {
            Ok(_) => {}
            Err(RequestError::QueueFull { .. }) => peer += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, RequestError::QueuesFull { limit });
    assert_eq!(client.occupancy().queued, limit);
}

#[test]
fn peers_in_use_are_never_evicted_and_idle_ones_after_their_lifetime() {
    let mut client = endpoint(Limits { peers: 10, ..Limits::default() });
    let ping = |client: &mut Server, now, to| client.request(now, to, request(Code::GET, "/test"));
    let first = ping(&mut client, Instant::ZERO, 0).expect("room");
    for peer in 1..10 {
        let exchange = ping(&mut client, Instant::ZERO, peer).expect("room");
        assert!(client.cancel(Instant::ZERO, exchange));
    }
    let full = Err(RequestError::PeersFull { limit: 10 });
    assert_eq!(ping(&mut client, Instant::ZERO + s(254), 10), full, "all were used within the idle lifetime");
    let later = Instant::ZERO + s(256);
    for peer in 10..19 {
        ping(&mut client, later, peer).expect("an idle peer makes room");
    }
    assert_eq!(ping(&mut client, later, 19), full, "the first has an exchange still, the others are new");
    assert!(client.snapshot(&0).is_some() && client.cancel(later, first));
}

#[test]
fn a_peer_that_is_lost_makes_room_as_soon_as_nothing_holds_it() {
    let mut server = endpoint(Limits { peers: 2, ..Limits::default() });
    let get = wire::request(Type::NonConfirmable, Code::GET, 1, b"t", "/test");
    server.handle(Instant::ZERO, Input::datagram(1, &get)).expect("drained");
    let Output::Event(Event::Request { id, .. }) = server.poll(Instant::ZERO, &mut [0; 1152]) else {
        panic!("a request")
    };
    server.lose_peer(Instant::ZERO, &1);
    server.request(Instant::ZERO, 2, request(Code::GET, "/test")).expect("room");
    let refused = server.request(Instant::ZERO, 3, request(Code::GET, "/test"));
    assert_eq!(refused, Err(RequestError::PeersFull { limit: 2 }), "somebody may still answer it");
    server.ignore(Instant::ZERO, id);
    assert!(server.request(Instant::ZERO, 3, request(Code::GET, "/test")).is_ok());
    assert!(server.snapshot(&1).is_none());
}

#[test]
fn a_driver_that_does_not_poll_is_stopped() {
    let mut server = endpoint(Limits { outputs: 8, ..Limits::default() });
    let ping = |n: u16| wire::bare(Type::Confirmable, Code::EMPTY, n, &[]);
    for n in 0..8 {
        server.handle(Instant::ZERO, Input::datagram(1, &ping(n))).expect("room");
    }
    let refused = server.handle(Instant::ZERO, Input::datagram(1, &ping(8)));
    assert_eq!(refused, Err(OutputsPending));
    let mut buffer = [0; 1152];
    for n in 0..8 {
        let Output::Transmit(transmit) = server.poll(Instant::ZERO, &mut buffer) else { panic!("a Reset") };
        assert_eq!(buffer[..transmit.len], wire::reset(MessageId(n)));
    }
    server.handle(Instant::ZERO, Input::datagram(1, &ping(8))).expect("room again");
}
