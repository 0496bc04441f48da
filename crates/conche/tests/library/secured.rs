//! `coaps`: client and server over DTLS.

use std::time::Duration;

use bytes::Bytes;
use conche::security::{Identity, Secret};
use conche::server::{Notifier, RequireSecured, Router, get, put};
use conche::{Client, Code, Error, Server};

fn keys(identity: &[u8]) -> Option<Secret> {
    (identity == b"lamp").then(|| Secret::new(*b"sesame"))
}

fn client() -> Client {
    knowing(b"lamp", b"sesame")
}

fn knowing(identity: &[u8], key: &[u8]) -> Client {
    let builder = Client::builder().psk(identity, Secret::new(key)).expect("a key");
    builder.build().expect("valid")
}

async fn server() -> Server {
    let builder = Server::builder().psk(keys).route("/hello", get(async || "world"));
    let builder = builder.route("/echo", put(async |bytes: Bytes| bytes));
    builder.bind("127.0.0.1:0").await.expect("a port")
}

fn uri(server: &Server, path: &str) -> String {
    format!("coaps://{}{path}", server.local_addr())
}

#[tokio::test]
async fn one_session_carries_all_requests() {
    let (server, client) = (server().await, client());
    for _ in 0..20 {
        assert_eq!(client.get(uri(&server, "/hello")).await.expect("answered").text().expect("text"), "world");
    }
    assert_eq!(server.stats().await.requests_received, 20);
    assert!(client.ping(uri(&server, "")).await.is_ok());
}

#[tokio::test]
async fn many_at_once_share_a_handshake() {
    let (server, client) = (server().await, client());
    let requests: Vec<_> = (0..50).map(|_| tokio::spawn(client.get(uri(&server, "/hello")).send())).collect();
    for request in requests {
        assert_eq!(request.await.expect("no panic").expect("answered").text().expect("text"), "world");
    }
}

#[tokio::test]
async fn a_body_of_64_kib_goes_both_ways() {
    let (server, client) = (server().await, client());
    let body: Vec<u8> = (0..65_536_u32).map(|index| (index / 7).to_le_bytes()[0]).collect();
    let answer = client.put(uri(&server, "/echo")).bytes(body.clone()).await.expect("answered");
    assert_eq!(answer.payload(), body);
}

#[tokio::test]
async fn what_is_observed_comes_through_the_session() {
    let changed = Notifier::default();
    let resource = get(async || "state").observed_by(&changed);
    let server = Server::builder().psk(keys).route("/state", resource).bind("127.0.0.1:0").await.expect("a port");
    let mut states = client().get(uri(&server, "/state")).observe();
    for _ in 0..2 {
        let state = states.next().await.expect("goes on").expect("a state");
        assert_eq!(state.text().expect("text"), "state");
        changed.notify();
    }
}

#[tokio::test]
async fn a_wrong_key_is_told_and_the_request_was_not_sent() {
    let server = server().await;
    for wrong in [knowing(b"lamp", b"simsim"), knowing(b"nobody", b"sesame")] {
        let error = wrong.get(uri(&server, "/hello")).timeout(Duration::from_secs(20)).await.expect_err("refused");
        assert!(matches!(error, Error::Handshake { .. }), "{error:?}");
        assert!(!error.was_sent());
    }
    assert_eq!(server.stats().await.datagrams_received, 0, "no message got through");
    assert!(client().get(uri(&server, "/hello")).await.is_ok());
}

#[tokio::test]
async fn without_a_key_the_error_says_what_is_missing() {
    let server = server().await;
    let error = Client::new().get(uri(&server, "/hello")).await.expect_err("no key");
    let why = std::error::Error::source(&error).expect("a reason").to_string();
    assert!(why.starts_with("there is no key to show"), "{why}");
}

#[tokio::test]
async fn nobody_at_the_port_is_told_at_once() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let error = client().get(format!("coaps://{free}/")).await.expect_err("nobody");
    assert!(error.is_timeout_or_unreachable(), "{error}");
}

#[tokio::test]
async fn what_is_not_protected_gets_no_answer() {
    let server = server().await;
    let plain = Client::new().get(format!("coap://{}/hello", server.local_addr()));
    let error = plain.timeout(Duration::from_millis(300)).await.expect_err("no answer");
    assert!(error.is_timeout_or_unreachable(), "{error}");
    assert_eq!(server.stats().await.datagrams_received, 0);
}

#[tokio::test]
async fn one_client_asks_with_and_without_a_session() {
    let (secured, client) = (server().await, client());
    let plain = Server::builder().route("/hello", get(async || "all")).bind("127.0.0.1:0").await.expect("a port");
    let asked = client.get(format!("coap://{}/hello", plain.local_addr())).await.expect("answered");
    assert_eq!(asked.text().expect("text"), "all");
    assert_eq!(client.get(uri(&secured, "/hello")).await.expect("answered").text().expect("text"), "world");
}

#[tokio::test]
async fn a_server_that_went_says_so_and_the_next_has_a_new_session() {
    let (first, client) = (server().await, client());
    let address = first.local_addr();
    assert!(client.get(uri(&first, "/hello")).await.is_ok());
    first.shutdown(Duration::from_secs(1)).await;
    // A request that left before it heard of that would fail with the session.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let builder = Server::builder().psk(keys).route("/hello", get(async || "again"));
    let second = builder.bind(address).await.expect("the same port");
    assert_eq!(client.get(uri(&second, "/hello")).await.expect("answered").text().expect("text"), "again");
}

#[tokio::test]
async fn a_group_cannot_be_asked_over_coaps() {
    let error = client().get("coaps://224.0.1.187/").multicast().await.expect_err("no group");
    assert!(matches!(error, Error::SecuredGroup), "{error:?}");
}

#[tokio::test]
async fn a_handler_learns_whose_key_it_was_and_a_layer_keeps_others_out() {
    let router = Router::new().route("/who", get(async |who: Identity| who.to_string())).layer(RequireSecured);
    let secured = Server::builder().psk(keys).router(router.clone()).bind("127.0.0.1:0").await.expect("a port");
    let plain = Server::builder().router(router).bind("127.0.0.1:0").await.expect("a port");
    let client = client();
    assert_eq!(client.get(uri(&secured, "/who")).await.expect("answered").text().expect("text"), "lamp");
    let answer = client.get(format!("coap://{}/who", plain.local_addr())).await.expect("answered");
    assert_eq!(answer.code(), Code::UNAUTHORIZED);
}
