//! HTTP/1.1 with one request per connection, for a monitoring system or a browser.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Maximum number of connections; others wait.
const CONNECTIONS: usize = 64;

/// Maximum bytes of a request that are read before the answer.
const REQUEST: usize = 8192;

const END: &[u8] = b"\r\n\r\n";

/// Maximum time of a connection.
const LIMIT: Duration = Duration::from_secs(5);

/// Wait after a failed accept, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// An answer.
pub struct Response {
    /// Code and reason, as in `200 OK`.
    pub status: &'static str,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

impl Response {
    pub fn ok(content_type: &'static str, body: Vec<u8>) -> Self {
        Self { status: "200 OK", content_type, body }
    }
}

pub async fn listen(address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{address} cannot be listened on"))
}

/// Answers requests by their first line, such as `GET /metrics HTTP/1.1`.
pub async fn serve<F: Future<Output = Response> + Send>(
    listener: &TcpListener,
    answer: impl Fn(String) -> F + Clone + Send + Sync + 'static,
) -> Infallible {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Nothing closes the semaphore.
        let place = Arc::clone(&places).acquire_owned().await.ok();
        match listener.accept().await {
            Ok((connection, _)) => {
                let answer = answer.clone();
                tokio::spawn(async move {
                    let _ = timeout(LIMIT, respond(connection, answer)).await;
                    drop(place);
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn respond<F: Future<Output = Response>>(
    mut connection: TcpStream,
    answer: impl Fn(String) -> F,
) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(END.len()).any(|window| window == END) && request.len() < REQUEST {
        if connection.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let Response { status, content_type, body } = answer(String::from_utf8_lossy(line).into_owned()).await;
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(&body).await?;
    connection.shutdown().await?;
    // A reset for the unread rest would discard the answer at the client.
    while connection.read(&mut [0; 4096]).await? > 0 {}
    Ok(())
}
