//! Peers that do not support Q-Block, or only partially (RFC 9177 §4.1).

use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, OwnedMessage, Type};
use conche_proto::{Event, Failure, Request};

use super::{in_bursts, put};
use crate::support::direct::Given;
use crate::support::{Direct, SERVER, request, s, wire};

const Q1: OptionNumber = OptionNumber::Q_BLOCK1;
const Q2: OptionNumber = OptionNumber::Q_BLOCK2;
const B1: OptionNumber = OptionNumber::BLOCK1;
const B2: OptionNumber = OptionNumber::BLOCK2;

const fn block(num: u32, more: bool) -> Block {
    Block { num, more, size: BlockSize::B1024 }
}

fn block_of(message: &OwnedMessage, number: OptionNumber) -> Option<Block> {
    message.content().block(number).expect("endpoints send no reserved sizes")
}

fn sending(client: &mut Direct, request: Request) -> OwnedMessage {
    client.endpoint.request(client.now, SERVER, request).expect("admitted");
    client.drain().message().clone()
}

fn answer(
    (ty, id): (Type, u16),
    request: &OwnedMessage,
    code: Code,
    options: &[(OptionNumber, Block)],
    (size2, payload): (Option<u32>, &[u8]),
) -> Vec<u8> {
    let mut body = Body::builder().payload(payload.to_vec());
    for (number, block) in options {
        body = body.option(*number, block.encode().as_slice());
    }
    if let Some(bytes) = size2 {
        body = body.uint(OptionNumber::SIZE2, bytes).option(OptionNumber::ETAG, b"e");
    }
    wire::message(ty, code, MessageId(id), &request.token(), &body.build().expect("legal options"))
}

fn ack(request: &OwnedMessage, code: Code, options: &[(OptionNumber, Block)], body: (Option<u32>, &[u8])) -> Vec<u8> {
    answer((Type::Acknowledgement, request.header().id.0), request, code, options, body)
}

fn refusal(id: u16, request: &OwnedMessage, code: Code) -> Vec<u8> {
    answer((Type::NonConfirmable, id), request, code, &[], (None, b""))
}

fn end(given: &Given) -> Option<Result<(Code, usize), Failure>> {
    given.events.iter().find_map(|event| match event {
        Event::Response { message, .. } => Some(Ok((message.code(), message.payload().len()))),
        Event::Failed { reason, .. } => Some(Err(*reason)),
        _ => None,
    })
}

/// Within a second.
fn sets_of(client: &mut Direct, given: Given) -> Vec<OwnedMessage> {
    let mut sent: Vec<_> = given.sent.into_iter().map(|(_, message)| message).collect();
    if sent.is_empty() {
        sent.extend(client.run(s(1)).sent.into_iter().map(|(_, message)| message));
    }
    sent
}

// RFC 9177 §4.1
#[test]
fn a_peer_that_refuses_the_payloads_behind_the_first_gets_the_body_by_block1() {
    for code in [Code::BAD_REQUEST, Code::BAD_OPTION] {
        let mut client = Direct::new(in_bursts());
        let first = sending(&mut client, put("/large", &[7; 5_000]));
        assert_eq!(block_of(&first, Q1), Some(block(0, true)));
        let given = client.receive(SERVER, &ack(&first, Code::CONTINUE, &[(Q1, block(0, true))], (None, b"")));
        let payloads = sets_of(&mut client, given);
        assert_eq!(block_of(&payloads[0], Q1), Some(block(1, true)));
        let again = client.receive(SERVER, &refusal(1, &payloads[0], code));
        let again = again.message();
        assert_eq!((again.header().ty, block_of(again, B1)), (Type::Confirmable, Some(block(0, true))));
        assert!(again.option(Q1).is_none() && again.token() != first.token());
        // Another payload is refused later.
        assert!(client.receive(SERVER, &refusal(2, &payloads[0], code)).sent.is_empty());
        let mut last = again.clone();
        for num in 0..4 {
            let given = client.receive(SERVER, &ack(&last, Code::CONTINUE, &[(B1, block(num, true))], (None, b"")));
            last = given.message().clone();
        }
        let done = client.receive(SERVER, &ack(&last, Code::CHANGED, &[(B1, block(4, false))], (None, b"")));
        assert_eq!(end(&done), Some(Ok((Code::CHANGED, 0))));
        // The refusal is remembered for some time.
        let next = sending(&mut client, put("/large", &[7; 5_000]));
        assert_eq!((block_of(&next, B1), block_of(&next, Q1)), (Some(block(0, true)), None));
        client.receive(SERVER, &ack(&next, Code::CHANGED, &[], (None, b"")));
        client.run(s(1_801));
        let later = sending(&mut client, put("/large", &[7; 5_000]));
        assert_eq!(block_of(&later, Q1), Some(block(0, true)));
    }
}

// RFC 9177 §4.4: "If the M bit is unset, this is a request for just that one payload".
#[test]
fn a_single_block_without_size2_is_accepted_and_the_whole_response_asked_for() {
    let mut client = Direct::new(in_bursts());
    let first = sending(&mut client, request(Code::GET, "/large"));
    assert_eq!(block_of(&first, Q2), Some(block(0, false)));
    let single = ack(&first, Code::CONTENT, &[(Q2, block(0, true))], (None, &[0; 1024]));
    let whole = client.receive(SERVER, &single).message().clone();
    assert_eq!((whole.header().ty, block_of(&whole, Q2)), (Type::Confirmable, Some(block(0, true))));
    assert_ne!(whole.token(), first.token());
    gets_confirmable_blocks(&mut client, &whole);
}

