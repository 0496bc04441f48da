//! Attacks without the key: delayed, replayed, modified, exchanged and forged datagrams.

use conche_proto::codec::{Code, OptionNumber, OwnedMessage, Type};
use conche_proto::oscore::ReplayWindow;
use conche_proto::{Event, Failure};

use super::Pair;
use crate::support::world::Datagram;
use crate::support::{CLIENT, SERVER, STRANGER, end_of, ms, request, s, wire};

fn window(pair: &mut Pair) -> ReplayWindow {
    let server = pair.server;
    pair.world.node(SERVER).endpoint.context(server).and_then(|context| context.window()).expect("it is known")
}

fn requests(pair: &Pair) -> usize {
    pair.world.events(SERVER).iter().filter(|(_, event)| matches!(event, Event::Request { .. })).count()
}

fn rebuilt(message: &OwnedMessage, ty: Type, id: u16, token: &[u8]) -> Vec<u8> {
    let view = message.view();
    let options: Vec<(u16, &[u8])> = view.options().map(|option| (option.number.0, option.value)).collect();
    wire::with_options(ty, message.code(), id, token, &options, message.payload())
}

#[test]
fn no_copy_with_another_id_and_no_changed_bit_of_a_request_reaches_the_application() {
    let mut pair = Pair::new();
    let asked = pair.world.request(pair.request(Code::POST, "/count"));
    pair.world.run_to_end();
    let original = pair.world.first_copy(asked).message();
    let (before, held) = (window(&mut pair), pair.world.node(SERVER).endpoint.occupancy());
    let token = original.token();
    let mut id = 0;
    for turn in 0..40_u16 {
        // From its sender and from an eavesdropper: duplicates, and every flipped bit outside the
        // message layer.
        let from = if turn % 2 == 0 { CLIENT } else { STRANGER };
        let ty = if turn % 4 < 2 { Type::Confirmable } else { Type::NonConfirmable };
        let bytes = rebuilt(&original, ty, id, token.as_slice());
        for bit in 32 + token.len() * 8..bytes.len() * 8 {
            id = id.wrapping_add(1);
            let mut changed = rebuilt(&original, ty, id, token.as_slice());
            changed[bit / 8] ^= 1 << (bit % 8);
            // A flipped bit may turn a protected option into a plain path.
            let outer = OwnedMessage::decode(changed.clone()).ok();
            if outer.is_some_and(|outer| outer.option(OptionNumber::OSCORE).is_some()) {
                pair.world.inject(from, SERVER, &changed);
            }
        }
        id = id.wrapping_add(1);
        pair.world.inject(from, SERVER, &rebuilt(&original, ty, id, token.as_slice()));
        pair.world.run(s(1));
    }
    assert_eq!(requests(&pair), 1);
    assert_eq!(pair.world.app().calls["/count"], 1);
    assert_eq!(window(&mut pair), before, "nothing that is not authentic moves the window");
    assert!(pair.world.node(SERVER).endpoint.refused_protection() > 5_000);
    let now = pair.world.node(SERVER).endpoint.occupancy();
    assert_eq!(
        (now.incoming, now.exchanges, now.deduplication_entries),
        (held.incoming, 0, held.deduplication_entries)
    );
}

#[test]
fn an_oscore_refusal_is_unprotected_and_carries_the_diagnostic_of_the_rfc() {
    let mut pair = Pair::new();
    let asked = pair.world.request(pair.request(Code::GET, "/test"));
    pair.world.run_to_end();
    let original = pair.world.first_copy(asked).message();
    let token = original.token();
    let value = original.option(OptionNumber::OSCORE).expect("it is protected").to_vec();
    let mut forged = original.payload().to_vec();
    forged[0] ^= 1;
    let number = |number: u8| [&[value[0], number][..], &value[2..]].concat();
    let cases: [(&[u8], &[u8], Code, &str); 4] = [
        (&[0xff], original.payload(), Code::BAD_OPTION, "Failed to decode COSE"),
        (&[value[0], 9, b'x'], original.payload(), Code::UNAUTHORIZED, "Security context not found"),
        (&value, original.payload(), Code::UNAUTHORIZED, "Replay detected"),
        (&number(9), &forged, Code::BAD_REQUEST, "Decryption failed"),
    ];
    let peers = pair.world.node(SERVER).endpoint.occupancy().peers;
    for (id, (value, payload, code, diagnosis)) in (7_000..).zip(cases) {
        let sent = pair.world.sent.len();
        let bytes = wire::with_options(Type::Confirmable, Code::POST, id, token.as_slice(), &[(9, value)], payload);
        pair.world.inject(CLIENT, SERVER, &bytes);
        let [answer] = &pair.world.sent[sent..] else { panic!("one answer to {diagnosis}") };
        let answer = answer.message();
        assert_eq!((answer.code(), answer.payload()), (code, diagnosis.as_bytes()));
        assert_eq!(answer.uint(OptionNumber::MAX_AGE), Some(0));
        // A Non-confirmable error is ignored, unless no protected message could ever report that
        // the context is gone.
        let sent = pair.world.sent.len();
        let bytes =
            wire::with_options(Type::NonConfirmable, Code::POST, id + 100, token.as_slice(), &[(9, value)], payload);
        let is_unknown = diagnosis == "Security context not found";
        pair.world.inject(STRANGER, SERVER, &bytes);
        let answers = pair.world.sent[sent..].iter().map(Datagram::message);
        let answers: Vec<_> = answers.map(|answer| (answer.header().ty, answer.code())).collect();
        let answered = is_unknown.then_some((Type::NonConfirmable, Code::UNAUTHORIZED));
        assert_eq!(answers, Vec::from_iter(answered));
    }
    assert_eq!(pair.world.node(SERVER).endpoint.occupancy().peers, peers + 1, "whoever is told so has a message ID");
}

