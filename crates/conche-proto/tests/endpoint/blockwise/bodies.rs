//! Whole bodies over links that lose, duplicate and reorder.

use conche_proto::cc::any::ALL;
use conche_proto::codec::{Block, BlockSize, Body, Code, OptionNumber};
use conche_proto::{EndpointConfig, Failure, Limits, Reliability, Request, RequestError};
use proptest::prelude::*;

use super::{block_of, given, pair, request_with, response_to, roomy, with_block_size};
use crate::support::fixture::body;
use crate::support::world::lossy_link;
use crate::support::{CLIENT, SERVER, World, end_of, ms, request};

const MEBIBYTE: usize = 1 << 20;

/// With the MAX_RETRANSMIT of RFC 7252, one message in 60 would be given up.
fn persistent() -> EndpointConfig {
    let mut config = roomy();
    config.transmission.max_retransmit = 12;
    config.limits.assembly_bytes = 64 << 20;
    config
}

/// Fetches a mebibyte at a loss rate of 20 %.
pub fn fetch_through_loss(mut world: World, seed: u64) {
    world.link = lossy_link(seed, 20, 5, 40);
    let large = body(MEBIBYTE, seed as usize);
    world.node(SERVER).app.as_mut().expect("the fixture").large.clone_from(&large);
    let asked = world.request(request(Code::GET, "/large"));
    world.run_to_end();
    assert!(response_to(&world, asked).payload() == large, "seed {seed}");
}

/// Writes a mebibyte at a loss rate of 20 %, exactly once.
pub fn write_through_loss(mut world: World, seed: u64) {
    world.link = lossy_link(seed, 20, 5, 40);
    let large = body(MEBIBYTE, seed as usize);
    let asked = world.request(request_with(Code::PUT, "/large-update", &large));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).code(), Code::CHANGED, "seed {seed}");
    assert!(world.app().large == large && given(&world) == 1, "seed {seed}");
}

#[test]
fn a_mebibyte_is_fetched_through_a_loss_of_20_percent_byte_by_byte() {
    (0..20).for_each(|seed| fetch_through_loss(pair(persistent(), persistent(), seed), seed));
}

#[test]
fn a_mebibyte_is_written_through_a_loss_of_20_percent_byte_by_byte() {
    (0..20).for_each(|seed| write_through_loss(pair(persistent(), persistent(), seed), seed));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn bodies_of_any_size_arrive_whole_or_the_request_fails_and_no_post_runs_twice(
        controller in prop::sample::select(ALL),
        seed in any::<u64>(),
        (loss, duplication, jitter_ms) in (0..30_u32, 0..21_u32, 0..2_001_u64),
        szx in (0..7_u8, 0..7_u8),
        bodies in prop::collection::vec((0..3_000_usize, any::<bool>(), any::<bool>()), 1..5),
    ) {
        let [client, server] = [szx.0, szx.1].map(|szx| with_block_size(BlockSize::of_szx(szx).expect("not reserved")));
        let mut world = World::empty();
        world.add(CLIENT, client, controller.controller(), seed);
        world.add(SERVER, server, controller.controller(), seed ^ 1);
        world.node(SERVER).app = Some(crate::support::Fixture::default());
        world.link = lossy_link(seed, loss, duplication, jitter_ms);
        for node in [CLIENT, SERVER] {
            world.node(node).checker.backoff_shows = !controller.name().starts_with("bdp");
        }
        let mut asked = Vec::new();
        for (n, (bytes, confirmable, post)) in bodies.into_iter().enumerate() {
            let sent = body(bytes, n);
            let (code, path) = if post { (Code::POST, "/large-post") } else { (Code::GET, "/large") };
            let request = request_with(code, path, if post { &sent } else { b"" });
            // Parallel POSTs of one client need different queries (RFC 7959 §2.5).
            let content = request.body.content(code).expect("well-formed");
            let mut named = Body::builder().query(&n.to_string()).payload(content.payload().to_vec());
            for option in content.options() {
                named = named.option(option.number, option.value);
            }
            let reliability = if confirmable { Reliability::Confirmable } else { Reliability::NonConfirmable };
            let request = Request { body: named.build().expect("legal"), ..request }.with_reliability(reliability);
            asked.push((world.request(request), post, sent));
        }
        world.run_to_end();
        for (id, post, sent) in &asked {
            let (_, end) = end_of(world.events(CLIENT), *id).expect("every exchange ends");
            let Ok(response) = end else { continue };
            if *post {
                prop_assert!(response.code() != Code::CHANGED || response.payload().iter().rev().eq(sent));
            } else {
                prop_assert!(response.payload() == body(2_000, 1));
            }
        }
        let posts = asked.iter().filter(|(_, post, _)| *post).count();
        let posted = world.app().calls.get("/large-post").copied().unwrap_or(0);
        prop_assert!(posted as usize <= posts, "{posted} of {posts}");
    }
}

