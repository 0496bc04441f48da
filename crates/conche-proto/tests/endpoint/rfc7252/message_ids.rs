//! Message correlation (RFC 7252 §4.4).

use std::collections::HashMap;

use conche_proto::codec::{Body, Code, Type};
use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Limits, Output, Reliability, Response};

use crate::model::Address;
use crate::support::statistics::uniform_chi_square_z;
use crate::support::world::{by_name, seed_of};
use crate::support::{CLIENT, SERVER, STRANGER, World, acknowledged_at, end_of, request, s, wire};

// RFC 7252 §4.4 (Q25)
#[test]
fn seventy_thousand_messages_at_full_speed_reuse_no_id_within_exchange_lifetime() {
    let config = EndpointConfig { queue_lifetime: s(300), ..EndpointConfig::default() };
    let mut endpoint: Endpoint<Address, _> =
        Endpoint::new(config, by_name("default"), seed_of(25)).expect("legal parameters");
    let (mut now, mut buffer) = (Instant::ZERO, [0; 1152]);
    let mut used = HashMap::new();
    for n in 0..70_000 {
        let exchange = endpoint.request(now, SERVER, request(Code::GET, "/test")).expect("room");
        let length = loop {
            match endpoint.poll(now, &mut buffer) {
                Output::Transmit(transmit) => break transmit.len,
                Output::Wait(Some(wake)) => now = wake,
                output => panic!("message {n}: {output:?}"),
            }
        };
        let id = wire::decode(&buffer[..length]).id();
        if let Some(before) = used.insert(id, now) {
            assert!(now - before >= s(247), "{id} after {:?}", now - before);
        }
        assert!(endpoint.cancel(now, exchange));
    }
    assert!(now >= Instant::ZERO + s(247), "70 000 are more than there are IDs");
    assert!(now < Instant::ZERO + s(248), "the second lap starts as soon as it may");
}

// RFC 7252 §4.4 (Q25)
#[test]
fn responses_that_would_need_a_used_id_wait_until_it_is_free() {
    let (waiting, left, expired) = respond_with_all_ids(EndpointConfig::default());
    assert_eq!((left, expired), (waiting, 0), "each leaves in the end");
}

#[test]
fn responses_for_which_no_id_comes_free_in_time_are_counted() {
    let (waiting, left, expired) =
        respond_with_all_ids(EndpointConfig { response_timeout: Some(s(1)), ..EndpointConfig::default() });
    assert_eq!(left + usize::try_from(expired).expect("a few"), waiting);
    assert!(expired > 0);
}

/// The last 4096 IDs are used at once. Returns the number of responses that wait for an ID, and how
/// many of them leave or expire.
fn respond_with_all_ids(config: EndpointConfig) -> (usize, usize, u64) {
    let limits = Limits { queue_per_peer: 4096, ..Limits::default() };
    let mut endpoint: Endpoint<Address, _> =
        Endpoint::new(EndpointConfig { limits, ..config }, by_name("default"), seed_of(26)).expect("legal parameters");
    let (mut now, mut buffer) = (Instant::ZERO, [0; 1152]);
    let (mut used, mut last) = (std::collections::HashSet::new(), Vec::new());
    let mut taken_in = 0;
    for n in 0..70_000_u32 {
        let bytes = wire::request(Type::NonConfirmable, Code::GET, n as u16, &n.to_be_bytes(), "/test");
        endpoint.handle(now, Input::datagram(CLIENT, &bytes)).expect("drained");
        let Output::Event(Event::Request { id, .. }) = endpoint.poll(now, &mut buffer) else { break };
        taken_in += 1;
        if last.len() < 4096 {
            last.push(id);
            continue;
        }
        endpoint.respond(now, id, Response::new(Code::CONTENT, Body::EMPTY)).expect("it leaves");
        let Output::Transmit(transmit) = endpoint.poll(now, &mut buffer) else { panic!("it leaves") };
        assert!(used.insert(wire::decode(&buffer[..transmit.len]).id()), "an ID is used twice");
    }
    for id in last {
        endpoint.respond(now, id, Response::new(Code::CONTENT, Body::EMPTY)).expect("it leaves or waits");
        if let Output::Transmit(transmit) = endpoint.poll(now, &mut buffer) {
            assert!(used.insert(wire::decode(&buffer[..transmit.len]).id()), "an ID is used twice");
        }
    }
    let waiting = endpoint.occupancy().responses;
    // The last 1024 IDs are reserved for the server's own messages while requests arrive.
    assert!((3072..=4096).contains(&waiting), "{waiting} responses wait");
    assert_eq!(used.len() + waiting, taken_in);
    let mut later = 0;
    while endpoint.occupancy().responses > 0 {
        match endpoint.poll(now, &mut buffer) {
            Output::Transmit(_) => later += 1,
            Output::Wait(Some(wake)) => now = wake,
            other => panic!("{other:?}"),
        }
    }
    (waiting, later, endpoint.stats().responses_expired)
}

// RFC 7252 §4.4 (Q26)
#[test]
fn the_first_id_after_each_of_a_thousand_boots_is_random() {
    let mut high = [0; 32];
    let mut low = [0; 32];
    for boot in 0..1_000 {
        let mut world = World::empty();
        world.add(CLIENT, EndpointConfig::default(), by_name("default"), boot);
        let asked = world.request(request(Code::GET, "/test"));
        let id = world.first_copy(asked).message().header().id;
        high[usize::from(id.0 >> 11)] += 1;
        low[usize::from(id.0 & 31)] += 1;
    }
    for counts in [high, low] {
        let z = uniform_chi_square_z(&counts);
        assert!(z < 3.1, "z = {z}: {counts:?}");
    }
}

// RFC 7252 §4.4 (Q27)
#[test]
fn confirmable_and_non_confirmable_messages_share_their_ids() {
    let mut world = World::pair();
    let kinds = [Reliability::Confirmable, Reliability::NonConfirmable, Reliability::NeverConfirmable];
    let mut ids = Vec::new();
    for n in 0..30 {
        let asked = world.request(request(Code::GET, "/test").with_reliability(kinds[n % kinds.len()]));
        ids.push(world.first_copy(asked).message().header().id.0);
        world.run(s(1));
    }
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "{ids:?}");
}

// RFC 7252 §4.4 (Q28)
#[test]
fn acknowledgements_and_resets_count_only_from_the_peer_that_the_message_went_to() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    let other = world.request_to(STRANGER, request(Code::GET, "/test"));
    let id = world.first_copy(asked).message().header().id;
    assert_ne!(id, world.first_copy(other).message().header().id);
    world.inject(STRANGER, CLIENT, &wire::empty_ack(id));
    world.inject(STRANGER, CLIENT, &wire::reset(id));
    for exchange in [asked, other] {
        assert_eq!(acknowledged_at(world.events(CLIENT), exchange), None);
        assert_eq!(end_of(world.events(CLIENT), exchange), None);
    }
    world.inject(SERVER, CLIENT, &wire::empty_ack(id));
    assert_eq!(acknowledged_at(world.events(CLIENT), asked), Some(world.now));
    world.run_to_end();
}
