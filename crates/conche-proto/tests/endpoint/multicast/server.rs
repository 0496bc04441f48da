//! A group member: Non-confirmable requests, and responses after a leisure.

use std::time::Duration;

use conche_proto::codec::{Body, Code, Type};
use conche_proto::{Datagram, EndpointConfig, Instant, Limits, Multicast, RequestId, Response, ResponseLimit};

use crate::support::direct::{Given, changed, con, content, non};
use crate::support::statistics::uniform_ks_p;
use crate::support::{Direct, s, wire};

fn config() -> EndpointConfig {
    EndpointConfig { multicast: Some(Multicast::default()), ..EndpointConfig::default() }
}

fn member() -> Direct {
    Direct::new(config())
}

fn to_group(server: &mut Direct, from: u32, bytes: &[u8]) -> Given {
    let mut datagram = Datagram::new(from, bytes);
    datagram.multicast = true;
    server.receive_datagram(datagram)
}

fn ask(server: &mut Direct, from: u32, id: u16) -> RequestId {
    let given = to_group(server, from, &non(Code::GET, id));
    assert!(given.sent.is_empty(), "{given:?}");
    given.request()
}

/// Returns the times of the messages sent within two leisure periods.
fn answered(server: &mut Direct, request: RequestId, response: Response) -> Vec<Instant> {
    assert!(server.respond(request, response).sent.is_empty(), "nobody answers a group at once");
    departures(server, s(10))
}

fn departures(server: &mut Direct, span: Duration) -> Vec<Instant> {
    let (until, mut times) = (server.now + span, Vec::new());
    while let Some(wake) = server.wake.filter(|&wake| wake <= until) {
        server.now = wake;
        times.extend(server.drain().sent.iter().map(|_| wake));
    }
    server.now = until;
    times
}

fn no_response(ty: Type, id: u16, value: &[u8]) -> Vec<u8> {
    wire::with_options(ty, Code::GET, id, b"t", &[(258, value)], b"")
}

// RFC 7252 §8.2 (Q88)
#[test]
fn a_thousand_members_answer_uniformly_over_the_leisure() {
    let samples: Vec<f64> = (0..1_000_u64)
        .map(|n| {
            let mut server = Direct::seeded(config(), n);
            let request = ask(&mut server, 1, 7);
            let times = answered(&mut server, request, content("here"));
            let [at] = times[..] else { panic!("one response each: {times:?}") };
            (at - Instant::ZERO).as_secs_f64() / 5.0
        })
        .collect();
    assert!(samples.iter().all(|sample| (0.0..1.0).contains(sample)));
    let p = uniform_ks_p(samples);
    assert!(p > 0.01, "Kolmogorov-Smirnov: p = {p}");
}

// RFC 7252 §8 (Q82)
#[test]
fn a_response_is_non_confirmable_with_the_token_of_the_request_and_from_no_group_address() {
    let mut server = member();
    let bytes = non(Code::GET, 7);
    let mut datagram = Datagram::new(1, &bytes);
    (datagram.multicast, datagram.local) = (true, Some("224.0.1.187".parse().expect("an address")));
    let given = server.receive_datagram(datagram);
    let request = given.request();
    assert!(server.endpoint.is_group_request(request));
    server.respond(request, content("here"));
    assert!(!server.endpoint.is_group_request(request), "it is answered");
    let given = server.run(s(5));
    let response = given.message();
    assert_eq!((response.header().ty, response.code()), (Type::NonConfirmable, Code::CONTENT));
    assert_eq!((response.token().as_slice(), response.payload()), (&b"token678"[..], &b"here"[..]));
    assert_eq!((given.sent[0].0.to, given.sent[0].0.local), (1, None));
    assert!(server.run_to_end().sent.is_empty());
    assert_eq!(server.endpoint.occupancy().at_leisure, 0);
}

