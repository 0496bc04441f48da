//! A client with a simulated server: negotiation, changing bodies, inconsistent blocks.

use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, Type};
use conche_proto::{EndpointConfig, ExchangeId, Failure, Limits, QBlock, Request};

use super::{b64, block_of, request_with, with_block_size};
use crate::support::fixture::body;
use crate::support::world::by_name;
use crate::support::{CLIENT, SERVER, World, end_of, ms, request, s, wire};

const B1: OptionNumber = OptionNumber::BLOCK1;
const B2: OptionNumber = OptionNumber::BLOCK2;

/// The test plays the server.
struct Asking {
    world: World,
    asked: ExchangeId,
}

impl Asking {
    fn new(config: EndpointConfig, request: Request) -> Self {
        let mut world = World::client_of(&config, by_name("default"));
        let asked = world.request(request);
        Self { world, asked }
    }

    fn get() -> Self {
        Self::new(EndpointConfig::default(), request(Code::GET, "/large"))
    }

    fn last(&self, number: OptionNumber) -> Option<Block> {
        block_of(&self.world.sent_by(CLIENT).next_back().expect("it sends").message(), number)
    }

    fn sent(&self) -> usize {
        self.world.sent_by(CLIENT).count()
    }

    fn answer(&mut self, code: Code, block: Option<(OptionNumber, Block)>, etag: Option<&[u8]>, payload: &[u8]) {
        let block = block.map(|(number, block)| (number, block.encode().as_slice().to_vec()));
        let etag = etag.map(|etag| (OptionNumber::ETAG, etag.to_vec()));
        self.respond(code, block.into_iter().chain(etag), payload);
    }

    fn respond(&mut self, code: Code, options: impl IntoIterator<Item = (OptionNumber, Vec<u8>)>, payload: &[u8]) {
        let last = self.world.sent_by(CLIENT).next_back().expect("it sends").clone();
        let mut answer = Body::builder().payload(payload.to_vec());
        for (number, value) in options {
            answer = answer.option(number, value.as_slice());
        }
        let (id, token) = (last.message().header().id, last.message().token());
        let answer = wire::message(Type::Acknowledgement, code, id, &token, &answer.build().expect("legal options"));
        self.world.inject(SERVER, CLIENT, &answer);
    }

    fn content(&mut self, block: Block, etag: &[u8], payload: &[u8]) {
        self.answer(Code::CONTENT, Some((B2, block)), Some(etag), payload);
    }

    fn end(&mut self) -> Option<Result<Vec<u8>, Failure>> {
        let end = end_of(self.world.events(CLIENT), self.asked).map(|(_, end)| end.map(|it| it.payload().to_vec()));
        if end.is_some() {
            let occupancy = self.world.node(CLIENT).endpoint.occupancy();
            assert_eq!((occupancy.exchanges, occupancy.timers, occupancy.body_bytes), (0, 0, 0));
        }
        end
    }
}

// RFC 7959 §2.4 (Q125)
#[test]
fn blocks_of_different_etags_are_never_put_together() {
    let (mut client, old, new) = (Asking::get(), body(200, 1), body(100, 2));
    client.content(b64(0, true), b"old", &old[..64]);
    client.content(b64(1, true), b"old", &old[64..128]);
    client.content(b64(2, false), b"new", &new[64..]);
    assert_eq!(client.last(B2).map(|block| block.num), Some(0), "it begins anew");
    client.content(b64(0, true), b"new", &new[..64]);
    client.content(b64(1, false), b"new", &new[64..]);
    assert_eq!(client.end(), Some(Ok(new)));
}

/// A GET in three blocks, the last without Content-Format. Returns the result and the last
/// requested block.
fn without_the_last_content_format(etag: Option<&[u8]>) -> (Option<Result<Vec<u8>, Failure>>, Option<u32>) {
    let (mut client, whole) = (Asking::get(), body(180, 1));
    for (num, payload) in (0..).zip(whole.chunks(64)) {
        let etag = etag.map(|etag| (OptionNumber::ETAG, etag.to_vec()));
        let format = (num < 2).then(|| (OptionNumber::CONTENT_FORMAT, vec![60]));
        let block = (B2, b64(num, num < 2).encode().as_slice().to_vec());
        client.respond(Code::CONTENT, [block].into_iter().chain(etag).chain(format), payload);
    }
    (client.end(), client.last(B2).map(|block| block.num))
}

