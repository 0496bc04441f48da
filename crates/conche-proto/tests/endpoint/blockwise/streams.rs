//! Bodies streamed between endpoint and application, over lossy links, and with lost peers.

use conche_proto::codec::{Block, Body, Code, MessageId, OptionNumber, OwnedMessage, Type};
use conche_proto::{
    EndpointConfig, Event, ExchangeId, Failure, IncompleteBody, Limits, Reliability, RemainingBody, Request,
    RequestError, Response, StreamEnd,
};

use super::{b64, block_message, block_of, blocks_sent, with_block_size};
use crate::model::Address;
use crate::support::fixture::body;
use crate::support::world::{by_name, lossy_link};
use crate::support::{CLIENT, SERVER, Streamer, World, end_of, ms, request, s};
use conche_proto::codec::BlockSize;

/// Never gives up, and never holds a body of more than a block.
fn small() -> EndpointConfig {
    let limits = Limits { body_bytes: 1_024, assembly_bytes: 4_096, ..Limits::default() };
    let mut config = EndpointConfig { limits, ..EndpointConfig::default() };
    config.transmission.max_retransmit = 12;
    config
}

fn pair(client: EndpointConfig, server: EndpointConfig, seed: u64) -> World {
    let mut world = World::empty();
    world.add(CLIENT, client, by_name("default"), seed);
    world.add(SERVER, server, by_name("default"), seed ^ u64::MAX);
    for address in [CLIENT, SERVER] {
        world.node(address).streamer = Some(Streamer::default());
    }
    world.node(SERVER).endpoint.stream_requests(Box::new(|message| Streamer::wants(&message.uri_path())));
    world
}

fn streamer(world: &mut World, address: Address) -> &mut Streamer {
    world.node(address).streamer.as_mut().expect("both have one")
}

/// In blocks of 1024 bytes.
fn upload(world: &mut World, reliability: Reliability) -> ExchangeId {
    let size = u32::try_from(streamer(world, CLIENT).body.len()).ok();
    let (beginning, last) = streamer(world, CLIENT).piece(1_025);
    assert!(!last, "such a body goes as it is");
    let body = Body::builder().path("/in").payload(beginning).build().expect("legal");
    world.request(Request::new(Code::PUT, body).with_rest(RemainingBody { size }).with_reliability(reliability))
}

fn download(world: &mut World) -> ExchangeId {
    world.request(request(Code::GET, "/out").streamed())
}

fn code_of(world: &World, id: ExchangeId) -> Result<Code, Failure> {
    end_of(world.events(CLIENT), id).expect("it is over").1.map(OwnedMessage::code)
}

#[test]
fn a_streamed_body_beyond_all_limits_is_exact_both_ways_under_loss() {
    for (seed, loss) in [(1, 0), (2, 10), (3, 10), (4, 30), (5, 30)] {
        for delay in [ms(0), ms(300), ms(1_500)] {
            let mut world = pair(small(), small(), seed);
            world.link = lossy_link(seed, loss, 5, 40);
            let large = body(50_000 + seed as usize, seed as usize);
            for address in [CLIENT, SERVER] {
                *streamer(&mut world, address) = Streamer { delay, ..Streamer::with(large.clone()) };
            }
            let down = download(&mut world);
            world.run_to_end();
            assert_eq!(code_of(&world, down), Ok(Code::CONTENT));
            assert!(streamer(&mut world, CLIENT).came == large, "down, seed {seed}, {delay:?}");
            *streamer(&mut world, CLIENT) = Streamer { delay, ..Streamer::with(large.clone()) };
            let up = upload(&mut world, Reliability::Confirmable);
            world.run_to_end();
            assert_eq!(code_of(&world, up), Ok(Code::CHANGED));
            assert!(streamer(&mut world, SERVER).came == large, "up, seed {seed}, {delay:?}");
            assert!(streamer(&mut world, SERVER).over.is_empty());
        }
    }
}

#[test]
fn non_confirmable_blocks_go_either_way_where_nothing_is_lost() {
    for delay in [ms(0), s(2)] {
        let mut world = pair(small(), small(), 9);
        let large = body(9_000, 9);
        for address in [CLIENT, SERVER] {
            *streamer(&mut world, address) = Streamer { delay, ..Streamer::with(large.clone()) };
        }
        let request = request(Code::GET, "/out").streamed().with_reliability(Reliability::NeverConfirmable);
        let down = world.request(request);
        world.run_to_end();
        assert_eq!(code_of(&world, down), Ok(Code::CONTENT));
        assert!(streamer(&mut world, CLIENT).came == large);
        *streamer(&mut world, CLIENT) = Streamer { delay, ..Streamer::with(large.clone()) };
        let up = upload(&mut world, Reliability::NeverConfirmable);
        world.run_to_end();
        assert_eq!(code_of(&world, up), Ok(Code::CHANGED));
        assert!(streamer(&mut world, SERVER).came == large);
    }
}

