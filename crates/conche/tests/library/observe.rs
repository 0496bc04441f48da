//! Observation (RFC 7641), over loopback sockets.
//!
//! A paused clock skips the times for which notifications to one client wait for each other:
//! seconds if they are Non-confirmable.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conche::client::{Observation, Response as Answer};
use conche::codec::BlockSize;
use conche::server::{BodyStream, Notifier, Path, Query, Resource, Response, Router, fetch, get};
use conche::{Client, Code, EndpointConfig, Error, Limits, OptionNumber, Server, SubscriptionEnd};
use tokio::net::ToSocketAddrs;

use crate::own_address::own_address;

const LOCALHOST: &str = "127.0.0.1:0";

fn uri(server: &Server, path: &str) -> String {
    format!("coap://{}{path}", server.local_addr())
}

#[derive(Clone, Default)]
struct Counter {
    value: Arc<AtomicU32>,
    asked: Arc<AtomicUsize>,
    notifier: Notifier,
}

impl Counter {
    fn resource(&self) -> Resource {
        let counter = self.clone();
        let read = move || {
            let counter = counter.clone();
            async move {
                counter.asked.fetch_add(1, Ordering::Relaxed);
                counter.value.load(Ordering::Relaxed).to_string()
            }
        };
        get(read).observed_by(&self.notifier)
    }

    fn set(&self, value: u32) {
        self.value.store(value, Ordering::Relaxed);
        self.notifier.notify();
    }

    async fn is_observed_by(&self, observers: usize) {
        while self.notifier.observers() != observers {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn serve(&self, address: impl ToSocketAddrs) -> Server {
        Server::builder().route("/n", self.resource()).bind(address).await.expect("it starts")
    }
}

async fn next(observation: &mut Observation) -> Answer {
    observation.next().await.expect("it goes on").expect("a state")
}

async fn next_text(observation: &mut Observation) -> String {
    next(observation).await.text().expect("text").to_owned()
}

#[tokio::test(start_paused = true)]
async fn states_come_in_order_and_the_handler_runs_once_for_all_observers() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let client = Client::new();
    let mut both = [client.observe(uri(&server, "/n")), Client::new().observe(uri(&server, "/n"))];
    for observation in &mut both {
        assert_eq!(next_text(observation).await, "0");
    }
    assert_eq!((counter.notifier.observers(), counter.asked.load(Ordering::Relaxed)), (2, 2));
    for value in 1..=5 {
        counter.set(value);
        for observation in &mut both {
            assert_eq!(next_text(observation).await, value.to_string());
        }
    }
    assert_eq!(counter.asked.load(Ordering::Relaxed), 2 + 5);
}

#[tokio::test(start_paused = true)]
async fn a_slow_observer_skips_to_the_latest_state() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let mut observation = Client::new().observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "0");
    for value in 1..=100 {
        counter.set(value);
    }
    let (mut seen, mut last) = (0, String::new());
    while last != "100" {
        last = next_text(&mut observation).await;
        seen += 1;
    }
    assert!(seen < 100, "{seen} states were told");
}

#[tokio::test]
async fn dropping_or_cancelling_an_observation_deregisters_at_the_server() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let client = Client::new();
    let mut dropped = client.observe(uri(&server, "/n"));
    let mut cancelled = client.observe(uri(&server, "/n"));
    let mut of_a_client_that_goes_with_it = Client::new().observe(uri(&server, "/n"));
    for observation in [&mut dropped, &mut cancelled, &mut of_a_client_that_goes_with_it] {
        assert_eq!(next_text(observation).await, "0");
    }
    assert_eq!(counter.notifier.observers(), 3);
    cancelled.cancel().await.expect("an answer");
    assert_eq!(counter.notifier.observers(), 2);
    drop(dropped);
    counter.is_observed_by(1).await;
    drop(of_a_client_that_goes_with_it);
    counter.is_observed_by(0).await;
}

// RFC 7641 §3.6
#[tokio::test(start_paused = true)]
async fn a_forgotten_observation_ends_when_its_next_notification_is_rejected() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let client = Client::new();
    let mut observation = client.observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "0");
    observation.forget();
    client.get(uri(&server, "/n")).await.expect("a response");
    assert_eq!(counter.notifier.observers(), 1);
    counter.set(1);
    counter.is_observed_by(0).await;
}