// RFC 7959 §4 (Q134)
#[test]
fn either_side_refuses_a_body_beyond_its_limit_at_once() {
    let mut world = pair(roomy(), EndpointConfig::default(), 1);
    let now = world.now;
    let limit = Limits::default().body_bytes;
    let too_large = request_with(Code::PUT, "/large-update", &body(3 << 20, 1));
    let refused = world.node(CLIENT).endpoint.request(now, SERVER, too_large);
    assert_eq!(refused, Err(RequestError::BodyTooLarge { bytes: 3 << 20, limit: 2 << 20 }));
    // The server refuses the body by the size announced in its first block.
    let asked = world.request(request_with(Code::PUT, "/large-update", &body(limit + 1, 1)));
    world.run_to_end();
    let response = response_to(&world, asked);
    assert_eq!(response.code(), Code::REQUEST_ENTITY_TOO_LARGE);
    assert_eq!(response.uint(OptionNumber::SIZE1), Some(65_536));
    assert_eq!((world.departures(asked).len(), given(&world)), (1, 0));
    // A response larger than the client's limit fails.
    let mut world = pair(EndpointConfig::default(), roomy(), 2);
    world.node(SERVER).app.as_mut().expect("the fixture").large = body(limit + 1, 1);
    let asked = world.request(request(Code::GET, "/large"));
    world.run_to_end();
    let (_, end) = end_of(world.events(CLIENT), asked).expect("it is over");
    assert_eq!(end.expect_err("it is too large"), Failure::BodyTooLarge);
    assert_eq!(world.departures(asked).len(), 1, "the first block tells the size");
}

#[test]
fn single_blocks_are_left_to_an_application_that_asks_for_them() {
    let mut world = pair(EndpointConfig::default(), EndpointConfig::default(), 1);
    let large = body(2_000, 1);
    let block = |num| {
        let value = Block { num, more: false, size: BlockSize::B64 }.encode();
        let body = Body::builder().path("/large").option(OptionNumber::BLOCK2, value.as_slice()).build();
        Request::new(Code::GET, body.expect("legal options"))
    };
    let asked = [(7, block(7)), (0, Request { whole: false, ..block(0) }), (31, block(31))];
    for (num, request) in asked {
        let id = world.request(request);
        world.run(ms(100));
        let response = response_to(&world, id);
        let range = num * 64..(num * 64 + 64).min(2_000);
        assert_eq!(response.payload(), &large[range]);
        let expected = Block { num: num as u32, more: num < 31, size: BlockSize::B64 };
        assert_eq!(block_of(response, OptionNumber::BLOCK2), Some(expected));
    }
    let beyond = world.request(block(32));
    world.run(ms(100));
    assert_eq!(response_to(&world, beyond).code(), Code::BAD_REQUEST);
    world.run_to_end();
}

#[test]
fn one_event_ends_a_transfer_and_its_course_counts_all_messages() {
    let mut world = pair(EndpointConfig::default(), EndpointConfig::default(), 1);
    let asked = world.request(request_with(Code::POST, "/large-post", &body(3_000, 1)));
    world.run_to_end();
    let [(_, conche_proto::Event::Response { course, exchange, .. })] = world.events(CLIENT) else {
        panic!("one event: {:?}", world.events(CLIENT))
    };
    assert_eq!((*exchange, course.transmissions), (asked, 5), "three blocks there, two more back");
    assert_eq!((course.acknowledged_after, course.elapsed), (Some(ms(20)), ms(100)));
    let tokens: std::collections::HashSet<_> =
        world.sent_by(CLIENT).map(|sent| sent.message().token().as_slice().to_vec()).collect();
    assert_eq!(tokens.len(), 1, "all messages have one token");
}