#[test]
fn blocks_of_every_size_and_pieces_of_any_make_the_same_body_and_late_negotiation_holds() {
    for (client, server) in [(BlockSize::B1024, BlockSize::B16), (BlockSize::B32, BlockSize::B1024)] {
        for piece in [0, 1, 100, 5_000] {
            let config = |size| EndpointConfig { block_size: size, ..small() };
            let mut world = pair(config(client), config(server), 11);
            let large = body(4_096, piece);
            *streamer(&mut world, SERVER) = Streamer { piece, ..Streamer::with(large.clone()) };
            let down = download(&mut world);
            world.run_to_end();
            assert_eq!(code_of(&world, down), Ok(Code::CONTENT));
            assert!(streamer(&mut world, CLIENT).came == large, "{client:?} {server:?} {piece}");
            *streamer(&mut world, CLIENT) = Streamer::with(large.clone());
            let up = upload(&mut world, Reliability::Confirmable);
            streamer(&mut world, CLIENT).piece = piece;
            world.run_to_end();
            assert_eq!(code_of(&world, up), Ok(Code::CHANGED));
            assert!(streamer(&mut world, SERVER).came == large, "{client:?} {server:?} {piece}");
        }
    }
}

#[test]
fn the_next_block_is_requested_only_after_the_application_takes_the_last() {
    let mut world = pair(small(), small(), 3);
    streamer(&mut world, SERVER).body = body(5_000, 3);
    world.node(CLIENT).streamer = None;
    let down = download(&mut world);
    for block in 1..5 {
        world.run(s(60));
        assert_eq!(world.sent_by(CLIENT).count(), block);
        let client = world.node(CLIENT).endpoint.occupancy();
        assert_eq!((client.exchanges, client.queued, client.timers), (1, 0, 0), "and it holds nothing but its place");
        let now = world.now;
        assert!(world.node(CLIENT).endpoint.fetch_next(now, down));
        assert!(!world.node(CLIENT).endpoint.fetch_next(now, down), "one block for each that was taken");
        world.settle(CLIENT);
    }
    world.run_to_end();
    assert_eq!(code_of(&world, down), Ok(Code::CONTENT));
}

#[test]
fn a_slow_application_is_waited_for_without_a_copy_of_anything() {
    let mut world = pair(small(), small(), 4);
    *streamer(&mut world, SERVER) = Streamer { delay: s(30), ..Streamer::default() };
    *streamer(&mut world, CLIENT) = Streamer { delay: s(100), ..Streamer::with(body(3_500, 1)) };
    let up = upload(&mut world, Reliability::Confirmable);
    world.run_to_end();
    assert_eq!(code_of(&world, up), Ok(Code::CHANGED));
    assert!(streamer(&mut world, SERVER).came == body(3_500, 1));
    assert_eq!(world.node(CLIENT).endpoint.stats().retransmissions, 0);
    let continued = world.sent_by(SERVER).filter(|sent| sent.message().code() == Code::CONTINUE);
    assert!(continued.into_iter().all(|sent| sent.message().header().ty == Type::Confirmable), "in separate responses");
}

#[test]
fn the_server_may_answer_early_whether_the_client_waits_or_has_nothing_to_send() {
    for (client_delay, server_delay) in [(ms(0), ms(0)), (ms(0), s(5)), (s(5), ms(0))] {
        let mut world = pair(small(), small(), 5);
        *streamer(&mut world, SERVER) =
            Streamer { delay: server_delay, refuses_at: Some(2_000), ..Streamer::default() };
        *streamer(&mut world, CLIENT) = Streamer { delay: client_delay, ..Streamer::with(body(20_000, 1)) };
        let up = upload(&mut world, Reliability::Confirmable);
        world.run_to_end();
        assert_eq!(code_of(&world, up), Ok(Code::REQUEST_ENTITY_TOO_LARGE));
        assert_eq!(streamer(&mut world, SERVER).blocks, 2);
    }
}

