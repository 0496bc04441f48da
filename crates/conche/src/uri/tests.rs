//! The examples of RFC 7252 §6, and common mistakes.

use super::*;

fn uri(text: &str) -> Uri {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> UriError {
    text.parse::<Uri>().expect_err(text)
}

#[test]
fn the_equivalent_uris_of_rfc_7252_section_6_3_mean_the_same() {
    for text in [
        "coap://example.com:5683/~sensors/temp.xml",
        "coap://EXAMPLE.com/%7Esensors/temp.xml",
        "coap://EXAMPLE.com:/%7esensors/temp.xml",
        "COAP://example.com/x/../~sensors/./temp.xml",
    ] {
        let uri = uri(text);
        assert_eq!(uri.host(), &Host::Name("example.com".into()), "{text}");
        assert_eq!(uri.port(), 5683, "{text}");
        assert_eq!(uri.segments(), ["~sensors", "temp.xml"], "{text}");
    }
}

#[test]
fn the_root_has_no_segment_and_a_trailing_slash_an_empty_one() {
    assert!(uri("coap://h").segments().is_empty());
    assert!(uri("coap://h/").segments().is_empty());
    assert_eq!(uri("coap://h//").segments(), ["", ""]);
    assert_eq!(uri("coap://h/a/").segments(), ["a", ""]);
}

#[test]
fn an_encoded_slash_or_ampersand_stays_inside_its_component() {
    let uri = uri("coap://198.51.100.1:61616//%2F//?%2F%2F&?%26");
    assert_eq!(uri.segments(), ["", "/", "", ""]);
    assert_eq!(uri.queries(), ["//", "?&"]);
}

#[test]
fn only_a_name_goes_into_the_request() {
    let encoded = |text| uri(text).options(BodyBuilder::new()).build().expect("a URI's options are legal");
    assert_eq!(encoded("coap://[::1]:61616/a?b").as_bytes(), b"\xb1a\x41b");
    assert_eq!(encoded("coap://localhost/a?b").as_bytes(), b"\x39localhost\x81a\x41b");
}

#[test]
fn addresses_of_both_versions_are_recognised() {
    assert_eq!(uri("coap://127.0.0.1/").host(), &Host::Address(IpAddr::from([127, 0, 0, 1])));
    assert_eq!(uri("coap://[::1]:1/").host(), &Host::Address(Ipv6Addr::LOCALHOST.into()));
    let scoped = Host::Scoped { address: "fe80::1".parse().expect("an address"), zone: "eth0".into() };
    assert_eq!(uri("coap://[fe80::1%eth0]/a").host(), &scoped);
    assert_eq!(uri("coap://[fe80::1%25eth0]/a").host(), &scoped);
}

#[test]
fn numeric_hosts_other_than_ip_literals_are_refused() {
    for host in [
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0177.0.0.1",
        "127.0.0.0x1",
        "127.0.0.1.",
        "127.0.0.256",
        "1.2.3.4.5",
        "a.1",
        "0x",
        "%31%32%37.1",
        "127.%31",
    ] {
        for uri in [format!("coap://{host}/x"), format!("coaps://{host}:7/x")] {
            assert!(matches!(error(&uri), UriError::Number { .. }), "{uri}: {:?}", error(&uri));
        }
    }
    for host in ["127.0.0.1", "1a", "a1", "1.a", "0xg", "127.0.0.1.example", "x0x1", "-1", "1.2.3.4-5"] {
        assert!(format!("coap://{host}/").parse::<Uri>().is_ok(), "{host}");
    }
}

// RFC 7252 §6.4 (Q212)
#[test]
fn each_step_of_the_decomposition_gives_its_options() {
    let options = |text: &str| {
        let body = uri(text).options(BodyBuilder::new()).build().expect("a URI's options are legal");
        let option = |option: conche_proto::codec::RawOption<'_>| {
            (option.number, String::from_utf8(option.value.to_vec()).expect("UTF-8"))
        };
        body.options().map(option).collect::<Vec<_>>()
    };
    let (host, path, query) = (OptionNumber::URI_HOST, OptionNumber::URI_PATH, OptionNumber::URI_QUERY);
    let of =
        |pairs: &[(OptionNumber, &str)]| pairs.iter().map(|(n, text)| (*n, (*text).to_owned())).collect::<Vec<_>>();
    for (text, expected) in [
        // Steps 1 and 2: absolute URIs only; dot segments are resolved, encoded or not.
        ("coap://192.0.2.1/a/./b/../c", &[(path, "a"), (path, "c")][..]),
        ("coap://192.0.2.1/a/%2e%2E/c", &[(path, "c")]),
        // Step 5: a decoded name in lower case; no option for an address.
        ("coap://EXAMPLE.com", &[(host, "example.com")]),
        ("coap://%66oo%C3%9C.example", &[(host, "fooÜ.example")]),
        ("coap://[2001:db8::1]", &[]),
        // Steps 6 and 7: no port, since it is the destination's.
        ("coap://192.0.2.1:61616/", &[]),
        // Step 8: a segment for each part of the path, unless that is "/" or empty.
        ("coap://192.0.2.1/%2F//a%20b/", &[(path, "/"), (path, ""), (path, "a b"), (path, "")]),
        // Step 9: an argument for each part of the query.
        ("coap://192.0.2.1?a&b=%26&", &[(query, "a"), (query, "b=&"), (query, "")]),
        ("coap://192.0.2.1/?", &[(query, "")]),
    ] {
        assert_eq!(options(text), of(expected), "{text}");
    }
}

