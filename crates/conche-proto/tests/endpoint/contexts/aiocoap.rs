//! Interoperability with aiocoap 0.4.17 in both directions, byte for byte.

use conche_proto::codec::{Body, Code, ContentFormat, OptionNumber, OwnedMessage};
use conche_proto::oscore::{Credentials, ReplayWindow, Start};

use super::support::{End, id, option};

/// With the master secret and salt of RFC 8613.
fn credentials(sender: &[u8], recipient: &[u8]) -> Credentials {
    let secret: Vec<u8> = (1..=16).collect();
    Credentials {
        master_salt: vec![0x9e, 0x7c, 0xa9, 0x22, 0x23, 0x78, 0x63, 0x40],
        ..Credentials::new(secret, id(sender), id(recipient))
    }
}

fn bytes(digits: &str) -> Vec<u8> {
    let digit = |digit: char| u8::try_from(digit.to_digit(16).expect("a digit")).expect("small");
    let digits: Vec<u8> = digits.chars().map(digit).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A GET with number 9, and a registration with number 10.
const GET: &str = "4102000107396c6f63616c686f7374680909636c69656e74ff19b89d7c428474945e8d1174b7aae0e82e";
const REGISTRATION: &str = "4105000208396c6f63616c686f73743038090a636c69656e74ff8ec4aae473db072573b9022f5c68d9c653a0";

#[test]
fn requests_recorded_from_aiocoap_decrypt_to_their_content() {
    let mut server = End::ready(&credentials(b"server", b"client"), Start::First);
    for (datagram, number, observe) in [(GET, 9, None), (REGISTRATION, 10, Some(0))] {
        let asked = server.receive(&OwnedMessage::decode(bytes(datagram)).expect("well-formed")).expect("authentic");
        assert_eq!((asked.message.code(), asked.message.uri_path().as_str()), (Code::GET, "/tv1"));
        assert_eq!(asked.message.uri_queries().collect::<Vec<_>>(), ["x=1"]);
        assert_eq!(asked.message.uint(OptionNumber::OBSERVE), observe);
        assert_eq!(asked.message.option(OptionNumber::URI_HOST), Some(&b"localhost"[..]));
        assert_eq!(asked.binding.number(), number);
    }
}

#[test]
fn a_request_is_protected_as_aiocoap_does_it() {
    let start = Start::Resumed { next: 9, window: ReplayWindow::EMPTY };
    let mut client = End::ready(&credentials(b"client", b"server"), start);
    for (datagram, observe) in [(GET, None), (REGISTRATION, Some(0))] {
        let mut body = Body::builder().option(OptionNumber::URI_HOST, b"localhost").path("/tv1").query("x=1");
        if let Some(value) = observe {
            body = body.uint(OptionNumber::OBSERVE, value);
        }
        let (request, _) = client.request(Code::GET, &body.build().expect("legal"));
        let theirs = OwnedMessage::decode(bytes(datagram)).expect("well-formed");
        assert_eq!(request.code(), theirs.code());
        assert_eq!(request.content().options().collect::<Vec<_>>(), theirs.content().options().collect::<Vec<_>>());
        assert_eq!(request.payload(), theirs.payload());
    }
}

/// aiocoap accepted both as 2.05 with a payload: one with the request's number, one with its own.
#[test]
fn responses_are_those_that_aiocoap_takes() {
    let mut server = End::ready(&credentials(b"server", b"client"), Start::First);
    let mut receive = |datagram: &str| {
        let request = OwnedMessage::decode(bytes(datagram)).expect("well-formed");
        server.receive(&request).expect("authentic").binding
    };
    let (get, registration) = (receive(GET), receive(REGISTRATION));
    let state = |observe: Option<u32>| {
        let mut body = Body::builder().content_format(ContentFormat::TEXT_PLAIN).payload("21.5");
        if let Some(value) = observe {
            body = body.uint(OptionNumber::OBSERVE, value);
        }
        body.build().expect("legal")
    };
    let expected = [
        (&get, None, "", "226e90e3be42218e8289f3d3415ad6"),
        (&get, None, "0100", "82bf483ce70f01605596094ec3a6bc"),
        (&registration, Some(5), "", "8a16f971a828c385bc8d2cc2c1e3fe9b"),
        (&registration, Some(6), "0101", "d34c8a19ef557306157827e436adfbf4"),
    ];
    for (binding, observe, value, payload) in expected {
        let response = server.respond(binding, Code::CONTENT, &state(observe));
        assert_eq!((option(&response), response.payload()), (&bytes(value)[..], &bytes(payload)[..]));
    }
}
