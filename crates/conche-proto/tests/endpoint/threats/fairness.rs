//! A greedy source of a table, and its neighbours.

use std::time::Duration;

use conche_proto::codec::{Code, MessageId, Type};
use conche_proto::config::ResponseLimit;
use conche_proto::{
    Datagram, EndpointConfig, Event, ExchangeId, Failure, Instant, Limits, Multicast, Reliability, Request, Response,
};

use crate::model::Address;
use crate::support::direct::{address, changed, con, content, count_by_network, non};
use crate::support::{Direct, ms, request, s, wire};

fn server(config: EndpointConfig) -> Direct {
    let mut server = Direct::new(config);
    count_by_network(&mut server);
    server
}

/// Returns `true` if the response to the POST left.
fn telemetry(server: &mut Direct, from: Address, id: u16) -> bool {
    let given = server.receive(from, &non(Code::POST, id));
    given.requests().into_iter().any(|request| !server.respond(request, changed()).sent.is_empty())
}

fn get(server: &mut Direct, from: Address, id: u16) -> Code {
    let given = server.receive(from, &con(Code::GET, id));
    match given.requests()[..] {
        [request] => server.respond(request, content("x")).message().code(),
        _ => given.message().code(),
    }
}

// RFC 7252 §4.4
#[test]
fn a_client_that_uses_up_its_message_ids_has_its_own_requests_dropped_and_no_neighbour_refused() {
    const RATE: u32 = 450;
    let mut server = server(EndpointConfig::default());
    let (fast, neighbour, elsewhere) = (address(7, 1), address(7, 2), address(8, 1));
    let mut answered = 0;
    for second in 0..400_u32 {
        for n in 0..RATE {
            server.run(Duration::from_secs(1) / RATE);
            answered += u32::from(telemetry(&mut server, fast, (second * RATE + n) as u16));
        }
        for from in [neighbour, elsewhere] {
            assert_eq!(get(&mut server, from, second as u16), Code::CONTENT, "second {second}");
        }
    }
    let occupancy = server.endpoint.occupancy();
    assert_eq!((occupancy.incoming, occupancy.responses), (0, 0), "nothing waits for a message ID");
    assert!(answered > 100_000, "{answered} responses; 63 488 in each lifetime of message IDs are possible");
    assert_eq!(u64::from(400 * RATE - answered), server.endpoint.stats().overloaded);
}

// RFC 7252 §4.4
#[test]
fn a_flood_of_non_confirmable_requests_leaves_message_ids_for_separate_responses() {
    let mut server = server(EndpointConfig::default());
    let client = address(7, 1);
    let answered = (0..=u16::MAX).filter(|&id| telemetry(&mut server, client, id)).count();
    assert!((60 * 1024..64 * 1024).contains(&answered), "{answered}");
    let slow = server.receive(client, &con(Code::GET, 1)).request();
    server.run(s(1));
    let given = server.respond(slow, content("late"));
    assert_eq!((given.message().header().ty, given.message().code()), (Type::Confirmable, Code::CONTENT));
}

#[test]
fn responses_that_wait_for_a_message_id_are_bounded_for_each_peer() {
    let limits = Limits { queue_per_peer: 8, ..Limits::default() };
    let mut server = server(EndpointConfig { limits, ..EndpointConfig::default() });
    let client = address(7, 1);
    // They arrive while message IDs are available, and are answered after the last one is used.
    let mut slow = Vec::new();
    for id in 0..=u16::MAX {
        let requests = server.receive(client, &non(Code::POST, id)).requests();
        match requests[..] {
            [request] if slow.len() < 3_000 => slow.push(request),
            [request] => assert!(!server.respond(request, changed()).sent.is_empty()),
            _ => break,
        }
    }
    let left = slow.into_iter().filter(|&request| !server.respond(request, changed()).sent.is_empty()).count();
    let (occupancy, stats) = (server.endpoint.occupancy(), server.endpoint.stats());
    assert_eq!((occupancy.responses, occupancy.incoming), (8, 0));
    assert_eq!(stats.responses_expired, 3_000 - 8 - left as u64);
    server.run_to_end();
}

// RFC 7252 §4.5
#[test]
fn forged_requests_with_all_message_ids_have_no_request_of_the_client_rejected_or_taken_for_a_copy() {
    for ty in [Type::NonConfirmable, Type::Confirmable] {
        let mut server = server(EndpointConfig::default());
        let client = address(7, 1);
        for id in 0..=u16::MAX {
            for request in server.receive(client, &wire::bare(ty, Code::GET, id, b"forged")).requests() {
                server.respond(request, content("x"));
            }
        }
        for (wait, id) in [(s(1), 100), (s(100), 613), (s(39), 60_000)] {
            server.run(wait);
            assert_eq!(get(&mut server, client, id), Code::CONTENT, "{ty} with the ID {id}");
        }
    }
}

