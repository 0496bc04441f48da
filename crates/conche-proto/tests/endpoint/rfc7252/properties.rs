//! Properties of all sent messages for any input; the checkers assert them.

use conche_proto::codec::{Code, Type};
use proptest::prelude::*;

use crate::support::{CLIENT, SERVER, STRANGER, World, request, s, wire};

/// All types and codes, few message IDs and tokens, some truncated or modified.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let ty = prop::sample::select(vec![Type::Confirmable, Type::NonConfirmable, Type::Acknowledgement, Type::Reset]);
    let code = prop_oneof![
        Just(Code::EMPTY),
        Just(Code::GET),
        Just(Code::POST),
        Just(Code::CONTENT),
        any::<u8>().prop_map(Code)
    ];
    let path = prop::sample::select(vec!["/test", "/separate", "/nope"]);
    let well_formed = (ty, code, 0..6_u16, 0..3_usize, path).prop_map(|(ty, code, id, token, path)| {
        if code.is_request() {
            wire::request(ty, code, id, &[7; 2][..token.min(2)], path)
        } else if code.is_empty() {
            wire::bare(ty, code, id, &[])
        } else {
            wire::bare(ty, code, id, &[7; 2][..token.min(2)])
        }
    });
    (well_formed, any::<prop::sample::Index>(), any::<u8>(), 0..4_u8).prop_map(|(mut bytes, index, byte, change)| {
        let at = index.index(bytes.len());
        match change {
            0 => bytes.truncate(at),
            1 => bytes[at] = byte,
            _ => {}
        }
        bytes
    })
}

proptest! {
    // RFC 7252 §4.2 (Q02, Q04, Q05, Q07)
    // RFC 7252 §4.3 (Q20, Q21)
    // RFC 7252 §4.4 (Q24)
    #[test]
    fn each_ack_and_reset_answers_one_confirmable_message_with_its_id(
        datagrams in prop::collection::vec((datagram(), 0..2_000_u64), 1..40),
    ) {
        let mut world = World::pair();
        world.request(request(Code::GET, "/separate"));
        let mut confirmable = Vec::new();
        for (datagram, pause) in datagrams {
            for node in [SERVER, CLIENT] {
                world.inject(STRANGER, node, &datagram);
            }
            if datagram.len() >= 4 && datagram[0] >> 4 == 0b0100 {
                confirmable.push([datagram[2], datagram[3]]);
            }
            world.run(std::time::Duration::from_millis(pause));
        }
        world.run(s(300));
        let answers = world.sent.iter().filter(|sent| sent.to == STRANGER).filter_map(|sent| {
            let ty = sent.message().header().ty;
            matches!(ty, Type::Acknowledgement | Type::Reset).then_some((sent.from, [sent.bytes[2], sent.bytes[3]]))
        });
        for node in [SERVER, CLIENT] {
            let mut due = confirmable.clone();
            for (_, id) in answers.clone().filter(|(from, _)| *from == node) {
                let at = due.iter().position(|due| *due == id);
                prop_assert!(at.is_some(), "an answer to nothing: {id:02x?}");
                due.swap_remove(at.unwrap_or_default());
            }
            // A duplicate before the reply is ready shares the reply; every message gets one.
            let without = due.iter().find(|due| !answers.clone().any(|answer| answer == (node, **due)));
            prop_assert_eq!(without, None, "neither ACK nor RST");
        }
        let mut headers = world.sent.iter().map(|sent| sent.message().header());
        let empty_non = headers.any(|header| header.ty == Type::NonConfirmable && header.code.is_empty());
        prop_assert!(!empty_non);
        world.run_to_end();
    }
}
