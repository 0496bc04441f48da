//! Resets and Empty ACKs with all message IDs from an off-path attacker.

use std::time::Duration;

use conche_proto::codec::{Code, MessageId, Type};
use conche_proto::{EndpointConfig, Event, Failure, Input, Reliability};

use crate::model::Address;
use crate::support::world::by_name;
use crate::support::{CLIENT, Direct, SERVER, STRANGER, World, acknowledged_at, end_of, ms, request, s, wire};

fn spray(world: &mut World, from: Address, to: Address, first: u16, forge: fn(MessageId) -> Vec<u8>) {
    let now = world.now;
    for n in 0..=u16::MAX {
        let bytes = forge(MessageId(first.wrapping_add(n)));
        world.node(to).endpoint.handle(now, Input::datagram(from, &bytes)).expect("room");
    }
    world.settle(to);
}

fn asking(seed: u64) -> (World, conche_proto::ExchangeId) {
    let mut world = World::empty();
    world.add(CLIENT, EndpointConfig::default(), by_name("default"), seed);
    let asked = world.request(request(Code::GET, "/test"));
    (world, asked)
}

#[test]
fn forged_resets_end_no_request_and_genuine_responses_complete_all() {
    for trial in 0..20 {
        let (mut world, asked) = asking(trial);
        spray(&mut world, SERVER, CLIENT, (trial as u16).wrapping_mul(40_503), wire::reset);
        assert_eq!(end_of(world.events(CLIENT), asked), None, "trial {trial}: a forged Reset was believed");
        let sent = world.first_copy(asked);
        if trial % 2 == 0 {
            world.inject(SERVER, CLIENT, &wire::piggybacked(&sent.bytes, Code::CONTENT));
        } else {
            world.inject(SERVER, CLIENT, &wire::empty_ack(sent.message().header().id));
            world.run(s(5));
            world.inject(SERVER, CLIENT, &wire::separate(&sent.bytes, Type::Confirmable, Code::CONTENT, 9));
        }
        world.run_to_end();
        let (_, end) = end_of(world.events(CLIENT), asked).expect("it ends");
        assert!(end.is_ok(), "trial {trial}: {end:?}");
    }
}

#[test]
fn twenty_requests_of_one_client_survive_a_spray_of_resets_each() {
    let (mut world, mut asked) = asking(99);
    for round in 0..20_u16 {
        spray(&mut world, SERVER, CLIENT, round.wrapping_mul(3_301), wire::reset);
        assert_eq!(end_of(world.events(CLIENT), asked), None, "round {round}");
        let sent = world.first_copy(asked);
        world.inject(SERVER, CLIENT, &wire::piggybacked(&sent.bytes, Code::CONTENT));
        assert!(end_of(world.events(CLIENT), asked).is_some_and(|(_, end)| end.is_ok()), "round {round}");
        asked = world.request(request(Code::GET, "/test"));
    }
}

#[test]
fn trust_returns_to_a_peer_that_stays_in_use() {
    for honest in [wire::reset, wire::empty_ack] {
        let (mut world, mut asked) = asking(7);
        let first = world.first_copy(asked).message().header().id.0.wrapping_add(1);
        spray(&mut world, SERVER, CLIENT, first, wire::reset);
        for _ in 0..20 {
            world.run(Duration::from_secs(10));
            let sent = world.first_copy(asked);
            world.inject(SERVER, CLIENT, &wire::separate(&sent.bytes, Type::NonConfirmable, Code::CONTENT, 9));
            assert!(end_of(world.events(CLIENT), asked).is_some_and(|(_, end)| end.is_ok()));
            asked = world.request(request(Code::GET, "/test"));
        }
        let id = world.first_copy(asked).message().header().id;
        world.inject(SERVER, CLIENT, &honest(id));
        let believed = match end_of(world.events(CLIENT), asked) {
            Some((_, end)) => end.is_err_and(|reason| reason == Failure::Reset),
            None => acknowledged_at(world.events(CLIENT), asked) == Some(world.now),
        };
        assert!(believed, "200 s after the last guess");
    }
}

#[test]
fn an_empty_ack_that_was_not_believed_does_not_keep_out_a_response_after_100_seconds() {
    let (mut world, asked) = asking(8);
    let sent = world.first_copy(asked);
    let first = sent.message().header().id.0.wrapping_add(1);
    spray(&mut world, SERVER, CLIENT, first, wire::empty_ack);
    assert_eq!(acknowledged_at(world.events(CLIENT), asked), None);
    world.run(s(100));
    assert_eq!(world.departures(asked).len(), 5, "retransmission went on");
    assert_eq!(end_of(world.events(CLIENT), asked), None, "somebody said that the request had arrived");
    world.inject(SERVER, CLIENT, &wire::separate(&sent.bytes, Type::Confirmable, Code::CONTENT, 9));
    assert!(end_of(world.events(CLIENT), asked).is_some_and(|(_, end)| end.is_ok()));
    world.run_to_end();
}

