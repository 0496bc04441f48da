//! The Content-Format of an observation does not change (RFC 7641 §4.2).

use conche_proto::codec::{Body, Code, OptionNumber, Type};
use conche_proto::{EndpointConfig, Event, ObserverEnd, Reliability, Response};

use super::net::registration;
use crate::support::direct::{ack_of, content};
use crate::support::{Direct, s};

const TOPIC: u64 = 1;
const TEXT: u32 = 0;
const CBOR: u32 = 60;

fn state(format: Option<u32>, payload: &str) -> Response {
    let response = content(payload);
    let body = match format {
        Some(format) => response.body.with_uint(OptionNumber::CONTENT_FORMAT, format),
        None => response.body,
    };
    Response { body, reliability: Some(Reliability::Confirmable), ..response }
}

fn observed(first: Response) -> Direct {
    let mut server = Direct::new(EndpointConfig::default());
    let request = server.receive(1, &registration(Type::Confirmable, 1, b"observed", 0)).request();
    server.endpoint.observe(server.now, request, TOPIC).expect("room");
    server.respond(request, Response { reliability: None, ..first });
    server
}

/// Returns the code of the notification.
fn notified(server: &mut Direct, state: Response) -> Code {
    server.endpoint.notify(server.now, TOPIC, state).expect("legal");
    let given = server.drain();
    let (ty, code) = given.kinds()[0];
    assert_eq!((ty, given.kinds().len()), (Type::Confirmable, 1));
    let acknowledgement = ack_of(given.message());
    let given = server.receive(1, &acknowledgement);
    let changed = |event: &Event<u32>| matches!(event, Event::ObserverGone { reason: ObserverEnd::FormatChanged, .. });
    assert_eq!(given.events.iter().any(changed), code == Code::NOT_ACCEPTABLE, "{given:?}");
    code
}

// RFC 7641 §4.2
#[test]
fn an_observer_is_sent_4_06_and_removed_when_the_state_has_another_content_format() {
    for (first, next) in [(Some(TEXT), Some(CBOR)), (Some(TEXT), None), (None, Some(TEXT))] {
        let mut server = observed(state(first, "0"));
        assert_eq!(notified(&mut server, state(first, "1")), Code::CONTENT);
        assert_eq!(notified(&mut server, state(next, "2")), Code::NOT_ACCEPTABLE);
        assert_eq!(server.endpoint.occupancy().observers, 0);
        assert_eq!(server.endpoint.notify(server.now, TOPIC, state(first, "3")), Ok(0));
        server.run_to_end();
    }
}

#[test]
fn an_observer_that_came_after_the_change_of_format_stays() {
    let mut server = observed(state(Some(TEXT), "0"));
    let request = server.receive(2, &registration(Type::Confirmable, 1, b"observed", 0)).request();
    server.endpoint.observe(server.now, request, TOPIC).expect("room");
    server.respond(request, Response { reliability: None, ..state(Some(CBOR), "1") });
    server.endpoint.notify(server.now, TOPIC, state(Some(CBOR), "2")).expect("legal");
    let given = server.drain();
    let codes: Vec<_> = given.sent.iter().map(|(transmit, message)| (transmit.to, message.code())).collect();
    assert_eq!(codes, [(1, Code::NOT_ACCEPTABLE), (2, Code::CONTENT)]);
    for (transmit, message) in &given.sent {
        server.receive(transmit.to, &ack_of(message));
    }
    assert_eq!(server.endpoint.observers(TOPIC), 1);
}

// RFC 7641 §4.2: 2.03 confirms a representation that the client has.
#[test]
fn a_notification_without_a_representation_skips_the_format_check() {
    let valid = || Response { code: Code::VALID, body: Body::EMPTY, ..state(None, "") };
    let mut server = observed(valid());
    assert_eq!(notified(&mut server, state(Some(CBOR), "1")), Code::CONTENT);
    assert_eq!(notified(&mut server, valid()), Code::VALID);
    assert_eq!(notified(&mut server, Response { body: Body::EMPTY, ..state(None, "") }), Code::CONTENT);
    assert_eq!(
        notified(&mut server, state(Some(TEXT), "2")),
        Code::NOT_ACCEPTABLE,
        "the first representation was CBOR"
    );
}

#[test]
fn a_format_that_has_changed_back_before_its_4_06_left_ends_nothing() {
    let mut server = observed(state(Some(TEXT), "0"));
    server.endpoint.notify(server.now, TOPIC, state(Some(TEXT), "1")).expect("legal");
    let first = server.drain();
    for next in [state(Some(CBOR), "2"), state(Some(TEXT), "3")] {
        server.endpoint.notify(server.now, TOPIC, next).expect("legal");
        assert!(server.drain().sent.is_empty(), "one is under way");
    }
    let acknowledgement = ack_of(first.message());
    let given = server.receive(1, &acknowledgement);
    assert_eq!((given.message().code(), given.message().payload()), (Code::CONTENT, &b"3"[..]));
    let acknowledgement = ack_of(given.message());
    server.receive(1, &acknowledgement);
    server.run(s(10));
    assert_eq!(server.endpoint.observers(TOPIC), 1);
}
