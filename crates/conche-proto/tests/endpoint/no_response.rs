//! No-Response (RFC 7967), at both sides.

use conche_proto::codec::{Body, Code, NoResponse, OptionNumber, OwnedMessage, Type};
use conche_proto::{EndpointConfig, Event, Failure, Reliability, Request, Response};

use crate::model::Address;
use crate::support::direct::{ack_of, changed};
use crate::support::{Direct, s, wire};

const OPTION: u16 = OptionNumber::NO_RESPONSE.0;

fn asking(ty: Type, id: u16, unwanted: NoResponse) -> Vec<u8> {
    wire::with_options(ty, Code::POST, id, b"token678", &[(OPTION, &[unwanted.0])], b"")
}

fn not_found() -> Response {
    Response::new(Code::NOT_FOUND, Body::EMPTY)
}

fn telling(unwanted: NoResponse, reliability: Reliability) -> Request {
    let body = Body::builder().uint(OptionNumber::NO_RESPONSE, unwanted.0.into()).build().expect("a legal option");
    Request::new(Code::POST, body).with_reliability(reliability)
}

fn is_unanswered(events: &[Event<Address>]) -> bool {
    matches!(events, [Event::Unanswered { .. }])
}

// RFC 7967 §2 (Q201)
#[test]
fn a_suppressed_class_is_not_sent_and_others_are() {
    for (unwanted, response, sent) in [
        (NoResponse::SUCCESS, changed(), false),
        (NoResponse::SUCCESS, not_found(), true),
        (NoResponse::CLIENT_ERROR, not_found(), false),
        (NoResponse::ALL, changed(), false),
        (NoResponse::NOTHING, changed(), true),
    ] {
        let mut server = Direct::new(EndpointConfig::default());
        let request = server.receive(1, &asking(Type::NonConfirmable, 5, unwanted)).request();
        assert_eq!(server.respond(request, response).sent.len(), usize::from(sent), "{unwanted:?}");
        server.run_to_end();
    }
}

// RFC 7967 §2 (Q202)
#[test]
fn a_confirmable_request_gets_its_empty_ack_at_once_and_so_does_a_copy() {
    let mut server = Direct::new(EndpointConfig::default());
    let datagram = asking(Type::Confirmable, 5, NoResponse::SUCCESS);
    let request = server.receive(1, &datagram).request();
    let expected = [(Type::Acknowledgement, Code::EMPTY)];
    assert_eq!(server.respond(request, changed()).kinds(), expected);
    let again = server.receive(1, &datagram);
    assert_eq!((again.kinds(), again.events.len()), (expected.to_vec(), 0));
    server.run_to_end();
}

// RFC 7967 §2 (Q202)
#[test]
fn after_the_empty_ack_nothing_follows() {
    let mut server = Direct::new(EndpointConfig::default());
    let request = server.receive(1, &asking(Type::Confirmable, 5, NoResponse::SUCCESS)).request();
    assert_eq!(server.run(s(1)).kinds(), [(Type::Acknowledgement, Code::EMPTY)]);
    assert!(server.respond(request, changed()).sent.is_empty());
    assert!(server.run_to_end().sent.is_empty());
}

#[test]
fn no_response_also_suppresses_errors_of_the_endpoint() {
    let unknown: &[(u16, &[u8])] = &[(OPTION, &[NoResponse::CLIENT_ERROR.0]), (65_001, b"")];
    let mut server = Direct::new(EndpointConfig::default());
    let refused = server.receive(1, &wire::with_options(Type::Confirmable, Code::GET, 5, b"t", unknown, b""));
    assert_eq!(refused.kinds(), [(Type::Acknowledgement, Code::EMPTY)]);
    server.run_to_end();
}

#[test]
fn a_confirmable_request_that_wants_nothing_ends_well_with_the_empty_ack() {
    let mut client = Direct::new(EndpointConfig::default());
    client.endpoint.request(client.now, 1, telling(NoResponse::ALL, Reliability::Confirmable)).expect("room");
    let left = client.drain();
    let ended = client.receive(1, &ack_of(left.message()));
    assert!(is_unanswered(&ended.events), "{ended:?}");
    assert!(client.run_to_end().events.is_empty());
}

#[test]
fn an_unacknowledged_confirmable_request_with_no_response_times_out() {
    let mut client = Direct::new(EndpointConfig::default());
    client.endpoint.request(client.now, 1, telling(NoResponse::ALL, Reliability::Confirmable)).expect("room");
    let events = client.run_to_end().events;
    assert!(matches!(events[..], [Event::Failed { reason: Failure::TimedOut, .. }]), "{events:?}");
}

#[test]
fn a_non_confirmable_request_that_wants_nothing_ends_well_when_its_slot_is_free() {
    let mut client = Direct::new(EndpointConfig::default());
    client.endpoint.request(client.now, 1, telling(NoResponse::ALL, Reliability::NeverConfirmable)).expect("room");
    assert_eq!(client.drain().sent.len(), 1);
    assert!(is_unanswered(&client.run(s(10)).events));
    client.run_to_end();
}

#[test]
fn a_request_that_wants_errors_only_waits_for_them_and_ends_well_without() {
    for error in [true, false] {
        let mut client = Direct::new(EndpointConfig::default());
        let request = telling(NoResponse::SUCCESS, Reliability::Confirmable).with_timeout(s(20));
        client.endpoint.request(client.now, 1, request).expect("room");
        let left = client.drain();
        let acknowledged = client.receive(1, &ack_of(left.message()));
        assert!(matches!(acknowledged.events[..], [Event::Acknowledged { .. }]), "{acknowledged:?}");
        if error {
            let late = wire::separate(left.datagram(), Type::Confirmable, Code::NOT_FOUND, 77);
            let code = |event: &Event<Address>| match event {
                Event::Response { message, .. } => Some(OwnedMessage::code(message)),
                _ => None,
            };
            assert_eq!(client.receive(1, &late).events.iter().find_map(code), Some(Code::NOT_FOUND));
        } else {
            assert!(is_unanswered(&client.run(s(20)).events));
        }
        client.run_to_end();
    }
}
