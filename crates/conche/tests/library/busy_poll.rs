//! Busy polling for responses.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conche::server::get;
use conche::watch::{Fact, Notice, Watcher};
use conche::{Client, Error, Failure, Server};
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::task::yield_now;

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
    let stats = client.stats().await;
    assert_eq!(stats.datagrams_sent - stats.retransmissions, 100);
}

#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
fn sleeps() -> u64 {
    Handle::current().metrics().worker_park_count(0)
}

#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
async fn sleeps_in_vain(client: &Client, silent: &UdpSocket, for_long: Duration) -> u64 {
    let uri = format!("coap://{}/", silent.local_addr().expect("it is bound"));
    let mut datagram = [0; 64];
    let request = loop {
        let mut request = tokio::spawn(client.get(&uri).timeout(for_long).into_future());
        tokio::select! {
            received = silent.recv_from(&mut datagram) => {
                received.expect("a request");
                break request;
            }
            // On a loaded machine the timeout can precede the datagram.
            ended = &mut request => assert!(ended.expect("it ends").is_err()),
        }
    };
    let before = sleeps();
    assert!(request.await.expect("it ends").is_err());
    sleeps() - before
}

#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
#[tokio::test]
async fn the_thread_does_not_sleep_while_an_answer_is_looked_for() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    for longest in [LONG, Duration::MAX] {
        assert_eq!(sleeps_in_vain(&looking(longest), &silent, Duration::from_millis(20)).await, 0, "{longest:?}");
    }
    assert!(
        sleeps_in_vain(&looking(Duration::ZERO), &silent, Duration::from_millis(20)).await > 0,
        "by default it does"
    );
}

#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
#[tokio::test]
async fn the_thread_sleeps_when_nothing_is_outstanding() {
    let server = Server::builder().route("/t", get(async || "21.5")).bind("127.0.0.1:0").await.expect("it starts");
    let client = looking(LONG);
    client.get(format!("coap://{}/t", server.local_addr())).await.expect("a response");
    yield_now().await;
    let before = sleeps();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(sleeps() > before);
}

#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
#[tokio::test]
async fn nothing_is_looked_for_where_round_trips_take_longer() {
    let far = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let client = looking(Duration::from_millis(50));
    let uri = format!("coap://{}/", far.local_addr().expect("it is bound"));
    let request = tokio::spawn(client.get(uri).into_future());
    let mut datagram = [0; 64];
    let (length, from) = far.recv_from(&mut datagram).await.expect("a request");
    tokio::time::sleep(Duration::from_millis(80)).await;
    // An ACK with 2.05, and the request's token.
    (datagram[0], datagram[1]) = (datagram[0] | 0x20, 0x45);
    let token = usize::from(datagram[0] & 0xf);
    assert!(length >= 4 + token);
    far.send_to(&datagram[..4 + token], from).await.expect("it is sent");
    request.await.expect("no panic").expect("a response");
    assert!(sleeps_in_vain(&client, &far, Duration::from_millis(20)).await > 0);
}

#[derive(Default)]
struct Turns {
    so_far: AtomicU32,
    at_datagrams: Mutex<Vec<u32>>,
}

impl Watcher for Turns {
    fn notice(&self, notice: &Notice<'_>) {
        if let Fact::Received { .. } = notice.fact {
            self.at_datagrams.lock().expect("nobody panics").push(self.so_far.load(Ordering::Relaxed));
        }
    }
}

#[tokio::test]
async fn others_have_turns_while_datagrams_arrive_that_nothing_answers() {
    // Fewer than any socket buffer holds.
    const FLOOD: usize = 200;
    for longest in [Duration::ZERO, LONG] {
        let silent = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
        let uri = format!("coap://{}/", silent.local_addr().expect("it is bound"));
        let turns = Arc::new(Turns::default());
        let client = Client::builder().busy_poll(longest).watch(Arc::clone(&turns)).build().expect("legal settings");
        let request = tokio::spawn(client.get(uri).timeout(LONG).into_future());
        let (_, from) = silent.recv_from(&mut [0; 64]).await.expect("a request");
        let flooding = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
        for _ in 0..FLOOD {
            flooding.send_to(&[0x60, 0, 1, 2], from).expect("it is sent");
        }
        while turns.at_datagrams.lock().expect("nobody panics").len() < FLOOD {
            turns.so_far.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
        request.abort();
        let at_datagrams = turns.at_datagrams.lock().expect("nobody panics");
        assert!(at_datagrams.first() < at_datagrams.last(), "{longest:?}: {at_datagrams:?}");
    }
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
async fn busy_polling_does_not_stall_a_paused_clock() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let uri = format!("coap://{}/", silent.local_addr().expect("it is bound"));
    let ended = looking(Duration::from_millis(1)).get(uri).await;
    assert!(matches!(ended, Err(Error::Failed { failure: Failure::TimedOut, .. })), "{ended:?}");
}
