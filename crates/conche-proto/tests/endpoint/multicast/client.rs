//! Group requests: one message, any number of responses, one end.

use std::collections::HashSet;

use conche_proto::codec::{Body, Code, Token, Type};
use conche_proto::{
    Datagram, EndpointConfig, Event, ExchangeId, Limits, Multicast, Reliability, Request, RequestError,
};

use crate::support::direct::{Given, content};
use crate::support::{Direct, request, s, wire};

const GROUP: u32 = 1_000;

fn question() -> Request {
    request(Code::GET, "/test").with_reliability(Reliability::NonConfirmable).with_timeout(s(20))
}

fn client() -> Direct {
    Direct::new(EndpointConfig::default())
}

fn asking(client: &mut Direct) -> (ExchangeId, Vec<u8>) {
    let asked = client.endpoint.request_group(client.now, GROUP, question()).expect("room");
    let given = client.drain();
    assert_eq!((given.sent[0].0.to, given.message().header().ty), (GROUP, Type::NonConfirmable));
    (asked, given.datagram().to_vec())
}

fn answers(given: &Given, asked: ExchangeId) -> Vec<u32> {
    let from = |event: &Event<u32>| match event {
        Event::GroupResponse { exchange, from, .. } if *exchange == asked => Some(*from),
        _ => None,
    };
    given.events.iter().filter_map(from).collect()
}

// RFC 7252 §8.2 (Q90)
#[test]
fn responses_of_a_hundred_members_arrive_one_by_one_and_the_end_once() {
    let mut client = client();
    let (asked, bytes) = asking(&mut client);
    let mut arrivals = Vec::new();
    for n in 0..100_u32 {
        let config = EndpointConfig { multicast: Some(Multicast::default()), ..EndpointConfig::default() };
        let mut member = Direct::seeded(config, n.into());
        let mut datagram = Datagram::new(7, &bytes);
        datagram.multicast = true;
        let id = member.receive_datagram(datagram).request();
        member.respond(id, content("here"));
        while let Some(wake) = member.wake.filter(|_| member.endpoint.occupancy().at_leisure > 0) {
            member.now = wake;
            arrivals.extend(member.drain().datagrams.into_iter().map(|bytes| (wake, n, bytes)));
        }
    }
    arrivals.sort();
    let mut heard = HashSet::new();
    for (at, from, bytes) in &arrivals {
        client.run(*at - client.now);
        heard.extend(answers(&client.receive(*from, bytes), asked));
    }
    assert_eq!((arrivals.len(), heard.len()), (100, 100));
    let given = client.run(s(100));
    assert!(given.sent.is_empty(), "a request to a group is never repeated");
    let [Event::GroupOver { exchange, group: GROUP, responses: 100, course }] = &given.events[..] else {
        panic!("{:?}", given.events)
    };
    assert_eq!((*exchange, course.transmissions), (asked, 1));
    assert!(client.run_to_end().events.is_empty());
    let late = client.receive(3, &wire::separate(&bytes, Type::NonConfirmable, Code::CONTENT, 9));
    assert!(late.events.is_empty(), "{late:?}");
}

#[test]
fn an_unanswered_group_request_ends_with_its_timeout() {
    let mut client = client();
    let (asked, _) = asking(&mut client);
    assert!(client.run(s(19)).events.is_empty());
    let given = client.run(s(2));
    assert!(matches!(given.events[..], [Event::GroupOver { exchange, responses: 0, .. }] if exchange == asked));
    let without_timeout = Request { timeout: None, ..question() };
    client.run(s(400));
    client.endpoint.request_group(client.now, GROUP, without_timeout).expect("room");
    assert_eq!(client.drain().sent.len(), 1);
    let given = client.run_to_end();
    assert!(given.sent.is_empty() && matches!(given.events[..], [Event::GroupOver { responses: 0, .. }]), "{given:?}");
}

#[test]
fn a_duplicate_group_response_is_dropped_and_a_second_response_delivered() {
    let mut client = client();
    let (asked, bytes) = asking(&mut client);
    let response = wire::separate(&bytes, Type::NonConfirmable, Code::CONTENT, 9);
    assert_eq!(answers(&client.receive(1, &response), asked), [1]);
    assert!(answers(&client.receive(1, &response), asked).is_empty());
    assert_eq!(answers(&client.receive(2, &response), asked), [2], "message IDs are each sender's own");
    let another = wire::separate(&bytes, Type::NonConfirmable, Code::CONTENT, 10);
    assert_eq!(answers(&client.receive(1, &another), asked), [1]);
    assert_eq!(client.endpoint.stats().duplicates, 1);
}

#[test]
fn a_confirmable_group_response_is_delivered_once_and_always_acknowledged() {
    let mut client = client();
    let (asked, bytes) = asking(&mut client);
    let response = wire::separate(&bytes, Type::Confirmable, Code::CONTENT, 9);
    let [first, copy] = [0; 2].map(|_| client.receive(1, &response));
    assert_eq!((answers(&first, asked), answers(&copy, asked)), (vec![1], vec![]));
    for given in [first, copy] {
        assert_eq!(given.kinds(), [(Type::Acknowledgement, Code::EMPTY)]);
    }
}

