//! Messages that arrive while the next burst waits behind another request to the same destination.

use conche_proto::codec::{Block, BlockSize, Body, Code, ContentFormat, MessageId, OptionNumber, Token, Type};
use conche_proto::{EndpointConfig, Event, ExchangeId, QBlock, Request};

use super::{blocks_sent, in_bursts, put, response_to};
use crate::observe::net::{Net, SERVER as OBSERVED, get};
use crate::support::fixture::body;
use crate::support::world::by_name;
use crate::support::{CLIENT, SERVER, World, request, s, wire};

const OBSERVER: u32 = 1;
const QB1: OptionNumber = OptionNumber::Q_BLOCK1;

/// Bursts of Non-confirmable payloads, or single Confirmable ones.
fn configs() -> [EndpointConfig; 2] {
    let q_block = Some(QBlock { confirmable: true, ..QBlock::default() });
    [in_bursts(), EndpointConfig { q_block, ..in_bursts() }]
}

/// The first block is acknowledged, and another request holds the slot: the token, and both.
fn waiting(config: &EndpointConfig) -> (World, Token, [ExchangeId; 2]) {
    let mut world = World::client_of(config, by_name("default"));
    let upload = world.request(put("/large-update", &body(3_000, 1)));
    let first = world.first_copy(upload).message();
    let beside = world.request(request(Code::GET, "/test"));
    world.inject(SERVER, CLIENT, &wire::empty_ack(first.header().id));
    assert_eq!(blocks_sent(&world, CLIENT, QB1), ["0/1/1024"], "the rest waits");
    (world, first.token(), [upload, beside])
}

/// The response is acknowledged before anything else is sent.
fn respond(world: &mut World, token: &Token, code: Code, body: &Body) {
    let before = world.sent.len();
    world.inject(SERVER, CLIENT, &wire::message(Type::Confirmable, code, MessageId(1), token, body));
    assert_eq!(world.sent[before].bytes, wire::empty_ack(MessageId(1)));
}

// RFC 7252 §5.2.2
#[test]
fn a_response_ends_the_request_and_discards_its_queued_blocks() {
    for config in configs() {
        for code in [Code::NOT_FOUND, Code::CHANGED, Code::REQUEST_ENTITY_TOO_LARGE] {
            let (mut world, token, [upload, beside]) = waiting(&config);
            respond(&mut world, &token, code, &Body::EMPTY);
            assert_eq!(response_to(&world, upload).code(), code);
            world.inject(SERVER, CLIENT, &wire::piggybacked(&world.first_copy(beside).bytes, Code::CONTENT));
            world.run_to_end();
            assert_eq!(blocks_sent(&world, CLIENT, QB1), ["0/1/1024"]);
        }
    }
}

// RFC 9177 §4.1
#[test]
fn a_response_in_bursts_is_fetched_to_its_end() {
    let (mut world, token, [upload, beside]) = waiting(&in_bursts());
    let block = |num: u32| {
        let block = Block { num, more: num < 3, size: BlockSize::B16 };
        let body = Body::builder().option(OptionNumber::ETAG, b"e").uint(OptionNumber::SIZE2, 64);
        let body = body.option(OptionNumber::Q_BLOCK2, block.encode().as_slice()).payload(vec![b'r'; 16]);
        body.build().expect("legal options")
    };
    respond(&mut world, &token, Code::CHANGED, &block(0));
    for num in 1..4 {
        let id = MessageId(10 + num as u16);
        let bytes = wire::message(Type::NonConfirmable, Code::CHANGED, id, &token, &block(num));
        world.inject(SERVER, CLIENT, &bytes);
    }
    assert_eq!(response_to(&world, upload).payload(), [b'r'; 64]);
    world.inject(SERVER, CLIENT, &wire::piggybacked(&world.first_copy(beside).bytes, Code::CONTENT));
    world.run_to_end();
}

// RFC 9177 §4.1
#[test]
fn a_server_that_rejects_q_block_receives_the_body_by_block1() {
    let (mut world, token, [_, beside]) = waiting(&in_bursts());
    respond(&mut world, &token, Code::BAD_OPTION, &Body::EMPTY);
    world.inject(SERVER, CLIENT, &wire::piggybacked(&world.first_copy(beside).bytes, Code::CONTENT));
    world.run(s(1));
    assert_eq!(blocks_sent(&world, CLIENT, OptionNumber::BLOCK1), ["0/1/1024"]);
    let block = world.sent_by(CLIENT).next_back().expect("as asserted").message();
    assert_eq!(block.header().ty, Type::Confirmable, "as the request was");
    assert_eq!(blocks_sent(&world, CLIENT, QB1), ["0/1/1024"]);
    world.run_to_end();
}

