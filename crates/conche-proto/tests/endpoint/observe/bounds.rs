//! Limits per host and per prefix: observers, topics, and bytes of states.

use conche_proto::codec::{Code, OptionNumber, Type};
use conche_proto::{EndpointConfig, Event, Limits, NotifyError, Reliability, Response};

use super::net::registration;
use crate::model::Address;
use crate::support::direct::content;
use crate::support::{Direct, s};

/// A 16-bit prefix, an 8-bit host and an 8-bit port.
fn server(limits: Limits) -> Direct {
    let mut server = Direct::new(EndpointConfig { limits, ..EndpointConfig::default() });
    server.endpoint.set_source_groups(Box::new(|address| u64::from(address >> 16)));
    server.endpoint.set_source_hosts(Box::new(|address| u64::from(address >> 8)));
    server
}

/// Returns `true` if the client observes.
fn register(server: &mut Direct, from: Address, token: u8, topic: u64, state: &str) -> bool {
    let id = u16::from(token) << 8 | u16::try_from(topic % 256).expect("a byte");
    let request = server.receive(from, &registration(Type::Confirmable, id, &[token], 0)).request();
    let _ = server.endpoint.observe(server.now, request, topic);
    let given = server.respond(request, content(state));
    assert_eq!(given.sent[0].1.code(), Code::CONTENT);
    given.sent[0].1.option(OptionNumber::OBSERVE).is_some()
}

// RFC 7641 §4.1 (Q114)
#[test]
fn observers_of_one_host_are_bounded_over_all_of_its_ports() {
    let mut server = server(Limits { observers_per_host: 100, ..Limits::default() });
    let accepted = |server: &mut Direct, host: Address, token: u8| {
        (0..250).filter(|&port| register(server, host << 8 | port, token, 1, "0")).count()
    };
    assert_eq!([accepted(&mut server, 1, 1), accepted(&mut server, 2, 1)], [100, 100]);
    assert_eq!(server.endpoint.dismiss_all(server.now, 1), 200);
    assert_eq!(accepted(&mut server, 1, 2), 100, "its places are free again");
}

#[test]
fn one_prefix_opens_half_of_the_topics_and_joins_all_others() {
    let mut server = server(Limits { topics: 64, ..Limits::default() });
    let opened = (0..200).filter(|&topic| register(&mut server, topic as Address % 250, 1, topic, "0")).count();
    assert_eq!(opened, 32);
    assert!(register(&mut server, 1 << 16, 1, 1_000, "0"), "another prefix opens one");
    assert!(register(&mut server, 7, 2, 1_000, "0"), "what another prefix opened is open to all");
    for topic in 0..200 {
        server.endpoint.dismiss_all(server.now, topic);
    }
    assert!(register(&mut server, 7, 3, 2_000, "0"), "room is left again");
}

#[test]
fn registrations_for_larger_states_than_there_is_room_for_are_answered_plainly() {
    let mut server = server(Limits { state_bytes: 100_000, ..Limits::default() });
    let large = "x".repeat(10_000);
    let opened = (0..50).filter(|&topic| register(&mut server, topic as Address, 1, topic, &large)).count();
    assert_eq!(opened, 5, "half of the room");
    assert!(register(&mut server, 1 << 16, 1, 1_000, &large), "another prefix has room");
    assert_eq!(server.endpoint.occupancy().observers, 6);
}

#[test]
fn a_group_that_opens_a_topic_and_fills_its_share_ends_no_observation_of_others() {
    const SHARED: u64 = 1_000;
    let mut server = server(Limits { state_bytes: 100_000, ..Limits::default() });
    let large = "x".repeat(10_000);
    assert!(register(&mut server, 1, 1, SHARED, "0"));
    assert!(register(&mut server, 1 << 16, 1, SHARED, "0"), "another prefix observes the same");
    let opened = (0..50).filter(|&topic| register(&mut server, 2 + topic as Address, 1, topic, &large)).count();
    assert_eq!(opened, 5, "half of the room");
    assert_eq!(server.endpoint.notify(server.now, SHARED, content(&large)), Ok(2));
}

#[test]
fn a_state_that_outgrows_the_room_is_refused_and_an_error_is_not() {
    let mut server = server(Limits { state_bytes: 100_000, ..Limits::default() });
    for topic in 0..20 {
        assert!(register(&mut server, 1, topic as u8, topic, "0"));
    }
    let large = content(&"x".repeat(10_000));
    let told: Vec<_> = (0..20).map(|topic| server.endpoint.notify(server.now, topic, large.clone())).collect();
    assert_eq!(told.iter().filter(|told| **told == Ok(1)).count(), 5);
    let full = Err(NotifyError::StatesFull { limit: 100_000 });
    assert!(told.iter().all(|told| *told == Ok(1) || *told == full), "{told:?}");
    let never = Some(Reliability::NeverConfirmable);
    let last = Response { code: Code::SERVICE_UNAVAILABLE, reliability: never, ..content("") };
    for topic in 0..20 {
        assert_eq!(server.endpoint.notify(server.now, topic, last.clone()), Ok(1));
    }
    let given = server.run(s(6_000));
    assert!(!given.events.iter().any(|event| matches!(event, Event::Request { .. })));
    assert_eq!(server.endpoint.occupancy().observers, 0);
    assert!(register(&mut server, 1, 1, 1, &"x".repeat(40_000)), "all of it is free again");
}
