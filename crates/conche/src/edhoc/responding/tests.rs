use conche_proto::edhoc::Initiator;
use conche_proto::oscore::Contexts;

use super::super::Own;
use super::*;

fn own(kid: &[u8], name: &str) -> Own {
    let key = generate().expect("there is randomness");
    let credential = Credential::of(&key, kid, name).expect("short");
    Own::new(key, credential).expect("they belong together")
}

/// A client, and a server that knows it.
fn ends() -> (Party, Responding) {
    let (lamp, hall) = (own(b"\x01", "lamp"), own(b"\x02", "hall"));
    let knows = |own, other| Party::new(own).with_peer(other).expect("one alone");
    let (known_lamp, known_hall) = (lamp.credential().clone(), hall.credential().clone());
    let responding = Responding::new(knows(hall, known_lamp), false).expect("there is randomness");
    (knows(lamp, known_hall), responding)
}

fn prefix(number: u64) -> Group {
    Group::of((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A client begins: its message_1, and what finishes it.
fn begun(party: &Party) -> (Initiator, Vec<u8>) {
    let c_i = random_id::<3>().expect("there is randomness");
    let begun = Initiator::begin(Arc::clone(&party.own), c_i, generate().expect("there is randomness"));
    let (initiator, message_1) = begun.expect("it can begin");
    (initiator, [&[NO_ID], message_1.as_slice()].concat())
}

const START: Instant = Instant::from_millis(5_000);

#[test]
fn what_was_agreed_on_and_cannot_be_used_takes_nobodys_place() {
    let (lamp, responding) = ends();
    for added in [false, true] {
        let (initiator, message_1) = begun(&lamp);
        let answer = responding.answer(START, prefix(1), &message_1, |_| true);
        let (agreed, message_3) = initiator.finish(&answer.message, &lamp.peers).expect("they know each other");
        let c_r = agreed.credentials.sender_id;
        let mut contexts = Contexts::new(usize::from(added), [7; 32]);
        let combined = responding.combined(START, c_r, &message_3, |context| contexts.insert(context));
        assert_eq!(combined.map_err(|(code, _)| code), if added { Ok(()) } else { Err(Code::INTERNAL_SERVER_ERROR) });
        assert_eq!(responding.identity(c_r).is_some(), added);
        assert_eq!(responding.state().of.values().map(VecDeque::len).sum::<usize>(), usize::from(added));
    }
}
