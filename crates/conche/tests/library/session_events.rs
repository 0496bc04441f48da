//! Events of DTLS sessions.

use std::time::Duration;

use conche::client::ClientBuilder;
use conche::security::{
    HandshakeFailure, Identity, OwnCertificate, Roots, Secret, SessionEnd, SessionEvent, SessionInfo,
};
use conche::server::{ServerBuilder, get};
use conche::{Client, Error, Server};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::own_address::own_address;
use crate::test_peers::{LONG, ManualEndpoint, keys};

macro_rules! pem {
    ($name:literal) => {
        include_bytes!(concat!("../../../../tools/interop/credentials/", $name))
    };
}

struct Events(UnboundedReceiver<SessionEvent>);

impl Events {
    async fn next(&mut self) -> SessionEvent {
        timeout(LONG, self.0.recv()).await.expect("in time").expect("an event")
    }

    async fn opened(&mut self) -> SessionInfo {
        match self.next().await {
            SessionEvent::Opened { session, .. } => session,
            other => panic!("{other:?}"),
        }
    }

    async fn closed(&mut self) -> (SessionInfo, SessionEnd) {
        match self.next().await {
            SessionEvent::Closed { session, reason, .. } => (session, reason),
            other => panic!("{other:?}"),
        }
    }
}

/// The function for `on_session`, and its events.
fn events() -> (impl Fn(&SessionEvent) + Send + Sync + 'static, Events) {
    let (sender, events) = unbounded_channel();
    (move |event: &SessionEvent| drop(sender.send(event.clone())), Events(events))
}

async fn serve(builder: ServerBuilder) -> (Server, Events) {
    let (observe, events) = events();
    let server = builder.on_session(observe).route("/hello", get(async || "world"));
    (server.bind(own_address()).await.expect("a port"), events)
}

#[tokio::test]
async fn a_closed_client_leaves_no_session_at_its_server_and_opens_none() {
    let (server, mut events) = serve(Server::builder().psk(keys)).await;
    let uri = format!("coaps://{}/hello", server.local_addr());
    let client = lamp().build().expect("legal settings");
    client.get(&uri).await.expect("an answer");
    let opened = events.opened().await;
    client.close(LONG).await;
    assert_eq!(events.closed().await, (opened, SessionEnd::CloseNotify));
    let error = client.get(&uri).await.expect_err("it is closed");
    assert!(matches!(error, Error::Stopped), "{error}");
}

fn lamp() -> ClientBuilder {
    Client::builder().psk(*b"lamp", Secret::new(*b"sesame")).expect("a key")
}

fn uri(server: &Server) -> String {
    format!("coaps://{}/hello", server.local_addr())
}

#[tokio::test]
async fn both_ends_report_a_session_that_a_client_opens_and_closes() {
    let (server, mut at_server) = serve(Server::builder().psk(keys)).await;
    let (observe, mut at_client) = events();
    let client = lamp().on_session(observe).build().expect("valid");
    for _ in 0..2 {
        assert!(client.get(uri(&server)).await.is_ok());
    }
    drop(client);
    let (served, asked) = (at_server.opened().await, at_client.opened().await);
    assert_eq!((served.id, served.is_outgoing, &served.identity), (1, false, &Some(Identity::psk(b"lamp"))));
    assert_eq!((asked.id, asked.is_outgoing, &asked.identity), (1, true, &Some(Identity::psk(b"lamp"))));
    assert_eq!(asked.peer, server.local_addr());
    assert_eq!(at_server.closed().await, (served, SessionEnd::CloseNotify));
    assert_eq!(at_client.closed().await, (asked, SessionEnd::Stopped));
}

#[tokio::test]
async fn a_server_that_stops_reports_the_end_of_its_sessions() {
    let (server, mut at_server) = serve(Server::builder().psk(keys)).await;
    let (observe, mut at_client) = events();
    let client = lamp().on_session(observe).build().expect("valid");
    assert!(client.get(uri(&server)).await.is_ok());
    server.shutdown(Duration::from_secs(1)).await;
    let opened = at_server.opened().await;
    assert_eq!(at_server.closed().await, (opened, SessionEnd::Stopped));
    let opened = at_client.opened().await;
    assert_eq!(at_client.closed().await, (opened, SessionEnd::CloseNotify));
}

