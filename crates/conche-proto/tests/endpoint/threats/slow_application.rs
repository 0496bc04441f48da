//! Slow applications, and requests that wait for them: accepted requests are answered.

use conche_proto::codec::{Code, OptionNumber, Type};
use conche_proto::{EndpointConfig, Event, Limits, Reliability, RespondError};

use crate::support::direct::{Given, ack_of, changed, con, content, non};
use crate::support::{Direct, ms, request, s, wire};

/// Returns the tokens of all responses.
fn acknowledge_all(server: &mut Direct, client: u32, given: Given) -> Vec<Vec<u8>> {
    let mut tokens = Vec::new();
    let mut sent = given.sent;
    while !sent.is_empty() {
        let mut next = Vec::new();
        for (_, message) in &sent {
            tokens.extend(message.code().is_response().then(|| message.token().as_slice().to_vec()));
            if message.header().ty == Type::Confirmable {
                next.extend(server.receive(client, &ack_of(message)).sent);
            }
        }
        sent = next;
    }
    tokens
}

#[test]
fn a_hundred_requests_of_one_client_to_a_slow_server_are_all_answered() {
    for queue_per_peer in [Limits::default().queue_per_peer, 1] {
        for datagram in [Type::Confirmable, Type::NonConfirmable] {
            let limits = Limits { queue_per_peer, queue: 1, exchanges: 1, ..Limits::default() };
            let mut server = Direct::with_limits(limits);
            let mut waiting = Vec::new();
            for n in 0..100_u16 {
                let token = n.to_be_bytes();
                waiting.push(server.receive(7, &wire::bare(datagram, Code::GET, n, &token)).request());
            }
            server.run(s(10));
            assert_eq!(server.endpoint.occupancy().incoming, 100);
            let (mut answered, mut exchanges) = (Vec::new(), Vec::new());
            for request in waiting {
                let exchange = server.endpoint.respond(server.now, request, content("late")).expect("there is room");
                exchanges.extend(exchange);
                assert_eq!(server.endpoint.respond(server.now, request, changed()), Err(RespondError::NotPending));
            }
            let occupancy = server.endpoint.occupancy();
            assert!(occupancy.incoming + occupancy.responses <= limits_of_waiting());
            let given = server.drain();
            answered.extend(acknowledge_all(&mut server, 7, given));
            answered.sort_unstable();
            let tokens: Vec<_> = (0..100_u16).map(|n| n.to_be_bytes().to_vec()).collect();
            assert_eq!(answered, tokens, "each once, with queue_per_peer = {queue_per_peer}");
            assert_eq!(exchanges.len(), if datagram == Type::Confirmable { 100 } else { 0 });
            server.run_to_end();
        }
    }
}

fn limits_of_waiting() -> usize {
    Limits::default().incoming
}

#[test]
fn responses_to_a_client_that_is_gone_all_end_with_an_event() {
    let mut server = Direct::with_limits(Limits { queue_per_peer: 1, ..Limits::default() });
    let waiting: Vec<_> = (0..100).map(|n| server.receive(7, &con(Code::GET, n)).request()).collect();
    server.run(s(1));
    let mut open: Vec<_> = Vec::new();
    for request in waiting {
        open.extend(server.endpoint.respond(server.now, request, content("late")).expect("there is room"));
    }
    assert_eq!(open.len(), 100);
    for event in server.run_to_end().events {
        let Event::Failed { exchange, .. } = event else { panic!("{event:?}") };
        let position = open.iter().position(|&other| other == exchange);
        open.swap_remove(position.expect("each ends once"));
    }
    assert!(open.is_empty(), "{open:?} never ended");
}

#[test]
fn a_request_beyond_the_limit_is_refused_once_on_arrival_with_max_age() {
    let mut server = Direct::with_limits(Limits { incoming: 4, ..Limits::default() });
    let waiting = [1, 2].map(|client| server.receive(client, &con(Code::POST, 1)).request());
    let third = server.receive(3, &con(Code::POST, 1)).request();
    let refused = server.receive(3, &con(Code::POST, 2));
    assert!(refused.events.is_empty());
    let message = refused.message();
    assert_eq!((message.header().ty, message.code()), (Type::Acknowledgement, Code::SERVICE_UNAVAILABLE));
    assert_eq!(message.uint(OptionNumber::MAX_AGE), Some(2));
    assert_eq!(message.token().as_slice(), b"token678");
    let dropped = server.receive(3, &non(Code::POST, 3));
    assert!(dropped.sent.is_empty() && dropped.events.is_empty(), "a Non-confirmable one is dropped: {dropped:?}");
    assert_eq!(server.endpoint.stats().overloaded, 2);
    // One request ends, and a duplicate of the refused one is accepted.
    server.respond(third, changed());
    server.respond(waiting[0], changed());
    let again = server.receive(3, &con(Code::POST, 2)).request();
    server.respond(again, changed());
    server.respond(waiting[1], changed());
    server.run_to_end();
}

#[test]
fn responses_that_are_not_acknowledged_count_as_waiting_requests() {
    let mut server = Direct::with_limits(Limits { incoming: 4, ..Limits::default() });
    let waiting = [1, 2].map(|id| server.receive(1, &con(Code::POST, id)).request());
    server.run(s(1));
    for request in waiting {
        server.respond(request, changed());
    }
    let occupancy = server.endpoint.occupancy();
    assert_eq!((occupancy.incoming, occupancy.responses), (0, 2));
    assert_eq!(server.receive(1, &con(Code::POST, 3)).message().code(), Code::SERVICE_UNAVAILABLE);
    server.run_to_end();
    let given = server.receive(1, &con(Code::POST, 4));
    server.respond(given.request(), changed());
    server.run_to_end();
}