#[tokio::test]
async fn a_resource_that_is_not_observed_ends_the_stream_after_its_state() {
    let router = Router::new().route("/plain", get(async || "as it is"));
    let server = Server::builder().router(router).bind(LOCALHOST).await.expect("it starts");
    let client = Client::new();
    let mut plain = client.observe(uri(&server, "/plain"));
    assert_eq!(next_text(&mut plain).await, "as it is");
    assert!(plain.next().await.is_none());
    assert_eq!(plain.end(), Some(SubscriptionEnd::NotObserved));

    let mut missing = client.observe(uri(&server, "/missing"));
    assert_eq!(next(&mut missing).await.code(), Code::NOT_FOUND);
    assert!(missing.next().await.is_none());
    assert_eq!(missing.end(), Some(SubscriptionEnd::Error(Code::NOT_FOUND)));

    let mut posted = client.post(uri(&server, "/plain")).observe();
    assert!(matches!(posted.next().await, Some(Err(Error::Refused(_)))));
    assert!(posted.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_error_is_the_last_notification() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let mut observation = Client::new().observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "0");
    counter.notifier.send(Response::new(Code::NOT_FOUND));
    assert_eq!(next(&mut observation).await.code(), Code::NOT_FOUND);
    assert!(observation.next().await.is_none());
    assert_eq!(observation.end(), Some(SubscriptionEnd::Error(Code::NOT_FOUND)));
    assert_eq!(counter.notifier.observers(), 0);
    let mut anew = Client::new().observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut anew).await, "0");
    counter.set(1);
    assert_eq!(next_text(&mut anew).await, "1");
}

#[tokio::test(start_paused = true)]
async fn a_shared_response_reaches_all_observers_without_their_handler() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let client = Client::new();
    let mut both = [client.observe(uri(&server, "/n")), client.observe(uri(&server, "/n?unit=m"))];
    for observation in &mut both {
        next(observation).await;
    }
    counter.notifier.send(Response::new(Code::CONTENT).text("given"));
    for observation in &mut both {
        assert_eq!(next_text(observation).await, "given");
    }
    assert_eq!(counter.asked.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_state_larger_than_a_message_comes_whole() {
    let notifier = Notifier::new();
    let state = Arc::new(Mutex::new("a".repeat(5000)));
    let shown = Arc::clone(&state);
    let read = move || {
        let shown = shown.lock().expect("no handler panics").clone();
        async move { shown }
    };
    let route = get(read).observed_by(&notifier);
    let server = Server::builder().route("/large", route).bind(LOCALHOST).await.expect("it starts");
    let mut observation = Client::new().observe(uri(&server, "/large"));
    assert_eq!(next_text(&mut observation).await, "a".repeat(5000));
    for letter in ["b", "c", "d"] {
        *state.lock().expect("no handler panics") = letter.repeat(7000);
        notifier.notify();
        assert_eq!(next_text(&mut observation).await, letter.repeat(7000));
    }
}

#[tokio::test(start_paused = true)]
async fn observations_differ_by_query_and_one_path_can_be_notified() {
    let notifier = Notifier::new();
    let rounds = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&rounds);
    let read = move |Path(name): Path<String>, query: Query| {
        let round = counted.load(Ordering::Relaxed);
        async move { format!("{name} {} {round}", query.get("unit").unwrap_or("-")) }
    };
    let route = get(read).observed_by(&notifier);
    let server = Server::builder().route("/rooms/{name}", route).bind(LOCALHOST).await.expect("it starts");
    let client = Client::new();
    let mut hall = client.observe(uri(&server, "/rooms/hall?unit=K"));
    let mut yard = client.observe(uri(&server, "/rooms/yard"));
    assert_eq!((next_text(&mut hall).await, next_text(&mut yard).await), ("hall K 0".into(), "yard - 0".into()));
    rounds.store(1, Ordering::Relaxed);
    notifier.notify_path("/rooms/yard");
    assert_eq!(next_text(&mut yard).await, "yard - 1");
    rounds.store(2, Ordering::Relaxed);
    notifier.notify();
    assert_eq!((next_text(&mut hall).await, next_text(&mut yard).await), ("hall K 2".into(), "yard - 2".into()));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_restarted_is_registered_at_again() {
    let counter = Counter::default();
    let address = own_address();
    let server = counter.serve(address).await;
    let mut observation = Client::new().observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "0");
    drop(server);
    counter.is_observed_by(0).await;
    let again = Counter::default();
    again.value.store(8, Ordering::Relaxed);
    let _server = again.serve(address).await;
    // After Max-Age, 60 s, and some more.
    assert_eq!(next_text(&mut observation).await, "8");
    again.set(9);
    assert_eq!(next_text(&mut observation).await, "9");
}

