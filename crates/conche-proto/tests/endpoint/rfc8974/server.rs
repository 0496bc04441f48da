//! Extended tokens of peers: echoed, refused, and limited.

use conche_proto::codec::{Code, Message, MessageId, OptionNumber, Type};
use conche_proto::{EndpointConfig, Limits, Response};

use crate::support::direct::{ack_of, changed, content};
use crate::support::{Direct, s, wire};

/// Around each form of the length.
const LENGTHS: [usize; 8] = [8, 9, 12, 13, 14, 268, 269, 300];

fn config(longest_token: usize) -> EndpointConfig {
    EndpointConfig { longest_token, ..EndpointConfig::default() }
}

fn token(length: usize) -> Vec<u8> {
    (0..length).map(|byte| byte as u8).collect()
}

fn echoed(datagram: &[u8], token: &[u8]) -> (Type, Code) {
    let message = wire::decode(datagram);
    assert_eq!(message.token_bytes(), token);
    (message.ty(), message.code())
}

// RFC 8974 §2.1 (Q401)
#[test]
fn every_kind_of_response_carries_the_long_token_of_its_request() {
    for token in LENGTHS.map(token) {
        let mut server = Direct::new(config(300));
        let request = |ty, code, id| wire::bare(ty, code, id, &token);

        let post = request(Type::Confirmable, Code::POST, 1);
        let asked = server.receive(1, &post).request();
        let piggybacked = server.respond(asked, changed()).datagram().to_vec();
        assert_eq!(echoed(&piggybacked, &token), (Type::Acknowledgement, Code::CHANGED));
        assert_eq!(server.receive(1, &post).datagram(), piggybacked, "a copy gets the same");

        let asked = server.receive(1, &request(Type::NonConfirmable, Code::GET, 2)).request();
        let non = server.respond(asked, content("21.5"));
        assert_eq!(echoed(non.datagram(), &token), (Type::NonConfirmable, Code::CONTENT));

        let asked = server.receive(1, &request(Type::Confirmable, Code::GET, 3)).request();
        assert_eq!(server.run(s(1)).message().code(), Code::EMPTY);
        let separate = server.respond(asked, content("21.5"));
        assert_eq!(echoed(separate.datagram(), &token), (Type::Confirmable, Code::CONTENT));
        let again = server.run(s(4));
        assert_eq!(again.datagram(), separate.datagram(), "it is retransmitted as it is");
        server.receive(1, &ack_of(again.message()));

        let unknown = wire::with_options(Type::Confirmable, Code::GET, 4, &token, &[(65_001, b"")], b"");
        let refused = server.receive(1, &unknown);
        assert_eq!(echoed(refused.datagram(), &token), (Type::Acknowledgement, Code::BAD_OPTION));
        server.run_to_end();
    }
}

// RFC 8974 §2.1 (Q401)
#[test]
fn blocks_of_a_body_come_with_the_long_token_of_each_request_and_fit_into_a_message() {
    for token in LENGTHS.map(token) {
        let mut server = Direct::new(config(300));
        let asked = server.receive(1, &wire::bare(Type::Confirmable, Code::GET, 1, &token)).request();
        let first = server.respond(asked, content(&"x".repeat(2_000)));
        assert_eq!(echoed(first.datagram(), &token), (Type::Acknowledgement, Code::CONTENT));
        let block = first.message().content().block(OptionNumber::BLOCK2).expect("legal").expect("it is too large");
        let mut body = first.message().payload().to_vec();
        for num in 1..2_000_u32.div_ceil(block.size.bytes() as u32) {
            let option = conche_proto::codec::Block { num, ..block }.encode();
            let id = 10 + num as u16;
            let options = [(OptionNumber::BLOCK2.0, option.as_slice())];
            let next = server.receive(1, &wire::with_options(Type::Confirmable, Code::GET, id, &token, &options, b""));
            assert_eq!(echoed(next.datagram(), &token), (Type::Acknowledgement, Code::CONTENT));
            body.extend(next.message().payload());
        }
        assert_eq!(body, "x".repeat(2_000).into_bytes());
        server.run_to_end();
    }
}

