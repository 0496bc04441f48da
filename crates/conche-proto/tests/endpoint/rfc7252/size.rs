//! Message size (RFC 7252 §4.6).

use conche_proto::codec::{Body, Code, OptionNumber, Type};
use conche_proto::{Limits, Request, RequestError};
use proptest::prelude::*;

use crate::support::{CLIENT, SERVER, STRANGER, World, request_with_payload, wire};

/// Size of an IP packet for an unknown path (RFC 7252 §4.6), and of its IPv6 and UDP headers, in
/// bytes.
const UNKNOWN_PATH: usize = 1280;
const HEADERS: usize = 40 + 8;

proptest! {
    // RFC 7252 §4.6 (Q33, Q34)
    #[test]
    fn messages_fit_the_minimum_ipv6_mtu_and_larger_bodies_go_in_blocks(payload in 0..2_000_usize, path in "[a-z]{0,64}") {
        let limit = Limits::default().message_bytes;
        prop_assert!(limit <= 1152 && limit + HEADERS <= UNKNOWN_PATH);
        let mut world = World::client();
        let body = Body::builder().path(&path).payload(vec![0; payload]).build().expect("a legal path");
        let bytes = 4 + 8 + body.len();
        let now = world.now;
        let answer = world.node(CLIENT).endpoint.request(now, SERVER, Request::new(Code::PUT, body));
        if let Ok(exchange) = answer {
            world.node(CLIENT).checker.opened(now, exchange, SERVER, None);
        }
        match answer {
            Ok(exchange) => {
                world.settle(CLIENT);
                let sent = world.first_copy(exchange).bytes.len();
                prop_assert!(sent <= limit);
                prop_assert!(bytes > limit || sent == bytes, "what fits is sent as it is");
            }
            Err(error) => {
                prop_assert_eq!(error, RequestError::TooLarge { bytes, limit });
                prop_assert!(payload == 0);
            }
        }
    }
}

// RFC 7252 §4.6 (Q34)
#[test]
fn a_payload_of_1024_bytes_leaves_room_for_header_and_options() {
    let mut world = World::client();
    let asked = world.request(request_with_payload(Code::PUT, &format!("/{}", "p".repeat(100)), 1024));
    let datagram = world.first_copy(asked);
    assert!(datagram.bytes.len() <= 1152, "{}", datagram.bytes.len());
    assert_eq!(datagram.message().payload().len(), 1024);
}

// RFC 7252 §4.6 (Q35)
#[test]
fn a_request_that_is_too_large_is_answered_4_13_from_its_header() {
    for (ty, answer) in [(Type::Confirmable, Type::Acknowledgement), (Type::NonConfirmable, Type::NonConfirmable)] {
        let mut world = World::server();
        let request = wire::with_options(ty, Code::PUT, 7, b"tok", &[(11, b"test")], &[b'z'; 1200]);
        world.inject(STRANGER, SERVER, &request);
        let [sent] = &world.sent[..] else { panic!("one answer, not {:?}", world.sent) };
        let message = sent.message();
        assert_eq!((message.header().ty, message.code()), (answer, Code::REQUEST_ENTITY_TOO_LARGE));
        assert_eq!(message.token().as_slice(), b"tok");
        assert_eq!(message.uint(OptionNumber::SIZE1), Some(65_536), "the largest body");
        let hint = message.content().block(OptionNumber::BLOCK1).expect("no reserved size");
        assert_eq!(hint.map(|block| block.size.bytes()), Some(1024), "what to send it in");
        assert!(world.app().calls.is_empty());
    }
}