// RFC 7959 §2.4: the ETag identifies the representation.
#[test]
fn a_block_without_content_format_belongs_to_the_body_if_it_has_its_etag() {
    let (end, _) = without_the_last_content_format(Some(b"etag"));
    assert_eq!(end, Some(Ok(body(180, 1))));
    let (end, asked) = without_the_last_content_format(None);
    assert_eq!((end, asked), (None, Some(0)), "it begins anew");
}

#[test]
fn a_body_that_changes_again_and_again_fails_and_so_does_one_whose_etag_vanishes() {
    let mut client = Asking::get();
    for round in 0..4_u8 {
        assert_eq!(client.end(), None);
        client.content(b64(0, true), &[round], &[round; 64]);
        client.content(b64(1, true), &[round, 1], &[round; 64]);
    }
    assert_eq!((client.end(), client.sent()), (Some(Err(Failure::BodyChanged)), 8));
    let mut client = Asking::get();
    client.content(b64(0, true), b"old", &[1; 64]);
    client.answer(Code::CONTENT, Some((B2, b64(1, false))), None, &[1; 10]);
    assert_eq!(client.last(B2).map(|block| block.num), Some(0));
}

#[test]
fn a_post_whose_response_changes_is_not_repeated() {
    let mut client = Asking::new(EndpointConfig::default(), request_with(Code::POST, "/large-post", b"x"));
    client.answer(Code::CHANGED, Some((B2, b64(0, true))), Some(b"old"), &[1; 64]);
    assert_eq!(client.world.sent_by(CLIENT).next_back().expect("it asks on").message().payload(), b"");
    client.answer(Code::CHANGED, Some((B2, b64(1, false))), Some(b"new"), &[1; 64]);
    assert_eq!((client.end(), client.sent()), (Some(Err(Failure::BodyChanged)), 2));
}

// RFC 7959 §2.2 (Q121)
#[test]
fn blocks_that_do_not_fit_together_are_no_response() {
    type Answers = fn(&mut Asking);
    let cases: [(&str, Answers); 7] = [
        ("the first is not the first", |it| it.content(b64(1, true), b"e", &[1; 64])),
        ("the first is the last one, and short", |it| it.content(b64(1, false), b"e", b"short")),
        ("too short", |it| it.content(b64(0, true), b"e", &[1; 63])),
        ("too long", |it| it.content(b64(0, true), b"e", &[1; 65])),
        ("a gap", |it| {
            it.content(b64(0, true), b"e", &[1; 64]);
            it.content(b64(2, true), b"e", &[1; 64]);
        }),
        ("the same again", |it| {
            it.content(b64(0, true), b"e", &[1; 64]);
            it.content(b64(0, true), b"e", &[1; 64]);
        }),
        ("NUM 1048575", |it| {
            it.content(b64(0, true), b"e", &[1; 64]);
            it.content(Block { num: Block::MAX_NUM, more: true, size: BlockSize::B1024 }, b"e", &[1; 1024]);
        }),
    ];
    for (name, answers) in cases {
        let mut client = Asking::get();
        answers(&mut client);
        assert_eq!(client.end(), Some(Err(Failure::UnacceptableResponse)), "{name}");
    }
}

// RFC 7959 §2.2 (Q120)
#[test]
fn a_response_with_the_reserved_size_is_not_delivered() {
    let mut client = Asking::get();
    let first = client.world.first_copy(client.asked).message();
    let options: &[(u16, &[u8])] = &[(23, b"\x0f")];
    let (id, token) = (first.header().id.0, first.token());
    let answer = wire::with_options(Type::Acknowledgement, Code::CONTENT, id, token.as_slice(), options, &[1; 64]);
    client.world.inject(SERVER, CLIENT, &answer);
    assert_eq!(client.end(), Some(Err(Failure::UnacceptableResponse)));
}

