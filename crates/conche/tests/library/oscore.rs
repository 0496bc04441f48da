//! OSCORE between client and server (RFC 8613).

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use conche::oscore::{Credentials, EndId, Identity, Keys, KeysError, NumberStore, ReplayWindow, Start};
use conche::server::{BindError, Notifier, RequireSecured, Router, get, put};
use conche::{Client, Code, ConfigError, ContentFormat, Error, Failure, Server};

use crate::own_address::own_address;

const CLIENT: &[u8] = b"c";
const SERVER: &[u8] = b"s";

/// Each test has its own secret: keys in use at the same time must differ.
fn credentials(own: &[u8], other: &[u8]) -> Credentials {
    static TESTS: AtomicU64 = AtomicU64::new(0);
    thread_local!(static TEST: Cell<u64> = Cell::new(TESTS.fetch_add(1, Ordering::SeqCst)));
    let [own, other] = [own, other].map(|id| EndId::new(id).expect("short"));
    Credentials::new([TEST.get().to_be_bytes(); 2].concat(), own, other)
}

fn keys(own: &[u8], other: &[u8]) -> Keys {
    Keys::for_this_run(credentials(own, other)).expect("legal credentials")
}

fn client() -> Client {
    Client::builder().oscore(keys(CLIENT, SERVER)).build().expect("legal settings")
}

async fn server(router: Router) -> Server {
    let server = Server::builder().oscore(keys(SERVER, CLIENT)).router(router);
    server.bind("127.0.0.1:0").await.expect("the loopback can be bound")
}

async fn who(identity: Identity) -> String {
    identity.to_string()
}

#[tokio::test]
async fn a_handler_receives_the_oscore_identity_and_a_client_without_keys_4_01() {
    let router = Router::new().route("/who", get(who)).route("/open", get(async || "open"));
    let server = server(router.route("/inner", get(async || "inner").layer(RequireSecured))).await;
    let uri = |path: &str| format!("coap://{}{path}", server.local_addr());
    let (client, stranger) = (client(), Client::new());
    for (path, answer) in [("/who", "63"), ("/open", "open"), ("/inner", "inner")] {
        assert_eq!(client.get(uri(path)).await.expect("an answer").text().expect("a text"), answer);
        let code = stranger.get(uri(path)).await.expect("an answer").code();
        assert_eq!(code, if path == "/open" { Code::CONTENT } else { Code::UNAUTHORIZED }, "{path}");
    }
}

#[tokio::test]
async fn a_secured_only_server_answers_every_unprotected_request_with_4_01() {
    let server = Server::builder().oscore(keys(SERVER, CLIENT)).secured_only().route("/open", get(async || "open"));
    let server = server.bind("127.0.0.1:0").await.expect("the loopback can be bound");
    for path in ["/open", "/nothing", "/.well-known/core"] {
        let uri = format!("coap://{}{path}", server.local_addr());
        assert_eq!(Client::new().get(&uri).await.expect("an answer").code(), Code::UNAUTHORIZED);
    }
    let uri = format!("coap://{}/.well-known/core", server.local_addr());
    assert_eq!(client().get(&uri).await.expect("an answer").text().expect("a text"), "</open>");
}

#[tokio::test]
async fn large_bodies_go_both_ways() {
    let router = Router::new().route("/echo", put(async |body: bytes::Bytes| (Code::CHANGED, body)));
    let server = server(router).await;
    let body: Vec<u8> = (0..60_000_u32).map(|n| n.to_le_bytes()[usize::from(n % 7 == 0)]).collect();
    let request = client().put(format!("coap://{}/echo", server.local_addr()));
    let response = request.payload(ContentFormat::OCTET_STREAM, body.clone()).await.expect("an answer");
    assert_eq!((response.code(), response.payload()), (Code::CHANGED, &body[..]));
}

#[tokio::test]
async fn states_are_observed_behind_protection() {
    let notifier = Notifier::new();
    let state = Arc::new(Mutex::new(0));
    let read = {
        let state = Arc::clone(&state);
        move || std::future::ready(state.lock().expect("nobody panics").to_string())
    };
    let router = Router::new().route("/observed", get(read).observed_by(&notifier));
    let server = server(router.layer(RequireSecured)).await;
    let client = client();
    let mut observation = client.observe(format!("coap://{}/observed", server.local_addr()));
    for value in 0..3 {
        let text = observation.next().await.expect("it goes on").expect("a state").text().expect("a text").to_owned();
        assert_eq!(text, value.to_string());
        *state.lock().expect("nobody panics") = value + 1;
        notifier.notify();
    }
}

