//! Floods of requests with forged sources, and the service left for others.

use std::collections::HashSet;
use std::time::Duration;

use conche_proto::codec::{Code, Type};
use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Limits, Output, Response};

use crate::model::Address;
use crate::support::Direct;
use crate::support::direct::{address, changed, con, count_by_network, non};
use crate::support::world::by_name;
use crate::support::{request, s, wire};

fn server(limits: Limits) -> Direct {
    let mut server = Direct::with_limits(limits);
    count_by_network(&mut server);
    server
}

const CLIENTS: u32 = 100;
const CLIENT_NETWORKS: u32 = 10;
/// An eighth of a flood that filled the default tables, against an eighth of these tables.
const FLOOD_PER_SECOND: u32 = 2_500;
const SECONDS: u32 = 60;

fn limits() -> Limits {
    Limits { deduplication_bytes: Limits::default().deduplication_bytes / 8, ..Limits::default() }
}

#[derive(Debug, Default)]
struct Outcome {
    asked: u32,
    answered: u32,
    executed: HashSet<(Address, u16)>,
    spoofed_executed: u32,
}

impl Outcome {
    fn post(&mut self, server: &mut Direct, from: Address, id: u16) -> Option<Code> {
        let given = server.receive(from, &con(Code::POST, id));
        let mut sent = given.sent.first().map(|(_, message)| message.code());
        if let [request] = given.requests()[..] {
            assert!(self.executed.insert((from, id)), "the POST {id} of {from} was executed twice");
            let answer = server.respond(request, changed());
            sent = Some(answer.message().code());
        }
        sent
    }
}

/// 100 clients of 10 networks POST once a second, with two duplicates each, during a flood of POSTs
/// from `networks` other networks.
fn flood_from(networks: u32) -> (Direct, Outcome) {
    let mut server = server(limits());
    let mut outcome = Outcome::default();
    let mut copies = std::collections::VecDeque::new();
    for n in 0..FLOOD_PER_SECOND * SECONDS {
        server.now = Instant::ZERO + Duration::from_secs(1) * n / FLOOD_PER_SECOND;
        let source = address(100 + (n % networks) as u8, (n / networks) as u16);
        let executed = outcome.executed.len();
        outcome.post(&mut server, source, (n >> 16) as u16);
        outcome.spoofed_executed += (outcome.executed.len() - executed) as u32;
        if n % (FLOOD_PER_SECOND / CLIENTS) == 0 {
            let (client, id) = (n * CLIENTS / FLOOD_PER_SECOND % CLIENTS, (n / FLOOD_PER_SECOND) as u16);
            let from = address((client % CLIENT_NETWORKS) as u8, client as u16);
            outcome.asked += 1;
            let answer = outcome.post(&mut server, from, id);
            outcome.answered += u32::from(answer == Some(Code::CHANGED));
            for later in [Duration::ZERO, s(1)] {
                copies.push_back((server.now + later, from, id, answer));
            }
        }
        while copies.front().is_some_and(|&(at, ..)| at <= server.now) {
            let Some((_, from, id, answer)) = copies.pop_front() else { break };
            let again = outcome.post(&mut server, from, id);
            assert!(again == answer || answer != Some(Code::CHANGED), "a copy is answered like the first");
        }
    }
    (server, outcome)
}

#[test]
fn a_flood_of_spoofed_posts_from_one_prefix_leaves_honest_clients_their_answers() {
    let (server, outcome) = flood_from(1);
    assert_eq!(outcome.asked, CLIENTS * SECONDS);
    assert!(outcome.answered * 100 >= outcome.asked * 99, "{} of {}", outcome.answered, outcome.asked);
    let capacity = limits().deduplication_bytes;
    let entry = Endpoint::<Address, conche_proto::cc::AnyController>::DEDUPLICATION_ENTRY_BYTES;
    let taken = outcome.spoofed_executed as usize * entry;
    assert!(taken <= capacity / 2 + entry, "one prefix took {taken} of {capacity} bytes");
    assert!(server.endpoint.occupancy().deduplication_bytes <= capacity);
    assert!(server.endpoint.stats().overloaded > 0, "there was a flood");
}

#[test]
fn a_flood_from_several_prefixes_takes_their_shares_and_no_more() {
    for networks in [3, 9] {
        let (_, outcome) = flood_from(networks);
        let capacity = limits().deduplication_bytes;
        let entry = Endpoint::<Address, conche_proto::cc::AnyController>::DEDUPLICATION_ENTRY_BYTES;
        let (taken, share) = (outcome.spoofed_executed as usize * entry, networks as usize * capacity);
        assert!(
            taken <= share / (networks as usize + 1) + entry,
            "{networks} prefixes took {taken} of {capacity} bytes"
        );
        assert!(outcome.answered * 100 >= outcome.asked * 99, "{} of {}", outcome.answered, outcome.asked);
    }
}

