//! Slots and table entries are freed for every end of an exchange.

use conche_proto::codec::{Code, Type};
use conche_proto::{EndpointConfig, Event, ExchangeId, Failure, Reliability};

use crate::support::direct::{con, content, non};
use crate::support::world::World;
use crate::support::{CLIENT, Direct, SERVER, end_of, ms, request, s, wire};

type Ending = fn(&mut World, ExchangeId);

const ENDINGS: &[(&str, Ending)] = &[
    ("cancelled", |world, id| assert!(world.cancel(id))),
    ("reset", |world, id| {
        let reset = wire::reset(world.first_copy(id).message().header().id);
        world.inject(SERVER, CLIENT, &reset);
    }),
    ("unreachable", |world, _| world.unreachable(SERVER, None)),
    ("unreachable, quoted", |world, id| {
        let quoted = world.first_copy(id).bytes;
        world.unreachable(SERVER, Some(&quoted));
    }),
    ("given up", |world, _| world.run(s(94))),
    ("acknowledged and forgotten", |world, id| {
        let ack = wire::empty_ack(world.first_copy(id).message().header().id);
        world.inject(SERVER, CLIENT, &ack);
        world.run(s(248));
    }),
    ("unacceptable response", |world, id| {
        let sent = world.first_copy(id).message();
        let (id, token) = (sent.header().id.0, sent.token());
        let options: &[(u16, &[u8])] = &[(65_001, b"")];
        let response = wire::with_options(Type::Acknowledgement, Code::CONTENT, id, token.as_slice(), options, b"");
        world.inject(SERVER, CLIENT, &response);
    }),
    ("separate response", |world, id| {
        let response = wire::separate(&world.first_copy(id).bytes, Type::NonConfirmable, Code::CONTENT, 1);
        world.inject(SERVER, CLIENT, &response);
    }),
];

#[test]
fn however_an_exchange_ends_the_next_one_leaves() {
    for (name, ending) in ENDINGS {
        let mut world = World::client();
        for n in 0..300 {
            let asked = world.request(request(Code::GET, "/test"));
            assert_eq!(world.departures(asked).len(), 1, "{name}, round {n}: the slot was leaked");
            ending(&mut world, asked);
            let occupancy = world.node(CLIENT).endpoint.occupancy();
            assert_eq!((occupancy.exchanges, occupancy.timers), (0, 0), "{name}, round {n}");
            // Drop old events and datagrams, which slow lookups.
            world.sent.clear();
            world.node(CLIENT).events.clear();
        }
    }
}

#[test]
fn deadlines_and_queue_expiries_free_all_state_of_the_request() {
    let mut world = World::client();
    for _ in 0..200 {
        let sent = world.request(request(Code::GET, "/test").with_timeout(ms(1_500)));
        let queued = world.request(request(Code::GET, "/test").with_timeout(ms(1_000)));
        world.run(s(1));
        assert!(end_of(world.events(CLIENT), queued).is_some() && end_of(world.events(CLIENT), sent).is_none());
        world.run(ms(500));
        assert!(end_of(world.events(CLIENT), sent).is_some());
    }
    let first = world.request(request(Code::GET, "/test"));
    let expires = world.request(request(Code::GET, "/test"));
    world.run(s(60));
    let failed = world.events(CLIENT).iter().filter(|(_, event)| matches!(event, Event::Failed { .. })).count();
    assert_eq!(failed, 400 + usize::from(end_of(world.events(CLIENT), first).is_some()) + 1);
    assert!(world.departures(expires).is_empty(), "what expired in the queue never left");
    world.run_to_end();
}

#[test]
fn a_non_confirmable_request_without_an_answer_holds_nothing_for_long() {
    let mut world = World::client();
    for _ in 0..100 {
        let get = request(Code::GET, "/test").with_reliability(Reliability::NonConfirmable);
        world.request(get);
        world.run(s(300));
        let occupancy = world.node(CLIENT).endpoint.occupancy();
        assert_eq!((occupancy.exchanges, occupancy.timers), (0, 0));
    }
}

#[test]
fn pings_end_by_reset_and_by_silence() {
    let mut world = World::pair();
    let answered = world.ping(SERVER);
    let unanswered = world.ping(99);
    world.run_to_end();
    assert!(crate::support::acknowledged_at(world.events(CLIENT), answered).is_some());
    assert!(end_of(world.events(CLIENT), unanswered).is_some_and(|(_, end)| end.is_err()));
}

#[test]
fn a_hundred_thousand_peers_that_come_and_are_lost_leave_no_state() {
    let mut server = Direct::new(EndpointConfig::default());
    for peer in 0..100_000_u32 {
        let asked = server.receive(peer, &non(Code::GET, 1)).request();
        server.respond(asked, content("x"));
        assert_eq!(server.endpoint.occupancy().peers, 1);
        server.endpoint.lose_peer(server.now, &peer);
        assert_eq!(server.endpoint.occupancy().peers, 0, "peer {peer}");
    }
}

#[test]
fn a_lost_peer_is_forgotten_when_nothing_waits_for_it_any_more() {
    let mut server = Direct::new(EndpointConfig::default());
    let asked = server.receive(1_u32, &non(Code::GET, 1)).request();
    let separately = server.receive(1, &con(Code::GET, 2)).request();
    let ours = server.endpoint.request(server.now, 1, request(Code::GET, "/test")).expect("room");
    server.run(s(1));
    server.endpoint.lose_peer(server.now, &1);
    let told = server.drain().events;
    let unreachable = |event: &Event<u32>| matches!(event, Event::Failed { exchange, reason: Failure::Unreachable, .. } if *exchange == ours);
    assert!(told.iter().any(unreachable), "{told:?}");
    assert_eq!(server.endpoint.occupancy().peers, 1, "two responses are still to come");
    server.respond(asked, content("non"));
    server.respond(separately, content("separately"));
    assert_eq!(server.endpoint.occupancy().peers, 1, "one of them is to be acknowledged");
    server.endpoint.lose_peer(server.now, &1);
    server.drain();
    let left = server.endpoint.occupancy();
    assert_eq!((left.peers, left.exchanges, left.incoming), (0, 0, 0));
}

#[test]
fn requests_of_a_lost_peer_stay_deduplicated_and_a_returning_one_is_kept() {
    let mut server = Direct::new(EndpointConfig::default());
    let asked = server.receive(1_u32, &non(Code::POST, 1)).request();
    server.endpoint.lose_peer(server.now, &1);
    // It sends another request before the first one is answered.
    let again = server.receive(1, &non(Code::GET, 2)).request();
    server.respond(asked, content("first"));
    server.respond(again, content("second"));
    assert_eq!(server.endpoint.occupancy().peers, 1);
    server.endpoint.lose_peer(server.now, &1);
    server.drain();
    assert_eq!(server.endpoint.occupancy().peers, 0);
    assert!(server.receive(1, &non(Code::POST, 1)).requests().is_empty(), "a copy");
}
