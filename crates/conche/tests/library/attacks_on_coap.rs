//! The attacks of draft-ietf-core-attacks-on-coap §2: an on-path attacker can hold, drop and
//! reorder protected messages, but neither read nor change them.
//!
//! Each attack runs with DTLS and with OSCORE (static keys, keys of appendix B.2, keys of EDHOC).
//! Neither prevents dropping everything (§2.1), or proves where the other end is (§2.5).

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use conche::client::RequestBuilder;
use conche::oscore::{Credentials, EndId, Keys};
use conche::security::Secret;
use conche::server::{Query, RequireFresh, Router, get, put};
use conche::{Client, Code, ContentFormat, Error, Server, Token};
use tokio::time::timeout;

use crate::test_peers::{Act, LONG, OnPathAttacker, Toward, keys};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Dtls,
    Oscore,
    /// New keys of both ends (RFC 8613 appendix B.2).
    Anew,
    Edhoc,
}

const ALL: [By; 4] = [By::Dtls, By::Oscore, By::Anew, By::Edhoc];

/// Concurrently: an attack mostly waits.
async fn by_each(attack: impl AsyncFn(By)) {
    let [dtls, oscore, anew, edhoc] = ALL;
    tokio::join!(attack(dtls), attack(oscore), attack(anew), attack(edhoc));
}

const SHORT: Duration = Duration::from_millis(300);
/// On a loaded machine.
const LONGER: Duration = Duration::from_secs(3);
const FRESH: Duration = Duration::from_secs(2);

struct Path {
    by: By,
    client: Client,
    foe: OnPathAttacker,
    server: Server,
    done: Done,
}

type Done = Arc<Mutex<Vec<Bytes>>>;

impl Path {
    async fn new(by: By) -> Self {
        static KEYS: AtomicU8 = AtomicU8::new(0);
        let secret = [KEYS.fetch_add(1, Ordering::SeqCst); 16];
        let ends = |own: &[u8], other: &[u8]| {
            let [own, other] = [own, other].map(|id| EndId::new(id).expect("short"));
            let credentials = Credentials::new([&b"on attacks"[..], &secret].concat(), own, other);
            let keys = if by == By::Anew { Keys::rekeyed(credentials) } else { Keys::for_this_run(credentials) };
            keys.expect("legal")
        };
        let done = Done::default();
        let router = router(&done);
        let (server, client) = (Server::builder().router(router), Client::builder());
        let (server, client) = match by {
            By::Dtls => (server.psk(keys), client.psk(*b"lamp", Secret::new(*b"sesame")).expect("a key")),
            By::Oscore | By::Anew => (server.oscore(ends(b"s", b"c")), client.oscore(ends(b"c", b"s"))),
            By::Edhoc => {
                let (lamp, hall) = crate::edhoc::parties();
                (server.edhoc(hall), client.edhoc(lamp))
            }
        };
        let server = server.bind("127.0.0.1:0").await.expect("the loopback can be bound");
        let foe = OnPathAttacker::before(server.local_addr()).await;
        let path = Self { by, client: client.build().expect("legal settings"), foe, server, done };
        assert_eq!(path.client.get(path.uri("/say?0")).await.expect("an answer").payload(), b"0", "a session is there");
        path
    }

    fn uri(&self, path: &str) -> String {
        let scheme = if self.by == By::Dtls { "coaps" } else { "coap" };
        format!("{scheme}://{}{path}", self.foe.address)
    }

    fn put(&self, path: &str, body: impl Into<Bytes>) -> impl Future<Output = Result<conche::client::Response, Error>> {
        self.put_body(path, body).timeout(LONG).send()
    }

    async fn give_up_on(&self, path: &str, body: impl Into<Bytes>) {
        let error = self.put_body(path, body).timeout(SHORT).await.expect_err("it is held back");
        assert!(error.is_timeout_or_unreachable(), "{:?}: {error}", self.by);
    }

    async fn cancel_when_held(&self, toward: Toward, request: RequestBuilder) {
        tokio::select! {
            answer = request.timeout(LONG).send() => panic!("{:?}: {answer:?}", self.by),
            () = self.foe.holds(toward, 1) => {}
        }
    }

    fn put_body(&self, path: &str, body: impl Into<Bytes>) -> RequestBuilder {
        self.client.put(self.uri(path)).payload(ContentFormat::OCTET_STREAM, body)
    }