#[test]
fn a_response_in_blocks_is_asked_for_block_by_block_in_confirmable_messages() {
    let (mut world, token, [upload, beside]) = waiting(&in_bursts());
    let block = Block { num: 0, more: true, size: BlockSize::B16 };
    let body = Body::builder().option(OptionNumber::BLOCK2, block.encode().as_slice()).payload(vec![b'r'; 16]);
    respond(&mut world, &token, Code::CHANGED, &body.build().expect("legal"));
    world.inject(SERVER, CLIENT, &wire::piggybacked(&world.first_copy(beside).bytes, Code::CONTENT));
    let asks = world.sent_by(CLIENT).next_back().expect("it sent something").message();
    assert_eq!((asks.header().ty, asks.option(OptionNumber::BLOCK2)), (Type::Confirmable, Some(&[0x10][..])));
    let rest = wire::with_options(
        Type::Acknowledgement,
        Code::CHANGED,
        asks.header().id.0,
        asks.token().as_slice(),
        &[(23, &[0x10])],
        b"s",
    );
    world.inject(SERVER, CLIENT, &rest);
    assert_eq!(response_to(&world, upload).payload(), b"rrrrrrrrrrrrrrrrs");
    world.run_to_end();
}

// RFC 9177 §4.3
#[test]
fn missing_blocks_are_sent_with_the_remaining_ones() {
    for (config, sent) in
        configs().into_iter().zip([["0/1/1024", "0/1/1024", "1/1/1024"], ["0/1/1024", "1/1/1024", "0/1/1024"]])
    {
        let (mut world, token, [_, beside]) = waiting(&config);
        let list = Body::builder().content_format(ContentFormat::MISSING_BLOCKS).payload(&[0][..]).build();
        respond(&mut world, &token, Code::REQUEST_ENTITY_INCOMPLETE, &list.expect("legal"));
        world.inject(SERVER, CLIENT, &wire::piggybacked(&world.first_copy(beside).bytes, Code::CONTENT));
        world.run(s(1));
        if blocks_sent(&world, CLIENT, QB1).len() == 2 {
            let payload = world.sent_by(CLIENT).next_back().expect("the second").message();
            world.inject(SERVER, CLIENT, &wire::empty_ack(payload.header().id));
        }
        assert_eq!(blocks_sent(&world, CLIENT, QB1)[..3], sent);
        world.run_to_end();
    }
}

/// Nothing arrives while the registration is retransmitted.
fn registering(request: Request) -> (Net, MessageId, Token) {
    let mut net = Net::with(1, "default", &in_bursts());
    let now = net.now;
    let (_, id) = net.endpoint(OBSERVER).subscribe(now, OBSERVED, request).expect("room");
    net.settle(OBSERVER);
    net.run(s(20));
    assert!(net.known(OBSERVER).is_some());
    net.sent.clear();
    net.link = Box::new(|_| None);
    let now = net.now;
    net.endpoint(OBSERVER).reregister(now, id).expect("room");
    net.settle(OBSERVER);
    let first = &net.sent[0].message;
    let (id, token) = (first.header().id, first.token());
    (net, id, token)
}

fn is_over(net: &Net) -> bool {
    net.events(OBSERVER).any(|event| matches!(event, Event::SubscriptionOver { .. }))
}

// RFC 9177 §4.3, RFC 7641 §3.2
#[test]
fn a_late_continue_for_registration_blocks_is_no_notification() {
    let fetch = Body::builder().path("/obs").payload(vec![7; 5 * 1024]).build().expect("legal");
    let (mut net, id, token) = registering(Request::new(Code::FETCH, fetch));
    net.request(OBSERVER, get());
    net.inject(OBSERVED, OBSERVER, &wire::empty_ack(id));
    let block = Block { num: 0, more: true, size: BlockSize::B1024 };
    let word = Body::builder().option(QB1, block.encode().as_slice()).build().expect("legal");
    for id in [0x9000, 0x9001] {
        let word = wire::message(Type::NonConfirmable, Code::CONTINUE, MessageId(id), &token, &word);
        net.inject(OBSERVED, OBSERVER, &word);
    }
    assert!(!is_over(&net));
}

// RFC 9177 §4.1, RFC 7252 §4.3
#[test]
fn a_duplicate_refusal_does_not_end_the_repeated_registration() {
    let (mut net, id, token) = registering(get());
    net.inject(OBSERVED, OBSERVER, &wire::empty_ack(id));
    for _ in 0..3 {
        let refusal = wire::message(Type::NonConfirmable, Code::BAD_OPTION, MessageId(0x9000), &token, &Body::EMPTY);
        net.inject(OBSERVED, OBSERVER, &refusal);
    }
    assert!(!is_over(&net));
    let again = &net.sent.last().expect("it went once more").message;
    assert_eq!((again.token(), again.option(OptionNumber::Q_BLOCK2)), (token, None));
}
