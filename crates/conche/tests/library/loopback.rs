//! Guarantees of client and server, over loopback sockets.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conche::server::{Path, Response, Router, Text, get, post, put};
use conche::{Client, Code, ContentFormat, EndpointConfig, Error, Failure, OptionNumber, RequestError, Server, Token};
use tokio::net::UdpSocket;
use tokio::sync::{Notify, Semaphore};

const LOCALHOST: &str = "127.0.0.1:0";

fn uri(server: &Server, path: &str) -> String {
    format!("coap://{}{path}", server.local_addr())
}

async fn silence() -> (UdpSocket, String) {
    let socket = UdpSocket::bind(LOCALHOST).await.expect("loopback can be bound");
    let uri = format!("coap://{}/", socket.local_addr().expect("it is bound"));
    (socket, uri)
}

type Wait = Pin<Box<dyn Future<Output = Result<&'static str, Code>> + Send>>;

fn gated() -> (impl Fn() -> Wait + Send + Sync + Clone + 'static, Arc<Semaphore>, Arc<Notify>) {
    let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let (held, start) = (Arc::clone(&gate), Arc::clone(&started));
    let handler = move || -> Wait {
        let (held, start) = (Arc::clone(&held), Arc::clone(&start));
        Box::pin(async move {
            start.notify_one();
            held.acquire().await.map(|_| "finished").map_err(|_| Code::INTERNAL_SERVER_ERROR)
        })
    };
    (handler, gate, started)
}

