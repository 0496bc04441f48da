//! Requests and responses of all kinds, over a link that loses, duplicates and reorders.

use conche_proto::codec::{Body, Code, OptionNumber};
use conche_proto::{EndpointConfig, Event, Failure, Request, RequestError};

use super::wire::{Recorder, assert_opaque};
use super::{CLIENT_ID, Pair, SERVER_ID, context};
use crate::support::fixture::body;
use crate::support::world::{by_name, lossy_link};
use crate::support::{CLIENT, SERVER, World, end_of, ms, request};

const SECRETS: [&[u8]; 8] = [b"test", b"count", b"separate", b"large", b"hello", b"late", b"nope", b"update"];

/// Returns the record of protected messages.
fn check(pair: &Pair) -> Recorder {
    let messages: Vec<_> = pair.world.sent.iter().map(|sent| (sent.from, sent.message())).collect();
    for (sent, (_, message)) in pair.world.sent.iter().zip(&messages) {
        assert_opaque(message, &sent.bytes, &SECRETS);
    }
    Recorder::of(messages.iter().map(|(from, message)| (*from, message)))
}

#[test]
fn a_request_and_its_response_are_read_by_their_ends_only() {
    let mut pair = Pair::new();
    let asked = pair.world.request(pair.request(Code::GET, "/test"));
    pair.world.run_to_end();
    let (_, response) = end_of(pair.world.events(CLIENT), asked).expect("it ended");
    let response = response.expect("a response");
    assert_eq!((response.code(), response.payload()), (Code::CONTENT, &b"hello"[..]));
    let server = pair.server;
    let request = pair.world.events(SERVER).iter().find_map(|(_, event)| match event {
        Event::Request { id, message, .. } => Some((*id, message.clone())),
        _ => None,
    });
    let (_, request) = request.expect("it was asked");
    assert_eq!((request.code(), request.uri_path().as_str()), (Code::GET, "/test"));
    assert_eq!(check(&pair).different(), 2);
    assert_eq!(
        pair.world
            .node(SERVER)
            .endpoint
            .context(server)
            .and_then(|context| context.window())
            .map(|window| window.end()),
        Some(1)
    );
}

#[test]
fn a_pending_request_exposes_its_security_context() {
    let mut pair = Pair::new();
    let server = pair.server;
    pair.world.node(SERVER).app = None;
    pair.world.request(pair.request(Code::GET, "/test"));
    pair.world.request(request(Code::GET, "/test"));
    pair.world.run(ms(100));
    let ids: Vec<_> = pair
        .world
        .events(SERVER)
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Request { id, .. } => Some(*id),
            _ => None,
        })
        .collect();
    // NSTART permits the second request after the response to the first.
    let [first] = ids[..] else { panic!("{ids:?}") };
    let endpoint = &mut pair.world.node(SERVER).endpoint;
    assert_eq!(endpoint.security(first), Some(server));
    assert_eq!(
        endpoint.context(server).map(|context| context.recipient_id().as_slice().to_vec()),
        Some(CLIENT_ID.to_vec())
    );
}

#[test]
fn every_request_ends_as_without_protection_over_a_link_that_loses_duplicates_and_reorders() {
    let kinds: [(Code, &str, &[u8]); 5] = [
        (Code::GET, "/test", b"hello"),
        (Code::GET, "/a/b", b"ab"),
        (Code::GET, "/separate", b"late"),
        (Code::POST, "/count", b""),
        (Code::GET, "/nope", b""),
    ];
    let (mut answered, mut repeated) = (0, 0);
    for seed in 0..24 {
        let mut pair = Pair::of(&EndpointConfig::default(), seed);
        pair.world.link = lossy_link(seed, 20, 20, 3_000);
        let mut asked = Vec::new();
        for turn in 0..15 {
            let (code, path, payload) = kinds[turn % kinds.len()];
            asked.push((pair.world.request(pair.request(code, path)), code, payload));
            pair.world.run(ms(700));
        }
        pair.world.run_to_end();
        for (id, code, payload) in asked {
            let (_, end) = end_of(pair.world.events(CLIENT), id).expect("every request ends");
            if let Ok(response) = end {
                assert_eq!(response.payload(), payload, "{code}");
                answered += 1;
            } else {
                // A duplicate that arrives after the original was forgotten is refused as a replay.
                assert!(matches!(end, Err(Failure::TimedOut | Failure::NoResponse | Failure::QueueExpired)), "{end:?}");
            }
        }
        let counts = pair.world.app().calls.get("/count").copied().unwrap_or_default();
        assert!(counts <= 3, "a POST ran twice");
        let recorder = check(&pair);
        repeated += recorder.messages - recorder.different();
    }
    assert!(answered > 200 && repeated > 200, "{answered} answered, {repeated} copies");
}

