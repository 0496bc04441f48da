//! Sequence numbers: reserved, used once, and continued after restarts (RFC 8613 §7.2.1, appendix
//! B.1).

use conche_proto::codec::{Body, Code, OptionNumber};
use conche_proto::oscore::{Context, ProtectError, Start};
use conche_proto::{Endpoint, EndpointConfig, Event, Instant, Output, Request, RequestError};

use super::wire::Recorder;
use super::{CLIENT_ID, Pair, SERVER_ID, context, credentials};
use crate::support::world::{by_name, seed_of};
use crate::support::{CLIENT, SERVER, end_of, request};

#[test]
fn nothing_is_protected_before_a_number_is_stored() {
    let mut endpoint =
        Endpoint::<u32, _>::new(EndpointConfig::default(), by_name("default"), seed_of(1)).expect("legal");
    let id = endpoint.add_context(context(CLIENT_ID, SERVER_ID)).expect("the first one");
    let ask = |endpoint: &mut Endpoint<u32, _>| {
        endpoint.request(Instant::ZERO, 1, request(Code::GET, "/test").protected(id)).map(drop)
    };
    let refused = ask(&mut endpoint).expect_err("nothing is stored");
    assert_eq!(refused, RequestError::NotProtected(ProtectError::NotReserved));
    assert!(refused.is_busy());
    let Output::Event(Event::Reserve(reserve)) = endpoint.poll(Instant::ZERO, &mut [0; 2048]) else { panic!() };
    assert_eq!(reserve.context, id);
    endpoint.reserved(reserve);
    assert_eq!(ask(&mut endpoint), Ok(()));
}

#[test]
fn numbers_are_asked_for_before_they_are_used_up() {
    let mut pair = Pair::new();
    for _ in 0..600 {
        let asked = pair.world.request(pair.request(Code::GET, "/test"));
        pair.world.run_to_end();
        assert!(end_of(pair.world.events(CLIENT), asked).is_some_and(|(_, end)| end.is_ok()));
    }
    let reserves: Vec<_> = pair
        .world
        .events(CLIENT)
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Reserve(reserve) => Some(reserve.up_to),
            _ => None,
        })
        .collect();
    assert!(reserves.len() >= 3 && reserves.is_sorted(), "{reserves:?}");
}

/// RFC 8613 appendix B.1.2: a server that has lost its replay window.
#[test]
fn a_restarted_server_requires_an_echo_before_it_executes_requests() {
    let mut pair = Pair::new();
    let first = pair.world.request(pair.request(Code::POST, "/count"));
    pair.world.run_to_end();
    let replayed = pair.world.first_copy(first);
    let server = pair.server;
    let endpoint = &mut pair.world.node(SERVER).endpoint;
    let next = endpoint.remove_context(server).expect("it is there").next_number();
    let restarted = Context::derive(&credentials(SERVER_ID, CLIENT_ID), Start::Restarted { next }).expect("legal");
    endpoint.add_context(restarted).expect("the other one is gone");
    pair.world.settle(SERVER);
    pair.world.run(std::time::Duration::from_secs(300));
    pair.world.inject(CLIENT, SERVER, &replayed.bytes);
    assert_eq!(pair.world.app().calls["/count"], 1, "a replay ran");

    let asked = pair.world.request(pair.request(Code::POST, "/count"));
    pair.world.run_to_end();
    let (_, challenge) = end_of(pair.world.events(CLIENT), asked).expect("it ended");
    let challenge = challenge.expect("a response").clone();
    assert_eq!(challenge.code(), Code::UNAUTHORIZED);
    assert_eq!(pair.world.app().calls["/count"], 1);
    let echo = challenge.option(OptionNumber::ECHO).expect("it says how to go on");
    let body = Body::builder().path("/count").option(OptionNumber::ECHO, echo).build().expect("legal");
    let again = pair.world.request(Request::new(Code::POST, body).protected(pair.client));
    pair.world.run_to_end();
    let (_, end) = end_of(pair.world.events(CLIENT), again).expect("it ended");
    assert_eq!(end.expect("a response").code(), Code::CHANGED);
    assert_eq!(pair.world.app().calls["/count"], 2);
    let messages: Vec<_> = pair.world.sent.iter().map(|sent| (sent.from, sent.message())).collect();
    Recorder::of(messages.iter().map(|(from, message)| (*from, message)));
}
