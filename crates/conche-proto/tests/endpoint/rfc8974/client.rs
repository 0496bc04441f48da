//! Extended tokens of requests, and discovery of their support.

use conche_proto::codec::{Code, Token, Type};
use conche_proto::{EndpointConfig, Event, Failure, Limits, Reliability, Request, RequestError};

use crate::support::direct::Given;
use crate::support::world::by_name;
use crate::support::{CLIENT, Direct, SERVER, World, request, s, wire};

const PEER: u32 = 1;

fn client(token_length: usize) -> Direct {
    Direct::new(EndpointConfig { token_length, longest_token: 600, ..EndpointConfig::default() })
}

fn ask(client: &mut Direct, request: Request) -> Given {
    client.endpoint.request(client.now, PEER, request).expect("room");
    client.drain()
}

fn get(reliability: Reliability) -> Request {
    Request { reliability, ..request(Code::GET, "/test") }
}

fn response(given: &Given) -> Option<Code> {
    match &given.events[..] {
        [Event::Response { message, .. }] => Some(message.code()),
        _ => None,
    }
}

// RFC 8974 §2.2.2 (Q407)
#[test]
fn a_confirmable_request_tries_a_long_token_and_success_enables_long_ones() {
    for length in [9, 12, 13, 40, 300] {
        let mut client = client(length);
        let non = ask(&mut client, get(Reliability::NeverConfirmable));
        assert_eq!(non.message().token().len(), 8, "nothing is lost if it is not understood");
        client.receive(PEER, &wire::separate(non.datagram(), Type::NonConfirmable, Code::CONTENT, 1));
        let tried = ask(&mut client, get(Reliability::Confirmable));
        assert_eq!(tried.message().token().len(), length);
        let given = client.receive(PEER, &wire::piggybacked(tried.datagram(), Code::CONTENT));
        assert_eq!(response(&given), Some(Code::CONTENT));
        for reliability in [Reliability::Confirmable, Reliability::NeverConfirmable] {
            let next = ask(&mut client, get(reliability));
            assert_eq!(next.message().token().len(), length);
            let answer = wire::separate(next.datagram(), Type::NonConfirmable, Code::CONTENT, 7);
            assert_eq!(response(&client.receive(PEER, &answer)), Some(Code::CONTENT));
        }
        let other = ask(&mut client, get(Reliability::Confirmable));
        let answer = wire::piggybacked(other.datagram(), Code::BAD_REQUEST);
        assert_eq!(response(&client.receive(PEER, &answer)), Some(Code::BAD_REQUEST), "it is no matter of tokens");
    }
}

// RFC 8974 §2.2.2 (Q407, Q408)
#[test]
fn a_request_with_a_rejected_long_token_is_repeated_with_eight_bytes() {
    type Refuse = fn(&Given) -> Vec<u8>;
    let ways: [Refuse; 3] = [
        |tried| wire::reset(tried.message().header().id),
        |tried| wire::piggybacked(tried.datagram(), Code::BAD_REQUEST),
        |tried| wire::separate(tried.datagram(), Type::Confirmable, Code::BAD_REQUEST, 9),
    ];
    for refuse in ways {
        let mut client = client(40);
        let tried = ask(&mut client, get(Reliability::Confirmable));
        let given = client.receive(PEER, &refuse(&tried));
        assert!(given.events.is_empty(), "{given:?}");
        let (_, again) = given.sent.last().expect("the request goes once more");
        assert_eq!((again.header().ty, again.code(), again.token().len()), (Type::Confirmable, Code::GET, 8));
        assert_eq!(again.uri_path(), "/test");
        assert_ne!(again.header().id, tried.message().header().id);
        let datagram = given.datagrams.last().expect("as above");
        let answered = client.receive(PEER, &wire::piggybacked(datagram, Code::CONTENT));
        assert_eq!(response(&answered), Some(Code::CONTENT));
        let next = ask(&mut client, get(Reliability::Confirmable));
        assert_eq!(next.message().token().len(), 8, "it is known by now");
        client.receive(PEER, &wire::piggybacked(next.datagram(), Code::CONTENT));
        client.run(s(1_800));
        let much_later = ask(&mut client, get(Reliability::Confirmable));
        assert_eq!(much_later.message().token().len(), 40, "the address may be another server's by now");
        client.receive(PEER, &wire::piggybacked(much_later.datagram(), Code::CONTENT));
        client.run_to_end();
    }
}

#[test]
fn a_reset_of_the_second_message_fails_the_request() {
    let mut client = client(40);
    let tried = ask(&mut client, get(Reliability::Confirmable));
    let again = client.receive(PEER, &wire::reset(tried.message().header().id));
    let given = client.receive(PEER, &wire::reset(again.message().header().id));
    let [Event::Failed { reason: Failure::Reset, .. }] = given.events[..] else { panic!("{given:?}") };
    assert!(given.sent.is_empty());
    client.run_to_end();
}

