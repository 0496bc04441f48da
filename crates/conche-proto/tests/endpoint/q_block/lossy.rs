//! Q-Block bodies over links that lose, duplicate and reorder.

use conche_proto::codec::{Block, BlockSize, Code, OptionNumber};
use conche_proto::{Limits, QBlock};

use super::{block_of, in_bursts, pair, put, response_to};
use crate::blockwise::bodies::{fetch_through_loss, write_through_loss};
use crate::support::fixture::body;
use crate::support::world::lossy_link;
use crate::support::{CLIENT, SERVER, request, s};

fn persistent() -> conche_proto::EndpointConfig {
    let mut config = in_bursts();
    // Never gives up.
    config.transmission.max_retransmit = 12;
    config.limits = Limits { assembly_bytes: 64 << 20, ..config.limits };
    config
}

// RFC 9177 §4.4 (Q167)
#[test]
fn a_mebibyte_is_fetched_through_a_loss_of_20_percent_byte_by_byte() {
    (0..20).for_each(|seed| fetch_through_loss(pair(persistent(), persistent(), "default", seed), seed));
}

// RFC 9177 §4.3 (Q162)
#[test]
fn a_mebibyte_is_written_through_a_loss_of_20_percent_byte_by_byte_and_once() {
    (0..20).for_each(|seed| write_through_loss(pair(persistent(), persistent(), "cocoa", seed), seed));
}

fn without(number: OptionNumber, lost: &'static [u32]) -> crate::support::world::Link {
    let mut lost = lost.to_vec();
    Box::new(move |datagram| {
        let block = block_of(&datagram.message(), number).filter(|_| !datagram.message().payload().is_empty());
        let is_lost = block.and_then(|block: Block| lost.iter().position(|&num| num == block.num));
        match is_lost {
            Some(at) => {
                lost.swap_remove(at);
                Vec::new()
            }
            None => vec![crate::support::ms(10)],
        }
    })
}

// RFC 9177 §4.4 (Q168)
// RFC 9177 §7.2 (Q175)
#[test]
fn missing_response_blocks_are_requested_in_ascending_order_and_only_once() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 3);
    let large = body(25 * 1024, 1);
    world.node(SERVER).app.as_mut().expect("the fixture").large.clone_from(&large);
    world.link = without(OptionNumber::Q_BLOCK2, &[3, 6, 12]);
    let asked = world.request(request(Code::GET, "/large"));
    world.run_to_end();
    assert!(response_to(&world, asked).payload() == large);
    let asked: Vec<Vec<String>> = world
        .sent_by(CLIENT)
        .map(|sent| {
            let message = sent.message();
            let values = message.values(OptionNumber::Q_BLOCK2);
            values.map(|value| Block::decode(value).expect("legal").to_string()).collect()
        })
        .collect();
    let asked: Vec<String> = asked.into_iter().map(|blocks| blocks.join(" ")).collect();
    assert_eq!(asked, ["0/0/1024", "1/1/1024", "3/0/1024 6/0/1024", "10/1/1024", "12/0/1024", "20/1/1024"]);
    assert_eq!(super::blocks_sent(&world, SERVER, OptionNumber::Q_BLOCK2).len(), 25 + 3);
}

// RFC 9177 §5 (Q172)
// RFC 9177 §7.2 (Q175)
#[test]
fn a_4_08_lists_missing_request_blocks_and_only_these_are_sent_again() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 3);
    let large = body(25 * 1024, 1);
    world.link = without(OptionNumber::Q_BLOCK1, &[3, 6, 24]);
    let asked = world.request(put("/large-update", &large));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).code(), Code::CHANGED);
    assert!(world.app().large == large);
    let lists: Vec<Vec<u8>> = world
        .sent_by(SERVER)
        .map(|sent| sent.message())
        .filter(|message| message.code() == Code::REQUEST_ENTITY_INCOMPLETE)
        .inspect(|message| assert_eq!(message.uint(OptionNumber::CONTENT_FORMAT), Some(272)))
        .map(|message| message.payload().to_vec())
        .collect();
    assert_eq!(lists, [&b"\x03\x06"[..], b"\x18\x18"].map(<[u8]>::to_vec));
    assert_eq!(super::blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK1).len(), 25 + 3);
}

// RFC 9177 §7.2 (Q174)
#[test]
fn without_a_continue_four_bursts_follow_at_non_timeout_then_it_fails() {
    let mut world = pair(in_bursts(), in_bursts(), "default", 3);
    let mut answers = 0;
    world.link = Box::new(move |datagram| {
        // Only the server's Empty ACK arrives.
        answers += usize::from(datagram.from == SERVER);
        if datagram.from == SERVER && answers > 1 { Vec::new() } else { vec![crate::support::ms(10)] }
    });
    let asked = world.request(put("/large-update", &body(100 * 1024, 1)));
    world.run_to_end();
    let (_, end) = crate::support::end_of(world.events(CLIENT), asked).expect("it ends");
    assert_eq!(end.err(), Some(conche_proto::Failure::TimedOut));
    let sent: Vec<_> = world
        .sent_by(CLIENT)
        .filter_map(|sent| Some((sent.at, block_of(&sent.message(), OptionNumber::Q_BLOCK1)?.num)))
        .collect();
    assert_eq!(sent.last().expect("many").1, 49, "one burst, and four without an answer");
    let between: Vec<_> =
        sent.windows(2).filter(|pair| pair[1].1.is_multiple_of(10)).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(between.len() == 4 && between[0] >= s(2), "NON_TIMEOUT_RANDOM: {between:?}");
    assert!(between.windows(2).all(|pair| pair[1] >= pair[0] * 3 / 2), "and the controller's backoff: {between:?}");
}

#[test]
fn sets_of_any_size_and_blocks_of_any_size_make_the_same_body() {
    for (max_payloads, size) in
        [(1, BlockSize::B64), (3, BlockSize::B16), (64, BlockSize::B512), (1024, BlockSize::B1024)]
    {
        let config = || conche_proto::EndpointConfig {
            block_size: size,
            q_block: Some(QBlock { max_payloads, ..QBlock::default() }),
            ..persistent()
        };
        let mut world = pair(config(), config(), "cocoa-s", 5);
        world.link = lossy_link(5, 10, 5, 40);
        let large = body(10_001, 2);
        let put = world.request(put("/large-update", &large));
        world.run_to_end();
        let get = world.request(request(Code::GET, "/large"));
        world.run_to_end();
        assert_eq!(response_to(&world, put).code(), Code::CHANGED, "{max_payloads} {size:?}");
        assert!(response_to(&world, get).payload() == large, "{max_payloads} {size:?}");
    }
}
