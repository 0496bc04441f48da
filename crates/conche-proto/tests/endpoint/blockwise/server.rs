//! A server with a simulated client: order, sizes, duplicates, retention.

use conche_proto::codec::{Block, BlockSize, Body, Code, OptionNumber, Type};
use conche_proto::{EndpointConfig, Limits, Response};

use super::{b64, block_message, block_of};
use crate::support::direct::{Given, changed};
use crate::support::fixture::body;
use crate::support::{Direct, s, wire};

const B1: OptionNumber = OptionNumber::BLOCK1;
const B2: OptionNumber = OptionNumber::BLOCK2;

fn server() -> Direct {
    Direct::new(EndpointConfig::default())
}

fn put(server: &mut Direct, id: u16, block: Block, payload: &[u8]) -> Given {
    server.receive(1, &block_message((Type::Confirmable, Code::PUT, id), "/u", &[(B1, block)], payload))
}

fn code_of(given: &Given) -> Code {
    assert!(given.requests().is_empty(), "the application is not asked");
    given.message().code()
}

fn content(bytes: usize, seed: usize) -> Response {
    Response::new(Code::CONTENT, Body::builder().payload(body(bytes, seed)).build().expect("no options"))
}

// RFC 7959 §2.9.1 (Q131)
#[test]
fn blocks_are_acknowledged_with_2_31_and_the_whole_is_one_request() {
    for ty in [Type::Confirmable, Type::NonConfirmable] {
        let (mut server, sent) = (server(), body(150, 1));
        for num in 0..2_usize {
            let id = num as u16;
            let message = block_message(
                (ty, Code::PUT, id),
                "/u",
                &[(B1, b64(num as u32, true))],
                &sent[64 * num..64 * num + 64],
            );
            let given = server.receive(1, &message);
            assert_eq!(code_of(&given), Code::CONTINUE);
            assert_eq!(block_of(given.message(), B1), Some(b64(num as u32, true)));
        }
        let last = block_message((ty, Code::PUT, 2), "/u", &[(B1, b64(2, false))], &sent[128..]);
        let given = server.receive(1, &last);
        let [conche_proto::Event::Request { message, .. }] = &given.events[..] else { panic!("{given:?}") };
        assert_eq!((message.payload(), message.header().ty, message.header().id.0), (&sent[..], ty, 2));
        assert_eq!((message.uri_path().as_str(), message.option(B1)), ("/u", None));
        let answer = server.respond(given.request(), changed());
        assert_eq!(block_of(answer.message(), B1), Some(b64(2, false)), "the response is that to the last block");
        server.run_to_end();
    }
}

// RFC 7959 §2.5 (Q128)
// RFC 7959 §2.9.2 (Q136)
#[test]
fn blocks_out_of_order_are_answered_4_08() {
    for (blocks, codes) in [
        (&[1][..], &[Code::REQUEST_ENTITY_INCOMPLETE][..]),
        (&[0, 2], &[Code::CONTINUE, Code::REQUEST_ENTITY_INCOMPLETE]),
        (&[0, 1, 3, 2], &[Code::CONTINUE, Code::CONTINUE, Code::REQUEST_ENTITY_INCOMPLETE, Code::CONTINUE]),
        (
            &[0, 1, 1, 0, 2],
            &[Code::CONTINUE, Code::CONTINUE, Code::CONTINUE, Code::CONTINUE, Code::REQUEST_ENTITY_INCOMPLETE],
        ),
        (&[0, Block::MAX_NUM], &[Code::CONTINUE, Code::REQUEST_ENTITY_INCOMPLETE]),
    ] {
        let mut server = server();
        for ((&num, &code), id) in blocks.iter().zip(codes).zip(0..) {
            assert_eq!(code_of(&put(&mut server, id, b64(num, true), &[b'x'; 64])), code, "{num} of {blocks:?}");
        }
    }
    let mut server = server();
    put(&mut server, 0, b64(0, true), &[b'x'; 64]);
    put(&mut server, 1, b64(1, true), &[b'x'; 64]);
    let other = put(&mut server, 2, b64(1, true), &[b'y'; 64]);
    assert_eq!(code_of(&other), Code::REQUEST_ENTITY_INCOMPLETE, "no block says two things");
}

// RFC 7959 §2.2 (Q120, Q121)
#[test]
fn sizes_that_are_reserved_or_not_those_of_the_payload_are_answered_4_00() {
    for number in [23, 27] {
        let mut server = server();
        let message = wire::with_options(Type::Confirmable, Code::PUT, 1, b"t", &[(number, b"\x0f")], &[1; 64]);
        assert_eq!(code_of(&server.receive(1, &message)), Code::BAD_REQUEST);
    }
    for (more, bytes) in [(true, 0), (true, 63), (true, 65), (false, 65)] {
        assert_eq!(code_of(&put(&mut server(), 1, b64(0, more), &vec![1; bytes])), Code::BAD_REQUEST);
    }
}

