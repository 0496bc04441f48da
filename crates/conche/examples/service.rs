//! A service with metrics for Prometheus, which finishes its work on SIGTERM:
//! `cargo run -p conche --features metrics --example service`

use std::sync::Arc;
use std::time::Duration;

use conche::server::get;
use conche::{Client, Server, metrics};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

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

// ANCHOR: run
/// Less than the time between SIGTERM and SIGKILL: 90 s in systemd, 30 s in Kubernetes.
const GRACE: Duration = Duration::from_secs(20);

/// Serves until SIGTERM, then finishes running handlers and ends observations.
async fn run(server: &Server) -> Result<(), Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = server.wait() => ended?,
        _ = terminate.recv() => server.shutdown(GRACE).await,
    }
    Ok(())
}
// ANCHOR_END: run

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // ANCHOR: server
    let builder = Server::builder().route("/temperature", get(async || "21.5"));
    let server = Arc::new(builder.bind("127.0.0.1:0").await?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(export(Arc::clone(&server), listener));
    // ANCHOR_END: server

    // Instead of `run(&server).await`, so that the example ends: a request, a scrape and a SIGTERM.
    let uri = format!("coap://{}/temperature", server.local_addr());
    let visit = async {
        Client::new().get(uri).await?.successful()?;
        let mut scraper = TcpStream::connect(address).await?;
        scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
        let mut text = String::new();
        scraper.read_to_string(&mut text).await?;
        println!("{text}");
        let own = std::process::id().to_string();
        std::process::Command::new("kill").args(["-TERM", &own]).status()?;
        let counted = text.contains("conche_requests_received_total 1\n");
        let whole = counted && text.ends_with("# EOF\n");
        if whole { Ok(()) } else { Err("the request is not counted".into()) }
    };
    tokio::try_join!(run(&server), visit)?;
    println!("shut down");
    Ok(())
}
