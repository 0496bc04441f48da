//! A client that is closed finishes its requests and ends its observations.

use std::sync::Arc;
use std::time::Duration;

use conche::server::{Notifier, get};
use conche::{Client, Error, Server};
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;

const LOCALHOST: &str = "127.0.0.1:0";

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn requests_in_flight_and_in_the_queue_are_answered_before_a_client_is_closed() {
    let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let slow = {
        let (gate, started) = (Arc::clone(&gate), Arc::clone(&started));
        move || {
            started.add_permits(1);
            let gate = Arc::clone(&gate);
            async move { gate.acquire().await.map_or("closed", |_| "open") }
        }
    };
    let server = Server::builder().route("/", get(slow)).bind(LOCALHOST).await.expect("it starts");
    let (client, uri) = (Client::new(), format!("coap://{}/", server.local_addr()));
    let requests: Vec<_> = (0..3).map(|_| tokio::spawn(client.get(&uri).send())).collect();
    let _ = started.acquire().await.expect("the first request arrives");
    let closing = tokio::spawn({
        let client = client.clone();
        async move { client.close(LONG).await }
    });
    tokio::task::yield_now().await;
    gate.add_permits(1);
    for request in requests {
        assert_eq!(request.await.expect("no panic").expect("a response").text(), Ok("open"));
    }
    closing.await.expect("no panic");
    let error = client.get(&uri).await.expect_err("it is closed");
    assert!(matches!(error, Error::Stopped), "{error}");
    // The second call returns at once.
    client.close(LONG).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_holds_a_closing_client_no_longer_than_allowed() {
    let silent = UdpSocket::bind(LOCALHOST).await.expect("loopback can be bound");
    let (client, uri) = (Client::new(), format!("coap://{}/", silent.local_addr().expect("it is bound")));
    let request = tokio::spawn(client.get(&uri).send());
    silent.recv(&mut [0; 64]).await.expect("the request");
    let closes = tokio::time::timeout(Duration::from_secs(3), client.close(Duration::from_secs(2))).await;
    assert!(closes.is_ok());
    let error = request.await.expect("no panic").expect_err("no answer");
    assert!(matches!(error, Error::Stopped), "{error}");
}

#[tokio::test]
async fn a_closed_client_has_deregistered_its_observations() {
    let changed = Notifier::new();
    let resource = get(async || "state").observed_by(&changed);
    let server = Server::builder().route("/", resource).bind(LOCALHOST).await.expect("it starts");
    let client = Client::new();
    let mut observation = client.observe(format!("coap://{}/", server.local_addr()));
    assert!(observation.next().await.is_some_and(|state| state.is_ok()));
    assert_eq!(changed.observers(), 1);
    client.close(LONG).await;
    assert_eq!(changed.observers(), 0);
    let end = observation.next().await.expect("why it ends").expect_err("it is closed");
    assert!(matches!(end, Error::Stopped), "{end}");
    assert!(observation.next().await.is_none());
}

#[tokio::test]
async fn closing_the_client_of_a_server_has_no_effect() {
    let server = Server::builder().route("/", get(async || "open")).bind(LOCALHOST).await.expect("it starts");
    let client = server.client();
    client.close(LONG).await;
    let response = client.get(format!("coap://{}/", server.local_addr())).await.expect("a response");
    assert_eq!(response.text(), Ok("open"));
}