// RFC 7252 §8.1 (Q85)
#[test]
fn multicast_other_than_a_non_request_is_dropped_without_a_reset() {
    let mut server = member();
    let datagrams = [
        con(Code::GET, 1),
        wire::bare(Type::Confirmable, Code::EMPTY, 2, &[]),
        wire::bare(Type::NonConfirmable, Code::EMPTY, 3, &[]),
        wire::bare(Type::NonConfirmable, Code::CONTENT, 4, b"t"),
        wire::bare(Type::Confirmable, Code::CONTENT, 5, b"t"),
        wire::bare(Type::Acknowledgement, Code::CONTENT, 6, b"t"),
        vec![0x4f, 1, 0, 4],
        vec![],
    ];
    for bytes in &datagrams {
        let given = to_group(&mut server, 1, bytes);
        assert!(given.sent.is_empty() && given.events.is_empty(), "{bytes:02x?}: {given:?}");
    }
    assert_eq!(server.endpoint.stats().multicast, 8);
    let bad_option = wire::with_options(Type::NonConfirmable, Code::GET, 8, b"t", &[(65_001, b"")], b"");
    let block = wire::with_options(Type::NonConfirmable, Code::PUT, 9, b"t", &[(27, &[0x08])], &[0; 16]);
    let later_block = wire::with_options(Type::NonConfirmable, Code::GET, 10, b"t", &[(23, &[0x10])], b"");
    for bytes in [bad_option, block, later_block] {
        let given = to_group(&mut server, 1, &bytes);
        assert!(given.sent.is_empty() && given.events.is_empty(), "{bytes:02x?}: {given:?}");
    }
    assert!(server.run_to_end().sent.is_empty());
    assert_eq!(server.endpoint.stats().resets_sent, 0);
}

#[test]
fn a_group_is_served_only_if_configured() {
    let mut server = Direct::new(EndpointConfig::default());
    let given = to_group(&mut server, 1, &non(Code::GET, 1));
    assert!(given.sent.is_empty() && given.events.is_empty());
    assert_eq!((server.endpoint.stats().multicast, server.endpoint.occupancy().peers), (1, 0));
}

// RFC 7252 §8.2 (Q87)
#[test]
fn errors_and_responses_without_a_payload_are_suppressed_unless_the_application_insists() {
    let empty = || Response::new(Code::CONTENT, Body::EMPTY);
    let error = || Response::new(Code::NOT_FOUND, wire::payload("no such resource"));
    let failure = || Response::new(Code::INTERNAL_SERVER_ERROR, Body::EMPTY);
    for (id, response) in (0..).zip([empty(), changed(), error(), failure()]) {
        let mut server = member();
        let request = ask(&mut server, 1, id);
        assert_eq!(answered(&mut server, request, response.clone()), [], "{response:?}");
        let request = ask(&mut server, 1, id + 100);
        assert_eq!(answered(&mut server, request, response.clone().even_to_group()).len(), 1, "{response:?}");
        assert!(server.run_to_end().sent.is_empty());
    }
}

// RFC 7967 §2.1
#[test]
fn no_response_suppresses_only_the_named_response_classes() {
    let error = || Response::new(Code::NOT_FOUND, Body::EMPTY);
    let cases: [(&[u8], Response, usize); 6] = [
        (&[], error(), 1),
        (&[], changed(), 1),
        (&[8], error(), 0),
        (&[8], content("here"), 1),
        (&[2], content("here"), 0),
        (&[26], content("here").even_to_group(), 0),
    ];
    for (value, response, sent) in cases {
        let mut server = member();
        let request = to_group(&mut server, 1, &no_response(Type::NonConfirmable, 1, value)).request();
        assert_eq!(answered(&mut server, request, response.clone()).len(), sent, "{value:?} {response:?}");
    }
}

