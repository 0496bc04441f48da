//! A server on a public network: `cargo run -p conche --example exposed`

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conche::server::{RequireFresh, State, get, post};
use conche::{Client, Code, EndpointConfig, OptionNumber, ResponseLimit, Server};

/// Number of times the door was opened.
type Opened = Arc<AtomicU32>;

async fn open(State(opened): State<Opened>) {
    opened.fetch_add(1, Ordering::Relaxed);
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let opened = Opened::default();

    // ANCHOR: limits
    // At most ten responses per second to a source address, with bursts of thirty.
    let response_limit = Some(ResponseLimit { per_second: 10, burst: 30 });
    let mut config = EndpointConfig { response_limit, ..EndpointConfig::default() };
    // Memory for deduplicating non-idempotent requests: some 250 POSTs per second.
    config.limits.deduplication_bytes = 4 << 20;
    // ANCHOR_END: limits

    // ANCHOR: fresh
    let fresh = RequireFresh::within(Duration::from_secs(10))?;
    let door = post(open).layer(fresh).with_state(Arc::clone(&opened));
    // ANCHOR_END: fresh
    // ANCHOR: server
    let server = Server::builder()
        .config(config)
        .body_limit(4 << 10)
        .concurrency(64)
        .route("/door", door)
        .route("/log", get(async || "opened at dawn, closed at dusk\n".repeat(20)))
        .bind("127.0.0.1:0")
        .await?;
    // ANCHOR_END: server

    // ANCHOR: client
    let client = Client::new();
    let there = format!("coap://{}", server.local_addr());
    client.get(format!("{there}/log")).await?.successful()?;
    println!("{} exchanges to read the log", client.stats().await.exchanges);
    client.get(format!("{there}/log")).await?.successful()?;
    println!("{} when it has been read again", client.stats().await.exchanges);
    client.post(format!("{there}/door")).await?.successful()?;
    println!("{} when the door is open", client.stats().await.exchanges);

    let recorded =
        client.post(format!("{there}/door")).option(OptionNumber::ECHO, b"recorded").await?;
    println!("what was recorded is answered {}", recorded.code());
    // ANCHOR_END: client
    if recorded.code() == Code::UNAUTHORIZED && opened.load(Ordering::Relaxed) == 1 {
        Ok(())
    } else {
        Err("somebody opened the door who should not have".into())
    }
}
