//! Observers prove that they receive at their address, or are evicted (RFC 7641 §4.5).

use conche_proto::codec::{Body, Code, MessageId, OptionNumber, OwnedMessage, Type};
use conche_proto::{
    EndpointConfig, Event, Failure, Input, Limits, ObserverChecks, ObserverEnd, Output, Reliability, Request, Response,
};

use super::net::{Net, registration};
use crate::model::Address;
use crate::support::direct::{ack_of, content};
use crate::support::{Direct, ms, s, wire};

const TOPIC: u64 = 1;
const FIRST: std::time::Duration = ObserverChecks::FIRST;
const EVERY: std::time::Duration = ObserverChecks::EVERY;

/// A prefix and a 12-bit host, without source validation.
fn server(limits: Limits) -> Direct {
    let mut server = Direct::new(EndpointConfig { limits, ..EndpointConfig::default() });
    server.endpoint.set_source_groups(Box::new(|address| u64::from(address >> 12)));
    server
}

/// Returns `true` if the sender observes.
fn register(server: &mut Direct, from: Address, id: u16) -> bool {
    let request = server.receive(from, &registration(Type::Confirmable, id, b"observed", 0)).request();
    let observes = server.endpoint.observe(server.now, request, TOPIC).is_some();
    let given = server.respond(request, content("0"));
    assert_eq!(given.sent[0].1.option(OptionNumber::OBSERVE).is_some(), observes);
    observes
}

fn answer_of(message: &OwnedMessage) -> Option<Vec<u8>> {
    let id = MessageId(message.header().id.0);
    match (message.header().ty, message.code()) {
        (Type::Confirmable, Code::EMPTY) => Some(wire::reset(id)),
        (Type::Confirmable, _) => Some(wire::empty_ack(id)),
        _ => None,
    }
}

/// Only `honest` addresses answer.
fn run(server: &mut Direct, span: std::time::Duration, honest: &[Address]) {
    let until = server.now + span;
    let mut buffer = vec![0; 1152];
    loop {
        let wake = loop {
            match server.endpoint.poll(server.now, &mut buffer) {
                Output::Transmit(transmit) if honest.contains(&transmit.to) => {
                    let message = OwnedMessage::decode(buffer[..transmit.len].to_vec()).expect("well-formed");
                    if let Some(answer) = answer_of(&message) {
                        server.endpoint.handle(server.now, Input::datagram(transmit.to, &answer)).expect("drained");
                    }
                }
                Output::Transmit(_) | Output::Event(_) => {}
                Output::Wait(wake) => break wake,
            }
        };
        match wake.filter(|&wake| wake <= until) {
            Some(wake) => server.now = wake,
            None => break,
        }
    }
    server.now = until;
}

fn own_request(server: &mut Direct, to: Address) -> bool {
    let body = Body::builder().path("/x").build().expect("a legal path");
    let asked = server.endpoint.request(server.now, to, Request::new(Code::GET, body));
    if let Ok(exchange) = asked {
        server.endpoint.cancel(server.now, exchange);
    }
    server.drain();
    asked.is_ok()
}

/// Returns `true` if it got a state.
fn non_is_answered(server: &mut Direct, from: Address, id: u16) -> bool {
    let given = server.receive(from, &wire::request(Type::NonConfirmable, Code::GET, id, b"non", "obs"));
    match given.requests()[..] {
        [request] => server.respond(request, content("0")).sent.iter().any(|(to, _)| to.to == from),
        _ => false,
    }
}

