//! Key renewal if neither end stores anything (RFC 8613 appendix B.2).

use conche_proto::codec::{Code, OwnedMessage, Type};
use conche_proto::oscore::{Context, ContextId, Start};
use conche_proto::{EndpointConfig, Event, ExchangeId, Failure, Request, TransmissionParameters};

use super::{CLIENT_ID, SERVER_ID, credentials};
use crate::support::world::{by_name, lossy_link};
use crate::support::{CLIENT, SERVER, World, end_of, ms, request, wire};

fn forgetful(seed: u64) -> (World, ContextId, ContextId) {
    forgetful_in(World::pair_of(&EndpointConfig::default(), &by_name("default"), seed))
}

fn forgetful_in(mut world: World) -> (World, ContextId, ContextId) {
    let mut add = |address, sender: &[u8], recipient: &[u8]| {
        let context = Context::derive(&credentials(sender, recipient), Start::Anew).expect("legal credentials");
        world.node(address).endpoint.add_context(context).expect("the first one")
    };
    let (client, server) = (add(CLIENT, CLIENT_ID, SERVER_ID), add(SERVER, SERVER_ID, CLIENT_ID));
    (world, client, server)
}

fn get(context: ContextId) -> Request {
    request(Code::GET, "/test").protected(context)
}

// RFC 8613 appendix B.2
#[test]
fn the_first_request_takes_a_round_trip_more_and_the_application_sees_it_once() {
    let (mut world, client, server) = forgetful(7);
    for sent in [4, 6] {
        let asked = world.request(get(client));
        world.run_to_end();
        let (_, response) = end_of(world.events(CLIENT), asked).expect("it ended");
        assert_eq!(response.expect("a response").payload(), b"hello");
        assert_eq!(world.sent.len(), sent);
    }
    let is_request = |event: &&(_, Event<_>)| matches!(event.1, Event::Request { .. });
    assert_eq!(world.events(SERVER).iter().filter(is_request).count(), 2);
    assert!(world.events(SERVER).iter().all(|(_, event)| !matches!(event, Event::Reserve(_))), "nothing is stored");
    let context = |world: &mut World, address, id| {
        world.node(address).endpoint.context(id).and_then(|context| context.id_context().map(<[u8]>::to_vec))
    };
    assert_eq!(context(&mut world, CLIENT, client), context(&mut world, SERVER, server));
}

// RFC 8613 appendix B.2
#[test]
fn requests_go_on_when_the_server_has_lost_its_keys() {
    let (mut world, client, mut server) = forgetful(7);
    for _ in 0..3 {
        let asked = world.request(get(client));
        world.run_to_end();
        let (_, response) = end_of(world.events(CLIENT), asked).expect("it ended");
        assert_eq!(response.expect("a response").payload(), b"hello");
        // The server restarts.
        world.node(SERVER).endpoint.remove_context(server).expect("it is there");
        let context = Context::derive(&credentials(SERVER_ID, CLIENT_ID), Start::Anew).expect("legal credentials");
        let again = world.node(SERVER).endpoint.add_context(context).expect("there is no other");
        assert_ne!(again, server);
        server = again;
    }
}

// RFC 8613 appendix B.2
#[test]
fn a_server_that_never_has_the_keys_is_asked_four_times_at_most() {
    let (mut world, client, server) = forgetful(7);
    world.node(SERVER).endpoint.remove_context(server).expect("it is there");
    let other = Context::derive(&credentials(SERVER_ID, b"other"), Start::Anew).expect("legal credentials");
    world.node(SERVER).endpoint.add_context(other).expect("there is no other");
    let asked = world.request(get(client));
    world.run_to_end();
    let (_, response) = end_of(world.events(CLIENT), asked).expect("it ended");
    assert!(response.is_err());
    assert_eq!(world.sent.len(), 8);
}

fn denied(world: &mut World, request: Request) -> ExchangeId {
    world.link = Box::new(|sent| if sent.from == SERVER { vec![] } else { vec![ms(10)] });
    let asked = world.request(request);
    world.run(ms(100));
    let token = world.first_copy(asked).message().token();
    world.link = Box::new(|_| vec![ms(10)]);
    world.inject(SERVER, CLIENT, &wire::bare(Type::NonConfirmable, Code::UNAUTHORIZED, 7_000, token.as_slice()));
    asked
}

/// An attacker on the path lets a request through, holds its response back, and claims that the
/// keys are lost.
#[test]
fn an_unauthenticated_error_does_not_repeat_a_possibly_executed_request() {
    let (mut world, client, _) = forgetful(7);
    let post = || request(Code::POST, "/count").protected(client);
    let end = |world: &mut World, asked| {
        world.run_to_end();
        let (_, end) = end_of(world.events(CLIENT), asked).expect("it ended");
        (end.map(OwnedMessage::code), world.app().calls["/count"])
    };
    // The first request is repeated once, with the offered keys.
    let first = world.request(post());
    assert_eq!(end(&mut world, first), (Ok(Code::CHANGED), 1));
    let asked = denied(&mut world, post());
    assert_eq!(end(&mut world, asked), (Err(Failure::NotAuthenticated(Code::UNAUTHORIZED)), 2));
    // Later requests use other keys; only requests that may be executed twice are repeated.
    let next = world.request(post());
    assert_eq!(end(&mut world, next), (Ok(Code::CHANGED), 3));
    let asked = denied(&mut world, get(client));
    world.run_to_end();
    let (_, response) = end_of(world.events(CLIENT), asked).expect("it ended");
    assert_eq!(response.expect("a response").payload(), b"hello");
}

#[test]
fn a_request_that_was_executed_under_way_to_other_keys_fails_and_is_not_repeated() {
    let transmission = TransmissionParameters { nstart: 2, ..TransmissionParameters::default() };
    let config = EndpointConfig { transmission, ..EndpointConfig::default() };
    let (mut world, client, _) = forgetful_in(World::pair_of(&config, &by_name("cocoa"), 7));
    let agreed = world.request(get(client));
    world.run_to_end();
    assert!(end_of(world.events(CLIENT), agreed).is_some_and(|(_, end)| end.is_ok()));
    // It is executed, and its response is late.
    world.link = Box::new(|sent| if sent.from == SERVER { vec![ms(1_000)] } else { vec![ms(10)] });
    let post = world.request(request(Code::POST, "/count").protected(client));
    world.run(ms(100));
    let other = denied(&mut world, get(client));
    world.run_to_end();
    assert!(end_of(world.events(CLIENT), other).is_some_and(|(_, end)| end.is_ok()));
    let (_, end) = end_of(world.events(CLIENT), post).expect("it ended");
    assert_eq!(end.err(), Some(Failure::NotAuthenticated(Code::UNAUTHORIZED)));
    assert_eq!(world.app().calls["/count"], 1);
}

#[test]
fn all_of_several_requests_at_once_are_answered_over_links_that_lose_and_disorder() {
    for seed in 0..100 {
        let (mut world, client, _) = forgetful(seed);
        world.link = lossy_link(seed, 10, 10, 200);
        let asked: Vec<_> = (0..4).map(|_| world.request(get(client))).collect();
        world.run_to_end();
        for asked in asked {
            let (_, response) = end_of(world.events(CLIENT), asked).expect("it ended");
            assert_eq!(response.expect("a response").payload(), b"hello", "seed {seed}");
        }
    }
}
