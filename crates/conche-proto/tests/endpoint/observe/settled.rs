//! Eventual consistency: a state sent only as Non-confirmable is sent again once it has settled.

use conche_proto::codec::{Code, OptionNumber, Type};
use conche_proto::{EndpointConfig, Reliability, Response};

use super::net::registration;
use crate::support::direct::{ack_of, content};
use crate::support::{Direct, ms, s, wire};

/// A server with an observer, and the Max-Age of its resource.
struct Told {
    server: Direct,
    max_age: Option<u32>,
}

impl Told {
    fn with_max_age(max_age: Option<u32>) -> Self {
        let mut server = Direct::new(EndpointConfig { observer_checks: None, ..EndpointConfig::default() });
        let request = server.receive(1, &registration(Type::Confirmable, 1, b"observed", 0)).request();
        server.endpoint.observe(server.now, request, 1).expect("room");
        server.respond(request, content("0"));
        Self { server, max_age }
    }

    /// In milliseconds from now.
    fn tell(&mut self, state: &str, reliability: Option<Reliability>, within: u64) -> Vec<(Type, u64)> {
        let mut response = Response { reliability, ..content(state) };
        if let Some(seconds) = self.max_age {
            response.body = response.body.with_uint(OptionNumber::MAX_AGE, seconds);
        }
        let server = &mut self.server;
        let start = server.now;
        // The client sends a message occasionally, to avoid a check of its presence.
        server.receive(1, &wire::bare(Type::NonConfirmable, Code::CONTENT, 77, b"anything"));
        server.endpoint.notify(start, 1, response).expect("legal");
        let mut told = Vec::new();
        loop {
            for (_, message) in server.drain().sent {
                let ty = message.header().ty;
                assert_eq!((message.payload(), message.code()), (state.as_bytes(), Code::CONTENT));
                told.push((ty, (server.now - start).as_millis() as u64));
                if ty == Type::Confirmable {
                    server.receive(1, &ack_of(&message));
                }
            }
            match server.wake.filter(|&wake| wake <= start + ms(within)) {
                Some(wake) => server.now = wake,
                None => break,
            }
        }
        server.now = start + ms(within);
        told
    }
}

const NON: Type = Type::NonConfirmable;
const CON: Type = Type::Confirmable;

// RFC 7641 §1.3 (Q303)
#[test]
fn a_state_that_stays_for_longer_than_its_max_age_is_sent_once_more_as_confirmable() {
    for (max_age, copy) in [(None, 62_000), (Some(20), 22_000), (Some(0), 7_000), (Some(100_000), 3_602_000)] {
        let mut told = Told::with_max_age(max_age);
        assert_eq!(told.tell("1", None, 10_000_000), [(NON, 0), (CON, copy)], "{max_age:?}");
        assert_eq!(told.server.endpoint.occupancy().timers, 0);
    }
}

#[test]
fn states_that_change_when_their_max_age_is_over_are_not_repeated_and_each_fifth_is_confirmable() {
    let mut told = Told::with_max_age(Some(20));
    for state in 1..=15 {
        let ty = if state % 5 == 0 { CON } else { NON };
        assert_eq!(told.tell(&state.to_string(), None, 20_000), [(ty, 0)], "{state}");
    }
}

#[test]
fn confirmed_and_never_confirmable_states_are_not_repeated() {
    for reliability in [Reliability::Confirmable, Reliability::NeverConfirmable] {
        let ty = if reliability == Reliability::Confirmable { CON } else { NON };
        assert_eq!(Told::with_max_age(None).tell("1", Some(reliability), 10_000_000), [(ty, 0)]);
    }
}

#[test]
fn an_observer_that_came_after_the_last_state_is_sent_nothing() {
    let mut told = Told::with_max_age(None);
    told.tell("1", Some(Reliability::Confirmable), 30_000);
    let request = told.server.receive(2, &registration(Type::Confirmable, 1, b"observed", 0)).request();
    told.server.endpoint.observe(told.server.now, request, 1).expect("room");
    told.server.respond(request, content("1"));
    assert!(told.server.run(s(10_000)).sent.is_empty());
}
