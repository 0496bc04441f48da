//! A server with a simulated client: refusals, abuse, and its cost.

use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, OwnedMessage, Token, Type};
use conche_proto::{Datagram, EndpointConfig, Limits, Multicast, Response};

use super::{block_of, in_bursts};
use crate::support::direct::{Given, changed, con};
use crate::support::fixture::body;
use crate::support::{Direct, s, wire};

const QB1: OptionNumber = OptionNumber::Q_BLOCK1;
const QB2: OptionNumber = OptionNumber::Q_BLOCK2;
const PEER: u32 = 7;

fn b16(num: u32, more: bool) -> Block {
    Block { num, more, size: BlockSize::B16 }
}

fn message(ty: Type, code: Code, id: u16, body: conche_proto::codec::BodyBuilder) -> Vec<u8> {
    let token = Token::new(&[9, 9, 9, 9, 9, 9, 0, id as u8]).expect("eight bytes");
    wire::message(ty, code, MessageId(id), &token, &body.path("/f").build().expect("legal options"))
}

fn put(ty: Type, id: u16, num: u32, bytes: u32) -> Vec<u8> {
    let more = (num + 1) * 16 < bytes;
    let length = if more { 16 } else { bytes as usize - num as usize * 16 };
    let body = Body::builder()
        .option(OptionNumber::REQUEST_TAG, b"tag")
        .uint(OptionNumber::SIZE1, bytes)
        .option(QB1, b16(num, more).encode().as_slice())
        .payload(vec![num as u8; length]);
    message(ty, Code::PUT, id, body)
}

fn non_put(server: &mut Direct, id: u16, num: u32, bytes: u32) -> Given {
    server.receive(PEER, &put(Type::NonConfirmable, id, num, bytes))
}

fn get(ty: Type, id: u16, blocks: &[Block]) -> Vec<u8> {
    let body = blocks.iter().fold(Body::builder(), |body, block| body.option(QB2, block.encode().as_slice()));
    message(ty, Code::GET, id, body)
}

fn serving() -> Direct {
    let mut server = Direct::new(in_bursts());
    let given = server.receive(PEER, &get(Type::Confirmable, 1, &[b16(0, false)]));
    let payload = Body::builder().payload(body(25 * 16, 1)).build().expect("no options");
    let first = server.respond(given.request(), Response::new(Code::CONTENT, payload));
    assert_eq!(block_of(first.message(), QB2), Some(b16(0, true)));
    server
}

fn numbers(given: &Given) -> Vec<u32> {
    given.sent.iter().filter_map(|(_, message)| block_of(message, QB2)).map(|block| block.num).collect()
}

fn code(given: &Given) -> Code {
    given.message().code()
}

// RFC 9177 §4.3 (Q163)
#[test]
fn a_block_without_request_tag_or_size1_is_a_bad_request() {
    let mut server = Direct::new(in_bursts());
    let block = b16(0, true).encode();
    let with = |tag: bool, size: bool| {
        let body = Body::builder().option(QB1, block.as_slice()).payload(vec![1; 16]);
        let body = if tag { body.option(OptionNumber::REQUEST_TAG, b"t") } else { body };
        if size { body.uint(OptionNumber::SIZE1, 40) } else { body }
    };
    for (id, (tag, size)) in [(false, true), (true, false), (false, false)].into_iter().enumerate() {
        let given = server.receive(PEER, &message(Type::Confirmable, Code::PUT, id as u16, with(tag, size)));
        assert_eq!(code(&given), Code::BAD_REQUEST, "tag {tag}, size {size}");
    }
    assert_eq!(server.endpoint.occupancy().assemblies, 0);
}

// RFC 9177 §4.1 (Q160)
#[test]
fn q_block_and_block_options_in_one_message_are_a_bad_option() {
    let mut server = Direct::new(in_bursts());
    for (id, (one, other)) in
        [(OptionNumber::BLOCK2, QB2), (OptionNumber::BLOCK1, QB2), (QB1, OptionNumber::BLOCK2)].into_iter().enumerate()
    {
        let block = b16(0, false).encode();
        let body = Body::builder().option(one, block.as_slice()).option(other, block.as_slice());
        let given = server.receive(PEER, &message(Type::Confirmable, Code::GET, id as u16, body));
        assert_eq!(code(&given), Code::BAD_OPTION);
    }
}

// RFC 9177 §4.8 (Q171)
#[test]
fn a_request_to_a_group_with_q_block2_is_ignored() {
    let multicast = Some(Multicast::default());
    let mut server = Direct::new(EndpointConfig { multicast, ..in_bursts() });
    let asked = get(Type::NonConfirmable, 1, &[b16(0, true)]);
    let mut datagram = Datagram::new(PEER, &asked[..]);
    datagram.multicast = true;
    let given = server.receive_datagram(datagram);
    assert!(given.events.is_empty() && given.sent.is_empty());
}

