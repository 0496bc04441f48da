//! A server with several workers, one per client.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use conche::client::Observation;
use conche::server::{BindError, Notifier, Response, Router, ServerBuilder, State, WorkersError, get, post};
use conche::{Client, Code, EndpointConfig, Error, Limits, Reliability, Server, SourceValidation};
use tokio::net::UdpSocket;

use crate::own_address::own_address;

const WORKERS: usize = 4;

const CLIENTS: usize = 64;

/// A Confirmable POST to /count.
const REQUEST: &[u8] = b"\x41\x02\x00\x07t\xb5count";

fn builder() -> ServerBuilder {
    Server::builder().workers(WORKERS)
}

async fn worker() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

async fn count(State(count): State<Arc<AtomicUsize>>) -> String {
    count.fetch_add(1, Ordering::Relaxed).to_string()
}

fn uri(server: &Server, path: &str) -> String {
    format!("coap://{}/{path}", server.local_addr())
}

#[tokio::test]
async fn each_client_is_served_always_by_the_same_worker_and_all_workers_serve() {
    let server = builder().route("/worker", get(worker)).bind("127.0.0.1:0").await.expect("it starts");
    let mut workers = BTreeSet::new();
    for _ in 0..CLIENTS {
        let client = Client::new();
        let mut of_client = BTreeSet::new();
        for _ in 0..3 {
            let response = client.get(uri(&server, "worker")).await.expect("it is served");
            of_client.insert(response.text().expect("a text").to_owned());
        }
        assert_eq!(of_client.len(), 1, "{of_client:?}");
        workers.extend(of_client);
    }
    assert!(workers.len() > 1 && workers.len() <= WORKERS, "{workers:?}");
    assert_eq!(server.stats().await.requests_received, 3 * CLIENTS as u64);
}

#[tokio::test]
async fn a_copy_of_a_request_is_answered_by_the_worker_that_remembers_it() {
    let counter = Arc::new(AtomicUsize::new(0));
    let router = Router::new().route("/count", post(count)).with_state(Arc::clone(&counter));
    let server = builder().router(router).bind("127.0.0.1:0").await.expect("it starts");
    // All stay open: a reused port would be the same client.
    let mut sockets = Vec::new();
    for _ in 0..CLIENTS {
        sockets.push(UdpSocket::bind("127.0.0.1:0").await.expect("the loopback can be bound"));
    }
    for socket in &sockets {
        socket.connect(server.local_addr()).await.expect("it is an address");
        let mut replies = BTreeSet::new();
        for _ in 0..3 {
            socket.send(REQUEST).await.expect("it is sent");
            let mut reply = [0; 64];
            let length = socket.recv(&mut reply).await.expect("a reply");
            replies.insert(reply[..length].to_vec());
        }
        assert_eq!(replies.len(), 1);
    }
    assert_eq!(counter.load(Ordering::Relaxed), CLIENTS);
}

#[tokio::test]
async fn a_request_whose_copies_come_while_the_server_starts_is_served_once() {
    let counter = Arc::new(AtomicUsize::new(0));
    let router = Router::new().route("/count", post(count)).with_state(Arc::clone(&counter));
    let address = own_address();
    let (serves, started) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let clients = thread::spawn({
        let (serves, started) = (Arc::clone(&serves), Arc::clone(&started));
        move || {
            let socket = || std::net::UdpSocket::bind("127.0.0.1:0").expect("the loopback can be bound");
            let sockets: Vec<_> = (0..CLIENTS).map(|_| socket()).collect();
            let ask = |socket: &std::net::UdpSocket| drop(socket.send_to(REQUEST, address));
            sockets.iter().for_each(ask);
            started.wait();
            while !serves.load(Ordering::Relaxed) {
                sockets.iter().for_each(ask);
            }
            for socket in &sockets {
                socket.set_read_timeout(Some(Duration::from_millis(100))).expect("it is not zero");
                while socket.recv(&mut [0; 64]).is_err() {
                    ask(socket);
                }
            }
        }
    });
    started.wait();
    let server = builder().workers(16).router(router).bind(address).await.expect("it starts");
    serves.store(true, Ordering::Relaxed);
    tokio::task::spawn_blocking(|| clients.join()).await.expect("it ends").expect("all are answered");
    assert_eq!(counter.load(Ordering::Relaxed), CLIENTS);
    drop(server);
}

#[derive(Clone, Default)]
struct Door {
    moves: Arc<AtomicU32>,
    moved: Notifier,
}

/// Confirmable: a Non-confirmable notification would wait for room on the path.
async fn moves(State(door): State<Door>) -> Response {
    let moves = door.moves.load(Ordering::Relaxed).to_string();
    Response::new(Code::CONTENT).text(moves).reliability(Reliability::Confirmable)
}

async fn hear(observation: &mut Observation, state: &str) {
    while observation.next().await.expect("it goes on").expect("it goes well").text().expect("a text") != state {}
}

#[tokio::test]
async fn observers_at_different_workers_all_hear_of_a_change() {
    let door = Door::default();
    let resource = get(moves).observed_by(&door.moved);
    let router = Router::new().route("/door", resource).with_state(door.clone());
    let server = builder().router(router).bind("127.0.0.1:0").await.expect("it starts");
    let mut observations = Vec::new();
    for _ in 0..CLIENTS {
        let mut observation = Client::new().observe(uri(&server, "door"));
        hear(&mut observation, "0").await;
        observations.push(observation);
    }
    assert_eq!(door.moved.observers(), CLIENTS);
    for change in 1..=3_u32 {
        door.moves.store(change, Ordering::Relaxed);
        door.moved.notify();
        for observation in &mut observations {
            hear(observation, &change.to_string()).await;
        }
    }
}

