//! More clients than places for bodies: admitted transfers finish, the others get 5.03 with
//! Max-Age.

use conche_proto::codec::{Block, BlockSize, Body, Code, OptionNumber, OwnedMessage, Type};
use conche_proto::{EndpointConfig, Event, Instant, Limits, RequestId, Response};

use crate::model::Address;
use crate::support::direct::{address, con, content, count_by_network};
use crate::support::{Direct, SERVER, ms, request, s, wire};

fn server(limits: Limits) -> Direct {
    let mut server = Direct::with_limits(limits);
    count_by_network(&mut server);
    server
}

fn unlike_others(number: u64, bytes: usize) -> Response {
    let mut payload = vec![0; bytes];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    Response::new(Code::CONTENT, Body::builder().payload(payload).build().expect("no options"))
}

/// Repeats a request after the Max-Age of a 5.03 (RFC 7252 §5.9.3.4).
struct Client {
    endpoint: Direct,
    address: Address,
    code: Code,
    asks_at: Option<Instant>,
    outcome: Option<Code>,
}

impl Client {
    fn new(number: u32) -> Self {
        let endpoint = Direct::seeded(EndpointConfig::default(), u64::from(number) + 100);
        // Each in its own network.
        let address = (number + 10) << 16 | 1;
        Self { endpoint, address, code: Code::GET, asks_at: Some(Instant::ZERO), outcome: None }
    }

    fn departures(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.endpoint.now = now;
        if self.asks_at.take_if(|at| *at <= now).is_some() {
            self.endpoint.endpoint.request(now, SERVER, request(self.code, "/large")).expect("room");
        }
        let given = self.endpoint.drain();
        self.look_at(&given.events);
        given.datagrams
    }

    fn receive(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let given = self.endpoint.receive(SERVER, bytes);
        self.look_at(&given.events);
        given.datagrams
    }

    fn look_at(&mut self, events: &[Event<Address>]) {
        for event in events {
            match event {
                Event::Response { message, .. } if message.code() == Code::SERVICE_UNAVAILABLE => {
                    let seconds = message.uint(OptionNumber::MAX_AGE).expect("it says when to come back");
                    self.asks_at = Some(self.endpoint.now + s(1) * seconds);
                }
                Event::Response { message, .. } => self.outcome = Some(message.code()),
                Event::Failed { reason, .. } => panic!("{reason:?}"),
                _ => {}
            }
        }
    }
}

enum Application {
    AtOnce,
    /// After the last request of a round has arrived.
    Together,
}

/// A round trip of 100 ms per block. Returns the number of successes and of handler runs.
fn in_lockstep(limits: Limits, count: u32, code: Code, application: &Application) -> (usize, u64) {
    let mut server = server(limits);
    let mut clients: Vec<_> = (0..count).map(Client::new).collect();
    clients.iter_mut().for_each(|client| client.code = code);
    let (mut handled, mut waiting, mut to_clients) = (0, Vec::<RequestId>::new(), Vec::<(Address, Vec<u8>)>::new());
    let answer = |server: &mut Direct, handled: &mut u64, id| {
        *handled += 1;
        let given = server.respond(id, unlike_others(*handled, 8_000));
        given
            .sent
            .into_iter()
            .zip(given.datagrams)
            .map(|((transmit, _), bytes)| (transmit.to, bytes))
            .collect::<Vec<_>>()
    };
    while clients.iter().any(|client| client.outcome.is_none()) && server.now < Instant::ZERO + s(600) {
        for client in &mut clients {
            let mut departures = client.departures(server.now);
            let address = client.address;
            for (_, bytes) in to_clients.extract_if(.., |(to, _)| *to == address) {
                departures.extend(client.receive(&bytes));
            }
            for bytes in departures {
                let given = server.receive(client.address, &bytes);
                waiting.extend(given.requests());
                to_clients.extend(given.sent.into_iter().map(|(transmit, _)| transmit.to).zip(given.datagrams));
                if matches!(application, Application::AtOnce) {
                    waiting.drain(..).for_each(|id| to_clients.extend(answer(&mut server, &mut handled, id)));
                }
            }
        }
        waiting.drain(..).for_each(|id| to_clients.extend(answer(&mut server, &mut handled, id)));
        server.run(ms(100));
    }
    let succeeded = clients.iter().filter(|client| client.outcome == Some(Code::CONTENT)).count();
    (succeeded, handled)
}