// RFC 7252 §8.2 (Q88)
#[test]
fn no_leisure_begins_before_the_one_before_is_over() {
    let mut server = Direct::new(EndpointConfig { multicast: Some(Multicast::with_leisure(s(2))), ..config() });
    let requests: Vec<_> = (0..6).map(|n| ask(&mut server, u32::from(n), n)).collect();
    for request in requests {
        assert!(server.respond(request, content("here")).sent.is_empty());
    }
    let times = departures(&mut server, s(60));
    assert_eq!(times.len(), 6);
    for (n, at) in (0..).zip(times) {
        let period = Instant::ZERO + s(2) * n;
        assert!((period..period + s(2)).contains(&at), "response {n} left at {at:?}");
    }
}

#[test]
fn a_copy_of_a_request_to_a_group_is_no_second_request() {
    let mut server = member();
    let request = ask(&mut server, 1, 7);
    let copy = to_group(&mut server, 1, &non(Code::GET, 7));
    assert!(copy.events.is_empty() && copy.sent.is_empty());
    assert_eq!(answered(&mut server, request, content("here")).len(), 1);
    let copy = to_group(&mut server, 1, &non(Code::GET, 7));
    assert!(copy.events.is_empty() && server.run(s(10)).sent.is_empty(), "nor is it answered again");
    assert_eq!(server.endpoint.stats().duplicates, 2);
}

#[test]
fn requests_waiting_for_leisure_are_bounded_and_shared_among_sources() {
    let mut server =
        Direct::new(EndpointConfig { limits: Limits { group_requests: 8, ..Limits::default() }, ..config() });
    let mut asked = |from: u32, ids: std::ops::Range<u16>| -> Vec<RequestId> {
        ids.flat_map(|id| to_group(&mut server, from, &non(Code::GET, id)).requests()).collect()
    };
    let greedy = asked(1, 0..20);
    assert_eq!((greedy.len(), asked(2, 0..20).len()), (4, 2), "half, and half of the rest");
    assert_eq!(server.endpoint.stats().no_leisure, 16 + 18);
    // Answered, suppressed and ignored requests have freed their places.
    let [first, second, third, fourth] = greedy[..] else { panic!("four") };
    server.respond(first, content("here"));
    server.respond(second, Response::new(Code::NOT_FOUND, Body::EMPTY));
    server.endpoint.ignore(server.now, third);
    server.respond(fourth, content("here"));
    assert_eq!(departures(&mut server, s(10)).len(), 2);
    let again = (100..120).flat_map(|id| to_group(&mut server, 1, &non(Code::GET, id)).requests()).count();
    assert_eq!(again, 3, "of the six that the other source leaves");
}

#[test]
fn requests_to_a_group_count_in_the_response_limit() {
    let response_limit = Some(ResponseLimit { per_second: 1, burst: 2 });
    let mut server = Direct::new(EndpointConfig { response_limit, ..config() });
    let taken = (0..5).filter(|&id| !to_group(&mut server, 1, &non(Code::GET, id)).events.is_empty()).count();
    assert_eq!((taken, server.endpoint.stats().limited), (2, 3));
}

#[test]
fn a_group_request_cannot_observe() {
    let mut server = member();
    let register = wire::with_options(Type::NonConfirmable, Code::GET, 1, b"t", &[(6, b"")], b"");
    let request = to_group(&mut server, 1, &register).request();
    assert_eq!(server.endpoint.observe(server.now, request, 1), None);
}

#[test]
fn a_body_that_is_too_large_for_a_message_begins_with_its_first_block() {
    let mut server = member();
    let request = ask(&mut server, 1, 1);
    let body = Body::builder().payload(vec![b'x'; 3_000]).build().expect("no options");
    server.respond(request, Response::new(Code::CONTENT, body));
    let given = server.run(s(5));
    assert_eq!(given.message().payload().len(), 1_024);
    let rest = wire::with_options(Type::Confirmable, Code::GET, 2, b"u", &[(23, &[0x16])], b"");
    let given = server.receive(1, &rest);
    assert_eq!((given.message().code(), given.message().payload().len()), (Code::CONTENT, 1_024));
}
