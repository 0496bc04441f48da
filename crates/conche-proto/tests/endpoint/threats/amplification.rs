//! Forged addresses get at most three times the bytes sent in their name, including pings and Echo
//! challenges.

use std::collections::HashMap;

use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, OwnedMessage, Token, Type};
use conche_proto::{EndpointConfig, Event, QBlock, Reliability, RequestId, Response, SourceValidation};
use proptest::prelude::*;

use crate::support::direct::{Given, ack_of, changed, content};
use crate::support::{Direct, ms, s, wire};

const TOPIC: u64 = 1;

fn server() -> Direct {
    let q_block = Some(QBlock::default());
    Direct::validating(EndpointConfig { q_block, ..EndpointConfig::default() })
}

/// A ping is no proof.
fn echo_server() -> Direct {
    let (q_block, source_validation) = (Some(QBlock::default()), SourceValidation::Echo);
    Direct::validating(EndpointConfig { q_block, source_validation, ..EndpointConfig::default() })
}

fn request((ty, code, id): (Type, Code, u16), options: &[(OptionNumber, &[u8])], payload: &[u8]) -> Vec<u8> {
    let add = |body: conche_proto::codec::BodyBuilder, &(number, value): &(_, &[u8])| body.option(number, value);
    let body = options.iter().fold(Body::builder().path("/r"), add).payload(payload.to_vec()).build();
    let token = Token::new(b"four").expect("four bytes");
    wire::message(ty, code, MessageId(id), &token, &body.expect("legal options"))
}

fn echo_of(given: &Given) -> Vec<u8> {
    assert_eq!(given.message().code(), Code::UNAUTHORIZED);
    given.message().option(OptionNumber::ECHO).expect("a challenge").to_vec()
}

// RFC 7252 §11.3 (Q94), RFC 9175 §2.4 (Q304)
#[test]
fn a_large_response_takes_a_round_trip_with_echo_and_those_after_it_none() {
    let mut server = echo_server();
    let get = |id, options: &[(OptionNumber, &[u8])]| request((Type::Confirmable, Code::GET, id), options, b"");
    let asked = server.receive(1, &get(1, &[])).request();
    let echo = echo_of(&server.respond(asked, content(&"x".repeat(500))));
    // The Echo value is useless to others.
    let asked = server.receive(2, &get(1, &[(OptionNumber::ECHO, &echo)])).request();
    assert_eq!(server.respond(asked, content(&"x".repeat(500))).message().code(), Code::UNAUTHORIZED);
    for (id, options) in [(2, &[(OptionNumber::ECHO, &echo[..])][..]), (3, &[])] {
        let asked = server.receive(1, &get(id, options)).request();
        assert_eq!(server.respond(asked, content(&"x".repeat(500))).message().payload().len(), 500);
    }
    server.run(s(247));
    let asked = server.receive(1, &get(4, &[])).request();
    assert_eq!(server.respond(asked, content(&"x".repeat(500))).message().code(), Code::UNAUTHORIZED);
    let asked = server.receive(1, &get(5, &[])).request();
    assert_eq!(server.respond(asked, content("small")).message().payload(), b"small", "which needs no more");
}

// RFC 9175 §2.4 (Q304)
#[test]
fn a_request_that_has_an_effect_or_asks_for_more_is_challenged_with_echo_before_the_application_sees_it() {
    let observe: &[(OptionNumber, &[u8])] = &[(OptionNumber::OBSERVE, b"")];
    let first_of_bursts: &[(OptionNumber, &[u8])] = &[(OptionNumber::Q_BLOCK2, b"")];
    let with_effect = [(Code::POST, &[][..]), (Code::PATCH, &[])];
    let followed_by_more = [(Code::GET, observe), (Code::FETCH, observe), (Code::GET, first_of_bursts)];
    for (code, options) in with_effect.into_iter().chain(followed_by_more) {
        for ty in [Type::Confirmable, Type::NonConfirmable] {
            let mut server = echo_server();
            let given = server.receive(1, &request((ty, code, 1), options, b""));
            assert!(given.events.is_empty(), "{given:?}");
            let echo = echo_of(&given);
            let proved = [options, &[(OptionNumber::ECHO, &echo)]].concat();
            let asked = server.receive(1, &request((ty, code, 2), &proved, b"")).request();
            assert!(server.endpoint.observe(server.now, asked, TOPIC).is_some());
            server.respond(asked, changed());
        }
    }
}

