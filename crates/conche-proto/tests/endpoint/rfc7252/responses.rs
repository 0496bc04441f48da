//! Responses (RFC 7252 §5.2): piggybacked, separate and Non-confirmable, at both sides.

use conche_proto::codec::{Code, MessageId, Token, Type};
use conche_proto::{Event, Failure, Reliability};

use crate::support::{CLIENT, SERVER, STRANGER, World, acknowledged_at, end_of, ms, request, s, wire};

// RFC 7252 §5.2 (Q56)
#[test]
fn an_unknown_response_code_acts_by_its_class() {
    // Class, detail, and whether the application sees a success, a client error or a server error.
    for (class, detail, seen) in
        [(2, 30, [true, false, false]), (4, 30, [false, true, false]), (5, 30, [false, false, true])]
    {
        let mut world = World::client();
        let asked = world.request(request(Code::GET, "/test"));
        let response = wire::piggybacked(&world.first_copy(asked).bytes, Code::new(class, detail));
        world.inject(SERVER, CLIENT, &response);
        let (_, end) = end_of(world.events(CLIENT), asked).expect("it is a response");
        let code = end.expect("whatever its code").code();
        assert_eq!(code.description(), None, "{code} is unknown");
        assert_eq!([code.is_success(), code.is_client_error(), code.is_server_error()], seen);
    }
}

// RFC 7252 §5.2.1 (Q57)
#[test]
fn a_client_takes_piggybacked_and_separate_responses() {
    let mut world = World::pair();
    let piggybacked = world.request(request(Code::GET, "/test"));
    let separate = world.request(request(Code::GET, "/separate"));
    world.run_to_end();
    let kinds = [(piggybacked, Type::Acknowledgement, "hello"), (separate, Type::Confirmable, "late")];
    for (asked, ty, payload) in kinds {
        let (_, end) = end_of(world.events(CLIENT), asked).expect("it ended");
        let message = end.expect("a response");
        assert_eq!((message.header().ty, message.payload()), (ty, payload.as_bytes()));
    }
    assert_eq!(acknowledged_at(world.events(CLIENT), piggybacked), None);
    assert!(acknowledged_at(world.events(CLIENT), separate).is_some());
}

// RFC 7252 §5.2.2 (Q58, Q59, Q60)
// RFC 7252 §4.2 (Q16)
#[test]
fn a_late_response_is_separate_and_each_copy_of_its_request_gets_an_empty_ack_even_afterwards() {
    let mut world = World::server();
    let get = wire::request(Type::Confirmable, Code::GET, 5, b"tok", "/separate");
    world.inject(STRANGER, SERVER, &get);
    world.run(s(2));
    let ack = wire::empty_ack(MessageId(5));
    assert_eq!(world.sent.iter().map(|datagram| &datagram.bytes).collect::<Vec<_>>(), [&ack]);
    world.inject(STRANGER, SERVER, &get);
    world.run(ms(3_010));
    let response = world.sent.last().expect("the response").message();
    assert_eq!((response.header().ty, response.code()), (Type::Confirmable, Code::CONTENT));
    assert_eq!((response.token().as_slice(), response.header().id == MessageId(5)), (&b"tok"[..], false));

    world.inject(STRANGER, SERVER, &get);
    world.inject(STRANGER, SERVER, &wire::empty_ack(response.header().id));
    world.inject(STRANGER, SERVER, &get);
    let acks = world.sent.iter().filter(|datagram| datagram.bytes == ack).count();
    assert_eq!((acks, world.sent.len()), (4, 5), "four copies, four Empty ACKs, one response");
    world.run_to_end();
    assert_eq!((world.sent.len(), world.app().calls["/separate"]), (5, 1));
}

// RFC 7252 §5.2.2 (Q61)
#[test]
fn a_confirmable_response_is_acknowledged_with_an_empty_ack() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    let response = wire::separate(&world.first_copy(asked).bytes, Type::Confirmable, Code::CONTENT, 0x1234);
    world.inject(SERVER, CLIENT, &response);
    assert_eq!(world.sent.last().map(|ack| ack.bytes.clone()), Some(wire::empty_ack(MessageId(0x1234))));
}

