//! Two endpoints over a link that loses, duplicates and reorders, under every controller.

use std::collections::HashMap;
use std::time::Duration;

use conche_proto::cc::Controller;
use conche_proto::cc::any::ALL;
use conche_proto::codec::{Code, Type};
use conche_proto::{EndpointConfig, Event, Reliability, TransmissionParameters};
use proptest::prelude::*;

use crate::support::world::lossy_link;
use crate::support::{CLIENT, SERVER, World, end_of, ms, request, request_with_payload, with_transmission};

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
        world.link = lossy_link(seed, loss, duplication, jitter_ms);
        // BDP-CoAP also paces retransmissions, so intervals may shrink although timeouts do not.
        for node in [CLIENT, SERVER] {
            world.node(node).checker.backoff_shows = !named.name().starts_with("bdp");
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
        let mut posts: HashMap<_, u32> = HashMap::new();
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
        let mut config = EndpointConfig::default();
        if named.name() == "bdp-literal" {
            // As published, it starts with one message per two seconds and grows by a few percent
            // in ten.
            config.queue_lifetime = Duration::from_secs(600);
        }
        let mut world = World::pair_of(&config, &named.controller(), 3);
        let asked: Vec<_> = (0..50).map(|_| world.request(request_with_payload(Code::PUT, "/test", 32))).collect();
        world.run_to_end();
        for id in asked {
            assert!(end_of(world.events(CLIENT), id).is_some_and(|(_, end)| end.is_ok()), "{}", named.name());
            assert_eq!(world.departures(id).len(), 1, "{}", named.name());
        }
        let acks = world.sent_by(SERVER).filter(|sent| sent.message().header().ty == Type::Acknowledgement).count();
        assert_eq!(acks, 50, "{}", named.name());
    }
}
