//! A server with its metrics (Prometheus format) as a CoAP resource, and a client:
//! `cargo run -p conche --features metrics --example metrics`.
//!
//! Over HTTP, return the same text for GET /metrics, with the Content-Type
//! `conche::metrics::CONTENT_TYPE`.

use std::sync::{Arc, OnceLock};

use conche::server::{Path, Rejection, Router, State, get};
use conche::{Client, Code, Server};

/// Maximum number of listed destinations: this server's usual number.
const DESTINATIONS: usize = 32;

/// A client on the server's socket, once the server has started.
type Own = Arc<OnceLock<Client>>;

async fn metrics(State(own): State<Own>) -> Result<String, Rejection> {
    let own =
        own.get().ok_or_else(|| Rejection::new(Code::SERVICE_UNAVAILABLE, "the server starts"))?;
    Ok(own.metrics(DESTINATIONS).await)
}

async fn greet(Path(name): Path<String>) -> String {
    format!("hello, {name}")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let own = Own::default();
    let router = Router::new().route("/metrics", get(metrics)).route("/greet/{name}", get(greet));
    let server =
        Server::builder().router(router.with_state(Arc::clone(&own))).bind("127.0.0.1:0").await?;
    own.get_or_init(|| server.client());

    let (client, address) = (Client::new(), server.local_addr());
    client.get(format!("coap://{address}/greet/you")).await?.successful()?;
    let response = client.get(format!("coap://{address}/metrics")).await?.successful()?;
    println!("# The server:\n{}", response.text()?);
    println!("# The client:\n{}", client.metrics(DESTINATIONS).await);
    // The greeting, and the request for the metrics.
    assert!(response.text()?.contains("conche_requests_received_total 2\n"));
    Ok(())
}