// RFC 7641 §4.5
#[test]
fn an_observer_of_a_constant_resource_is_pinged_and_kept_while_it_answers() {
    let mut server = server(Limits::default());
    assert!(register(&mut server, 1, 1));
    for after in [FIRST, EVERY, EVERY] {
        assert!(server.run(after - ms(1)).sent.is_empty());
        let given = server.run(ms(1));
        assert_eq!((given.kinds(), given.datagram().len()), (vec![(Type::Confirmable, Code::EMPTY)], 4));
        let reset = wire::reset(given.message().header().id);
        let given = server.receive(1, &reset);
        assert!(given.events.is_empty() && given.sent.is_empty(), "{given:?}");
        assert!(server.receive(1, &reset).events.is_empty(), "a duplicate");
        assert_eq!(server.endpoint.observers(TOPIC), 1);
    }
    let given = server.run(EVERY + s(100));
    assert_eq!(given.sent.len(), 5, "a ping and its retransmissions");
    let failed = ObserverEnd::Failed(Failure::TimedOut);
    assert!(matches!(given.events[..], [Event::ObserverGone { from: 1, reason, .. }] if reason == failed), "{given:?}");
    assert_eq!((server.endpoint.occupancy().observers, server.run(EVERY).sent.len()), (0, 0));
}

#[test]
fn an_observer_that_has_never_acknowledged_anything_is_sent_the_known_state_as_confirmable() {
    let mut server = server(Limits::default());
    assert!(register(&mut server, 1, 1));
    let state = Response { reliability: Some(Reliability::NeverConfirmable), ..content("1") };
    server.endpoint.notify(server.now, TOPIC, state).expect("legal");
    assert_eq!(server.drain().kinds(), [(Type::NonConfirmable, Code::CONTENT)]);
    let given = server.run(FIRST);
    assert_eq!((given.kinds(), given.message().payload()), (vec![(Type::Confirmable, Code::CONTENT)], &b"1"[..]));
    let acknowledgement = ack_of(given.message());
    server.receive(1, &acknowledgement);
    assert!(server.run(EVERY - s(1)).sent.is_empty());
}

#[test]
fn a_state_that_supersedes_a_ping_is_a_notification_with_the_token_of_the_observer() {
    for ping_arrives in [true, false] {
        let mut server = server(Limits::default());
        assert!(register(&mut server, 1, 1));
        let ping = server.run(FIRST).message().clone();
        server.endpoint.notify(server.now, TOPIC, content("1")).expect("legal");
        assert!(server.drain().sent.is_empty(), "the ping is under way");
        let given = match ping_arrives {
            true => server.receive(1, &wire::reset(ping.header().id)),
            false => server.run(s(4)),
        };
        let notification = given.message();
        assert_eq!((notification.token().as_slice(), notification.payload()), (&b"observed"[..], &b"1"[..]));
        // The Reset proves the client's presence, and gives an RTT sample.
        let ty = if ping_arrives { Type::NonConfirmable } else { Type::Confirmable };
        assert_eq!(notification.header().ty, ty);
        assert_ne!(notification.header().id, ping.header().id);
        let acknowledgement = ack_of(notification);
        server.receive(1, &acknowledgement);
        assert_eq!(server.endpoint.observers(TOPIC), 1);
    }
}

#[test]
fn guessed_message_ids_neither_end_nor_confirm_an_observation() {
    let mut server = server(Limits::default());
    assert!(register(&mut server, 1, 1));
    let ping = server.run(FIRST).message().header().id;
    for guess in 1..=16_u16 {
        server.receive(1, &wire::empty_ack(MessageId(ping.0.wrapping_add(20_000 + guess))));
    }
    server.receive(1, &wire::reset(ping));
    assert_eq!((server.endpoint.observers(TOPIC), server.endpoint.occupancy().exchanges), (1, 0));
    let given = server.run(FIRST);
    assert_eq!(given.kinds(), [(Type::Confirmable, Code::EMPTY)], "it is checked again");
}

#[test]
fn a_client_whose_address_is_proven_is_not_checked_again_when_it_registers_again() {
    let mut server = server(Limits::default());
    assert!(register(&mut server, 1, 1));
    let ping = server.run(FIRST).message().header().id;
    server.receive(1, &wire::reset(ping));
    let request = server.receive(1, &registration(Type::Confirmable, 2, b"observed", 0)).request();
    server.endpoint.observe(server.now, request, TOPIC).expect("room");
    server.respond(request, content("0"));
    assert!(server.run(EVERY - s(1)).sent.is_empty());
}