#[test]
fn a_flood_of_gets_does_not_take_the_room_of_posts() {
    for datagram in [con as fn(Code, u16) -> Vec<u8>, non] {
        let mut server = server(Limits { deduplication_bytes: 1 << 20, ..Limits::default() });
        let mut outcome = Outcome::default();
        for n in 0..50_000_u32 {
            let given = server.receive(address(100, 7), &datagram(Code::GET, n as u16));
            for request in given.requests() {
                server.respond(request, changed());
            }
            if n % 100 == 0 {
                outcome.asked += 1;
                let answer = outcome.post(&mut server, address(1, (n / 100) as u16), 1);
                outcome.answered += u32::from(answer == Some(Code::CHANGED));
            }
        }
        assert_eq!(outcome.answered, outcome.asked, "POSTs that were answered");
    }
}

#[test]
fn a_table_that_one_reply_would_fill_is_refused() {
    let limits = Limits { deduplication_bytes: 8 << 10, message_bytes: 16 << 10, ..Limits::default() };
    let error = limits_refused(limits);
    assert!(error.starts_with("the limit deduplication_bytes, which is not 0, is 8192: it must be between 66048 and"));
}

fn limits_refused(limits: Limits) -> String {
    let config = EndpointConfig { limits, ..EndpointConfig::default() };
    Endpoint::<Address, _>::new(config, by_name("default"), [1; 32]).expect_err("it must be refused").to_string()
}

#[test]
fn waiting_requests_of_one_prefix_leave_half_of_the_room_to_others() {
    let mut server = server(Limits { incoming: 1_000, ..Limits::default() });
    for n in 0..5_000 {
        server.receive(address(100, n), &con(Code::GET, 1));
        server.receive(address(100, n), &non(Code::GET, 2));
    }
    assert_eq!(server.endpoint.occupancy().incoming, 500);
    for n in 0..100 {
        let given = server.receive(address(n as u8 % 10, n), &con(Code::GET, 1));
        let answer = server.respond(given.request(), changed());
        assert_eq!(answer.kinds(), [(Type::Acknowledgement, Code::CHANGED)]);
    }
}

#[test]
fn sources_that_became_peers_leave_room_for_others_and_for_requests_of_ours() {
    type Flood = fn(u16) -> Vec<u8>;
    let proxied = |id| wire::with_options(Type::NonConfirmable, Code::GET, id, b"t", &[(35, b"coap://x")], b"");
    let floods: [(&str, Flood); 3] =
        [("NON GETs", |id| non(Code::GET, id)), ("NON refused", proxied), ("CON, slow", |id| con(Code::GET, id))];
    for (name, flood) in floods {
        let mut server = server(Limits { peers: 1_000, ..Limits::default() });
        for n in 0..5_000 {
            let given = server.receive(address(100, n), &flood(n));
            for request in given.requests() {
                if name == "CON, slow" {
                    let _ = server.endpoint.acknowledge(server.now, request);
                    server.endpoint.ignore(server.now, request);
                } else {
                    server.endpoint.respond(server.now, request, changed()).expect("it waits");
                }
                server.drain();
            }
        }
        assert_eq!(server.endpoint.occupancy().peers, 500, "{name}");
        for n in 0..100 {
            let given = server.receive(address(n as u8 % 10, n), &non(Code::POST, 1));
            let answer = server.respond(given.request(), changed());
            assert_eq!(answer.kinds(), [(Type::NonConfirmable, Code::CHANGED)], "{name}");
            let asked = server.endpoint.request(server.now, address(50, n), request(Code::GET, "/t"));
            assert!(asked.is_ok(), "{name}: {asked:?}");
        }
        // The flooding network is served again after its peers have been idle long enough.
        server.run(s(300));
        for n in 0..500 {
            let given = server.receive(address(100, 10_000 + n), &non(Code::POST, 1));
            server.respond(given.request(), changed());
        }
    }
}

#[test]
fn the_flood_over_the_room_is_there_again() {
    let mut server = server(Limits { deduplication_bytes: 256 << 10, ..Limits::default() });
    for round in 0..3 {
        let mut outcome = Outcome::default();
        for n in 0..20_000 {
            outcome.post(&mut server, address(100, n), round);
        }
        assert!(outcome.executed.len() > 500, "round {round}: {}", outcome.executed.len());
        server.run(s(300));
        let left = server.endpoint.occupancy();
        assert_eq!((left.deduplication_entries, left.deduplication_bytes, left.incoming), (0, 0, 0));
    }
}

#[test]
fn a_machine_that_slept_for_weeks_takes_no_old_message_for_the_new_one() {
    const DAY: Duration = Duration::from_secs(86_400);
    for days in [1, 12, 14, 20, 27, 40, 51, 60, 100] {
        let mut server = server(Limits::default());
        let mut outcome = Outcome::default();
        let (mut buffer, from, post) = ([0; 1152], address(1, 1), con(Code::POST, 1));
        outcome.post(&mut server, from, 1);
        let now = Instant::ZERO + DAY * days;
        server.endpoint.handle(now, Input::datagram(from, &post)).expect("drained");
        let Output::Event(Event::Request { id, .. }) = server.endpoint.poll(now, &mut buffer) else {
            panic!("after {days} days it is a new request")
        };
        server.endpoint.respond(now, id, Response::new(Code::CHANGED, wire::payload(""))).expect("it waits");
    }
}
