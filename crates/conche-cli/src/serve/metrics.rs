//! `conche serve --metrics`: OpenMetrics text over HTTP/1.1.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use conche::Server;
use conche::metrics::CONTENT_TYPE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Maximum number of listed destinations: the busiest ones.
const DESTINATIONS: usize = 32;

/// Maximum number of connections; others wait.
const CONNECTIONS: usize = 64;

/// Maximum bytes of a request that are read before the answer.
const REQUEST: usize = 8192;

const END: &[u8] = b"\r\n\r\n";

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

    pub async fn run(&self, server: &Arc<Server>) -> Infallible {
        let Some(listener) = &self.0 else { return pending().await };
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            // Nothing closes the semaphore.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            match listener.accept().await {
                Ok((connection, _)) => {
                    let server = Arc::clone(server);
                    tokio::spawn(async move {
                        let _ = timeout(LIMIT, respond(connection, &server)).await;
                        drop(place);
                    });
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

/// Answers a request, of any kind. Does not query the endpoint without one.
async fn respond(mut connection: TcpStream, server: &Server) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(END.len()).any(|window| window == END) && request.len() < REQUEST {
        if connection.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let text = server.metrics(DESTINATIONS).await;
    let length = text.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(text.as_bytes()).await?;
    connection.shutdown().await?;
    // A reset for the unread rest would discard the answer at the client.
    while connection.read(&mut [0; 4096]).await? > 0 {}
    Ok(())
}
