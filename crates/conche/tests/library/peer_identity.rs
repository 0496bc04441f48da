//! A request reaches only the peer that it names.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conche::client::CacheLimits;
use conche::oscore::{Credentials, EndId, Keys};
use conche::security::{Certificate, Identity, OwnCertificate, Roots, Secret};
use conche::server::{Notifier, Peer, Response, get, post, put};
use conche::{Client, Code, ContentFormat, Error, Server, edhoc};

use crate::test_peers::{Act, LONG, OnPathAttacker, Toward};

const LAMP: &[u8] = b"lamp";
const MALLORY: &[u8] = b"mallory";

fn keys(identity: &[u8]) -> Option<Secret> {
    match identity {
        b"lamp" => Some(Secret::new(*b"the lamp's key")),
        b"mallory" => Some(Secret::new(*b"mallory's key")),
        _ => None,
    }
}

fn key_of(identity: &[u8]) -> Secret {
    keys(identity).expect("it has one")
}

async fn registry() -> Server {
    registry_at("127.0.0.1:0").await
}

async fn registry_at(address: &str) -> Server {
    let register = post(async |Peer(peer): Peer, identity: Identity| format!("{peer} {identity}"));
    Server::builder().psk(keys).route("/register", register).bind(address).await.expect("a port")
}

