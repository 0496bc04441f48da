//! Off-path attackers that know addresses and ports, and guess the rest.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::cc::any::ALL;
use conche_proto::codec::{Code, MessageId, Token, Type};
use conche_proto::{Endpoint, EndpointConfig, Input, Instant, Output};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::model::Address;
use crate::support::world::{by_name, seed_of};
use crate::support::{CLIENT, SERVER, World, end_of, ms, request, s, wire};

fn asking(seed: u64) -> (Endpoint<Address, AnyController>, Vec<u8>) {
    let mut endpoint =
        Endpoint::new(EndpointConfig::default(), by_name("default"), seed_of(seed)).expect("legal parameters");
    endpoint.request(Instant::ZERO, SERVER, request(Code::GET, "/test")).expect("room");
    let mut buffer = [0; 1152];
    let Output::Transmit(transmit) = endpoint.poll(Instant::ZERO, &mut buffer) else { panic!("the request leaves") };
    (endpoint, buffer[..transmit.len].to_vec())
}

/// Returns the datagrams sent in answer. No event may follow.
fn attack(endpoint: &mut Endpoint<Address, AnyController>, from: Address, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut buffer = [0; 1152];
    endpoint.handle(Instant::ZERO, Input::datagram(from, bytes)).expect("drained");
    let mut sent = Vec::new();
    loop {
        match endpoint.poll(Instant::ZERO, &mut buffer) {
            Output::Transmit(transmit) => sent.push(buffer[..transmit.len].to_vec()),
            Output::Event(event) => panic!("{bytes:02x?} was believed: {event:?}"),
            Output::Wait(_) => return sent,
        }
    }
}

#[test]
fn a_million_resets_from_other_endpoints_cancel_nothing() {
    let (mut endpoint, _) = asking(1);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for n in 0..1_000_000_u32 {
        let from = SERVER + 1 + (random.next_u32() % 1_000) as Address;
        let reset = wire::reset(MessageId(n as u16));
        assert!(attack(&mut endpoint, from, &reset).is_empty(), "a Reset is never answered");
    }
    assert_eq!(endpoint.snapshot(&SERVER).map(|snapshot| snapshot.outstanding), Some(1));
}

#[test]
fn a_million_forged_responses_from_the_right_address_deliver_nothing() {
    let (mut endpoint, sent) = asking(2);
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let payload = wire::payload("forged");
    for n in 0..1_000_000_u32 {
        let ty = [Type::Acknowledgement, Type::Confirmable, Type::NonConfirmable][n as usize % 3];
        // Sixteen rounds through all message IDs, so that the right one is hit.
        let token = Token::from(random.next_u64().to_le_bytes());
        assert_ne!(token, wire::decode(&sent).token(), "a lucky attacker: choose another seed");
        let forged = wire::message(ty, Code::CONTENT, MessageId(n as u16), &token, &payload);
        let answers = attack(&mut endpoint, SERVER, &forged);
        // Sixteen Resets; the clock does not advance, so no more follow.
        let is_rejected = ty == Type::Confirmable && n < 3 * 16;
        let expected = if is_rejected { vec![wire::reset(MessageId(n as u16))] } else { vec![] };
        assert_eq!(answers, expected, "at most one Reset for a datagram");
    }
    assert_eq!(endpoint.snapshot(&SERVER).map(|snapshot| snapshot.outstanding), Some(1));
}

#[test]
fn requests_complete_under_a_spray_of_all_empty_acks() {
    const TRIALS: u64 = 100;
    let mut completed = 0;
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for trial in 0..TRIALS {
        let mut world = World::empty();
        world.add(CLIENT, EndpointConfig::default(), by_name("default"), trial);
        let asked = world.request(request(Code::GET, "/test"));
        // The first transmission is lost: a trusted acknowledgement would stall the request.
        let first = random.next_u32() as u16;
        let (now, client) = (world.now, world.node(CLIENT));
        for id in 0..=u16::MAX {
            let bytes = wire::empty_ack(MessageId(first.wrapping_add(id)));
            client.endpoint.handle(now, Input::datagram(SERVER, &bytes)).expect("drained");
        }
        world.settle(CLIENT);
        world.run(s(3));
        if let Some(copy) = world.departures(asked).get(1).map(|_| world.first_copy(asked).bytes) {
            world.inject(SERVER, CLIENT, &wire::piggybacked(&copy, Code::CONTENT));
        }
        world.run_to_end();
        let (_, end) = end_of(world.events(CLIENT), asked).expect("every request ends");
        completed += u64::from(end.is_ok());
    }
    assert!(completed * 100 >= TRIALS * 99, "{completed} of {TRIALS} requests completed");
}

#[test]
fn empty_acks_are_distrusted_after_sixteen_wrong_ones_until_the_peer_was_idle() {
    let mut world = World::client();
    let copies_after_an_empty_ack = |world: &mut World| {
        let asked = world.request(request(Code::GET, "/test"));
        world.inject(SERVER, CLIENT, &wire::empty_ack(world.first_copy(asked).message().header().id));
        world.run(s(50));
        world.cancel(asked);
        world.departures(asked).len()
    };
    assert_eq!(copies_after_an_empty_ack(&mut world), 1);
    let id = world.sent[0].message().header().id.0;
    for n in 0..16 {
        world.inject(SERVER, CLIENT, &wire::empty_ack(MessageId(id.wrapping_add(0x4000 + n))));
    }
    assert_eq!(copies_after_an_empty_ack(&mut world), 5);
    world.run(s(256));
    assert_eq!(copies_after_an_empty_ack(&mut world), 1);
}

#[test]
fn late_duplicates_of_honest_acks_do_not_cost_the_server_its_trust() {
    let mut world = World::client();
    for _ in 0..100 {
        let asked = world.request(request(Code::GET, "/test"));
        let sent = world.first_copy(asked);
        let ack = wire::empty_ack(sent.message().header().id);
        world.inject(SERVER, CLIENT, &ack);
        world.inject(SERVER, CLIENT, &wire::separate(&sent.bytes, Type::NonConfirmable, Code::CONTENT, 1));
        world.inject(SERVER, CLIENT, &ack);
        world.run(s(1));
    }
    let asked = world.request(request(Code::GET, "/test"));
    world.inject(SERVER, CLIENT, &wire::empty_ack(world.first_copy(asked).message().header().id));
    world.run(s(50));
    assert_eq!(world.departures(asked).len(), 1, "its Empty ACK still ends retransmission");
}

#[test]
fn a_thousand_acks_after_a_tenth_of_a_millisecond_do_not_collapse_the_timeout() {
    for named in ALL {
        let mut world = World::pair_of(&EndpointConfig::default(), &named.controller(), 5);
        let one_way = Rc::new(Cell::new(Duration::from_micros(50)));
        let delay = Rc::clone(&one_way);
        world.link = Box::new(move |_| vec![delay.get()]);
        let exchange = |world: &mut World| {
            let asked = world.request(request(Code::GET, "/test"));
            while end_of(world.events(CLIENT), asked).is_none() {
                assert!(world.step(), "the request ends");
            }
            world.departures(asked)
        };
        for _ in 0..1_000 {
            assert_eq!(exchange(&mut world).len(), 1, "{}", named.name());
        }
        // The true RTT is 90 ms.
        one_way.set(ms(45));
        let spurious: usize = (0..100).map(|_| exchange(&mut world).len() - 1).sum();
        assert!(spurious <= 5, "{}: {spurious} spurious retransmissions in 100 exchanges", named.name());
    }
}
