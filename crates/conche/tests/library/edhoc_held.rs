//! EDHOC (RFC 9528; RFC 9668) with held messages and slow handlers.

use std::collections::HashSet;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use conche::client::Full;
use conche::security::Identity;
use conche::server::{Notifier, get};
use conche::{
    AnyController, Client, Code, ContentFormat, EndpointConfig, Error, Failure, RequestError, Server, SourceValidation,
};
use conche_proto::codec::{Body, Message, OwnedMessage, Type};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::edhoc::{parties, restarted, sent_at_first, server};
use crate::test_peers::{Act, LONG, OnPathAttacker, Toward};

const SHORT: Duration = Duration::from_millis(300);

fn hasty() -> conche::client::ClientBuilder {
    let mut config = EndpointConfig::default();
    config.transmission.nstart = 4;
    let controller = AnyController::by_name("cocoa-s").expect("there is one");
    Client::builder().config(config).controller(controller)
}

#[tokio::test]
async fn an_error_that_comes_late_for_earlier_keys_leaves_the_new_ones_as_they_are() {
    let (lamp, hall) = parties();
    let first = server(hall.clone()).await;
    let foe = OnPathAttacker::before(first.local_addr()).await;
    let (uri, client) = (format!("coap://{}/who", foe.address), hasty().edhoc(lamp).build().expect("legal settings"));
    assert_eq!(client.get(&uri).await.expect("an answer").code(), Code::CONTENT);
    let _second = restarted(first, hall).await;
    foe.act(Toward::Client, 0, Act::Hold);
    let early = tokio::spawn(client.get(&uri).into_future());
    foe.holds(Toward::Client, 1).await;
    let late = tokio::spawn(client.get(&uri).into_future());
    foe.holds(Toward::Client, 2).await;
    foe.act(Toward::Client, usize::MAX, Act::Pass);
    let errors = foe.take(Toward::Client);
    let refused = |answer: Result<_, Error>| {
        let error = answer.map(|_: conche::client::Response| ()).expect_err("the keys are gone");
        assert!(matches!(error, Error::Failed { failure: Failure::NotAuthenticated(_), .. }), "{error:?}");
    };
    foe.release(Toward::Client, &errors[..1]).await;
    refused(early.await.expect("it does not panic"));
    assert_eq!(client.get(&uri).await.expect("with new keys").code(), Code::CONTENT);
    foe.release(Toward::Client, &errors[1..2]).await;
    refused(late.await.expect("it does not panic"));
    let before = sent_at_first(&client).await;
    assert_eq!(client.get(&uri).await.expect("with the same").code(), Code::CONTENT);
    assert_eq!(sent_at_first(&client).await, before + 1, "nothing had to be agreed on");
}

async fn observed(party: conche::edhoc::Party, at: &str, gate: &Arc<Semaphore>) -> (Server, Notifier) {
    let (notifier, gate) = (Notifier::new(), Arc::clone(gate));
    let slow = move || {
        let gate = Arc::clone(&gate);
        async move { gate.acquire().await.map_or("closed", |_| "open") }
    };
    let route = get(async || "t").observed_by(&notifier);
    let server = Server::builder()
        .source_validation(SourceValidation::Off)
        .edhoc(party)
        .secured_only()
        .route("/t", route)
        .route("/slow", get(slow));
    (server.bind(at).await.expect("the loopback can be bound"), notifier)
}