#[test]
fn a_block_of_another_response_in_the_middle_is_no_response() {
    let mut client = Asking::get();
    client.content(b64(0, true), b"e", &[1; 64]);
    client.answer(Code::CHANGED, Some((B2, b64(1, false))), Some(b"e"), b"the rest of something");
    assert_eq!(client.end(), Some(Err(Failure::BodyChanged)));
}

#[test]
fn an_error_in_the_middle_is_the_response() {
    let mut client = Asking::get();
    client.content(b64(0, true), b"e", &[1; 64]);
    client.answer(Code::NOT_FOUND, None, None, b"gone");
    assert_eq!(client.end(), Some(Ok(b"gone".to_vec())));
}

// RFC 7959 §2.5 (Q127)
#[test]
fn the_server_may_want_smaller_blocks_at_any_time_and_larger_ones_are_not_sent() {
    let mut client = Asking::new(with_block_size(BlockSize::B512), request_with(Code::PUT, "/u", &body(1_000, 1)));
    assert_eq!(client.last(B1), Some(Block { num: 0, more: true, size: BlockSize::B512 }));
    client.answer(Code::CONTINUE, Some((B1, Block { num: 0, more: true, size: BlockSize::B64 })), None, b"");
    assert_eq!(client.last(B1), Some(b64(8, true)));
    client.answer(Code::CONTINUE, Some((B1, Block { num: 8, more: true, size: BlockSize::B1024 })), None, b"");
    assert_eq!(client.last(B1), Some(b64(9, true)));
    client.answer(Code::CONTINUE, Some((B1, Block { num: 9, more: true, size: BlockSize::B16 })), None, b"");
    assert_eq!(client.last(B1), Some(Block { num: 40, more: true, size: BlockSize::B16 }));
}

// RFC 7959 §2.9.3 (Q132)
#[test]
fn a_4_13_with_a_smaller_size_begins_anew_with_that_and_without_one_is_the_response() {
    let hint = |size| Some((B1, Block { num: 0, more: false, size }));
    let mut client = Asking::new(EndpointConfig::default(), request_with(Code::PUT, "/u", &body(3_000, 1)));
    client.answer(Code::REQUEST_ENTITY_TOO_LARGE, hint(BlockSize::B256), None, b"");
    assert_eq!(client.last(B1), Some(Block { num: 0, more: true, size: BlockSize::B256 }));
    client.answer(Code::REQUEST_ENTITY_TOO_LARGE, hint(BlockSize::B256), None, b"no");
    assert_eq!(client.end(), Some(Ok(b"no".to_vec())), "the same size again would go on for ever");
    // A request sent whole continues in blocks.
    let mut client = Asking::new(EndpointConfig::default(), request_with(Code::PUT, "/u", &body(300, 1)));
    assert_eq!(client.last(B1), None);
    client.answer(Code::REQUEST_ENTITY_TOO_LARGE, hint(BlockSize::B128), None, b"");
    assert_eq!(client.last(B1), Some(Block { num: 0, more: true, size: BlockSize::B128 }));
}

#[test]
fn a_4_13_with_a_size_that_fits_into_no_message_begins_anew_with_one_that_does() {
    let limits = Limits { message_bytes: 80, ..Limits::default() };
    let config = EndpointConfig { limits, q_block: Some(QBlock::default()), ..EndpointConfig::default() };
    let mut client = Asking::new(config, request_with(Code::PUT, "/u", &body(300, 1)));
    assert_eq!(client.last(B1), None, "it goes in bursts");
    let hint = Block { num: 0, more: false, size: BlockSize::B128 };
    client.answer(Code::REQUEST_ENTITY_TOO_LARGE, Some((B1, hint)), None, b"");
    assert_eq!(client.last(B1), Some(Block { num: 0, more: true, size: BlockSize::B32 }));
}

