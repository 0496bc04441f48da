//! Example-based tests of the codec; `tests/codec` has properties over all datagrams.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::option::{OptionHeader, split_option};
use super::*;
use OptionNumber as N;

fn datagram(code: Code, options: &[(OptionNumber, &[u8])], payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 2048];
    let mut encoder = Encoder::new(&mut buffer, Type::Confirmable, code, MessageId(0x1a2b), &Token::EMPTY)
        .expect("the buffer is long enough");
    for (number, value) in options {
        encoder.option(*number, value).expect("the options ascend and fit");
    }
    let length = encoder.payload(payload).expect("the payload fits").finish();
    buffer.truncate(length);
    buffer
}

/// Encodes an option header according to the table in RFC 7252 §3.1.
fn expected(delta: usize, length: usize) -> Vec<u8> {
    let field = |value: usize| match value {
        0..=12 => (value, vec![]),
        13..=268 => (13, vec![value - 13]),
        _ => (14, vec![(value - 269) / 256, (value - 269) % 256]),
    };
    let ((delta, delta_extension), (length, length_extension)) = (field(delta), field(length));
    let bytes = [vec![delta * 16 + length], delta_extension, length_extension].concat();
    bytes.into_iter().map(|byte| u8::try_from(byte).expect("a byte")).collect()
}

fn check(delta: u16, length: usize, value: &[u8]) {
    let header: Vec<u8> = OptionHeader::new(delta, length).expect("the length is possible").bytes().collect();
    assert_eq!(header, expected(delta.into(), length), "{delta} {length}");

    let bytes = [&header, &value[..length]].concat();
    let split = split_option(bytes[0], &bytes[1..]).expect("the option is complete");
    assert_eq!((split.delta, split.value.len(), split.rest.len()), (delta.into(), length, 0), "{delta} {length}");

    for end in 1..header.len() {
        let cut = split_option(bytes[0], &bytes[1..end]).err();
        assert_eq!(cut, Some(DecodeErrorKind::OptionTruncated), "{delta} {length} cut at {end}");
    }
    if length > 0 {
        let cut = split_option(bytes[0], &bytes[1..bytes.len() - 1]).err();
        assert_eq!(cut, Some(DecodeErrorKind::OptionTruncated), "{delta} {length}");
    }
}

// RFC 7252 §3.1
#[test]
fn every_delta_is_written_in_its_shortest_form_and_read_back() {
    for delta in 0..=u16::MAX {
        check(delta, 0, &[]);
    }
}

// RFC 7252 §3.1
#[test]
fn every_length_is_written_in_its_shortest_form_and_read_back() {
    let value = vec![0x5a; MAX_OPTION_LENGTH];
    for length in (0..1000).chain((1000..MAX_OPTION_LENGTH).step_by(97)).chain(65_530..=MAX_OPTION_LENGTH) {
        for delta in [0, 12, 13, 268, 269, u16::MAX] {
            check(delta, length, &value);
        }
    }
    assert!(OptionHeader::new(0, MAX_OPTION_LENGTH + 1).is_none());
    assert!(OptionHeader::new(0, usize::MAX).is_none());
}

// RFC 7252 §3.1
#[test]
fn option_nibbles_of_15_are_reserved() {
    for other in 0..=14 {
        assert_eq!(split_option(0xf0 | other, &[0; 1000]).err(), Some(DecodeErrorKind::OptionDelta));
        assert_eq!(split_option(other << 4 | 0xf, &[0; 1000]).err(), Some(DecodeErrorKind::OptionLength));
    }
}

fn encoder(buffer: &mut [u8]) -> Encoder<'_> {
    Encoder::new(buffer, Type::NonConfirmable, Code::POST, MessageId(0x0102), &Token::EMPTY).expect("a header fits")
}