// RFC 7252 §4.5
#[test]
fn a_retransmission_is_a_duplicate_and_a_message_with_another_token_or_type_is_not() {
    let mut server = server(EndpointConfig::default());
    let first = server.receive(1, &con(Code::POST, 7)).request();
    let answer = server.respond(first, changed());
    let again = server.receive(1, &con(Code::POST, 7));
    assert_eq!((again.requests().len(), again.datagram()), (0, answer.datagram()));
    assert_eq!(server.receive(1, &wire::bare(Type::Confirmable, Code::POST, 7, b"another")).requests().len(), 1);
    assert_eq!(server.receive(1, &non(Code::POST, 7)).requests().len(), 1);
    assert_eq!(server.receive(1, &non(Code::POST, 7)).requests().len(), 0);
}

// RFC 7252 §8.2
#[test]
fn a_member_that_answers_without_end_leaves_room_for_the_responses_of_all_others() {
    let mut client = Direct::new(EndpointConfig::default());
    let asked = Request { reliability: Reliability::NeverConfirmable, ..request(Code::GET, "/.well-known/core") };
    let exchange = client.endpoint.request_group(client.now, 500, asked).expect("room");
    let given = client.drain();
    let token = given.message().token();
    let limit = Limits::default().group_responses;
    let response = |id: usize| {
        wire::message(Type::NonConfirmable, Code::CONTENT, MessageId(id as u16), &token, &wire::payload("x"))
    };
    let mut delivered = |from: Address, id: usize| {
        let events = client.receive(from, &response(id)).events;
        events.iter().filter(|event| matches!(event, Event::GroupResponse { .. })).count()
    };
    let hostile: usize = (0..2 * limit).map(|id| delivered(666, id)).sum();
    assert_eq!(hostile, limit / 2);
    let honest: usize = (0..50).map(|member| delivered(1_000 + member, 5)).sum();
    assert_eq!(honest, 50);
    assert_eq!(delivered(1_000, 5), 0, "a duplicate is not delivered again");
    let over = client.run(s(300)).events;
    assert!(over.iter().any(|event| matches!(event, Event::GroupOver { exchange: over, responses, .. }
        if *over == exchange && *responses == limit / 2 + 50)));
}

// RFC 7252 §8.2
#[test]
fn a_host_that_asks_the_group_each_second_delays_the_answer_to_another_one_by_two_leisures() {
    let mut server = server(EndpointConfig { multicast: Some(Multicast::default()), ..EndpointConfig::default() });
    let (busy, honest) = (address(9, 1), address(8, 2));
    let ask = |server: &mut Direct, from: Address, id: u16| {
        let bytes = non(Code::GET, id);
        let mut datagram = Datagram::new(from, &bytes);
        datagram.multicast = true;
        for request in server.receive_datagram(datagram).requests() {
            server.respond(request, content("</here>"));
        }
    };
    let (mut to_busy, mut asked, mut answered) = (0, Instant::ZERO, None);
    for second in 0..400 {
        ask(&mut server, busy, second);
        if second == 100 {
            asked = server.now;
            ask(&mut server, honest, 1);
        }
        for (transmit, _) in server.run(s(1)).sent {
            match transmit.to {
                to if to == honest => answered = Some(server.now),
                _ => to_busy += 1,
            }
        }
    }
    let delay = answered.expect("an answer") - asked;
    assert!(delay <= s(11), "{delay:?} with a leisure of 5 s, to the second");
    assert!((78..=81).contains(&to_busy), "{to_busy} answers to the other host in 400 s");
}

#[test]
fn hosts_that_ask_a_group_take_turns_and_each_leisure_has_one_response() {
    let limits = Limits { group_requests: 64, ..Limits::default() };
    let multicast = Some(Multicast::default());
    let mut server = server(EndpointConfig { multicast, limits, ..EndpointConfig::default() });
    for (network, requests) in [(1, 8), (2, 4), (3, 1)] {
        for id in 0..requests {
            let bytes = non(Code::GET, id);
            let mut datagram = Datagram::new(address(network, 1), &bytes);
            datagram.multicast = true;
            let request = server.receive_datagram(datagram).request();
            server.respond(request, content("</here>"));
        }
    }
    let mut order = Vec::new();
    for _ in 0..13 {
        let given = server.run(s(5));
        order.push(given.sent[0].0.to >> 16 & 0xff);
        assert_eq!(given.sent.len(), 1, "one response in each period");
    }
    // The first host of the first network gets its leisure period before others send requests.
    assert_eq!(order, [1, 2, 1, 3, 1, 2, 1, 2, 1, 2, 1, 1, 1]);
    server.run_to_end();
}