/// Block, mismatch and delay attacks: an attacker on the path delivers the answer to another
/// request.
#[test]
fn the_response_to_another_request_is_no_answer() {
    let mut pair = Pair::new();
    let first = pair.world.request(pair.request(Code::GET, "/a/b"));
    pair.world.run_to_end();
    assert!(end_of(pair.world.events(CLIENT), first).is_some_and(|(_, end)| end.is_ok()));
    let before = pair.world.sent_by(SERVER).last().expect("it answered").message();
    // From now on, no message of the server arrives by itself.
    pair.world.link = Box::new(|sent| if sent.from == SERVER { vec![] } else { vec![ms(10)] });
    let second = pair.world.request(pair.request(Code::GET, "/test"));
    pair.world.run(ms(100));
    let request = pair.world.first_copy(second).message();
    let (id, token) = (request.header().id.0, request.token());
    // The old answer in place of the new one: piggybacked and separate.
    for (ty, id) in [(Type::NonConfirmable, 9), (Type::Confirmable, 10), (Type::Acknowledgement, id)] {
        pair.world.inject(SERVER, CLIENT, &rebuilt(&before, ty, id, token.as_slice()));
        assert!(end_of(pair.world.events(CLIENT), second).is_none());
    }
    // The true answer is still accepted, even as a separate response.
    let answer = pair.world.sent_by(SERVER).last().expect("it answered").message();
    pair.world.inject(SERVER, CLIENT, &rebuilt(&answer, Type::NonConfirmable, 11, token.as_slice()));
    let (_, end) = end_of(pair.world.events(CLIENT), second).expect("it ended");
    assert_eq!(end.expect("a response").payload(), b"hello");
}

#[test]
fn unprotected_responses_are_ignored_and_errors_marked_unauthenticated() {
    let mut pair = Pair::new();
    pair.world.link = Box::new(|_| vec![]);
    let asked = pair.world.request(pair.request(Code::GET, "/test"));
    let request = pair.world.first_copy(asked);
    let token = request.message().token();
    for ty in [Type::NonConfirmable, Type::Confirmable] {
        pair.world.inject(SERVER, CLIENT, &wire::separate(&request.bytes, ty, Code::CONTENT, 5));
        assert!(end_of(pair.world.events(CLIENT), asked).is_none());
    }
    // An error with another token, or from another address, does not match this request.
    let mut other = token.as_slice().to_vec();
    other[0] ^= 1;
    let error = |token: &[u8]| wire::bare(Type::NonConfirmable, Code::UNAUTHORIZED, 6, token);
    pair.world.inject(SERVER, CLIENT, &error(&other));
    pair.world.inject(STRANGER, CLIENT, &error(token.as_slice()));
    assert!(end_of(pair.world.events(CLIENT), asked).is_none());
    pair.world.inject(SERVER, CLIENT, &error(token.as_slice()));
    let (_, end) = end_of(pair.world.events(CLIENT), asked).expect("it ended");
    assert_eq!(end.err(), Some(Failure::NotAuthenticated(Code::UNAUTHORIZED)));
}

#[test]
fn the_rest_of_a_protected_response_is_not_given_in_the_clear() {
    let mut pair = Pair::new();
    let asked = pair.world.request(pair.request(Code::GET, "/large"));
    pair.world.run_to_end();
    assert!(end_of(pair.world.events(CLIENT), asked).is_some_and(|(_, end)| end.is_ok()));
    let calls = pair.world.app().calls["/large"];
    let block = [(11, &b"large"[..]), (23, &[0x16])];
    pair.world.inject(CLIENT, SERVER, &wire::with_options(Type::Confirmable, Code::GET, 9, b"tok", &block, b""));
    assert_eq!(
        pair.world.app().calls["/large"],
        calls + 1,
        "the application was asked, who knows that it is not protected"
    );
}

#[test]
fn no_block_in_the_clear_gets_into_a_protected_body() {
    let mut pair = Pair::new();
    let body = vec![b'p'; 3_000];
    let put = conche_proto::codec::Body::builder().path("/large-update").payload(body.clone()).build().expect("legal");
    let asked = pair.world.request(conche_proto::Request::new(Code::PUT, put).protected(pair.client));
    pair.world.run(ms(30));
    let forged = [b'f'; 1_024];
    for (id, block) in [(9, 0x1e), (10, 0x2e)] {
        let options = [(11, &b"large-update"[..]), (27, &[block])];
        pair.world.inject(
            CLIENT,
            SERVER,
            &wire::with_options(Type::Confirmable, Code::PUT, id, b"tok", &options, &forged),
        );
    }
    pair.world.run_to_end();
    assert!(end_of(pair.world.events(CLIENT), asked).is_some_and(|(_, end)| end.is_ok()));
    assert_eq!(pair.world.app().large, body);
}

#[test]
fn a_plain_request_with_the_token_of_a_protected_one_is_answered_in_the_clear_and_the_other_way_round() {
    let mut pair = Pair::new();
    let plain = pair.world.request(request(Code::GET, "/test"));
    pair.world.run_to_end();
    assert!(end_of(pair.world.events(CLIENT), plain).is_some_and(|(_, end)| end.is_ok()));
    let answer = pair.world.sent_by(SERVER).last().expect("it answered").message();
    assert_eq!(answer.option(OptionNumber::OSCORE), None);
}