#[test]
fn an_answer_given_between_two_blocks_is_that_to_the_next_one() {
    let mut world = pair(small(), small(), 5);
    *streamer(&mut world, CLIENT) = Streamer { delay: s(5), ..Streamer::with(body(20_000, 1)) };
    let up = upload(&mut world, Reliability::Confirmable);
    world.run(s(3));
    let request = request_of(&world);
    let (now, server) = (world.now, world.node(SERVER));
    let created = Response::new(Code::CREATED, Body::EMPTY);
    assert_eq!(server.endpoint.respond(now, request, created.clone()), Ok(None));
    assert_eq!(server.endpoint.respond(now, request, created), Err(conche_proto::RespondError::NotPending), "once");
    world.run_to_end();
    assert_eq!(code_of(&world, up), Ok(Code::CREATED), "and nothing more of the body was sent");
    assert_eq!(blocks_sent(&world, CLIENT, OptionNumber::BLOCK1), ["0/1/1024", "1/1/1024"]);
}

fn request_of(world: &World) -> conche_proto::RequestId {
    let requests = world.events(SERVER).iter().rev();
    let mut ids = requests.filter_map(|(_, event)| match event {
        Event::Request { id, .. } => Some(*id),
        _ => None,
    });
    ids.next().expect("a request came")
}

#[test]
fn a_body_that_fails_on_the_way_ends_the_request_with_an_error() {
    let mut world = pair(small(), small(), 6);
    *streamer(&mut world, SERVER) = Streamer { breaks_at: Some(3_000), ..Streamer::with(body(20_000, 1)) };
    let down = download(&mut world);
    world.run_to_end();
    assert_eq!(code_of(&world, down), Ok(Code::INTERNAL_SERVER_ERROR));
    assert!(body(20_000, 1).starts_with(&streamer(&mut world, CLIENT).came));
}

#[test]
fn a_body_abandoned_by_the_client_is_freed_and_reported_at_the_server() {
    for down in [true, false] {
        let mut world = pair(small(), small(), 7);
        for address in [CLIENT, SERVER] {
            *streamer(&mut world, address) = Streamer { delay: ms(200), ..Streamer::with(body(50_000, 1)) };
        }
        let asked = if down { download(&mut world) } else { upload(&mut world, Reliability::Confirmable) };
        world.run(s(3));
        assert!(world.cancel(asked));
        assert_eq!(world.node(CLIENT).endpoint.occupancy().exchanges, 0);
        assert_eq!(world.node(SERVER).endpoint.occupancy().streams, 1);
        world.run_to_end();
        assert_eq!(streamer(&mut world, SERVER).over, [StreamEnd::Abandoned]);
        assert!(world.now >= crate::support::at_ms(247_000), "and not before EXCHANGE_LIFETIME");
    }
}

#[test]
fn a_server_that_is_gone_ends_the_body_in_time() {
    for down in [true, false] {
        let mut world = pair(EndpointConfig::default(), small(), 7);
        for address in [CLIENT, SERVER] {
            *streamer(&mut world, address) = Streamer { delay: ms(200), ..Streamer::with(body(50_000, 1)) };
        }
        let asked = if down { download(&mut world) } else { upload(&mut world, Reliability::Confirmable) };
        world.run(s(3));
        world.link = Box::new(|_| Vec::new());
        world.run_to_end();
        let (at, end) = end_of(world.events(CLIENT), asked).expect("it is over");
        assert!(matches!(end, Err(Failure::TimedOut | Failure::NoResponse)), "{end:?}");
        assert!(at < crate::support::at_ms(300_000));
    }
}

#[test]
fn a_body_that_becomes_another_one_is_no_body() {
    // Two parallel requests of one client: the second response replaces the first, unless the
    // application marks both as the same body by an ETag.
    for (etag, ends) in [
        (None, [Err(Failure::BodyChanged), Ok(Code::CONTENT)]),
        (Some(b"same".to_vec()), [Ok(Code::CONTENT), Ok(Code::CONTENT)]),
    ] {
        let mut world = pair(small(), small(), 8);
        *streamer(&mut world, SERVER) = Streamer { etag, ..Streamer::with(body(9_000, 1)) };
        let [first, second] = [download(&mut world), download(&mut world)];
        world.run_to_end();
        assert_eq!([first, second].map(|id| code_of(&world, id)), ends);
        assert_eq!(streamer(&mut world, SERVER).over, [StreamEnd::BegunAnew]);
    }
}