// RFC 9175 §2.4 (Q305)
#[test]
fn a_late_response_to_a_source_that_is_not_validated_is_sent_once() {
    for ty in [Type::Confirmable, Type::NonConfirmable] {
        for (size, code) in [(5, Code::CONTENT), (500, Code::UNAUTHORIZED)] {
            let mut server = echo_server();
            let asked = server.receive(1, &request((ty, Code::GET, 1), &[], b"")).request();
            let acknowledged =
                if ty == Type::Confirmable { vec![(Type::Acknowledgement, Code::EMPTY)] } else { vec![] };
            assert_eq!(server.run(s(100)).kinds(), acknowledged);
            let given = server.respond(asked, content(&"x".repeat(size)));
            assert_eq!(given.kinds(), [(Type::NonConfirmable, code)]);
            assert_eq!(server.run_to_end().kinds(), []);
        }
    }
}

fn shortest(code: Code, id: u16, token: &[u8], echo: &[u8]) -> Vec<u8> {
    let options = [(OptionNumber::OBSERVE.0, &b""[..]), (OptionNumber::ECHO.0, echo)];
    let options = if echo.is_empty() { &options[..1] } else { &options };
    wire::with_options(Type::Confirmable, code, id, token, options, b"")
}

// RFC 9175 §2.4 (Q304)
#[test]
fn a_source_that_asks_in_the_fewest_bytes_can_show_where_it_is_within_the_factor() {
    for length in 0..=8 {
        for code in [Code::GET, Code::FETCH] {
            let (mut server, token) = (echo_server(), &TOKEN[..length]);
            let request = shortest(code, 1, token, b"");
            let mut given = server.receive(1, &request);
            if let [asked] = given.requests()[..] {
                given = server.respond(asked, content(&"x".repeat(100)));
            }
            assert!(given.datagram().len() <= 3 * request.len(), "{} bytes", given.datagram().len());
            let echo = echo_of(&given);
            let somebody_else = server.receive(2, &shortest(Code::GET, 2, token, &echo));
            assert_eq!(somebody_else.message().code(), Code::UNAUTHORIZED, "a value is for one address");
            let asked = server.receive(1, &shortest(code, 2, token, &echo)).request();
            let response = server.respond(asked, content(&"x".repeat(100)));
            assert_eq!(response.message().payload().len(), 100, "{length} bytes of token");
        }
    }
}

const TOKEN: &[u8] = b"8 bytes!";

#[test]
fn brief_values_that_are_guessed_end_brief_values_until_their_lifetime_is_over() {
    let mut server = echo_server();
    let brief = echo_of(&server.receive(1, &shortest(Code::GET, 1, b"", b"")));
    let long = echo_of(&server.receive(1, &shortest(Code::GET, 1, TOKEN, b"")));
    assert!(brief.len() < long.len());
    for guess in 0..4_096_u32 {
        let value = [&brief[..2], &guess.to_be_bytes()].concat();
        let given = server.receive(2, &shortest(Code::GET, 2, b"", &value));
        assert_eq!(given.message().code(), Code::UNAUTHORIZED);
    }
    let bare = server.receive(1, &shortest(Code::GET, 3, b"", &brief));
    assert!(bare.requests().is_empty(), "what is right now could be a guess");
    let bare = server.receive(1, &shortest(Code::GET, 4, b"", b""));
    assert_eq!((bare.message().code(), bare.datagram().len()), (Code::UNAUTHORIZED, 4));
    assert_eq!(server.receive(1, &shortest(Code::GET, 5, TOKEN, &long)).requests().len(), 1, "long values are none");
    server.run(s(248));
    let brief = echo_of(&server.receive(3, &shortest(Code::GET, 6, b"", b"")));
    assert_eq!(server.receive(3, &shortest(Code::GET, 7, b"", &brief)).requests().len(), 1);
}