#[test]
fn a_copy_of_a_block_gets_the_same_answer_and_is_not_counted_twice() {
    let mut server = server();
    let first = put(&mut server, 7, b64(0, true), &[1; 64]);
    for _ in 0..3 {
        assert_eq!(put(&mut server, 7, b64(0, true), &[1; 64]).datagram(), first.datagram());
    }
    let last = put(&mut server, 8, b64(1, false), &[2; 6]);
    let answer = server.respond(last.request(), changed());
    let copy = put(&mut server, 8, b64(1, false), &[2; 6]);
    assert_eq!((copy.datagram(), copy.requests().len()), (answer.datagram(), 0));
    assert_eq!(put(&mut server, 7, b64(0, true), &[1; 64]).datagram(), first.datagram(), "not even afterwards");
    assert_eq!(server.endpoint.occupancy().assemblies, 0);
    server.run_to_end();
}

// RFC 7959 §2.3 (Q129)
#[test]
fn peer_method_resource_and_options_identify_a_block_transfer() {
    let mut server = server();
    let block = |path: &str, num| {
        block_message((Type::Confirmable, Code::PUT, num as u16), path, &[(B1, b64(num, true))], &[1; 64])
    };
    assert_eq!(code_of(&server.receive(1, &block("/a", 0))), Code::CONTINUE);
    assert_eq!(code_of(&server.receive(2, &block("/a", 1))), Code::REQUEST_ENTITY_INCOMPLETE);
    assert_eq!(code_of(&server.receive(1, &block("/b", 1))), Code::REQUEST_ENTITY_INCOMPLETE);
    let formatted =
        wire::with_options(Type::Confirmable, Code::PUT, 9, b"t", &[(11, b"a"), (12, b"2"), (27, b"\x1a")], &[1; 64]);
    assert_eq!(code_of(&server.receive(1, &formatted)), Code::REQUEST_ENTITY_INCOMPLETE);
    let tagged =
        wire::with_options(Type::Confirmable, Code::PUT, 10, b"t", &[(11, b"a"), (27, b"\x1a"), (292, b"x")], &[1; 64]);
    assert_eq!(code_of(&server.receive(1, &tagged)), Code::REQUEST_ENTITY_INCOMPLETE, "Request-Tag (RFC 9175 §3)");
    let post = block_message((Type::Confirmable, Code::POST, 11), "/a", &[(B1, b64(1, true))], &[1; 64]);
    assert_eq!(code_of(&server.receive(1, &post)), Code::REQUEST_ENTITY_INCOMPLETE);
    assert_eq!(code_of(&server.receive(1, &block("/a", 1))), Code::CONTINUE, "that one fits");
}

// RFC 7959 §2.9.3 (Q132)
#[test]
fn a_body_over_the_limit_is_answered_4_13_with_size1_and_forgotten() {
    let limits = Limits { body_bytes: 100, ..Limits::default() };
    let mut server = Direct::with_limits(limits);
    put(&mut server, 1, b64(0, true), &[1; 64]);
    assert_eq!(server.endpoint.occupancy().assemblies, 1);
    let options: &[(u16, &[u8])] = &[(11, b"u"), (27, b"\x0a"), (60, b"\x65")];
    let announced = wire::with_options(Type::Confirmable, Code::PUT, 2, b"t", options, &[1; 64]);
    let given = server.receive(1, &announced);
    assert_eq!(code_of(&given), Code::REQUEST_ENTITY_TOO_LARGE);
    assert_eq!(given.message().uint(OptionNumber::SIZE1), Some(100));
    let occupancy = server.endpoint.occupancy();
    assert_eq!((occupancy.assemblies, occupancy.body_bytes), (0, 0));
}

// RFC 7959 §2.9.3 (Q132)
#[test]
fn a_body_that_outgrows_the_limit_without_a_word_of_its_size_is_answered_4_13() {
    let limits = Limits { body_bytes: 128, ..Limits::default() };
    let mut server = Direct::with_limits(limits);
    for num in 0..2 {
        assert_eq!(code_of(&put(&mut server, num as u16, b64(num, true), &[1; 64])), Code::CONTINUE);
    }
    let given = put(&mut server, 2, b64(2, true), &[1; 64]);
    assert_eq!(code_of(&given), Code::REQUEST_ENTITY_TOO_LARGE);
    assert_eq!(given.message().uint(OptionNumber::SIZE1), Some(128));
    assert_eq!(server.endpoint.occupancy().assemblies, 0);
    // A duplicate, after a lost answer, gets the same answer (RFC 7252 §4.5).
    let copy = put(&mut server, 2, b64(2, true), &[1; 64]);
    assert_eq!(copy.message().view().as_bytes(), given.message().view().as_bytes());
    // The earlier blocks were dropped.
    assert_eq!(code_of(&put(&mut server, 3, b64(3, true), &[1; 64])), Code::REQUEST_ENTITY_INCOMPLETE);
}