fn asked_by_hand() -> World {
    let mut world = World::empty();
    world.add(SERVER, with_block_size(BlockSize::B64), by_name("default"), 9);
    world.node(SERVER).streamer = Some(Streamer::with(body(300, 1)));
    world.node(SERVER).endpoint.stream_requests(Box::new(|message| Streamer::wants(&message.uri_path())));
    world
}

fn last_answer(world: &World) -> OwnedMessage {
    world.sent_by(SERVER).next_back().expect("an answer").message()
}

fn ask(world: &mut World, id: u16, block: Block) -> OwnedMessage {
    let head = (Type::Confirmable, Code::GET, id);
    world.inject(CLIENT, SERVER, &block_message(head, "/out", &[(OptionNumber::BLOCK2, block)], b""));
    last_answer(world)
}

// RFC 7959 §2.9.2
#[test]
fn the_block_that_left_last_can_be_asked_for_again_and_no_other() {
    let mut world = asked_by_hand();
    let large = body(300, 1);
    assert_eq!(ask(&mut world, 1, b64(0, false)).payload(), &large[..64]);
    let etag = last_answer(&world).option(OptionNumber::ETAG).map(<[u8]>::to_vec);
    assert_eq!(etag.as_deref().map(<[u8]>::len), Some(8), "one of its own");
    for id in [2, 3] {
        let again = ask(&mut world, id, b64(1, false));
        assert_eq!((again.payload(), block_of(&again, OptionNumber::BLOCK2)), (&large[64..128], Some(b64(1, true))));
        assert_eq!(again.option(OptionNumber::ETAG), etag.as_deref());
    }
    for (id, num) in [(4, 3), (5, 4), (6, 99)] {
        assert_eq!(ask(&mut world, id, b64(num, false)).code(), Code::REQUEST_ENTITY_INCOMPLETE);
    }
    assert_eq!(ask(&mut world, 7, b64(2, false)).payload(), &large[128..192], "a jump does no harm to the body");
    assert_eq!(ask(&mut world, 8, b64(1, false)).code(), Code::REQUEST_ENTITY_INCOMPLETE, "it is not kept any more");
    assert_eq!(ask(&mut world, 9, b64(3, false)).payload(), &large[192..256]);
    for id in [10, 11] {
        assert_eq!(ask(&mut world, id, b64(4, false)).payload(), &large[256..], "the last one");
    }
    assert_eq!(world.node(SERVER).endpoint.occupancy().streams, 0);
    world.run_to_end();
}

// RFC 7959 §2.4
#[test]
fn blocks_may_become_larger_or_smaller_on_the_way() {
    let mut world = asked_by_hand();
    let large = body(300, 1);
    let b16 = |num| Block { num, more: false, size: BlockSize::B16 };
    for num in 0..4 {
        let from = 16 * num as usize;
        assert_eq!(ask(&mut world, num as u16, b16(num)).payload(), &large[from..from + 16]);
    }
    assert_eq!(ask(&mut world, 10, b64(1, false)).payload(), &large[64..128]);
    assert_eq!(ask(&mut world, 11, b16(8)).payload(), &large[128..144]);
    world.run_to_end();
    assert_eq!(streamer(&mut world, SERVER).over, [StreamEnd::Abandoned]);
}

#[test]
fn a_streamed_body_requested_from_its_middle_is_refused() {
    let mut world = asked_by_hand();
    assert_eq!(ask(&mut world, 1, b64(2, false)).code(), Code::REQUEST_ENTITY_INCOMPLETE);
    world.run_to_end();
}

fn send(world: &mut World, id: u16, block: Block, payload: &[u8]) {
    let head = (Type::Confirmable, Code::PUT, id);
    world.inject(CLIENT, SERVER, &block_message(head, "/in", &[(OptionNumber::BLOCK1, block)], payload));
}

fn put(world: &mut World, id: u16, block: Block, payload: &[u8]) -> OwnedMessage {
    send(world, id, block, payload);
    last_answer(world)
}