async fn device(identity: &[u8]) -> (Server, Arc<AtomicUsize>) {
    let reached = Arc::new(AtomicUsize::new(0));
    let count = {
        let reached = Arc::clone(&reached);
        move || {
            reached.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (on_put, on_get) = (count.clone(), count);
    let builder = Server::builder().outgoing_psk(identity, key_of(identity)).expect("a key").secured_only();
    let builder = builder.route(
        "/code",
        put(move || {
            on_put();
            async {}
        }),
    );
    let model = identity.to_vec();
    let route = get(move || {
        on_get();
        let model = model.clone();
        async move { model }
    });
    let device = builder.route("/model", route).bind("127.0.0.1:0").await.expect("a port");
    (device, reached)
}

async fn register(device: &Client, at: SocketAddr) -> SocketAddr {
    let response = device.post(format!("coaps://{at}/register")).await.expect("answered");
    let text = response.text().expect("text");
    text.split(' ').next().and_then(|address| address.parse().ok()).expect("an address")
}

fn mismatch(error: &Error) -> (Option<Identity>, Option<Identity>) {
    match error {
        Error::UnexpectedPeer { mismatch, .. } => (mismatch.expected().cloned(), mismatch.authenticated().cloned()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_request_for_a_peer_does_not_reach_another_that_took_its_address() {
    let server = registry().await;
    let nat = OnPathAttacker::before(server.local_addr()).await;
    let ((lamp, reached_lamp), (mallory, reached_mallory)) = (device(LAMP).await, device(MALLORY).await);
    let at = register(&lamp.client(), nat.address).await;
    let secret = || {
        let request = server.client().put(format!("coaps://{at}/code"));
        request.payload(ContentFormat::TEXT_PLAIN, "for the lamp alone").expect_peer(Identity::psk(LAMP))
    };
    let response = secret().await.expect("answered");
    assert_eq!(response.code(), Code::CHANGED);
    assert_eq!(response.peer_identity(), Some(&Identity::psk(LAMP)));

    assert_eq!(register(&mallory.client(), nat.address).await, at);
    let error = secret().await.expect_err("the lamp has gone");
    assert_eq!(mismatch(&error), (Some(Identity::psk(LAMP)), Some(Identity::psk(MALLORY))));
    assert!(!error.was_sent());
    let text = error.to_string();
    assert!(text.contains("expects the PSK identity lamp") && text.contains("the PSK identity mallory"), "{text}");

    let asked = server.client().get(format!("coaps://{at}/model")).expect_peer(Identity::psk(MALLORY)).await;
    assert_eq!(asked.expect("answered").peer_identity(), Some(&Identity::psk(MALLORY)));
    let reached = [reached_lamp, reached_mallory].map(|reached| reached.load(Ordering::Relaxed));
    assert_eq!(reached, [1, 1], "each got what was for it");
}

#[tokio::test]
async fn a_request_that_names_no_peer_uses_no_session_that_the_peer_has_opened() {
    let (server, (lamp, reached)) = (registry().await, device(LAMP).await);
    let at = register(&lamp.client(), server.local_addr()).await;
    for host in [at.ip().to_string(), "localhost".to_owned()] {
        let asked = server.client().get(format!("coaps://{host}:{}/model", at.port())).await;
        let error = asked.expect_err("whose answer would it be");
        if let Error::UnexpectedPeer { .. } = error {
            assert_eq!(mismatch(&error), (None, Some(Identity::psk(LAMP))));
            assert!(error.to_string().contains("expect_peer"), "{error}");
        } else {
            assert!(matches!(error, Error::Handshake { .. }), "{error:?}");
        }
    }
    assert_eq!(reached.load(Ordering::Relaxed), 0);
}

async fn is_managed_through_its_session(of_device: &str, of_server: &str) {
    let changed = Notifier::default();
    let builder = Server::builder().outgoing_psk(LAMP, key_of(LAMP)).expect("a key").secured_only();
    let state = {
        let count = Arc::new(AtomicUsize::new(0));
        get(move || {
            let count = count.fetch_add(1, Ordering::Relaxed);
            async move { Response::new(Code::CONTENT).payload(ContentFormat::TEXT_PLAIN, count.to_string()) }
        })
    };
    let builder = builder.route("/state", state.observed_by(&changed));
    let builder = builder.route("/who", get(async |who: Identity| who.to_string()));
    let lamp = builder.bind(of_device).await.expect("a port");
    let server = registry_at(of_server).await;
    let at = register(&lamp.client(), SocketAddr::from(([127, 0, 0, 1], server.local_addr().port()))).await;
    assert_eq!(at.port(), lamp.local_addr().port(), "both roles have one socket");

    let ask = |path: &str| server.client().get(format!("coaps://{at}{path}")).expect_peer(Identity::psk(LAMP));
    assert_eq!(ask("/who").await.expect("answered").text().expect("text"), "lamp", "its server has the lamp's key");
    let mut states = ask("/state").observe();
    for expected in ["0", "1", "2"] {
        let state = tokio::time::timeout(LONG, states.next()).await.expect("in time").expect("goes on");
        let state = state.expect("a state");
        assert_eq!(state.text().expect("text"), expected);
        assert_eq!(state.peer_identity(), Some(&Identity::psk(LAMP)));
        changed.notify();
    }
}

#[tokio::test]
async fn the_server_manages_a_device_through_the_session_that_the_device_has_opened() {
    for of_device in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        for of_server in ["127.0.0.1:0", "[::]:0"] {
            is_managed_through_its_session(of_device, of_server).await;
        }
    }
}

#[tokio::test]
async fn a_device_without_incoming_credentials_lets_no_client_in() {
    let (lamp, reached) = device(LAMP).await;
    let answer = Client::new().get(format!("coap://{}/model", lamp.local_addr())).await.expect("answered");
    assert_eq!((answer.code(), answer.peer_identity()), (Code::UNAUTHORIZED, None));
    let client = Client::builder().psk(LAMP, key_of(LAMP)).expect("a key").build().expect("valid");
    let asked =
        client.get(format!("coaps://{}/model", lamp.local_addr())).timeout(std::time::Duration::from_millis(300));
    assert!(matches!(asked.await, Err(Error::Handshake { .. })));
    assert_eq!(reached.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_server_opens_sessions_of_its_own_beside_those_of_its_clients() {
    let server = registry().await;
    let device = Server::builder().psk(|_: &[u8]| Some(Secret::new(*b"of a gateway")));
    let device = device.outgoing_psk(LAMP, key_of(LAMP)).expect("a key").route("/model", get(async || "lamp"));
    // The function also returns another key for the lamp's own identity.
    let error = device.clone().bind("127.0.0.1:0").await.expect_err("one identity, two keys");
    assert!(error.to_string().contains("\"lamp\" has one key in ServerBuilder::psk and another"), "{error}");

    let gateways = |identity: &[u8]| (identity == b"gateway").then(|| Secret::new(*b"of a gateway"));
    let device = device.psk(gateways).bind("127.0.0.1:0").await.expect("a port");
    register(&device.client(), server.local_addr()).await;
    let gateway = Client::builder().psk(*b"gateway", Secret::new(*b"of a gateway")).expect("a key");
    let answer = gateway.build().expect("valid").get(format!("coaps://{}/model", device.local_addr())).await;
    assert_eq!(answer.expect("answered").text().expect("text"), "lamp");
}

#[tokio::test]
async fn a_client_is_answered_while_its_server_begins_a_handshake_with_the_same_address() {
    for of_server in ["127.0.0.1:0", "0.0.0.0:0"] {
        let server = Server::builder().psk(keys).outgoing_psk(LAMP, key_of(LAMP)).expect("a key");
        let server = server.route("/register", post(async |Peer(peer): Peer| format!("{peer} -")));
        let server = server.bind(of_server).await.expect("a port");
        let path = OnPathAttacker::before(SocketAddr::from(([127, 0, 0, 1], server.local_addr().port()))).await;
        let client = Client::builder().psk(LAMP, key_of(LAMP)).expect("a key").build().expect("valid");
        let at = register(&client, path.address).await;

        path.act(Toward::Client, 0, Act::Hold);
        let handshake = tokio::spawn(server.client().get(format!("coaps://{at}/model")).send());
        path.holds(Toward::Client, 1).await;
        path.act(Toward::Client, 0, Act::Pass);
        // The client accepts no handshake.
        let answered = tokio::time::timeout(LONG, register(&client, path.address)).await;
        assert_eq!(answered.expect("in time"), at, "a server at {of_server}");
        handshake.abort();
    }
}

#[tokio::test]
async fn a_client_expects_the_key_for_the_address_or_the_one_that_it_names() {
    let server = registry().await;
    let uri = format!("coaps://{}/register", server.local_addr());
    let client = Client::builder().psk(LAMP, key_of(LAMP)).expect("a key").build().expect("valid");
    for session in ["none", "open"] {
        let error = client.post(&uri).expect_peer(Identity::psk(MALLORY)).await.expect_err("another key");
        assert_eq!(mismatch(&error), (Some(Identity::psk(MALLORY)), Some(Identity::psk(LAMP))), "{session}");
        let response = client.post(&uri).expect_peer(Identity::psk(LAMP)).await.expect("answered");
        assert_eq!(response.peer_identity(), Some(&Identity::psk(LAMP)));
    }
    assert_eq!(server.stats().await.requests_received, 2);
}

macro_rules! pem {
    ($name:literal) => {
        include_bytes!(concat!("../../../../tools/interop/credentials/", $name))
    };
}

#[tokio::test]
async fn a_certificate_names_the_peer_in_both_directions() {
    let roots = || Roots::from_pem(pem!("ca.pem")).expect("a root");
    let own = |certificate: &[u8], key: &[u8]| OwnCertificate::from_pem(certificate, key).expect("a pair");
    let server_side = own(pem!("server.pem"), pem!("server.key"));
    let register = post(async |Peer(peer): Peer, who: Identity| match who {
        Identity::Certificate(certificate) => Response::new(Code::CHANGED)
            .payload(ContentFormat::OCTET_STREAM, [peer.to_string().as_bytes(), b" ", certificate.der()].concat()),
        _ => Response::new(Code::FORBIDDEN),
    });
    let server = Server::builder().certificate(server_side).client_roots(roots()).route("/register", register);
    let server = server.bind("127.0.0.1:0").await.expect("a port");
    let device =
        Server::builder().outgoing_roots(roots()).outgoing_certificate(own(pem!("client.pem"), pem!("client.key")));
    let device = device.secured_only().route("/who", get(async |who: Identity| who.to_string()));
    let device = device.bind("127.0.0.1:0").await.expect("a port");

    let response = device.client().post(format!("coaps://{}/register", server.local_addr())).await.expect("answered");
    let Some(Identity::Certificate(of_server)) = response.peer_identity() else { panic!("{response:?}") };
    assert_eq!(of_server.common_name().as_deref(), Some("server"));
    assert_eq!(of_server.alternative_names(), ["localhost"]);
    let space = response.payload().iter().position(|byte| *byte == b' ').expect("two words");
    let (at, der) = response.payload().split_at(space);
    let at = std::str::from_utf8(at).expect("text");
    let of_device = Certificate::from_der(&der[1..]);
    assert_eq!(of_device.subject().as_deref(), Some("CN=client"));
    assert_eq!(of_device.alternative_names(), ["lamp-7.example"]);

    let ask = |expected: &Certificate| {
        let request = server.client().get(format!("coaps://{at}/who"));
        request.expect_peer(Identity::Certificate(expected.clone()))
    };
    let answer = ask(&of_device).await.expect("answered");
    assert_eq!(answer.text().expect("text"), "CN=server", "the device knows its server");
    let error = ask(of_server).await.expect_err("another certificate");
    let authenticated = mismatch(&error).1;
    assert_eq!(authenticated, Some(Identity::Certificate(of_device)));
}

#[tokio::test]
async fn waiting_requests_get_the_session_that_a_handshake_brings_only_if_they_expect_its_peer() {
    let roots = Roots::from_pem(pem!("ca.pem")).expect("a root");
    let own = OwnCertificate::from_pem(pem!("server.pem"), pem!("server.key")).expect("a pair");
    let server = Server::builder().certificate(own).route("/hello", get(async || "world"));
    let server = server.bind("127.0.0.1:0").await.expect("a port");
    let client = Client::builder().roots(roots).build().expect("valid");
    let request = || client.get(format!("coaps://{}/hello", server.local_addr()));
    let other = Identity::Certificate(Certificate::from_der(*b"of somebody else"));
    let (either, other) = tokio::join!(request().send(), request().expect_peer(other).send());
    assert_eq!(either.expect("answered").text().expect("text"), "world");
    let error = other.expect_err("another certificate");
    assert!(error.to_string().contains("authenticate the certificate of CN=server"), "{error}");
    assert_eq!(server.stats().await.requests_received, 1);
}

#[tokio::test]
async fn a_cached_response_of_one_peer_identity_is_not_used_for_another() {
    let server = Server::builder().psk(keys).client_cache(CacheLimits::default());
    let server = server.route("/register", post(async |Peer(peer): Peer| peer.to_string()));
    let server = server.bind("127.0.0.1:0").await.expect("a port");
    let nat = OnPathAttacker::before(server.local_addr()).await;
    let ((lamp, _), (mallory, _)) = (device(LAMP).await, device(MALLORY).await);
    let mut at = None;
    for (device, identity) in [(&mallory, MALLORY), (&lamp, LAMP)] {
        let seen = register(&device.client(), nat.address).await;
        assert_eq!(*at.get_or_insert(seen), seen);
        let model = server.client().get(format!("coaps://{seen}/model")).expect_peer(Identity::psk(identity));
        for cached in [false, true] {
            let answer = model.clone().await.expect("answered");
            assert_eq!((answer.payload(), answer.age().is_some()), (identity, cached));
            assert_eq!(answer.peer_identity(), Some(&Identity::psk(identity)));
        }
    }
}

#[tokio::test]
async fn a_request_that_expects_a_peer_is_not_sent_without_protection() {
    let server = Server::builder().route("/code", put(async || ())).bind("127.0.0.1:0").await.expect("a port");
    let request = Client::new().put(format!("coap://{}/code", server.local_addr()));
    let error = request.expect_peer(Identity::psk(LAMP)).await.expect_err("nothing protects it");
    assert_eq!(mismatch(&error), (Some(Identity::psk(LAMP)), None));
    let group = Client::new().get("coap://224.0.1.187/").expect_peer(Identity::psk(LAMP)).multicast().await;
    assert!(matches!(group, Err(Error::UnexpectedPeer { .. })));
    assert_eq!(server.stats().await.datagrams_received, 0);
}

#[tokio::test]
async fn a_response_names_the_oscore_keys_that_protect_it() {
    let id = |id: &[u8]| EndId::new(id).expect("short");
    let changed = Notifier::default();
    let keys = |ours, theirs| Keys::for_this_run(Credentials::new(*b"sixteen of bytes", id(ours), id(theirs)));
    let [ours, theirs] = [keys(b"c", b"s"), keys(b"s", b"c")].map(|keys| keys.expect("new"));
    let server_identity = Identity::Oscore(ours.peer());
    let state = get(async || "state").observed_by(&changed);
    let server = Server::builder().oscore(theirs).route("/state", state).bind("127.0.0.1:0").await.expect("a port");
    let client = Client::builder().oscore(ours).build().expect("valid");
    let request = || client.get(format!("coap://{}/state", server.local_addr()));
    let mut states = request().expect_peer(server_identity.clone()).observe();
    for _ in 0..2 {
        let state = tokio::time::timeout(LONG, states.next()).await.expect("in time").expect("goes on");
        assert_eq!(state.expect("a state").peer_identity(), Some(&server_identity));
        changed.notify();
    }
    let error = request().expect_peer(Identity::psk(LAMP)).await.expect_err("other keys");
    assert_eq!(mismatch(&error), (Some(Identity::psk(LAMP)), Some(server_identity)));
}

#[tokio::test]
async fn a_request_that_expects_an_edhoc_identity_goes_only_to_that_peer() {
    let own = |kid: &[u8], name: &str| {
        let key = edhoc::generate().expect("randomness");
        let credential = edhoc::Credential::of(&key, kid, name).expect("legal");
        edhoc::OwnCredential::new(key, credential).expect("a pair")
    };
    let (gateway, hall, lamp) = (own(b"\x01", "gateway"), own(b"\x02", "hall"), own(b"\x03", "lamp"));
    let [of_hall, of_lamp] = [&hall, &lamp].map(|own| own.credential().clone());
    let party = edhoc::Party::new(lamp).with_peer(gateway.credential().clone()).expect("another key");
    let server = Server::builder().edhoc(party).secured_only().route("/code", get(async || "lamp"));
    let server = server.bind("127.0.0.1:0").await.expect("a port");
    for combined in [false, true] {
        let party = edhoc::Party::new(gateway.clone()).combined(combined);
        let party = party.with_peer(of_hall.clone()).and_then(|party| party.with_peer(of_lamp.clone()));
        let client = Client::builder().edhoc(party.expect("known").expecting_any()).build().expect("valid");
        let request = || client.get(format!("coap://{}/code", server.local_addr()));
        let expect = |credential: &edhoc::Credential| Identity::Edhoc(edhoc::Identity::of(credential.clone()));
        let error = request().expect_peer(expect(&of_hall)).await.expect_err("it is the lamp");
        assert_eq!(mismatch(&error), (Some(expect(&of_hall)), Some(expect(&of_lamp))));
        let response = request().expect_peer(expect(&of_lamp)).await.expect("answered");
        assert_eq!(response.peer_identity(), Some(&expect(&of_lamp)));
    }
}

#[tokio::test]
async fn credentials_that_would_never_be_used_are_refused() {
    let roots = || Roots::from_pem(pem!("ca.pem")).expect("a root");
    let own = || OwnCertificate::from_pem(pem!("client.pem"), pem!("client.key")).expect("a pair");
    let error = Client::builder().certificate(own()).build().expect_err("no roots");
    assert!(error.to_string().contains("add ClientBuilder::roots"), "{error}");
    let servers = [
        (Server::builder().outgoing_certificate(own()), "ServerBuilder::outgoing_roots"),
        (Server::builder().client_roots(roots()), "client_roots has no effect without ServerBuilder::certificate"),
    ];
    for (server, expected) in servers {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let error = server.socket(socket).await.expect_err("a contradiction");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(Server::builder().outgoing_roots(roots()).secured_only().bind("127.0.0.1:0").await.is_ok());
}