#[test]
fn bodies_go_in_inner_blocks_both_ways() {
    let large = body(64 * 1024, 3);
    for (seed, loss) in [(1, 0), (2, 10)] {
        let mut pair = Pair::of(&EndpointConfig::default(), seed);
        pair.world.link = lossy_link(seed, loss, loss, 20);
        let put = Body::builder().path("/large-update").payload(large.clone()).build().expect("legal options");
        let put = pair.world.request(Request::new(Code::PUT, put).protected(pair.client));
        pair.world.run_to_end();
        let get = pair.world.request(pair.request(Code::GET, "/large-update"));
        pair.world.run_to_end();
        let ends = [put, get]
            .map(|id| end_of(pair.world.events(CLIENT), id).expect("it ended").1.expect("a response").clone());
        assert_eq!(ends[0].code(), Code::CHANGED);
        assert_eq!(ends[1].payload(), large);
        assert_eq!(pair.world.app().large, large);
        assert!(check(&pair).different() >= 2 * 2 * 64, "each block is a message");
    }
}

#[test]
fn requests_are_plain_or_protected_side_by_side() {
    let mut pair = Pair::new();
    let ids =
        [pair.request(Code::GET, "/test"), request(Code::GET, "/test")].map(|request| pair.world.request(request));
    pair.world.run_to_end();
    for id in ids {
        let (_, end) = end_of(pair.world.events(CLIENT), id).expect("it ended");
        assert_eq!(end.expect("a response").payload(), b"hello");
    }
}

#[test]
fn errors_of_the_endpoint_itself_are_protected_as_well() {
    let mut pair = Pair::new();
    let unknown = Body::builder().path("/test").option(OptionNumber(65_001), b"?").build().expect("legal");
    let asked = pair.world.request(Request::new(Code::GET, unknown).protected(pair.client));
    pair.world.run_to_end();
    let (_, end) = end_of(pair.world.events(CLIENT), asked).expect("it ended");
    assert_eq!(end.expect("a response").code(), Code::BAD_OPTION);
    check(&pair);
}

#[test]
fn a_server_without_contexts_does_not_know_the_option() {
    let mut world = World::pair_of(&EndpointConfig::default(), &by_name("default"), 7);
    let client = world.node(CLIENT).endpoint.add_context(context(CLIENT_ID, SERVER_ID)).expect("the first one");
    world.settle(CLIENT);
    let asked = world.request(request(Code::GET, "/test").protected(client));
    world.run_to_end();
    let (_, end) = end_of(world.events(CLIENT), asked).expect("it ended");
    assert_eq!(end.err(), Some(Failure::NotAuthenticated(Code::BAD_OPTION)));
    assert!(world.app().calls.is_empty());
}

#[test]
fn a_request_to_a_group_cannot_be_protected() {
    let mut pair = Pair::new();
    let request = pair.request(Code::GET, "/test").with_reliability(conche_proto::Reliability::NonConfirmable);
    let now = pair.world.now;
    let asked = pair.world.node(CLIENT).endpoint.request_group(now, SERVER, request);
    assert_eq!(asked, Err(RequestError::ProtectedToGroup));
}