#[test]
fn a_ping_is_answered_by_a_reset_however_many_acknowledgements_were_forged() {
    let mut client = Direct::new(EndpointConfig::default());
    client.endpoint.request(client.now, 1, request(Code::GET, "/test")).expect("room");
    let asked = client.drain();
    client.receive(1, &wire::piggybacked(asked.datagram(), Code::CONTENT));
    let id = asked.message().header().id.0;
    for guess in 0..64 {
        client.receive(1, &wire::empty_ack(MessageId(id.wrapping_add(30_000 + guess) % 60_000)));
    }
    client.endpoint.ping(client.now, 1).expect("room");
    let ping = client.drain();
    client.now += ms(20);
    let given = client.receive(1, &wire::reset(ping.message().header().id));
    assert!(matches!(given.events[..], [Event::Acknowledged { .. }]), "{given:?}");
}

#[test]
fn a_queued_notification_does_not_wake_the_endpoint_every_millisecond() {
    let config = EndpointConfig { response_timeout: Some(ms(1)), ..EndpointConfig::default() };
    let mut server = Direct::new(config);
    for topic in [1, 2] {
        let bytes = wire::with_options(Type::Confirmable, Code::GET, topic, &topic.to_be_bytes(), &[(6, b"")], b"");
        let request = server.receive(1, &bytes).request();
        server.endpoint.observe(server.now, request, topic.into()).expect("room");
        server.respond(request, content("x"));
    }
    for topic in [1, 2] {
        let state = Response { reliability: Some(Reliability::Confirmable), ..content("y") };
        server.endpoint.notify(server.now, topic, state).expect("it can be sent");
        server.drain();
    }
    // The first one is not acknowledged, and the second waits for its slot.
    let (until, mut wakes) = (server.now + s(40), 0);
    while let Some(wake) = server.wake.filter(|&wake| wake <= until) {
        server.now = wake;
        server.drain();
        wakes += 1;
    }
    assert!(wakes < 20, "{wakes} wakes in 40 s");
}

#[test]
fn twenty_thousand_clients_that_keep_below_the_response_limit_are_all_served() {
    const CLIENTS: u32 = 20_000;
    let limit = ResponseLimit { per_second: 10, burst: 20 };
    let mut server = Direct::new(EndpointConfig { response_limit: Some(limit), ..EndpointConfig::default() });
    for n in 0..3 * CLIENTS {
        server.now = Instant::ZERO + s(5) + Duration::from_secs(1) * n / CLIENTS;
        let given = server.receive(n % CLIENTS, &con(Code::GET, (n / CLIENTS) as u16));
        given.requests().into_iter().for_each(|request| drop(server.respond(request, content("x"))));
    }
    assert_eq!(server.endpoint.stats().limited, 0);
}

#[test]
fn a_peer_that_is_lost_takes_its_own_exchanges_along_and_no_others() {
    let mut client = Direct::new(EndpointConfig::default());
    let ask = |client: &mut Direct, peer: Address| {
        (0..3).map(|_| client.endpoint.request(client.now, peer, request(Code::GET, "/test")).expect("room")).collect()
    };
    // One of the three is outstanding, and two wait in the queue.
    let (lost, kept): (Vec<_>, Vec<_>) = (ask(&mut client, 1), ask(&mut client, 2));
    let sent = client.drain().sent;
    assert_eq!(sent.iter().map(|(transmit, _)| transmit.to).collect::<Vec<_>>(), [1, 2]);
    client.endpoint.lose_peer(client.now, &1);
    let failed: Vec<_> = client.drain().events.iter().filter_map(end_of_request).collect();
    assert_eq!(failed, lost);
    client.receive(2, &wire::empty_ack(sent[1].1.header().id));
    client.endpoint.lose_peer(client.now, &2);
    let failed: Vec<_> = client.drain().events.iter().filter_map(end_of_request).collect();
    assert_eq!(failed, kept);
    assert_eq!(client.endpoint.occupancy().exchanges, 0);
}

fn end_of_request(event: &Event<Address>) -> Option<ExchangeId> {
    match event {
        Event::Failed { exchange, reason: Failure::Unreachable, .. } => Some(*exchange),
        _ => None,
    }
}