#[tokio::test]
async fn wrong_or_missing_keys_at_a_server_are_errors_and_no_responses() {
    let server = server(Router::new().route("/", get(async || "open"))).await;
    let uri = format!("coap://{}/", server.local_addr());
    let other =
        Credentials::new(*b"another 16 bytes", EndId::new(CLIENT).expect("short"), EndId::new(SERVER).expect("short"));
    let wrong = [Keys::for_this_run(other).expect("legal"), keys(b"x", SERVER)];
    for (keys, code) in wrong.into_iter().zip([Code::BAD_REQUEST, Code::UNAUTHORIZED]) {
        let client = Client::builder().oscore(keys).build().expect("legal settings");
        let error = client.get(&uri).await.expect_err("the server does not know it");
        assert!(
            matches!(error, Error::Failed { failure: Failure::NotAuthenticated(found), .. } if found == code),
            "{error}"
        );
    }
    let plain = Server::builder().route("/", get(async || "open")).bind("127.0.0.1:0").await.expect("it can be bound");
    let error = client().get(format!("coap://{}/", plain.local_addr())).await.expect_err("no answer is protected");
    let expected = Failure::NotAuthenticated(Code::BAD_OPTION);
    assert!(matches!(error, Error::Failed { failure, .. } if failure == expected), "{error}");
}

#[derive(Debug, Default)]
struct Shelf {
    reserved: AtomicU64,
    finished: Mutex<Option<(u64, Option<ReplayWindow>)>>,
    refuses: bool,
}

#[derive(Clone, Debug, Default)]
struct OnShelf(Arc<Shelf>);

impl NumberStore for OnShelf {
    fn load(&self) -> io::Result<Start> {
        let finished = *self.0.finished.lock().expect("nobody panics");
        Ok(match (finished, self.0.reserved.load(Ordering::SeqCst)) {
            (Some((next, Some(window))), _) => Start::Resumed { next, window },
            (Some((next, None)), _) => Start::Restarted { next },
            (None, 0) => Start::First,
            (None, next) => Start::Restarted { next },
        })
    }

    fn reserve(&self, up_to: u64) -> io::Result<()> {
        if self.0.refuses {
            return Err(io::Error::other("the shelf is full"));
        }
        let mut finished = self.0.finished.lock().expect("nobody panics");
        *finished = None;
        let before = self.0.reserved.fetch_max(up_to, Ordering::SeqCst);
        assert!(before <= up_to, "numbers are reserved in order");
        Ok(())
    }