#[test]
fn answered_gets_make_room_even_if_they_were_answered_late() {
    // Room for 64 short entries with pending replies.
    let limits = Limits { deduplication_bytes: 64 * (96 + 80), message_bytes: 64, ..Limits::default() };
    let mut server = Direct::with_limits(limits);
    let waiting: Vec<_> = (0..64).map(|n| server.receive(1, &con(Code::GET, n)).request()).collect();
    for request in waiting {
        server.respond(request, content("0123456789012345678901234567890123456789"));
    }
    for n in 0..1_000 {
        let given = server.receive(1, &con(Code::GET, 10_000 + n));
        let answer = server.respond(given.request(), content("0123456789012345678901234567890123456789"));
        assert_eq!(answer.kinds(), [(Type::Acknowledgement, Code::CONTENT)], "GET {n}");
    }
    assert_eq!(server.endpoint.stats().overloaded, 0);
    server.run_to_end();
}

#[test]
fn a_response_after_its_request_was_forgotten_still_leaves() {
    for (datagram, ty, code) in [
        (con(Code::POST, 5), Type::Confirmable, Code::POST),
        (con(Code::GET, 5), Type::Confirmable, Code::GET),
        (non(Code::POST, 5), Type::NonConfirmable, Code::POST),
    ] {
        let mut server = Direct::new(EndpointConfig::default());
        let request = server.receive(1, &datagram).request();
        server.run(s(300));
        let left = server.endpoint.occupancy();
        assert_eq!((left.deduplication_entries, left.incoming), (0, 1), "{ty} {code} is forgotten but for its answer");
        let given = server.respond(request, content("at last"));
        assert_eq!(given.kinds(), [(ty, Code::CONTENT)]);
        assert_eq!(given.message().token().as_slice(), b"token678");
        if ty == Type::Confirmable {
            let ack = ack_of(given.message());
            assert!(matches!(server.receive(1, &ack).events[..], [Event::Acknowledged { .. }]));
        }
        server.run_to_end();
    }
}

#[test]
fn a_request_that_was_evicted_while_it_waited_is_answered_all_the_same() {
    let limits = Limits { deduplication_bytes: 2_048, message_bytes: 256, ..Limits::default() };
    let mut server = Direct::with_limits(limits);
    let waiting: Vec<_> = (0..40).map(|n| server.receive(1, &con(Code::GET, n)).request()).collect();
    assert!(server.endpoint.occupancy().deduplication_entries < 40);
    for (n, request) in waiting.into_iter().enumerate() {
        let given = server.respond(request, content(&"x".repeat(n * 5)));
        assert_eq!(given.kinds(), [(Type::Acknowledgement, Code::CONTENT)]);
        assert!(server.endpoint.occupancy().deduplication_bytes <= 2_048);
    }
    server.run_to_end();
}

#[test]
fn a_request_for_which_there_is_no_peer_when_it_must_be_acknowledged_is_refused_then() {
    for early in [true, false] {
        let mut server = Direct::with_limits(Limits { peers: 1, ..Limits::default() });
        let blocking = server.endpoint.request(server.now, 9, request(Code::GET, "/t")).expect("room");
        server.drain();
        let waiting = server.receive(1, &con(Code::POST, 5)).request();
        let given = if early {
            assert_eq!(server.endpoint.acknowledge(server.now, waiting), Err(RespondError::NotPending));
            server.drain()
        } else {
            server.run(ms(500))
        };
        let message = given.message();
        assert_eq!((message.header().ty, message.code()), (Type::Acknowledgement, Code::SERVICE_UNAVAILABLE));
        assert!(message.uint(OptionNumber::MAX_AGE).is_some());
        let refused = given.datagram().to_vec();
        assert_eq!(server.endpoint.respond(server.now, waiting, changed()), Err(RespondError::NotPending));
        server.endpoint.ignore(server.now, waiting);
        let copy = server.receive(1, &con(Code::POST, 5));
        assert_eq!((copy.datagram(), copy.events.len()), (&refused[..], 0), "a copy learns the same");
        assert!(server.endpoint.cancel(server.now, blocking));
        server.run_to_end();
        // Nothing leaked: the only peer place can be reused.
        let waiting = server.receive(1, &con(Code::POST, 6)).request();
        assert_eq!(server.run(s(1)).kinds(), [(Type::Acknowledgement, Code::EMPTY)]);
        let given = server.respond(waiting, changed());
        server.receive(1, &ack_of(given.message()));
        server.run_to_end();
    }
}

#[test]
fn peers_are_let_go_however_a_request_of_theirs_ends() {
    let mut server = Direct::with_limits(Limits { peers: 1, ..Limits::default() });
    for round in 0..8_u32 {
        let datagram = if round % 2 == 0 { con(Code::POST, 5) } else { non(Code::POST, 5) };
        let waiting = server.receive(round, &datagram).request();
        server.run(s(1));
        match round / 2 {
            0 => server.endpoint.ignore(server.now, waiting),
            1 => {
                let given = server.respond(waiting, changed());
                server.receive(round, &ack_of(given.message()));
            }
            2 => {
                let unreliable = conche_proto::Response { reliability: Some(Reliability::NonConfirmable), ..changed() };
                server.respond(waiting, unreliable);
            }
            _ => {
                let given = server.respond(waiting, changed());
                server.receive(round, &wire::reset(given.message().header().id));
            }
        }
        server.run_to_end();
    }
}