// RFC 8974 §2.1 (Q401)
#[test]
fn an_observer_with_a_long_token_is_notified_under_it_and_deregisters_with_it() {
    for token in LENGTHS.map(token) {
        let mut server = Direct::new(config(300));
        let observe = |id, value: &[u8]| {
            let options = [(OptionNumber::OBSERVE.0, value)];
            wire::with_options(Type::Confirmable, Code::GET, id, &token, &options, b"")
        };
        let asked = server.receive(1, &observe(1, b"")).request();
        server.endpoint.observe(server.now, asked, 7).expect("room");
        server.respond(asked, content("0"));
        for state in ["1".to_owned(), "x".repeat(2_000)] {
            let notified = server.endpoint.notify(server.now, 7, content(&state));
            assert_eq!(notified, Ok(1));
            let given = server.run(s(1));
            let (ty, code) = echoed(given.datagram(), &token);
            assert_eq!((code, given.message().option(OptionNumber::OBSERVE).is_some()), (Code::CONTENT, true));
            if ty == Type::Confirmable {
                server.receive(1, &ack_of(given.message()));
            }
            server.run(s(20));
        }
        let mut longer = token.clone();
        longer.push(1);
        server.receive(1, &wire::bare(Type::Confirmable, Code::GET, 2, &longer));
        assert_eq!(server.endpoint.observers(7), 1, "another token is another observer");
        let asked = server.receive(1, &observe(3, b"\x01")).request();
        server.respond(asked, content("0"));
        assert_eq!(server.endpoint.observers(7), 0);
        assert_eq!(server.endpoint.occupancy().observers, 0);
    }
}

// RFC 8974 §2.2.2 (Q404, Q405)
#[test]
fn a_token_longer_than_the_limit_is_answered_with_4_00_under_it_and_not_rejected() {
    let mut server = Direct::new(config(12));
    for length in [13, 300, 1_146] {
        for ty in [Type::Confirmable, Type::NonConfirmable] {
            let token = token(length);
            let datagram = [&[0x40 | u8::from(ty == Type::NonConfirmable) << 4][..], &[1, 0, length as u8]].concat();
            let datagram = match length {
                13..269 => [&[datagram[0] | 13][..], &datagram[1..], &[length as u8 - 13], &token].concat(),
                _ => [&[datagram[0] | 14][..], &datagram[1..], &(length as u16 - 269).to_be_bytes(), &token].concat(),
            };
            let given = server.receive(1, &datagram);
            assert!(given.events.is_empty());
            let expected = if ty == Type::Confirmable { Type::Acknowledgement } else { Type::NonConfirmable };
            assert_eq!(echoed(given.datagram(), &token), (expected, Code::BAD_REQUEST));
            assert!(given.datagram().len() <= 1152);
        }
    }
    let given = server.receive(1, &wire::bare(Type::Confirmable, Code::GET, 9, &token(300)));
    assert_eq!(given.message().payload(), b"tokens of up to 12 bytes are accepted");
    server.run_to_end();
}

#[test]
fn a_token_that_leaves_no_room_for_an_answer_is_a_format_error() {
    let mut server = Direct::new(config(65_804));
    let given = server.receive(1, &wire::bare(Type::Confirmable, Code::GET, 9, &token(1_147)));
    assert_eq!(given.kinds(), [(Type::Reset, Code::EMPTY)]);
    assert!(server.receive(1, &wire::bare(Type::NonConfirmable, Code::GET, 9, &token(1_147))).sent.is_empty());
}

#[test]
fn a_refusal_of_a_too_large_request_fits_beside_its_token() {
    let limits = Limits { message_bytes: 64, ..Limits::default() };
    let (mut server, token): (Direct, _) = (Direct::new(EndpointConfig { limits, ..config(300) }), token(57));
    let refused = server.receive(1, &wire::with_options(Type::Confirmable, Code::PUT, 1, &token, &[], &[1; 64]));
    assert_eq!(echoed(refused.datagram(), &token), (Type::Acknowledgement, Code::REQUEST_ENTITY_TOO_LARGE));
    assert!(refused.datagram().len() <= 64, "{refused:?}");
}

#[test]
fn more_than_half_of_a_message_is_never_a_token_s() {
    let mut server = Direct::new(config(65_804));
    let given = server.receive(1, &wire::bare(Type::Confirmable, Code::GET, 1, &token(577)));
    assert_eq!(echoed(given.datagram(), &token(577)), (Type::Acknowledgement, Code::BAD_REQUEST));
    let asked = server.receive(1, &wire::bare(Type::Confirmable, Code::GET, 2, &token(576))).request();
    let whole = server.respond(asked, content(&"x".repeat(4_000)));
    assert_eq!(echoed(whole.datagram(), &token(576)), (Type::Acknowledgement, Code::CONTENT));
    assert_eq!(whole.message().payload().len(), 512);
}

