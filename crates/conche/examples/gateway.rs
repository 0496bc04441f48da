//! A gateway that asks ten thousand devices at the same time: `cargo run -p conche --example gateway`
//!
//! The devices are one server on all of Linux's loopback addresses. Ends with an error unless each of them answers.

use std::time::Instant;

use conche::server::get;
use conche::{Client, Server};
use tokio::task::JoinSet;

const DEVICES: u32 = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().route("/temperature", get(async || "21.5")).bind("0.0.0.0:0").await?;
    let port = server.local_addr().port();

    // ANCHOR: ask
    let client = Client::new();
    let start = Instant::now();
    let mut requests = JoinSet::new();
    for device in 0..DEVICES {
        let (subnet, host) = (device / 250, device % 250 + 1);
        requests.spawn(client.get(format!("coap://127.1.{subnet}.{host}:{port}/temperature")).send());
    }
    // ANCHOR_END: ask

    // ANCHOR: count
    let (mut answered, mut failed) = (0, 0);
    while let Some(outcome) = requests.join_next().await {
        match outcome?.and_then(conche::client::Response::successful) {
            Ok(_) => answered += 1,
            Err(error) => {
                failed += 1;
                eprintln!("{error}");
            }
        }
    }
    // ANCHOR_END: count
    let stats = client.stats().await;
    println!(
        "{answered} devices answered, {failed} did not, {} retransmissions, {:.1?}",
        stats.retransmissions,
        start.elapsed()
    );
    if failed > 0 { Err(format!("{failed} of {DEVICES} devices did not answer").into()) } else { Ok(()) }
}
