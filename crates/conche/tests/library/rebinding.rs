//! `coaps` behind a NAT that changes the client's address, and over a lossy path.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conche::security::Secret;
use conche::server::{get, post};
use conche::{Client, Error, Server};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::own_address::own_address;
use crate::test_peers::keys;

struct Nat {
    address: SocketAddr,
    orders: mpsc::UnboundedSender<Order>,
    handshakes: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum Order {
    Rebind,
    LoseAnswers(bool),
    LoseOne,
}

impl Nat {
    async fn before(server: SocketAddr) -> Self {
        let inside = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let address = inside.local_addr().expect("an address");
        let (orders, mut ordered) = mpsc::unbounded_channel();
        let handshakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&handshakes);
        let outside = || async { UdpSocket::bind("127.0.0.1:0").await.expect("a port") };
        tokio::spawn(async move {
            let (mut upstream, mut client) = (outside().await, None);
            let (mut loses_answers, mut loses_one) = (false, false);
            let (mut up, mut down) = (vec![0; 2000], vec![0; 2000]);
            loop {
                tokio::select! {
                    biased;
                    order = ordered.recv() => match order {
                        Some(Order::Rebind) => upstream = outside().await,
                        Some(Order::LoseAnswers(loses)) => loses_answers = loses,
                        Some(Order::LoseOne) => loses_one = true,
                        None => return,
                    },
                    Ok((len, from)) = inside.recv_from(&mut up) => {
                        client = Some(from);
                        // A handshake record with a ClientKeyExchange.
                        if up[0] == 22 && up[13] == 16 {
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                        if !std::mem::take(&mut loses_one) {
                            let _ = upstream.send_to(&up[..len], server).await;
                        }
                    }
                    Ok((len, _)) = upstream.recv_from(&mut down) => {
                        if let (Some(client), false) = (client, loses_answers) {
                            let _ = inside.send_to(&down[..len], client).await;
                        }
                    }
                }
            }
        });
        Self { address, orders, handshakes }
    }

    fn order(&self, order: Order) {
        self.orders.send(order).expect("it goes on");
    }

    fn handshakes(&self) -> usize {
        self.handshakes.load(Ordering::Relaxed)
    }

    fn uri(&self, path: &str) -> String {
        format!("coaps://{}{path}", self.address)
    }
}

fn client() -> Client {
    let builder = Client::builder().psk(*b"lamp", Secret::new(*b"sesame")).expect("a key");
    builder.build().expect("valid")
}

async fn server() -> Server {
    let builder = Server::builder().psk(keys).route("/hello", get(async || "world"));
    builder.bind(own_address()).await.expect("a port")
}

#[tokio::test]
async fn a_request_after_a_nat_rebinding_is_answered_through_a_new_session() {
    let server = server().await;
    let (nat, client) = (Nat::before(server.local_addr()).await, client());
    assert!(client.get(nat.uri("/hello")).await.is_ok());
    nat.order(Order::Rebind);
    let answer = client.get(nat.uri("/hello")).await.expect("answered");
    assert_eq!((answer.payload(), nat.handshakes()), (&b"world"[..], 2));
    assert!(client.get(nat.uri("/hello")).await.is_ok());
    assert_eq!(nat.handshakes(), 2);
}

#[tokio::test]
async fn a_session_that_answers_a_retransmission_is_kept() {
    let server = server().await;
    let (nat, client) = (Nat::before(server.local_addr()).await, client());
    assert!(client.get(nat.uri("/hello")).await.is_ok());
    for _ in 0..2 {
        nat.order(Order::LoseOne);
        assert!(client.get(nat.uri("/hello")).await.is_ok());
    }
    assert_eq!(nat.handshakes(), 1);
}

#[tokio::test]
async fn a_post_that_may_have_been_executed_is_not_sent_again_through_another_session() {
    let executed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&executed);
    let pulse = post(move || {
        count.fetch_add(1, Ordering::Relaxed);
        async { "done" }
    });
    let server = Server::builder().psk(keys).route("/pulse", pulse).route("/hello", get(async || "world"));
    let server = server.bind(own_address()).await.expect("a port");
    let (nat, client) = (Nat::before(server.local_addr()).await, client());
    assert!(client.get(nat.uri("/hello")).await.is_ok());
    nat.order(Order::LoseAnswers(true));
    let request = tokio::spawn(client.post(nat.uri("/pulse")).send());
    while executed.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    nat.order(Order::Rebind);
    nat.order(Order::LoseAnswers(false));
    let error = request.await.expect("no panic").expect_err("its session is over");
    assert!(matches!(error, Error::SessionOver { .. }) && error.was_sent(), "{error:?}");
    assert!(client.get(nat.uri("/hello")).await.is_ok());
    assert_eq!((executed.load(Ordering::Relaxed), nat.handshakes()), (1, 2));
}

#[tokio::test]
async fn a_server_has_no_more_sessions_than_it_may() {
    let server = Server::builder().psk(keys).max_sessions(1).route("/hello", get(async || "world"));
    let server = server.bind(own_address()).await.expect("a port");
    let nats = [Nat::before(server.local_addr()).await, Nat::before(server.local_addr()).await];
    let clients = [client(), client()];
    for (client, nat) in clients.iter().zip(&nats).chain(clients.iter().zip(&nats)) {
        assert!(client.get(nat.uri("/hello")).await.is_ok());
    }
    assert_eq!(nats.map(|nat| nat.handshakes()), [2, 2], "each closes the other's session");
}

#[tokio::test]
async fn an_identity_has_no_more_sessions_than_it_may() {
    let server = Server::builder().psk(keys).max_sessions_per_identity(1).route("/hello", get(async || "world"));
    let server = server.bind(own_address()).await.expect("a port");
    let nats = [Nat::before(server.local_addr()).await, Nat::before(server.local_addr()).await];
    let clients = [client(), client()];
    for (client, nat) in clients.iter().zip(&nats).chain(clients.iter().zip(&nats)) {
        assert!(client.get(nat.uri("/hello")).await.is_ok());
    }
    assert_eq!(nats.map(|nat| nat.handshakes()), [2, 2]);
}

#[tokio::test]
async fn a_server_without_room_for_a_session_does_not_start() {
    assert!(Server::builder().psk(keys).max_sessions(0).bind("127.0.0.1:0").await.is_err());
    assert!(Server::builder().psk(keys).max_sessions_per_identity(0).bind("127.0.0.1:0").await.is_err());
}