// RFC 7959 §2.5, §2.9.2
#[test]
fn a_block_of_a_request_comes_once_in_its_order_or_the_body_begins_anew() {
    let mut world = asked_by_hand();
    let blocks: Vec<_> = body(192, 1).chunks(64).map(<[u8]>::to_vec).collect();
    assert_eq!(put(&mut world, 1, b64(1, true), &blocks[1]).code(), Code::REQUEST_ENTITY_INCOMPLETE);
    assert_eq!(put(&mut world, 2, b64(0, true), &blocks[0]).code(), Code::CONTINUE);
    assert_eq!(put(&mut world, 3, b64(1, true), &blocks[1]).code(), Code::CONTINUE);
    assert_eq!(put(&mut world, 4, b64(1, true), &blocks[1]).code(), Code::CONTINUE, "its answer was lost");
    assert_eq!(put(&mut world, 5, b64(1, true), &blocks[2]).code(), Code::REQUEST_ENTITY_INCOMPLETE, "another one");
    assert_eq!(put(&mut world, 6, b64(3, true), &blocks[2]).code(), Code::REQUEST_ENTITY_INCOMPLETE);
    assert_eq!(put(&mut world, 7, b64(2, true), &blocks[2][1..]).code(), Code::BAD_REQUEST);
    assert_eq!(put(&mut world, 8, b64(0, true), &blocks[1]).code(), Code::CONTINUE);
    assert_eq!(streamer(&mut world, SERVER).over, [StreamEnd::BegunAnew]);
    assert_eq!(put(&mut world, 9, b64(1, false), &blocks[2]).code(), Code::CHANGED);
    assert_eq!(streamer(&mut world, SERVER).came, [&blocks[1][..], &blocks[2]].concat());
    world.run_to_end();
}

#[test]
fn a_block_that_comes_again_while_it_is_being_taken_is_answered_once() {
    let mut world = asked_by_hand();
    streamer(&mut world, SERVER).delay = s(20);
    let (first, second) = (body(64, 1), body(64, 2));
    send(&mut world, 1, b64(0, true), &first);
    world.run(s(10));
    send(&mut world, 2, b64(0, true), &first);
    world.run(s(15));
    assert_eq!(last_answer(&world).code(), Code::CONTINUE);
    send(&mut world, 3, b64(1, false), &second);
    world.run_to_end();
    assert_eq!(streamer(&mut world, SERVER).came, [first, second].concat());
}

#[test]
fn no_peer_has_more_bodies_under_way_than_it_may_and_those_that_are_go_on() {
    let mut world = asked_by_hand();
    let most = world.node(SERVER).checker.limits().transfers_per_peer;
    let payload = body(64, 1);
    let put_to = |world: &mut World, query: usize, id: usize, block: Block| {
        let mut body = Body::builder().path("/in").query(&query.to_string()).payload(payload.clone());
        body = body.option(OptionNumber::BLOCK1, block.encode().as_slice());
        let token = conche_proto::codec::Token::new(b"token678").expect("short");
        let id = MessageId(u16::try_from(id).expect("few"));
        let body = body.build().expect("legal");
        let put = crate::support::wire::message(Type::Confirmable, Code::PUT, id, &token, &body);
        world.inject(CLIENT, SERVER, &put);
        last_answer(world).code()
    };
    for query in 0..most {
        assert_eq!(put_to(&mut world, query, query, b64(0, true)), Code::CONTINUE);
    }
    world.run(s(200));
    assert_eq!(put_to(&mut world, most, 100, b64(0, true)), Code::SERVICE_UNAVAILABLE);
    for query in 0..most {
        assert_eq!(put_to(&mut world, query, 200 + query, b64(1, false)), Code::CHANGED);
    }
    world.run_to_end();
}

#[test]
fn a_short_first_part_is_refused_and_a_closed_stream_takes_nothing() {
    let mut world = pair(small(), small(), 3);
    let body = Body::builder().path("/in").payload(vec![1; 1_024]).build().expect("legal");
    let short = Request::new(Code::PUT, body).with_rest(RemainingBody::default());
    let (now, client) = (world.now, world.node(CLIENT));
    let refused = client.endpoint.request(now, SERVER, short);
    assert_eq!(refused, Err(RequestError::TooShort { given: 1_024, least: 1_025 }));
    let asked = client.endpoint.request(now, SERVER, request(Code::GET, "/out")).expect("room");
    assert!(!client.endpoint.fetch_next(now, asked));
    let over = client.endpoint.supply(now, IncompleteBody::Request(asked), bytes::Bytes::new(), true);
    assert_eq!(over, Err(conche_proto::BodyClosed));
}

#[test]
fn a_request_that_needs_no_blocks_is_answered_like_any_other() {
    let mut world = pair(small(), small(), 3);
    streamer(&mut world, SERVER).body = body(700, 3);
    let down = download(&mut world);
    world.run_to_end();
    assert_eq!(code_of(&world, down), Ok(Code::CONTENT));
    assert!(streamer(&mut world, CLIENT).came == body(700, 3));
    assert_eq!(blocks_sent(&world, SERVER, OptionNumber::BLOCK2), Vec::<String>::new());
}
