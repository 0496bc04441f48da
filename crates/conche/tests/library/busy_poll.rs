//! Answers that are looked for without sleeping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use conche::server::get;
use conche::{Client, Error, Failure, Server};
use tokio::net::UdpSocket;

/// Longer than any of these tests may take.
const LONG: Duration = Duration::from_secs(3600);

fn looking(longest: Duration) -> Client {
    Client::builder().busy_poll(longest).build().expect("legal settings")
}

#[tokio::test]
async fn a_client_that_looks_for_answers_gets_them_from_a_server_of_its_own_thread() {
    let server = Server::builder().route("/t", get(async || "21.5")).bind("127.0.0.1:0").await.expect("it starts");
    let (client, uri) = (looking(LONG), format!("coap://{}/t", server.local_addr()));
    for _ in 0..100 {
        assert_eq!(client.get(&uri).await.expect("a response").text(), Ok("21.5"));
    }
    assert_eq!(client.stats().await.datagrams_sent, 100, "none was sent again");
}

#[tokio::test]
async fn while_an_answer_is_looked_for_others_have_turns_and_a_timeout_ends_it() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let uri = format!("coap://{}/", silent.local_addr().expect("it is bound"));
    let (over, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let other = tokio::spawn({
        let (over, turns) = (Arc::clone(&over), Arc::clone(&turns));
        async move {
            while !over.load(Ordering::Relaxed) {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let ended = looking(LONG).get(uri).timeout(Duration::from_millis(50)).await;
    assert!(matches!(ended, Err(Error::Failed { failure: Failure::Deadline, .. })), "{ended:?}");
    over.store(true, Ordering::Relaxed);
    other.await.expect("it ends");
    assert!(turns.load(Ordering::Relaxed) > 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_looked_for_does_not_hold_up_a_clock_that_is_paused() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let uri = format!("coap://{}/", silent.local_addr().expect("it is bound"));
    let ended = looking(Duration::from_millis(1)).get(uri).await;
    assert!(matches!(ended, Err(Error::Failed { failure: Failure::TimedOut, .. })), "{ended:?}");
}
