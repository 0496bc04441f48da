//! Exchanges of an observer that end from outside: an ICMP error, a cancellation, a last state.

use conche_proto::cc::AnyController;
use conche_proto::codec::{Code, Type};
use conche_proto::{
    Endpoint, EndpointConfig, Event, Input, Reliability, Response, SourceValidation, TransmissionParameters,
};

use super::net::registration;
use crate::support::direct::{Given, ack_of, content};
use crate::support::{Direct, ms, s, wire};

/// A server with NSTART 2.
fn server() -> Direct {
    let transmission = TransmissionParameters { nstart: 2, ..TransmissionParameters::default() };
    let config = EndpointConfig { transmission, source_validation: SourceValidation::Off, ..EndpointConfig::default() };
    let mut server = Direct::new(EndpointConfig::default());
    let controller = AnyController::by_name("cocoa").expect("a known name");
    server.endpoint = Endpoint::new(config, controller, [23; 32]).expect("legal parameters");
    server
}

fn register(server: &mut Direct) {
    let request = server.receive(1, &registration(Type::Confirmable, 1, b"observed", 0)).request();
    server.endpoint.observe(server.now, request, 1).expect("room");
    server.respond(request, content("0"));
}

fn notify(server: &mut Direct, code: Code, state: &str, reliability: Option<Reliability>) -> Given {
    let response = Response { code, reliability, ..content(state) };
    server.endpoint.notify(server.now, 1, response).expect("legal");
    server.drain()
}

const CON: Option<Reliability> = Some(Reliability::Confirmable);

#[test]
fn an_unreachable_client_ends_its_first_response_and_the_notification_after_it_once() {
    let mut server = server();
    let request = server.receive(1, &registration(Type::Confirmable, 1, b"observed", 0)).request();
    server.endpoint.observe(server.now, request, 1).expect("room");
    server.run(ms(600));
    assert_eq!(server.respond(request, content("0")).kinds(), [(Type::Confirmable, Code::CONTENT)]);
    assert_eq!(notify(&mut server, Code::CONTENT, "1", CON).kinds(), [(Type::Confirmable, Code::CONTENT)]);
    server.endpoint.handle(server.now, Input::Unreachable { peer: 1, quoted: None }).expect("drained");
    let given = server.drain();
    assert!(matches!(given.events[..], [Event::Failed { .. }, Event::ObserverGone { .. }]), "{given:?}");
    assert_eq!(server.endpoint.occupancy().observers, 0);
    server.run_to_end();
}

#[test]
fn an_observer_whose_last_notification_is_cancelled_is_gone() {
    let mut server = server();
    register(&mut server);
    let given = notify(&mut server, Code::NOT_FOUND, "", None);
    let exchange = given.sent[0].0.exchange.expect("a notification is an exchange");
    assert!(server.endpoint.cancel(server.now, exchange));
    assert_eq!(server.endpoint.occupancy().observers, 0);
    server.run_to_end();
}

#[test]
fn a_state_that_waits_behind_a_notification_leaves_when_that_is_cancelled() {
    let mut server = server();
    register(&mut server);
    let given = notify(&mut server, Code::CONTENT, "1", CON);
    let exchange = given.sent[0].0.exchange.expect("a notification is an exchange");
    assert!(notify(&mut server, Code::CONTENT, "2", CON).sent.is_empty());
    assert!(server.endpoint.cancel(server.now, exchange));
    assert_eq!(server.drain().message().payload(), b"2");
}

#[test]
fn a_late_failure_of_an_earlier_response_leaves_the_newer_observer_with_its_token() {
    for (ty, rejected) in [(Type::Confirmable, true), (Type::Confirmable, false), (Type::NonConfirmable, true)] {
        let mut server = server();
        let request = server.receive(1, &registration(ty, 1, b"observed", 0)).request();
        server.endpoint.observe(server.now, request, 1).expect("room");
        server.run(ms(600));
        let earlier = server.respond(request, content("0")).message().header().id;
        let request = server.receive(1, &registration(Type::Confirmable, 2, b"observed", 0)).request();
        server.endpoint.observe(server.now, request, 1).expect("room");
        server.respond(request, content("0"));
        if rejected {
            server.receive(1, &wire::reset(earlier));
        } else {
            server.run(s(100));
        }
        assert_eq!((server.endpoint.occupancy().exchanges, server.endpoint.observers(1)), (0, 1), "{ty:?} {rejected}");
    }
}

#[test]
fn a_non_confirmable_first_response_that_is_rejected_ends_the_observation() {
    let mut server = server();
    let request = server.receive(1, &registration(Type::NonConfirmable, 1, b"observed", 0)).request();
    server.endpoint.observe(server.now, request, 1).expect("room");
    let response = server.respond(request, content("0")).message().header().id;
    let given = server.receive(1, &wire::reset(response));
    assert!(matches!(given.events[..], [Event::Rejected { .. }, Event::ObserverGone { .. }]), "{given:?}");
}

// RFC 7641 §4.2
#[test]
fn an_error_that_replaces_a_queued_notification_is_confirmable() {
    let mut server = Direct::new(EndpointConfig::default());
    register(&mut server);
    server.endpoint.ping(server.now, 1).expect("room");
    let ping = server.drain().message().header().id;
    assert!(notify(&mut server, Code::CONTENT, "1", None).sent.is_empty(), "the slot is taken");
    assert!(notify(&mut server, Code::NOT_FOUND, "", None).sent.is_empty());
    let last = server.receive(1, &wire::reset(ping));
    assert_eq!(last.kinds(), [(Type::Confirmable, Code::NOT_FOUND)]);
    let acknowledgement = ack_of(last.message());
    server.receive(1, &acknowledgement);
    assert_eq!(server.endpoint.occupancy().observers, 0);
    assert!(server.run(s(1_000)).sent.is_empty());
}
