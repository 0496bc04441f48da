//! Network errors (RFC 7252 §4.2): trusted if they quote an outstanding message, otherwise ignored.

use conche_proto::codec::Code;
use conche_proto::{Failure, Input};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::model::Address;
use crate::support::{CLIENT, SERVER, STRANGER, World, end_of, ms, request, request_with_payload, s};

// RFC 7252 §4.2 (Q17)
#[test]
fn a_thousand_forged_errors_cancel_nothing_and_the_true_one_does() {
    let mut random = ChaCha8Rng::seed_from_u64(17);
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    let datagram = world.first_copy(asked).bytes;
    // Type, token length, code, message ID and token: an off-path attacker cannot know all of them.
    let identity = 12;
    for n in 0..1_000_usize {
        let mut forged = datagram.clone();
        match n % 4 {
            0 => forged[(n / 4) % identity] ^= 1 << (random.next_u32() % 8),
            1 => random.fill_bytes(&mut forged[..identity]),
            2 => random.fill_bytes(&mut forged[4..identity]),
            _ => forged.truncate((n / 4) % identity),
        }
        assert_ne!(forged.get(..identity), Some(&datagram[..identity]));
        world.unreachable(SERVER, Some(&forged));
        world.unreachable(STRANGER, Some(&datagram));
    }
    assert_eq!(end_of(world.events(CLIENT), asked), None);
    world.run(s(3));
    assert_eq!(world.departures(asked).len(), 2, "retransmission goes on");

    world.unreachable(SERVER, Some(&datagram[..identity]));
    let (_, end) = end_of(world.events(CLIENT), asked).expect("the true error ends the exchange");
    assert_eq!(end.map(|_| ()), Err(Failure::Unreachable));
    world.run_to_end();
}

#[test]
fn an_icmp_error_ends_the_exchanges_in_flight_with_that_peer() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    let waiting = world.request(request(Code::GET, "/test"));
    world.unreachable(STRANGER, None);
    assert_eq!(end_of(world.events(CLIENT), asked), None);
    world.unreachable(SERVER, None);
    let (_, end) = end_of(world.events(CLIENT), asked).expect("the error ends the exchange");
    assert_eq!(end.map(|_| ()), Err(Failure::Unreachable));
    assert_eq!(end_of(world.events(CLIENT), waiting), None, "what had not left is not concerned");
    assert_eq!(world.departures(waiting), [world.now], "the slot is free");
}

// RFC 7252 §4.2 (Q18)
#[test]
fn a_message_too_big_for_the_path_is_repeated_on_schedule_and_times_out() {
    let mut world = World::pair();
    world.link = Box::new(|datagram| if datagram.bytes.len() > 576 - 28 { vec![] } else { vec![ms(10)] });
    let big = world.request(request_with_payload(Code::PUT, "/test", 600));
    world.run_to_end();
    let departures = world.departures(big);
    let t = departures[1] - departures[0];
    assert_eq!(departures[4] - departures[0], 15 * t);
    let (at, end) = end_of(world.events(CLIENT), big).expect("the request ends");
    assert_eq!((end.map(|_| ()), at - departures[0]), (Err(Failure::TimedOut), 31 * t));

    let small = world.request(request_with_payload(Code::PUT, "/test", 500));
    world.run_to_end();
    let (_, end) = end_of(world.events(CLIENT), small).expect("the request ends");
    assert_eq!(end.expect("a response").code(), Code::CHANGED);
}

// RFC 7252 §4.2 (Q18, Q19)
#[test]
fn the_endpoint_interface_excludes_icmp_errors_that_must_be_ignored() {
    // Exhaustive: a new input for Source Quench, Time Exceeded or Packet Too Big fails here.
    fn is_error(input: &Input<'_, Address>) -> bool {
        match input {
            Input::Datagram(_) => false,
            Input::Unreachable { peer: _, quoted: _ } => true,
        }
    }
    assert!(is_error(&Input::Unreachable { peer: SERVER, quoted: None }));
    assert!(!is_error(&Input::datagram(SERVER, &[])));
}
