//! Only the original value of the OSCORE option opens a message or moves a replay window.

use conche_proto::Instant;
use conche_proto::codec::{Body, Code, MessagePool, OptionNumber};
use conche_proto::oscore::Refused;

use super::oscore_ends::{encode, ends};

pub fn run(value: &[u8]) {
    let [(mut client, id), (mut server, at_server)] = ends();
    let body = Body::builder().path("/light").payload("on").build().expect("legal");
    let sent = client.protect_request(id, Code::PUT, &body).expect("numbers are reserved");
    let original = sent.body.option(OptionNumber::OSCORE).expect("it is protected").to_vec();
    let altered = Body::builder().option(OptionNumber::OSCORE, value).payload(sent.body.payload()).build();
    // The value may be too long for an option.
    let Ok(altered) = altered else { return };
    let datagram = encode(sent.code, &altered);
    let pool = &mut MessagePool::new();
    let before = server.get(at_server).expect("it is there").window();

    let asked = server.unprotect_request(Instant::ZERO, &datagram.view(), pool);
    // A request may omit its ID context (RFC 8613 §5.1).
    let says_it = value == original || value == b"\x09\x00C";
    assert_eq!(asked.is_ok(), says_it, "{value:02x?}");
    match asked {
        Ok(asked) => {
            assert_eq!((asked.message.uri_path().as_str(), asked.message.payload()), ("/light", &b"on"[..]));
            assert_eq!(server.unprotect_request(Instant::ZERO, &datagram.view(), pool), Err(Refused::Replayed));
        }
        Err(refused) => {
            assert_eq!(server.get(at_server).expect("it is there").window(), before);
            let (code, answer) = server.refusal(Instant::ZERO, &refused).expect("an answer");
            assert!(code.is_client_error() && answer.option(OptionNumber::OSCORE).is_none());
        }
    }
    assert!(client.unprotect_response(&mut sent.binding.clone(), &datagram.view(), pool).is_err());
}