// RFC 7959 §2.4 (Q122, Q126)
#[test]
fn blocks_that_are_asked_for_later_are_of_the_state_that_the_first_was_of() {
    let mut server = server();
    let get = |id, num| block_message((Type::Confirmable, Code::GET, id), "/l", &[(B2, b64(num, true))], b"");
    let asked = server.receive(1, &get(1, 0)).request();
    let first = server.respond(asked, content(150, 1));
    let message = first.message();
    assert_eq!((message.payload(), block_of(message, B2)), (&body(150, 1)[..64], Some(b64(0, true))));
    assert_eq!(message.uint(OptionNumber::SIZE2), Some(150));
    let etag = message.option(OptionNumber::ETAG).expect("by it a client tells bodies apart").to_vec();
    for (num, range) in [(2, 128..150), (1, 64..128), (2, 128..150)] {
        let given = server.receive(1, &get(10 + num as u16, num));
        assert!(given.requests().is_empty());
        assert_eq!(given.message().payload(), &body(150, 1)[range]);
        assert_eq!(given.message().option(OptionNumber::ETAG), Some(&etag[..]));
    }
    assert_eq!(code_of(&server.receive(1, &get(20, 3))), Code::BAD_REQUEST, "the body ends before");
    assert_eq!(code_of(&server.receive(1, &get(21, Block::MAX_NUM))), Code::BAD_REQUEST);
    // Another client gets a new response, cut to the requested block.
    let asked = server.receive(2, &get(30, 2)).request();
    let other = server.respond(asked, content(150, 2));
    assert_eq!(other.message().payload(), &body(150, 2)[128..]);
    assert_ne!(other.message().option(OptionNumber::ETAG), Some(&etag[..]));
    server.run_to_end();
}

#[test]
fn an_etag_of_the_application_stays_and_a_post_is_not_asked_again_for_a_block() {
    let mut server = server();
    let post = |id, num| block_message((Type::Confirmable, Code::POST, id), "/l", &[(B2, b64(num, false))], b"");
    let asked = server.receive(1, &post(1, 0)).request();
    let tagged = Body::builder().option(OptionNumber::ETAG, b"mine").payload(body(100, 1)).build().expect("legal");
    let first = server.respond(asked, Response::new(Code::CHANGED, tagged));
    assert_eq!(first.message().option(OptionNumber::ETAG), Some(&b"mine"[..]));
    assert_eq!(server.receive(1, &post(2, 1)).message().payload(), &body(100, 1)[64..]);
    server.run(s(300));
    assert_eq!(code_of(&server.receive(1, &post(3, 1))), Code::REQUEST_ENTITY_INCOMPLETE);
    server.run_to_end();
}

#[test]
fn small_bodies_and_errors_are_sent_whole_for_any_requested_block() {
    let mut server = server();
    let get = |id, num| block_message((Type::Confirmable, Code::GET, id), "/l", &[(B2, b64(num, false))], b"");
    let asked = server.receive(1, &get(1, 0)).request();
    let small = server.respond(asked, content(10, 1));
    assert_eq!((small.message().payload().len(), block_of(small.message(), B2)), (10, Some(b64(0, false))));
    let asked = server.receive(1, &get(2, 5)).request();
    let error = server.respond(asked, Response::new(Code::NOT_FOUND, wire::payload("gone")));
    assert_eq!((error.message().code(), block_of(error.message(), B2)), (Code::NOT_FOUND, None));
    assert_eq!(server.endpoint.occupancy().representations, 0);
}

#[test]
fn messages_stay_within_their_limit_however_small_it_is() {
    for message_bytes in [64, 65, 80, 100, 128, 200, 576, 1_152] {
        let mut server = Direct::with_limits(Limits { message_bytes, ..Limits::default() });
        let asked = server.receive(1, &block_message((Type::Confirmable, Code::GET, 1), "/l", &[], b"")).request();
        let large = Body::builder().uint(OptionNumber::MAX_AGE, 5).payload(body(3_000, 1)).build().expect("legal");
        let first = server.respond(asked, Response::new(Code::CONTENT, large));
        let mut got = first.message().payload().to_vec();
        let mut block = block_of(first.message(), B2).expect("it is cut");
        while block.more {
            let next = Block { num: block.num + 1, more: false, ..block };
            let get = block_message((Type::Confirmable, Code::GET, 2 + next.num as u16), "/l", &[(B2, next)], b"");
            let given = server.receive(1, &get);
            assert!(given.datagram().len() <= message_bytes);
            got.extend(given.message().payload());
            block = block_of(given.message(), B2).expect("a block");
        }
        assert!(got == body(3_000, 1), "messages of {message_bytes}");
    }
}

// RFC 7959 §2.4 (Q123)
#[test]
fn the_size_of_a_size_is_that_of_the_smaller_side() {
    let block_size = BlockSize::B128;
    let mut server = Direct::new(EndpointConfig { block_size, ..EndpointConfig::default() });
    let wanted = Block { num: 1, more: false, size: BlockSize::B1024 };
    let get = block_message((Type::Confirmable, Code::GET, 1), "/l", &[(B2, wanted)], b"");
    let asked = server.receive(1, &get).request();
    let given = server.respond(asked, content(2_000, 1));
    assert_eq!(block_of(given.message(), B2), Some(Block { num: 8, more: true, size: BlockSize::B128 }));
    assert_eq!(given.message().payload(), &body(2_000, 1)[1_024..1_152]);
}