#[tokio::test]
async fn an_observation_resumes_once_another_request_detects_lost_keys() {
    let ((lamp, hall), gate) = (parties(), Arc::new(Semaphore::new(0)));
    let (first, _) = observed(hall.clone(), "127.0.0.1:0", &gate).await;
    let address = first.local_addr();
    let foe = OnPathAttacker::before(address).await;
    let (uri, client) = (format!("coap://{}/t", foe.address), hasty().edhoc(lamp).build().expect("legal settings"));
    let mut observation = client.observe(&uri);
    assert!(observation.next().await.is_some_and(|state| state.is_ok()));
    // The end is not reported.
    foe.act(Toward::Client, 0, Act::Hold);
    first.shutdown(Duration::ZERO).await;
    foe.holds(Toward::Client, 1).await;
    foe.act(Toward::Client, usize::MAX, Act::Pass);
    let (_second, notifier) = observed(hall, &address.to_string(), &gate).await;
    let error = client.get(&uri).await.expect_err("the keys are gone");
    assert!(matches!(error, Error::Failed { failure: Failure::NotAuthenticated(_), .. }), "{error:?}");
    assert_eq!(client.get(&uri).await.expect("with new keys").code(), Code::CONTENT);
    // The cached state is fresh for a minute.
    for _ in 0..2 {
        let next = timeout(LONG, observation.next()).await.expect("not silent").expect("not over").expect("a state");
        assert_eq!((next.code(), observation.end()), (Code::CONTENT, None));
        notifier.notify();
    }
}

#[tokio::test]
async fn a_forged_error_ends_its_own_request_and_nothing_else_that_the_keys_protect() {
    let ((lamp, hall), gate) = (parties(), Arc::new(Semaphore::new(0)));
    let (server, notifier) = observed(hall, "127.0.0.1:0", &gate).await;
    let foe = OnPathAttacker::before(server.local_addr()).await;
    let (uri, client) = (format!("coap://{}", foe.address), hasty().edhoc(lamp).build().expect("legal settings"));
    let mut observation = client.observe(format!("{uri}/t"));
    assert!(observation.next().await.is_some_and(|state| state.is_ok()));
    let slow = tokio::spawn(client.get(format!("{uri}/slow")).into_future());
    let is_slow = async {
        while foe.seen().iter().filter(|(toward, _)| *toward == Toward::Server).count() < 4 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LONG, is_slow).await.expect("three for the keys and what is observed, and this");
    foe.act(Toward::Server, 0, Act::Hold);
    let forged = tokio::spawn(client.get(format!("{uri}/t")).into_future());
    foe.holds(Toward::Server, 1).await;
    foe.act(Toward::Server, usize::MAX, Act::Pass);
    let asked = foe.take(Toward::Server);
    let asked = Message::decode(&asked[0]).expect("a message");
    let body = Body::builder().build().expect("legal");
    let error = OwnedMessage::encode(Type::Acknowledgement, Code::UNAUTHORIZED, asked.id(), &asked.token(), &body);
    foe.release(Toward::Client, &[error.expect("short").view().as_bytes().to_vec()]).await;
    assert!(forged.await.expect("it does not panic").is_err());
    assert_eq!(client.get(format!("{uri}/t")).await.expect("an answer").code(), Code::CONTENT);
    gate.add_permits(1);
    let slow = timeout(LONG, slow).await.expect("an answer").expect("it does not panic").expect("no error");
    assert_eq!(slow.text().expect("a text"), "open");
    for _ in 0..2 {
        let next = timeout(LONG, observation.next()).await.expect("not silent").expect("not over").expect("a state");
        assert_eq!((next.code(), observation.end()), (Code::CONTENT, None));
        notifier.notify();
    }
}

