//! The cases TD_COAP_BLOCK_01 to 06 of the ETSI test descriptions, endpoint to endpoint.

use conche_proto::EndpointConfig;
use conche_proto::codec::{BlockSize, Code, OptionNumber};

use super::{blocks_sent, given, pair, request_with, response_to, with_block_size};
use crate::support::fixture::body;
use crate::support::{CLIENT, SERVER, request};

const B1: OptionNumber = OptionNumber::BLOCK1;
const B2: OptionNumber = OptionNumber::BLOCK2;

// RFC 7959 §2.4 (Q122, Q123)
#[test]
fn block_01_a_get_that_asks_for_a_size_in_advance_gets_blocks_of_it() {
    let mut world = pair(with_block_size(BlockSize::B256), EndpointConfig::default(), 1);
    let asked = world.request(request(Code::GET, "/large"));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).payload(), body(2_000, 1));
    let expected: Vec<_> = (0..8).map(|num| format!("{num}/0/256")).collect();
    assert_eq!(blocks_sent(&world, CLIENT, B2), expected);
    let expected: Vec<_> = (0..8).map(|num| format!("{num}/{}/256", u8::from(num < 7))).collect();
    assert_eq!(blocks_sent(&world, SERVER, B2), expected);
    assert_eq!(given(&world), 1, "the application was asked once");
}

// RFC 7959 §2.4 (Q124)
#[test]
fn block_02_a_get_learns_of_blocks_from_the_response() {
    let mut world = pair(EndpointConfig::default(), with_block_size(BlockSize::B64), 2);
    let asked = world.request(request(Code::GET, "/large"));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).payload(), body(2_000, 1));
    let first = world.first_copy(asked).message();
    assert_eq!(first.option(B2), None);
    assert_eq!(blocks_sent(&world, SERVER, B2).len(), 32);
    assert_eq!(blocks_sent(&world, CLIENT, B2).first().map(String::as_str), Some("1/0/64"));
}

#[test]
fn block_03_a_put_goes_in_blocks_and_is_handled_once() {
    let mut world = pair(EndpointConfig::default(), EndpointConfig::default(), 3);
    let asked = world.request(request_with(Code::PUT, "/large-update", &body(5_000, 9)));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).code(), Code::CHANGED);
    assert_eq!((&world.app().large, given(&world)), (&body(5_000, 9), 1));
    assert_eq!(blocks_sent(&world, CLIENT, B1), ["0/1/1024", "1/1/1024", "2/1/1024", "3/1/1024", "4/0/1024"]);
    assert_eq!(blocks_sent(&world, SERVER, B1), blocks_sent(&world, CLIENT, B1), "each is answered with its own");
}

// RFC 7959 §2.5 (Q127)
#[test]
fn block_04_a_post_goes_in_blocks_of_the_size_that_the_server_wants() {
    let mut world = pair(EndpointConfig::default(), with_block_size(BlockSize::B128), 4);
    let asked = world.request(request_with(Code::POST, "/large-create", &body(2_000, 5)));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).code(), Code::CREATED);
    assert_eq!((world.app().created.as_ref(), given(&world)), (Some(&body(2_000, 5)), 1));
    // The first block has arrived; the second one starts at its end.
    assert_eq!(&blocks_sent(&world, CLIENT, B1)[..3], ["0/1/1024", "8/1/128", "9/1/128"]);
}

// RFC 7959 §2.7 (Q133)
#[test]
fn block_05_a_post_and_its_response_go_in_blocks_and_the_post_is_handled_once() {
    for sizes in
        [[BlockSize::B1024, BlockSize::B1024], [BlockSize::B64, BlockSize::B256], [BlockSize::B512, BlockSize::B16]]
    {
        let mut world = pair(with_block_size(sizes[0]), with_block_size(sizes[1]), 5);
        let sent = body(3_333, 7);
        let asked = world.request(request_with(Code::POST, "/large-post", &sent));
        world.run_to_end();
        let response = response_to(&world, asked);
        assert_eq!((response.code(), given(&world)), (Code::CHANGED, 1), "{sizes:?}");
        assert!(response.payload().iter().rev().eq(&sent), "{sizes:?}");
    }
}

#[test]
fn block_06_the_smallest_blocks_have_16_bytes() {
    let mut world = pair(with_block_size(BlockSize::B16), EndpointConfig::default(), 6);
    let asked = world.request(request(Code::GET, "/large"));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).payload(), body(2_000, 1));
    assert_eq!(blocks_sent(&world, CLIENT, B2).len(), 125);
}