    async fn server_sees(&self, requests: u64) {
        let seen = async {
            while self.server.stats().await.datagrams_received < requests {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(LONG, seen).await.expect("it gets them");
    }

    fn done(&self) -> Vec<Bytes> {
        self.done.lock().expect("nobody panics").clone()
    }
}

fn router(done: &Done) -> Router {
    let doing = || {
        let done = Arc::clone(done);
        move |body: Bytes| {
            done.lock().expect("nobody panics").push(body);
            std::future::ready(Code::CHANGED)
        }
    };
    let said = async |Query(arguments): Query| arguments.iter().map(|(name, _)| name).collect::<String>();
    let fresh = RequireFresh::within(FRESH).expect("the system has random numbers");
    let router = Router::new().route("/say", get(said)).route("/lock", put(doing()));
    router.route("/body", put(doing())).route("/door", put(doing()).layer(fresh))
}

/// draft-ietf-core-attacks-on-coap §2.1: a blocked request has an unknown outcome; a blocked
/// response causes no second execution.
#[tokio::test]
async fn a_blocked_request_times_out_and_a_blocked_response_runs_nothing_twice() {
    by_each(async |by| {
        let path = Path::new(by).await;
        path.foe.act(Toward::Server, 0, Act::Block);
        path.give_up_on("/lock", "1").await;
        assert!(path.done().is_empty());

        path.foe.act(Toward::Server, usize::MAX, Act::Pass);
        path.foe.act(Toward::Client, 0, Act::Hold);
        let mut asking = std::pin::pin!(path.put("/lock", "2"));
        tokio::select! {
            answer = &mut asking => panic!("{by:?}: {answer:?}"),
            () = path.foe.holds(Toward::Client, 1) => {}
        }
        path.foe.act(Toward::Client, usize::MAX, Act::Pass);
        assert_eq!(asking.await.expect("an answer to a copy").code(), Code::CHANGED);
        assert_eq!(path.done(), ["2"], "{by:?}");
    })
    .await;
}

/// draft-ietf-core-attacks-on-coap §2.2: a delayed request has its effect once, however often it
/// arrives.
#[tokio::test]
async fn a_delayed_request_is_executed_once_at_most() {
    by_each(async |by| {
        let path = Path::new(by).await;
        path.foe.act(Toward::Server, 0, Act::Hold);
        path.cancel_when_held(Toward::Server, path.put_body("/lock", "unlock")).await;
        path.foe.act(Toward::Server, usize::MAX, Act::Pass);
        assert!(path.put("/lock", "lock").await.is_ok());
        let held = path.foe.take(Toward::Server);
        for _ in 0..5 {
            path.foe.release(Toward::Server, &held).await;
        }
        assert!(path.put("/lock", "lock again").await.is_ok());
        let done = path.done();
        assert_eq!(done.iter().filter(|body| **body == "unlock").count(), 1, "{by:?}: {done:?}");
        assert_eq!(done.len(), 3);
    })
    .await;
}

/// draft-ietf-core-attacks-on-coap §2.2: an actuator that requires fresh requests (RFC 9175 §2)
/// ignores delayed ones.
#[tokio::test]
async fn a_delayed_request_is_stale_where_it_has_to_be_fresh() {
    by_each(async |by| {
        let path = Path::new(by).await;
        assert!(path.put("/door", "open").await.is_ok());
        // The request that gets the challenge passes; the request that answers it is held.
        path.foe.act(Toward::Server, 1, Act::Hold);
        path.cancel_when_held(Toward::Server, path.put_body("/door", "open late")).await;
        path.foe.act(Toward::Server, usize::MAX, Act::Pass);
        let (held, before) = (path.foe.take(Toward::Server), path.server.stats().await.datagrams_received);
        tokio::time::sleep(FRESH).await;
        path.foe.release(Toward::Server, &held[..1]).await;
        path.server_sees(before + 1).await;
        assert!(path.put("/door", "close").await.is_ok());
        assert_eq!(path.done(), ["open", "close"], "{by:?}");
    })
    .await;
}

/// draft-ietf-core-attacks-on-coap §2.3: the response to an earlier request is not accepted for a
/// later one, with the same token (OSCORE) or another (sessions).
#[tokio::test]
async fn a_delayed_response_is_no_answer_to_a_later_request() {
    by_each(async |by| {
        let path = Path::new(by).await;
        let ask = |query: &str| {
            // Only the token matches a Non-confirmable response to its request.
            let request = path.client.get(path.uri(&format!("/say?{query}"))).non();
            if by != By::Dtls { request.token(Token::from(*b"the same")) } else { request }
        };
        path.foe.act(Toward::Client, 0, Act::Hold);
        let error = ask("first").timeout(LONGER).await.expect_err("its answer is held back");
        assert!(error.is_timeout_or_unreachable(), "{error}");
        path.foe.holds(Toward::Client, 1).await;
        let earlier = path.foe.take(Toward::Client);

        let mut asking = std::pin::pin!(ask("second").timeout(LONG).send());
        tokio::select! {
            answer = &mut asking => panic!("{by:?}: {answer:?}"),
            () = path.foe.holds(Toward::Client, 1) => {}
        }
        for _ in 0..3 {
            path.foe.release(Toward::Client, &earlier).await;
        }
        let mistaken = timeout(SHORT, &mut asking).await;
        assert!(mistaken.is_err(), "{by:?}: {mistaken:?}");
        path.foe.act(Toward::Client, usize::MAX, Act::Pass);
        let later = path.foe.take(Toward::Client);
        path.foe.release(Toward::Client, &later).await;
        assert_eq!(asking.await.expect("an answer").payload(), b"second", "{by:?}");
    })
    .await;
}

/// draft-ietf-core-attacks-on-coap §2.3: tokens, which alone match responses within a session, are
/// not reused (RFC 9175 §4.2).
#[tokio::test]
async fn no_two_requests_of_a_session_have_the_same_token() {
    let mut server = crate::test_peers::ManualEndpoint::server().await;
    let client = Client::builder().psk(*b"lamp", Secret::new(*b"sesame")).expect("a key").build().expect("legal");
    let (mut seen, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..100 {
        let asking = tokio::spawn(client.get(format!("coaps://{}/", server.address())).send());
        // A retransmission has the token of its request.
        let request = loop {
            let request = server.receive().await;
            if ids.insert([request[2], request[3]]) {
                break request;
            }
        };
        let length = usize::from(request[0] & 15);
        assert!(seen.insert(request[4..4 + length].to_vec()), "request {number} has the token of an earlier one");
        server.send(&[&[0x60 | request[0] & 15, 0x45], &request[2..4 + length]].concat()).await;
        assert!(asking.await.expect("no panic").is_ok());
    }
}

fn bodies() -> [Bytes; 2] {
    [b'a', b'b'].map(|byte| Bytes::from(vec![byte; 1_500]))
}

/// Cancels a body with a withheld block: only that one or, for the first, all that follow. Delivers
/// it during a later body, whose second block is held until then.
async fn a_block_of_an_earlier_body_comes_between(by: By, withheld: usize, bodies: [Bytes; 2]) -> Path {
    let (path, [first, second]) = (Path::new(by).await, bodies);
    path.foe.act(Toward::Server, withheld, Act::Hold);
    path.cancel_when_held(Toward::Server, path.put_body("/body", first)).await;
    let earlier = path.foe.take(Toward::Server);

    path.foe.act(Toward::Server, 1, Act::Hold);
    {
        let mut asking = std::pin::pin!(path.put("/body", second));
        tokio::select! {
            answer = &mut asking => panic!("{by:?}: {answer:?}"),
            () = path.foe.holds(Toward::Server, 1) => {}
        }
        let before = path.server.stats().await.datagrams_received;
        path.foe.release(Toward::Server, &earlier[..1]).await;
        path.server_sees(before + 1).await;
        path.foe.act(Toward::Server, usize::MAX, Act::Pass);
        path.foe.release(Toward::Server, &path.foe.take(Toward::Server)).await;
        assert_eq!(asking.await.expect("an answer").code(), Code::CHANGED, "{by:?}");
    }
    path
}

/// draft-ietf-core-attacks-on-coap §2.4.1: an earlier operation's final block completes another.
#[tokio::test]
async fn a_delayed_final_block_ends_no_later_body() {
    by_each(async |by| {
        let path = a_block_of_an_earlier_body_comes_between(by, 1, bodies()).await;
        let (done, [_, second]) = (path.done(), bodies());
        assert!(done.contains(&second) && done.iter().all(|body| bodies().contains(body)), "{by:?}: {done:?}");
    })
    .await;
}

/// draft-ietf-core-attacks-on-coap §2.4.2: a later operation continues a withheld first block.
#[tokio::test]
async fn a_withheld_first_block_begins_no_body_that_a_later_one_ends() {
    by_each(async |by| {
        let path = a_block_of_an_earlier_body_comes_between(by, 0, bodies()).await;
        let [_, second] = bodies();
        assert_eq!(path.done(), [second], "{by:?}");
    })
    .await;
}