// RFC 7252 §6.5 (Q213)
#[test]
fn a_uri_decomposed_into_options_is_composed_again() {
    for text in [
        "coap://example.com/~sensors/temp.xml",
        "coap://example.com:61616//%2F//?//&?%26",
        "coap://192.0.2.1/",
        "coap://[2001:db8::1]:1/caf%C3%A9?q=%25",
    ] {
        let uri = uri(text);
        let address = match uri.host() {
            Host::Address(address) => *address,
            _ => IpAddr::from([192, 0, 2, 9]),
        };
        let to = std::net::SocketAddr::new(address, uri.port());
        let body = uri.options(BodyBuilder::new()).build().expect("a URI's options are legal");
        let request = crate::server::Request::from_body(to, conche_proto::codec::Code::GET, &body).expect("a method");
        assert_eq!(request.message().content().request_uri(to), text);
    }
}

#[test]
fn components_beyond_255_bytes_are_refused_and_255_are_not() {
    let path = |length| format!("coap://h/{}", "%41".repeat(length));
    assert_eq!(uri(&path(255)).segments(), ["A".repeat(255)]);
    assert_eq!(error(&path(256)), UriError::TooLong { what: "path segment", length: 256 });
}

#[test]
fn uri_errors_name_the_fault_and_a_remedy() {
    for (text, message) in [
        ("coaps+tcp://h/", "coaps+tcp:// is not yet supported: only coap:// and coaps:// are"),
        ("http://h/", r#"the URI's scheme is "http": it must be "coap" or "coaps", as in coap://example.com/path"#),
        ("coap:///a", "the URI names no host: it must look like coap://example.com/path"),
        ("coap:a", "the URI names no host: it must look like coap://example.com/path"),
        ("coap://h:0/", r#"the port "0" is not a number from 1 to 65535"#),
        ("coap://h:65536/", r#"the port "65536" is not a number from 1 to 65535"#),
        ("coap://u@h/", r#"a coap URI has no user name: leave out what stands before the "@""#),
        ("coap://h/a#b", r##"a fragment cannot be requested: leave out "#" and what follows"##),
        ("coap://h/%ff", r#"the path segment "%FF" does not decode to UTF-8"#),
        ("coap://[::1", r#"unexpected end at position 11 of the URI: an IPv6 address and "]" were expected after "[""#),
        (
            "coap://[::g]/",
            r#"unexpected 'g' at position 10 of the URI: an IPv6 address and "]" were expected after "[""#,
        ),
        (
            "coap://h/a b",
            "unexpected ' ' at position 10 of the URI: \
             other characters than those of RFC 3986 must be percent-encoded, a space as %20",
        ),
        (
            "coap://h/%zz",
            "unexpected '%' at position 9 of the URI: \
             \"%\" must be followed by two hexadecimal digits; a percent sign itself is %25",
        ),
        ("coap://h:abc/", r#"the port "abc" is not a number from 1 to 65535"#),
        ("coap://[::1]:5x/", r#"the port "5x" is not a number from 1 to 65535"#),
        (
            "coap://::1/",
            "unexpected ':' at position 8 of the URI: an IPv6 address stands in brackets, as in coap://[2001:db8::1]/path",
        ),
        ("192.0.2.1/a", "the URI has no scheme: write coap://192.0.2.1/a"),
        ("localhost:5683/a", "the URI has no scheme: write coap://localhost:5683/a"),
        ("//h/a", "the URI has no scheme: write coap://h/a"),
        ("mailto:me", r#"the URI's scheme is "mailto": it must be "coap" or "coaps", as in coap://example.com/path"#),
        ("a b", "unexpected ' ' at position 1 of the URI: it must look like coap://example.com/path"),
    ] {
        assert_eq!(error(text).to_string(), message, "{text}");
    }
}

// RFC 7252 §6.2 (Q236)
#[test]
fn the_port_of_coaps_is_5684_unless_the_uri_names_another() {
    for (text, secured, port) in [
        ("coap://h/", false, 5683),
        ("coaps://h/", true, 5684),
        ("coaps://h:/", true, 5684),
        ("coaps://h:5683/", true, 5683),
        ("coaps://[2001:db8::1]", true, 5684),
    ] {
        let uri: Uri = text.parse().expect("a legal URI");
        assert_eq!((uri.is_secured(), uri.port()), (secured, port), "{text}");
    }
}

#[test]
fn no_text_makes_the_parser_panic() {
    proptest::proptest!(|(tail in "\\PC{0,40}", zone in "[%\\[\\]0-9a-f:]{0,20}")| {
        let _ = tail.parse::<Uri>();
        let _ = format!("coap://{tail}").parse::<Uri>();
        let _ = format!("coap://[{zone}]{tail}").parse::<Uri>();
    });
}