    fn finish(&self, next: u64, window: Option<ReplayWindow>) -> io::Result<()> {
        *self.0.finished.lock().expect("nobody panics") = Some((next, window));
        self.0.reserved.store(next, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test]
async fn keys_belong_to_one_socket_at_a_time_and_the_next_one_resumes() {
    let server = server(Router::new().route("/", get(async || "open"))).await;
    let uri = format!("coap://{}/", server.local_addr());
    let shelf = OnShelf::default();
    let keys = Keys::new(credentials(CLIENT, SERVER), shelf.clone()).expect("legal credentials");
    let of = || Client::builder().oscore(keys.clone()).build().expect("legal settings");
    let (first, second) = (of(), of());
    for _ in 0..300 {
        first.get(&uri).await.expect("an answer");
    }
    let error = second.get(&uri).await.expect_err("its numbers would be used twice");
    assert!(matches!(error, Error::Keys { cause: KeysError::InUse, .. }), "{error}");
    let hurried = second.get(&uri).timeout(Duration::from_millis(20)).await.expect_err("the first one has the keys");
    assert!(matches!(hurried, Error::Failed { failure: Failure::Deadline, .. }), "{hurried}");
    assert!(shelf.0.reserved.load(Ordering::SeqCst) >= 300);
    drop(first);
    for _ in 0..10 {
        second.get(&uri).await.expect("no number is used twice, or the server would refuse it");
    }
    // The store must not restore the first client's end.
    let start = shelf.load().expect("it is there");
    assert!(matches!(start, Start::Restarted { next: 310.. }), "{start:?}");
}

#[tokio::test]
async fn a_new_program_starts_at_the_stored_sequence_number() {
    let server = server(Router::new().route("/", get(async || "open"))).await;
    let uri = format!("coap://{}/", server.local_addr());
    let shelf = OnShelf::default();
    shelf.reserve(1000).expect("it works");
    let keys = Keys::new(credentials(CLIENT, SERVER), shelf.clone()).expect("legal credentials");
    let client = Client::builder().oscore(keys).build().expect("legal settings");
    client.get(&uri).await.expect("an answer");
    assert_eq!(shelf.load().expect("it is there"), Start::Restarted { next: 1256 });
}

#[tokio::test]
async fn keys_that_would_use_the_numbers_of_others_are_refused() {
    let lamps = [b"1", b"2"].map(|lamp| keys(SERVER, lamp));
    let bound = lamps.into_iter().fold(Server::builder(), |server, keys| server.oscore(keys)).bind("127.0.0.1:0").await;
    assert!(matches!(bound, Err(BindError::Config(ConfigError::Keys { .. }))), "{bound:?}");

    let server = server(Router::new().route("/", get(async || "open"))).await;
    let uri = format!("coap://{}/", server.local_addr());
    let (first, second) = (client(), client());
    first.get(&uri).await.expect("an answer");
    second.get(&uri).await.expect_err("the first one has numbers of the same key");
}

#[tokio::test]
async fn a_secured_only_server_needs_client_credentials() {
    let nobody = Server::builder().secured_only().bind("127.0.0.1:0").await;
    assert!(matches!(nobody, Err(BindError::Config(ConfigError::NoClientCredentials))), "{nobody:?}");
}

#[cfg(feature = "dtls")]
#[tokio::test]
async fn a_client_authenticated_by_dtls_passes_secured_only() {
    use conche::security::Secret;
    let key = |identity: &[u8]| (identity == b"lamp").then(|| Secret::new(*b"of 16 such bytes"));
    let server = Server::builder().psk(key).secured_only().route("/", get(async || "open"));
    let server = server.bind("127.0.0.1:0").await.expect("it can be bound");
    let client = Client::builder().psk(*b"lamp", Secret::new(*b"of 16 such bytes")).expect("legal");
    let client = client.build().expect("legal settings");
    let response = client.get(format!("coaps://{}/", server.local_addr())).await.expect("an answer");
    assert_eq!(response.code(), Code::CONTENT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_client_waits_for_the_keys_of_one_that_was_dropped() {
    let server = server(Router::new().route("/", get(async || "open"))).await;
    let uri = format!("coap://{}/", server.local_addr());
    let keys = keys(CLIENT, SERVER);
    for n in 0..200 {
        let client = Client::builder().oscore(keys.clone()).build().expect("legal settings");
        let (one, other) = tokio::join!(client.get(&uri).send(), client.get(&uri).send());
        one.and(other).unwrap_or_else(|error| panic!("request {n}: {error:?}"));
    }
}

/// Keeps the last write, as a file does. The second write is slow.
#[derive(Clone, Debug, Default)]
struct Slow {
    kept: Arc<AtomicU64>,
    calls: Arc<AtomicU64>,
}

impl NumberStore for Slow {
    fn load(&self) -> io::Result<Start> {
        Ok(Start::First)
    }

    fn reserve(&self, up_to: u64) -> io::Result<()> {
        if self.calls.fetch_add(1, Ordering::SeqCst) == 1 {
            std::thread::sleep(Duration::from_millis(500));
        }
        self.kept.store(up_to, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test]
async fn a_late_write_for_a_dropped_client_never_lowers_the_stored_number() {
    let server = server(Router::new().route("/", get(async || "open"))).await;
    let uri = format!("coap://{}/", server.local_addr());
    let store = Slow::default();
    let keys = Keys::new(credentials(CLIENT, SERVER), store.clone()).expect("legal credentials");
    for requests in [140, 400] {
        let client = Client::builder().oscore(keys.clone()).build().expect("legal settings");
        for _ in 0..requests {
            client.get(&uri).await.expect("an answer");
        }
    }
    assert!(store.kept.load(Ordering::SeqCst) >= 540);
}

/// Keeps the first reservation at once, and blocks the second until opened.
#[derive(Clone, Debug, Default)]
struct Shut {
    calls: Arc<AtomicU64>,
    opened: Arc<(Mutex<bool>, Condvar)>,
    fails: bool,
}

impl Shut {
    fn open(&self) {
        *self.opened.0.lock().expect("nobody panics") = true;
        self.opened.1.notify_all();
    }
}

impl NumberStore for Shut {
    fn load(&self) -> io::Result<Start> {
        Ok(Start::First)
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        if self.calls.fetch_add(1, Ordering::SeqCst) != 1 {
            return Ok(());
        }
        let opened = self.opened.0.lock().expect("nobody panics");
        let waited = self.opened.1.wait_timeout_while(opened, Duration::from_secs(20), |opened| !*opened);
        drop(waited.expect("nobody panics"));
        if self.fails { Err(io::Error::other("the disk is full")) } else { Ok(()) }
    }
}

async fn out_of_numbers(store: &Shut) -> (Server, Client, String) {
    let server = server(Router::new().route("/", get(async || "open"))).await;
    let uri = format!("coap://{}/", server.local_addr());
    let keys = Keys::new(credentials(CLIENT, SERVER), store.clone()).expect("legal credentials");
    let client = Client::builder().oscore(keys).build().expect("legal settings");
    for _ in 0..256 {
        client.get(&uri).await.expect("an answer");
    }
    (server, client, uri)
}

#[tokio::test]
async fn requests_wait_for_a_store_that_takes_longer_than_numbers_last() {
    let store = Shut::default();
    let (_server, client, uri) = out_of_numbers(&store).await;
    let mut waiting = std::pin::pin!(async { tokio::join!(client.get(&uri).send(), client.get(&uri).send()) });
    let answer = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(answer.is_err(), "{answer:?}");
    let late = client.get(&uri).timeout(Duration::from_millis(20)).await.expect_err("the store has not answered");
    assert!(matches!(late, Error::Failed { failure: Failure::Deadline, .. }), "{late}");
    store.open();
    let (one, other) = waiting.await;
    one.and(other).expect("an answer");
    client.get(&uri).await.expect("an answer");
}

#[tokio::test]
async fn a_failing_store_fails_the_waiting_request_and_is_retried_by_the_next() {
    let store = Shut { fails: true, ..Shut::default() };
    let (_server, client, uri) = out_of_numbers(&store).await;
    let mut waiting = std::pin::pin!(client.get(&uri).send());
    let answer = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
    assert!(answer.is_err(), "{answer:?}");
    store.open();
    let error = waiting.await.expect_err("its number was not kept");
    let Error::Keys { cause: KeysError::Store(why), .. } = error else { panic!("{error}") };
    assert_eq!(why.to_string(), "the disk is full");
    client.get(&uri).await.expect("an answer");
}

#[tokio::test]
async fn nothing_is_protected_without_a_place_for_numbers_and_a_server_does_not_start() {
    let shelf = || OnShelf(Arc::new(Shelf { refuses: true, ..Shelf::default() }));
    let keys = |own, other| Keys::new(credentials(own, other), shelf()).expect("legal credentials");
    let client = Client::builder().oscore(keys(CLIENT, SERVER)).build().expect("legal settings");
    let error = client.get("coap://127.0.0.1:9/").await.expect_err("numbers could be used twice");
    assert!(matches!(error, Error::Keys { cause: KeysError::Store(_), .. }), "{error}");
    let bound = Server::builder().oscore(keys(SERVER, CLIENT)).bind("127.0.0.1:0").await;
    assert!(matches!(bound, Err(BindError::Config(_))), "{bound:?}");
}

#[tokio::test]
async fn a_group_request_with_oscore_keys_is_not_sent() {
    let mut responses = client().multicast("coap://224.0.1.187/").await.expect("it is a group");
    assert!(matches!(responses.next().await, Some(Err(Error::Refused(_)))));
    let twice = Server::builder().oscore(keys(SERVER, CLIENT)).oscore(keys(SERVER, CLIENT)).bind("127.0.0.1:0").await;
    assert!(matches!(twice, Err(BindError::Config(_))), "{twice:?}");
    let workers = Server::builder().oscore(keys(SERVER, CLIENT)).workers(2).bind("127.0.0.1:0").await;
    assert!(matches!(workers, Err(BindError::Workers(_))), "{workers:?}");
}

// RFC 8613 appendix B.2
#[tokio::test]
async fn keys_that_are_agreed_on_anew_outlive_both_ends_without_a_store() {
    let anew = |own, other| Keys::rekeyed(credentials(own, other)).expect("legal credentials");
    let (of_client, of_server) = (anew(CLIENT, SERVER), anew(SERVER, CLIENT));
    let client = || Client::builder().oscore(of_client.clone()).build().expect("legal settings");
    let bind = async |at: SocketAddr| {
        let server = Server::builder().oscore(of_server.clone()).route("/who", get(who));
        server.bind(at).await.expect("the loopback can be bound")
    };
    let mut server = bind(own_address()).await;
    let first = client();
    let uri = format!("coap://{}/who", server.local_addr());
    for _ in 0..3 {
        assert_eq!(first.get(&uri).await.expect("an answer").text().expect("a text"), "63");
    }
    let address = server.local_addr();
    server.shutdown(Duration::from_secs(1)).await;
    server = bind(address).await;
    assert_eq!(first.get(&uri).await.expect("an answer").text().expect("a text"), "63");
    drop(first);
    assert_eq!(client().get(&uri).await.expect("an answer").text().expect("a text"), "63");
    drop(server);
}