// RFC 9177 §4.4 (Q168, Q169)
#[test]
fn blocks_are_asked_for_in_ascending_order_or_not_at_all_and_each_is_sent_once() {
    let mut server = serving();
    for (id, wrong) in [[b16(5, false), b16(3, false)], [b16(5, false), b16(5, false)], [b16(2, false), b16(25, false)]]
        .into_iter()
        .enumerate()
    {
        let given = server.receive(PEER, &get(Type::Confirmable, 100 + id as u16, &wrong));
        assert_eq!(code(&given), Code::BAD_REQUEST, "{wrong:?}");
    }
    server.receive(PEER, &get(Type::NonConfirmable, 200, &[b16(3, false), b16(6, true), b16(8, false)]));
    server.receive(PEER, &get(Type::NonConfirmable, 201, &[b16(3, false), b16(7, false)]));
    let given = server.run(s(5));
    let mut sent = numbers(&given);
    sent.sort_unstable();
    sent.dedup();
    assert_eq!(sent, [3, 6, 7, 8, 9]);
    assert!(numbers(&given).len() <= 7, "nothing that is still to leave leaves twice: {:?}", numbers(&given));
}

// RFC 9177 §4.6 (Q170)
#[test]
fn every_payload_of_a_response_has_its_size_and_etag() {
    let mut server = serving();
    server.receive(PEER, &get(Type::NonConfirmable, 2, &[b16(1, true)]));
    let given = server.run(s(5));
    let marks = |message: &OwnedMessage| {
        (message.uint(OptionNumber::SIZE2), message.option(OptionNumber::ETAG).map(<[u8]>::to_vec))
    };
    let all: Vec<_> = given.sent.iter().map(|(_, message)| marks(message)).collect();
    assert!(
        all.len() >= 8 && all.iter().all(|mark| *mark == all[0] && mark.0 == Some(400) && mark.1.is_some()),
        "{all:?}"
    );
}

// RFC 9177 §4.3 (Q166)
#[test]
fn a_client_that_rejects_a_4_08_has_its_partial_body_dropped() {
    let mut server = Direct::new(in_bursts());
    non_put(&mut server, 1, 0, 400);
    non_put(&mut server, 2, 2, 400);
    assert_eq!(server.endpoint.occupancy().assemblies, 1);
    let asked = server.run(s(5));
    assert_eq!(code(&asked), Code::REQUEST_ENTITY_INCOMPLETE);
    server.receive(PEER, &wire::reset(asked.message().header().id));
    assert_eq!(server.endpoint.occupancy().assemblies, 0);
}

// RFC 9177 §7.2 (Q175, Q176)
#[test]
fn a_client_that_stops_is_asked_four_times_at_doubling_intervals_and_then_forgotten() {
    let mut server = Direct::new(in_bursts());
    non_put(&mut server, 1, 0, 400);
    let (start, mut asked) = (server.now, Vec::new());
    while let Some(wake) = server.wake.filter(|&wake| wake < start + s(100)) {
        server.now = wake;
        let given = server.drain();
        asked.extend(given.sent.iter().map(|_| (wake - start).as_secs()));
    }
    assert_eq!(asked, [4, 8, 16, 32]);
    assert_eq!((server.endpoint.occupancy().assemblies, server.endpoint.occupancy().body_bytes), (0, 0));
}

#[test]
fn numbers_far_ahead_and_bodies_of_every_tag_keep_within_the_caps() {
    let limits = Limits { assembly_bytes: 64 << 10, ..Limits::default() };
    let mut server = Direct::new(EndpointConfig { limits: limits.clone(), ..in_bursts() });
    for n in 0..5_000_u32 {
        let body = Body::builder()
            .option(OptionNumber::REQUEST_TAG, &n.to_be_bytes())
            .uint(OptionNumber::SIZE1, 65_536)
            .option(QB1, b16([4_094, n % 4_095, 1][n as usize % 3], true).encode().as_slice())
            .payload(vec![1; 16]);
        server.receive(n % 50, &message(Type::NonConfirmable, Code::PUT, n as u16, body));
        let left = server.endpoint.occupancy();
        assert!(left.assemblies <= limits.transfers && left.body_bytes <= limits.assembly_bytes, "{left:?}");
    }
    server.run_to_end();
}