#[test]
fn clients_in_lockstep_all_succeed_and_the_handler_runs_once_for_each() {
    for count in [100, 300, 1_000] {
        let limits = Limits { transfers: 256, ..Limits::default() };
        let outcome = in_lockstep(limits, count, Code::GET, &Application::AtOnce);
        assert_eq!(outcome, (count as usize, u64::from(count)), "{count} clients and 256 places");
    }
    let outcome = in_lockstep(Limits::default(), 1_000, Code::GET, &Application::AtOnce);
    assert_eq!(outcome, (1_000, 1_000), "the default");
}

#[test]
fn admitted_transfers_finish_under_a_byte_limit() {
    let limits = Limits { assembly_bytes: 64 * 8_000, ..Limits::default() };
    let outcome = in_lockstep(limits, 300, Code::GET, &Application::AtOnce);
    assert_eq!(outcome, (300, 300));
}

#[test]
fn a_handler_for_an_unknown_large_resource_reruns_at_most_once_per_client() {
    let limits = Limits { transfers: 64, ..Limits::default() };
    let (succeeded, handled) = in_lockstep(limits, 200, Code::GET, &Application::Together);
    assert_eq!(succeeded, 200);
    // Of the first 200 requests, 64 find room. From then on, a request reserves a place before its
    // handler runs.
    assert_eq!(handled, 200 + 136);
}

#[test]
fn a_response_to_a_method_that_is_not_safe_is_never_replaced_by_a_refusal() {
    let limits = Limits { transfers: 4, ..Limits::default() };
    let mut server = server(limits);
    for number in 0..20 {
        let client = address(number, 1);
        let request = server.receive(client, &con(Code::POST, 1)).requests();
        // Refused before the application sees it, or answered.
        for request in request {
            let given = server.respond(request, unlike_others(number.into(), 8_000));
            assert_eq!(given.message().code(), Code::CONTENT);
        }
    }
}

// RFC 7959 §2.4
#[test]
fn a_prefix_that_asks_for_large_bodies_without_end_evicts_no_download_of_another_one() {
    let mut server = server(Limits { transfers: 256, ..Limits::default() });
    let mut victim = Client::new(7);
    let (mut handled, mut flood, mut to_victim) = (0, 0, Vec::<Vec<u8>>::new());
    while victim.outcome.is_none() {
        let mut departures = victim.departures(server.now);
        to_victim.drain(..).for_each(|bytes| departures.extend(victim.receive(&bytes)));
        for bytes in departures {
            let given = server.receive(victim.address, &bytes);
            to_victim.extend(given.datagrams.clone());
            for request in given.requests() {
                handled += 1;
                to_victim.extend(server.respond(request, unlike_others(handled, 8_000)).datagrams);
            }
        }
        for _ in 0..256 {
            flood += 1;
            for request in server.receive(9 << 16 | flood, &con(Code::GET, 1)).requests() {
                server.respond(request, unlike_others(u64::from(flood), 8_000));
            }
        }
        server.run(ms(50));
        assert!(server.now < Instant::ZERO + s(60), "the download ends");
    }
    assert_eq!((victim.outcome, handled), (Some(Code::CONTENT), 1));
}

fn block1(number: u32, more: bool) -> Vec<u8> {
    Block { num: number, more, size: BlockSize::B16 }.encode().as_slice().to_vec()
}