#[tokio::test]
async fn of_the_destinations_without_anything_under_way_the_one_used_least_lately_makes_room() {
    for combines in [false, true] {
        let ((lamp, hall), gate) = (parties(), Arc::new(Semaphore::new(0)));
        let mut servers = Vec::new();
        for _ in 0..4 {
            servers.push(observed(hall.clone(), "127.0.0.1:0", &gate).await);
        }
        let uri = |n: usize, path: &str| format!("coap://{}{path}", servers[n].0.local_addr());
        let client = Client::builder().edhoc(lamp.combined(combines)).edhoc_destinations(3).build().expect("legal");
        let sent = async || sent_at_first(&client).await;
        let datagrams = async |n: usize| {
            let before = sent().await;
            assert_eq!(client.get(uri(n, "/t")).await.expect("an answer").code(), Code::CONTENT);
            sent().await - before
        };
        let agreed = if combines { 2 } else { 3 };
        let mut observation = client.observe(uri(0, "/t"));
        assert!(observation.next().await.is_some_and(|state| state.is_ok()));
        assert_eq!([datagrams(1).await, datagrams(2).await, datagrams(1).await], [agreed, agreed, 1]);
        assert_eq!(datagrams(3).await, agreed);
        assert_eq!(
            [datagrams(1).await, datagrams(2).await],
            [1, agreed],
            "the second one has made room, not the first"
        );
        let before = sent().await;
        let slow: Vec<_> = [1, 2].map(|n| tokio::spawn(client.get(uri(n, "/slow")).into_future())).into();
        while sent().await < before + 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let Err(Error::Busy(busy)) = client.get(uri(3, "/t")).await else { panic!("there is no room") };
        assert_eq!((busy.what, busy.limit, busy.what.setting()), (Full::EdhocDestinations, 3, "edhoc_destinations"));
        assert_eq!(datagrams(0).await, 1);
        gate.add_permits(2);
        for answer in slow {
            let answer = timeout(LONG, answer).await.expect("an answer").expect("it does not panic");
            assert_eq!(answer.expect("no error").text().expect("a text"), "open");
        }
        assert_eq!(client.get(uri(3, "/t")).await.expect("there is room").code(), Code::CONTENT);
        servers[0].1.notify();
        let next = timeout(LONG, observation.next()).await.expect("not silent").expect("not over").expect("a state");
        assert_eq!((next.code(), observation.end()), (Code::CONTENT, None));
    }
}

/// Keys are not evicted before the request that exchanged them uses them.
#[tokio::test(flavor = "multi_thread")]
async fn destinations_that_contend_for_key_slots_get_a_response_or_busy() {
    let (lamp, hall) = parties();
    let servers = [server(hall.clone()).await, server(hall).await];
    let client = Client::builder().edhoc(lamp).edhoc_destinations(1).build().expect("legal settings");
    let uris = servers.each_ref().map(|server| format!("coap://{}/who", server.local_addr()));
    let ask = async |client: Client, uri: String| {
        let mut answered = 0;
        for _ in 0..80 {
            match client.get(&uri).await {
                Ok(response) => answered += usize::from(response.code() == Code::CONTENT),
                Err(error) => assert!(matches!(error, Error::Busy(_)), "{error:?}"),
            }
        }
        answered
    };
    let asking: Vec<_> = (0..8).map(|n| tokio::spawn(ask(client.clone(), uris[n % 2].clone()))).collect();
    let mut answered = 0;
    for asked in asking {
        answered += asked.await.expect("it does not panic");
    }
    assert!(answered > 0, "there is room for one");
}

fn combined(party: conche::edhoc::Party) -> Client {
    hasty().edhoc(party.combined(true)).build().expect("legal settings")
}

async fn who(client: &Client, uri: &str) -> String {
    let answer = timeout(LONG, client.get(uri).into_future()).await.expect("nothing holds it back");
    answer.expect("an answer").text().expect("a text").to_owned()
}

#[tokio::test]
async fn a_failed_combined_request_leaves_no_keys_unknown_to_the_server() {
    let (lamp, hall) = parties();
    let server = server(hall).await;
    let foe = OnPathAttacker::before(server.local_addr()).await;
    let uri = format!("coap://{}/who", foe.address);
    for given_up in [false, true] {
        let client = combined(lamp.clone());
        let long = (0..5).fold(client.get(&uri), |request, _| request.query(&"x".repeat(250)));
        let refused = long.await.expect_err("more than a message has");
        assert!(matches!(refused, Error::Refused(RequestError::TooLarge { .. })), "{refused:?}");
        foe.act(Toward::Server, 1, Act::Block);
        let request = client.get(&uri).timeout(if given_up { LONG } else { SHORT });
        let answer = timeout(SHORT, request.into_future()).await;
        assert!(answer.map_or(true, |answer| answer.is_err()), "it was lost");
        foe.act(Toward::Server, usize::MAX, Act::Pass);
        assert_eq!(who(&client, &uri).await, "lamp-7");
        assert_eq!(who(&client, &uri).await, "lamp-7");
    }
}