// RFC 7252 §5.2.2 (Q62)
#[test]
fn any_matching_ack_or_reset_ends_the_retransmission_of_a_response() {
    let foreign = Token::new(b"foreign").expect("seven bytes");
    for (n, succeeds) in [(0, true), (1, true), (2, true), (3, false)] {
        let mut world = World::server();
        world.inject(STRANGER, SERVER, &wire::request(Type::Confirmable, Code::GET, 5, b"tok", "/separate"));
        world.run(s(12));
        let copies: Vec<_> = world.sent.iter().skip(1).collect();
        assert!(copies.len() >= 2, "the response is repeated until something comes");
        let (id, exchange) = (copies[0].message().header().id, copies[0].exchange.expect("an exchange").0);
        let answer = match n {
            0 => wire::empty_ack(id),
            1 => wire::message(Type::Acknowledgement, Code::CONTENT, id, &foreign, &wire::payload("ignored")),
            2 => wire::message(Type::Acknowledgement, Code::new(5, 31), id, &Token::EMPTY, &wire::payload("x")),
            _ => wire::reset(id),
        };
        world.inject(STRANGER, SERVER, &answer);
        let sent = world.sent.len();
        world.run_to_end();
        assert_eq!(world.sent.len(), sent);
        assert_eq!(acknowledged_at(world.events(SERVER), exchange).is_some(), succeeds);
        let failure = end_of(world.events(SERVER), exchange).map(|(_, end)| end.map(|_| ()));
        assert_eq!(failure, (!succeeds).then_some(Err(Failure::Reset)));
    }
}

// RFC 7252 §5.2.2 (Q63)
#[test]
fn a_response_that_overtakes_its_acknowledgement_ends_the_request() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    let sent = world.first_copy(asked);
    world.inject(SERVER, CLIENT, &wire::separate(&sent.bytes, Type::Confirmable, Code::CONTENT, 9));
    world.run(ms(5));
    world.inject(SERVER, CLIENT, &wire::empty_ack(sent.message().header().id));
    world.run_to_end();
    assert_eq!(world.departures(asked).len(), 1);
    assert!(end_of(world.events(CLIENT), asked).is_some_and(|(_, end)| end.is_ok()));
    assert_eq!(acknowledged_at(world.events(CLIENT), asked), None);
}

// RFC 7252 §5.2.3 (Q64)
#[test]
fn a_non_confirmable_request_gets_a_non_confirmable_response() {
    let mut world = World::pair();
    let asked = world.request(request(Code::GET, "/test").with_reliability(Reliability::NonConfirmable));
    world.run_to_end();
    let types: Vec<_> = world.sent.iter().map(|datagram| datagram.message().header().ty).collect();
    assert_eq!(types, [Type::NonConfirmable; 2]);
    assert!(end_of(world.events(CLIENT), asked).is_some_and(|(_, end)| end.is_ok()));
}

// RFC 7252 §5.2.3 (Q65)
#[test]
fn a_response_may_be_of_the_other_type_before_and_after_the_ack() {
    for (reliability, ty, ack) in [
        (Reliability::Confirmable, Type::NonConfirmable, None),
        (Reliability::Confirmable, Type::NonConfirmable, Some("before")),
        (Reliability::Confirmable, Type::NonConfirmable, Some("after")),
        (Reliability::NonConfirmable, Type::Confirmable, None),
    ] {
        let mut world = World::client();
        let asked = world.request(request(Code::GET, "/test").with_reliability(reliability));
        let sent = world.first_copy(asked);
        let empty_ack = wire::empty_ack(sent.message().header().id);
        if ack == Some("before") {
            world.inject(SERVER, CLIENT, &empty_ack);
        }
        world.inject(SERVER, CLIENT, &wire::separate(&sent.bytes, ty, Code::CONTENT, 9));
        if ack == Some("after") {
            world.inject(SERVER, CLIENT, &empty_ack);
        }
        world.run_to_end();
        let delivered = world.events(CLIENT).iter().filter(|(_, event)| matches!(event, Event::Response { .. }));
        assert_eq!(delivered.count(), 1, "{reliability:?} {ty} {ack:?}");
        assert_eq!(world.sent.len(), if ty == Type::Confirmable { 2 } else { 1 }, "{reliability:?} {ty} {ack:?}");
    }
}
