//! Congestion control (RFC 7252 §4.7): NSTART, PROBING_RATE, the server's own limit.

use conche_proto::cc::any::ALL;
use conche_proto::codec::{Code, Type};
use conche_proto::{
    Endpoint, EndpointConfig, Event, Failure, Input, Instant, Output, Reliability, ResponseLimit,
    TransmissionParameters,
};

use crate::model::Address;
use crate::support::world::by_name;
use crate::support::{
    CLIENT, Fixture, SERVER, STRANGER, World, end_of, ms, request, request_with_payload, s, wire, with_transmission,
};

fn outstanding(world: &mut World, peer: Address, node: Address) -> u16 {
    world.node(node).endpoint.snapshot(&peer).map_or(0, |snapshot| snapshot.outstanding)
}

// RFC 7252 §4.7 (Q36)
#[test]
fn no_more_than_nstart_requests_are_outstanding() {
    for nstart in [1, 2, 4] {
        let transmission = TransmissionParameters { nstart, ..TransmissionParameters::default() };
        let mut world = World::pair_of(&with_transmission(transmission), &by_name("cocoa"), 36);
        let paths = ["/test", "/separate", "/nope"];
        let asked: Vec<_> = (0..24).map(|n| world.request(request(Code::GET, paths[n % 3]))).collect();
        let left = world.sent.len();
        assert_eq!(left, usize::from(nstart), "at first NSTART leave, each for its round trip");
        world.run_to_end();
        // The checker counts continuously.
        let ends: Vec<_> = asked.iter().map(|&id| end_of(world.events(CLIENT), id).expect("it ended")).collect();
        assert!(ends.iter().all(|(_, end)| end.is_ok()));
        for (n, &id) in asked.iter().enumerate().skip(usize::from(nstart)) {
            let begun_before = asked[..n].iter().filter(|&&before| {
                let (end, _) = end_of(world.events(CLIENT), before).expect("it ended");
                let acknowledged = crate::support::acknowledged_at(world.events(CLIENT), before).unwrap_or(end);
                acknowledged > world.departures(id)[0]
            });
            assert!(begun_before.count() < usize::from(nstart));
        }
    }
}

/// Of the client toward the server, or the reverse.
const OUTSTANDING: &[(&str, u16)] = &[
    ("a Confirmable request without an answer, as message and as request at once", 1),
    ("a request that was acknowledged and waits for its response", 0),
    ("a request whose response came before any acknowledgement", 0),
    ("a Non-confirmable request without a response, while one is expected", 1),
    ("a Non-confirmable request that was answered", 0),
    ("a Confirmable response that was not acknowledged", 1),
];

// RFC 7252 §4.7 (Q37)
#[test]
fn an_interaction_is_outstanding_until_its_acknowledgement_or_response() {
    for (case, &(name, expected)) in OUTSTANDING.iter().enumerate() {
        let mut world = World::client();
        let non = request(Code::GET, "/test").with_reliability(Reliability::NonConfirmable);
        let asked = match case {
            0..3 => world.request(request(Code::GET, "/test")),
            3..5 => world.request(non),
            _ => {
                let get = wire::request(Type::Confirmable, Code::GET, 8, &[1], "/separate");
                world.node(CLIENT).app = Some(Fixture::default());
                world.inject(SERVER, CLIENT, &get);
                world.run(s(6));
                assert_eq!(outstanding(&mut world, SERVER, CLIENT), expected, "{name}");
                continue;
            }
        };
        let sent = world.first_copy(asked).bytes;
        match case {
            1 => world.inject(SERVER, CLIENT, &wire::empty_ack(wire::decode(&sent).id())),
            2 => world.inject(SERVER, CLIENT, &wire::separate(&sent, Type::Confirmable, Code::CONTENT, 3)),
            4 => world.inject(SERVER, CLIENT, &wire::separate(&sent, Type::NonConfirmable, Code::CONTENT, 3)),
            _ => {}
        }
        assert_eq!(outstanding(&mut world, SERVER, CLIENT), expected, "{name}");
        let next = world.request(request(Code::GET, "/test"));
        assert_eq!(world.departures(next).len(), usize::from(1 - expected), "{name}: the next one");
    }
}

#[test]
fn a_non_confirmable_request_frees_its_slot_when_no_response_is_due_any_more_but_may_still_be_answered() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test").with_reliability(Reliability::NonConfirmable));
    world.run(s(3));
    assert_eq!(outstanding(&mut world, SERVER, CLIENT), 0);
    let late = wire::separate(&world.first_copy(asked).bytes, Type::NonConfirmable, Code::CONTENT, 3);
    world.run(s(100));
    world.inject(SERVER, CLIENT, &late);
    assert!(end_of(world.events(CLIENT), asked).is_some_and(|(_, end)| end.is_ok()));
}

