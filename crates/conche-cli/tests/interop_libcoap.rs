//! Interoperability with the client and server of Debian's libcoap3-bin, in both directions:
//! Confirmable and Non-confirmable requests, piggybacked and separate responses, directly and
//! through a relay that loses 10, 20 and 30 % each way.
//!
//! The relay loses at most 2 transmissions of the same datagram in each direction, so every
//! Confirmable exchange must succeed (see [`Impairment::most_losses_per_datagram`]). A new client
//! repeats each Non-confirmable request until it succeeds, at most 40 times. At 30 % loss each way
//! one try fails with probability 0.51, and 40 of them with probability 2·10⁻¹².

#![allow(missing_docs, reason = "a test")]

#[cfg(unix)]
#[path = "interop_libcoap/coaps.rs"]
mod coaps;
mod common;
#[cfg(unix)]
#[path = "interop_libcoap/emulated.rs"]
mod emulated;

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::own_address::own_address;
use common::{Process, conche, run, serve};
use conche::client::Response;
use conche::{Client, Code, Reliability};
use conche_cli::relay::{Impairment, Loss, Relay, RelayConfig};

const CLIENT: &str = "coap-client-notls";
const SERVER: &str = "coap-server-notls";
const WITHOUT_TOOLS: &str = "libcoap3-bin must be installed: apt-get install libcoap3-bin";

const LOSSES: [f64; 3] = [0.1, 0.2, 0.3];
const SEEDS: u64 = 6;

const RESOURCE: &str = "/conche";
const CONTENT: &str = "made by a test";

/// Creates [`RESOURCE`] once libcoap's server responds.
async fn libcoap_server() -> (Process, SocketAddr) {
    let address = own_address();
    let mut command = Command::new(SERVER);
    command.args(["-A", &address.ip().to_string(), "-d", "10", "-p", &address.port().to_string()]);
    let server = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect(WITHOUT_TOOLS));
    let client = Client::new();
    let uri = format!("coap://{address}{RESOURCE}");
    // Until it listens, the loopback refuses at once. A PUT whose response came too late has created
    // the resource, and the next one changes it.
    let mut last = None;
    for _ in 0..100 {
        let put = client.put(&uri).bytes(CONTENT).timeout(Duration::from_secs(1)).await;
        if put.as_ref().is_ok_and(|response| [Code::CREATED, Code::CHANGED].contains(&response.code())) {
            return (server, address);
        }
        last = Some(put.map(|response| response.code()));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{SERVER} on {address} did not create {RESOURCE}; the last of 100 PUTs: {last:?}");
}

async fn lossy_relay(upstream: SocketAddr, loss: f64, seed: u64, bounded: bool) -> Relay {
    let most_losses_per_datagram = bounded.then_some(2);
    let lossy = Impairment { loss: Loss::Bernoulli(loss), most_losses_per_datagram, ..Impairment::default() };
    let config = RelayConfig { to_upstream: lossy, to_client: lossy, seed };
    Relay::start(SocketAddr::from(([127, 0, 0, 1], 0)), upstream, config).await.expect("loopback can be bound")
}

fn libcoap(arguments: &[&str], uri: &str) -> String {
    let output = Command::new(CLIENT).args(arguments).arg(uri).output().expect(WITHOUT_TOOLS);
    let stdout = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    if stdout.is_empty() { String::from_utf8_lossy(&output.stderr).trim_end().to_owned() } else { stdout }
}

#[tokio::test]
#[ignore = "needs libcoap3-bin"]
async fn our_command_talks_to_a_libcoap_server() {
    let (_server, address) = libcoap_server().await;
    let ask = |arguments: &[&str], path: &str| {
        let ended = run(conche().args(arguments).arg(format!("coap://{address}{path}")));
        (ended.status, ended.stdout)
    };
    assert_eq!(ask(&["get"], RESOURCE), (Some(0), CONTENT.into()));
    assert_eq!(ask(&["get", "-N"], RESOURCE), (Some(0), CONTENT.into()));
    assert_eq!(ask(&["put", "-e", "changed", "-t", "text"], RESOURCE), (Some(0), String::new()));
    assert_eq!(ask(&["get", "-A", "text"], RESOURCE), (Some(0), "changed".into()));
    assert_eq!(ask(&["get"], "/async?1"), (Some(0), "done".into()));
    assert_eq!(ask(&["get", "-N"], "/async?1"), (Some(0), "done".into()));
    assert!(ask(&["get"], "/.well-known/core").1.contains("</async>"));
    assert_eq!(ask(&["delete"], RESOURCE), (Some(0), String::new()));
    assert_eq!(ask(&["get"], RESOURCE), (Some(4), String::new()));
}

#[test]
#[ignore = "needs libcoap3-bin"]
fn a_libcoap_client_talks_to_our_server() {
    let (_server, address) = serve();
    let ask = |arguments: &[&str], path: &str| libcoap(arguments, &format!("coap://{address}{path}"));
    assert_eq!(ask(&["-m", "get"], "/test"), "hello");
    assert_eq!(ask(&["-m", "get", "-N"], "/test"), "hello");
    assert_eq!(ask(&["-m", "get"], "/a/b"), "a/b");
    assert_eq!(ask(&["-m", "get"], "/missing"), "4.04");
    assert_eq!(ask(&["-m", "put"], "/count"), "4.05");
    assert_eq!(ask(&["-m", "put", "-t", "text/plain", "-e", "changed"], "/test"), "");
    assert_eq!(ask(&["-m", "get", "-A", "text/plain"], "/test"), "changed");
    assert_eq!(ask(&["-m", "delete"], "/test"), "");
    assert_eq!(ask(&["-m", "get"], "/test"), "4.04");
    assert_eq!(ask(&["-m", "post", "-e", "x"], "/count"), "1");
    assert_eq!(ask(&["-m", "post", "-N", "-e", "x"], "/count"), "2");
    assert!(ask(&["-m", "get"], "/.well-known/core").contains("</a/b>;title=\"Two segments\""));
    assert_eq!(ask(&["-m", "get", "-B", "20"], "/separate"), "separate");
    assert_eq!(ask(&["-m", "get", "-N", "-B", "20"], "/separate"), "separate");
}