#[tokio::test]
async fn requests_that_share_an_edhoc_exchange_do_not_wait_for_a_handler() {
    let (lamp, hall) = parties();
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let slow = move || {
        let opened = Arc::clone(&opened);
        async move { opened.acquire().await.map(SemaphorePermit::forget).map_or("closed", |()| "open") }
    };
    let name = async |who: Identity| who.to_string();
    let server = Server::builder().edhoc(hall).route("/slow", get(slow)).route("/who", get(name));
    let server = server.bind("127.0.0.1:0").await.expect("the loopback can be bound");
    let uri = |path: &str| format!("coap://{}{path}", server.local_addr());
    for confirmable in [true, false] {
        let (client, before) = (combined(lamp.clone()), server.stats().await.requests_received);
        let slow = client.get(uri("/slow"));
        let slow = tokio::spawn(if confirmable { slow } else { slow.non() }.into_future());
        // The EDHOC messages and the request, which may carry the last one.
        while server.stats().await.requests_received < before + if confirmable { 2 } else { 3 } {
            tokio::task::yield_now().await;
        }
        assert_eq!(who(&client, &uri("/who")).await, "lamp-7");
        assert!(!slow.is_finished());
        gate.add_permits(1);
        let answer = slow.await.expect("it does not panic").expect("an answer");
        assert_eq!(answer.text().expect("a text"), "open");
    }
}

#[tokio::test]
async fn a_body_may_wait_for_another_request_to_the_same_server() {
    let (lamp, hall) = parties();
    let server = server(hall).await;
    let (uri, client) = (format!("coap://{}", server.local_addr()), combined(lamp));
    let (mut source, body) = tokio::io::duplex(10_000);
    let upload = client.post(format!("{uri}/size")).send_stream(conche::body::from_reader(body));
    let upload = tokio::spawn(upload);
    source.write_all(&[b'x'; 3_000]).await.expect("there is room");
    while server.stats().await.datagrams_received < 3 {
        tokio::task::yield_now().await;
    }
    let name = who(&client, &format!("{uri}/who")).await;
    source.write_all(name.as_bytes()).await.expect("there is room");
    drop(source);
    let answer = upload.await.expect("it does not panic").expect("an answer");
    assert_eq!(answer.text().expect("a text"), (3_000 + name.len()).to_string());
}

#[tokio::test]
async fn a_body_in_blocks_has_brought_the_keys_once_its_first_block_is_answered() {
    let (lamp, hall) = parties();
    let server = server(hall).await;
    let foe = OnPathAttacker::before(server.local_addr()).await;
    let (uri, client) = (format!("coap://{}", foe.address), combined(lamp));
    // message_1 and the first block with message_3 pass; the second block and a concurrent request
    // are held.
    foe.act(Toward::Server, 2, Act::Hold);
    let upload = client.post(format!("{uri}/size")).payload(ContentFormat::TEXT_PLAIN, "x".repeat(5_000));
    let upload = tokio::spawn(upload.into_future());
    foe.holds(Toward::Server, 1).await;
    let asked = tokio::spawn(client.get(format!("{uri}/who")).into_future());
    let requests = || foe.seen().into_iter().filter(|(toward, _)| *toward == Toward::Server).collect::<HashSet<_>>();
    let beside = async {
        while requests().len() < 4 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LONG, beside).await.expect("it waits for no other block");
    foe.act(Toward::Server, usize::MAX, Act::Pass);
    foe.release(Toward::Server, &foe.take(Toward::Server)).await;
    assert_eq!(asked.await.expect("it does not panic").expect("an answer").text().expect("a text"), "lamp-7");
    assert_eq!(upload.await.expect("it does not panic").expect("an answer").text().expect("a text"), "5000");
}