/// Answered after 20 ms or never.
fn non_confirmable_requests(controller: &str, count: usize, answered: bool) -> Vec<Instant> {
    let mut world = World::pair_of(&EndpointConfig::default(), &by_name(controller), 37);
    if !answered {
        world.link = Box::new(|_| vec![]);
    }
    let never = || request(Code::GET, "/test").with_reliability(Reliability::NeverConfirmable);
    let asked: Vec<_> = (0..count).map(|_| world.request(never())).collect();
    world.run(s(60));
    asked.into_iter().flat_map(|id| world.departures(id)).collect()
}

// RFC 7252 §4.7 (Q37)
#[test]
fn a_non_confirmable_request_leaves_as_soon_as_the_one_before_is_answered() {
    for named in ALL {
        let departures = non_confirmable_requests(named.name(), 16, true);
        assert_eq!(departures.len(), 16, "{}", named.name());
        let span = departures[15] - departures[0];
        assert!(span < s(2), "{}: {span:?}", named.name());
    }
}

// RFC 7252 §4.7 (Q37)
#[test]
fn a_non_confirmable_request_that_is_not_answered_delays_the_next_one_by_an_rto() {
    for name in ["temper", "cocoa", "linux"] {
        let departures = non_confirmable_requests(name, 3, false);
        assert!(departures.windows(2).all(|pair| pair[1] - pair[0] >= s(2)), "{name}: {departures:?}");
    }
}

/// temper's pause applies to a client that sends each request directly after the last response.
#[test]
fn under_a_queue_temper_holds_back_a_closed_loop_and_no_client_that_was_idle() {
    let mut client = Endpoint::new(EndpointConfig::default(), by_name("temper"), [7; 32]).expect("legal");
    let (mut now, mut buf) = (Instant::ZERO + s(1), [0; 1280]);
    let mut pause_before_exchange = |now: &mut Instant, round_trip| {
        client.request(*now, SERVER, request(Code::GET, "/test")).expect("there is room");
        let submitted = *now;
        let sent = loop {
            match client.poll(*now, &mut buf) {
                Output::Transmit(transmit) => break buf[..transmit.len].to_vec(),
                Output::Wait(until) => *now = until.expect("a request waits"),
                Output::Event(_) => {}
            }
        };
        let pause = *now - submitted;
        *now += round_trip;
        client.handle(*now, Input::datagram(SERVER, &wire::piggybacked(&sent, Code::CONTENT))).expect("drained");
        while !matches!(client.poll(*now, &mut buf), Output::Wait(_)) {}
        pause
    };
    assert_eq!(pause_before_exchange(&mut now, ms(100)), s(0));
    let pauses: Vec<_> = (0..19).map(|_| pause_before_exchange(&mut now, ms(300))).collect();
    // SRTT is 300 - 200·(7/8)^18 = 282 ms, and RTTVAR 400·((7/8)^18 - (3/4)^18) = 34 ms: the pause
    // is 6 · (200 - 2 · 34) - 282 ms.
    assert!(pauses[18] >= ms(500) && pauses[18] <= ms(515), "{pauses:?}");
    now += s(1);
    let after_idle: Vec<_> = (0..10).map(|_| pause_before_exchange(&mut now, ms(300))).collect();
    assert_eq!(after_idle, [s(0); 10]);
}

// RFC 7252 §4.7 (Q38)
#[test]
fn nothing_is_expected_longer_than_exchange_lifetime_without_an_acknowledgement() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    let sent = world.first_copy(asked).bytes;
    world.run(s(247));
    assert_eq!(outstanding(&mut world, SERVER, CLIENT), 0);
    let (at, end) = end_of(world.events(CLIENT), asked).expect("it is over");
    assert!(end == Err(Failure::TimedOut) && at.as_millis() <= 93_000, "MAX_TRANSMIT_WAIT");
    // From now on, a response is unexpected.
    let before = world.events(CLIENT).len();
    world.inject(SERVER, CLIENT, &wire::piggybacked(&sent, Code::CONTENT));
    world.inject(SERVER, CLIENT, &wire::separate(&sent, Type::Confirmable, Code::CONTENT, 3));
    assert_eq!(world.events(CLIENT).len(), before);
    assert_eq!(world.sent.last().map(|reset| reset.message().header().ty), Some(Type::Reset));
}

// RFC 7252 §4.7 (Q39)
#[test]
fn a_flood_of_non_confirmable_messages_to_a_silent_peer_keeps_to_probing_rate() {
    const WINDOW: u64 = 10_000;
    for named in ALL {
        for reliability in [Reliability::NonConfirmable, Reliability::NeverConfirmable] {
            for payload in [1, 100, 1_000] {
                let mut world = World::client_of(&EndpointConfig::default(), named.controller());
                // A controller may convert a message into a Confirmable one, which is then
                // retransmitted.
                let mut largest = 0;
                while world.now.as_millis() < 2 * WINDOW * 1_000 {
                    for _ in 0..2 {
                        let request = request_with_payload(Code::POST, "/t", payload).with_reliability(reliability);
                        world.request(request);
                    }
                    world.run(s(59));
                }
                let sizes = world.sent.iter().map(|datagram| (datagram.at, datagram.bytes.len() as u64 + 28));
                let sizes: Vec<_> = sizes.collect();
                for (n, &(start, size)) in sizes.iter().enumerate() {
                    largest = largest.max(size);
                    let inside = sizes[n..].iter().take_while(|(at, _)| *at - start < s(WINDOW));
                    let bytes: u64 = inside.map(|(_, size)| size).sum();
                    let exchange = if reliability == Reliability::NonConfirmable { 5 * largest } else { largest };
                    let name = named.name();
                    assert!(bytes <= WINDOW + exchange, "{name}, {reliability:?}, {payload}: {bytes} B in {WINDOW} s");
                }
                assert!(!sizes.is_empty());
            }
        }
    }
}