// RFC 7959 §2.9.2 (Q136)
#[test]
fn a_body_lost_by_the_server_is_sent_again_once() {
    let mut client = Asking::new(with_block_size(BlockSize::B64), request_with(Code::POST, "/u", &body(200, 1)));
    for round in 0..2 {
        client.answer(Code::CONTINUE, Some((B1, b64(0, true))), None, b"");
        assert_eq!(client.last(B1), Some(b64(1, true)), "round {round}");
        client.answer(Code::REQUEST_ENTITY_INCOMPLETE, None, None, b"lost");
    }
    assert_eq!(client.end(), Some(Ok(b"lost".to_vec())));
}

#[test]
fn a_late_copy_of_an_earlier_block_is_not_taken_for_the_next() {
    let mut client = Asking::get();
    let first = client.world.first_copy(client.asked).message();
    client.content(b64(0, true), b"e", &[1; 64]);
    let late = Body::builder().option(B2, b64(0, true).encode().as_slice()).option(OptionNumber::ETAG, b"e");
    let late = late.payload(vec![1; 64]).build();
    let late = late.expect("legal options");
    let late = wire::message(Type::NonConfirmable, Code::CONTENT, MessageId(9), &first.token(), &late);
    client.world.inject(SERVER, CLIENT, &late);
    assert_eq!(client.end(), None);
    client.answer(Code::CONTENT, Some((B2, b64(1, false))), Some(b"e"), &[2; 4]);
    assert_eq!(client.end(), Some(Ok([&[1; 64][..], &[2; 4]].concat())));
}

#[test]
fn cancelling_and_deadlines_end_a_transfer_wherever_it_stands() {
    for blocks in 0..3_u32 {
        let mut client = Asking::get();
        (0..blocks).for_each(|num| client.content(b64(num, true), b"e", &[1; 64]));
        assert!(client.world.cancel(client.asked));
        let occupancy = client.world.node(CLIENT).endpoint.occupancy();
        assert_eq!((occupancy.exchanges, occupancy.timers, occupancy.body_bytes), (0, 0, 0));
        assert_eq!((occupancy.queued, occupancy.transfers), (0, 0));
        let next = client.world.request(request(Code::GET, "/next"));
        assert_eq!(client.world.departures(next).len(), 1, "the slot is free");
    }
    let mut client = Asking::new(EndpointConfig::default(), request(Code::GET, "/large").with_timeout(s(10)));
    for num in 0..4 {
        client.content(b64(num, true), b"e", &[1; 64]);
        client.world.run(ms(1_500));
    }
    client.world.run(s(4));
    assert_eq!(client.end(), Some(Err(Failure::Deadline)), "the deadline is that of the whole");
}

#[test]
fn responses_that_are_put_together_share_a_bound() {
    let mut config = EndpointConfig::default();
    config.limits.assembly_bytes = 10_000;
    config.limits.body_bytes = 8_000;
    config.transmission.nstart = 4;
    let mut world = World::client_of(&config, by_name("cocoa"));
    let asked: Vec<_> = (0..4).map(|_| world.request(request(Code::GET, "/large"))).collect();
    for num in 0..7 {
        for id in &asked {
            let of_it =
                |sent: &&crate::support::world::Datagram| sent.exchange.is_some_and(|(exchange, _)| exchange == *id);
            let last = world.sent.iter().rfind(of_it).expect("it left").message();
            let block = Block { num, more: true, size: BlockSize::B1024 };
            let block = Body::builder().option(B2, block.encode().as_slice()).payload(vec![1; 1024]).build();
            let (id, token) = (last.header().id, last.token());
            let answer = wire::message(Type::Acknowledgement, Code::CONTENT, id, &token, &block.expect("legal"));
            world.inject(SERVER, CLIENT, &answer);
            assert!(world.node(CLIENT).endpoint.occupancy().body_bytes <= 10_000);
        }
    }
    let failed = asked.iter().filter(|&&id| {
        end_of(world.events(CLIENT), id).is_some_and(|(_, end)| end.is_err_and(|why| why == Failure::BodyTooLarge))
    });
    assert_eq!(failed.count(), 3, "one of them found room for itself");
}
