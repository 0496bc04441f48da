//! Options that count as unrecognised.

use super::super::*;
use super::datagram;
use OptionNumber as N;

fn unacceptable(code: Code, options: &[(N, &[u8])], also_known: &[N]) -> Option<N> {
    let datagram = datagram(code, options, b"");
    Message::decode(&datagram).expect("well-formed").unacceptable_option(also_known)
}

// RFC 7252 §5.4.1 (Q75)
#[test]
fn unknown_elective_options_are_acceptable() {
    assert_eq!(unacceptable(Code::GET, &[(N(65_002), b"x")], &[]), None);
    assert_eq!(unacceptable(Code::GET, &[(N::OBSERVE, b"")], &[]), None);
}

// RFC 7252 §5.4.1 (Q76)
#[test]
fn the_first_unknown_critical_option_is_named() {
    let options: &[(N, &[u8])] = &[(N::URI_PATH, b"a"), (N(65_001), b""), (N(65_003), b"")];
    assert_eq!(unacceptable(Code::GET, options, &[]), Some(N(65_001)));
    assert_eq!(unacceptable(Code::GET, options, &[N(65_001)]), Some(N(65_003)));
    assert_eq!(unacceptable(Code::GET, options, &[N(65_003), N(65_001)]), None);
}

#[test]
fn critical_options_of_later_rfcs_are_known_only_to_those_who_say_so() {
    assert_eq!(unacceptable(Code::PUT, &[(N::OSCORE, b"\x06")], &[]), Some(N::OSCORE));
    for number in [N::OSCORE, N::BLOCK2, N::BLOCK1] {
        assert_eq!(unacceptable(Code::PUT, &[(number, b"\x06")], &[number]), None);
    }
    for number in [N::BLOCK2, N::BLOCK1] {
        assert_eq!(unacceptable(Code::PUT, &[(number, b"\x06")], &[]), None, "blocks are the endpoint's affair");
    }
}

// RFC 7252 §5.4.3 (Q79)
#[test]
fn critical_options_of_a_length_out_of_range_are_unacceptable() {
    let cases = [
        (N::IF_MATCH, 0..=8),
        (N::URI_HOST, 1..=255),
        (N::IF_NONE_MATCH, 0..=0),
        (N::URI_PORT, 0..=2),
        (N::URI_PATH, 0..=255),
        (N::URI_QUERY, 0..=255),
        (N::ACCEPT, 0..=2),
        (N::PROXY_URI, 1..=1034),
        (N::PROXY_SCHEME, 1..=255),
        (N::BLOCK2, 0..=3),
        (N::BLOCK1, 0..=3),
    ];
    for (number, legal) in cases {
        for length in 0..1040 {
            let value = &[b'x'; 1040][..length];
            let expected = (!legal.contains(&length)).then_some(number);
            assert_eq!(unacceptable(Code::PUT, &[(number, value)], &[number]), expected, "{number} of {length}");
        }
    }
}

// RFC 7252 §5.4.3 (Q79)
#[test]
fn elective_options_of_a_length_out_of_range_are_passed_over() {
    let datagram = datagram(
        Code::GET,
        &[(N::ETAG, b""), (N::ETAG, b"tag"), (N::ETAG, b"123456789"), (N::CONTENT_FORMAT, b"\0\0\0")],
        b"",
    );
    let message = Message::decode(&datagram).expect("well-formed");
    assert_eq!(message.unacceptable_option(&[]), None);
    assert!(message.values(N::ETAG).eq([b"tag"]));
    assert_eq!(message.uint(N::CONTENT_FORMAT), None);
    assert_eq!(message.options().count(), 4);
}

// RFC 7252 §5.4.5 (Q80)
#[test]
fn a_critical_option_given_once_too_often_is_unacceptable() {
    for number in [N::URI_HOST, N::URI_PORT, N::ACCEPT, N::PROXY_URI, N::PROXY_SCHEME] {
        assert_eq!(unacceptable(Code::GET, &[(number, b"1")], &[]), None);
        assert_eq!(unacceptable(Code::GET, &[(number, b"1"), (number, b"1")], &[]), Some(number));
    }
    for number in [N::IF_MATCH, N::URI_PATH, N::URI_QUERY] {
        assert_eq!(unacceptable(Code::GET, &[(number, b"1"), (number, b"1")], &[]), None);
    }
}

// RFC 7252 §5.4.5 (Q80)
#[test]
fn of_an_elective_option_given_once_too_often_the_first_counts() {
    let twice = datagram(Code::PUT, &[(N::CONTENT_FORMAT, b""), (N::CONTENT_FORMAT, b"\x32")], b"x");
    let message = Message::decode(&twice).expect("well-formed");
    assert_eq!(message.unacceptable_option(&[]), None);
    assert_eq!(message.uint(N::CONTENT_FORMAT), Some(0));
    assert_eq!(message.values(N::CONTENT_FORMAT).count(), 1);

    let first_too_long = datagram(Code::PUT, &[(N::CONTENT_FORMAT, b"abc"), (N::CONTENT_FORMAT, b"\x32")], b"x");
    let message = Message::decode(&first_too_long).expect("well-formed");
    assert_eq!(message.uint(N::CONTENT_FORMAT), None);
}

// RFC 7252 §5.4 (Q74)
#[test]
fn options_count_only_in_the_messages_that_they_are_defined_for() {
    for number in [N::IF_MATCH, N::URI_HOST, N::URI_PATH, N::URI_QUERY, N::ACCEPT, N::PROXY_URI] {
        assert_eq!(unacceptable(Code::CONTENT, &[(number, b"1")], &[]), Some(number));
    }
    for (number, value) in [(N::LOCATION_PATH, &b"a"[..]), (N::MAX_AGE, b"\x05"), (N::LOCATION_QUERY, b"k=v")] {
        let request = datagram(Code::GET, &[(number, value)], b"");
        let message = Message::decode(&request).expect("well-formed");
        assert_eq!(message.unacceptable_option(&[]), None);
        assert_eq!(message.option(number), None);

        let response = datagram(Code::CREATED, &[(number, value)], b"");
        assert_eq!(Message::decode(&response).expect("well-formed").option(number), Some(value));
    }
}

#[test]
fn an_option_without_a_definition_is_taken_as_it_is() {
    let options = datagram(Code::GET, &[(N(65_000), b""), (N(65_000), &[7; 500])], b"");
    let message = Message::decode(&options).expect("well-formed");
    assert!(message.values(N(65_000)).eq([&[][..], &[7; 500]]));
}