// RFC 7252 §4.7 (Q39)
#[test]
fn a_silent_peer_receives_data_at_the_configured_probing_rate() {
    const SECONDS: u64 = 10_000;
    for probing_rate in [1, 10, 100] {
        let transmission = TransmissionParameters { probing_rate, ..TransmissionParameters::default() };
        let mut world = World::client_of(&with_transmission(transmission), by_name("default"));
        while world.now.as_millis() < SECONDS * 1_000 {
            let request = request_with_payload(Code::POST, "/t", 1_000).with_reliability(Reliability::NeverConfirmable);
            world.request(request);
            world.run(s(5));
        }
        let sizes = world.sent.iter().map(|datagram| datagram.bytes.len() as u64 + 28);
        let (bytes, allowed) = (sizes.clone().sum::<u64>(), SECONDS * u64::from(probing_rate));
        let largest = sizes.max().expect("the first leaves at once");
        assert!(bytes.abs_diff(allowed) <= largest, "{bytes} B in {SECONDS} s at {probing_rate} B/s");
    }
}

// RFC 7252 §4.7 (Q40)
#[test]
fn a_source_that_overdoes_it_is_limited_and_others_are_not() {
    let limit = ResponseLimit { per_second: 10, burst: 20 };
    let config = EndpointConfig { response_limit: Some(limit), ..EndpointConfig::default() };
    let mut world = World::pair_of(&config, &by_name("default"), 40);
    let mut asked = Vec::new();
    for n in 0..5_000 {
        world.inject(STRANGER, SERVER, &wire::request(Type::Confirmable, Code::GET, n, &[1], "/test"));
        if n % 200 == 0 {
            asked.push(world.request(request(Code::GET, "/test")));
        }
        world.run(ms(1));
    }
    let to_stranger = world.sent_by(SERVER).filter(|datagram| datagram.to == STRANGER).count();
    assert!((65..=71).contains(&to_stranger), "{to_stranger} responses in 5 s at 10 a second after a burst of 20");
    let server = world.node(SERVER);
    assert_eq!(server.endpoint.stats().limited, 5_000 - to_stranger as u64);
    let occupied = server.endpoint.occupancy().deduplication_entries;
    assert_eq!(occupied, to_stranger + asked.len(), "what is dropped is not remembered");
    let handed_on = server.events.iter().filter(|(_, event)| matches!(event, Event::Request { .. })).count();
    assert_eq!(handed_on, occupied);
    for id in asked {
        assert_eq!(world.departures(id).len(), 1, "nobody else had to repeat a request");
        assert!(end_of(world.events(CLIENT), id).is_some_and(|(_, end)| end.is_ok()));
    }
}

// RFC 7252 §4.7 (Q39)
#[test]
fn a_peer_that_a_message_was_given_up_for_gets_probing_rate_from_the_first_non_confirmable_one() {
    let mut world = World::client_of(&EndpointConfig::default(), by_name("cocoa"));
    world.request(request(Code::GET, "/test"));
    world.run(s(300));
    let never = || request_with_payload(Code::POST, "/t", 50).with_reliability(Reliability::NeverConfirmable);
    let messages = [never(), never()].map(|request| world.request(request));
    assert_eq!(world.departures(messages[0]).len(), 1);
    // 50 bytes of payload, plus overhead, take their time at one byte per second.
    world.run(s(50));
    assert!(world.departures(messages[1]).is_empty());

    // After a message from the peer, the controller's rate applies: one message per RTO.
    world.inject(SERVER, CLIENT, &wire::bare(Type::Confirmable, Code::EMPTY, 1, &[]));
    assert_eq!(world.departures(messages[1]), [world.now]);
}

#[test]
fn path_state_is_kept_for_exactly_the_idle_lifetime() {
    for (idle, learnt) in [(s(250), true), (s(257), false)] {
        let mut world = World::pair_of(&EndpointConfig::default(), &by_name("linux"), 1);
        for _ in 0..20 {
            world.request(request(Code::GET, "/test"));
            world.run(s(1));
        }
        world.run(idle);
        world.link = Box::new(|_| vec![]);
        let asked = world.request(request(Code::GET, "/test"));
        world.run(s(10));
        let departures = world.departures(asked);
        assert_eq!(departures[1] - departures[0] < s(1), learnt, "after {idle:?}: {departures:?}");
    }
}