// RFC 8974 §2.1 (Q403)
#[test]
fn without_the_extension_every_long_token_is_a_format_error() {
    let mut server = Direct::new(config(8));
    for tkl in 9..=15 {
        let con = [&[0x40 | tkl, 1, 0, 7][..], &[0; 300]].concat();
        assert_eq!(server.receive(1, &con).kinds(), [(Type::Reset, Code::EMPTY)]);
        let non = [&[0x50 | tkl, 1, 0, 7][..], &[0; 300]].concat();
        assert!(server.receive(1, &non).sent.is_empty());
        let with_extension = Direct::new(config(300)).receive(1, &con).kinds();
        let understood = Message::decode_extended(&con).is_ok();
        assert_eq!(with_extension == [(Type::Reset, Code::EMPTY)], !understood, "TKL {tkl}");
    }
}

// RFC 8974 §2.2.2 (Q406)
#[test]
fn long_tokens_of_pending_requests_are_bounded_and_the_excess_gets_5_03() {
    const PLACES: usize = 256;
    let limits = Limits { incoming: PLACES, ..Limits::default() };
    let mut server = Direct::new(EndpointConfig { limits, ..config(500) });
    let long = token(500);
    let fill = |server: &mut Direct, first_id: u16| {
        let mut waiting = Vec::new();
        for source in 0..100 {
            for id in 0..8 {
                let given = server.receive(source, &wire::bare(Type::Confirmable, Code::GET, first_id + id, &long));
                match given.requests()[..] {
                    [request] => waiting.push(request),
                    _ => {
                        assert_eq!(echoed(given.datagram(), &long), (Type::Acknowledgement, Code::SERVICE_UNAVAILABLE))
                    }
                }
            }
        }
        waiting
    };
    let waiting = fill(&mut server, 0);
    assert!((10..=PLACES * 128 / 500).contains(&waiting.len()), "{} requests wait", waiting.len());
    let places = |server: &Direct| server.endpoint.occupancy().incoming;
    assert_eq!(places(&server), waiting.len());
    for request in &waiting {
        server.respond(*request, changed());
    }
    let again = fill(&mut server, 100);
    assert_eq!(again.len(), waiting.len(), "what is answered gives back what it took");
    // Their late responses take the same room until they are acknowledged.
    server.run(s(1));
    for request in again {
        server.respond(request, Response { reliability: None, ..content("late") });
    }
    assert!(fill(&mut server, 200).is_empty());
    server.run_to_end();
    assert_eq!(fill(&mut server, 300).len(), waiting.len());
}

#[test]
fn observers_with_long_tokens_count_as_several() {
    let limits = Limits { observers: 100, observers_per_peer: 100, ..Limits::default() };
    let mut server = Direct::new(EndpointConfig { limits, ..config(500) });
    let options = [(OptionNumber::OBSERVE.0, &b""[..])];
    let register = |server: &mut Direct, source: u32, id: u16, length: usize| {
        let token = [&token(length)[..], &id.to_be_bytes()].concat();
        let get = wire::with_options(Type::Confirmable, Code::GET, id, &token, &options, b"");
        let asked = server.receive(source, &get).request();
        let observer = server.endpoint.observe(server.now, asked, 7);
        server.respond(asked, content("0"));
        observer.is_some()
    };
    let mut held = |first: u16| {
        for n in first..first + 100 {
            register(&mut server, n.into(), n, 450);
        }
        server.endpoint.dismiss_all(server.now, 7)
    };
    let long = held(0);
    assert!((10..=20).contains(&long), "{long} observers of 5 places each");
    assert_eq!(held(1_000), long, "an observer that is gone gives back its places");
}

#[test]
fn a_reset_finds_the_response_with_a_long_token_that_it_rejects() {
    let mut server = Direct::new(config(300));
    let asked = server.receive(1, &wire::bare(Type::NonConfirmable, Code::GET, 1, &token(20))).request();
    let sent = server.respond(asked, content("21.5"));
    let MessageId(id) = sent.message().header().id;
    let given = server.receive(1, &wire::reset(MessageId(id)));
    let [conche_proto::Event::Rejected { from: 1, token: rejected }] = &given.events[..] else { panic!("{given:?}") };
    assert_eq!(rejected.as_slice(), token(20));
}
