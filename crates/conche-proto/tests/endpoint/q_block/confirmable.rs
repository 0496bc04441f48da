//! Confirmable payloads, ours or a peer's.

use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, Type};
use conche_proto::{EndpointConfig, QBlock, Request};

use super::{block_of, in_bursts, pair, put, response_to};
use crate::support::fixture::body;
use crate::support::world::lossy_link;
use crate::support::{CLIENT, Direct, SERVER, World, request, s, wire};

fn confirmable() -> EndpointConfig {
    let mut config = in_bursts();
    config.q_block = Some(QBlock { confirmable: true, ..QBlock::default() });
    config.transmission.max_retransmit = 12;
    config
}

fn payloads(world: &World, from: u32, number: OptionNumber) -> Vec<(Type, u32)> {
    let messages = world.sent_by(from).map(|sent| sent.message());
    let with_payload = messages.filter(|message| !message.payload().is_empty());
    with_payload.filter_map(|message| Some((message.header().ty, block_of(&message, number)?.num))).collect()
}

// RFC 9177 §7.1 (Q178)
#[test]
fn a_request_goes_as_confirmable_messages_one_after_the_other_and_nothing_but_acks_answers_them() {
    let mut world = pair(confirmable(), in_bursts(), "default", 1);
    let large = body(25 * 1024, 1);
    let asked = world.request(put("/large-update", &large));
    world.run_to_end();
    assert_eq!(response_to(&world, asked).code(), Code::CHANGED);
    assert!(world.app().large == large);
    let sent = payloads(&world, CLIENT, OptionNumber::Q_BLOCK1);
    assert_eq!(sent, (0..25).map(|n| (Type::Confirmable, n)).collect::<Vec<_>>());
    let answers = world.sent_by(SERVER).map(|sent| sent.message().code()).collect::<Vec<_>>();
    assert!(answers[..24].iter().all(|code| *code == Code::EMPTY), "{answers:?}");
    assert_eq!(answers[24..], [Code::CHANGED]);
}

// RFC 9177 §7.1 (Q178)
#[test]
fn a_response_goes_as_confirmable_messages_each_of_which_is_acknowledged() {
    let mut world = pair(in_bursts(), confirmable(), "default", 1);
    let large = body(25 * 1024, 1);
    world.node(SERVER).app.as_mut().expect("the fixture").large.clone_from(&large);
    let asked = world.request(request(Code::GET, "/large"));
    world.run_to_end();
    assert!(response_to(&world, asked).payload() == large);
    let sent = payloads(&world, SERVER, OptionNumber::Q_BLOCK2);
    assert_eq!(sent[0], (Type::Acknowledgement, 0));
    assert_eq!(sent[1..], (1..25).map(|n| (Type::Confirmable, n)).collect::<Vec<_>>());
}

// RFC 9177 §7.1 (Q178)
#[test]
fn lost_confirmable_blocks_are_retransmitted_and_delivered_once() {
    for seed in 0..12 {
        let controller = ["default", "cocoa", "fasor"][seed % 3];
        let mut world = pair(confirmable(), confirmable(), controller, seed as u64);
        world.link = lossy_link(seed as u64, 20, 5, 40);
        let large = body(40_000, seed);
        let asked = world.request(Request { code: Code::POST, ..put("/large-post", &large) });
        world.run_to_end();
        let whole: Vec<u8> = large.iter().rev().copied().collect();
        assert!(response_to(&world, asked).payload() == whole, "seed {seed}");
        assert_eq!(world.app().calls["/large-post"], 1, "seed {seed}");
        let all = payloads(&world, CLIENT, OptionNumber::Q_BLOCK1).into_iter();
        assert!(all.clone().all(|(ty, _)| ty == Type::Confirmable), "seed {seed}");
        assert!(all.map(|(_, number)| number).is_sorted(), "in order, copies behind each other: seed {seed}");
    }
}

fn payload(id: u16, num: u32) -> Vec<u8> {
    payload_of(b"tag", id, num)
}

fn payload_of(tag: &[u8], id: u16, num: u32) -> Vec<u8> {
    let body = Body::builder()
        .option(OptionNumber::REQUEST_TAG, tag)
        .uint(OptionNumber::SIZE1, 48)
        .option(OptionNumber::Q_BLOCK1, Block { num, more: num < 2, size: BlockSize::B16 }.encode().as_slice())
        .payload(vec![num as u8; 16]);
    let token =
        [1, 2, 3, 4, 5, num as u8][..].try_into().ok().and_then(|token: [u8; 6]| token.get(..).map(<[u8]>::to_vec));
    let token = conche_proto::codec::Token::new(&token.expect("six bytes")).expect("short");
    wire::message(Type::Confirmable, Code::PUT, MessageId(id), &token, &body.build().expect("legal options"))
}

// RFC 9177 §5 (Q179)
#[test]
fn confirmable_payloads_in_any_order_are_acknowledged_each_and_nothing_is_asked_for() {
    let mut server = Direct::new(in_bursts());
    for (id, num) in [(1, 0), (2, 2), (2, 2)] {
        let given = server.receive(7, &payload(id, num));
        assert_eq!(given.kinds(), [(Type::Acknowledgement, Code::EMPTY)], "{num}");
        assert!(given.events.is_empty());
    }
    assert!(server.run(s(100)).sent.is_empty(), "their sender repeats what is missing");
    let whole = server.receive(7, &payload(3, 1));
    assert_eq!(whole.events.len(), 1, "{whole:?}");
}

#[test]
fn bodies_that_their_clients_abandon_keep_within_the_caps_make_room_and_are_gone_in_the_end() {
    let mut server = Direct::new(in_bursts());
    let most = in_bursts().limits.transfers_per_peer as u16;
    let begin = |server: &mut Direct, body: u16| {
        let given = server.receive(7, &payload_of(&body.to_be_bytes(), body, 0));
        server.receive(7, &payload_of(&body.to_be_bytes(), 0x100 + body, 1));
        (given.message().code(), server.endpoint.occupancy().assemblies)
    };
    for body in 0..most {
        assert_eq!(begin(&mut server, body), (Code::EMPTY, usize::from(body) + 1));
    }
    assert_eq!(begin(&mut server, most), (Code::SERVICE_UNAVAILABLE, usize::from(most)));
    assert!(server.run(s(10)).sent.is_empty(), "their sender repeats what is missing");
    assert_eq!(begin(&mut server, most + 1), (Code::EMPTY, usize::from(most)), "4.5 times ACK_TIMEOUT has passed");
    assert!(server.run(s(247)).sent.is_empty());
    let left = server.endpoint.occupancy();
    assert_eq!((left.assemblies, left.body_bytes), (0, 0), "EXCHANGE_LIFETIME has passed");
}
