//! A server whose metrics Prometheus reads over HTTP:
//! `cargo run -p conche --features metrics --example prometheus`

use std::sync::Arc;

use conche::server::get;
use conche::{Client, Server, metrics};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

// ANCHOR: http
/// Maximum number of listed destinations: the busiest ones.
const DESTINATIONS: usize = 32;

async fn export(server: Arc<Server>, listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (connection, _) = listener.accept().await?;
        tokio::spawn(answer(connection, Arc::clone(&server)));
    }
}

/// Answers every HTTP request with the metrics.
async fn answer(mut connection: TcpStream, server: Arc<Server>) -> std::io::Result<()> {
    // A scraper's request fits into one segment.
    let _request = connection.read(&mut [0; 4096]).await?;
    let (kind, text) = (metrics::CONTENT_TYPE, server.metrics(DESTINATIONS).await);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(text.as_bytes()).await?;
    connection.shutdown().await
}
// ANCHOR_END: http

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // ANCHOR: server
    let builder = Server::builder().route("/temperature", get(async || "21.5"));
    let server = Arc::new(builder.bind("127.0.0.1:0").await?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(export(Arc::clone(&server), listener));
    // ANCHOR_END: server

    Client::new().get(format!("coap://{}/temperature", server.local_addr())).await?.successful()?;
    let mut scraper = TcpStream::connect(address).await?;
    scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let mut text = String::new();
    scraper.read_to_string(&mut text).await?;
    println!("{text}");
    let counted = text.contains("conche_requests_received_total 1\n") && text.ends_with("# EOF\n");
    if counted { Ok(()) } else { Err("the request is not counted".into()) }
}
