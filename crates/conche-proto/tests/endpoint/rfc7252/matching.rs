//! Matching of requests and responses (RFC 7252 §5.3.2): forged responses.

use conche_proto::codec::{Code, MessageId, Token, Type};

use crate::model::Address;
use crate::support::{CLIENT, SERVER, STRANGER, World, end_of, request, s, wire};

/// A message sent while a request to the server is outstanding.
struct Forgery {
    name: &'static str,
    from: Address,
    ty: Type,
    /// The request's message ID, for an ACK.
    right_id: bool,
    right_token: bool,
}

const FORGERIES: &[Forgery] = &[
    Forgery {
        name: "an ACK from elsewhere",
        from: STRANGER,
        ty: Type::Acknowledgement,
        right_id: true,
        right_token: true,
    },
    Forgery { name: "an ACK, wrong ID", from: SERVER, ty: Type::Acknowledgement, right_id: false, right_token: true },
    Forgery {
        name: "an ACK, wrong token",
        from: SERVER,
        ty: Type::Acknowledgement,
        right_id: true,
        right_token: false,
    },
    Forgery { name: "a CON from elsewhere", from: STRANGER, ty: Type::Confirmable, right_id: false, right_token: true },
    Forgery { name: "a CON, wrong token", from: SERVER, ty: Type::Confirmable, right_id: false, right_token: false },
    Forgery {
        name: "a NON from elsewhere",
        from: STRANGER,
        ty: Type::NonConfirmable,
        right_id: false,
        right_token: true,
    },
    Forgery { name: "a NON, wrong token", from: SERVER, ty: Type::NonConfirmable, right_id: false, right_token: false },
];

// RFC 7252 §5.3.2 (Q70, Q71, Q72, Q73)
#[test]
fn a_response_matches_by_source_token_and_if_piggybacked_message_id() {
    for Forgery { name, from, ty, right_id, right_token } in FORGERIES {
        let mut world = World::client();
        let asked = world.request(request(Code::GET, "/test"));
        let sent = world.first_copy(asked).message();
        let id = if *right_id { sent.header().id } else { MessageId(sent.header().id.0 ^ 0x5555) };
        // All bytes but the last are right.
        let mut token: [u8; 8] = sent.token().as_slice().try_into().expect("eight bytes");
        token[7] ^= u8::from(!right_token);
        let forged = wire::message(*ty, Code::CONTENT, id, &Token::from(token), &wire::payload("forged"));
        world.inject(*from, CLIENT, &forged);
        assert_eq!(end_of(world.events(CLIENT), asked), None, "{name}");
        // A Confirmable one is rejected with a Reset, the others silently.
        let answers: Vec<_> = world.sent.iter().skip(1).map(|datagram| datagram.bytes.clone()).collect();
        let expected = if *ty == Type::Confirmable { vec![wire::reset(id)] } else { vec![] };
        assert_eq!(answers, expected, "{name}");
        world.run(s(3));
        assert_eq!(world.departures(asked).len(), 2, "{name}: retransmission goes on");
        world.inject(SERVER, CLIENT, &wire::piggybacked(&world.first_copy(asked).bytes, Code::CONTENT));
        let (_, end) = end_of(world.events(CLIENT), asked).expect("the true response is taken");
        assert_eq!(end.expect("a response").payload(), b"hello", "{name}");
    }
}

// RFC 7252 §5.3.2 (Q73)
#[test]
fn a_response_without_a_request_is_rejected_by_type() {
    for (ty, answered) in [(Type::Confirmable, true), (Type::NonConfirmable, false), (Type::Acknowledgement, false)] {
        let mut world = World::client();
        world.inject(SERVER, CLIENT, &wire::bare(ty, Code::CONTENT, 6, &[1]));
        let answers: Vec<_> = world.sent.iter().map(|datagram| datagram.bytes.clone()).collect();
        assert_eq!(answers, if answered { vec![wire::reset(MessageId(6))] } else { vec![] });
        assert!(world.events(CLIENT).is_empty());
    }
}

#[test]
fn a_response_to_a_request_that_has_not_left_matches_nothing() {
    let mut world = World::client();
    world.request(request(Code::GET, "/test"));
    let token = Token::new(b"chosen");
    let waiting = world.request(conche_proto::Request { token, ..request(Code::GET, "/test") });
    world.inject(SERVER, CLIENT, &wire::bare(Type::NonConfirmable, Code::CONTENT, 6, b"chosen"));
    assert_eq!(end_of(world.events(CLIENT), waiting), None);
}