#[test]
fn a_request_is_written_byte_for_byte() {
    let mut buffer = [0xee; 32];
    let token = Token::new(&[0xaa, 0xbb]).expect("short enough");
    let length = Encoder::new(&mut buffer, Type::Confirmable, Code::PUT, MessageId(0x0102), &token)
        .and_then(|mut encoder| {
            encoder
                .option(OptionNumber::URI_PATH, b"a")?
                .uint(OptionNumber::CONTENT_FORMAT, 0)?
                .uint(OptionNumber::SIZE1, 0x0400)?
                .payload(b"hi")
                .map(|encoder| encoder.finish())
        })
        .expect("everything fits");
    assert_eq!(&buffer[..length], b"\x42\x03\x01\x02\xaa\xbb\xb1a\x10\xd2\x23\x04\x00\xffhi");
}

// RFC 7252 §4.2 (Q05)
#[test]
fn an_empty_message_is_four_bytes_of_type_and_id() {
    assert_eq!(encode_empty(Type::Reset, MessageId(0x2018)), [0x70, 0, 0x20, 0x18]);
    assert_eq!(encode_empty(Type::Acknowledgement, MessageId(1)), [0x60, 0, 0, 1]);
}

// RFC 7252 §4.1 (Q01)
#[test]
fn an_empty_message_takes_no_content() {
    let mut buffer = [0; 32];
    let token = Token::from([1; 8]);
    let with_token = Encoder::new(&mut buffer, Type::Confirmable, Code::EMPTY, MessageId(1), &token);
    assert_eq!(with_token.err(), Some(EncodeError::EmptyWithContent));

    let mut empty = Encoder::new(&mut buffer, Type::Confirmable, Code::EMPTY, MessageId(1), &Token::EMPTY)
        .expect("an Empty message without a token is legal");
    assert_eq!(empty.option(OptionNumber::URI_PATH, b"a").err(), Some(EncodeError::EmptyWithContent));
    assert_eq!(empty.uint(OptionNumber::OBSERVE, 0).err(), Some(EncodeError::EmptyWithContent));
    assert_eq!(empty.payload(b"a").err(), Some(EncodeError::EmptyWithContent));
    let body = BodyBuilder::new().path("/a").build().expect("legal");
    assert_eq!(empty.body(&body).err(), Some(EncodeError::EmptyWithContent));
    assert_eq!(empty.payload(b"").and_then(|empty| empty.body(&Body::EMPTY)).map(|empty| empty.finish()), Ok(4));
}

#[test]
fn options_out_of_order_are_refused() {
    let mut buffer = [0; 32];
    let mut encoder = encoder(&mut buffer);
    encoder.option(OptionNumber::URI_PATH, b"a").expect("fits");
    let error = encoder.option(OptionNumber::URI_HOST, b"h").err();
    let (number, previous) = (OptionNumber::URI_HOST, OptionNumber::URI_PATH);
    assert_eq!(error, Some(EncodeError::OptionOrder { number, previous }));
}

#[test]
fn a_body_after_an_option_is_refused() {
    let mut buffer = [0; 32];
    let mut encoder = encoder(&mut buffer);
    encoder.uint(OptionNumber::OBSERVE, 0).expect("fits");
    let body = BodyBuilder::new().path("/a").build().expect("legal");
    assert!(matches!(encoder.body(&body).err(), Some(EncodeError::OptionOrder { .. })));
}

#[test]
fn nothing_follows_a_payload_or_body() {
    let body = BodyBuilder::new().path("/a").build().expect("legal");
    for by_body in [false, true] {
        let mut buffer = [0; 32];
        let mut encoder = encoder(&mut buffer);
        if by_body { encoder.body(&body) } else { encoder.payload(b"x") }.expect("fits");
        assert_eq!(encoder.option(OptionNumber::SIZE1, b"").err(), Some(EncodeError::AfterPayload));
        assert_eq!(encoder.payload(b"x").err(), Some(EncodeError::AfterPayload));
        assert_eq!(encoder.body(&body).err(), Some(EncodeError::AfterPayload));
    }
}

#[test]
fn a_value_longer_than_any_option_is_refused() {
    let mut buffer = alloc::vec![0; 70_000];
    let value = alloc::vec![0; MAX_OPTION_LENGTH + 1];
    let mut encoder = encoder(&mut buffer);
    let number = OptionNumber(9999);
    assert_eq!(encoder.option(number, &value).err(), Some(EncodeError::OptionTooLong { number }));
    encoder.option(number, &value[1..]).expect("the longest value fits");
}