#[test]
fn a_peer_that_refuses_requests_for_single_blocks_is_asked_for_the_whole_response() {
    for code in [Code::BAD_REQUEST, Code::BAD_OPTION] {
        let mut client = Direct::new(in_bursts());
        let first = sending(&mut client, request(Code::GET, "/large"));
        let begun = ack(&first, Code::CONTENT, &[(Q2, block(0, true))], (Some(14_000), &[0; 1024]));
        let more = client.receive(SERVER, &begun).message().clone();
        assert_eq!(more.header().ty, Type::NonConfirmable);
        let whole = client.receive(SERVER, &refusal(1, &more, code)).message().clone();
        assert_eq!((whole.header().ty, block_of(&whole, Q2)), (Type::Confirmable, Some(block(0, true))));
        gets_confirmable_blocks(&mut client, &whole);
    }
}

/// A body of 14 000 bytes in Confirmable messages, like the request; the client sends only ACKs.
fn gets_confirmable_blocks(client: &mut Direct, asked: &OwnedMessage) {
    let blocks = [(Q2, block(0, true))];
    let given = client.receive(SERVER, &ack(asked, Code::CONTENT, &blocks, (Some(14_000), &[0; 1024])));
    assert!(given.sent.is_empty() && given.events.is_empty());
    for num in 1..14 {
        let bytes = if num == 13 { 14_000 - 13 * 1024 } else { 1024 };
        let blocks = [(Q2, block(num, num < 13))];
        let id = 100 + u16::try_from(num).expect("small");
        let confirmable = answer(
            (Type::Confirmable, id),
            asked,
            Code::CONTENT,
            &blocks,
            (Some(14_000), &vec![u8::try_from(num).expect("small"); bytes]),
        );
        let given = client.receive(SERVER, &confirmable);
        assert_eq!(given.kinds(), [(Type::Acknowledgement, Code::EMPTY)], "block {num}");
        assert_eq!(end(&given), (num == 13).then_some(Ok((Code::CONTENT, 14_000))));
    }
    client.run_to_end();
}

#[test]
fn a_peer_that_refuses_the_whole_response_too_is_asked_by_block2() {
    let mut client = Direct::new(in_bursts());
    let first = sending(&mut client, request(Code::GET, "/large"));
    let single = ack(&first, Code::CONTENT, &[(Q2, block(0, true))], (None, &[0; 1024]));
    let whole = client.receive(SERVER, &single).message().clone();
    let again = client.receive(SERVER, &ack(&whole, Code::CONTENT, &[(Q2, block(0, true))], (None, &[0; 1024])));
    let again = again.message().clone();
    assert!(again.option(Q2).is_none());
    let given = client.receive(SERVER, &ack(&again, Code::CONTENT, &[(B2, block(0, true))], (None, &[1; 1024])));
    let next = given.message();
    assert_eq!(block_of(next, B2), Some(block(1, false)));
    let done = client.receive(SERVER, &ack(next, Code::CONTENT, &[(B2, block(1, false))], (None, &[2; 10])));
    assert_eq!(end(&done), Some(Ok((Code::CONTENT, 1034))));
    let next = sending(&mut client, request(Code::GET, "/large"));
    assert!(next.option(Q2).is_none(), "it is remembered");
}

#[test]
fn a_body_whose_first_block_is_taken_for_all_of_it_goes_by_block1_if_that_does_no_harm() {
    for (code, harmless) in [(Code::PUT, true), (Code::POST, false)] {
        let mut client = Direct::new(in_bursts());
        let body = Body::builder().path("/large").payload(vec![7; 5_000]).build().expect("a legal path");
        let first = sending(&mut client, Request::new(code, body));
        assert!(first.option(Q1).is_some());
        let given = client.receive(SERVER, &ack(&first, Code::CHANGED, &[], (None, b"1024")));
        if harmless {
            assert_eq!(block_of(given.message(), B1), Some(block(0, true)));
        } else {
            assert_eq!(end(&given), Some(Err(Failure::UnacceptableResponse)), "a success would be a lie");
        }
    }
}

#[test]
fn an_error_of_the_resource_is_still_the_response() {
    let mut client = Direct::new(in_bursts());
    let first = sending(&mut client, request(Code::GET, "/large"));
    let again = client.receive(SERVER, &ack(&first, Code::BAD_REQUEST, &[], (None, b"no such query")));
    let again = again.message().clone();
    assert!(again.option(Q2).is_none(), "it might have been Q-Block");
    let done = client.receive(SERVER, &ack(&again, Code::BAD_REQUEST, &[], (None, b"no such query")));
    assert_eq!(end(&done), Some(Ok((Code::BAD_REQUEST, 13))));
    for code in [Code::NOT_FOUND, Code::UNAUTHORIZED, Code::METHOD_NOT_ALLOWED] {
        let mut client = Direct::new(in_bursts());
        let first = sending(&mut client, put("/large", &[7; 5_000]));
        let given = client.receive(SERVER, &ack(&first, code, &[], (None, b"")));
        assert_eq!(end(&given), Some(Ok((code, 0))));
    }
}
