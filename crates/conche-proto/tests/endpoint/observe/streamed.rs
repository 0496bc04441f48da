//! FETCH with Observe and a block-wise body (RFC 7959 §2.5) that the application streams.

use conche_proto::codec::{Code, OptionNumber, Type};
use conche_proto::{EndpointConfig, Event, ObserverEnd, RequestId, StreamEnd};

use crate::support::direct::{Given, ack_of, content};
use crate::support::{Direct, s, wire};

const TOPIC: u64 = 1;

fn server() -> Direct {
    let mut server = Direct::new(EndpointConfig::default());
    server.endpoint.stream_requests(Box::new(|_| true));
    server
}

/// 16 bytes, or 5 in the last block.
fn block(id: u16, token: &[u8], number: u8, more: bool, observe: Option<u8>) -> Vec<u8> {
    let observe: &[u8] = if observe == Some(1) { &[1] } else { &[] };
    let block1 = [number << 4 | u8::from(more) << 3];
    let options: &[(u16, &[u8])] = &[(6, observe), (11, b"r"), (27, &block1)];
    wire::with_options(Type::Confirmable, Code::FETCH, id, token, options, &vec![id as u8; if more { 16 } else { 5 }])
}

fn last_part(given: &Given) -> RequestId {
    let part = |event: &Event<u32>| match event {
        Event::Part { request, last: true, .. } => Some(*request),
        _ => None,
    };
    given.events.iter().find_map(part).unwrap_or_else(|| panic!("the last block is delivered: {given:?}"))
}

fn begin(server: &mut Direct, from: u32, id: u16, token: &[u8]) -> RequestId {
    let request = server.receive(from, &block(id, token, 0, true, Some(0))).request();
    assert!(server.endpoint.observe(server.now, request, TOPIC).is_some());
    server.endpoint.continue_request(server.now, request).expect("the block is taken");
    assert_eq!(server.drain().kinds(), [(Type::Acknowledgement, Code::CONTINUE)]);
    request
}

// RFC 7641 §4.1
#[test]
fn a_registration_in_two_blocks_is_observed_under_the_token_of_the_last() {
    for (first, second) in [(b"tok1", b"tok2"), (b"same", b"same")] {
        let mut server = server();
        begin(&mut server, 1, 1, first);
        let part = server.receive(1, &block(2, second, 1, false, Some(0)));
        let given = server.respond(last_part(&part), content("0"));
        assert!(given.message().option(OptionNumber::OBSERVE).is_some(), "{given:?}");
        assert_eq!(server.endpoint.notify(server.now, TOPIC, content("1")), Ok(1));
        let given = server.run(s(1));
        assert_eq!((given.message().token().as_slice(), given.message().payload()), (&second[..], &b"1"[..]));
        let acknowledgement = ack_of(given.message());
        server.receive(1, &acknowledgement);
        // It ends like any other, by its token.
        let given = server.receive(1, &block(3, second, 0, true, Some(1)));
        let gone = |event: &Event<u32>| matches!(event, Event::ObserverGone { reason: ObserverEnd::Deregistered, .. });
        assert!(given.events.iter().any(gone), "{given:?}");
        assert_eq!(server.endpoint.occupancy().observers, 0);
    }
}

#[test]
fn a_registration_that_is_begun_anew_or_given_up_leaves_no_observer() {
    let mut server = server();
    for client in 0..100 {
        begin(&mut server, client, 1, b"tok1");
    }
    assert_eq!(server.endpoint.occupancy().observers, 100);
    // A second first block restarts the body, and no further block follows.
    for client in 0..100 {
        begin(&mut server, client, 2, b"tok2");
    }
    assert_eq!(server.endpoint.occupancy().observers, 100, "one for each client");
    let given = server.run(s(1_000));
    let abandoned = |event: &&Event<u32>| matches!(event, Event::StreamOver { reason: StreamEnd::Abandoned, .. });
    assert_eq!(given.events.iter().filter(abandoned).count(), 100);
    assert_eq!((server.endpoint.occupancy().observers, server.endpoint.observers(TOPIC)), (0, 0));
    server.run_to_end();
}

#[test]
fn a_registration_whose_last_block_has_no_observe_option_is_answered_plainly() {
    let mut server = server();
    begin(&mut server, 1, 1, b"tok1");
    let last = wire::with_options(Type::Confirmable, Code::FETCH, 2, b"tok2", &[(11, b"r"), (27, &[0x10])], &[1; 5]);
    let part = server.receive(1, &last);
    let given = server.respond(last_part(&part), content("0"));
    assert_eq!(given.message().option(OptionNumber::OBSERVE), None);
    assert_eq!(server.endpoint.occupancy().observers, 0);
}

#[test]
fn the_last_block_of_a_registration_replaces_an_observer_with_its_token() {
    let mut server = server();
    begin(&mut server, 1, 1, b"tok1");
    let part = server.receive(1, &block(2, b"tok2", 1, false, Some(0)));
    server.respond(last_part(&part), content("0"));
    begin(&mut server, 1, 3, b"tok3");
    let part = server.receive(1, &block(4, b"tok2", 1, false, Some(0)));
    let replaced = |event: &Event<u32>| matches!(event, Event::ObserverGone { reason: ObserverEnd::Replaced, .. });
    assert!(part.events.iter().any(replaced), "{part:?}");
    server.respond(last_part(&part), content("0"));
    assert_eq!(server.endpoint.observers(TOPIC), 1);
}