#[tokio::test]
async fn a_session_without_a_place_is_reported_as_evicted() {
    let (server, mut events) = serve(Server::builder().psk(keys).max_sessions(1)).await;
    let (first, second) = (lamp().build().expect("valid"), lamp().build().expect("valid"));
    assert!(first.get(uri(&server)).await.is_ok());
    assert!(second.get(uri(&server)).await.is_ok());
    let first = events.opened().await;
    assert_eq!(events.opened().await.id, 2);
    assert_eq!(events.closed().await, (first, SessionEnd::Evicted));
}

/// RFC 6347 §4.2.8.
#[tokio::test]
async fn the_end_of_a_replaced_session_comes_before_its_successor() {
    let (server, mut events) = serve(Server::builder().psk(keys)).await;
    let before = ManualEndpoint::client(server.local_addr()).await;
    let address = before.address();
    let _after = before.restarted(server.local_addr()).await;
    let first = events.opened().await;
    assert_eq!(events.closed().await, (first, SessionEnd::Replaced));
    let second = events.opened().await;
    assert_eq!((second.id, second.peer), (2, address));
}

#[tokio::test]
async fn a_failed_handshake_is_reported_with_the_claimed_identity() {
    for key in [&b"sesame"[..], b"wrong"] {
        let identity: &[u8] = if key == b"sesame" { b"nobody" } else { b"lamp" };
        let (server, mut events) = serve(Server::builder().psk(keys)).await;
        let client = Client::builder().psk(identity, Secret::new(key)).expect("a key").build().expect("valid");
        assert!(client.get(uri(&server)).await.is_err());
        let SessionEvent::HandshakeFailed { claimed, reason, .. } = events.next().await else { panic!("no failure") };
        assert_eq!((claimed, reason), (Some(Identity::psk(identity)), HandshakeFailure::Key));
    }
    let roots = Roots::from_pem(pem!("ca.pem")).expect("a root");
    let (server, mut events) = serve(Server::builder().psk(keys)).await;
    let client = Client::builder().roots(roots).build().expect("valid");
    assert!(client.get(uri(&server)).await.is_err());
    let SessionEvent::HandshakeFailed { claimed, reason, .. } = events.next().await else { panic!("no failure") };
    assert_eq!((claimed, reason), (None, HandshakeFailure::NotSupported));
}

#[tokio::test]
async fn an_event_has_the_names_of_a_certificate() {
    let roots = || Roots::from_pem(pem!("ca.pem")).expect("a root");
    let own = |certificate: &[u8], key: &[u8]| OwnCertificate::from_pem(certificate, key).expect("a pair");
    let builder = Server::builder().certificate(own(pem!("server.pem"), pem!("server.key"))).client_roots(roots());
    let ((observe, mut at_server), (observe_client, mut at_client)) = (events(), events());
    // The certificate names this address.
    let builder = builder.on_session(observe).route("/hello", get(async || "world"));
    let server = builder.bind("127.0.0.1:0").await.expect("a port");
    let client = Client::builder().roots(roots()).certificate(own(pem!("client.pem"), pem!("client.key")));
    let client = client.on_session(observe_client).build().expect("valid");
    assert!(client.get(uri(&server)).await.is_ok());
    for (events, name) in [(&mut at_server, "client"), (&mut at_client, "server")] {
        let Some(Identity::Certificate(certificate)) = events.opened().await.identity else { panic!("no certificate") };
        assert_eq!(certificate.common_name().as_deref(), Some(name));
    }
}

#[tokio::test]
async fn a_function_that_panics_ends_no_session() {
    let server = Server::builder().psk(keys).on_session(|_| panic!("planted")).route("/hello", get(async || "world"));
    let server = server.bind(own_address()).await.expect("a port");
    let client = lamp().build().expect("valid");
    assert!(client.get(uri(&server)).await.is_ok());
    assert_eq!(server.stats().await.panics, 1);
}