/// Returns the message ID of the response to a Non-confirmable GET of another host.
fn answered_non() -> (World, MessageId) {
    let mut world = World::server();
    world.inject(STRANGER, SERVER, &wire::request(Type::NonConfirmable, Code::GET, 5, b"tok", "/test"));
    let response = world.sent[0].message();
    assert_eq!((response.header().ty, response.code()), (Type::NonConfirmable, Code::CONTENT));
    (world, response.header().id)
}

fn rejected(world: &World) -> usize {
    let is_rejection = |event: &Event<Address>| match event {
        Event::Rejected { from, token } => {
            assert_eq!((*from, token.as_slice()), (STRANGER, &b"tok"[..]));
            true
        }
        _ => false,
    };
    world.events(SERVER).iter().filter(|(_, event)| is_rejection(event)).count()
}

// RFC 7252 §4.3 (Q21)
#[test]
fn a_reset_of_a_non_confirmable_response_is_reported_once_with_its_token() {
    let (mut world, id) = answered_non();
    world.inject(CLIENT, SERVER, &wire::reset(id));
    world.inject(STRANGER, SERVER, &wire::reset(MessageId(id.0 ^ 1)));
    assert_eq!(rejected(&world), 0, "of somebody else, and of something else");
    for _ in 0..3 {
        world.inject(STRANGER, SERVER, &wire::reset(id));
    }
    assert_eq!(rejected(&world), 1);
    world.run_to_end();
}

#[test]
fn a_spray_of_all_resets_rejects_no_non_confirmable_response() {
    for start in [1, 20_000, 50_000] {
        let (mut world, id) = answered_non();
        spray(&mut world, STRANGER, SERVER, id.0.wrapping_add(start), wire::reset);
        assert_eq!(rejected(&world), 0, "a forged Reset was believed");
    }
}

#[test]
fn a_reset_to_a_confirmable_response_ends_it() {
    let mut world = World::server();
    world.inject(STRANGER, SERVER, &wire::request(Type::Confirmable, Code::GET, 5, b"tok", "/separate"));
    world.run(s(6));
    let response = world.sent.last().expect("the response left");
    let (id, exchange) = (response.message().header().id, response.exchange.expect("an exchange").0);
    world.inject(STRANGER, SERVER, &wire::reset(id));
    assert_eq!(end_of(world.events(SERVER), exchange), Some((world.now, Err(Failure::Reset))));
    world.inject(STRANGER, SERVER, &wire::reset(id));
    let sent = world.sent.len();
    world.run_to_end();
    assert_eq!((world.sent.len(), rejected(&world)), (sent, 0), "no copy, no second end");
}

#[test]
fn a_reset_to_a_non_confirmable_request_ends_it() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test").with_reliability(Reliability::NeverConfirmable));
    let id = world.first_copy(asked).message().header().id;
    world.inject(SERVER, CLIENT, &wire::reset(id));
    assert_eq!(end_of(world.events(CLIENT), asked), Some((world.now, Err(Failure::Reset))));
}

// RFC 7252 §4.2
#[test]
fn a_peer_that_answers_each_reset_with_a_confirmable_response_gets_sixteen_resets_and_then_one_per_second() {
    let mut client = Direct::new(EndpointConfig::default());
    let (mut resets, mut id) = (0, 0_u16);
    for millisecond in 0..10_000 {
        client.run(ms(1));
        let given = client.receive(SERVER, &wire::bare(Type::Confirmable, Code::NOT_FOUND, id, b""));
        resets += given.sent.len();
        id += u16::from(!given.sent.is_empty());
        // Meanwhile, Resets to other senders of responses continue.
        if millisecond % 1_000 == 0 {
            let given = client.receive(STRANGER, &wire::bare(Type::Confirmable, Code::CONTENT, id, b"tok"));
            assert_eq!(given.kinds(), [(Type::Reset, Code::EMPTY)], "millisecond {millisecond}");
        }
    }
    assert!((16..=26).contains(&resets), "{resets} Resets in 10 s");
    let stats = client.endpoint.stats();
    assert_eq!(stats.resets_limited, 10_000 - resets as u64);
    assert_eq!(stats.resets_sent, resets as u64 + 10);
}

#[test]
fn pings_are_answered_however_many_resets_a_peer_had_for_its_responses() {
    let mut client = Direct::new(EndpointConfig::default());
    for id in 0..100 {
        client.receive(SERVER, &wire::bare(Type::Confirmable, Code::NOT_FOUND, id, b""));
    }
    for id in 100..200 {
        let given = client.receive(SERVER, &wire::bare(Type::Confirmable, Code::EMPTY, id, b""));
        assert_eq!(given.kinds(), [(Type::Reset, Code::EMPTY)]);
    }
}