#[test]
fn a_copy_that_is_shorter_than_its_original_is_not_answered_at_length() {
    let mut server = server();
    let asked = server.receive(1, &request((Type::Confirmable, Code::GET, 1), &[], &[b'x'; 100])).request();
    assert!(server.respond(asked, content(&"x".repeat(200))).datagram().len() > 200);
    for code in [Code::GET, Code::CREATED] {
        assert!(server.receive(1, &wire::bare(Type::Confirmable, code, 1, b"")).sent.is_empty(), "{code}");
    }
    let copy = server.receive(1, &request((Type::Confirmable, Code::GET, 1), &[], &[b'x'; 100]));
    assert!(copy.datagram().len() > 200, "a copy as long as the original is");
}

#[derive(Default)]
struct Traffic {
    received: usize,
    sent: usize,
}

/// `before` are the attacker's earlier datagrams.
fn attack(what: u8, detail: u8, id: u16, before: &[Vec<u8>]) -> Vec<u8> {
    let ty = if detail.is_multiple_of(2) { Type::Confirmable } else { Type::NonConfirmable };
    let block = |num, more| Block { num, more, size: BlockSize::B64 }.encode();
    let plain = |code| request((ty, code, id), &[], b"");
    match what {
        0 => plain(Code::GET),
        1 => request((ty, Code::GET, id), &[(OptionNumber::OBSERVE, &[])], b""),
        2 => plain([Code::POST, Code::PUT, Code::DELETE, Code::FETCH][usize::from(detail / 2 % 4)]),
        3 => {
            request((ty, Code::GET, id), &[(OptionNumber::BLOCK2, block(u32::from(detail % 5), false).as_slice())], b"")
        }
        4 => {
            let (num, more) = (u32::from(detail / 2 % 3), detail < 200);
            request((ty, Code::PUT, id), &[(OptionNumber::BLOCK1, block(num, more).as_slice())], &[detail; 64])
        }
        5 => request((ty, Code::GET, id), &[(OptionNumber(2_001), b"")], b""),
        6 => wire::bare(ty, Code::GET, id, &[b't'; 8][..usize::from(detail % 9)]),
        7 => wire::bare(ty, Code::GET, u16::from(detail % 32), b""),
        8 => request((ty, Code::GET, id), &[(OptionNumber::ECHO, &[detail; 16])], b""),
        // Pings never use these IDs: a right guess would be a proof.
        9 => wire::empty_ack(MessageId(id | 0xfc00)),
        10 => wire::reset(MessageId(id | 0xfc00)),
        11 => vec![0x40 | (detail % 16), detail, 0, 1, 0xff],
        12 => request((ty, Code::GET, id), &[(OptionNumber::NO_RESPONSE, &[detail % 32])], b""),
        13 => request((ty, Code::PUT, id), &[], &vec![detail; usize::from(detail) * 5]),
        14 => {
            let of_burst = block(u32::from(detail % 5), detail < 128);
            request((ty, Code::GET, id), &[(OptionNumber::Q_BLOCK2, of_burst.as_slice())], b"")
        }
        15 => {
            let of_burst = block(u32::from(detail / 2 % 3), true);
            let options: [(_, &[u8]); 3] = [
                (OptionNumber::Q_BLOCK1, of_burst.as_slice()),
                (OptionNumber::SIZE1, &[1, 0]),
                (OptionNumber::REQUEST_TAG, &[1]),
            ];
            request((ty, Code::PUT, id), &options, &[detail; 64])
        }
        _ if before.is_empty() => plain(Code::GET),
        _ => before[usize::from(detail) % before.len()].clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // RFC 7252 §11.3 (Q94), RFC 9175 §2.4 (Q304)
    #[test]
    fn an_unverified_address_receives_at_most_three_times_what_it_sent(
        steps in prop::collection::vec((0..18_u8, any::<u8>(), 1..4_u32, any::<u8>(), any::<u16>()), 1..60),
    ) {
        let mut server = server();
        let mut traffic: HashMap<u32, Traffic> = HashMap::new();
        let mut before: Vec<Vec<u8>> = Vec::new();
        let mut waiting: Vec<RequestId> = Vec::new();
        for (number, (what, detail, from, application, pause)) in steps.into_iter().enumerate() {
            let datagram = attack(what, detail, number as u16, &before);
            traffic.entry(from).or_default().received += datagram.len();
            let given = server.receive(from, &datagram);
            before.push(datagram);
            note(&mut traffic, &given);
            waiting.extend(given.requests());
            let size = usize::from(application) * 20;
            let reliability = [None, Some(Reliability::Confirmable), Some(Reliability::NonConfirmable)][usize::from(detail % 3)];
            let response = Response { reliability, ..content(&"x".repeat(size)) };
            match (application % 4, waiting.pop()) {
                (0, Some(request)) => { let _ = server.endpoint.acknowledge(server.now, request); waiting.push(request); }
                (1 | 2, Some(request)) => {
                    server.endpoint.observe(server.now, request, TOPIC);
                    let _ = server.endpoint.respond(server.now, request, response);
                }
                (_, request) => {
                    waiting.extend(request);
                    server.endpoint.notify(server.now, TOPIC, response).expect("legal");
                }
            }
            let given = server.drain();
            note(&mut traffic, &given);
            // Count each departure at its time.
            let until = server.now + ms(u64::from(pause) / 8);
            while let Some(wake) = server.wake.filter(|&wake| wake <= until) {
                server.now = wake;
                let given = server.drain();
                note(&mut traffic, &given);
            }
            server.now = until;
        }
        let given = server.run(s(300));
        note(&mut traffic, &given);
    }
}

fn note(traffic: &mut HashMap<u32, Traffic>, given: &Given) {
    for (transmit, _) in &given.sent {
        let traffic = traffic.entry(transmit.to).or_default();
        traffic.sent += transmit.len;
        let Traffic { received, sent } = *traffic;
        assert!(sent <= 3 * received, "{sent} bytes for {received}");
    }
}

// RFC 7252 §11.3 (Q94)
#[test]
fn an_honest_observer_is_notified_and_has_to_acknowledge_each_fifth_time() {
    let mut server = echo_server();
    let echo =
        echo_of(&server.receive(1, &request((Type::Confirmable, Code::GET, 1), &[(OptionNumber::OBSERVE, &[])], b"")));
    let proved: &[(OptionNumber, &[u8])] = &[(OptionNumber::OBSERVE, &[]), (OptionNumber::ECHO, &echo)];
    let asked = server.receive(1, &request((Type::Confirmable, Code::GET, 2), proved, b"")).request();
    assert!(server.endpoint.observe(server.now, asked, TOPIC).is_some());
    server.respond(asked, content("0"));
    let mut confirmed = 0;
    for state in 1..=20 {
        server.receive(1, &wire::bare(Type::NonConfirmable, Code::CONTENT, state, b"anything"));
        server.endpoint.notify(server.now, TOPIC, content(&state.to_string())).expect("legal");
        let given = server.drain();
        let message: &OwnedMessage = given.message();
        if message.header().ty == Type::Confirmable {
            confirmed += 1;
            let gone = server.receive(1, &ack_of(message)).events;
            assert!(!gone.iter().any(|event| matches!(event, Event::ObserverGone { .. })));
        }
        server.run(s(10));
    }
    assert_eq!(confirmed, 4);
}