fn behind(datagram: &[u8]) -> Result<Content<'_>, DecodeErrorKind> {
    Content::decode(Code(datagram[1]), datagram[0] & 0xf, &datagram[4..])
}

#[test]
fn content_decodes_the_same_without_its_header() {
    let options: [(OptionNumber, &[u8]); 2] = [(OptionNumber::URI_PATH, b"a"), (OptionNumber::URI_QUERY, b"b")];
    let datagram = datagram(Code::POST, &options, b"x");
    let message = Message::decode(&datagram).expect("well-formed");
    assert_eq!(behind(&datagram), Ok(message.content()));
    assert_eq!(OwnedMessage::from(message).content(), message.content());
}

#[test]
fn content_prints_as_its_message_does_without_type_and_id() {
    let datagram = datagram(Code::PUT, &[(OptionNumber::URI_PATH, b"a")], b"{}");
    let content = behind(&datagram).expect("well-formed");
    assert_eq!(content.to_string(), "PUT Uri-Path=a \"{}\"");
    assert_eq!(format!("{content:?}"), "Content(PUT Uri-Path=a \"{}\")");
}

#[test]
fn ill_formed_content_is_refused_without_a_header() {
    let refused = |token_length, bytes| Content::decode(Code::GET, token_length, bytes).err();
    assert_eq!(refused(9, &[0; 16]), Some(DecodeErrorKind::TokenLength));
    assert_eq!(refused(2, &[0; 1]), Some(DecodeErrorKind::TokenTruncated));
    assert_eq!(refused(0, &[0xff]), Some(DecodeErrorKind::PayloadMarker));
    assert_eq!(refused(0, &[0xb1]), Some(DecodeErrorKind::OptionTruncated));
}

// RFC 7252 §4.1 (Q01)
// CoAP over TCP ignores Empty messages, with or without content (RFC 8323 §3.4).
#[test]
fn only_udp_forbids_an_empty_message_to_have_content() {
    assert_eq!(behind(&[0x41, 0, 0, 1, 7]).map(|content| content.token().len()), Ok(1));
    let error = Message::decode(&[0x41, 0, 0, 1, 7]).expect_err("Empty messages have no token over UDP");
    assert_eq!(error.kind, DecodeErrorKind::EmptyWithContent);
}

#[test]
fn content_in_another_framing_round_trips() {
    let token = Token::new(&[1, 2, 3]).expect("short enough");
    let mut buffer = [0; 32];
    let length = Encoder::framed(&mut buffer, b"frame", &token)
        .and_then(|mut encoder| {
            let encoder = encoder.option(OptionNumber::URI_PATH, b"a")?.payload(b"x")?;
            Ok(encoder.finish())
        })
        .expect("everything fits");
    let content = Content::decode(Code::GET, token.tkl(), &buffer["frame".len()..length]).expect("well-formed");
    assert_eq!((content.token(), content.payload()), (token.clone(), &b"x"[..]));
    assert_eq!(content.option(OptionNumber::URI_PATH), Some(&b"a"[..]));
    assert_eq!(Encoder::framed(&mut [0; 7], b"frame", &token).err(), Some(EncodeError::BufferTooSmall));
}