#[tokio::test]
async fn a_request_reaches_its_handler_and_the_response_comes_back() {
    let server = Server::builder()
        .route("/greet/{name}", get(async |Path(name): Path<String>| format!("hello, {name}")))
        .route("/upper", post(async |Text(text): Text| text.to_uppercase()))
        .bind(LOCALHOST)
        .await
        .expect("it starts");
    let client = Client::new();
    let response = client.get(uri(&server, "/greet/you")).await.expect("a response");
    assert_eq!((response.code(), response.text()), (Code::CONTENT, Ok("hello, you")));
    assert_eq!(response.content_format(), Some(ContentFormat::TEXT_PLAIN));
    assert_eq!(response.from(), server.local_addr());

    let response = client.post(uri(&server, "/upper")).payload(ContentFormat::TEXT_PLAIN, "abc").non().await;
    assert_eq!(response.expect("a response").text(), Ok("ABC"));

    let missing = client.get(uri(&server, "/missing")).await.expect("a response");
    let Err(Error::Response { code: Code::NOT_FOUND, .. }) = missing.successful() else { panic!("4.04 is an error") };
    let wrong = client.put(uri(&server, "/upper")).await.expect("a response");
    assert_eq!(wrong.code(), Code::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn ipv6_and_names_work_and_a_name_falls_back_to_its_next_address() {
    let greet = || Server::builder().route("/", get(async || "hello"));
    let client = Client::new();
    let v6 = greet().bind("[::1]:0").await.expect("it starts");
    assert_eq!(client.get(uri(&v6, "/")).await.expect("a response").text(), Ok("hello"));
    // Where localhost resolves to ::1 first, that address is unreachable.
    let v4 = greet().bind(LOCALHOST).await.expect("it starts");
    let name = format!("coap://localhost:{}/", v4.local_addr().port());
    let response = client.get(name).timeout(Duration::from_secs(20)).await.expect("a response");
    assert_eq!(response.text(), Ok("hello"));
}

#[tokio::test]
async fn one_socket_serves_both_ip_versions() {
    let server = Server::builder().route("/", get(async || "hello")).bind("[::]:0").await.expect("it starts");
    let port = server.local_addr().port();
    for host in ["127.0.0.1", "[::1]"] {
        let response = Client::new().get(format!("coap://{host}:{port}/")).await.expect("a response");
        assert_eq!(response.text(), Ok("hello"), "{host}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_answers_from_the_address_that_it_was_asked_at() {
    let slow = async || {
        tokio::task::yield_now().await;
        "slow"
    };
    for unspecified in ["0.0.0.0:0", "[::]:0"] {
        let config = EndpointConfig { separate_after: Duration::ZERO, ..EndpointConfig::default() };
        let router = Router::new().route("/", get(async || "hello")).route("/slow", get(slow));
        let server = Server::builder().router(router).config(config).bind(unspecified).await.expect("it starts");
        let port = server.local_addr().port();
        // All of 127.0.0.0/8 is loopback; a reply without an explicit source comes from 127.0.0.1.
        let client = Client::new();
        for (path, content) in [("/", "hello"), ("/slow", "slow")] {
            let response = client.get(format!("coap://127.1.2.3:{port}{path}")).timeout(Duration::from_secs(10)).await;
            assert_eq!(response.expect("a response").text(), Ok(content), "{unspecified}");
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_port_is_reported_without_a_retransmission() {
    for localhost in ["127.0.0.1:0", "[::1]:0"] {
        // A closed port that no client is assigned.
        let address = SocketAddr::new(localhost.parse::<SocketAddr>().expect("an address").ip(), 1);
        match Client::new().get(format!("coap://{address}/")).await {
            Err(Error::Failed { failure: Failure::Unreachable, course, peer }) => {
                assert_eq!((peer, course.transmissions), (address, 1));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_ping_is_answered_with_a_reset_which_is_success() {
    let server = Server::builder().bind(LOCALHOST).await.expect("it starts");
    let course = Client::new().ping(uri(&server, "/")).await.expect("a pong");
    assert_eq!(course.transmissions, 1);
}

#[tokio::test]
async fn a_slow_handler_becomes_a_separate_response() {
    let config = EndpointConfig { separate_after: Duration::from_millis(20), ..EndpointConfig::default() };
    let slow = async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        "at last"
    };
    let server = Server::builder().config(config).route("/slow", get(slow)).bind(LOCALHOST).await.expect("it starts");
    let client = Client::new();
    let response = client.get(uri(&server, "/slow")).await.expect("a response");
    assert_eq!(response.text(), Ok("at last"));
    assert!(response.acknowledged_after() < response.course().elapsed, "{:?}", response.course());
    assert_eq!(server.stats().await.exchanges, 1);
}

#[tokio::test]
async fn a_handler_panic_gives_5_00_and_the_server_keeps_serving() {
    let late = async || -> &'static str {
        tokio::task::yield_now().await;
        panic!("a handler panics, as this test wants")
    };
    let at_once = async || -> &'static str { panic!("a handler panics, as this test wants") };
    let server = Server::builder()
        .concurrency(1)
        .route("/late", get(late))
        .route("/at-once", get(at_once))
        .route("/fine", get(async || "fine"))
        .bind(LOCALHOST)
        .await
        .expect("it starts");
    let client = Client::new();
    for path in ["/late", "/at-once", "/late", "/at-once"] {
        let response = client.get(uri(&server, path)).await.expect("a response");
        assert_eq!(response.code(), Code::INTERNAL_SERVER_ERROR, "{path}");
    }
    assert_eq!(client.get(uri(&server, "/fine")).await.expect("a response").text(), Ok("fine"));
}

#[tokio::test]
async fn beyond_the_concurrency_requests_are_answered_with_5_03() {
    let (wait, gate, started) = gated();
    let server = Server::builder().concurrency(1).route("/", get(wait)).bind(LOCALHOST).await.expect("it starts");
    let limit = Duration::from_secs(20);
    let [first, second] = [Client::new(), Client::new()].map(|client| client.get(uri(&server, "/")).timeout(limit));
    let first = tokio::spawn(first.send());
    started.notified().await;
    let refused = second.await.expect("a response");
    assert_eq!(refused.code(), Code::SERVICE_UNAVAILABLE);
    assert!(refused.option(OptionNumber::MAX_AGE).is_some());
    gate.add_permits(1);
    assert_eq!(first.await.expect("no panic").expect("a response").code(), Code::CONTENT);
}

#[tokio::test]
async fn dropping_a_request_frees_its_slot_at_once() {
    let (silent, there) = silence().await;
    let client = Client::new();
    let mut datagram = [0; 64];
    // NSTART is 1: the second request waits for the first one's slot.
    let first = tokio::spawn(client.get(&there).query("first").send());
    silent.recv(&mut datagram).await.expect("the first request");
    first.abort();
    let second = tokio::spawn(client.get(&there).query("second").send());
    let length = silent.recv(&mut datagram).await.expect("a request");
    assert!(datagram[..length].ends_with(b"second"), "the first is not even retransmitted");
    second.abort();
}

#[tokio::test]
async fn a_request_goes_out_with_the_token_that_was_chosen() {
    let (silent, there) = silence().await;
    let client = Client::new();
    let get = || client.get(&there).token(Token::new(b"mine").expect("at most 8 bytes"));
    let request = tokio::spawn(get().send());
    let mut datagram = [0; 64];
    silent.recv(&mut datagram).await.expect("a request");
    assert_eq!((datagram[0], &datagram[4..8]), (0x44, &b"mine"[..]));
    let refused = get().await.expect_err("the token is in use");
    assert!(matches!(refused, Error::Refused(RequestError::TokenInUse)), "{refused}");
    request.abort();
}

#[tokio::test]
async fn a_deadline_ends_an_unanswered_request() {
    let (_silent, there) = silence().await;
    let failed = Client::new().get(&there).timeout(Duration::from_millis(30)).await.expect_err("nobody answers");
    assert!(matches!(failed, Error::Failed { failure: Failure::Deadline, .. }), "{failed}");
    assert!(failed.is_timeout_or_unreachable());
}

#[tokio::test]
async fn a_duplicate_is_answered_again_but_not_handled_again() {
    let calls = Arc::new(AtomicU32::new(0));
    let count = {
        let calls = Arc::clone(&calls);
        move || std::future::ready(calls.fetch_add(1, Ordering::Relaxed).to_string())
    };
    let server = Server::builder().route("/count", post(count)).bind(LOCALHOST).await.expect("it starts");
    let socket = UdpSocket::bind(LOCALHOST).await.expect("loopback can be bound");
    let request = b"\x41\x02\x12\x34\x07\xb5count";
    let mut replies = [[0; 32]; 2];
    for reply in &mut replies {
        socket.send_to(request, server.local_addr()).await.expect("it is sent");
        socket.recv(reply).await.expect("a reply");
    }
    assert_eq!(replies[0], replies[1]);
    assert!(replies[0].starts_with(b"\x61\x44\x12\x34\x07"), "{replies:x?}");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_response_that_is_too_large_becomes_5_00() {
    let large = async || Response::new(Code::CONTENT).text("x".repeat((64 << 10) + 1));
    let server = Server::builder().route("/large", get(large)).bind(LOCALHOST).await.expect("it starts");
    let response = Client::new().get(uri(&server, "/large")).await.expect("a response");
    assert_eq!(response.code(), Code::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn a_shutdown_lets_handlers_finish_and_refuses_new_requests() {
    let (wait, gate, started) = gated();
    let server = Server::builder().route("/", get(wait)).bind(LOCALHOST).await.expect("it starts");
    let there = uri(&server, "/");
    let running = tokio::spawn(Client::new().get(&there).send());
    started.notified().await;
    let shutdown = tokio::spawn(server.shutdown(Duration::from_secs(60)));
    let other = Client::new();
    while other.get(&there).timeout(Duration::from_millis(100)).await.is_ok_and(|r| r.code() == Code::CONTENT) {}
    gate.add_permits(1);
    assert_eq!(running.await.expect("no panic").expect("a response").text(), Ok("finished"));
    shutdown.await.expect("the server ends");
}

#[tokio::test]
async fn requests_to_many_peers_go_through_one_socket() {
    let sockets: Vec<UdpSocket> = {
        let mut sockets = Vec::new();
        for _ in 0..200 {
            sockets.push(UdpSocket::bind(LOCALHOST).await.expect("loopback can be bound"));
        }
        sockets
    };
    // The window of a shared path would stay at 4.
    let client = Client::builder().share_paths(false).build().expect("legal settings");
    let addresses: Vec<SocketAddr> = sockets.iter().map(|socket| socket.local_addr().expect("it is bound")).collect();
    let requests: Vec<_> =
        addresses.iter().map(|address| tokio::spawn(client.get(format!("coap://{address}/")).send())).collect();
    let mut origins = std::collections::HashSet::new();
    for socket in &sockets {
        let (_, from) = socket.recv_from(&mut [0; 64]).await.expect("a request");
        origins.insert(from);
    }
    assert_eq!(origins.len(), 1);
    requests.iter().for_each(|request| request.abort());
}

#[tokio::test]
async fn invalid_settings_and_routes_are_refused_before_the_start() {
    let twice = Server::builder().route("/a", get(async || "")).route("/a", put(async || ()));
    let refused = twice.bind(LOCALHOST).await.expect_err("a route is there twice");
    assert!(refused.to_string().contains("there twice"), "{refused}");
    let mut config = EndpointConfig::default();
    config.transmission.nstart = 0;
    assert!(Client::builder().config(config).build().is_err());
}
