//! Minimum limits: the endpoint's own messages still fit, and meaningless limits are refused.

use conche_proto::cc::AnyController;
use conche_proto::codec::{Code, OptionNumber, Type};
use conche_proto::{ConfigError, Endpoint, EndpointConfig, Input, Limits};

use crate::support::direct::{changed, con, content};
use crate::support::world::{by_name, seed_of};
use crate::support::{Direct, s, wire};

const LEAST: usize = 64;
const TOKEN: &[u8] = b"12345678";

fn server(incoming: usize) -> Direct {
    Direct::with_limits(Limits { message_bytes: LEAST, incoming, ..Limits::default() })
}

#[test]
fn every_answer_of_the_endpoint_itself_fits_the_smallest_message() {
    let long_name = [b'p'; 30];
    let proxied: &[(u16, &[u8])] = &[(35, &long_name)];
    let cases = [
        (Code::BAD_OPTION, wire::with_options(Type::Confirmable, Code::GET, 1, TOKEN, &[(65_001, b"")], b"")),
        (Code::BAD_OPTION, wire::with_options(Type::Confirmable, Code::GET, 1, TOKEN, &[(65_535, b"")], b"")),
        (Code::REQUEST_ENTITY_TOO_LARGE, wire::with_options(Type::Confirmable, Code::PUT, 1, TOKEN, &[], &[b'x'; 60])),
        (Code::REQUEST_ENTITY_TOO_LARGE, wire::with_options(Type::NonConfirmable, Code::PUT, 1, TOKEN, &[], &[1; 900])),
        (Code::PROXYING_NOT_SUPPORTED, wire::with_options(Type::Confirmable, Code::GET, 1, TOKEN, proxied, b"")),
        (Code::PROXYING_NOT_SUPPORTED, wire::with_options(Type::NonConfirmable, Code::GET, 1, TOKEN, proxied, b"")),
    ];
    for (code, datagram) in cases {
        let mut server = server(1);
        let given = server.receive(1, &datagram);
        let message = given.message();
        assert_eq!((message.code(), message.token().as_slice()), (code, TOKEN));
        assert!(given.datagram().len() <= LEAST, "{} bytes", given.datagram().len());
        assert!(!message.payload().is_empty(), "{code} says why");
        if code == Code::REQUEST_ENTITY_TOO_LARGE {
            assert_eq!(message.uint(OptionNumber::SIZE1), Some(65_536), "it would be accepted in blocks");
            assert!(message.option(OptionNumber::BLOCK1).is_some(), "and is told so");
        }
    }
}

#[test]
fn a_refusal_for_want_of_room_fits_the_smallest_message() {
    let retry_after = s(u64::from(u32::MAX));
    let limits = Limits { message_bytes: LEAST, incoming: 1, ..Limits::default() };
    let mut server = Direct::new(EndpointConfig { limits, retry_after, ..EndpointConfig::default() });
    let waiting = server.receive(1, &con(Code::GET, 1)).request();
    let refused = server.receive(1, &con(Code::GET, 2));
    assert_eq!(refused.message().code(), Code::SERVICE_UNAVAILABLE);
    assert_eq!(refused.message().uint(OptionNumber::MAX_AGE), Some(u32::MAX));
    assert!(refused.datagram().len() <= LEAST);
    server.respond(waiting, changed());
    server.run_to_end();
}

fn made(limits: Limits) -> Result<Endpoint<u32, AnyController>, ConfigError> {
    Endpoint::new(EndpointConfig { limits, ..EndpointConfig::default() }, by_name("default"), seed_of(1))
}

#[test]
fn an_endpoint_that_could_not_work_is_not_made() {
    let good = Limits::default;
    let refused = [
        Limits { peers: 0, ..good() },
        Limits { queue_per_peer: 0, ..good() },
        Limits { queue: 0, ..good() },
        Limits { exchanges: 0, ..good() },
        Limits { incoming: 0, ..good() },
        Limits { outputs: 0, ..good() },
        Limits { message_bytes: 48, ..good() },
        Limits { message_bytes: 65_536, ..good() },
        Limits { peers: usize::MAX, ..good() },
    ];
    for limits in refused {
        let error = made(limits.clone()).expect_err("it must be refused");
        assert!(matches!(error, ConfigError::Limit { .. }), "{limits:?}: {error}");
    }
}

#[test]
fn an_endpoint_with_the_least_of_everything_serves_one_request_after_the_other() {
    let mut server = Direct::with_limits(Limits::MIN);
    for n in 0..1_000 {
        let given = server.receive(n, &con(Code::GET, n as u16));
        assert_eq!(server.respond(given.request(), changed()).kinds(), [(Type::Acknowledgement, Code::CHANGED)]);
        let post = server.receive(n, &con(Code::POST, n as u16));
        assert_eq!(post.kinds(), [(Type::Acknowledgement, Code::SERVICE_UNAVAILABLE)], "it could not be remembered");
    }
    server.run_to_end();
}

#[test]
fn a_response_is_sent_even_if_its_deduplication_entry_was_evicted() {
    for payload in ["short", "a reply that has memory of its own"] {
        let limits = Limits { message_bytes: LEAST, deduplication_bytes: 1024, ..Limits::default() };
        let mut server = Direct::with_limits(limits);
        let request = server.receive(1, &con(Code::GET, 1)).request();
        server.endpoint.respond(server.now, request, content(payload)).expect("the request waits");
        for n in 2..30 {
            server.endpoint.handle(server.now, Input::datagram(n, &con(Code::GET, 1))).expect("there is room");
        }
        let given = server.drain();
        assert_eq!(given.kinds(), [(Type::Acknowledgement, Code::CONTENT)]);
        assert_eq!(given.message().payload(), payload.as_bytes());
        let again = server.receive(1, &con(Code::GET, 1));
        assert_eq!(again.requests().len(), 1, "it was forgotten");
        for request in given.requests().into_iter().chain(again.requests()) {
            server.respond(request, changed());
        }
        server.run_to_end();
    }
}

#[test]
fn the_largest_message_there_is_is_sent_and_taken() {
    let limits = Limits { message_bytes: 65_535, ..Limits::default() };
    let mut server = Direct::with_limits(limits);
    let room = 65_535 - 4 - TOKEN.len() - 1;
    let datagram = wire::message(
        Type::Confirmable,
        Code::POST,
        conche_proto::codec::MessageId(1),
        &conche_proto::codec::Token::new(TOKEN).expect("eight bytes"),
        &wire::payload(&"x".repeat(room)),
    );
    assert_eq!(datagram.len(), 65_535);
    let request = server.receive(1, &datagram).request();
    let given = server.respond(request, content(&"y".repeat(room)));
    assert_eq!(given.datagram().len(), 65_535);
    assert_eq!(server.receive(1, &datagram).message().payload().len(), room, "a copy gets the same");
    server.run_to_end();
}
