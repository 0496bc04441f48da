//! Whole Q-Block bodies.

use conche_proto::EndpointConfig;
use conche_proto::codec::{Code, OptionNumber};

use super::{blocks_sent, in_bursts, pair, put, response_to};
use crate::blockwise::fairness::answers_beside;
use crate::support::fixture::body;
use crate::support::{CLIENT, SERVER, acknowledged_at, request};

// RFC 9177 §4.4 (Q167)
#[test]
fn a_response_comes_in_bursts_each_of_which_is_asked_for_once() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 1);
    let large = body(25 * 1024 + 7, 1);
    world.node(SERVER).app.as_mut().expect("the fixture").large.clone_from(&large);
    let asked = world.request(request(Code::GET, "/large"));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).payload(), large);
    let requests = blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK2);
    assert_eq!(requests, ["0/0/1024", "1/1/1024", "10/1/1024", "20/1/1024"]);
    let sent: Vec<String> = blocks_sent(&world, SERVER, OptionNumber::Q_BLOCK2);
    let expected: Vec<String> = (0..26).map(|n| format!("{n}/{}/1024", u8::from(n < 25))).collect();
    assert_eq!(sent, expected);
}

// RFC 9177 §4.3 (Q162, Q164)
#[test]
fn a_request_goes_in_bursts_each_of_which_is_answered_once() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 1);
    let large = body(25 * 1024 + 7, 1);
    let asked = world.request(put("/large-update", &large));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).code(), Code::CHANGED);
    assert!(world.app().large == large);
    let sent: Vec<String> = blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK1);
    let expected: Vec<String> = (0..26).map(|n| format!("{n}/{}/1024", u8::from(n < 25))).collect();
    assert_eq!(sent, expected);
    assert_eq!(blocks_sent(&world, SERVER, OptionNumber::Q_BLOCK1), ["9/1/1024", "19/1/1024"]);
}

// RFC 9177 §4.1 (Q161)
#[test]
fn with_a_server_that_does_not_know_q_block_all_goes_by_block1_and_block2() {
    let server = EndpointConfig { q_block: None, ..in_bursts() };
    let mut world = pair(in_bursts(), server, "default", 1);
    let large = body(5_000, 1);
    let put = world.request(put("/large-update", &large));
    world.run_to_end();
    let get = world.request(request(Code::GET, "/large"));
    world.run_to_end();
    assert!(response_to(&world, put).code() == Code::CHANGED && response_to(&world, get).payload() == large);
    let tried = blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK1).len();
    assert_eq!((tried, blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK2).len()), (1, 0), "and it is remembered");
}

#[test]
fn the_payloads_of_bursts_get_the_share_of_one_sender_among_nine_and_none_starves() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 1);
    let (_, answers) = answers_beside(&mut world, put("/large-update", &body(1 << 20, 1)));
    let payloads = blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK1).len();
    let fair = (payloads + answers.iter().sum::<usize>()) / (answers.len() + 1);
    assert!(fair > 100, "{fair}");
    for share in answers.iter().chain([&payloads]) {
        assert!(share.abs_diff(fair) * 10 <= fair, "{share} of {fair}: {payloads} payloads, {answers:?}");
    }
}

#[test]
fn equal_requests_at_the_same_time_both_have_their_response() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 1);
    let large = body(100 * 1024, 1);
    world.node(SERVER).app.as_mut().expect("the fixture").large.clone_from(&large);
    let both = [(); 2].map(|()| world.request(request(Code::GET, "/large")));
    world.run_to_end();
    assert!(both.into_iter().all(|asked| response_to(&world, asked).payload() == large));
}

#[test]
fn a_response_that_is_late_or_small_is_as_without_q_block() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 1);
    let late = world.request(request(Code::GET, "/separate"));
    world.run_to_end();
    assert_eq!(response_to(&world, late).payload(), b"late");
    assert!(acknowledged_at(world.events(CLIENT), late).is_some(), "the Empty ACK is told");
    let small = world.request(request(Code::GET, "/test"));
    world.run_to_end();
    assert_eq!(response_to(&world, small).payload(), b"hello");
    assert_eq!(world.departures(small).len(), 1);
}
