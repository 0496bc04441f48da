//! Responses superseded while in progress (RFC 7641 §4.5.2).

use std::collections::HashSet;

use conche_proto::codec::{Code, MessageId, Type};
use conche_proto::{
    EndpointConfig, Event, ExchangeId, Failure, Instant, Limits, RespondError, Response, SupersedeError,
};

use crate::support::direct::{Given, ack_of, con, content};
use crate::support::{Direct, request, s, wire};

/// A separate response to client 1, and the messages sent.
fn responding() -> (Direct, ExchangeId, Given) {
    let mut server = Direct::new(EndpointConfig::default());
    let (exchange, given) = respond_late(&mut server, 1, "old");
    (server, exchange, given)
}

fn respond_late(server: &mut Direct, id: u16, payload: &str) -> (ExchangeId, Given) {
    let request = server.receive(1, &con(Code::GET, id)).request();
    server.endpoint.acknowledge(server.now, request).expect("it waits");
    server.drain();
    let exchange = server.endpoint.respond(server.now, request, content(payload)).expect("it waits");
    (exchange.expect("a Confirmable response"), server.drain())
}

#[derive(Debug, Default)]
struct Course {
    times: Vec<Instant>,
    attempts: Vec<u8>,
    messages: Vec<(MessageId, Vec<u8>)>,
    failures: usize,
}

impl Course {
    fn add(&mut self, now: Instant, given: &Given, exchange: ExchangeId) {
        for (transmit, message) in &given.sent {
            assert_eq!(transmit.exchange, Some(exchange));
            self.times.push(now);
            self.attempts.push(transmit.attempt);
            self.messages.push((message.header().id, message.payload().to_vec()));
        }
        for event in &given.events {
            let Event::Failed { exchange: failed, reason: Failure::TimedOut, .. } = event else { panic!("{event:?}") };
            assert_eq!(*failed, exchange);
            self.failures += 1;
        }
    }
}

/// Superseded after the first transmission or not.
fn unacknowledged(superseded: bool) -> Course {
    let (mut server, exchange, first) = responding();
    if superseded {
        server.endpoint.supersede(exchange, content("new")).expect("it is on its way");
        assert!(server.drain().sent.is_empty(), "nothing leaves before its time");
    }
    let mut course = Course::default();
    course.add(server.now, &first, exchange);
    while let Some(wake) = server.wake.filter(|_| course.failures == 0) {
        server.now = wake;
        let given = server.drain();
        course.add(server.now, &given, exchange);
    }
    server.run_to_end();
    course
}

#[test]
fn a_superseding_response_keeps_timeout_and_attempts_under_a_new_id() {
    let (plain, course) = (unacknowledged(false), unacknowledged(true));
    assert_eq!((&course.times, course.failures), (&plain.times, 1));
    assert_eq!((&course.attempts[..], &plain.attempts), (&[0, 1, 2, 3, 4][..], &course.attempts));
    assert_eq!(course.messages[0].1, b"old");
    assert!(course.messages[1..].iter().all(|(_, payload)| payload == b"new"));
    let ids: HashSet<_> = course.messages.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), 2, "one ID for each message: {course:?}");
}

#[test]
fn an_ack_of_the_old_message_lets_the_new_one_follow_at_once_and_the_exchange_ends_once() {
    let (mut server, exchange, first) = responding();
    let old = first.message().header().id;
    server.endpoint.supersede(exchange, content("newer")).expect("it is on its way");
    server.endpoint.supersede(exchange, content("newest")).expect("it is on its way");
    let given = server.receive(1, &wire::empty_ack(old));
    assert!(given.events.is_empty(), "it is not over: {given:?}");
    let message = given.message();
    assert_eq!((message.header().ty, message.payload()), (Type::Confirmable, &b"newest"[..]));
    assert_ne!(message.header().id, old);
    assert_eq!((given.sent[0].0.exchange, given.sent[0].0.attempt), (Some(exchange), 0));
    assert!(server.receive(1, &wire::empty_ack(old)).events.is_empty(), "a late copy of the ACK ends nothing");
    let end = server.receive(1, &ack_of(message));
    let [Event::Acknowledged { exchange: ended, course, .. }] = &end.events[..] else { panic!("{end:?}") };
    assert_eq!((*ended, course.transmissions), (exchange, 1));
    assert!(server.run_to_end().events.is_empty());
    let gone = server.endpoint.supersede(exchange, content("too late"));
    assert_eq!(gone, Err(SupersedeError::NotOutstanding));
}

