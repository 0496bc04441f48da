//! The printed form of messages.

use alloc::format;
use alloc::string::ToString;

use super::super::*;
use super::datagram;
use OptionNumber as N;

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
fn an_empty_message_and_an_unknown_code_print_what_is_there() {
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
fn errors_say_what_is_wrong() {
    let error = Message::decode(&[0x49, 1, 0, 7]).expect_err("TKL 9 is reserved");
    assert_eq!(error.to_string(), "the token length is reserved: it is 15, or more than 8 without RFC 8974");
    let error = EncodeError::OptionOrder { number: N::ACCEPT, previous: N(2050) };
    let text = "option Accept comes after option Option-2050: options are written in ascending order of their numbers";
    assert_eq!(error.to_string(), text);
}
