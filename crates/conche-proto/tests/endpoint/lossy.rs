//! Two endpoints and a link that loses, duplicates and reorders, under every controller.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_proto::cc::any::ALL;
use conche_proto::cc::{AnyController, Controller};
use conche_proto::codec::{Code, Type};
use conche_proto::{EndpointConfig, Event, Reliability, TransmissionParameters};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::support::world::Link;
use crate::support::{CLIENT, SERVER, World, end_of, ms, request, request_with_payload, with_transmission};

/// A link of these shares, in percent, and a delay of up to `jitter_ms` beyond 10 ms.
fn link(seed: u64, loss: u32, duplication: u32, jitter_ms: u64) -> Link {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    Box::new(move |_| {
        let mut copies = Vec::new();
        let mut chance = |percent| random.next_u32() % 100 < percent;
        let count = if chance(loss) { 0 } else { 1 + usize::from(chance(duplication)) };
        for _ in 0..count {
            copies.push(ms(10 + random.next_u64() % (jitter_ms + 1)));
        }
        copies
    })
}

fn kind() -> impl Strategy<Value = (Code, &'static str, &'static [u8])> {
    prop::sample::select(vec![
        (Code::GET, "/test", &b"hello"[..]),
        (Code::GET, "/a/b", b"ab"),
        (Code::GET, "/separate", b"late"),
        (Code::POST, "/count", b""),
        (Code::GET, "/nope", b""),
    ])
}

fn reliability() -> impl Strategy<Value = Reliability> {
    prop::sample::select(vec![Reliability::Confirmable, Reliability::NonConfirmable, Reliability::NeverConfirmable])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_request_ends_once_no_post_runs_twice_and_responses_match(
        controller in prop::sample::select(ALL),
        seed in any::<u64>(),
        nstart in 1..5_u16,
        (loss, duplication, jitter_ms) in (0..51_u32, 0..21_u32, 0..5_001_u64),
        requests in prop::collection::vec((kind(), reliability(), 0..3_000_u64, prop::option::of(1..60_000_u64)), 1..25),
    ) {
        let named = controller;
        let controller = named.controller();
        let nstart = if controller.measures_rtt() { nstart } else { 1 };
        let transmission = TransmissionParameters { nstart, ..TransmissionParameters::default() };
        let mut world = World::pair_of(&with_transmission(transmission), &controller, seed);
        world.link = link(seed, loss, duplication, jitter_ms);
        // BDP-CoAP paces retransmissions too, so gaps may shrink though timeouts do not.
        for node in [CLIENT, SERVER] {
            world.node(node).checker.backoff_shows = !named.name.starts_with("bdp");
        }
        let mut asked = Vec::new();
        for ((code, path, payload), reliability, pause_ms, timeout_ms) in requests {
            let request = conche_proto::Request {
                timeout: timeout_ms.map(Duration::from_millis),
                ..request(code, path).with_reliability(reliability)
            };
            asked.push((world.request(request), payload));
            world.run(ms(pause_ms));
        }
        world.run_to_end();
        for (id, payload) in asked {
            let ends = world.events(CLIENT).iter().filter(|(_, event)| match event {
                Event::Response { exchange, .. } | Event::Failed { exchange, .. } => *exchange == id,
                _ => false,
            });
            prop_assert_eq!(ends.count(), 1);
            if let Some((_, Ok(response))) = end_of(world.events(CLIENT), id) {
                prop_assert_eq!(response.payload(), payload);
            }
        }
        let mut posts: BTreeMap<_, u32> = BTreeMap::new();
        for (_, event) in world.events(SERVER) {
            if let Event::Request { message, .. } = event && message.code() == Code::POST {
                *posts.entry(message.header().id).or_default() += 1;
            }
        }
        prop_assert!(posts.values().all(|&runs| runs == 1), "a POST ran twice");
    }
}

