//! A server on a socket.

use std::net::SocketAddr;
use std::time::Duration;

use conche_proto::{PeerSnapshot, Stats};
use thiserror::Error;
use tokio::task::JoinError;

use super::ServerBuilder;
use super::workers::Workers;
use crate::client::Client;

/// A running CoAP server. Dropping it stops it at once; [`shutdown`](Self::shutdown) lets it finish.
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

    /// A server without resources that is not bound yet.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The address that it is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.workers.first().local()
    }

    /// The counters of its endpoint, or of those of all its [workers](ServerBuilder::workers), added up.
    pub async fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for handle in self.workers.handles() {
            sum += handle.stats().await.unwrap_or_default();
        }
        sum
    }

    /// The counters of its endpoint, what it holds, and what congestion control knows of up to `destinations` destinations, the
    /// busiest, as OpenMetrics text. With 0 there are none; otherwise each that has state is looked at, a part of them at a time, so
    /// that traffic goes on.
    /// See [`metrics`](crate::metrics).
    #[cfg(feature = "metrics")]
    pub async fn metrics(&self, destinations: usize) -> String {
        crate::metrics::of(self.workers.handles(), destinations).await
    }

    /// What is known of the path to a client; `None` if nothing is.
    pub async fn snapshot(&self, peer: SocketAddr) -> Option<PeerSnapshot> {
        for handle in self.workers.handles() {
            if let Some(snapshot) = handle.snapshot(peer).await {
                return Some(snapshot);
            }
        }
        None
    }

    /// Forgets what was learnt of the path to a client, by its neighbours, too. Separate responses that are under way keep their timers.
    pub async fn reset_path(&self, peer: SocketAddr) {
        for handle in self.workers.handles() {
            handle.reset_path(peer).await;
        }
    }

    /// A client that sends from the socket of this server, so that both roles have one address, as
    /// LwM2M requires. It has the server's settings, and ends with the server. Each call returns a
    /// clone of the same client.
    ///
    /// Over `coaps` it uses two kinds of sessions. It opens sessions with the credentials of
    /// [`outgoing_psk`](ServerBuilder::outgoing_psk) and
    /// [`outgoing_roots`](ServerBuilder::outgoing_roots); the server's routes answer requests that
    /// come back through them. A session that a client of the server has opened carries only
    /// requests that name that client's identity with
    /// [`expect_peer`](crate::client::RequestBuilder::expect_peer).
    ///
    /// That of a server with several [workers](ServerBuilder::workers) has sockets of its own, and lives longer: what is answered to the
    /// server's address may come to any worker, and only one of them would know what was asked.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Ends the server. New requests are answered with 5.03. Running handlers are waited for; those that have not ended
    /// when a quarter of the time is left (but at most 5 s) are dropped, and their requests answered with 5.03 as well,
    /// with Max-Age, so that no client waits for a response that will not come. Requests of this server's
    /// [`client`](Self::client), also those that it goes on sending, and the acknowledgement of responses that have to have
    /// one are waited for. All this takes no longer than `within`.
    pub async fn shutdown(mut self, within: Duration) {
        self.workers.handles().for_each(|handle| handle.shutdown(within));
        self.workers.all_ended().await;
    }

    /// Waits until the server does not serve any more, which is for ever while all goes well. A program that has nothing
    /// else to do than to serve waits for this, and so notices if the task that drives the socket comes to an end.
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
    /// Why it ended, if it was not told to. Asked again, the answer is the same. Dropping the future changes nothing. Of several
    /// [workers](ServerBuilder::workers) one that has ended is told of at once; the others go on. With one socket less, though, the kernel hands out all clients anew:
    /// half of those of the others, too, or more come to a worker that does not know them, neither what they have asked already nor what
    /// they observe. Who cannot have that ends the server then.
    pub async fn wait(&mut self) -> Result<(), Stopped> {
        if self.ended.is_none() {
            self.ended = Some(self.workers.ended().await);
        }
        self.ended.clone().unwrap_or(Ok(()))
    }
}

/// Why a server ended that was not told to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Stopped {
    /// The task that drives its socket panicked, which is a defect of this crate.
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
