//! Large responses to Q-Block requests.

use conche_proto::codec::{Code, OptionNumber, Type};
use conche_proto::{EndpointConfig, Request};

use super::{block_of, blocks_sent, in_bursts, pair, put, response_to};
use crate::support::fixture::body;
use crate::support::world::lossy_link;
use crate::support::{CLIENT, SERVER};

fn post(payload: &[u8]) -> Request {
    Request { code: Code::POST, ..put("/large-post", payload) }
}

fn reversed(payload: &[u8]) -> Vec<u8> {
    payload.iter().rev().copied().collect()
}

// RFC 9177 §4.1 (Q177)
#[test]
fn a_body_received_in_bursts_is_answered_in_bursts_paced_by_continues() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 1);
    let large = body(25 * 1024 + 7, 1);
    let asked = world.request(post(&large));
    world.run_to_end();
    let response = response_to(&world, asked);
    assert!(response.code() == Code::CHANGED && response.payload() == reversed(&large));
    assert_eq!(world.app().calls["/large-post"], 1);
    let sent: Vec<String> = blocks_sent(&world, SERVER, OptionNumber::Q_BLOCK2);
    let expected: Vec<String> = (0..26).map(|n| format!("{n}/{}/1024", u8::from(n < 25))).collect();
    assert_eq!(sent, expected);
    assert_eq!(blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK2), ["10/1/1024", "20/1/1024"]);
    let goes_on = world.sent_by(CLIENT).map(|sent| sent.message());
    let mut goes_on = goes_on.filter(|message| block_of(message, OptionNumber::Q_BLOCK2).is_some());
    assert!(goes_on.all(|message| message.payload().is_empty() && message.code() == Code::POST));
}

// RFC 9177 §4.1 (Q177)
#[test]
fn a_small_response_to_q_block1_is_one_message_and_block2_is_a_fallback() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 1);
    let asked = world.request(put("/large-update", &body(5_000, 1)));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).code(), Code::CHANGED);
    assert_eq!(blocks_sent(&world, SERVER, OptionNumber::Q_BLOCK2).len(), 0);
    let mut world = pair(EndpointConfig { q_block: None, ..in_bursts() }, in_bursts(), "default", 1);
    let asked = world.request(post(&body(5_000, 1)));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).payload(), reversed(&body(5_000, 1)));
    assert_eq!(blocks_sent(&world, SERVER, OptionNumber::BLOCK2).len(), 5);
}

// RFC 9177 §4.1 (Q177)
#[test]
fn bodies_and_answers_in_bursts_arrive_once_and_whole_through_loss() {
    for seed in 0..20 {
        let config = || {
            let mut config = in_bursts();
            config.transmission.max_retransmit = 12;
            config
        };
        let mut world = pair(config(), config(), ["default", "cocoa", "fasor"][seed % 3], seed as u64);
        world.link = lossy_link(seed as u64, 20, 5, 40);
        let large = body(60_000, seed);
        let asked = world.request(post(&large));
        world.run_to_end();
        assert!(response_to(&world, asked).payload() == reversed(&large), "seed {seed}");
        assert_eq!(world.app().calls["/large-post"], 1, "seed {seed}");
    }
}

#[test]
fn the_first_block_of_such_an_answer_is_confirmable_for_nothing_would_make_its_client_ask_again() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 1);
    world.request(post(&body(5_000, 1)));
    world.run_to_end();
    let types: Vec<Type> = world
        .sent_by(SERVER)
        .map(|sent| sent.message())
        .filter(|message| block_of(message, OptionNumber::Q_BLOCK2).is_some())
        .map(|message| message.header().ty)
        .collect();
    assert_eq!(types[0], Type::Confirmable);
    assert!(types[1..].iter().all(|ty| *ty == Type::NonConfirmable), "{types:?}");
}
