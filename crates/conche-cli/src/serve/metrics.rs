//! `conche serve --metrics`: OpenMetrics text over HTTP/1.1.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use conche::Server;
use conche::metrics::CONTENT_TYPE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// Maximum number of listed destinations: the busiest ones.
const DESTINATIONS: usize = 32;

/// Maximum time of a connection.
const LIMIT: Duration = Duration::from_secs(5);

/// Wait after a failed accept, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

pub struct Exporter(Option<TcpListener>);

impl Exporter {
    pub async fn bind(address: Option<&str>) -> anyhow::Result<Self> {
        let Some(address) = address else { return Ok(Self(None)) };
        let listener = TcpListener::bind(address).await;
        listener.map(|listener| Self(Some(listener))).with_context(|| format!("{address} cannot be listened on"))
    }

    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.as_ref()?.local_addr().ok()
    }

    pub async fn run(&self, server: &Server) -> Infallible {
        let Some(listener) = &self.0 else { return pending().await };
        loop {
            match listener.accept().await {
                Ok((connection, _)) => {
                    let text = server.metrics(DESTINATIONS).await;
                    tokio::spawn(timeout(LIMIT, respond(connection, text)));
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

/// Answers the request in a connection's first segment, whatever it is.
async fn respond(mut connection: TcpStream, text: String) -> io::Result<()> {
    let _request = connection.read(&mut [0; 4096]).await?;
    let length = text.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(text.as_bytes()).await?;
    connection.shutdown().await
}