/// Four times a day for a week. Small tables, so that each burst fills them.
#[test]
fn forged_sources_never_keep_own_requests_and_honest_clients_out() {
    let limits = Limits { peers: 1024, observers: 1024, ..Limits::default() };
    let mut server = server(limits);
    let honest = 0x7000_0001;
    assert!(register(&mut server, honest, 1));
    run(&mut server, FIRST + s(1), &[honest]);
    let mut newcomers = vec![honest];
    for burst in 0..28_u32 {
        // From up to 1100 prefixes, with addresses that are never used again.
        for n in 0..1100 {
            register(&mut server, n << 12 | burst, 1);
        }
        for n in 0..3000 {
            non_is_answered(&mut server, (n % 1100) << 12 | (100 + burst * 3 + n / 1100), 2);
        }
        let held = server.endpoint.occupancy();
        assert!(held.peers <= 1024 && held.observers <= 1024, "{held:?}");
        for when in [s(0), s(200), s(3600)] {
            run(&mut server, when, &newcomers);
            let new = 0x7100_0000 | burst << 4 | u32::try_from(newcomers.len() % 7).expect("small");
            assert!(own_request(&mut server, new | 0x0800_0000), "burst {burst}, {when:?} later");
            assert!(non_is_answered(&mut server, new | 0x0400_0000, 9), "burst {burst}, {when:?} later");
            assert!(register(&mut server, new, 7 + u16::try_from(newcomers.len()).expect("few")));
            if !newcomers.contains(&new) {
                newcomers.push(new);
            }
            // It answers before the next forged datagram arrives.
            run(&mut server, FIRST + s(1), &newcomers);
        }
        run(&mut server, s(6 * 3600 - 4200), &newcomers);
        let left = server.endpoint.occupancy().observers;
        assert_eq!(left, newcomers.len(), "none of those that answer is gone, and nobody else is left");
    }
    assert_eq!(server.endpoint.notify(server.now, TOPIC, content("1")), Ok(newcomers.len()));
}

#[test]
fn at_the_default_limits_a_flood_of_registrations_is_over_after_minutes() {
    let mut server = server(Limits::default());
    let observers = u32::try_from(Limits::default().observers).expect("it is a u32");
    let honest = 0x7000_0001;
    for n in 0..observers + 1000 {
        if n == observers / 2 {
            assert!(register(&mut server, honest, 1));
        }
        // One source from each of 2^16 prefixes, then another one from each.
        let from = (n & 0xffff) << 12 | n >> 16;
        server
            .endpoint
            .handle(server.now, Input::datagram(from, &registration(Type::Confirmable, 1, b"forged", 0)))
            .expect("drained");
        for event in server.drain().events {
            if let Event::Request { id, .. } = event {
                server.endpoint.observe(server.now, id, TOPIC);
                server.endpoint.respond(server.now, id, content("0")).expect("it waits");
            }
        }
        if n % 512 == 0 {
            run(&mut server, ms(10), &[honest]);
        } else {
            server.drain();
        }
    }
    assert!(own_request(&mut server, 0x7800_0000));
    assert!(non_is_answered(&mut server, 0x7400_0000, 2));
    run(&mut server, s(300), &[honest]);
    assert_eq!(server.endpoint.observers(TOPIC), 1, "the honest one");
    assert!((0..1_000).all(|n| own_request(&mut server, 0x7800_0000 | n)), "the others give way");
}

#[test]
fn a_flood_of_non_confirmable_requests_from_any_number_of_prefixes_leaves_own_requests_their_peers() {
    for prefixes in [1, 10, 100, 1_100] {
        let mut server = server(Limits { peers: 1024, ..Limits::default() });
        for n in 0..5_000 {
            non_is_answered(&mut server, ((n % prefixes) << 12) | (n / prefixes), 2);
        }
        let own = (0..1024).filter(|n| own_request(&mut server, 0x7800_0000 | n)).count();
        assert_eq!((own, server.endpoint.occupancy().peers), (1024, 1024), "{prefixes} prefixes");
    }
}