#[test]
fn a_repeated_request_enters_a_full_queue_and_a_new_one_does_not() {
    let limits = Limits { queue: 1, ..Limits::default() };
    let config = EndpointConfig { token_length: 40, longest_token: 600, limits, ..EndpointConfig::default() };
    // A controller that initially admits one message per two seconds, so that both have to wait.
    let mut world = World::client_of(&config, by_name("bdp-literal"));
    let [tried, waits] = [(); 2].map(|()| world.request(get(Reliability::Confirmable)));
    let rejected = world.first_copy(tried).message().header().id;
    world.inject(SERVER, CLIENT, &wire::reset(rejected));
    let now = world.now;
    let client = &mut world.node(CLIENT).endpoint;
    assert_eq!(client.occupancy().queued, 2);
    let refused = client.request(now, SERVER, get(Reliability::Confirmable));
    assert_eq!(refused, Err(RequestError::QueuesFull { limit: 1 }));
    world.run(s(2));
    world.inject(SERVER, CLIENT, &wire::piggybacked(&world.first_copy(waits).bytes, Code::CONTENT));
    world.run(s(10));
    let again = world.sent_by(CLIENT).next_back().expect("it sent something").message();
    assert_eq!((world.departures(tried).len() > 1, again.token().len()), (true, 8));
    world.run_to_end();
}

// RFC 8974 §2.1 (Q402)
#[test]
fn an_application_token_is_sent_unchanged_and_matched_in_full() {
    for length in [9, 13, 300, 1_000] {
        let mut client = client(8);
        let bytes: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        let token = Token::extended(&bytes);
        let sent = ask(&mut client, Request { token: token.clone(), ..get(Reliability::NeverConfirmable) });
        assert_eq!(sent.message().content().token_bytes(), bytes);
        let mut other = bytes.clone();
        *other.last_mut().expect("not empty") ^= 1;
        let forged = wire::bare(Type::NonConfirmable, Code::CONTENT, 1, &other);
        assert!(client.receive(PEER, &forged).events.is_empty());
        let answer = wire::separate(sent.datagram(), Type::NonConfirmable, Code::CONTENT, 2);
        assert_eq!(response(&client.receive(PEER, &answer)), Some(Code::CONTENT));

        let sent = ask(&mut client, Request { token, ..get(Reliability::Confirmable) });
        let given = client.receive(PEER, &wire::reset(sent.message().header().id));
        assert!(matches!(given.events[..], [Event::Failed { reason: Failure::Reset, .. }]), "it is the application's");
    }
}

#[test]
fn a_body_in_blocks_leaves_room_for_long_tokens() {
    let mut client = client(300);
    let upload = Request::new(Code::PUT, wire::payload(&"x".repeat(3_000)));
    let mut given = ask(&mut client, upload);
    for id in 0..20 {
        assert!(given.datagram().len() <= 1152);
        let sent = wire::decode(given.datagram()).token().len();
        assert_eq!(sent, 300);
        let block = given.message().option(conche_proto::codec::OptionNumber::BLOCK1).expect("a block").to_vec();
        let more = block.last().is_some_and(|last| last & 8 != 0);
        let code = if more { Code::CONTINUE } else { Code::CHANGED };
        let (id_of_message, token) = (given.message().header().id.0, given.message().token());
        let options = [(27, &block[..])];
        let answer = wire::with_options(Type::Acknowledgement, code, id_of_message, token.as_slice(), &options, b"");
        given = client.receive(PEER, &answer);
        if !more {
            assert_eq!(response(&given), Some(Code::CHANGED));
            return;
        }
        assert!(id < 19, "it ends");
    }
}

#[test]
fn invalid_token_settings_are_refused_with_the_valid_range() {
    let refusal = |token_length, longest_token| {
        let config = EndpointConfig { token_length, longest_token, ..EndpointConfig::default() };
        config.validate(false).expect_err("it must be refused").to_string()
    };
    let range = "it must be between 8 (RFC 7252 §3) and 65804 bytes (RFC 8974 §2.1)";
    assert_eq!(refusal(8, 7), format!("longest_token is 7: {range}"));
    assert_eq!(refusal(8, 65_805), format!("longest_token is 65805: {range}"));
    let most = "the lesser of longest_token and half of message_bytes";
    assert_eq!(refusal(13, 12), format!("token_length is 13: it must be at most 12, {most}"));
    assert_eq!(refusal(577, 65_804), format!("token_length is 577: it must be at most 576, {most}"));
    for (token_length, longest_token) in [(0, 8), (8, 65_804), (576, 576)] {
        let config = EndpointConfig { token_length, longest_token, ..EndpointConfig::default() };
        assert!(config.validate(false).is_ok());
    }
}