#[test]
fn option_lookup_finds_exactly_the_options_present() {
    for number in [1, 2, 30, 31, 32, 63, 64, 252, 65_535_u16].map(OptionNumber) {
        let body = Body::builder().option(number, b"1").build();
        let Ok(body) = body else { continue };
        let content = body.content(Code::CONTENT).expect("a builder's options are well-formed");
        for other in [1, 2, 29, 30, 31, 32, 33, 63, 64, 252, 253, 65_535].map(OptionNumber) {
            let by_walk = content.options().any(|option| option.number == other);
            assert_eq!(by_walk, other == number);
            let used = other.spec().is_none_or(|spec| spec.used_in.includes(Code::CONTENT));
            assert_eq!(content.option(other).is_some(), by_walk && used, "{other} where there is {number}");
        }
    }
}

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
fn critical_options_of_later_rfcs_need_explicit_support() {
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
fn an_undefined_option_is_accepted_unchanged() {
    let options = datagram(Code::GET, &[(N(65_000), b""), (N(65_000), &[7; 500])], b"");
    let message = Message::decode(&options).expect("well-formed");
    assert!(message.values(N(65_000)).eq([&[][..], &[7; 500]]));
}

/// Of many lengths around a chunk, each with distinct bytes.
fn datagrams() -> impl Iterator<Item = Vec<u8>> {
    (1_u8..=255).map(|fill| datagram(Code::POST, &[], &vec![fill; usize::from(fill) * 7 % 1500 + 1]))
}

fn pooled(datagram: &[u8], pool: &mut MessagePool) -> OwnedMessage {
    OwnedMessage::pooled(Message::decode(datagram).expect("well-formed"), pool)
}

#[test]
fn a_payload_is_a_slice_of_its_message() {
    let bytes = Bytes::from(datagram(Code::POST, &[], b"payload"));
    let message = OwnedMessage::from_bytes(bytes.clone()).expect("well-formed");
    assert_eq!(message.view().as_bytes().as_ptr(), bytes.as_ptr());
    assert_eq!(message.payload_bytes().as_ptr(), message.payload().as_ptr());
    assert_eq!(message.payload_bytes(), &b"payload"[..]);
}

#[test]
fn a_message_without_payload_has_the_empty_slice() {
    let message = OwnedMessage::decode(datagram(Code::GET, &[], b"")).expect("well-formed");
    assert!(message.payload_bytes().is_empty());
}

#[test]
fn a_payload_outlives_its_message_and_its_pool() {
    let mut pool = MessagePool::new();
    let payload = pooled(&datagram(Code::POST, &[], b"payload"), &mut pool).payload_bytes();
    drop(pool);
    assert_eq!(payload, &b"payload"[..]);
}

#[test]
fn clones_of_a_body_share_its_bytes() {
    let body = Body::builder().path("/a").payload(vec![7; 100]).build().expect("legal");
    assert_eq!(body.clone().as_bytes().as_ptr(), body.as_bytes().as_ptr());
}

#[test]
fn a_body_takes_a_payload_in_all_that_becomes_bytes() {
    let text = Body::builder().payload("21.5").build();
    assert_eq!(Body::builder().payload(vec![b'2', b'1', b'.', b'5']).build(), text);
    assert_eq!(Body::builder().payload(alloc::string::String::from("21.5")).build(), text);
    assert_eq!(Body::builder().payload(&b"21.5"[..]).build(), text);
    assert_eq!(Body::builder().payload(Bytes::from_static(b"21.5")).build(), text);
}

#[test]
fn messages_that_are_kept_stay_as_they_were_while_others_come_and_go() {
    let mut pool = MessagePool::new();
    let mut kept = Vec::new();
    for (index, datagram) in datagrams().enumerate() {
        let message = pooled(&datagram, &mut pool);
        assert_eq!(message.view().as_bytes(), datagram);
        if index % 5 == 0 {
            kept.push((message, datagram));
        }
    }
    for (message, datagram) in kept {
        assert_eq!(message.view().as_bytes(), datagram);
    }
}

#[test]
fn messages_of_a_pool_lie_side_by_side() {
    let mut pool = MessagePool::new();
    let datagram = datagram(Code::GET, &[], b"");
    let [first, second] = [(); 2].map(|()| pooled(&datagram, &mut pool));
    assert_eq!(first.view().as_bytes().as_ptr_range().end, second.view().as_bytes().as_ptr());
}

#[test]
fn a_message_longer_than_a_chunk_is_pooled_as_well() {
    let mut pool = MessagePool::new();
    let long = datagram_of(MessagePool::CHUNK + 1);
    let exact = datagram_of(MessagePool::CHUNK);
    for datagram in [&long, &exact, &long] {
        assert_eq!(pooled(datagram, &mut pool).view().as_bytes(), &datagram[..]);
    }
}

fn datagram_of(length: usize) -> Vec<u8> {
    let mut datagram = vec![b'x'; length];
    datagram[..5].copy_from_slice(b"\x40\x02\x00\x01\xff");
    datagram
}

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
fn a_pooled_body_equals_a_built_body() {
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

#[test]
fn a_request_prints_its_method_and_options_by_name() {
    let options: [(N, &[u8]); 4] =
        [(N::IF_NONE_MATCH, b""), (N::URI_PATH, b"a"), (N::URI_PATH, b"b"), (N::CONTENT_FORMAT, b"\x32")];
    let datagram = datagram(Code::PUT, &options, b"{}");
    let message = Message::decode(&datagram).expect("well-formed");
    let text = "CON PUT [0x1a2b] If-None-Match Uri-Path=a Uri-Path=b Content-Format=50 \"{}\"";
    assert_eq!(message.to_string(), text);
    assert_eq!(format!("{message:?}"), format!("Message({text})"));
    assert_eq!(OwnedMessage::from(message).to_string(), text);
}

#[test]
fn empty_messages_and_unknown_codes_are_printed() {
    let ping = Message::decode(&[0x40, 0, 0, 7]).map(|message| message.to_string());
    assert_eq!(ping.as_deref(), Ok("CON Empty [0x0007]"));
    let unknown = Message::decode(&[0x51, 0x1f, 0, 7, 0xab]).map(|message| message.to_string());
    assert_eq!(unknown.as_deref(), Ok("NON 0.31 [0x0007] token=ab"));
}

#[test]
fn bytes_that_are_no_text_print_in_hexadecimal() {
    let datagram = datagram(Code::CONTENT, &[(N::ETAG, b"\x01\xff"), (N::LOCATION_PATH, b"\x1b[2J")], b"\x1b[2J");
    let text = Message::decode(&datagram).expect("well-formed").to_string();
    assert_eq!(text, "CON 2.05 [0x1a2b] ETag=0x01ff Location-Path=0x1b5b324a 0x1b5b324a");
}

#[test]
fn an_ill_formed_number_prints_in_hexadecimal() {
    let datagram = datagram(Code::CONTENT, &[(N::SIZE2, b"\x01\0\0\0\0")], b"");
    let text = Message::decode(&datagram).expect("well-formed").to_string();
    assert_eq!(text, "CON 2.05 [0x1a2b] Size2=0x0100000000");
}

#[test]
fn a_long_payload_is_cut_and_its_length_named() {
    let datagram = datagram(Code::CONTENT, &[], &[b'x'; 100]);
    let text = Message::decode(&datagram).expect("well-formed").to_string();
    assert_eq!(text, format!("CON 2.05 [0x1a2b] \"{}\"… (100 bytes)", "x".repeat(64)));
}

#[test]
fn a_text_is_not_cut_inside_a_character() {
    let payload = "ü".repeat(40);
    let datagram = datagram(Code::CONTENT, &[], &["x", &payload].concat().into_bytes());
    let text = Message::decode(&datagram).expect("well-formed").to_string();
    assert_eq!(text, format!("CON 2.05 [0x1a2b] \"x{}\"… (81 bytes)", "ü".repeat(31)));
}

#[test]
fn codec_errors_name_the_fault() {
    let error = Message::decode(&[0x49, 1, 0, 7]).expect_err("TKL 9 is reserved");
    assert_eq!(error.to_string(), "the token length is reserved: it is 15, or more than 8 without RFC 8974");
    let error = EncodeError::OptionOrder { number: N::ACCEPT, previous: N(2050) };
    let text = "option Accept comes after option Option-2050: options are written in ascending order of their numbers";
    assert_eq!(error.to_string(), text);
}

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
fn reserved_bytes_of_a_path_segment_are_percent_encoded() {
    assert_eq!(path(&[b"a/b"]), "/a%2Fb");
    assert_eq!(path(&[b"a b", b"%"]), "/a%20b/%25");
    assert_eq!(path(&["ü".as_bytes()]), "/%C3%BC");
    assert_eq!(path(&[b"\xc3\x28"]), "/%C3(");
    assert_eq!(path(&[b"-._~!$&'()*+,;=:@"]), "/-._~!$&'()*+,;=:@");
}

#[test]
fn queries_keep_their_order_and_replace_invalid_utf_8() {
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