#[test]
fn on_a_link_without_loss_every_controller_completes_every_request_without_a_retransmission() {
    for named in ALL {
        let mut world = World::pair_of(&EndpointConfig::default(), &named.controller(), 3);
        let asked: Vec<_> = (0..50).map(|_| world.request(request_with_payload(Code::PUT, "/test", 32))).collect();
        world.run_to_end();
        for id in asked {
            assert!(end_of(world.events(CLIENT), id).is_some_and(|(_, end)| end.is_ok()), "{}", named.name);
            assert_eq!(world.departures(id).len(), 1, "{}", named.name);
        }
        let acks = world.sent_by(SERVER).filter(|sent| sent.message().header().ty == Type::Acknowledgement).count();
        assert_eq!(acks, 50, "{}", named.name);
    }
}

/// Cases of the ETSI test descriptions: a request with so many bytes of payload, and the response.
const ETSI: [(&str, Code, &str, usize, Reliability, Code); 17] = {
    use Reliability::{Confirmable, NonConfirmable};
    [
        ("CORE_01", Code::GET, "/test", 0, Confirmable, Code::CONTENT),
        ("CORE_02", Code::DELETE, "/test", 0, Confirmable, Code::DELETED),
        ("CORE_03", Code::PUT, "/test", 7, Confirmable, Code::CHANGED),
        ("CORE_04", Code::POST, "/test", 6, Confirmable, Code::CHANGED),
        ("CORE_05", Code::GET, "/test", 0, NonConfirmable, Code::CONTENT),
        ("CORE_06", Code::DELETE, "/test", 0, NonConfirmable, Code::DELETED),
        ("CORE_07", Code::PUT, "/test", 7, NonConfirmable, Code::CHANGED),
        ("CORE_08", Code::POST, "/test", 6, NonConfirmable, Code::CHANGED),
        ("CORE_09, 16", Code::GET, "/separate", 0, Confirmable, Code::CONTENT),
        ("CORE_13", Code::GET, "/a/b", 0, Confirmable, Code::CONTENT),
        ("CORE_17", Code::GET, "/separate", 0, NonConfirmable, Code::CONTENT),
        ("CORE_30", Code::GET, "/nope", 0, Confirmable, Code::NOT_FOUND),
        ("BLOCK_01", Code::GET, "/large", 0, Confirmable, Code::CONTENT),
        ("BLOCK_02", Code::GET, "/large-update", 0, Confirmable, Code::CONTENT),
        ("BLOCK_03", Code::PUT, "/large-update", 3_000, Confirmable, Code::CHANGED),
        ("BLOCK_04", Code::POST, "/large-create", 3_000, Confirmable, Code::CREATED),
        ("BLOCK_05", Code::POST, "/large-post", 3_000, Confirmable, Code::CHANGED),
    ]
};

#[test]
fn etsi_cases_pass_without_loss_and_with_it_most_do_and_none_goes_wrong() {
    const SEEDS: u64 = 20;
    let cocoa = AnyController::by_name("cocoa").expect("there is one");
    for (loss, least_percent) in [(0, 100), (10, 94), (30, 75)] {
        let mut passed = 0;
        for (seed, (case, method, path, length, reliability, code)) in
            (0..SEEDS).flat_map(|seed| ETSI.map(|case| (seed, case)))
        {
            let mut world = World::pair_of(&EndpointConfig::default(), &cocoa, seed);
            world.link = link(seed, loss, 0, 0);
            let request = request_with_payload(method, path, length).with_reliability(reliability);
            let asked = world.request(request);
            world.run_to_end();
            let (_, end) = end_of(world.events(CLIENT), asked).unwrap_or_else(|| panic!("{case} does not end"));
            if let Ok(response) = end {
                assert_eq!(response.code(), code, "{case}, seed {seed}, {loss} %");
                passed += 1;
            }
        }
        let all = SEEDS * ETSI.len() as u64;
        assert!(passed * 100 >= all * least_percent, "{passed} of {all} at {loss} %");
    }
}