/// An observation of a crashed server, and the server's address.
async fn observed_until_crash(client: &Client) -> (Observation, SocketAddr) {
    let (counter, address) = (Counter::default(), own_address());
    let server = counter.serve(address).await;
    let mut observation = client.observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "0");
    drop(server);
    counter.is_observed_by(0).await;
    (observation, address)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_when_an_observation_is_renewed_regains_its_observer() {
    let (mut observation, address) = observed_until_crash(&Client::new()).await;
    let again = Counter::default();
    let returns = async {
        // Max-Age is 60 s.
        tokio::time::sleep(Duration::from_secs(300)).await;
        again.serve(address).await
    };
    let (_server, text) = tokio::join!(returns, next_text(&mut observation));
    assert_eq!(text, "0");
    again.set(9);
    assert_eq!(next_text(&mut observation).await, "9");
    assert_eq!(observation.end(), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_crashed_for_good_is_asked_a_bounded_number_of_times() {
    for (waits, retries) in [(true, 9), (false, 0)] {
        let client = Client::new();
        let (observation, _) = observed_until_crash(&client).await;
        let mut observation = observation.retry_unavailable(waits);
        let end = observation.next().await.expect("why it ends").expect_err("no server");
        assert!(end.is_timeout_or_unreachable(), "{end}");
        assert!(observation.next().await.is_none());
        // The registration and its renewal.
        assert_eq!(client.stats().await.exchanges, 2 + retries, "{waits}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observation_without_a_server_from_the_start_fails_at_once() {
    let client = Client::new();
    let mut observation = client.observe(format!("coap://{}/n", own_address()));
    let end = observation.next().await.expect("why it ends").expect_err("no server");
    assert!(end.is_timeout_or_unreachable(), "{end}");
    assert!(observation.next().await.is_none());
    assert_eq!(client.stats().await.exchanges, 1);
}

#[tokio::test(start_paused = true)]
async fn an_observation_that_waits_for_a_crashed_server_ends_when_its_client_is_closed() {
    let client = Client::new();
    let (mut observation, _) = observed_until_crash(&client).await;
    // Beyond Max-Age and all retransmissions.
    let item = tokio::time::timeout(Duration::from_secs(300), observation.next()).await;
    assert!(item.is_err(), "{item:?}");
    client.close(Duration::from_secs(1)).await;
    let end = observation.next().await.expect("why it ends").expect_err("it is closed");
    assert!(matches!(end, Error::Stopped), "{end}");
}

// RFC 7641 §4.2 (Q111)
#[tokio::test(start_paused = true)]
async fn a_server_shutdown_ends_observations_with_5_03() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let mut observation = Client::new().observe(uri(&server, "/n")).retry_unavailable(false);
    assert_eq!(next_text(&mut observation).await, "0");
    server.shutdown(Duration::from_secs(1)).await;
    assert_eq!(next(&mut observation).await.code(), Code::SERVICE_UNAVAILABLE);
    assert!(observation.next().await.is_none());
    assert_eq!(observation.end(), Some(SubscriptionEnd::Error(Code::SERVICE_UNAVAILABLE)));
    assert_eq!(counter.notifier.observers(), 0);
}

/// An observation that waits, as its server has shut down, and that server's address.
async fn observed_until_shutdown(client: &Client) -> (Observation, SocketAddr) {
    let (counter, address) = (Counter::default(), own_address());
    let server = counter.serve(address).await;
    let mut observation = client.observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "0");
    server.shutdown(Duration::from_secs(1)).await;
    (observation, address)
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_an_observation_goes_on_with_the_next_server_but_not_before_max_age() {
    let (mut observation, address) = observed_until_shutdown(&Client::new()).await;
    let shut_down = tokio::time::Instant::now();
    let again = Counter::default();
    again.value.store(8, Ordering::Relaxed);
    let _server = again.serve(address).await;
    assert_eq!(next_text(&mut observation).await, "8");
    // The paused clock: 2 s are the Max-Age of the shutdown.
    assert!(shut_down.elapsed() >= Duration::from_secs(2));
    again.set(9);
    assert_eq!(next_text(&mut observation).await, "9");
    assert_eq!(observation.end(), None);
}

#[tokio::test(start_paused = true)]
async fn an_observation_waits_for_a_server_that_takes_minutes_to_return() {
    let (mut observation, address) = observed_until_shutdown(&Client::new()).await;
    let again = Counter::default();
    let returns = async {
        tokio::time::sleep(Duration::from_secs(200)).await;
        again.serve(address).await
    };
    let (_server, text) = tokio::join!(returns, next_text(&mut observation));
    assert_eq!(text, "0");
}

#[tokio::test(start_paused = true)]
async fn an_observation_asks_a_server_that_does_not_return_a_bounded_number_of_times() {
    let client = Client::new();
    let (mut observation, _) = observed_until_shutdown(&client).await;
    let end = observation.next().await.expect("why it ends").expect_err("no server");
    assert!(end.is_timeout_or_unreachable(), "{end}");
    assert!(observation.next().await.is_none());
    assert_eq!(client.stats().await.exchanges, 1 + 9);
}

#[tokio::test(start_paused = true)]
async fn an_observation_that_waits_for_its_server_can_be_cancelled_and_sends_nothing() {
    for cancels in [true, false] {
        let client = Client::new();
        let (mut observation, _) = observed_until_shutdown(&client).await;
        let waits = tokio::time::timeout(Duration::from_secs(1), observation.next()).await;
        assert!(waits.is_err(), "{waits:?}");
        match cancels {
            true => observation.cancel().await.expect("there is nothing to cancel"),
            false => drop(observation),
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(client.stats().await.exchanges, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observation_that_waits_for_its_server_ends_at_once_when_its_client_is_closed() {
    for waits in [true, false] {
        let client = Client::new();
        let (mut observation, _) = observed_until_shutdown(&client).await;
        if waits {
            let item = tokio::time::timeout(Duration::from_millis(10), observation.next()).await;
            assert!(item.is_err(), "{item:?}");
        }
        client.close(Duration::from_secs(1)).await;
        let closed = tokio::time::Instant::now();
        let end = observation.next().await.expect("why it ends").expect_err("it is closed");
        assert!(matches!(end, Error::Stopped), "{end}");
        // The clock is paused, and the server's Max-Age 2 s.
        assert!(closed.elapsed() < Duration::from_secs(1), "{:?}", closed.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_5_03_ends_an_observation_that_it_never_began_and_one_that_would_wait_for_hours() {
    let counter = Counter::default();
    let unavailable = |seconds| Response::new(Code::SERVICE_UNAVAILABLE).max_age(Duration::from_secs(seconds));
    let server =
        Server::builder().route("/n", counter.resource()).route("/never", get(move || async move { unavailable(2) }));
    let server = server.bind(LOCALHOST).await.expect("it starts");
    let client = Client::new();
    let mut never = client.observe(uri(&server, "/never"));
    assert_eq!(next(&mut never).await.code(), Code::SERVICE_UNAVAILABLE);
    assert!(never.next().await.is_none());
    let mut observation = client.observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "0");
    counter.notifier.send(unavailable(2));
    let waits = tokio::time::timeout(Duration::from_millis(1500), observation.next()).await;
    assert!(waits.is_err(), "{waits:?}");
    assert_eq!(next_text(&mut observation).await, "0");
    counter.notifier.send(unavailable(7200));
    assert_eq!(next(&mut observation).await.code(), Code::SERVICE_UNAVAILABLE);
    assert!(observation.next().await.is_none());
    assert_eq!(observation.end(), Some(SubscriptionEnd::Error(Code::SERVICE_UNAVAILABLE)));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_each_registration_and_soon_ends_it_is_asked_ever_less_often() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let client = Client::new();
    let mut observation = client.observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "0");
    let begun = tokio::time::Instant::now();
    for _ in 0..6 {
        counter.notifier.send(Response::new(Code::SERVICE_UNAVAILABLE).max_age(Duration::ZERO));
        assert_eq!(next_text(&mut observation).await, "0");
    }
    // The clock is paused: 1 + 2 + 4 + 8 + 16 + 32 s.
    assert!(begun.elapsed() >= Duration::from_secs(63), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_response_does_not_replace_a_sent_notification() {
    let (notifier, asked, may_answer) =
        (Notifier::new(), Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let (counted, gate) = (Arc::clone(&asked), Arc::clone(&may_answer));
    let read = move || {
        let (first, gate) = (counted.fetch_add(1, Ordering::Relaxed) == 0, Arc::clone(&gate));
        async move {
            if !first {
                gate.notified().await;
            }
            "of the handler"
        }
    };
    let route = get(read).observed_by(&notifier);
    let server = Server::builder().route("/n", route).bind(LOCALHOST).await.expect("it starts");
    let mut observation = Client::new().observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "of the handler");
    notifier.notify();
    while asked.load(Ordering::Relaxed) < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    notifier.send(Response::new(Code::CONTENT).text("sent"));
    assert_eq!(next_text(&mut observation).await, "sent");
    may_answer.notify_one();
    tokio::time::sleep(Duration::from_secs(20)).await;
    notifier.send(Response::new(Code::CONTENT).text("sent later"));
    assert_eq!(next_text(&mut observation).await, "sent later");
}

#[tokio::test(start_paused = true)]
async fn observers_that_were_dismissed_register_again_when_their_state_is_stale() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let mut observation = Client::new().observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "0");
    counter.notifier.dismiss();
    counter.is_observed_by(0).await;
    counter.set(1);
    assert_eq!(next_text(&mut observation).await, "1");
    assert_eq!(counter.notifier.observers(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_ends_the_stream_with_an_error() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let mut observation = Client::new().observe(uri(&server, "/n"));
    assert_eq!(next_text(&mut observation).await, "0");
    drop(server);
    let Some(Err(error)) = observation.next().await else { panic!("nobody is there to register at") };
    assert!(error.is_timeout_or_unreachable(), "{error}");
    assert!(observation.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_thousand_observers_get_the_last_state() {
    const OBSERVERS: usize = 1000;
    let counter = Counter::default();
    let limits = Limits { observers_per_peer: OBSERVERS, ..Limits::default() };
    let config = EndpointConfig { limits, ..EndpointConfig::default() };
    let server = Server::builder().route("/n", counter.resource()).config(config);
    let server = server.bind(LOCALHOST).await.expect("it starts");
    let clients: Vec<Client> = (0..20).map(|_| Client::new()).collect();
    let mut all: Vec<Observation> =
        clients.iter().cycle().take(OBSERVERS).map(|client| client.observe(uri(&server, "/n"))).collect();
    for observation in &mut all {
        assert_eq!(next_text(observation).await, "0");
    }
    assert_eq!(counter.notifier.observers(), OBSERVERS);
    let asked = counter.asked.load(Ordering::Relaxed);
    counter.set(1);
    for observation in &mut all {
        assert_eq!(next_text(observation).await, "1");
    }
    assert_eq!(counter.asked.load(Ordering::Relaxed), asked + 1);
    drop(all);
    counter.is_observed_by(0).await;
}

#[tokio::test]
async fn observable_resources_have_the_obs_attribute_in_well_known_core() {
    let counter = Counter::default();
    let server = counter.serve(LOCALHOST).await;
    let links = Client::new().get(uri(&server, "/.well-known/core")).await.expect("a response");
    assert_eq!(links.text(), Ok("</n>;obs"));
    let plain = Client::new().get(uri(&server, "/n")).await.expect("a response");
    assert_eq!(plain.option(OptionNumber::OBSERVE), None);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_in_two_blocks_whose_body_is_streamed_is_observed_until_it_is_dropped() {
    let notifier = Notifier::new();
    let handler = fetch(|mut body: BodyStream| async move {
        let mut bytes = 0;
        while let Ok(Some(chunk)) = body.chunk().await {
            bytes += chunk.len();
        }
        format!("{bytes} bytes")
    });
    let route = handler.observed_by(&notifier);
    let server = Server::builder().route("/r", route).bind(LOCALHOST).await.expect("it starts");
    let client = Client::builder().block_size(BlockSize::B16).build().expect("legal settings");
    let observe = || client.request(Code::FETCH, uri(&server, "/r")).bytes(vec![7; 21]).observe();
    let mut both = [observe(), observe()];
    for observation in &mut both {
        assert_eq!(next_text(observation).await, "21 bytes");
    }
    assert_eq!(notifier.observers(), 2);
    notifier.send(Response::new(Code::CONTENT).text("new"));
    for observation in &mut both {
        assert_eq!(next_text(observation).await, "new");
    }
    drop(both);
    while notifier.observers() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_registration_whose_body_is_given_up_is_not_counted_as_an_observer() {
    let notifier = Notifier::new();
    let handler = fetch(|mut body: BodyStream| async move {
        while let Ok(Some(_)) = body.chunk().await {}
        "never"
    });
    let route = handler.observed_by(&notifier);
    // This client answers no ping.
    let server = Server::builder().source_validation(conche::SourceValidation::Off).route("/r", route);
    let server = server.bind(LOCALHOST).await.expect("it starts");
    let socket = tokio::net::UdpSocket::bind(LOCALHOST).await.expect("the loopback can be bound");
    // CON FETCH, Observe 0, Uri-Path "r", Block1 0/1/16.
    let mut first = b"\x41\x05\x00\x01\x07\x60\x51r\xd1\x03\x08\xff".to_vec();
    first.extend([1; 16]);
    socket.send_to(&first, server.local_addr()).await.expect("it leaves");
    let mut answer = [0; 64];
    let received = socket.recv(&mut answer).await.expect("an answer");
    assert_eq!((received > 4, answer[1]), (true, Code::CONTINUE.0), "the block is taken");
    assert_eq!(notifier.observers(), 1);
    while notifier.observers() > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// One socket registers for queries that the handler does not distinguish.
#[tokio::test(start_paused = true)]
async fn queries_of_one_host_run_a_bounded_number_of_handlers_and_requests_are_served_between_them() {
    const TOPICS: usize = 3000;
    let counter = Counter::default();
    let asked = Arc::clone(&counter.asked);
    let limits = Limits { topics: 2 * TOPICS, observers_per_peer: 2 * TOPICS, ..Limits::default() };
    let config =
        EndpointConfig { limits, source_validation: conche::SourceValidation::Off, ..EndpointConfig::default() };
    let shown = Arc::clone(&asked);
    let asked_so_far = get(move || {
        let shown = Arc::clone(&shown);
        async move { shown.load(Ordering::Relaxed).to_string() }
    });
    let server = Server::builder().route("/n", counter.resource()).route("/asked", asked_so_far).config(config);
    let server = server.bind(LOCALHOST).await.expect("it starts");
    let socket = tokio::net::UdpSocket::bind(LOCALHOST).await.expect("the loopback can be bound");
    socket.connect(server.local_addr()).await.expect("the loopback is reached");
    let mut observed = 0;
    for number in 0..TOPICS + 100 {
        let [high, low] = u16::try_from(number).expect("few").to_be_bytes();
        // CON GET with a token of two bytes: Observe 0, Uri-Path "n", Uri-Query of six bytes.
        let mut registration = vec![0x42, 0x01, high, low, high, low, 0x60, 0x51, b'n', 0x46];
        registration.extend(format!("{number:06}").bytes());
        socket.send(&registration).await.expect("it leaves");
        let mut answer = [0; 64];
        let length = socket.recv(&mut answer).await.expect("an answer");
        assert_eq!((length > 6, answer[1]), (true, Code::CONTENT.0));
        observed += usize::from(answer[6] >> 4 == 6);
    }
    assert_eq!((observed, counter.notifier.observers()), (TOPICS, TOPICS), "half of all topics");
    let before = asked.load(Ordering::Relaxed);
    counter.set(1);
    let answer = Client::new().get(uri(&server, "/asked")).await.expect("a response");
    let at_that_time: usize = answer.text().expect("text").parse().expect("a number");
    assert!(at_that_time < before + TOPICS, "all {TOPICS} handlers ran first");
    while asked.load(Ordering::Relaxed) < before + TOPICS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
