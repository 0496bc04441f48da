//! The client's cache: which requests it answers, and which it forwards (RFC 7252 §5.6).
//!
//! Ages are hundreds of seconds, because a paused clock may skip a retransmission timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conche::client::{CacheLimits, Response as Answer};
use conche::codec::{Block, BlockSize};
use conche::server::{Notifier, Request, Resource, Response, Router, get};
use conche::{Client, Code, ContentFormat, OptionNumber, Server};
use tokio::sync::Semaphore;

struct Origin {
    asked: Arc<AtomicU32>,
    uri: String,
    _server: Server,
}

impl Origin {
    async fn new(answer: impl Fn(&Request, u32) -> Response + Send + Sync + 'static) -> Self {
        let asked = Arc::<AtomicU32>::default();
        let (count, answer) = (Arc::clone(&asked), Arc::new(answer));
        let handler = move |request: Request| {
            let (count, answer) = (Arc::clone(&count), Arc::clone(&answer));
            async move { answer(&request, count.fetch_add(1, Ordering::SeqCst)) }
        };
        let methods = [Code::GET, Code::FETCH, Code::POST, Code::PUT, Code::DELETE];
        let resource =
            || methods.into_iter().fold(Resource::new(), |resource, method| resource.on(method, handler.clone()));
        let router = Router::new().route("/", resource()).route("/other", resource());
        let server = Server::builder().router(router).bind("127.0.0.1:0").await.expect("it starts");
        Self { asked, uri: format!("coap://{}/", server.local_addr()), _server: server }
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    async fn get(&self, client: &Client) -> Answer {
        client.get(&self.uri).await.expect("a response")
    }
}

fn caching() -> Client {
    Client::builder().cache(CacheLimits::default()).build().expect("legal settings")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn counted(n: u32, max_age: u64) -> Response {
    Response::new(Code::CONTENT).text(n.to_string()).max_age(seconds(max_age))
}

fn is_cached(answer: &Answer, text: &str) -> bool {
    answer.age().is_some() && answer.text() == Ok(text)
}

// RFC 7252 §5.6.1 (Q332)
#[tokio::test(start_paused = true)]
async fn until_its_max_age_has_passed_a_response_is_used_without_asking_the_server() {
    let origin = Origin::new(|_, n| counted(n, 1000)).await;
    let client = caching();
    assert_eq!(origin.get(&client).await.age(), None);
    tokio::time::sleep(seconds(900)).await;
    let cached = origin.get(&client.clone()).await;
    assert!(is_cached(&cached, "0") && cached.age() >= Some(seconds(900)), "{:?}", cached.age());
    assert_eq!((cached.course().transmissions, client.stats().await.exchanges, origin.asked()), (0, 1, 1));
    tokio::time::sleep(seconds(200)).await;
    let anew = origin.get(&client).await;
    assert_eq!((anew.age(), anew.text(), origin.asked()), (None, Ok("1"), 2));
}

// RFC 7252 §5.6.1 (Q332)
#[tokio::test(start_paused = true)]
async fn without_max_age_it_is_a_minute_and_a_max_age_of_0_prevents_caching() {
    let origin = Origin::new(|_, n| Response::new(Code::CONTENT).text(n.to_string())).await;
    let client = caching();
    origin.get(&client).await;
    tokio::time::sleep(seconds(40)).await;
    assert!(is_cached(&origin.get(&client).await, "0"));
    tokio::time::sleep(seconds(30)).await;
    assert_eq!(origin.get(&client).await.text(), Ok("1"));

    let never = Origin::new(|_, n| counted(n, 0).etag(b"same")).await;
    for expected in ["0", "1"] {
        let answer = never.get(&client).await;
        assert_eq!((answer.age(), answer.text()), (None, Ok(expected)));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_cache_or_room_in_it_every_request_goes_to_the_server() {
    let origin = Origin::new(|_, n| counted(n, 1000)).await;
    let none = Client::builder().cache(CacheLimits { bytes: 1 << 20, entries: 0 }).build().expect("legal settings");
    for client in [Client::new(), none] {
        let asked = origin.asked();
        for _ in 0..2 {
            assert_eq!(origin.get(&client).await.age(), None);
        }
        assert_eq!(origin.asked(), asked + 2);
    }
}

// RFC 7252 §5.6.2, §5.9.1.3 (Q333)
#[tokio::test(start_paused = true)]
async fn a_stale_response_is_validated_by_its_etag_and_updated_by_the_2_03() {
    let answer = |request: &Request, n| {
        let etags: Vec<_> = request.message().values(OptionNumber::ETAG).map(<[u8]>::to_vec).collect();
        match (n, etags.as_slice()) {
            (0, []) => counted(0, 100).etag(b"v0").uint(OptionNumber::SIZE2, 7),
            (1, [tag]) if tag == b"v0" => {
                Response::new(Code::VALID).etag(b"v0").max_age(seconds(1000)).uint(OptionNumber::SIZE2, 9)
            }
            (2, [tag]) if tag == b"v0" => counted(2, 1000).etag(b"v2"),
            _ => Response::new(Code::BAD_REQUEST),
        }
    };
    let origin = Origin::new(answer).await;
    let client = caching();
    origin.get(&client).await;
    tokio::time::sleep(seconds(200)).await;
    let valid = origin.get(&client).await;
    assert!(is_cached(&valid, "0") && valid.age() < Some(seconds(10)), "{:?}", valid.age());
    assert_eq!((valid.code(), valid.etag(), valid.course().messages), (Code::CONTENT, Some(&b"v0"[..]), 1));
    assert_eq!(valid.content_format(), Some(ContentFormat::TEXT_PLAIN), "what the 2.03 does not tell stays");
    assert_eq!(
        [OptionNumber::MAX_AGE, OptionNumber::SIZE2].map(|number| valid.message().uint(number)),
        [Some(1000), Some(9)]
    );
    tokio::time::sleep(seconds(500)).await;
    assert!(is_cached(&origin.get(&client).await, "0"));
    assert_eq!(origin.asked(), 2);
    tokio::time::sleep(seconds(600)).await;
    let changed = origin.get(&client).await;
    assert_eq!((changed.age(), changed.text()), (None, Ok("2")));
    assert!(is_cached(&origin.get(&client).await, "2"));
}

#[tokio::test(start_paused = true)]
async fn after_a_2_03_about_something_else_the_whole_is_asked_for() {
    let answer = |request: &Request, n| match request.message().option(OptionNumber::ETAG) {
        Some(_) => Response::new(Code::VALID).etag(b"else"),
        None => counted(n, 100).etag(b"this"),
    };
    let origin = Origin::new(answer).await;
    let client = caching();
    origin.get(&client).await;
    tokio::time::sleep(seconds(200)).await;
    let anew = origin.get(&client).await;
    assert_eq!((anew.code(), anew.age(), anew.text(), origin.asked()), (Code::CONTENT, None, Ok("2"), 3));
}

// RFC 7252 §5.6 (Q330), RFC 8132 §2.1 (Q301)
#[tokio::test(start_paused = true)]
async fn method_options_and_fetch_payload_are_part_of_the_cache_key() {
    let origin = Origin::new(|_, n| counted(n, 1000)).await;
    let (client, uri) = (caching(), &origin.uri);
    let fetch = |payload: &'static str| client.request(Code::FETCH, uri).payload(ContentFormat::TEXT_PLAIN, payload);
    let requests = [
        client.get(uri),
        client.get(uri).query("a"),
        client.get(uri).query("a").query("b"),
        client.get(uri).accept(ContentFormat::TEXT_PLAIN),
        client.get(uri.replace("127.0.0.1", "localhost")),
        client.request(Code::FETCH, uri),
        fetch("a"),
        fetch("b"),
    ];
    for round in 0..2 {
        for (n, request) in requests.iter().enumerate() {
            let answer = request.clone().await.expect("a response");
            assert_eq!((answer.text(), answer.age().is_some()), (Ok(n.to_string().as_str()), round == 1), "{n}");
        }
    }
    assert_eq!(origin.asked(), 8);
    let size = client.get(uri).uint(OptionNumber::SIZE1, 12);
    assert!(is_cached(&size.await.expect("a response"), "0"), "an option that is no part of the cache key");
}

// RFC 7252 §5.6 (Q331), §5.9.2 (Q335)
#[tokio::test(start_paused = true)]
async fn errors_are_kept_but_not_validated_and_unknown_success_is_not_kept() {
    let client = caching();
    for (code, is_kept) in [
        (Code::NOT_FOUND, true),
        (Code::new(4, 30), true),
        (Code::SERVICE_UNAVAILABLE, true),
        (Code::REQUEST_ENTITY_INCOMPLETE, false),
        (Code::new(2, 20), false),
        (Code::CHANGED, false),
    ] {
        let answer = move |request: &Request, _| {
            assert!(request.message().option(OptionNumber::ETAG).is_none(), "{code:?}");
            Response::new(code).etag(b"e").max_age(seconds(100))
        };
        let origin = Origin::new(answer).await;
        let mut ages = Vec::new();
        for _ in 0..2 {
            let answer = origin.get(&client).await;
            assert_eq!(answer.code(), code);
            ages.push(answer.age().is_some());
        }
        assert_eq!(ages, [false, is_kept], "{code:?}");
        tokio::time::sleep(seconds(200)).await;
        assert_eq!((origin.get(&client).await.code(), origin.get(&client).await.code()), (code, code));
        assert_eq!(origin.asked(), if is_kept { 2 } else { 4 }, "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_to_prove_freshness_is_not_kept() {
    let answer = |_: &Request, n| match n {
        0..3 => Response::new(Code::UNAUTHORIZED).option(OptionNumber::ECHO, b"prove"),
        3 => Response::new(Code::UNAUTHORIZED).text("3").max_age(seconds(1000)),
        _ => counted(n, 1000),
    };
    let origin = Origin::new(answer).await;
    let client = caching();
    assert!(origin.get(&client).await.option(OptionNumber::ECHO).is_some());
    assert_eq!(origin.get(&client).await.text(), Ok("3"));
    assert!(is_cached(&origin.get(&client).await, "3"), "as any other 4.01 is");
}

// RFC 7252 §5.9.1 (Q334)
#[tokio::test(start_paused = true)]
async fn an_unsafe_method_makes_cached_responses_of_its_path_stale() {
    let answer = |request: &Request, n| match request.method() {
        Code::GET => counted(n, 1000).etag(b"v"),
        Code::DELETE => Response::new(Code::DELETED),
        Code::POST => Response::new(Code::CREATED).location("/other"),
        _ => Response::new(Code::CHANGED),
    };
    let origin = Origin::new(answer).await;
    let client = caching();
    let [here, with_query, other] = ["", "?q", "other"].map(|rest| format!("{}{rest}", origin.uri));
    let stale = async |uri: &String| client.get(uri).await.expect("a response").course().transmissions > 0;
    for (method, at, expected) in [
        (Code::PUT, &here, [true, true, false]),
        (Code::DELETE, &with_query, [true, true, false]),
        (Code::PUT, &other, [false, false, true]),
        (Code::POST, &here, [true, true, true]),
    ] {
        for uri in [&here, &with_query, &other] {
            stale(uri).await;
            assert!(!stale(uri).await);
        }
        client.request(method, at).await.expect("a response");
        assert_eq!([stale(&here).await, stale(&with_query).await, stale(&other).await], expected, "{method:?} {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_unsafe_request_also_makes_cached_responses_stale() {
    let gate = Arc::new(Semaphore::new(0));
    let (started, writing) = (Arc::new(Semaphore::new(0)), Arc::clone(&gate));
    let start = Arc::clone(&started);
    let write = move || {
        let (start, gate) = (Arc::clone(&start), Arc::clone(&writing));
        async move {
            start.add_permits(1);
            let _ = gate.acquire().await.expect("it is open");
        }
    };
    let read = async || counted(0, 100_000);
    let server = Server::builder().route("/", get(read).put(write)).bind("127.0.0.1:0").await.expect("it starts");
    let uri = format!("coap://{}/", server.local_addr());
    let client = caching();
    client.get(&uri).await.expect("a response");
    let change = tokio::spawn(client.put(&uri).send());
    let _ = started.acquire().await.expect("it is open");
    assert!(client.get(&uri).await.expect("a response").age().is_some());
    change.abort();
    assert!(change.await.expect_err("it was cancelled").is_cancelled());
    assert!(client.get(&uri).await.expect("a response").age().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_response_to_a_read_that_began_before_a_change_is_not_cached() {
    let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (reading, start) = (Arc::clone(&gate), Arc::clone(&started));
    let read = move || {
        let (start, gate) = (Arc::clone(&start), Arc::clone(&reading));
        async move {
            start.add_permits(1);
            let _ = gate.acquire().await.expect("it is open");
            counted(0, 100_000)
        }
    };
    let resource = get(read).put(async || Code::CHANGED);
    let server = Server::builder().route("/", resource).bind("127.0.0.1:0").await.expect("it starts");
    let uri = format!("coap://{}/", server.local_addr());
    let client = caching();
    let before = tokio::spawn(client.get(&uri).send());
    let _ = started.acquire().await.expect("it is open");
    client.put(&uri).await.expect("a response");
    gate.add_permits(8);
    before.await.expect("no panic").expect("a response");
    assert!(client.get(&uri).await.expect("a response").age().is_none(), "the first may be from before the change");
    assert!(client.get(&uri).await.expect("a response").age().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_fresh_answer_is_validated_and_its_answer_kept() {
    let origin = Origin::new(|_, n| counted(n, 1000).etag(&[u8::from(n > 1)])).await;
    let client = caching();
    origin.get(&client).await;
    let valid = client.get(&origin.uri).fresh().await.expect("a response");
    assert!(is_cached(&valid, "0") && valid.course().messages == 1);
    let anew = client.get(&origin.uri).fresh().await.expect("a response");
    assert_eq!((anew.age(), anew.text()), (None, Ok("2")));
    assert!(is_cached(&origin.get(&client).await, "2"));
}

#[tokio::test(start_paused = true)]
async fn requests_with_conditions_or_for_a_block_pass_by() {
    let origin = Origin::new(|_, n| counted(n, 1000).etag(b"v")).await;
    let client = caching();
    origin.get(&client).await;
    let request = || client.get(&origin.uri);
    let own = request().option(OptionNumber::ETAG, b"v").await.expect("a response");
    assert_eq!((own.code(), own.age()), (Code::VALID, None), "the program asked with its own ETag");
    let block = Block { num: 0, more: false, size: BlockSize::B16 };
    for aside in [request().option(OptionNumber::IF_MATCH, b"v"), request().block(block)] {
        for _ in 0..2 {
            assert_eq!(aside.clone().await.expect("a response").age(), None);
        }
    }
    assert!(is_cached(&origin.get(&client).await, "0"), "and leave what is stored as it is");
}

// RFC 7959 §2.4
#[tokio::test(start_paused = true)]
async fn a_body_that_came_in_blocks_is_kept_and_validated_whole() {
    let body = || (0..50_000_u32).map(|n| u8::try_from(n % 251).expect("a byte")).collect::<Vec<_>>();
    let answer = move |_: &Request, _| {
        let response = Response::new(Code::CONTENT).payload(ContentFormat::OCTET_STREAM, body());
        response.etag(b"large").max_age(seconds(1000))
    };
    let origin = Origin::new(answer).await;
    let client = caching();
    for (age, asked) in [(false, 1), (true, 1), (true, 2)] {
        let answer = origin.get(&client).await;
        assert!(answer.payload() == body(), "{} bytes that differ", answer.payload().len());
        assert_eq!((answer.age().is_some(), origin.asked()), (age, asked));
        if asked == 1 && age {
            tokio::time::sleep(seconds(2000)).await;
        }
    }
}

// RFC 7641 §2 (Q336), §3.3.1 (Q337)
#[tokio::test(start_paused = true)]
async fn notifications_are_kept_without_observe_and_age_from_their_arrival() {
    let (value, notifier) = (Arc::new(AtomicU32::new(0)), Notifier::new());
    let state = Arc::clone(&value);
    let read = move || {
        let state = Arc::clone(&state);
        async move { counted(state.load(Ordering::SeqCst), 1000) }
    };
    let resource = get(read).observed_by(&notifier);
    let server = Server::builder().route("/", resource).bind("127.0.0.1:0").await.expect("it starts");
    let uri = format!("coap://{}/", server.local_addr());
    let client = caching();
    let mut observation = client.observe(&uri);
    let first = observation.next().await.expect("it goes on").expect("a state");
    assert!(first.option(OptionNumber::OBSERVE).is_some());
    let cached = client.get(&uri).await.expect("a response");
    assert!(is_cached(&cached, "0") && cached.option(OptionNumber::OBSERVE).is_none(), "{cached:?}");

    value.store(1, Ordering::SeqCst);
    notifier.notify();
    tokio::time::sleep(seconds(600)).await;
    assert_eq!(observation.next().await.expect("it goes on").expect("a state").text(), Ok("1"));
    let cached = client.get(&uri).await.expect("a response");
    assert!(is_cached(&cached, "1") && cached.age() >= Some(seconds(500)), "{:?}", cached.age());
}

#[tokio::test(start_paused = true)]
async fn a_response_to_an_earlier_read_does_not_replace_a_notification() {
    let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (reading, start, notifier) = (Arc::clone(&gate), Arc::clone(&started), Notifier::new());
    let read = move |request: Request| {
        let (start, gate) = (Arc::clone(&start), Arc::clone(&reading));
        async move {
            if request.message().option(OptionNumber::OBSERVE).is_none() {
                start.add_permits(1);
                let _ = gate.acquire().await.expect("it is open");
            }
            counted(0, 100_000)
        }
    };
    let resource = get(read).observed_by(&notifier);
    let server = Server::builder().route("/", resource).bind("127.0.0.1:0").await.expect("it starts");
    let uri = format!("coap://{}/", server.local_addr());
    let client = caching();
    let mut observation = client.observe(&uri);
    observation.next().await.expect("it goes on").expect("a state");
    let before = tokio::spawn(client.get(&uri).fresh().send());
    let _ = tokio::time::timeout(seconds(100), started.acquire()).await.expect("the server is asked");
    notifier.send(counted(1, 100_000));
    assert_eq!(observation.next().await.expect("it goes on").expect("a state").text(), Ok("1"));
    gate.add_permits(8);
    assert_eq!(before.await.expect("no panic").expect("a response").text(), Ok("0"));
    assert!(is_cached(&client.get(&uri).await.expect("a response"), "1"));
}

// RFC 7959 §2.6
#[tokio::test(start_paused = true)]
async fn a_state_that_is_fetched_after_its_notification_replaces_the_one_before() {
    let (value, notifier) = (Arc::new(AtomicU32::new(0)), Notifier::new());
    let state = Arc::clone(&value);
    let read = move || {
        let text = state.load(Ordering::SeqCst).to_string().repeat(5000);
        async move { Response::new(Code::CONTENT).text(text).max_age(seconds(100_000)) }
    };
    let resource = get(read).observed_by(&notifier);
    let server = Server::builder().route("/", resource).bind("127.0.0.1:0").await.expect("it starts");
    let uri = format!("coap://{}/", server.local_addr());
    let client = caching();
    let mut observation = client.observe(&uri);
    for n in 0..3 {
        value.store(n, Ordering::SeqCst);
        if n > 0 {
            notifier.notify();
            tokio::time::sleep(seconds(10)).await;
            // The notification brought only a part; the rest is being fetched.
            let begun = tokio::time::timeout(Duration::ZERO, observation.next()).await;
            assert!(begun.is_err(), "{n}");
            let meanwhile = client.get(&uri).await.expect("a response");
            assert_eq!(meanwhile.text(), Ok(n.to_string().repeat(5000).as_str()));
        }
        let state = observation.next().await.expect("it goes on").expect("a state");
        assert_eq!(state.text(), Ok(n.to_string().repeat(5000).as_str()));
        assert!(is_cached(&client.get(&uri).await.expect("a response"), &n.to_string().repeat(5000)), "{n}");
    }
}

#[tokio::test]
async fn the_client_of_a_server_has_a_cache_if_it_is_given_one_and_its_clones_share_it() {
    let origin = Origin::new(|_, n| counted(n, 600)).await;
    let cached = Server::builder().client_cache(CacheLimits::default()).bind("127.0.0.1:0").await.expect("it starts");
    assert_eq!(origin.get(&cached.client()).await.text().expect("text"), "0");
    let again = origin.get(&cached.client()).await;
    assert_eq!((again.text().expect("text"), again.age().is_some(), origin.asked()), ("0", true, 1));

    let plain = Server::builder().bind("127.0.0.1:0").await.expect("it starts");
    for n in ["1", "2"] {
        assert_eq!(origin.get(&plain.client()).await.text().expect("text"), n);
    }
}

#[tokio::test]
async fn the_client_of_a_server_validates_stale_responses_by_etag() {
    let origin = Origin::new(|request, _| match request.message().option(OptionNumber::ETAG) {
        Some(etag) if etag == b"tag" => Response::new(Code::VALID).option(OptionNumber::ETAG, b"tag"),
        _ => Response::new(Code::CONTENT).text("state").max_age(seconds(0)).option(OptionNumber::ETAG, b"tag"),
    })
    .await;
    let server = Server::builder().client_cache(CacheLimits::default()).bind("127.0.0.1:0").await.expect("it starts");
    for asked in [1, 2] {
        let response = origin.get(&server.client()).await;
        assert_eq!((response.code(), response.text().expect("text")), (Code::CONTENT, "state"));
        assert_eq!(origin.asked(), asked);
    }
}
