//! Queued requests: FIFO order, bounds, and independence of destinations.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use conche::client::{Full, Waiting};
use conche::server::get;
use conche::{Client, Code, EndpointConfig, Error, Failure, Limits, Reliability, Server};
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const LOCALHOST: &str = "127.0.0.1:0";

async fn silence() -> (UdpSocket, String) {
    let socket = UdpSocket::bind(LOCALHOST).await.expect("loopback can be bound");
    let uri = format!("coap://{}/", socket.local_addr().expect("it is bound"));
    (socket, uri)
}

fn client(limits: Limits, waiting: Waiting) -> Client {
    let config = EndpointConfig { limits, ..EndpointConfig::default() };
    Client::builder().config(config).waiting(waiting).build().expect("legal settings")
}

/// One server on all loopback addresses (127.0.0.0/8) represents many.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn ten_thousand_gets_to_a_hundred_servers_are_all_answered() {
    let server = Server::builder().route("/t", get(async || "21.5")).bind("0.0.0.0:0").await.expect("it starts");
    let port = server.local_addr().port();
    let client = Client::new();
    let mut requests = JoinSet::new();
    for n in 0..10_000 {
        requests.spawn(client.get(format!("coap://127.1.0.{}:{port}/t", n % 100 + 1)).send());
    }
    while let Some(response) = requests.join_next().await {
        assert_eq!(response.expect("no panic").expect("a response").code(), Code::CONTENT);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_gateway_asks_ten_thousand_devices_at_the_same_time() {
    let server = Server::builder().route("/t", get(async || "21.5")).bind("0.0.0.0:0").await.expect("it starts");
    let port = server.local_addr().port();
    let client = Client::new();
    let mut requests = JoinSet::new();
    for n in 0..10_000 {
        requests.spawn(client.get(format!("coap://127.1.{}.{}:{port}/t", n / 250, n % 250 + 1)).send());
    }
    while let Some(response) = requests.join_next().await {
        response.expect("no panic").expect("a response");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn in_a_burst_of_requests_other_tasks_have_a_turn_before_a_socket_overflows() {
    const REQUESTS: u32 = 3000;
    let socket = UdpSocket::bind("0.0.0.0:0").await.expect("loopback can be bound");
    let port = socket.local_addr().expect("it is bound").port();
    let client = Client::new();
    let mut requests = JoinSet::new();
    for n in 0..REQUESTS {
        let device = Ipv4Addr::from(0x7f01_0000 + n);
        let request = client.get(format!("coap://{device}:{port}/t")).reliability(Reliability::NeverConfirmable);
        requests.spawn(request.send());
    }
    for n in 0..REQUESTS {
        let received = timeout(Duration::from_secs(20), socket.recv(&mut [0; 64])).await;
        received.unwrap_or_else(|_| panic!("{n} have come")).expect("a request");
    }
}

#[tokio::test]
async fn a_hundred_requests_of_one_client_to_a_slow_server_are_all_answered() {
    let config = EndpointConfig { separate_after: Duration::ZERO, ..EndpointConfig::default() };
    let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let slow = {
        let (gate, started) = (Arc::clone(&gate), Arc::clone(&started));
        move || {
            let (gate, started) = (Arc::clone(&gate), Arc::clone(&started));
            async move {
                started.add_permits(1);
                let _ = gate.acquire().await.expect("it is not closed");
                "late"
            }
        }
    };
    let server = Server::builder().config(config).route("/", get(slow)).bind(LOCALHOST).await.expect("it starts");
    let client = Client::new();
    let mut requests = JoinSet::new();
    for n in 0..100 {
        let request = client.get(format!("coap://{}/", server.local_addr())).query(&format!("n={n}"));
        requests.spawn(request.timeout(Duration::from_secs(60)).send());
    }
    let _ = started.acquire_many(100).await.expect("all of them reach the server");
    gate.add_permits(100);
    while let Some(response) = requests.join_next().await {
        assert_eq!(response.expect("no panic").expect("a response").code(), Code::CONTENT);
    }
}

#[tokio::test]
async fn a_destination_with_a_long_line_holds_up_no_other() {
    let (silent, there) = silence().await;
    let server = Server::builder().route("/", get(async || "hello")).bind(LOCALHOST).await.expect("it starts");
    let client = client(Limits { queue: 8, ..Limits::default() }, Waiting::default());
    let mut stuffed = JoinSet::new();
    for _ in 0..1000 {
        stuffed.spawn(client.get(&there).send());
    }
    silent.recv(&mut [0; 64]).await.expect("one of them");
    for _ in 0..100 {
        let response = client.get(format!("coap://{}/", server.local_addr())).await.expect("a response");
        assert_eq!(response.text(), Ok("hello"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_times_out_in_the_queue_reports_it_was_never_sent() {
    let (silent, there) = silence().await;
    let client = Client::new();
    let first: Vec<_> = (0..10).map(|_| tokio::spawn(client.get(&there).send())).collect();
    silent.recv(&mut [0; 64]).await.expect("the first of them");
    let failed = client.get(&there).timeout(Duration::from_secs(1)).await.expect_err("it is not its turn");
    let text = failed.to_string();
    assert!(text.contains("it was never sent: its timeout passed after 1.0s in the queue"), "{text}");
    assert!(text.contains("transmission.nstart") && text.contains("Limits::queue"), "{text}");
    assert!(!failed.was_sent() && failed.is_timeout_or_unreachable());
    let Error::Failed { failure: Failure::Deadline, course, .. } = failed else { panic!("{failed}") };
    assert_eq!((course.transmissions, course.queued), (0, Duration::from_secs(1)));
    first.iter().for_each(|request| request.abort());
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_client_applies_to_requests_without_their_own() {
    let (_silent, there) = silence().await;
    let built = Client::builder().timeout(Duration::from_secs(3)).build().expect("legal settings");
    let server = Server::builder().client_timeout(Duration::from_secs(3)).bind(LOCALHOST).await.expect("it starts");
    for client in [built, server.client()] {
        for (request, limit) in [(client.get(&there), 3), (client.get(&there).timeout(Duration::from_secs(1)), 1)] {
            let start = Instant::now();
            let failed = request.await.expect_err("the peer is silent");
            assert!(matches!(failed, Error::Failed { failure: Failure::Deadline, .. }), "{failed}");
            assert_eq!(start.elapsed().as_secs(), limit);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_timeout_the_queue_lifetime_bounds_the_wait() {
    let (silent, there) = silence().await;
    let config = EndpointConfig { queue_lifetime: Duration::from_secs(2), ..EndpointConfig::default() };
    let client = Client::builder().config(config).build().expect("legal settings");
    let first: Vec<_> = (0..10).map(|_| tokio::spawn(client.get(&there).send())).collect();
    silent.recv(&mut [0; 64]).await.expect("the first of them");
    let failed = client.get(&there).await.expect_err("it is not its turn");
    assert!(matches!(failed, Error::Failed { failure: Failure::QueueExpired, .. }), "{failed}");
    assert!(!failed.was_sent(), "{failed}");
    first.iter().for_each(|request| request.abort());
}

#[tokio::test(start_paused = true)]
async fn the_time_in_the_line_counts_as_queued() {
    let (silent, there) = silence().await;
    let client = Client::new();
    let mut datagram = [0; 64];
    let first: Vec<_> = (0..10).map(|_| tokio::spawn(client.get(&there).send())).collect();
    let (_, from) = silent.recv_from(&mut datagram).await.expect("the first of them");
    let last = tokio::spawn(client.get(&there).query("last").send());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    first.iter().for_each(|request| request.abort());
    let length = loop {
        let (length, _) = silent.recv_from(&mut datagram).await.expect("a request");
        if datagram[..length].ends_with(b"last") {
            break length;
        }
    };
    datagram[..2].copy_from_slice(&[0x68, 0x45]);
    assert!(length > 12);
    silent.send_to(&datagram[..12], from).await.expect("it is sent");
    let response = last.await.expect("no panic").expect("a response");
    assert_eq!(response.course().queued, Duration::from_millis(1500), "{:?}", response.course());
}

#[tokio::test]
async fn try_send_fails_at_once_where_send_waits() {
    let (silent, there) = silence().await;
    let client = client(Limits { queue_per_peer: 2, ..Limits::default() }, Waiting::default());
    let mut waiting: Vec<_> = (0..3).map(|_| tokio::spawn(client.get(&there).send())).collect();
    silent.recv(&mut [0; 64]).await.expect("the first of them");
    let refused = client.get(&there).try_send().await.expect_err("two wait");
    let Error::Busy(busy) = refused else { panic!("{refused}") };
    assert_eq!((busy.what, busy.limit), (Full::PeerQueue, 2));
    assert!(busy.to_string().ends_with("raise Limits::queue_per_peer"), "{busy}");
    waiting.push(tokio::spawn(client.get(&there).send()));
    tokio::task::yield_now().await;
    assert!(waiting.iter().all(|request| !request.is_finished()));
    waiting.iter().for_each(|request| request.abort());
}

#[tokio::test]
async fn beyond_the_bound_on_waiting_requests_fail_and_name_the_setting() {
    let (silent, there) = silence().await;
    let client = client(Limits::default(), Waiting { per_destination: 3, ..Waiting::default() });
    let waiting: Vec<_> = (0..4).map(|_| tokio::spawn(client.get(&there).send())).collect();
    // One of four simultaneous requests is refused, unless the first has left by then.
    silent.recv(&mut [0; 64]).await.expect("the first of them");
    let _more: Vec<_> = (0..3).map(|_| tokio::spawn(client.get(&there).send())).collect();
    tokio::task::yield_now().await;
    let refused = client.get(&there).await.expect_err("three wait");
    let Error::Busy(busy) = refused else { panic!("{refused}") };
    assert_eq!((busy.what, busy.limit, busy.what.setting()), (Full::DestinationQueue, 3, "Waiting::per_destination"));
    waiting.iter().for_each(|request| request.abort());
}

#[tokio::test]
async fn requests_that_are_dropped_while_they_wait_leave_their_places_to_others() {
    let (silent, there) = silence().await;
    let client = client(Limits::default(), Waiting { per_destination: 20, ..Waiting::default() });
    for round in 0..50 {
        let waiting: Vec<_> = (0..20).map(|_| tokio::spawn(client.get(&there).send())).collect();
        silent.recv(&mut [0; 64]).await.expect("the first of them");
        assert!(waiting.iter().all(|request| !request.is_finished()), "round {round}");
        for request in waiting {
            request.abort();
            assert!(request.await.expect_err("it is aborted").is_cancelled());
        }
    }
}

#[tokio::test]
async fn requests_leave_in_the_order_in_which_they_were_sent() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = {
        let seen = Arc::clone(&seen);
        move |query: conche::server::Query| {
            seen.lock().expect("nobody panics with it").push(query.parse::<u32>("n").ok());
            std::future::ready(())
        }
    };
    let server = Server::builder().route("/", get(note)).bind(LOCALHOST).await.expect("it starts");
    let client = Client::new();
    let mut requests = JoinSet::new();
    for n in 0..200 {
        requests.spawn(client.get(format!("coap://{}/?n={n}", server.local_addr())).send());
    }
    while let Some(response) = requests.join_next().await {
        response.expect("no panic").expect("a response");
    }
    assert_eq!(*seen.lock().expect("nobody panics with it"), (0..200).map(Some).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_timeout_bounds_the_resolution_of_a_name_too() {
    let failed = Client::new().get("coap://localhost/").timeout(Duration::ZERO).await.expect_err("no time is left");
    assert!(!failed.was_sent() && failed.is_timeout_or_unreachable(), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn a_ping_ends_with_the_timeout_of_its_client_in_flight_and_in_the_queue() {
    let client = Client::builder().timeout(Duration::from_secs(5)).build().expect("legal settings");
    let is_late = |failed: &Error| matches!(failed, Error::Failed { failure: Failure::Deadline, .. });
    let (_silent, there) = silence().await;
    let failed = client.ping(&there).await.expect_err("no pong");
    assert!(failed.was_sent() && is_late(&failed), "{failed}");
    let (silent, there) = silence().await;
    let request = tokio::spawn(client.get(&there).timeout(Duration::from_secs(60)).send());
    silent.recv(&mut [0; 64]).await.expect("the request");
    let failed = client.ping(&there).await.expect_err("it is not its turn");
    assert!(!failed.was_sent() && is_late(&failed), "{failed}");
    request.abort();
}
