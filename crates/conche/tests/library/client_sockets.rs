//! Selection of a client's socket, its ICMP errors, and refused sends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conche::cc::cocoa::Cocoa;
use conche::cc::control::{Abandoned, Acknowledged, Admission, Expired, Load, Sent, Snapshot, Submission};
use conche::cc::default::CoapDefault;
use conche::cc::path_history::PathHistory;
use conche::cc::{Controller, Instant};
use conche::server::{Request, get};
use conche::{Client, Error, Failure, Server};
use tokio::net::UdpSocket;

const LOCALHOST: &str = "127.0.0.1:0";

async fn mirror() -> (Server, String) {
    let whoami = async |request: Request| request.peer().to_string();
    let server = Server::builder().route("/", get(whoami)).bind(LOCALHOST).await.expect("it starts");
    let uri = format!("coap://{}/", server.local_addr());
    (server, uri)
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_sends_from_the_address_that_it_is_bound_to() {
    let (_server, there) = mirror().await;
    let client = Client::builder().bind("127.5.5.5:0".parse().expect("an address")).build().expect("legal settings");
    let from = client.get(there).await.expect("a response");
    assert!(from.text().is_ok_and(|from| from.starts_with("127.5.5.5:")), "{from:?}");
}

#[tokio::test]
async fn a_mapped_address_in_a_uri_is_one_of_ipv4() {
    let (server, _there) = mirror().await;
    let uri = format!("coap://[::ffff:127.0.0.1]:{}/", server.local_addr().port());
    let from = Client::new().get(uri).await.expect("a response");
    assert!(from.text().is_ok_and(|from| from.starts_with("127.0.0.1:")), "{from:?}");
}

#[tokio::test]
async fn a_client_sends_from_a_socket_of_the_callers() {
    let (_server, there) = mirror().await;
    let socket = std::net::UdpSocket::bind(LOCALHOST).expect("loopback can be bound");
    let address = socket.local_addr().expect("it is bound").to_string();
    let client = Client::builder().socket(socket).build().expect("legal settings");
    assert_eq!(client.get(there).await.expect("a response").text(), Ok(address.as_str()));
}

#[tokio::test]
async fn a_server_serves_on_a_socket_of_the_callers() {
    let socket = std::net::UdpSocket::bind(LOCALHOST).expect("loopback can be bound");
    let address = socket.local_addr().expect("it is bound");
    let server = Server::builder().route("/", get(async || "hello")).socket(socket).await.expect("it starts");
    assert_eq!(server.local_addr(), address);
    assert_eq!(Client::new().get(format!("coap://{address}/")).await.expect("a response").text(), Ok("hello"));
}

#[tokio::test]
async fn an_interface_that_is_not_there_is_named_in_the_error() {
    let (_server, there) = mirror().await;
    let client = Client::builder().interface("nosuch0").build().expect("legal settings");
    let Err(Error::Socket(error)) = client.get(there).await else { panic!("there is no such interface") };
    assert!(error.to_string().contains("\"nosuch0\""), "{error}");
}

#[tokio::test]
async fn a_servers_client_sends_from_the_servers_socket_to_both_ip_versions() {
    let (_server, v4) = mirror().await;
    let whoami = async |request: Request| request.peer().to_string();
    let v6 = Server::builder().route("/", get(whoami)).bind("[::1]:0").await.expect("it starts");
    let node = Server::builder().route("/", get(async || "node")).bind("[::]:0").await.expect("it starts");
    let port = node.local_addr().port();
    let client = node.client();
    let response = client.get(&v4).await.expect("a response");
    assert_eq!(response.text(), Ok(format!("127.0.0.1:{port}").as_str()));
    assert!(response.from().is_ipv4(), "{}", response.from());
    let response = client.get(format!("coap://{}/", v6.local_addr())).await.expect("a response");
    assert_eq!(response.text(), Ok(format!("[::1]:{port}").as_str()));
    let asked = Client::new().get(format!("coap://127.0.0.1:{port}/")).await.expect("a response");
    assert_eq!(asked.text(), Ok("node"));
    drop(node);
    let stopped = client.get(&v4).await.expect_err("it ends with the server");
    assert!(matches!(stopped, Error::Stopped), "{stopped}");
}

#[tokio::test]
async fn a_socket_that_is_bound_to_a_mapped_address_reaches_ipv4_and_nothing_else() {
    let (_server, v4) = mirror().await;
    let node = Server::builder().bind("[::ffff:127.0.0.1]:0").await.expect("it starts");
    let own = Client::builder().bind("[::ffff:127.0.0.1]:0".parse().expect("an address")).build();
    for client in [node.client(), own.expect("legal settings")] {
        let response = client.get(&v4).await.expect("a response");
        assert!(response.text().is_ok_and(|peer| peer.starts_with("127.0.0.1:")), "{:?}", response.text());
    }
    let refused = node.client().get("coap://[::1]/").await.expect_err("it is another IP version");
    assert!(matches!(refused, Error::IpVersion { .. }), "{refused}");
}

#[tokio::test]
async fn the_client_of_an_ipv4_server_returns_an_error_for_ipv6() {
    let node = Server::builder().bind(LOCALHOST).await.expect("it starts");
    let failed = node.client().get("coap://[::1]/").await.expect_err("the IP versions differ");
    assert!(matches!(failed, Error::IpVersion { .. }) && !failed.was_sent(), "{failed}");
}

#[tokio::test]
async fn a_client_answers_requests_as_one_without_resources() {
    let there = UdpSocket::bind(LOCALHOST).await.expect("loopback can be bound");
    let uri = format!("coap://{}/", there.local_addr().expect("it is bound"));
    let pending = tokio::spawn(Client::new().get(uri).send());
    let mut datagram = [0; 64];
    let (_, from) = there.recv_from(&mut datagram).await.expect("a request");
    there.send_to(b"\x40\x01\x00\x07", from).await.expect("it is sent");
    let (length, _) = there.recv_from(&mut datagram).await.expect("an answer");
    assert_eq!(datagram[..length], *b"\x60\x84\x00\x07", "4.04, piggybacked");
    pending.abort();
}

#[tokio::test]
async fn path_state_can_be_read_and_reset() {
    let (server, there) = mirror().await;
    let client = Client::new();
    assert_eq!(client.snapshot(server.local_addr()).await, None);
    client.get(&there).await.expect("a response");
    let stats = client.stats().await;
    assert_eq!((stats.exchanges, stats.datagrams_sent - stats.retransmissions), (1, 1));
    let learnt = client.snapshot(server.local_addr()).await.expect("it was used");
    client.reset_path(server.local_addr()).await;
    let forgotten = client.snapshot(server.local_addr()).await.expect("it was used");
    assert!(forgotten.congestion.rto > learnt.congestion.rto, "{forgotten:?} {learnt:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_datagram_refused_by_the_system_fails_at_once_with_the_cause() {
    // Broadcasting requires SO_BROADCAST.
    let failed = Client::new().get("coap://255.255.255.255/").await.expect_err("it is not sent");
    let Error::Send { cause: source, transmissions: 0, .. } = &failed else { panic!("{failed}") };
    assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
    assert!(!failed.was_sent());
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn with_retry_unreachable_a_closed_port_does_not_end_a_confirmable_request() {
    // A closed port that no client is assigned.
    let get = |retry| {
        let client = Client::builder()
            .controller(CoapDefault::default())
            .retry_unreachable(retry)
            .build()
            .expect("legal settings");
        client.get("coap://127.0.0.1:1/")
    };
    let failure = |error| match error {
        Error::Failed { failure, course, .. } => (failure, course.transmissions),
        other => panic!("{other}"),
    };
    assert_eq!(failure(get(false).await.expect_err("it is closed")), (Failure::Unreachable, 1));
    assert_eq!(failure(get(true).await.expect_err("it is closed")), (Failure::TimedOut, 5));
    assert_eq!(failure(get(true).non().await.expect_err("it is closed")), (Failure::Unreachable, 1));
}

#[derive(Clone, Debug)]
struct Counting(Cocoa, Arc<AtomicU32>);

impl Controller for Counting {
    type Peer = <Cocoa as Controller>::Peer;
    type Flight = <Cocoa as Controller>::Flight;

    fn measures_rtt(&self) -> bool {
        self.0.measures_rtt()
    }

    fn peer(&self, now: Instant) -> Self::Peer {
        self.0.peer(now)
    }

    fn seed(&self, now: Instant, group: &PathHistory) -> Self::Peer {
        self.0.seed(now, group)
    }

    fn admit(&self, peer: &mut Self::Peer, now: Instant, message: &Submission, load: &Load) -> Admission {
        self.0.admit(peer, now, message, load)
    }

    fn sent(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Sent) -> Duration {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.sent(peer, flight, event)
    }

    fn expired(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Expired) -> Instant {
        self.0.expired(peer, flight, event)
    }

    fn acknowledged(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Acknowledged<'_>) {
        self.0.acknowledged(peer, flight, event);
    }

    fn abandoned(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Abandoned<'_>) {
        self.0.abandoned(peer, flight, event);
    }

    fn drained(&self, peer: &mut Self::Peer, now: Instant, load: &Load) {
        self.0.drained(peer, now, load);
    }

    fn base(&self, peer: &mut Self::Peer, now: Instant) -> Duration {
        self.0.base(peer, now)
    }

    fn snapshot(&self, peer: &Self::Peer) -> Snapshot {
        self.0.snapshot(peer)
    }
}

#[tokio::test]
async fn a_controller_of_ones_own_controls_a_client() {
    let (server, there) = mirror().await;
    let [everywhere, here] = [Arc::default(), Arc::default()];
    let client = Client::builder()
        .own_controller(Counting(Cocoa::draft03(), Arc::clone(&everywhere)))
        .controller_for("127.0.0.0/8".parse().expect("a prefix"), Counting(Cocoa::draft03(), Arc::clone(&here)))
        .build()
        .expect("legal settings");
    client.get(&there).await.expect("a response");
    assert_eq!([&everywhere, &here].map(|count| count.load(Ordering::Relaxed)), [0, 1]);
    let peer: SocketAddr = server.local_addr();
    assert!(client.snapshot(peer).await.is_some());
}
