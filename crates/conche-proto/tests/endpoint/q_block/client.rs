//! A client that is answered by hand, though not with the first block, so that it asks for more on its own.

use conche_proto::ExchangeId;
use conche_proto::cc::AnyController;
use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, Token, Type};

use super::{blocks_sent, in_sets, put, response_to};
use crate::support::fixture::body;
use crate::support::world::{Datagram, by_name};
use crate::support::{CLIENT, SERVER, World, request, s, wire};

/// A block of a response of 64 bytes, all of them its ETag.
fn block(ty: Type, id: MessageId, token: &Token, num: u32, etag: u8) -> Vec<u8> {
    let block = Block { num, more: num < 3, size: BlockSize::B16 };
    let body = Body::builder()
        .option(OptionNumber::ETAG, &[etag])
        .uint(OptionNumber::SIZE2, 64)
        .option(OptionNumber::Q_BLOCK2, block.encode().as_slice())
        .payload(vec![etag; 16]);
    wire::message(ty, Code::CONTENT, id, token, &body.build().expect("legal options"))
}

/// A client that got block 2 and asked for the others; its first message, and the one that asks.
fn asking() -> (World<AnyController>, ExchangeId, [Datagram; 2]) {
    let mut world = World::client_of(&in_sets(), by_name("default"));
    let asked = world.request(request(Code::GET, "/large"));
    let first = world.first_copy(asked);
    let token = first.message().token();
    world.inject(SERVER, CLIENT, &block(Type::NonConfirmable, MessageId(1), &token, 2, b'a'));
    world.step();
    assert_eq!(blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK2), ["0/0/1024", "0/0/16"]);
    let asks = world.sent_by(CLIENT).next_back().expect("as asserted").clone();
    (world, asked, [first, asks])
}

// RFC 9177 §4.4
#[test]
fn nothing_acknowledges_the_first_message_once_another_has_asked_for_what_is_missing() {
    let (mut world, asked, [first, asks]) = asking();
    let (first, asks) = (first.message(), asks.message());
    world.inject(SERVER, CLIENT, &block(Type::Acknowledgement, first.header().id, &first.token(), 1, b'b'));
    for num in [0, 1, 3] {
        let id = MessageId(10 + num as u16);
        world.inject(SERVER, CLIENT, &block(Type::NonConfirmable, id, &asks.token(), num, b'a'));
    }
    assert_eq!(response_to(&world, asked).payload(), [b'a'; 64]);
    world.run_to_end();
}

// RFC 9177 §4.1
#[test]
fn a_4_02_to_what_asks_for_more_is_the_response_and_no_sign_of_a_server_that_does_not_know_q_block() {
    let (mut world, asked, [_, asks]) = asking();
    world.inject(SERVER, CLIENT, &wire::separate(&asks.bytes, Type::NonConfirmable, Code::BAD_OPTION, 2));
    assert_eq!(response_to(&world, asked).code(), Code::BAD_OPTION);
    world.request(request(Code::GET, "/large"));
    assert_eq!(blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK2).last().map(String::as_str), Some("0/0/1024"));
    world.run_to_end();
}

// RFC 7252 §4.2, RFC 9177 §4.1
#[test]
fn what_was_acknowledged_is_not_refused_by_a_second_acknowledgement_while_its_set_waits() {
    let mut world = World::client_of(&in_sets(), by_name("default"));
    let upload = world.request(put("/large-update", &body(3_000, 1)));
    let first = world.first_copy(upload);
    let beside = world.request(request(Code::GET, "/test"));
    let id = first.message().header().id;
    world.inject(SERVER, CLIENT, &wire::empty_ack(id));
    let refusal = wire::message(Type::Acknowledgement, Code::BAD_OPTION, id, &first.message().token(), &Body::EMPTY);
    world.inject(SERVER, CLIENT, &refusal);
    assert_eq!(blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK1), ["0/1/1024"], "the request beside it has the slot");
    let answer = wire::piggybacked(&world.first_copy(beside).bytes, Code::CONTENT);
    world.inject(SERVER, CLIENT, &answer);
    world.run(s(1));
    assert_eq!(blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK1), ["0/1/1024", "1/1/1024", "2/0/1024"]);
    world.run_to_end();
}
