//! Handlers, shutdown, and datagram metadata of the driver.

use std::net::UdpSocket as BlockingSocket;
use std::sync::Arc;
use std::time::Duration;

use conche::server::{Handler, Router, get};
use conche::watch::{Notice, Watcher};
use conche::{Client, Code, EndpointConfig, Limits, OptionNumber, Server, SourceValidation};
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;

const LOCALHOST: &str = "127.0.0.1:0";

fn gated() -> (impl Handler<(), ()> + Clone, Arc<Semaphore>, Arc<Semaphore>) {
    let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (held, start) = (Arc::clone(&gate), Arc::clone(&started));
    let handler = move || {
        let (held, start) = (Arc::clone(&held), Arc::clone(&start));
        async move {
            start.add_permits(1);
            held.acquire().await.map(|_| "late").map_err(|_| Code::INTERNAL_SERVER_ERROR)
        }
    };
    (handler, gate, started)
}

fn separate_at_once() -> EndpointConfig {
    EndpointConfig { separate_after: Duration::ZERO, ..EndpointConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_answers_acknowledged_requests_whose_handlers_do_not_end() {
    for (name, within) in [("two seconds", Duration::from_secs(2)), ("no time at all", Duration::ZERO)] {
        let (wait, _gate, started) = gated();
        // The paused clock cannot wait for the response to a ping.
        let config = EndpointConfig { source_validation: SourceValidation::Off, ..separate_at_once() };
        let server = Server::builder().config(config).route("/", get(wait)).bind(LOCALHOST).await;
        let server = server.expect("it starts");
        let client = Client::new();
        let there = format!("coap://{}/", server.local_addr());
        let waiting = tokio::spawn(client.get(&there).send());
        let _ = started.acquire().await.expect("the handler starts");
        server.shutdown(within).await;
        let response = waiting.await.expect("no panic").expect("a response");
        assert_eq!(response.code(), Code::SERVICE_UNAVAILABLE, "{name}");
        assert!(response.option(OptionNumber::MAX_AGE).is_some(), "{name}");
    }
}

#[tokio::test]
async fn a_shutdown_still_sends_the_response_of_a_finished_handler() {
    // Simultaneous events are handled in random order.
    for _ in 0..30 {
        let (wait, gate, started) = gated();
        let server = Server::builder().route("/", get(wait)).bind(LOCALHOST).await.expect("it starts");
        let waiting = tokio::spawn(Client::new().get(format!("coap://{}/", server.local_addr())).send());
        let _ = started.acquire().await.expect("the handler starts");
        gate.add_permits(1);
        server.shutdown(Duration::ZERO).await;
        assert_eq!(waiting.await.expect("no panic").expect("a response").text(), Ok("late"));
    }
}

#[tokio::test]
async fn a_shutdown_waits_for_the_line_of_the_servers_client() {
    let other = Server::builder().route("/", get(async || "hello")).bind(LOCALHOST).await.expect("it starts");
    let limits = Limits { queue_per_peer: 1, ..Limits::default() };
    let config = EndpointConfig { limits, ..EndpointConfig::default() };
    let server = Server::builder().config(config).bind(LOCALHOST).await.expect("it starts");
    let client = server.client();
    let request = || Box::pin(client.get(format!("coap://{}/", other.local_addr())).send());
    let (mut first, mut second) = (request(), request());
    for waiting in [&mut first, &mut second] {
        tokio::select! {
            biased;
            _ = waiting => panic!("the server's task has not run"),
            () = std::future::ready(()) => {}
        }
    }
    let shutdown = tokio::spawn(server.shutdown(Duration::from_secs(60)));
    assert_eq!(first.await.expect("a response").text(), Ok("hello"));
    tokio::task::yield_now().await;
    assert_eq!(second.await.expect("a response").text(), Ok("hello"));
    shutdown.await.expect("no panic");
}

#[tokio::test]
async fn a_shutdown_ends_as_soon_as_its_farewells_are_acknowledged() {
    let (wait, _gate, started) = gated();
    let server = Server::builder().config(separate_at_once()).route("/", get(wait)).bind(LOCALHOST).await;
    let server = server.expect("it starts");
    let pending = tokio::spawn(Client::new().get(format!("coap://{}/", server.local_addr())).send());
    let _ = started.acquire().await.expect("the handler starts");
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    server.shutdown(Duration::from_secs(100)).await;
    // Handlers have all but the last 5 s.
    assert!((Duration::from_secs(95)..Duration::from_secs(96)).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(pending.await.expect("no panic").expect("a response").code(), Code::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn handlers_that_wait_do_not_keep_quick_ones_from_running() {
    let (wait, gate, started) = gated();
    let posted = Arc::new(Semaphore::new(0));
    let count = {
        let posted = Arc::clone(&posted);
        move || {
            posted.add_permits(1);
            std::future::ready(())
        }
    };
    let quick = get(async || "quick").post(count);
    let router = Router::new().route("/slow", get(wait)).route("/quick", quick);
    // The clients of one prefix have half.
    let server = Server::builder().concurrency(4).router(router).bind(LOCALHOST).await.expect("it starts");
    let uri = |path: &str| format!("coap://{}{path}", server.local_addr());
    let slow: Vec<_> = (0..2).map(|_| tokio::spawn(Client::new().get(uri("/slow")).send())).collect();
    let _ = started.acquire_many(2).await.expect("both start");
    assert_eq!(Client::new().get(uri("/quick")).await.expect("a response").text(), Ok("quick"));
    let refused = Client::new().get(uri("/slow")).await.expect("a response");
    assert_eq!(refused.code(), Code::SERVICE_UNAVAILABLE);
    let refused = Client::new().post(uri("/quick")).await.expect("a response");
    assert_eq!(
        (refused.code(), posted.available_permits()),
        (Code::SERVICE_UNAVAILABLE, 0),
        "nothing is done by halves"
    );
    gate.add_permits(2);
    for response in slow {
        assert_eq!(response.await.expect("no panic").expect("a response").text(), Ok("late"));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn clients_of_one_prefix_leave_handlers_for_those_of_others() {
    let (wait, gate, started) = gated();
    let server = Server::builder().concurrency(8).route("/", get(wait)).bind(LOCALHOST).await.expect("it starts");
    let ask = |host: [u8; 4]| {
        let client = Client::builder().bind((host, 0).into()).build().expect("legal settings");
        tokio::spawn(client.get(format!("coap://{}/", server.local_addr())).send())
    };
    let greedy: Vec<_> = (1..=20).map(|n| ask([127, 1, n, 1])).collect();
    let _ = started.acquire_many(20).await.expect("all have come to where they would have to wait");
    let modest = ask([127, 2, 0, 1]);
    let _ = started.acquire_many(1).await.expect("so has this one");
    gate.add_permits(20);
    assert_eq!(modest.await.expect("no panic").expect("a response").code(), Code::CONTENT);
    let mut served = 0;
    for response in greedy {
        served += u32::from(response.await.expect("no panic").expect("a response").code() == Code::CONTENT);
    }
    assert_eq!(served, 4);
}

#[tokio::test]
async fn a_handler_that_waits_for_nothing_is_not_refused_however_often_it_might_wait() {
    let often = async || {
        let free = Semaphore::new(1);
        for _ in 0..1000 {
            drop(free.acquire().await);
        }
        "done"
    };
    let server = Server::builder().concurrency(0).route("/", get(often)).bind(LOCALHOST).await.expect("it starts");
    let response = Client::new().get(format!("coap://{}/", server.local_addr())).await.expect("a response");
    assert_eq!(response.text(), Ok("done"));
}

#[tokio::test]
async fn a_handler_that_panics_when_it_is_dropped_does_not_end_the_server() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a handler's value panics when it is dropped");
        }
    }
    let explode = async || {
        let _bomb = Bomb;
        std::future::pending::<()>().await;
    };
    let router = Router::new().route("/bomb", get(explode)).route("/", get(async || "here"));
    let server = Server::builder().concurrency(0).router(router).bind(LOCALHOST).await.expect("it starts");
    let uri = |path: &str| format!("coap://{}{path}", server.local_addr());
    let response = Client::new().get(uri("/bomb")).await.expect("a response");
    assert_eq!(response.code(), Code::INTERNAL_SERVER_ERROR);
    assert_eq!(Client::new().get(uri("/")).await.expect("a response").text(), Ok("here"));
    assert_eq!(server.stats().await.panics, 1);
}

#[tokio::test]
async fn a_watcher_that_panics_on_a_datagram_ends_nothing() {
    struct Fragile;
    impl Watcher for Fragile {
        fn notice(&self, notice: &Notice<'_>) {
            assert!(!notice.datagram.ends_with(b"boom"), "a watcher panics on a datagram");
        }
    }
    let server = Server::builder().watch(Fragile).route("/", get(async || "here")).bind(LOCALHOST).await;
    let server = server.expect("it starts");
    let uri = format!("coap://{}/", server.local_addr());
    let client = Client::new();
    let post = client.post(&uri).payload(conche::ContentFormat::TEXT_PLAIN, "boom");
    assert_eq!(post.await.expect("a response").code(), Code::METHOD_NOT_ALLOWED);
    assert_eq!(client.get(&uri).await.expect("a response").text(), Ok("here"));
    assert!(server.stats().await.panics > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_stops_no_other_if_handlers_are_spawned() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let (receiver, started) = (Arc::new(std::sync::Mutex::new(receiver)), Arc::new(Semaphore::new(0)));
    let block = {
        let started = Arc::clone(&started);
        move || {
            let (receiver, started) = (Arc::clone(&receiver), Arc::clone(&started));
            async move {
                started.add_permits(1);
                let _ = receiver.lock().map(|receiver| receiver.recv());
                "unblocked"
            }
        }
    };
    let router = Router::new().route("/block", get(block)).route("/quick", get(async || "quick"));
    let server = Server::builder().spawn_handlers().router(router).bind(LOCALHOST).await.expect("it starts");
    let uri = |path: &str| format!("coap://{}{path}", server.local_addr());
    let client = Client::new();
    let blocked = tokio::spawn(client.get(uri("/block")).send());
    let _ = started.acquire().await.expect("it starts");
    assert_eq!(Client::new().get(uri("/quick")).await.expect("a response").text(), Ok("quick"));
    drop(sender);
    assert_eq!(blocked.await.expect("no panic").expect("a response").text(), Ok("unblocked"));
}

#[tokio::test]
async fn no_datagram_is_lost_when_they_come_faster_than_the_endpoint_is_polled() {
    let limits = Limits { outputs: 1, ..Limits::default() };
    let config = EndpointConfig { limits, ..EndpointConfig::default() };
    let server =
        Server::builder().config(config).route("/", get(async || "")).bind(LOCALHOST).await.expect("it starts");
    let socket = BlockingSocket::bind(LOCALHOST).expect("loopback can be bound");
    for id in 0..200 {
        socket.send_to(&[0x40, 0x01, 0, id], server.local_addr()).expect("it is sent");
    }
    socket.set_nonblocking(true).expect("it can be");
    let socket = UdpSocket::from_std(socket).expect("there is a runtime");
    for id in 0..200 {
        let mut reply = [0; 16];
        socket.recv(&mut reply).await.expect("a reply");
        assert_eq!(reply[..4], [0x60, 0x45, 0, id]);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn an_icmp_error_ends_a_separate_response_for_any_bound_address() {
    for bind in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        let (wait, gate, started) = gated();
        let server = Server::builder().config(separate_at_once()).route("/", get(wait)).bind(bind).await;
        let server = server.expect("it starts");
        let socket = UdpSocket::bind(LOCALHOST).await.expect("loopback can be bound");
        let there = ("127.0.0.1", server.local_addr().port());
        socket.send_to(b"\x41\x01\x00\x07\x01", there).await.expect("it is sent");
        let _ = started.acquire().await.expect("the handler starts");
        socket.recv(&mut [0; 16]).await.expect("an acknowledgement");
        drop(socket);
        gate.add_permits(1);
        let start = tokio::time::Instant::now();
        server.shutdown(Duration::from_secs(8)).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{bind}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_server_that_has_joined_no_group_does_not_answer_multicast() {
    let server = Server::builder().route("/", get(async || "here")).bind("0.0.0.0:0").await.expect("it starts");
    let port = server.local_addr().port();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).expect("there are sockets");
    let loopback = [127, 0, 0, 1].into();
    socket.set_multicast_if_v4(&loopback).expect("the loopback is an interface");
    socket.set_multicast_loop_v4(true).expect("it can be");
    socket.set_nonblocking(true).expect("it can be");
    socket.bind(&std::net::SocketAddr::from((loopback, 0)).into()).expect("loopback can be bound");
    let socket = UdpSocket::from_std(socket.into()).expect("there is a runtime");
    for datagram in [&b"\x51\x01\x00\x07\x01\xb7nothing"[..], b"\x40\x00\x00\x08"] {
        // Without multicast on the loopback, nothing arrives.
        let _ = socket.send_to(datagram, ("224.0.0.1", port)).await;
    }
    socket.send_to(b"\x40\x00\x00\x09", ("127.0.0.1", port)).await.expect("it is sent");
    let mut reply = [0; 64];
    let length = socket.recv(&mut reply).await.expect("a reply");
    assert_eq!(reply[..length], *b"\x70\x00\x00\x09");
    let stats = server.stats().await;
    assert_eq!(stats.datagrams_received, 1, "the endpoint does not even see what is for a group");
}
