//! One token for all messages of a block-wise transfer, and the late responses that this permits.

use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, OwnedMessage, Token, Type};
use conche_proto::{EndpointConfig, Event, Reliability, Request};

use super::{b64, with_block_size};
use crate::support::direct::Given;
use crate::support::{Direct, SERVER, wire};

const B1: OptionNumber = OptionNumber::BLOCK1;
const B2: OptionNumber = OptionNumber::BLOCK2;

fn asking(code: Code, bytes: usize, reliability: Reliability) -> (Direct, OwnedMessage) {
    let mut client = Direct::new(with_block_size(BlockSize::B64));
    let body = Body::builder().path("/large").payload(vec![7; bytes]).build().expect("a legal path");
    let request = Request::new(code, body).with_reliability(reliability);
    client.endpoint.request(client.now, SERVER, request).expect("admitted");
    let first = client.drain().message().clone();
    (client, first)
}

fn answer(
    (ty, id): (Type, u16),
    token: &Token,
    code: Code,
    blocks: &[(OptionNumber, Block)],
    payload: &[u8],
) -> Vec<u8> {
    let mut body = Body::builder().payload(payload.to_vec());
    for (number, block) in blocks {
        body = body.option(*number, block.encode().as_slice());
    }
    wire::message(ty, code, MessageId(id), token, &body.build().expect("legal options"))
}

fn ack(request: &OwnedMessage, code: Code, blocks: &[(OptionNumber, Block)], payload: &[u8]) -> Vec<u8> {
    answer((Type::Acknowledgement, request.header().id.0), &request.token(), code, blocks, payload)
}

fn response(given: &Given) -> Option<(Code, Vec<u8>)> {
    given.events.iter().find_map(|event| match event {
        Event::Response { message, .. } => Some((message.code(), message.payload().to_vec())),
        Event::Failed { reason, .. } => panic!("failed: {reason}"),
        _ => None,
    })
}

#[test]
fn all_blocks_of_a_request_and_its_response_have_one_token() {
    let (mut client, first) = asking(Code::POST, 150, Reliability::Confirmable);
    let mut messages = vec![first.clone()];
    let mut next = |client: &mut Direct, code, blocks: &[(OptionNumber, Block)], payload: &[u8]| {
        let given = client.receive(SERVER, &ack(messages.last().expect("the first"), code, blocks, payload));
        messages.extend(given.sent.iter().map(|(_, message)| message.clone()));
        response(&given)
    };
    assert_eq!(next(&mut client, Code::CONTINUE, &[(B1, b64(0, true))], b""), None);
    assert_eq!(next(&mut client, Code::CONTINUE, &[(B1, b64(1, true))], b""), None);
    assert_eq!(next(&mut client, Code::CHANGED, &[(B2, b64(0, true)), (B1, b64(2, false))], &[1; 64]), None);
    let end = next(&mut client, Code::CHANGED, &[(B2, b64(1, false))], &[2; 9]);
    assert_eq!(end, Some((Code::CHANGED, [&[1; 64][..], &[2; 9]].concat())));
    assert_eq!(messages.len(), 4);
    assert!(messages.iter().all(|message| message.token() == first.token()));
    client.run_to_end();
}

#[test]
fn a_late_separate_response_to_an_earlier_block_is_not_taken_for_the_next() {
    for ty in [Type::NonConfirmable, Type::Confirmable] {
        let (mut client, first) = asking(Code::PUT, 150, Reliability::Confirmable);
        let token = first.token();
        let given = client.receive(SERVER, &ack(&first, Code::CONTINUE, &[(B1, b64(0, true))], b""));
        let second = given.message().clone();
        assert_eq!(second.content().block(B1), Ok(Some(b64(1, true))));
        // Delayed by the network, or repeated by a server that does not remember its response.
        for id in [70, 71] {
            let late = answer((ty, id), &token, Code::CONTINUE, &[(B1, b64(0, true))], b"");
            let kinds = client.receive(SERVER, &late).kinds();
            let acknowledged = (ty == Type::Confirmable).then_some((Type::Acknowledgement, Code::EMPTY));
            assert_eq!(kinds, Vec::from_iter(acknowledged), "it moves nothing");
        }
        let given = client.receive(SERVER, &ack(&second, Code::CONTINUE, &[(B1, b64(1, true))], b""));
        assert_eq!(given.message().content().block(B1), Ok(Some(b64(2, false))));
        let end = client.receive(SERVER, &ack(given.message(), Code::CHANGED, &[(B1, b64(2, false))], b""));
        assert_eq!(response(&end), Some((Code::CHANGED, Vec::new())));
        assert_eq!(client.endpoint.stats().duplicates, 2);
    }
}