/// Acknowledges the Confirmable response to a Non-confirmable request; returns the message ID.
fn answers_a_response(server: &mut Direct, from: Address, id: u16) -> u16 {
    let asked = server.receive(from, &wire::request(Type::NonConfirmable, Code::GET, id, b"non", "obs")).request();
    let confirmable = Response { reliability: Some(Reliability::Confirmable), ..content("0") };
    let given = server.respond(asked, confirmable);
    server.receive(from, &ack_of(given.message()));
    given.message().header().id.0
}

// RFC 7252 §4.4
#[test]
fn a_flood_displaces_no_peer_that_has_answered_and_its_message_ids_go_on() {
    let mut server = server(Limits { peers: 64, ..Limits::default() });
    let honest: Vec<Address> = (0..16).map(|n| (0x7_0000 + n) << 12).collect();
    let first: Vec<u16> = honest.iter().map(|&client| answers_a_response(&mut server, client, 1)).collect();
    for n in 0..5_000 {
        non_is_answered(&mut server, ((n % 500) << 12) | (n / 500), 2);
    }
    assert_eq!(server.endpoint.occupancy().peers, 64);
    for (&client, first) in honest.iter().zip(first) {
        assert_eq!(answers_a_response(&mut server, client, 2), first + 1);
    }
}

#[test]
fn a_flooding_prefix_displaces_no_observers_of_other_prefixes() {
    let mut server = server(Limits { observers: 100, ..Limits::default() });
    let others: Vec<Address> = (1..=40).map(|n| n << 12).collect();
    assert!(others.iter().all(|&other| register(&mut server, other, 1)));
    let accepted = (1..2_000).filter(|n| register(&mut server, 0x7000_0000 | n, 1)).count();
    assert!(accepted > 0);
    for other in others {
        let again = server.receive(other, &registration(Type::Confirmable, 2, b"observed", 0));
        let replaced = matches!(again.events[0], Event::ObserverGone { reason: ObserverEnd::Replaced, .. });
        assert!(replaced, "it still observes: {again:?}");
        let Event::Request { id, .. } = again.events[1] else { panic!("{again:?}") };
        assert!(server.endpoint.observe(server.now, id, TOPIC).is_some());
        server.respond(id, content("0"));
    }
}

#[test]
fn a_prefix_at_its_share_of_confirmed_observers_displaces_none() {
    const OBSERVERS: u32 = 100;
    let mut server = server(Limits { observers: OBSERVERS as usize, ..Limits::default() });
    let greedy: Vec<Address> = (1..=OBSERVERS / 2).map(|n| 0x7000_0000 | n).collect();
    assert!(greedy.iter().all(|&from| register(&mut server, from, 1)));
    run(&mut server, FIRST + s(1), &greedy);
    let others: Vec<Address> = (1..=20).map(|n| n << 12).collect();
    assert!(others.iter().all(|&from| register(&mut server, from, 1)));
    for n in 51..100 {
        assert!(!register(&mut server, 0x7000_0000 | n, 1));
        assert_eq!(server.endpoint.observers(TOPIC), 70);
    }
}

// RFC 7641 §4.5.1
#[test]
fn a_new_observer_follows_a_ticker_from_the_start_where_the_round_trip_is_short() {
    for controller in ["temper"] {
        let mut net = Net::with(1, controller, &EndpointConfig::default());
        net.link = Box::new(|_| Some(ms(2)));
        net.subscribe(1);
        net.run(s(1));
        for tick in 1..=20 {
            net.change(&tick.to_string());
            net.run(ms(500));
            assert_eq!(net.known(1), Some(tick.to_string()), "{controller}, after tick {tick}");
        }
        let states: Vec<String> = (1..=20).map(|tick| tick.to_string()).collect();
        assert_eq!(net.states(1), states, "{controller}");
        let confirmable = net.notifications().iter().filter(|sent| sent.ty() == Type::Confirmable).count();
        assert!(confirmable <= 5, "the first and each fifth: {confirmable}");
    }
}
