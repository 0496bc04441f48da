//! Options (RFC 7252 §5.4) and payloads (§5.5).

use conche_proto::codec::{Code, OwnedMessage, Token, Type};
use conche_proto::{EndpointConfig, Failure};

use crate::support::world::by_name;
use crate::support::{CLIENT, Fixture, SERVER, STRANGER, World, end_of, request, s, wire};

type Options<'a> = &'a [(u16, &'a [u8])];

const URI_PATH: (u16, &[u8]) = (11, b"test");

/// To a request for `/test`.
fn answer(ty: Type, code: Code, options: Options<'_>, payload: &[u8]) -> Option<OwnedMessage> {
    let mut world = World::server();
    world.inject(STRANGER, SERVER, &wire::with_options(ty, code, 4, b"t", options, payload));
    world.run(s(1));
    assert!(world.sent.len() <= 1);
    world.sent.first().map(|datagram| datagram.message())
}

fn code_of_answer(options: Options<'_>) -> Code {
    answer(Type::Confirmable, Code::GET, options, b"").expect("an answer").code()
}

/// Also returns whether a Reset was sent.
fn end_by_response(ty: Type, options: Options<'_>) -> (Option<Result<(), Failure>>, bool) {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    let sent = world.first_copy(asked).message();
    let id = if ty == Type::Acknowledgement { sent.header().id.0 } else { 0x6789 };
    let response = wire::with_options(ty, Code::CONTENT, id, sent.token().as_slice(), options, b"x");
    world.inject(SERVER, CLIENT, &response);
    let reset = world.sent.iter().any(|datagram| datagram.message().header().ty == Type::Reset);
    (end_of(world.events(CLIENT), asked).map(|(_, end)| end.map(|_| ())), reset)
}

// RFC 7252 §5.4 (Q74)
#[test]
fn an_option_that_is_not_defined_for_the_code_counts_as_unrecognised() {
    // Elective in a request: Max-Age and Location-Path. Critical in a response: Uri-Path and
    // If-Match.
    assert_eq!(code_of_answer(&[(8, b"x"), URI_PATH, (14, &[1])]), Code::CONTENT);
    for options in [&[URI_PATH][..], &[(1, b"etag")]] {
        assert_eq!(end_by_response(Type::Acknowledgement, options).0, Some(Err(Failure::UnacceptableResponse)));
    }
}

// RFC 7252 §5.4.1 (Q75)
#[test]
fn an_unknown_elective_option_is_ignored() {
    assert_eq!(code_of_answer(&[URI_PATH, (2_050, b"what"), (65_002, b"ever")]), Code::CONTENT);
    for ty in [Type::Acknowledgement, Type::Confirmable, Type::NonConfirmable] {
        assert_eq!(end_by_response(ty, &[(65_002, b"x")]), (Some(Ok(())), false));
    }
}

// RFC 7252 §5.4.1 (Q76)
#[test]
fn an_unknown_critical_option_in_a_confirmable_request_is_answered_4_02_with_a_diagnostic() {
    for number in [9, 2_049, 65_001, 65_535] {
        let answer = answer(Type::Confirmable, Code::GET, &[(number, b"")], b"").expect("an answer");
        assert_eq!((answer.header().ty, answer.code()), (Type::Acknowledgement, Code::BAD_OPTION));
        let diagnostic = std::str::from_utf8(answer.payload()).expect("a diagnostic is UTF-8");
        assert!(diagnostic.contains(&number.to_string()), "{diagnostic}");
    }
}

// RFC 7252 §5.4.1 (Q77)
#[test]
fn an_unknown_critical_option_in_a_response_rejects_it() {
    let critical: Options<'_> = &[(65_001, b"x")];
    let unacceptable = Some(Err(Failure::UnacceptableResponse));
    assert_eq!(end_by_response(Type::Confirmable, critical), (unacceptable, true));
    assert_eq!(end_by_response(Type::Acknowledgement, critical), (unacceptable, false));
}

// RFC 7252 §5.4.1 (Q78)
#[test]
fn an_unknown_critical_option_in_a_non_confirmable_message_rejects_it() {
    assert_eq!(answer(Type::NonConfirmable, Code::GET, &[URI_PATH, (65_001, b"x")], b""), None);
    // The request is still outstanding: another response may arrive.
    assert_eq!(end_by_response(Type::NonConfirmable, &[(65_001, b"x")]), (None, false));
}

// RFC 7252 §5.4.3 (Q79)
#[test]
fn a_value_of_a_length_out_of_range_makes_an_option_unrecognised() {
    let (nine, long) = ([0; 9], [b'x'; 256]);
    let critical: &[Options<'_>] = &[
        &[(1, &nine), URI_PATH],
        &[(3, b""), URI_PATH],
        &[(3, &long), URI_PATH],
        &[(5, b"x"), URI_PATH],
        &[(7, &[1, 2, 3]), URI_PATH],
        &[(11, &long)],
        &[URI_PATH, (15, &long)],
        &[URI_PATH, (17, &[0, 0, 0])],
        &[URI_PATH, (35, b"")],
        &[URI_PATH, (39, b"")],
    ];
    for options in critical {
        assert_eq!(code_of_answer(options), Code::BAD_OPTION, "{options:?}");
    }
    let elective: &[Options<'_>] =
        &[&[(4, b""), URI_PATH], &[(4, &nine), URI_PATH], &[URI_PATH, (12, &[0, 0, 0])], &[URI_PATH, (60, &nine)]];
    for options in elective {
        assert_eq!(code_of_answer(options), Code::CONTENT, "{options:?}");
    }
}

// RFC 7252 §5.4.5 (Q80)
#[test]
fn a_supernumerary_option_is_unrecognised() {
    let critical: &[Options<'_>] = &[
        &[(3, b"a"), (3, b"b"), URI_PATH],
        &[(5, b""), (5, b""), URI_PATH],
        &[(7, &[1]), (7, &[2]), URI_PATH],
        &[URI_PATH, (17, &[1]), (17, &[1])],
    ];
    for options in critical {
        assert_eq!(code_of_answer(options), Code::BAD_OPTION, "{options:?}");
    }
    assert_eq!(code_of_answer(&[URI_PATH, (12, &[]), (12, &[50]), (60, &[1]), (60, &[2])]), Code::CONTENT);
    let put = wire::with_options(Type::Confirmable, Code::PUT, 1, b"", &[URI_PATH, (12, &[]), (12, &[50])], b"x");
    assert_eq!(wire::decode(&put).uint(conche_proto::codec::OptionNumber::CONTENT_FORMAT), Some(0), "the first counts");
}

// RFC 7252 §5.5 (Q81)
#[test]
fn a_payload_that_the_method_does_not_define_is_ignored() {
    for method in [Code::GET, Code::DELETE] {
        let without = answer(Type::Confirmable, method, &[URI_PATH], b"").expect("an answer");
        assert_eq!(answer(Type::Confirmable, method, &[URI_PATH], b"undefined"), Some(without));
    }
}

#[test]
fn a_critical_option_that_the_application_understands_is_accepted() {
    let understood = conche_proto::codec::OptionNumber(2_049);
    let config = EndpointConfig { known_options: vec![understood], ..EndpointConfig::default() };
    let mut world = World::empty();
    world.add(SERVER, config, by_name("default"), 1);
    world.node(SERVER).app = Some(Fixture::default());
    let options: Options<'_> = &[URI_PATH, (2_049, b"x")];
    world.inject(STRANGER, SERVER, &wire::with_options(Type::Confirmable, Code::GET, 4, b"t", options, b""));
    assert_eq!(world.sent[0].message().code(), Code::CONTENT);
    assert_ne!(world.sent[0].message().token(), Token::EMPTY);
}

// RFC 8768 §3 (Q208)
#[test]
fn hop_limit_is_an_affair_of_proxies() {
    let mut server = crate::support::Direct::new(conche_proto::EndpointConfig::default());
    for (id, value) in [(1, &[16][..]), (2, &[1]), (3, &[0]), (4, b"")] {
        let request = wire::with_options(Type::Confirmable, Code::GET, id, b"t", &[(16, value)], b"");
        assert_eq!(server.receive(1, &request).requests().len(), 1, "{value:?}");
    }
}
