//! Path state: sharing among peers, and its file.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use conche::client::ClientBuilder;
use conche::server::get;
use conche::{Client, Server};
use tokio::net::UdpSocket;

const LOCALHOST: &str = "127.0.0.1:0";

async fn server() -> Server {
    Server::builder().route("/", get(async || "hello")).bind(LOCALHOST).await.expect("it starts")
}

async fn ask(client: &Client, server: &Server) {
    client.get(format!("coap://{}/", server.local_addr())).await.expect("a response");
}

async fn srtt(client: &Client, peer: SocketAddr) -> Option<Duration> {
    client.snapshot(peer).await.and_then(|peer| peer.congestion.srtt)
}

async fn begins_with(client: &Client, silent: &UdpSocket) -> (Option<Duration>, Duration) {
    let peer = silent.local_addr().expect("it is bound");
    let request = tokio::spawn(client.get(format!("coap://{peer}/")).send());
    silent.recv_from(&mut [0; 64]).await.expect("a request");
    let known = client.snapshot(peer).await.expect("it is in use").congestion;
    request.abort();
    (known.srtt, known.rto)
}

async fn silent() -> UdpSocket {
    UdpSocket::bind(LOCALHOST).await.expect("loopback can be bound")
}

fn build(builder: ClientBuilder) -> Client {
    builder.build().expect("legal settings")
}

#[tokio::test]
async fn a_peer_on_another_port_starts_from_the_path_state_of_its_host() {
    let (client, server) = (Client::new(), server().await);
    ask(&client, &server).await;
    let known = srtt(&client, server.local_addr()).await;
    assert!(known.is_some());
    assert_eq!(begins_with(&client, &silent().await).await.0, known);
}

#[tokio::test]
async fn with_sharing_off_each_peer_is_alone() {
    let (client, server) = (build(Client::builder().share_paths(false)), server().await);
    ask(&client, &server).await;
    assert_eq!(begins_with(&client, &silent().await).await.0, None);
}

// Other platforms have one IPv4 loopback address.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_path_length_decides_which_peers_share_path_state() {
    let loopback = |length| Client::builder().path_length_for("127.0.0.0/8".parse().expect("a prefix"), length);
    let neighbour = UdpSocket::bind("127.0.0.2:0").await.expect("loopback can be bound");
    let server = server().await;
    for (length, shares) in [(32, false), (24, true)] {
        let client = build(loopback(length));
        ask(&client, &server).await;
        assert_eq!(begins_with(&client, &neighbour).await.0.is_some(), shares, "/{length}");
    }
    let error = loopback(33).build().expect_err("there is no such address");
    assert_eq!(error.to_string(), "paths of 33 bits for 127.0.0.0/8: its addresses have 32");
}

#[tokio::test]
async fn a_path_that_is_reset_is_forgotten_by_its_neighbours() {
    let (client, server) = (Client::new(), server().await);
    ask(&client, &server).await;
    client.reset_path(server.local_addr()).await;
    assert_eq!(srtt(&client, server.local_addr()).await, None);
    assert_eq!(begins_with(&client, &silent().await).await.0, None);
}

#[tokio::test]
async fn the_client_of_a_server_shares_path_state_with_it() {
    let (node, server) = (server().await, server().await);
    ask(&node.client(), &server).await;
    assert!(begins_with(&node.client(), &silent().await).await.0.is_some());
}

fn stored(file: &Path) -> Client {
    build(Client::builder().path_store(file))
}

#[tokio::test]
async fn a_restarted_client_starts_from_stored_path_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    let server = server().await;
    let first = stored(&file);
    ask(&first, &server).await;
    let known = srtt(&first, server.local_addr()).await;
    first.keep_paths().await;
    drop(first);
    let (begun, rto) = begins_with(&stored(&file), &silent().await).await;
    assert!(begun.is_some());
    assert_eq!(begun, known);
    assert!(rto < Duration::from_secs(2), "{rto:?}");
}

#[tokio::test]
async fn a_path_that_was_reset_is_not_known_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    let server = server().await;
    let first = stored(&file);
    ask(&first, &server).await;
    first.keep_paths().await;
    first.reset_path(server.local_addr()).await;
    first.keep_paths().await;
    assert_eq!(begins_with(&stored(&file), &silent().await).await.0, None);
}

#[tokio::test]
async fn a_server_shutdown_stores_path_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    let node = Server::builder().path_store(&file).bind(LOCALHOST).await.expect("it starts");
    ask(&node.client(), &server().await).await;
    node.shutdown(Duration::from_secs(2)).await;
    let text = fs::read_to_string(&file).expect("it was written");
    assert!(text.lines().any(|line| line.starts_with("127.0.0.1/32 heard=")), "{text}");
    assert!(begins_with(&stored(&file), &silent().await).await.0.is_some());
}

#[tokio::test(start_paused = true)]
async fn path_state_is_stored_each_minute() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    let (client, server) = (stored(&file), server().await);
    ask(&client, &server).await;
    assert!(!file.exists());
    tokio::time::sleep(Duration::from_secs(61)).await;
    // The paused clock does not advance during the write.
    for _ in 0..10 {
        if !file.exists() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    assert!(file.exists());
    fs::remove_file(&file).expect("it is there");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(!file.exists(), "there was nothing new");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_keeps_no_client_from_its_work() {
    let directory = tempfile::tempdir().expect("a directory");
    let foreign = directory.path().join("foreign");
    fs::write(&foreign, "a letter").expect("it is written");
    let server = server().await;
    for file in [&foreign, directory.path(), &directory.path().join("none").join("paths")] {
        let client = stored(file);
        ask(&client, &server).await;
        client.keep_paths().await;
    }
    assert_eq!(fs::read_to_string(&foreign).expect("it is there"), "a letter");
}

#[tokio::test]
async fn with_sharing_off_the_store_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    let (client, server) = (build(Client::builder().share_paths(false).path_store(&file)), server().await);
    ask(&client, &server).await;
    client.keep_paths().await;
    assert!(!file.exists());
}