#[test]
fn repeated_requests_for_all_blocks_are_bounded_by_the_rounds_of_a_burst() {
    let mut server = serving();
    let all: Vec<Block> = (1..10).map(|num| b16(num, false)).collect();
    let mut sent = 0;
    for id in 0..2_000 {
        server.receive(PEER, &get(Type::NonConfirmable, 1_000 + id, &all));
        sent += server.run(std::time::Duration::from_millis(20)).sent.len();
    }
    // 40 s at ten payloads per RTO of 2 s to 3 s, the controller's limit without answers.
    assert!(sent <= 300, "{sent}");
    server.run_to_end();
}

#[test]
fn a_silent_client_gets_one_set_and_no_more() {
    let mut server = serving();
    let mut sent = numbers(&server.receive(PEER, &get(Type::NonConfirmable, 2, &[b16(1, true)])));
    sent.extend(numbers(&server.run(s(400))));
    assert_eq!(sent, (1..10).collect::<Vec<_>>());
    server.run_to_end();
}

// RFC 9177 §4.4 (Q167)
#[test]
fn a_whole_body_request_gets_the_first_and_four_unanswered_bursts() {
    let mut server = Direct::new(in_bursts());
    let given = server.receive(PEER, &get(Type::NonConfirmable, 1, &[b16(0, true)]));
    let payload = Body::builder().payload(body(100 * 16, 1)).build().expect("no options");
    let mut sent = numbers(&server.respond(given.request(), Response::new(Code::CONTENT, payload)));
    sent.extend(numbers(&server.run(s(400))));
    assert_eq!(sent, (0..50).collect::<Vec<_>>());
    server.run_to_end();
}

#[test]
fn other_requests_are_answered_while_a_body_leaves() {
    let mut server = serving();
    server.receive(PEER, &get(Type::NonConfirmable, 2, &[b16(1, true)]));
    let request = server.receive(PEER, &con(Code::POST, 900)).request();
    assert_eq!(server.respond(request, changed()).kinds(), [(Type::Acknowledgement, Code::CHANGED)]);
}

/// With or without the request's own body.
fn fetch(id: u16, num: u32, more: bool, payload: &[u8]) -> Vec<u8> {
    let block = b16(num, more).encode();
    let body = Body::builder().option(QB2, block.as_slice()).payload(payload.to_vec());
    message(Type::NonConfirmable, Code::FETCH, id, body)
}

// RFC 9177 §4.4 (Q167)
#[test]
fn a_fetch_continues_a_burst_response_without_its_payload() {
    let mut server = Direct::new(in_bursts());
    let request = server.receive(PEER, &fetch(1, 0, false, b"what is asked for")).request();
    let payload = Body::builder().payload(body(25 * 16, 1)).build().expect("no options");
    server.respond(request, Response::new(Code::CONTENT, payload));
    let given = server.receive(PEER, &fetch(2, 1, true, b""));
    assert!(given.events.is_empty(), "it is no other request: {given:?}");
    let mut sent = numbers(&given);
    sent.extend(numbers(&server.run(s(5))));
    assert_eq!(sent, (1..10).collect::<Vec<_>>());
}

// RFC 9177 §4.3 (Q162)
#[test]
fn a_fetch_received_in_bursts_is_one_request_and_continues_without_body() {
    let mut server = Direct::new(in_bursts());
    let part = |id: u16, num: u32| {
        let body = Body::builder()
            .option(OptionNumber::REQUEST_TAG, b"tag")
            .uint(OptionNumber::SIZE1, 32)
            .option(QB1, b16(num, num == 0).encode().as_slice())
            .option(QB2, b16(0, false).encode().as_slice())
            .payload(vec![num as u8; 16]);
        message(Type::NonConfirmable, Code::FETCH, id, body)
    };
    assert!(server.receive(PEER, &part(1, 0)).events.is_empty());
    let request = server.receive(PEER, &part(2, 1)).request();
    let payload = Body::builder().payload(body(25 * 16, 1)).build().expect("no options");
    let first = server.respond(request, Response::new(Code::CONTENT, payload));
    server.receive(PEER, &wire::empty_ack(first.message().header().id));
    let more = Body::builder().option(OptionNumber::REQUEST_TAG, b"tag").uint(OptionNumber::SIZE1, 32);
    let more = more.option(QB2, b16(1, true).encode().as_slice());
    let given = server.receive(PEER, &message(Type::NonConfirmable, Code::FETCH, 3, more));
    assert!(given.events.is_empty(), "it is no other request: {given:?}");
    let mut sent = numbers(&given);
    sent.extend(numbers(&server.run(s(5))));
    assert_eq!(sent, (1..10).collect::<Vec<_>>());
}
