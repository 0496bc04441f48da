//! Rate limits of the responder, and which contexts it keeps.

use std::cell::Cell;

use conche_proto::edhoc::{Initiator, with_id};
use conche_proto::oscore::Contexts;

use super::super::OwnCredential;
use super::*;

fn own(kid: &[u8], name: &str) -> OwnCredential {
    let key = generate().expect("there is randomness");
    let credential = Credential::of(&key, kid, name).expect("short");
    OwnCredential::new(key, credential).expect("they belong together")
}

fn ends() -> (Party, EdhocResponder) {
    let (lamp, hall) = (own(b"\x01", "lamp"), own(b"\x02", "hall"));
    let knows = |own, other| Party::new(own).with_peer(other).expect("one alone");
    let (known_lamp, known_hall) = (lamp.credential().clone(), hall.credential().clone());
    let responder = EdhocResponder::new(knows(hall, known_lamp), Fence::default()).expect("there is randomness");
    (knows(lamp, known_hall), responder)
}

fn prefix(number: u64) -> Group {
    Group::of((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn begun(party: &Party) -> (Initiator, Vec<u8>) {
    let c_i = random_id::<3>().expect("there is randomness");
    let begun = Initiator::begin(Arc::clone(&party.own), c_i, generate().expect("there is randomness"));
    let (initiator, message_1) = begun.expect("it can begin");
    (initiator, [&[NO_ID], message_1.as_slice()].concat())
}

fn is_answered(responder: &EdhocResponder, now: Instant, source: Source, message_1: &[u8]) -> bool {
    let drawn = Cell::new(None);
    let answer = responder.answer(now, source, message_1, |c_r| drawn.replace(Some(c_r)).is_none());
    if answer.code == Code::CHANGED {
        let wrong = with_id(drawn.get().expect("it has a name"), b"\x40");
        assert_eq!(responder.answer(now, source, &wrong, |_| true).code, Code::BAD_REQUEST);
        assert!(responder.state().half_open.is_empty());
    }
    answer.code == Code::CHANGED
}

const START: Instant = Instant::from_millis(5_000);

#[test]
fn handshake_computations_per_prefix_are_rate_limited() {
    let (lamp, responder) = ends();
    let (_, message_1) = begun(&lamp);
    let attempt = |now, group| is_answered(&responder, now, Source { group, host: None }, &message_1);
    assert_eq!((0..700).filter(|_| attempt(START, prefix(1))).count(), 512);
    let later = (1..=1_000).filter(|&ms| attempt(START + Duration::from_millis(ms), prefix(1)));
    assert_eq!(later.count(), 100);
    assert!(attempt(START, prefix(2)), "others are answered");
}

#[test]
fn forged_addresses_leave_half_of_a_prefix_for_validated_ones() {
    let (lamp, responder) = ends();
    let (_, message_1) = begun(&lamp);
    let asked = |from: u32, echo: Option<&[u8]>| responder.challenge(START, &from, prefix(1), &message_1, echo);
    let attempt = |host| is_answered(&responder, START, Source { group: prefix(1), host }, &message_1);
    let forged = (0..400).filter(|&from| asked(from, None) == Ok(false) && attempt(None)).count();
    assert_eq!(forged, 256);
    let echo = asked(7, None).expect_err("it has to show it");
    assert!(asked(7, Some(&echo)) == Ok(true) && attempt(Some(prefix(7))));
    assert!(asked(8, Some(&echo)).is_err(), "it was another's");
    assert!(responder.challenge(START, &9, prefix(2), &message_1, None) == Ok(false), "of others nothing is asked");
}

#[test]
fn a_host_is_limited_within_its_prefix_and_malformed_messages_are_free() {
    let (lamp, responder) = ends();
    let (_, message_1) = begun(&lamp);
    let attempt =
        |host| is_answered(&responder, START, Source { group: prefix(1), host: Some(prefix(host)) }, &message_1);
    for _ in 0..2_000 {
        let wrong = responder.answer(START, Source { group: prefix(1), host: Some(prefix(7)) }, &[NO_ID, 0], |_| true);
        assert_eq!(wrong.code, Code::BAD_REQUEST);
        assert_eq!(responder.challenge(START, &7, prefix(1), &[NO_ID, 0], None), Ok(false));
    }
    assert_eq!((0..600).filter(|_| attempt(7)).count(), 64);
    assert!(attempt(8), "its neighbour is answered");
    let refused = responder.answer(START, Source { group: prefix(1), host: Some(prefix(7)) }, &message_1, |_| true);
    assert_eq!((refused.code, refused.message), (Code::SERVICE_UNAVAILABLE, Error::TooOften.message()));
}

#[test]
fn an_edhoc_context_that_cannot_be_added_leaves_no_state() {
    let (lamp, responder) = ends();
    for added in [false, true] {
        let (initiator, message_1) = begun(&lamp);
        let answer = responder.answer(START, Source { group: prefix(1), host: None }, &message_1, |_| true);
        let (agreed, message_3) = initiator.finish(&answer.message, &lamp.peers).expect("they know each other");
        let c_r = agreed.credentials.sender_id;
        let mut contexts = Contexts::new(usize::from(added), [7; 32]);
        let combined = responder.combined(START, c_r, &message_3, |context| contexts.insert(context));
        assert_eq!(combined.map_err(|(code, _)| code), if added { Ok(()) } else { Err(Code::INTERNAL_SERVER_ERROR) });
        assert_eq!(responder.identity(c_r).is_some(), added);
        assert_eq!(responder.state().of.values().map(VecDeque::len).sum::<usize>(), usize::from(added));
    }
}

#[test]
fn a_panic_in_a_computation_ends_its_own_exchange_and_no_other() {
    let (lamp, responder) = ends();
    let fence = responder.state().fence.clone();
    let (waiting, message_1) = begun(&lamp);
    let answer = |payload: &[u8]| responder.answer(START, Source { group: prefix(1), host: None }, payload, |_| true);
    let message_2 = answer(&message_1).message;

    fence.inject_panic(WHAT);
    assert_eq!(answer(&begun(&lamp).1).code, Code::INTERNAL_SERVER_ERROR);
    for combined in [false, true] {
        let (initiator, message_1) = begun(&lamp);
        let (agreed, message_3) = initiator.finish(&answer(&message_1).message, &lamp.peers).expect("a known peer");
        let c_r = agreed.credentials.sender_id;
        fence.inject_panic(WHAT);
        let code = match combined {
            false => answer(&with_id(c_r, &message_3)).code,
            true => responder.combined(START, c_r, &message_3, |_| panic!("no context")).expect_err("a panic").0,
        };
        assert_eq!(code, Code::INTERNAL_SERVER_ERROR);
        assert_eq!(answer(&with_id(c_r, &message_3)).code, Code::BAD_REQUEST, "the exchange is over");
    }
    assert_eq!(fence.panics(), 3);

    let (agreed, message_3) = waiting.finish(&message_2, &lamp.peers).expect("a known peer");
    assert_eq!(answer(&with_id(agreed.credentials.sender_id, &message_3)).code, Code::CHANGED);
}
