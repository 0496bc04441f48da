//! [`Server`]: a running server.

use std::net::SocketAddr;
use std::time::Duration;

use conche_proto::{PeerSnapshot, Stats};
use thiserror::Error;
use tokio::task::JoinError;

use super::ServerBuilder;
use super::workers::Workers;
use crate::client::Client;

/// A running CoAP server. Dropping it stops it at once; [`shutdown`](Self::shutdown) lets it
/// finish.
///
/// ```
/// use conche::{Client, Server};
/// use conche::server::get;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().route("/hello", get(async || "world")).bind("127.0.0.1:0").await?;
///
/// let uri = format!("coap://{}/hello", server.local_addr());
/// assert_eq!(Client::new().get(uri).await?.text()?, "world");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    workers: Workers,
    client: Client,
    ended: Option<Result<(), Stopped>>,
}

impl Server {
    pub(super) fn new(workers: Workers, client: Client) -> Self {
        Self { workers, client, ended: None }
    }

    /// Returns a builder for a server without resources.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Returns the address that the server is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.workers.first().local()
    }

    /// Returns the counters of its endpoint, summed over all [workers](ServerBuilder::workers).
    pub async fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for handle in self.workers.handles() {
            sum += handle.stats().await.unwrap_or_default();
        }
        sum
    }

    /// Returns OpenMetrics text: counters, gauges, and the path state of up to `destinations`
    /// destinations, the busiest first.
    ///
    /// With 0, no destinations are listed. Otherwise all destinations with state are scanned in
    /// batches, so that traffic is not held up. See [`metrics`](crate::metrics).
    #[cfg(feature = "metrics")]
    pub async fn metrics(&self, destinations: usize) -> String {
        crate::driver::metrics(self.workers.handles(), destinations).await
    }

    /// Returns the path state of a client, or `None` without state.
    pub async fn snapshot(&self, peer: SocketAddr) -> Option<PeerSnapshot> {
        for handle in self.workers.handles() {
            if let Some(snapshot) = handle.snapshot(peer).await {
                return Some(snapshot);
            }
        }
        None
    }

    /// Discards the path state of a client, including state shared by its neighbours. Outstanding
    /// separate responses keep their timers.
    pub async fn reset_path(&self, peer: SocketAddr) {
        for handle in self.workers.handles() {
            handle.reset_path(peer).await;
        }
    }

    /// Returns a client that sends from this server's socket, so that both roles have one address,
    /// as LwM2M requires. It has the server's settings, and ends with the server. Each call returns
    /// a clone of the same client.
    ///
    /// Over `coaps` it uses two kinds of sessions. It opens sessions with the credentials of
    /// [`outgoing_psk`](ServerBuilder::outgoing_psk) and
    /// [`outgoing_roots`](ServerBuilder::outgoing_roots); the server's routes answer requests that
    /// arrive through them. A session that a client of the server opened carries only requests that
    /// name that client's identity with
    /// [`expect_peer`](crate::client::RequestBuilder::expect_peer).
    ///
    /// With several [workers](ServerBuilder::workers) the client has its own sockets and outlives
    /// the server, because a response to the server's address could arrive at a worker that did not
    /// send the request.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Shuts the server down, in at most `within`.
    ///
    /// New requests are answered with 5.03. Running handlers may finish; those still running when a
    /// quarter of the time (at most 5 s) is left are dropped, and their requests answered with 5.03
    /// and Max-Age, so that no client waits in vain. The shutdown also waits for requests of this
    /// server's [`client`](Self::client), including new ones, and for acknowledgements of
    /// Confirmable responses.
    pub async fn shutdown(mut self, within: Duration) {
        self.workers.handles().for_each(|handle| handle.shutdown(within));
        self.workers.all_ended().await;
    }

    /// Waits until the server ends, which is forever while all goes well. A program that only
    /// serves awaits this, to notice if the task that drives the socket ends.
    ///
    /// ```no_run
    /// # async fn example(mut server: conche::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// # let stop_signal = std::future::pending::<()>();
    /// tokio::select! {
    ///     ended = server.wait() => ended?,
    ///     () = stop_signal => server.shutdown(std::time::Duration::from_secs(2)).await,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Why the server ended, unless it was shut down. Later calls return the same. Cancel safe.
    /// With several [workers](ServerBuilder::workers), the first that ends is reported at once; the
    /// others continue. However, the kernel then redistributes clients over the remaining sockets:
    /// half or more of the other workers' clients reach a worker without their deduplication state
    /// and observations. If that is not acceptable, shut the server down.
    pub async fn wait(&mut self) -> Result<(), Stopped> {
        if self.ended.is_none() {
            self.ended = Some(self.workers.ended().await);
        }
        self.ended.clone().unwrap_or(Ok(()))
    }
}

/// Why a server ended without being shut down.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Stopped {
    /// The task that drives its socket panicked, which is a bug in this crate.
    #[error("the task that drives the server's socket panicked: {0}")]
    Panicked(String),
    /// The runtime that it was started on has ended.
    #[error("the runtime that the server was started on has ended")]
    Runtime,
}

impl From<JoinError> for Stopped {
    fn from(error: JoinError) -> Self {
        let Ok(panic) = error.try_into_panic() else { return Self::Runtime };
        let text = match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic.downcast_ref().copied().unwrap_or("without a text").to_owned(),
        };
        Self::Panicked(text)
    }
}