fn upload(server: &mut Direct, from: Address, id: u16, (number, more): (u32, bool)) -> Code {
    let options: [(u16, &[u8]); 2] = [(11, b"r"), (27, &block1(number, more))];
    let bytes = wire::with_options(Type::Confirmable, Code::PUT, id, b"up", &options, &[1; 16]);
    server.receive(from, &bytes).message().code()
}

// RFC 7959 §2.5
#[test]
fn a_prefix_that_begins_uploads_without_end_evicts_none_that_was_silent_for_a_while() {
    for gap in [5, 10, 20, 100] {
        let mut server = server(Limits { transfers: 256, ..Limits::default() });
        for client in 0..60 {
            assert_eq!(upload(&mut server, address(client + 10, 1), 1, (0, true)), Code::CONTINUE);
        }
        server.run(s(gap));
        let begun =
            (0..1_000).filter(|&port| upload(&mut server, address(9, port), 1, (0, true)) == Code::CONTINUE).count();
        assert!((90..=100).contains(&begun), "{begun} of one prefix");
        for client in 0..60 {
            assert_eq!(upload(&mut server, address(client + 10, 1), 2, (1, true)), Code::CONTINUE, "after {gap} s");
        }
    }
}

// RFC 7252 §4.5
#[test]
fn a_copy_of_the_request_for_the_last_block_is_answered_though_its_place_was_taken() {
    let mut server = server(Limits { transfers: 1, ..Limits::default() });
    let first = server.receive(1, &con(Code::GET, 1)).request();
    server.respond(first, unlike_others(1, 2_000));
    let ask = |id: u16, number: u8| {
        wire::with_options(Type::Confirmable, Code::GET, id, b"token678", &[(23, &[number << 4 | 6])], b"")
    };
    let last = server.receive(1, &ask(2, 1));
    assert_eq!(last.message().payload().len(), 2_000 - 1_024);
    let other = server.receive(2, &con(Code::GET, 1)).request();
    assert_eq!(server.respond(other, unlike_others(2, 2_000)).message().code(), Code::CONTENT, "a place is free");
    assert_eq!(server.receive(1, &ask(2, 1)).datagram(), last.datagram());
    assert_eq!(server.receive(3, &con(Code::GET, 1)).message().code(), Code::SERVICE_UNAVAILABLE);
}

#[test]
fn a_resource_that_has_become_small_is_served_while_large_bodies_have_all_places() {
    let mut server = server(Limits { transfers: 1, ..Limits::default() });
    let path =
        |path: &str, client: Address, id: u16| (client, wire::request(Type::Confirmable, Code::GET, id, b"t", path));
    let ask = |server: &mut Direct, (client, bytes): (Address, Vec<u8>), bytes_of_body: usize| -> OwnedMessage {
        let given = server.receive(client, &bytes);
        match given.requests()[..] {
            [request] if bytes_of_body > 100 => {
                server.respond(request, unlike_others(0, bytes_of_body)).message().clone()
            }
            [request] => server.respond(request, content("small")).message().clone(),
            _ => given.message().clone(),
        }
    };
    assert_eq!(ask(&mut server, path("/a", 1, 1), 2_000).code(), Code::CONTENT);
    assert_eq!(ask(&mut server, path("/b", 2, 1), 5).code(), Code::CONTENT, "nobody has seen a large body of it");
    assert_eq!(ask(&mut server, path("/a", 3, 1), 5).code(), Code::SERVICE_UNAVAILABLE);
    // A place is free, and the resource is small now.
    server.run(s(10));
    assert_eq!(ask(&mut server, path("/c", 4, 1), 2_000).code(), Code::CONTENT);
    server.run(s(300));
    assert_eq!(ask(&mut server, path("/a", 3, 2), 5).code(), Code::CONTENT);
    assert_eq!(ask(&mut server, path("/c", 4, 2), 2_000).code(), Code::CONTENT);
    assert_eq!(ask(&mut server, path("/a", 3, 3), 5).code(), Code::CONTENT, "it needs no place");
}
