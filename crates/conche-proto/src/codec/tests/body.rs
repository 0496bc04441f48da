//! Sorting, encoding and validation by the body builder.

use alloc::string::ToString;
use alloc::vec;

use super::super::*;
use super::datagram;
use OptionNumber as N;

#[test]
fn options_are_sorted_and_keep_their_order_within_a_number() {
    let body = Body::builder()
        .payload("x")
        .uint(N::SIZE1, 300)
        .query("b=2")
        .path("/z/a")
        .query("a=1")
        .content_format(ContentFormat::JSON)
        .build()
        .expect("legal");
    let options: [(N, &[u8]); 6] = [
        (N::URI_PATH, b"z"),
        (N::URI_PATH, b"a"),
        (N::CONTENT_FORMAT, b"\x32"),
        (N::URI_QUERY, b"b=2"),
        (N::URI_QUERY, b"a=1"),
        (N::SIZE1, b"\x01\x2c"),
    ];
    assert_eq!(body.as_bytes(), &datagram(Code::PUT, &options, b"x")[4..]);
    assert_eq!(body.len(), body.as_bytes().len());
}

#[test]
fn nothing_given_makes_the_empty_body() {
    let body = BodyBuilder::new().path("/").path("").payload("").build().expect("legal");
    assert_eq!(body, Body::EMPTY);
    assert!(body.is_empty());
}

// RFC 7252 §6.4
#[test]
fn a_path_is_split_at_its_slashes() {
    let cases: [(&str, &[&str]); 6] = [
        ("/", &[]),
        ("/a", &["a"]),
        ("a", &["a"]),
        ("/a/", &["a", ""]),
        ("//a", &["", "a"]),
        ("/a//b", &["a", "", "b"]),
    ];
    for (path, segments) in cases {
        let split = segments.iter().fold(BodyBuilder::new(), |builder, segment| builder.segment(segment)).build();
        assert_eq!(BodyBuilder::new().path(path).build(), split, "{path}");
    }
}

// RFC 7252 §5.10.1
#[test]
fn dot_segments_are_refused() {
    for path in ["/.", "/a/..", "/a/./b"] {
        assert_eq!(BodyBuilder::new().path(path).build(), Err(BuildError::DotSegment), "{path}");
    }
    assert!(BodyBuilder::new().path("/...").query("..").build().is_ok());
}

#[test]
fn a_value_of_a_length_out_of_range_is_refused_with_the_range() {
    let error = BodyBuilder::new().segment(&"x".repeat(256)).build().expect_err("Uri-Path has at most 255 bytes");
    assert_eq!(error, BuildError::ValueLength { number: N::URI_PATH, length: 256, allowed: 0..=255 });
    assert_eq!(error.to_string(), "a value of 256 bytes for option Uri-Path: 0 to 255 bytes are allowed");

    let error = BodyBuilder::new().option(N(65_000), &vec![0; MAX_OPTION_LENGTH + 1]).build();
    let allowed = 0..=MAX_OPTION_LENGTH;
    assert_eq!(error, Err(BuildError::ValueLength { number: N(65_000), length: MAX_OPTION_LENGTH + 1, allowed }));
}

#[test]
fn an_option_that_may_occur_once_is_refused_twice() {
    let error = BodyBuilder::new().uint(N::ACCEPT, 0).path("/a").uint(N::ACCEPT, 40).build();
    assert_eq!(error, Err(BuildError::Repeated { number: N::ACCEPT }));
}

#[test]
fn a_builder_of_a_body_makes_the_same_and_takes_more() {
    let builder = Body::builder().path("/a/b").uint(OptionNumber::NO_RESPONSE, 2);
    for body in [builder.clone().payload("hello").build(), builder.build(), Ok(Body::EMPTY)] {
        let body = body.expect("legal options");
        assert_eq!(body.to_builder().build(), Ok(body.clone()));
        let more = body.to_builder().option(OptionNumber::ECHO, b"e").build().expect("legal options");
        assert_eq!(more.option(OptionNumber::ECHO), Some(&b"e"[..]));
        assert_eq!(more.len(), body.len() + if body.option(OptionNumber::NO_RESPONSE).is_some() { 2 } else { 3 });
    }
}

#[test]
fn a_pooled_body_is_what_a_builder_makes_of_payload_and_format() {
    let mut pool = MessagePool::new();
    for format in [0, 50, 255, 256, u16::MAX].map(|format| Some(ContentFormat(format))).into_iter().chain([None]) {
        for length in [0, 1, 60, MessagePool::CHUNK - 3, MessagePool::CHUNK, 2 * MessagePool::CHUNK] {
            let payload = vec![7; length];
            let builder = Body::builder().payload(payload.clone());
            let builder = match format {
                Some(format) => builder.content_format(format),
                None => builder,
            };
            assert_eq!(Body::pooled(format, &payload, &mut pool), builder.build().expect("legal options"));
        }
    }
}
