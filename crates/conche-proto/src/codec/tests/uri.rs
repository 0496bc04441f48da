//! Paths and queries in URI form.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::super::*;
use super::datagram;
use OptionNumber as N;

fn path(segments: &[&[u8]]) -> String {
    let options: Vec<_> = segments.iter().map(|segment| (N::URI_PATH, *segment)).collect();
    let datagram = datagram(Code::GET, &options, b"");
    let message = Message::decode(&datagram).expect("well-formed");
    let owned = OwnedMessage::from(message);
    assert_eq!(owned.uri_path(), message.uri_path());
    owned.uri_path()
}

// RFC 7252 §6.5
#[test]
fn segments_are_joined_by_slashes() {
    assert_eq!(path(&[]), "/");
    assert_eq!(path(&[b""]), "/");
    assert_eq!(path(&[b"a", b"b"]), "/a/b");
    assert_eq!(path(&[b"a", b""]), "/a/");
    assert_eq!(path(&[b".well-known", b"core"]), "/.well-known/core");
}

// RFC 7252 §6.5
#[test]
fn what_a_segment_cannot_hold_is_percent_encoded() {
    assert_eq!(path(&[b"a/b"]), "/a%2Fb");
    assert_eq!(path(&[b"a b", b"%"]), "/a%20b/%25");
    assert_eq!(path(&["ü".as_bytes()]), "/%C3%BC");
    assert_eq!(path(&[b"\xc3\x28"]), "/%C3(");
    assert_eq!(path(&[b"-._~!$&'()*+,;=:@"]), "/-._~!$&'()*+,;=:@");
}

#[test]
fn queries_keep_their_order_and_replace_what_is_not_utf_8() {
    let datagram = datagram(Code::GET, &[(N::URI_QUERY, b"k=v"), (N::URI_QUERY, b"\xff"), (N::URI_QUERY, b"k=v")], b"");
    let message = OwnedMessage::decode(datagram).expect("well-formed");
    assert!(message.uri_queries().eq(["k=v", "\u{fffd}", "k=v"]));
}

// RFC 7252 §6.5
#[test]
fn an_argument_keeps_slash_and_question_mark_but_not_the_ampersand_that_would_end_it() {
    assert_eq!(encode_query([&b"a=b"[..], b"/?&%", b"c d"]), "a=b&/?%26%25&c%20d");
    assert_eq!(encode_query([]), "");
    assert_eq!(encode_query([&b""[..], b""]), "&");
}

// RFC 7252 §6.5 (Q213)
#[test]
fn a_uri_is_composed_of_the_options_and_of_where_the_request_was_sent() {
    let v4 = SocketAddr::from(([192, 0, 2, 1], 5683));
    let v6 = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 61616));
    type Case = (SocketAddr, &'static [(OptionNumber, &'static [u8])], &'static str);
    let cases: [Case; 8] = [
        // Steps 2 and 3: Uri-Host, or the textual address.
        (v4, &[], "coap://192.0.2.1/"),
        (v6, &[], "coap://[2001:db8::1]:61616/"),
        (v4, &[(N::URI_HOST, b"example.com")], "coap://example.com/"),
        (v4, &[(N::URI_HOST, b"\xc3\xbc/@")], "coap://%C3%BC%2F%40/"),
        (v4, &[(N::URI_HOST, b"[::1]")], "coap://[::1]/"),
        // Steps 4 and 5: Uri-Port or the destination's port, omitted if it is the default.
        (v6, &[(N::URI_HOST, b"h"), (N::URI_PORT, &[0x16, 0x33])], "coap://h/"),
        // Steps 6 and 7: the path, at least a slash.
        (v4, &[(N::URI_PATH, b""), (N::URI_PATH, b"/"), (N::URI_PATH, b"")], "coap://192.0.2.1//%2F/"),
        // Steps 8 and 9: the query.
        (v4, &[(N::URI_PATH, b"a"), (N::URI_QUERY, b"//"), (N::URI_QUERY, b"?&")], "coap://192.0.2.1/a?//&?%26"),
    ];
    for (destination, options, uri) in cases {
        let datagram = datagram(Code::GET, options, b"");
        assert_eq!(Message::decode(&datagram).expect("well-formed").request_uri(destination), uri);
    }
}

// RFC 7252 §5.10.7 (Q214)
#[test]
fn a_location_is_the_path_and_query_that_the_response_names() {
    let located = |options: &[(OptionNumber, &[u8])]| {
        let datagram = datagram(Code::CREATED, options, b"");
        Message::decode(&datagram).expect("well-formed").location()
    };
    assert_eq!(located(&[]), None);
    assert_eq!(located(&[(N::LOCATION_PATH, b"notes"), (N::LOCATION_PATH, b"a b")]).as_deref(), Some("/notes/a%20b"));
    let with_query = located(&[(N::LOCATION_PATH, b"l"), (N::LOCATION_QUERY, b"first=1"), (N::LOCATION_QUERY, b"&")]);
    assert_eq!(with_query.as_deref(), Some("/l?first=1&%26"));
    assert_eq!(located(&[(N::LOCATION_QUERY, b"a")]).as_deref(), Some("/?a"));
}