#[test]
fn a_late_copy_of_a_block_of_a_response_is_not_taken_for_the_next() {
    let (mut client, first) = asking(Code::GET, 0, Reliability::NeverConfirmable);
    let token = first.token();
    let block = |id, num, more| {
        let payload = [u8::try_from(num).expect("small"); 64];
        answer((Type::NonConfirmable, id), &token, Code::CONTENT, &[(B2, b64(num, more))], &payload)
    };
    for (id, num) in [(1, 0), (2, 1)] {
        let given = client.receive(SERVER, &block(id, num, true));
        assert_eq!(given.message().content().block(B2), Ok(Some(b64(num + 1, false))));
        assert_eq!(given.message().token(), token);
        assert!(client.receive(SERVER, &block(id, num, true)).sent.is_empty(), "the network doubled it");
        assert!(client.receive(SERVER, &block(9, 0, true)).sent.is_empty());
    }
    let (_, payload) = response(&client.receive(SERVER, &block(3, 2, false))).expect("it is whole");
    assert_eq!(payload, [[0; 64], [1; 64], [2; 64]].concat());
}

#[test]
fn a_late_continue_does_not_end_the_response_that_has_begun() {
    let (mut client, first) = asking(Code::POST, 100, Reliability::Confirmable);
    let given = client.receive(SERVER, &ack(&first, Code::CONTINUE, &[(B1, b64(0, true))], b""));
    let begun = ack(given.message(), Code::CHANGED, &[(B2, b64(0, true)), (B1, b64(1, false))], &[1; 64]);
    let given = client.receive(SERVER, &begun);
    for num in [0, 1] {
        let late = answer((Type::NonConfirmable, 7), &first.token(), Code::CONTINUE, &[(B1, b64(num, true))], b"");
        let ignored = client.receive(SERVER, &late);
        assert!(ignored.sent.is_empty() && ignored.events.is_empty());
    }
    let end = client.receive(SERVER, &ack(given.message(), Code::CHANGED, &[(B2, b64(1, false))], b"end"));
    assert_eq!(response(&end), Some((Code::CHANGED, [&[1; 64][..], b"end"].concat())));
}

#[test]
fn a_transfer_that_begins_anew_has_another_token() {
    // The server lost the body.
    let (mut client, first) = asking(Code::PUT, 150, Reliability::Confirmable);
    let given = client.receive(SERVER, &ack(&first, Code::CONTINUE, &[(B1, b64(0, true))], b""));
    let again = client.receive(SERVER, &ack(given.message(), Code::REQUEST_ENTITY_INCOMPLETE, &[], b""));
    assert_eq!(again.message().content().block(B1), Ok(Some(b64(0, true))));
    assert_ne!(again.message().token(), first.token());
    // The resource changed during the transfer.
    let (mut client, first) = asking(Code::GET, 0, Reliability::Confirmable);
    let etagged = |request: &OwnedMessage, etag: &[u8], block: Block| {
        let options = [(4, etag), (23, block.encode().as_slice())].map(|(number, value)| (number, value.to_vec()));
        let options: Vec<(u16, &[u8])> = options.iter().map(|(number, value)| (*number, &value[..])).collect();
        let (id, token) = (request.header().id.0, request.token());
        wire::with_options(Type::Acknowledgement, Code::CONTENT, id, token.as_slice(), &options, &[1; 64])
    };
    let given = client.receive(SERVER, &etagged(&first, b"a", b64(0, true)));
    let again = client.receive(SERVER, &etagged(given.message(), b"b", b64(1, true)));
    assert_eq!(again.message().content().block(B2), Ok(Some(b64(0, false))));
    assert_ne!(again.message().token(), first.token());
}

#[test]
fn a_named_token_is_that_of_all_blocks() {
    let mut client = Direct::new(EndpointConfig::default());
    let body = Body::builder().path("/large").payload(vec![7; 3_000]).build().expect("a legal path");
    let request = Request { token: Token::new(b"mine"), ..Request::new(Code::PUT, body) };
    client.endpoint.request(client.now, SERVER, request).expect("admitted");
    let first = client.drain().message().clone();
    let block = |num| Block { num, more: true, size: BlockSize::B1024 };
    let given = client.receive(SERVER, &ack(&first, Code::CONTINUE, &[(B1, block(0))], b""));
    assert_eq!(given.message().token(), Token::new(b"mine").expect("four bytes"));
}
