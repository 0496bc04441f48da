//! A client requests missing blocks, because the first one does not arrive first.

use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, Token, Type};
use conche_proto::{EndpointConfig, ExchangeId, QBlock};

use super::{block_of, blocks_sent, in_bursts, put, response_to};
use crate::support::fixture::body;
use crate::support::world::{Datagram, by_name};
use crate::support::{CLIENT, SERVER, World, request, s, wire};

/// The payload consists of the ETag.
fn block(ty: Type, id: MessageId, token: &Token, num: u32, etag: u8) -> Vec<u8> {
    let block = Block { num, more: num < 3, size: BlockSize::B16 };
    let body = Body::builder()
        .option(OptionNumber::ETAG, &[etag])
        .uint(OptionNumber::SIZE2, 64)
        .option(OptionNumber::Q_BLOCK2, block.encode().as_slice())
        .payload(vec![etag; 16]);
    wire::message(ty, Code::CONTENT, id, token, &body.build().expect("legal options"))
}

/// Received block 2 and requested the others; its first message and this request.
fn asking() -> (World, ExchangeId, [Datagram; 2]) {
    let mut world = World::client_of(&in_bursts(), by_name("default"));
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
fn a_late_acknowledgement_after_a_missing_blocks_request_is_ignored() {
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

// RFC 7252 §4.2, RFC 9177 §4.4
#[test]
fn a_block_with_a_reused_message_id_is_a_duplicate_and_stays_missing() {
    let mut world = World::client_of(&in_bursts(), by_name("default"));
    let asked = world.request(request(Code::GET, "/large"));
    let token = world.first_copy(asked).message().token();
    for num in [3, 2] {
        world.inject(SERVER, CLIENT, &block(Type::Confirmable, MessageId(1), &token, num, b'a'));
        assert_eq!(last(&world).bytes, wire::empty_ack(MessageId(1)));
    }
    world.step();
    let asks = last(&world).message();
    let content = asks.content();
    let wanted = content.options().filter(|option| option.number == OptionNumber::Q_BLOCK2);
    let wanted: Vec<String> = wanted.map(|option| Block::decode(option.value).expect("legal").to_string()).collect();
    assert_eq!(wanted, ["0/0/16", "1/0/16", "2/0/16"]);
    world.run_to_end();
}

// RFC 9177 §4.1
#[test]
fn a_4_02_to_a_missing_blocks_request_does_not_disable_q_block() {
    let (mut world, _, [_, asks]) = asking();
    world.inject(SERVER, CLIENT, &wire::separate(&asks.bytes, Type::NonConfirmable, Code::BAD_OPTION, 2));
    let whole = "0/1/1024";
    assert_eq!(blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK2).last().map(String::as_str), Some(whole));
    world.run_to_end();
    world.request(request(Code::GET, "/large"));
    assert_eq!(blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK2).last().map(String::as_str), Some("0/0/1024"));
    world.run_to_end();
}

// RFC 7252 §4.2, RFC 9177 §4.1
#[test]
fn a_second_acknowledgement_does_not_refuse_an_acknowledged_block() {
    let mut world = World::client_of(&in_bursts(), by_name("default"));
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

fn confirmable() -> EndpointConfig {
    EndpointConfig { q_block: Some(QBlock { confirmable: true, ..QBlock::default() }), ..in_bursts() }
}

fn continues(ty: Type, id: MessageId, token: &Token, num: u32) -> Vec<u8> {
    let block = Block { num, more: true, size: BlockSize::B1024 };
    let body = Body::builder().option(OptionNumber::Q_BLOCK1, block.encode().as_slice()).build().expect("legal");
    wire::message(ty, Code::CONTINUE, id, token, &body)
}

fn last(world: &World) -> Datagram {
    world.sent_by(CLIENT).next_back().expect("it sent something").clone()
}

// RFC 9177 §7.1
#[test]
fn a_payload_that_waits_for_its_turn_is_acknowledged_by_nothing() {
    let mut world = World::client_of(&confirmable(), by_name("default"));
    let upload = world.request(put("/large-update", &body(12 * 1024, 1)));
    let token = world.first_copy(upload).message().token();
    for _ in 0..8 {
        let id = last(&world).message().header().id;
        world.inject(SERVER, CLIENT, &wire::empty_ack(id));
    }
    let ninth = last(&world).message();
    assert_eq!(block_of(&ninth, OptionNumber::Q_BLOCK1).map(|block| block.num), Some(8));
    let beside = world.request(request(Code::GET, "/test"));
    world.inject(SERVER, CLIENT, &wire::empty_ack(ninth.header().id));
    for copy in 0..3 {
        world.inject(SERVER, CLIENT, &continues(Type::NonConfirmable, MessageId(0x100 + copy), &token, 9));
    }
    world.inject(SERVER, CLIENT, &wire::piggybacked(&world.first_copy(beside).bytes, Code::CONTENT));
    for num in 9..12 {
        let payload = last(&world).message();
        assert_eq!(block_of(&payload, OptionNumber::Q_BLOCK1).map(|block| block.num), Some(num));
        world.inject(SERVER, CLIENT, &wire::empty_ack(payload.header().id));
    }
    world.inject(
        SERVER,
        CLIENT,
        &wire::message(Type::NonConfirmable, Code::CHANGED, MessageId(0x200), &token, &Body::EMPTY),
    );
    assert_eq!(response_to(&world, upload).code(), Code::CHANGED);
    world.run_to_end();
}

// RFC 9177 §4.3
#[test]
fn a_word_about_other_blocks_acknowledges_the_first_one_only_in_its_acknowledgement() {
    for (config, number) in [(in_bursts(), 50), (confirmable(), 50), (confirmable(), 1), (in_bursts(), 0xf_ffff)] {
        for ty in [Type::NonConfirmable, Type::Acknowledgement] {
            let mut world = World::client_of(&config, by_name("default"));
            let upload = world.request(put("/large-update", &body(3_000, 1)));
            let first = world.first_copy(upload).message();
            let id = if ty == Type::Acknowledgement { first.header().id } else { MessageId(1) };
            world.inject(SERVER, CLIENT, &continues(ty, id, &first.token(), number));
            if ty == Type::NonConfirmable {
                world.run(s(10));
                let copies = blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK1);
                assert!(copies.len() > 1 && copies.iter().all(|block| block == "0/1/1024"), "{copies:?}");
                world.inject(SERVER, CLIENT, &wire::empty_ack(first.header().id));
            }
            world.run(s(1));
            let sent = blocks_sent(&world, CLIENT, OptionNumber::Q_BLOCK1);
            assert!(sent.iter().any(|block| block == "1/1/1024"), "{ty:?} {number}");
            world.run_to_end();
        }
    }
}