#[test]
fn a_response_with_another_token_or_an_unknown_critical_option_is_none() {
    let mut client = client();
    let (_, bytes) = asking(&mut client);
    let token = wire::decode(&bytes).token();
    let shorter = wire::bare(Type::NonConfirmable, Code::CONTENT, 1, &token.as_slice()[..7]);
    let other = wire::bare(Type::Confirmable, Code::CONTENT, 2, b"another.");
    let critical =
        wire::with_options(Type::NonConfirmable, Code::CONTENT, 3, token.as_slice(), &[(65_001, b"")], b"here");
    let piggybacked = wire::piggybacked(&bytes, Code::CONTENT);
    for bytes in [shorter, other, critical, piggybacked] {
        let given = client.receive(1, &bytes);
        assert!(given.events.is_empty(), "{bytes:02x?}: {given:?}");
    }
    // A Reset of one member does not end the request to the others.
    let reset = wire::reset(wire::decode(&bytes).id());
    assert!(client.receive(1, &reset).events.is_empty() && client.receive(GROUP, &reset).events.is_empty());
    assert_eq!(client.endpoint.occupancy().exchanges, 1);
}

#[test]
fn group_responses_beyond_the_limit_are_dropped() {
    let mut client = Direct::with_limits(Limits { group_responses: 3, ..Limits::default() });
    let (asked, bytes) = asking(&mut client);
    let response = wire::separate(&bytes, Type::NonConfirmable, Code::CONTENT, 9);
    let told: Vec<_> = (1..=10).flat_map(|from| answers(&client.receive(from, &response), asked)).collect();
    assert_eq!((told, client.endpoint.stats().group_overflow), (vec![1, 2, 3], 7));
}

// RFC 7252 §8.1 (Q83), §8.2.1 (Q91)
#[test]
fn a_confirmable_request_and_a_get_with_an_etag_are_refused() {
    let mut client = client();
    let confirmable = question().with_reliability(Reliability::Confirmable);
    let etag = Body::builder().option(conche_proto::codec::OptionNumber::ETAG, b"tag").build().expect("legal");
    let etag = Request::new(Code::GET, etag).with_reliability(Reliability::NonConfirmable);
    for (request, refusal) in [(confirmable, RequestError::ConfirmableToGroup), (etag, RequestError::ETagToGroup)] {
        assert_eq!(client.endpoint.request_group(client.now, GROUP, request), Err(refusal));
    }
    assert!(client.run_to_end().sent.is_empty());
}

#[test]
fn the_token_of_a_group_request_always_has_8_bytes() {
    let mut client = Direct::new(EndpointConfig { token_length: 0, ..EndpointConfig::default() });
    let chosen = Request { token: Token::new(b"guess"), ..question() };
    client.endpoint.request_group(client.now, GROUP, chosen).expect("room");
    assert_eq!(client.drain().message().token().len(), 8);
}

// RFC 7252 §8.1 (Q86)
#[test]
fn message_ids_to_groups_are_those_of_no_peer_and_are_not_used_twice_within_the_lifetime() {
    let mut client = client();
    let mut ids = HashSet::new();
    // Each group is another destination, so none waits for another.
    for group in 0..1_024 {
        client.endpoint.request_group(client.now, GROUP + group, question()).expect("an ID is free");
        let id = client.drain().message().header().id.0;
        assert!(id >= 64_512 && ids.insert(id), "{id}");
    }
    let refused = client.endpoint.request_group(client.now, GROUP, question());
    assert_eq!(refused, Err(RequestError::GroupsBusy { limit: 1_024 }));
    client.run(s(400));
    client.endpoint.request_group(client.now, GROUP, question()).expect("the first are free again");
}

#[test]
fn a_request_to_a_group_that_is_cancelled_leaves_nothing_behind() {
    let mut client = client();
    let (asked, bytes) = asking(&mut client);
    assert!(client.endpoint.cancel(client.now, asked));
    let response = wire::separate(&bytes, Type::Confirmable, Code::CONTENT, 9);
    assert_eq!(client.receive(1, &response).kinds(), [(Type::Reset, Code::EMPTY)]);
    assert!(client.run_to_end().events.is_empty());
}

// RFC 7252 §4.7
#[test]
fn an_unanswered_group_request_delays_the_next_one() {
    let asks = |answered: bool| {
        let mut client = client();
        let (_, bytes) = asking(&mut client);
        client.run(s(4));
        if answered {
            client.receive(1, &wire::separate(&bytes, Type::NonConfirmable, Code::CONTENT, 9));
        }
        client.endpoint.request_group(client.now, GROUP, question()).expect("room");
        client.drain().sent.len()
    };
    assert_eq!((asks(false), asks(true)), (0, 1));
}
