//! The content of a message, independent of the UDP header.

use alloc::format;
use alloc::string::ToString;

use super::super::*;
use super::datagram;

/// Decodes the content of a UDP datagram.
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
fn what_is_framed_otherwise_is_decoded_as_it_was_encoded() {
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
fn an_option_is_found_whatever_its_number_and_none_that_is_not_there() {
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
