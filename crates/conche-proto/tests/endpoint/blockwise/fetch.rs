//! FETCH: its payload identifies the request and the response body (RFC 8132).

use conche_proto::codec::{Code, OptionNumber, Type};

use super::{b64, block_message, block_of};
use crate::support::Direct;
use crate::support::direct::{Given, content};

const B1: OptionNumber = OptionNumber::BLOCK1;
const B2: OptionNumber = OptionNumber::BLOCK2;

/// Requests block `num` of the response.
fn fetch(server: &mut Direct, id: u16, num: u32, payload: &[u8]) -> Given {
    server.receive(1, &block_message((Type::Confirmable, Code::FETCH, id), "/l", &[(B2, b64(num, false))], payload))
}

fn begin(server: &mut Direct, id: u16, payload: &[u8], letter: &str) {
    let request = fetch(server, id, 0, payload).request();
    let first = server.respond(request, content(&letter.repeat(100)));
    assert_eq!(first.message().payload(), letter.repeat(64).as_bytes());
}

fn rest(given: &Given) -> &str {
    assert!(given.requests().is_empty(), "the application is not asked");
    std::str::from_utf8(given.message().payload()).expect("letters")
}

// RFC 8132 §2.1 (Q301)
#[test]
fn requests_with_other_payloads_get_the_blocks_of_their_own_responses() {
    let mut server = Direct::new(conche_proto::EndpointConfig::default());
    begin(&mut server, 1, b"first", "a");
    begin(&mut server, 2, b"second", "b");
    assert_eq!(rest(&fetch(&mut server, 3, 1, b"first")), "a".repeat(36));
    assert_eq!(rest(&fetch(&mut server, 4, 1, b"second")), "b".repeat(36));
    // No client has requested this before.
    let request = fetch(&mut server, 5, 1, b"third").request();
    assert_eq!(server.respond(request, content(&"c".repeat(100))).message().payload(), "c".repeat(36).as_bytes());
    server.run_to_end();
}

// RFC 8132 §2.5 (Q302)
#[test]
fn blocks_that_are_asked_for_without_the_payload_are_those_of_the_last_response() {
    let mut server = Direct::new(conche_proto::EndpointConfig::default());
    begin(&mut server, 1, b"first", "a");
    server.now += std::time::Duration::from_secs(1);
    begin(&mut server, 2, b"second", "b");
    assert_eq!(rest(&fetch(&mut server, 3, 1, b"first")), "a".repeat(36));
    assert_eq!(rest(&fetch(&mut server, 4, 1, b"")), "b".repeat(36), "whatever was used last");
    // A payload that arrived in blocks is not repeated in further requests (RFC 7959 §2.7).
    server.now += std::time::Duration::from_secs(1);
    for (id, num) in [(5, 0), (6, 1)] {
        let block = [(B1, b64(num, num == 0))];
        let given = server.receive(1, &block_message((Type::Confirmable, Code::FETCH, id), "/l", &block, &[7; 64]));
        if let [request] = given.requests()[..] {
            let first = server.respond(request, content(&"c".repeat(2_000)));
            assert_eq!(block_of(first.message(), B1), Some(b64(1, false)));
        }
    }
    let given = fetch(&mut server, 7, 31, b"");
    assert_eq!(rest(&given), "c".repeat(16));
}