#[tokio::test]
async fn a_shut_down_server_answers_no_client_and_releases_its_address() {
    let server = builder().route("/worker", get(worker)).bind(own_address()).await.expect("it starts");
    let (address, uri) = (server.local_addr(), uri(&server, "worker"));
    let clients = [(); CLIENTS].map(|()| Client::new());
    for client in &clients {
        client.get(&uri).await.expect("it is served");
    }
    server.shutdown(Duration::from_secs(10)).await;
    for client in &clients {
        let error = client.get(&uri).await.expect_err("nobody is there");
        assert!(matches!(error, Error::Failed { .. }), "{error}");
    }
    Server::builder().bind(address).await.expect("nobody has the address");
}

#[tokio::test]
async fn a_server_that_is_dropped_leaves_the_address() {
    let server = builder().bind(own_address()).await.expect("it starts");
    let address = server.local_addr();
    drop(server);
    while std::net::UdpSocket::bind(address).is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handler_that_waits_answers_from_its_worker_separately() {
    async fn late() -> String {
        tokio::time::sleep(Duration::from_millis(20)).await;
        worker().await
    }
    let config = EndpointConfig { separate_after: Duration::from_millis(1), ..Default::default() };
    let server = builder().config(config).route("/late", get(late)).bind("127.0.0.1:0").await.expect("it starts");
    for _ in 0..8 {
        let response = Client::new().get(uri(&server, "late")).await.expect("it is served");
        assert!(response.text().expect("a text").starts_with("conche-"));
    }
}

#[tokio::test]
async fn acknowledgements_find_their_worker_while_others_have_nothing_left_to_do() {
    async fn late() -> String {
        let worker = worker().await;
        let index: u64 = worker.trim_start_matches("conche-").parse().expect("a number");
        tokio::time::sleep(Duration::from_millis(200 * index)).await;
        worker
    }
    let config = EndpointConfig {
        separate_after: Duration::from_millis(1),
        source_validation: SourceValidation::Off,
        ..Default::default()
    };
    let server = builder().config(config).route("/late", get(late)).bind("127.0.0.1:0").await.expect("it starts");
    let mut sockets = Vec::new();
    for _ in 0..CLIENTS {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("the loopback can be bound");
        socket.connect(server.local_addr()).await.expect("it is an address");
        socket.send(b"\x41\x01\x00\x07t\xb4late").await.expect("it is sent");
        sockets.push(socket);
    }
    // Requests during a shutdown are refused.
    while server.stats().await.requests_received < CLIENTS as u64 {
        tokio::task::yield_now().await;
    }
    let clients = sockets.into_iter().map(|socket| tokio::spawn(responses(socket))).collect::<Vec<_>>();
    server.shutdown(Duration::from_secs(100)).await;
    for client in clients {
        assert_eq!(
            tokio::time::timeout(Duration::from_secs(10), client).await.expect("it ends").expect("it ends well"),
            1
        );
    }
}

/// Returns the number of acknowledged responses.
async fn responses(socket: UdpSocket) -> usize {
    let (mut responses, mut datagram) = (0, [0; 64]);
    loop {
        match tokio::time::timeout(Duration::from_millis(100), socket.recv(&mut datagram)).await {
            Ok(Ok(_)) if datagram[1] == 0 => {}
            Ok(Ok(_)) => {
                responses += 1;
                if datagram[0] & 0x30 == 0 {
                    socket.send(&[0x60, 0, datagram[2], datagram[3]]).await.expect("it is sent");
                }
            }
            // Tests whether the server is alive.
            Err(_) => drop(socket.send(&[0x60, 0, 0xff, 0xff]).await),
            Ok(Err(_)) => return responses,
        }
    }
}

#[tokio::test]
async fn a_second_server_gets_no_part_of_the_clients_of_the_first() {
    let server = builder().bind("127.0.0.1:0").await.expect("it starts");
    let second = builder().bind(server.local_addr()).await.expect_err("the address is taken");
    assert!(matches!(second, BindError::Socket { .. }), "{second}");
}

#[tokio::test]
async fn sockets_and_groups_are_refused_with_several_workers() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("the loopback can be bound");
    let refused = builder().socket(socket).await.expect_err("it is one socket");
    assert!(matches!(refused, BindError::Workers(WorkersError::Socket)), "{refused}");
    let group = IpAddr::from([224, 0, 1, 187]);
    let refused = builder().join_group(group, 0).bind("0.0.0.0:0").await.expect_err("it is a group");
    assert!(matches!(refused, BindError::Workers(WorkersError::Group)), "{refused}");
}

#[tokio::test]
async fn invalid_settings_are_refused_with_several_workers() {
    for message_bytes in [0, usize::MAX] {
        let limits = Limits { message_bytes, ..Limits::default() };
        let config = EndpointConfig { limits, ..EndpointConfig::default() };
        let refused = builder().config(config).bind("127.0.0.1:0").await.expect_err("no message has so many bytes");
        assert!(matches!(refused, BindError::Config(_)), "{refused}");
    }
}

#[tokio::test]
async fn the_client_of_a_server_with_workers_gets_its_answers() {
    let peer = Server::builder().route("/worker", get(worker)).bind("127.0.0.1:0").await.expect("it starts");
    let server = builder().bind("127.0.0.1:0").await.expect("it starts");
    for _ in 0..8 {
        server.client().get(uri(&peer, "worker")).await.expect("it is served");
    }
}
