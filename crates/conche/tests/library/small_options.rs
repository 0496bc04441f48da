//! Options of later RFCs, over loopback sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conche::codec::NoResponse;
use conche::server::{Notifier, RequireFresh, Response, Router, State, get, post};
use conche::{Client, Code, Error, OptionNumber, Problem, Server, SourceValidation};

/// Number of handler runs.
type Count = Arc<AtomicU32>;

async fn count(State(count): State<Count>) {
    count.fetch_add(1, Ordering::SeqCst);
}

async fn start(router: Router<Count>) -> (Server, Count, String) {
    let ran = Count::default();
    let router: Router = router.with_state(ran.clone());
    let server = Server::builder().router(router).bind("127.0.0.1:0").await.expect("it starts");
    let uri = format!("coap://{}/", server.local_addr());
    (server, ran, uri)
}

// RFC 9175 §2.3 (Q206, Q207)
#[tokio::test]
async fn a_request_that_must_be_fresh_has_its_effect_once_after_a_round_trip() {
    let fresh = RequireFresh::within(Duration::from_secs(60)).expect("there is randomness");
    let (_server, ran, uri) = start(Router::new().route("/", post(count).layer(fresh))).await;
    let client = Client::new();
    let response = client.post(&uri).await.expect("a response");
    assert_eq!((response.code(), ran.load(Ordering::SeqCst)), (Code::CHANGED, 1));
    assert_eq!(client.stats().await.exchanges, 2);

    let stale = client.post(&uri).option(OptionNumber::ECHO, b"recorded").await.expect("a response");
    assert_eq!((stale.code(), ran.load(Ordering::SeqCst)), (Code::UNAUTHORIZED, 1), "a given value is not replaced");
    let value = stale.option(OptionNumber::ECHO).expect("a challenge").to_vec();
    let again = client.post(&uri).option(OptionNumber::ECHO, &value).await.expect("a response");
    assert_eq!((again.code(), ran.load(Ordering::SeqCst)), (Code::CHANGED, 2));
}

// RFC 9175 §2.3 (Q207)
#[tokio::test]
async fn a_request_is_repeated_twice_at_most_however_often_the_server_challenges() {
    async fn challenge(State(count): State<Count>) -> Response {
        count.fetch_add(1, Ordering::SeqCst);
        Response::new(Code::UNAUTHORIZED).option(OptionNumber::ECHO, b"again")
    }
    let (_server, ran, uri) = start(Router::new().route("/", post(challenge))).await;
    let response = Client::new().post(&uri).await.expect("a response");
    assert_eq!((response.code(), ran.load(Ordering::SeqCst)), (Code::UNAUTHORIZED, 3));
}

// RFC 9175 §2.4 (Q304)
#[tokio::test]
async fn a_server_serves_large_responses_and_observers_however_they_prove_their_address() {
    for validation in [SourceValidation::Ping, SourceValidation::Echo, SourceValidation::Off] {
        serves_everything(validation).await;
    }
}

async fn serves_everything(validation: SourceValidation) {
    let (count, notifier) = (Count::default(), Notifier::new());
    let ran = Arc::clone(&count);
    let add = move || {
        ran.fetch_add(1, Ordering::SeqCst);
        async { "x".repeat(5_000) }
    };
    let fresh = RequireFresh::within(Duration::from_secs(60)).expect("there is randomness");
    let router = Router::new()
        .route("/large", get(async || "y".repeat(5_000)).observed_by(&notifier))
        .route("/add", post(add).layer(fresh));
    let server = Server::builder().source_validation(validation).router(router);
    let server = server.bind("127.0.0.1:0").await.expect("it starts");
    let uri = |path: &str| format!("coap://{}{path}", server.local_addr());

    let large = Client::new().get(uri("/large")).await.expect("a response");
    assert_eq!((large.code(), large.payload().len()), (Code::CONTENT, 5_000));
    // Address validation and freshness are separate challenges.
    let added = Client::new().post(uri("/add")).await.expect("a response");
    assert_eq!((added.code(), added.payload().len(), count.load(Ordering::SeqCst)), (Code::CHANGED, 5_000, 1));

    let mut observation = Client::new().observe(uri("/large"));
    assert_eq!(observation.next().await.expect("it goes on").expect("a state").payload().len(), 5_000);
    assert_eq!(notifier.observers(), 1);
    notifier.send(Response::new(Code::CONTENT).text("changed"));
    assert_eq!(observation.next().await.expect("it goes on").expect("a state").text(), Ok("changed"));
}

// RFC 7967 §2 (Q201)
#[tokio::test]
async fn a_request_that_wants_no_response_ends_well_when_it_is_acknowledged() {
    let router = Router::new().route("/", post(count).delete(async || Code::NOT_FOUND));
    let (_server, ran, uri) = start(router).await;
    let client = Client::new();
    let nothing = client.post(&uri).send_without_response(NoResponse::ALL).await;
    assert!(matches!(nothing, Ok(None)), "{nothing:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    let wanted = client.delete(&uri).send_without_response(NoResponse::SUCCESS).await.expect("it arrives");
    assert_eq!(wanted.map(|response| response.code()), Some(Code::NOT_FOUND));
    let error = client.post(&uri).uint(OptionNumber::NO_RESPONSE, 26).await.expect_err("no response came");
    assert!(matches!(error, Error::Unanswered { .. }) && error.was_sent(), "{error}");
}

#[tokio::test]
async fn a_client_error_displays_the_problem_details() {
    let taken = async || Err::<(), _>(Problem::new(Code::CONFLICT, "the room is taken").with_detail("until 14:00"));
    let (_server, _, uri) = start(Router::new().route("/", post(taken))).await;
    let response = Client::new().post(&uri).await.expect("a response");
    assert_eq!(response.problem().and_then(|problem| problem.response_code), Some(Code::CONFLICT));
    let peer = response.from();
    let error = response.successful().expect_err("4.09");
    assert_eq!(error.to_string(), format!("{peer}: the server answers 4.09 Conflict: the room is taken: until 14:00"));
}

// RFC 7252 §5.10.7 (Q214)
#[tokio::test]
async fn the_location_of_a_created_resource_is_a_uri_reference() {
    let made =
        async || Response::new(Code::CREATED).location("/notes/a b").option(OptionNumber::LOCATION_QUERY, b"v=1");
    let (_server, _, uri) = start(Router::new().route("/", post(made))).await;
    let response = Client::new().post(&uri).await.expect("a response");
    assert_eq!(response.location().as_deref(), Some("/notes/a%20b?v=1"));
}