#[test]
fn a_superseding_response_precedes_queued_responses() {
    let (mut server, exchange, first) = responding();
    let (other, given) = respond_late(&mut server, 2, "other");
    assert!(given.sent.is_empty(), "NSTART is 1");
    server.endpoint.supersede(exchange, content("new")).expect("it is on its way");
    let second = server.receive(1, &ack_of(first.message()));
    assert_eq!(second.message().payload(), b"new");
    let third = server.receive(1, &ack_of(second.message()));
    assert_eq!(third.message().payload(), b"other");
    let end = server.receive(1, &ack_of(third.message()));
    assert!(matches!(end.events[..], [Event::Acknowledged { exchange, .. }] if exchange == other));
    server.run_to_end();
}

#[test]
fn a_response_that_waits_for_its_turn_is_replaced_and_the_old_one_never_leaves() {
    let (mut server, _, first) = responding();
    let (waiting, _) = respond_late(&mut server, 2, "never seen");
    server.endpoint.supersede(waiting, content("seen")).expect("it waits");
    let given = server.receive(1, &ack_of(first.message()));
    assert_eq!(given.message().payload(), b"seen");
    let end = server.receive(1, &ack_of(given.message()));
    assert!(matches!(end.events[..], [Event::Acknowledged { exchange, .. }] if exchange == waiting));
    server.run_to_end();
}

#[test]
fn an_ack_while_a_copy_waits_to_be_polled_sends_the_new_message_once() {
    let (mut server, exchange, first) = responding();
    server.endpoint.supersede(exchange, content("new")).expect("it is on its way");
    // The timer expires, and the ACK arrives before the driver polls.
    server.now = server.wake.expect("a retransmission");
    let given = server.receive(1, &ack_of(first.message()));
    assert_eq!(given.message().payload(), b"new");
    let end = server.receive(1, &ack_of(given.message()));
    assert!(matches!(end.events[..], [Event::Acknowledged { .. }]));
    server.run_to_end();
}

#[test]
fn a_reset_or_a_cancellation_ends_a_superseded_response_too() {
    for cancelled in [true, false] {
        let (mut server, exchange, first) = responding();
        server.endpoint.supersede(exchange, content("new")).expect("it is on its way");
        if cancelled {
            assert!(server.endpoint.cancel(server.now, exchange));
        } else {
            let given = server.receive(1, &wire::reset(first.message().header().id));
            assert!(matches!(given.events[..], [Event::Failed { reason: Failure::Reset, .. }]));
        }
        let rest = server.run_to_end();
        assert!(rest.sent.is_empty() && rest.events.is_empty(), "{rest:?}");
    }
}

#[test]
fn only_an_outstanding_response_can_be_superseded() {
    let mut server = Direct::new(EndpointConfig {
        limits: Limits { message_bytes: 100, ..Limits::default() },
        ..EndpointConfig::default()
    });
    let asked = server.endpoint.request(server.now, 1, request(Code::GET, "/t")).expect("room");
    assert_eq!(server.endpoint.supersede(asked, content("x")), Err(SupersedeError::NotOutstanding));
    assert!(server.endpoint.cancel(server.now, asked));
    let (exchange, first) = respond_late(&mut server, 1, "old");
    let request = Response { code: Code::GET, ..content("x") };
    let refused = server.endpoint.supersede(exchange, request);
    assert_eq!(refused, Err(SupersedeError::Refused(RespondError::NotAResponse(Code::GET))));
    let refused = server.endpoint.supersede(exchange, content(&"x".repeat(88)));
    assert_eq!(refused, Err(SupersedeError::Refused(RespondError::TooLarge { bytes: 101, limit: 100 })));
    let end = server.receive(1, &ack_of(first.message()));
    assert!(matches!(end.events[..], [Event::Acknowledged { .. }]), "what was refused changed nothing");
    server.run(s(300));
    assert_eq!(server.endpoint.supersede(exchange, content("x")), Err(SupersedeError::NotOutstanding));
}
