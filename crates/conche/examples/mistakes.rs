//! Common mistakes and their error texts: `cargo run -p conche --example mistakes`

use std::error::Error;
use std::time::Duration;

use conche::client::Waiting;
use conche::server::{Payload, get};
use conche::{AnyController, Client, Code, ContentFormat, EndpointConfig, Server, SubscriptionEnd};
use tokio::task::JoinSet;

type Outcome = Result<(), Box<dyn Error>>;

async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_millis(50)).await;
    "done"
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let slow = get(slow).put(async |Payload(_): Payload| ());
    let server = Server::builder().route("/slow", slow).bind("127.0.0.1:0").await?;
    let uri = format!("coap://{}/slow", server.local_addr());
    too_many_wait(&uri).await?;
    too_large_to_send(&uri).await?;
    too_large_to_take(&uri).await?;
    not_observable(&uri).await?;
    too_many_at_once()?;
    other_initial_rto()?;
    limit_too_small().await
}

/// More requests for one device than may wait.
async fn too_many_wait(uri: &str) -> Outcome {
    // ANCHOR: too_many_wait
    let waiting = Waiting { per_destination: 2, ..Waiting::default() };
    let client = Client::builder().waiting(waiting).build()?;
    let mut requests = JoinSet::new();
    for _ in 0..10 {
        requests.spawn(client.get(uri).send());
    }
    let outcomes = requests.join_all().await;
    let error = outcomes.into_iter().find_map(Result::err).ok_or("all found room")?;
    expect(
        &error,
        "2 messages wait for this destination already: wait for some to end, \
         or raise Waiting::per_destination",
    )
    // ANCHOR_END: too_many_wait
}

/// A request body beyond the client's limit.
async fn too_large_to_send(uri: &str) -> Outcome {
    // ANCHOR: too_large_to_send
    let image = vec![0; 100_000];
    let request = Client::new().put(uri).payload(ContentFormat::OCTET_STREAM, image);
    let error = request.await.err().ok_or("it was sent")?;
    expect(
        &error,
        "the payload has 100000 bytes, which is more than the limit of 65536: \
         raise body_limit of the ClientBuilder, or of the ServerBuilder for Server::client",
    )
    // ANCHOR_END: too_large_to_send
}

/// A request body within the client's limit but beyond the server's.
async fn too_large_to_take(uri: &str) -> Outcome {
    // ANCHOR: too_large_to_take
    let client = Client::builder().body_limit(1 << 20).build()?;
    let image = vec![0; 100_000];
    let response = client.put(uri).payload(ContentFormat::OCTET_STREAM, image).await?;
    assert_eq!(response.code(), Code::REQUEST_ENTITY_TOO_LARGE);
    expect(
        &response.successful().err().ok_or("it was taken")?,
        "the server answers 4.13 Request Entity Too Large: the body is too large",
    )
    // ANCHOR_END: too_large_to_take
}

/// A resource without a notifier.
async fn not_observable(uri: &str) -> Outcome {
    // ANCHOR: not_observable
    let mut states = Client::new().observe(uri);
    assert_eq!(states.next().await.ok_or("no first state")??.text()?, "done");
    assert!(states.next().await.is_none());
    assert_eq!(states.end(), Some(SubscriptionEnd::NotObserved));
    // ANCHOR_END: not_observable
    Ok(())
}

/// A higher NSTART with a controller that measures nothing.
fn too_many_at_once() -> Outcome {
    // ANCHOR: too_many_at_once
    let mut config = EndpointConfig::default();
    config.transmission.nstart = 4;
    let client =
        Client::builder().config(config).controller(AnyController::by_name("default")?).build();
    expect(
        &client.err().ok_or("it was built")?,
        "nstart is 4: above 1 only with a congestion controller that measures RTTs",
    )
    // ANCHOR_END: too_many_at_once
}

/// Derived times that assume another initial RTO than the controller's.
fn other_initial_rto() -> Outcome {
    // ANCHOR: other_initial_rto
    let mut config = EndpointConfig::default();
    config.transmission.ack_timeout = Duration::from_secs(1);
    let client = Client::builder().config(config).build();
    expect(
        &client.err().ok_or("it was built")?,
        "ack_timeout is 1s, but the controller's initial RTO is 2s: \
         give the controller's configuration the same value",
    )
    // ANCHOR_END: other_initial_rto
}

/// A limit too small for a single request.
async fn limit_too_small() -> Outcome {
    // ANCHOR: limit_too_small
    let mut config = EndpointConfig::default();
    config.limits.deduplication_bytes = 1000;
    let server = Server::builder().config(config).bind("127.0.0.1:0").await;
    expect(
        &server.err().ok_or("it was bound")?,
        "the limit deduplication_bytes, which is not 0, is 1000: \
         it must be between 5120 and 4294967295",
    )
    // ANCHOR_END: limit_too_small
}

/// Some errors begin with the address of the server.
fn expect(error: &impl Error, text: &str) -> Outcome {
    println!("{error}");
    if error.to_string().ends_with(text) {
        Ok(())
    } else {
        Err(format!("that should have been: {text}").into())
    }
}
