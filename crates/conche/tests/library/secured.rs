//! `coaps`: client and server over DTLS.

use std::time::Duration;

use bytes::Bytes;
use conche::security::{Identity, Secret};
use conche::server::{Notifier, RequireSecured, Response, Router, get, put};
use conche::{Client, Code, ContentFormat, Error, Server};

use crate::own_address::own_address;
use crate::test_peers::keys;

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
    builder.bind(own_address()).await.expect("a port")
}

fn uri(server: &Server, path: &str) -> String {
    format!("coaps://{}{path}", server.local_addr())
}

// RFC 7252 §9.1.1 (Q225)
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
async fn each_server_is_shown_the_key_of_its_prefix() {
    let mut client = Client::builder().psk(*b"gateway", Secret::new(*b"of nobody")).expect("a key");
    let mut servers = Vec::new();
    for (host, key) in [("127.0.0.1", "one's own"), ("127.0.0.2", "the other's")] {
        let known = move |identity: &[u8]| (identity == b"gateway").then(|| Secret::new(key));
        let server = Server::builder().psk(known).route("/hello", get(async || "world")).bind((host, 0)).await;
        servers.push(server.expect("a port"));
        let prefix = format!("{host}/32").parse().expect("a prefix");
        client = client.psk_for(prefix, *b"gateway", Secret::new(key)).expect("a key");
    }
    let client = client.build().expect("valid");
    for server in &servers {
        assert_eq!(client.get(uri(server, "/hello")).await.expect("answered").code(), Code::CONTENT);
        let error = knowing(b"gateway", b"of nobody").get(uri(server, "/hello")).await.expect_err("another key");
        assert!(matches!(error, Error::Handshake { .. }), "{error:?}");
    }
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
async fn the_first_request_knows_its_path_from_the_handshake() {
    let (server, plain) = (server().await, Server::builder().bind("127.0.0.1:0").await.expect("a port"));
    let blind = Client::new().get(format!("coap://{}/", plain.local_addr())).await.expect("answered");
    assert!(blind.course().timeout >= Duration::from_secs(2), "{:?}", blind.course());
    let mut known = Vec::new();
    for _ in 0..5 {
        let answer = client().get(uri(&server, "/hello")).await.expect("answered");
        known.push(answer.course().timeout);
    }
    known.sort_unstable();
    assert!(known[0] < Duration::from_secs(2), "{known:?}");
}

#[tokio::test]
async fn a_body_of_64_kib_goes_both_ways() {
    let (server, client) = (server().await, client());
    let body: Vec<u8> = (0..65_536_u32).map(|index| (index / 7).to_le_bytes()[0]).collect();
    let answer = client.put(uri(&server, "/echo")).bytes(body.clone()).await.expect("answered");
    assert_eq!(answer.payload(), body);
}

#[tokio::test]
async fn notifications_arrive_through_the_dtls_session() {
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
async fn a_wrong_key_fails_the_handshake_and_the_request_is_not_sent() {
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
async fn without_credentials_the_error_names_the_missing_ones() {
    let server = server().await;
    let error = Client::new().get(uri(&server, "/hello")).await.expect_err("no key");
    assert!(
        error
            .to_string()
            .contains("there is no session with the server: neither a key nor trusted roots are configured"),
        "{error}"
    );
}

#[tokio::test]
async fn a_closed_dtls_port_is_reported_at_once() {
    let error = client().get("coaps://127.0.0.1:1/").await.expect_err("nobody");
    assert!(error.is_timeout_or_unreachable(), "{error}");
}

#[tokio::test]
async fn an_unprotected_request_to_a_dtls_server_gets_no_answer() {
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
async fn a_closing_server_ends_the_session_and_its_successor_gets_a_new_one() {
    let (first, client) = (server().await, client());
    let address = first.local_addr();
    assert!(client.get(uri(&first, "/hello")).await.is_ok());
    first.shutdown(Duration::from_secs(1)).await;
    // A request sent before the close arrives would fail with the session.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let builder = Server::builder().psk(keys).route("/hello", get(async || "again"));
    let second = builder.bind(address).await.expect("the same port");
    assert_eq!(client.get(uri(&second, "/hello")).await.expect("answered").text().expect("text"), "again");
}

// RFC 7252 §9.1 (Q224)
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

#[tokio::test]
async fn a_request_without_an_answer_ends_nothing_else_of_its_session() {
    let changed = Notifier::default();
    let state = get(async || "state").observed_by(&changed);
    let never = get(async || std::future::pending::<&str>().await);
    let builder = Server::builder().psk(keys).route("/state", state).route("/never", never);
    let server = builder.bind("127.0.0.1:0").await.expect("a port");
    let client = client();
    let mut states = client.get(uri(&server, "/state")).observe();
    assert!(states.next().await.expect("goes on").is_ok());
    let never = client.get(uri(&server, "/never")).timeout(Duration::from_millis(500)).await;
    assert!(never.expect_err("no answer").is_timeout_or_unreachable());
    changed.notify();
    let state = tokio::time::timeout(Duration::from_secs(8), states.next()).await.expect("told").expect("goes on");
    assert_eq!(state.expect("a state").text().expect("text"), "state");
}

#[tokio::test]
#[ignore = "takes a minute: until nothing has come for longer than Max-Age, and the old session is found to be forgotten"]
async fn an_observation_continues_in_the_next_session() {
    let observed = |text: &'static str| {
        let state = move || async move {
            Response::new(Code::CONTENT).payload(ContentFormat::TEXT_PLAIN, text).max_age(Duration::from_secs(1))
        };
        Server::builder().psk(keys).route("/state", get(state).observed_by(&Notifier::default()))
    };
    let first = observed("before").bind(own_address()).await.expect("a port");
    let address = first.local_addr();
    let client = client();
    let mut states = client.get(uri(&first, "/state")).observe();
    assert_eq!(states.next().await.expect("goes on").expect("a state").text().expect("text"), "before");
    drop(first);
    let second = loop {
        match observed("after").bind(address).await {
            Ok(second) => break second,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let state = tokio::time::timeout(Duration::from_secs(120), states.next()).await.expect("told").expect("goes on");
    assert_eq!(state.expect("a state").text().expect("text"), "after");
    drop(second);
}

#[tokio::test]
async fn two_names_of_a_server_share_a_session_with_a_key() {
    let slow = get(async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        "slow"
    });
    let builder = Server::builder().psk(keys).route("/slow", slow).route("/hello", get(async || "world"));
    let server = builder.bind("127.0.0.1:0").await.expect("a port");
    let client = client();
    let slow = tokio::spawn(client.get(uri(&server, "/slow")).send());
    tokio::time::sleep(Duration::from_millis(100)).await;
    let other = format!("coaps://localhost:{}/hello", server.local_addr().port());
    // The name may resolve to another address first.
    assert!(client.get(other).await.is_ok());
    assert_eq!(slow.await.expect("no panic").expect("answered").text().expect("text"), "slow");
}

// RFC 7252 §9.1.1 (Q225)
#[tokio::test]
async fn the_client_of_a_server_with_keys_asks_through_sessions_alone() {
    let server = server().await;
    let plain = Server::builder().route("/hello", get(async || "all")).bind("127.0.0.1:0").await.expect("a port");
    let error = server.client().get(format!("coap://{}/hello", plain.local_addr())).await.expect_err("refused");
    assert!(matches!(error, Error::Handshake { .. }) && !error.was_sent(), "{error:?}");

    // A client that serves receives requests through the session that it has opened.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = socket.local_addr().expect("an address");
    let device = Client::builder().psk(*b"lamp", Secret::new(*b"sesame")).expect("a key").socket(socket);
    let device = device.build().expect("valid");
    assert!(device.get(uri(&server, "/hello")).await.is_ok());
    let asked = server.client().get(format!("coaps://{at}/anything")).expect_peer(Identity::psk(b"lamp"));
    let answer = asked.await.expect("answered");
    assert_eq!(answer.code(), Code::NOT_FOUND, "it has no resources, but answers");
}

#[tokio::test]
async fn a_snapshot_of_a_session_is_found_by_its_address() {
    let (server, client) = (server().await, client());
    assert!(client.get(uri(&server, "/hello")).await.is_ok());
    assert!(client.snapshot(server.local_addr()).await.is_some());
}

#[test]
fn messages_that_no_record_carries_are_refused() {
    let mut config = conche::EndpointConfig::default();
    config.limits.message_bytes = 20_000;
    let builder = Client::builder().psk(*b"lamp", Secret::new(*b"sesame")).expect("a key");
    let error = builder.config(config).build().expect_err("too large");
    assert!(error.to_string().contains("at most 16384"), "{error}");
}

#[tokio::test]
async fn a_function_of_keys_that_panics_refuses_one_identity() {
    let panics = |identity: &[u8]| if identity == b"boom" { panic!("boom") } else { keys(identity) };
    let server = Server::builder().psk(panics).route("/hello", get(async || "world"));
    let server = server.bind("127.0.0.1:0").await.expect("a port");
    let error = knowing(b"boom", b"x").get(uri(&server, "/hello")).await.expect_err("refused");
    assert!(matches!(error, Error::Handshake { .. }), "{error:?}");
    assert!(client().get(uri(&server, "/hello")).await.is_ok());
    assert_eq!(server.stats().await.panics, 1);
}

#[tokio::test]
async fn a_closed_session_frees_its_observers() {
    let changed = Notifier::default();
    let mut config = conche::EndpointConfig::default();
    config.limits.observers = 4;
    let builder = Server::builder().psk(keys).config(config).route("/state", get(async || "s").observed_by(&changed));
    let server = builder.bind("127.0.0.1:0").await.expect("a port");
    for round in 0..6 {
        let client = client();
        let mut states = client.get(uri(&server, "/state")).observe();
        assert!(states.next().await.expect("goes on").is_ok());
        let next = tokio::time::timeout(Duration::from_millis(50), states.next()).await;
        assert!(next.is_err(), "{round}: who does not observe hears the end at once");
        // The driver closes the session without cancelling the observation.
        states.forget();
        drop(client);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn sessions_that_are_over_leave_their_places_among_peers_to_others() {
    let mut config = conche::EndpointConfig::default();
    // One network has half of this. Non-confirmable requests need a slot.
    config.limits.peers = 16;
    let server = Server::builder().psk(keys).config(config).route("/hello", get(async || "world"));
    let server = server.bind("127.0.0.1:0").await.expect("a port");
    for round in 0..60 {
        let client = client();
        let answer = client.get(uri(&server, "/hello")).non().timeout(Duration::from_secs(10)).await;
        assert_eq!(answer.unwrap_or_else(|error| panic!("{round}: {error}")).payload(), b"world");
    }
}

#[tokio::test]
async fn a_request_after_a_timed_out_handshake_starts_a_new_one() {
    let mute = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = mute.local_addr().expect("an address");
    let client = client();
    for _ in 0..3 {
        let asked = client.get(format!("coaps://{address}/")).timeout(Duration::from_millis(100)).await;
        let error = asked.expect_err("nobody answers");
        assert!(error.is_timeout_or_unreachable(), "{error:?}");
    }
}

#[tokio::test]
async fn servers_that_are_silent_hold_up_no_other() {
    let mute = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = mute.local_addr().expect("an address").port();
    let (server, client) = (server().await, client());
    let mut waiting = Vec::new();
    for host in 0..600_u32 {
        let address = std::net::Ipv4Addr::from(0x7f01_0000 + host);
        waiting.push(tokio::spawn(client.get(format!("coaps://{address}:{port}/")).send()));
    }
    tokio::task::yield_now().await;
    assert!(client.get(uri(&server, "/hello")).await.is_ok());
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}