async fn for_each_loss_and_seed<F: Future<Output = Relay> + Send + 'static>(case: impl Fn(f64, u64) -> F) {
    let mut cases = tokio::task::JoinSet::new();
    for loss in LOSSES {
        for seed in 0..SEEDS {
            cases.spawn(case(loss, seed));
        }
    }
    let (mut forwarded, mut lost) = (0, 0);
    while let Some(outcome) = cases.join_next().await {
        let counts = outcome.expect("the case holds").counts();
        forwarded += counts.to_upstream + counts.to_client;
        lost += counts.lost_to_upstream + counts.lost_to_client;
    }
    assert!(lost * 10 > forwarded + lost, "{lost} datagrams were lost and {forwarded} forwarded");
}

#[tokio::test]
#[ignore = "needs libcoap3-bin"]
async fn confirmable_requests_to_a_libcoap_server_survive_loss() {
    let (_server, server) = libcoap_server().await;
    for_each_loss_and_seed(move |loss, seed| async move {
        let relay = lossy_relay(server, loss, seed, true).await;
        let client = Client::new();
        for (path, content) in [(RESOURCE, CONTENT), ("/async?1", "done"), (RESOURCE, CONTENT)] {
            let response = client.get(format!("coap://{}{path}", relay.local_addr())).await;
            let response = response.unwrap_or_else(|error| panic!("{path} at loss {loss}, seed {seed}: {error}"));
            assert_eq!((response.code(), response.text()), (Code::CONTENT, Ok(content)), "{path} {loss} {seed}");
        }
        relay
    })
    .await;
}

#[tokio::test]
#[ignore = "needs libcoap3-bin"]
async fn confirmable_requests_of_a_libcoap_client_survive_loss() {
    let (_server, server) = serve();
    for_each_loss_and_seed(move |loss, seed| async move {
        let relay = lossy_relay(server, loss, seed, true).await;
        for (path, content) in [("/test", "hello"), ("/separate", "separate"), ("/a/b", "a/b")] {
            let uri = format!("coap://{}{path}", relay.local_addr());
            let printed = tokio::task::spawn_blocking(move || libcoap(&["-m", "get", "-B", "120"], &uri)).await;
            assert_eq!(printed.expect("no panic"), content, "{path} at loss {loss}, seed {seed}");
        }
        relay
    })
    .await;
}

#[tokio::test]
#[ignore = "needs libcoap3-bin"]
async fn a_post_of_a_libcoap_client_is_handled_once_however_often_it_arrives() {
    for_each_loss_and_seed(|loss, seed| async move {
        let (_server, server) = serve();
        let relay = lossy_relay(server, loss, seed, true).await;
        for count in 1..=3 {
            let uri = format!("coap://{}/count", relay.local_addr());
            let printed = tokio::task::spawn_blocking(move || libcoap(&["-m", "post", "-B", "120"], &uri)).await;
            assert_eq!(printed.expect("no panic"), count.to_string(), "at loss {loss}, seed {seed}");
        }
        relay
    })
    .await;
}

const TRIES: usize = 40;

#[tokio::test]
#[ignore = "needs libcoap3-bin"]
async fn non_confirmable_requests_to_a_libcoap_server_get_through_sooner_or_later() {
    let (_server, server) = libcoap_server().await;
    for_each_loss_and_seed(move |loss, seed| async move {
        let relay = lossy_relay(server, loss, seed, false).await;
        for (path, content, wait) in [(RESOURCE, CONTENT, 200), ("/async?1", "done", 2000)] {
            let mut response: Option<Response> = None;
            for _ in 0..TRIES {
                let request = Client::new().get(format!("coap://{}{path}", relay.local_addr()));
                let request = request.reliability(Reliability::NeverConfirmable).timeout(Duration::from_millis(wait));
                response = request.await.ok();
                if response.is_some() {
                    break;
                }
            }
            let response = response.unwrap_or_else(|| panic!("{path} at loss {loss}, seed {seed}: {TRIES} tries"));
            assert_eq!(response.text(), Ok(content), "{path} at loss {loss}, seed {seed}");
        }
        relay
    })
    .await;
}

#[tokio::test]
#[ignore = "needs libcoap3-bin"]
async fn non_confirmable_requests_of_a_libcoap_client_get_through_sooner_or_later() {
    let (_server, server) = serve();
    for_each_loss_and_seed(move |loss, seed| async move {
        let relay = lossy_relay(server, loss, seed, false).await;
        let uri = format!("coap://{}/test", relay.local_addr());
        let printed = tokio::task::spawn_blocking(move || {
            (0..TRIES).map(|_| libcoap(&["-m", "get", "-N", "-B", "1"], &uri)).find(|printed| printed == "hello")
        });
        assert!(printed.await.expect("no panic").is_some(), "at loss {loss}, seed {seed}: {TRIES} tries");
        relay
    })
    .await;
}
