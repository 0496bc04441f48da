//! Pre-shared keys that an asynchronous function looks up.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conche::security::{Identity, Secret};
use conche::server::get;
use conche::{Client, Error, Server};
use tokio::sync::{Semaphore, mpsc};

use crate::own_address::own_address;
use crate::test_peers::{LONG, keys};

fn client(identity: &[u8], key: &[u8]) -> Client {
    Client::builder().psk(identity, Secret::new(key)).expect("a key").build().expect("valid")
}

async fn serve<F>(lookup: impl Fn(Vec<u8>) -> F + Send + Sync + 'static) -> Server
where
    F: Future<Output = Option<Secret>> + Send + 'static,
{
    let whoami = get(async |identity: Identity| identity.to_string());
    let server = Server::builder().psk_lookup(lookup).route("/whoami", whoami);
    server.bind(own_address()).await.expect("a port")
}

/// Returns a server with endless lookups, and the number of running ones.
async fn serve_without_end() -> (Server, Arc<AtomicUsize>) {
    let running = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&running);
    let lookup = move |_| {
        let running = Running::new(&count);
        async move {
            let _running = running;
            pending().await
        }
    };
    (serve(lookup).await, running)
}

fn uri(server: &Server) -> String {
    format!("coaps://{}/whoami", server.local_addr())
}

fn alert(error: &Error) -> Option<u8> {
    match error {
        Error::Handshake { cause, .. } => cause.alert(),
        other => panic!("{other:?}"),
    }
}

/// Counts the lookups that run.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("in time");
}

#[tokio::test]
async fn a_handler_sees_the_identity_whose_key_was_looked_up() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let server = serve(move |identity| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            keys(&identity)
        }
    })
    .await;
    let lamp = client(b"lamp", b"sesame");
    for _ in 0..3 {
        assert_eq!(lamp.get(uri(&server)).await.expect("answered").text().expect("text"), "lamp");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1, "once per session");
    assert!(client(b"lamp", b"sesame").get(uri(&server)).await.is_ok());
    assert_eq!(calls.load(Ordering::SeqCst), 2, "a key is not cached");
}

#[tokio::test]
async fn an_open_session_is_served_while_a_key_is_looked_up() {
    let (waiting, mut lookups) = mpsc::unbounded_channel();
    let server = serve(move |identity| {
        let waiting = waiting.clone();
        async move {
            if identity != b"lamp" {
                waiting.send(()).expect("the test goes on");
                pending::<()>().await;
            }
            keys(&identity)
        }
    })
    .await;
    let lamp = client(b"lamp", b"sesame");
    assert!(lamp.get(uri(&server)).await.is_ok());
    let slow = tokio::spawn(client(b"door", b"sesame").get(uri(&server)).send());
    lookups.recv().await.expect("a lookup");
    assert!(lamp.get(uri(&server)).await.is_ok());
    assert!(client(b"lamp", b"sesame").get(uri(&server)).await.is_ok());
    assert!(!slow.is_finished());
    slow.abort();
}

/// RFC 4279 §2.
#[tokio::test]
async fn an_unknown_identity_gets_the_answer_of_a_wrong_key() {
    let server = serve(async |identity: Vec<u8>| keys(&identity)).await;
    let unknown = client(b"nobody", b"sesame").get(uri(&server)).await.expect_err("unknown");
    let wrong = client(b"lamp", b"wrong").get(uri(&server)).await.expect_err("wrong");
    assert_eq!((alert(&unknown), alert(&wrong)), (Some(51), Some(51)));
    assert_eq!(unknown.to_string(), wrong.to_string());
}

#[tokio::test]
async fn a_lookup_that_panics_refuses_one_identity() {
    let server = serve(async |identity: Vec<u8>| {
        assert_ne!(identity, b"boom", "planted");
        keys(&identity)
    })
    .await;
    let error = client(b"boom", b"x").get(uri(&server)).await.expect_err("refused");
    assert_eq!(alert(&error), Some(51));
    assert!(client(b"lamp", b"sesame").get(uri(&server)).await.is_ok());
    assert_eq!(server.stats().await.panics, 1);
}

#[tokio::test]
async fn a_psk_lookup_that_never_returns_is_aborted_with_an_alert() {
    let (server, running) = serve_without_end().await;
    let asked = tokio::spawn(client(b"lamp", b"sesame").get(uri(&server)).send());
    until(|| running.load(Ordering::SeqCst) == 1).await;
    tokio::time::pause();
    let error = asked.await.expect("no panic").expect_err("refused");
    assert_eq!(alert(&error), Some(80));
    until(|| running.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_lookup_ends_with_its_server() {
    let (server, running) = serve_without_end().await;
    let asked = tokio::spawn(client(b"lamp", b"sesame").get(uri(&server)).send());
    until(|| running.load(Ordering::SeqCst) == 1).await;
    server.shutdown(Duration::from_millis(10)).await;
    until(|| running.load(Ordering::SeqCst) == 0).await;
    asked.abort();
}

#[tokio::test]
async fn a_flood_of_identities_runs_as_many_lookups_as_one_network_may_have_handshakes() {
    const MOST: usize = 128;
    let (running, most, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Semaphore::new(0));
    let (count, seen, gate) = (Arc::clone(&running), Arc::clone(&most), Arc::new(gate));
    let closed = Arc::clone(&gate);
    let server = serve(move |identity| {
        let (running, closed) = (Running::new(&count), Arc::clone(&closed));
        seen.fetch_max(count.load(Ordering::SeqCst), Ordering::SeqCst);
        async move {
            let _running = running;
            let _open = closed.acquire().await;
            keys(&identity)
        }
    })
    .await;
    let flood: Vec<_> = (0..MOST + 40).map(|index| client(format!("nobody-{index}").as_bytes(), b"x")).collect();
    let asked: Vec<_> = flood.iter().map(|client| tokio::spawn(client.get(uri(&server)).send())).collect();
    until(|| running.load(Ordering::SeqCst) == MOST).await;
    gate.add_permits(Semaphore::MAX_PERMITS);
    until(|| running.load(Ordering::SeqCst) == 0).await;
    asked.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(most.load(Ordering::SeqCst) <= MOST, "{most:?}");
}
