//! A server on a socket.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::{EndpointConfig, Stats};
use ipnet::IpNet;
use thiserror::Error;
use tokio::net::ToSocketAddrs;
use tokio::task::{JoinError, JoinHandle};

use super::{Resource, RouteError, Router};
use crate::driver::{Driver, Handle, Role};
use crate::settings::{ConfigError, Settings};

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
    handle: Handle,
    task: JoinHandle<()>,
    ended: Option<Result<(), Stopped>>,
}

impl Server {
    /// A server without resources that is not bound yet.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The address that it is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.handle.local()
    }

    /// The counters of its endpoint.
    pub async fn stats(&self) -> Stats {
        self.handle.stats().await.unwrap_or_default()
    }

    /// Ends the server: new requests are answered with 5.03, running handlers are waited for, and so is the
    /// acknowledgement of responses that have to have one; but all this no longer than `within`.
    pub async fn shutdown(mut self, within: Duration) {
        self.handle.shutdown(within).await;
        // The task does not panic by our doing; if it has, the server is down all the same.
        let _ = self.wait().await;
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
    /// Why it ended, if it was not told to. Asked again, the answer is the same. Dropping the future changes nothing.
    pub async fn wait(&mut self) -> Result<(), Stopped> {
        if self.ended.is_none() {
            let ended = (&mut self.task).await.map_err(Stopped::from);
            self.ended = Some(ended);
        }
        self.ended.clone().unwrap_or(Ok(()))
    }
}

/// Makes a [`Server`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ServerBuilder {
    settings: Settings,
    router: Router,
    handlers: usize,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self { settings: Settings::default(), router: Router::default(), handlers: 1024 }
    }
}

impl ServerBuilder {
    /// Adds a resource; see [`Router`] for the form of paths.
    pub fn route(mut self, path: &str, resource: Resource) -> Self {
        self.router = self.router.route(path, resource);
        self
    }

    /// Serves these resources, instead of those that were added before.
    pub fn router(self, router: Router) -> Self {
        Self { router, ..self }
    }

    /// How many handlers may run at the same time; beyond that requests are answered with 5.03. By default 1024.
    ///
    /// Handlers that wait for nothing do not count.
    pub fn concurrency(self, handlers: usize) -> Self {
        Self { handlers, ..self }
    }

    /// Congestion control toward all clients for which no other is set. It governs separate responses.
    pub fn controller(mut self, controller: impl Into<AnyController>) -> Self {
        self.settings.controller = controller.into();
        self
    }

    /// Congestion control toward the clients of a prefix. The longest prefix decides.
    pub fn controller_for(mut self, prefix: IpNet, controller: impl Into<AnyController>) -> Self {
        self.settings.set_controller_for(prefix, controller.into());
        self
    }

    /// Transmission parameters, limits and the safety envelope.
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.settings.config = config;
        self
    }

    /// Starts the server on a UDP address, such as `"[::]:5683"` for all addresses of both IP versions. Port 0 takes a
    /// free one. Of several addresses the first that can be bound is taken.
    ///
    /// # Errors
    /// If a route or a setting makes no sense, or the address cannot be bound.
    pub async fn bind(self, address: impl ToSocketAddrs) -> Result<Server, BindError> {
        let router = self.router.ready()?;
        let mut failure = None;
        for address in tokio::net::lookup_host(address).await.map_err(BindError::Resolve)? {
            let endpoint = self.settings.endpoint()?;
            match Driver::start(address, Role::Server, endpoint, router.clone(), self.handlers) {
                Ok((handle, task)) => return Ok(Server { handle, task, ended: None }),
                Err(source) => failure = Some(BindError::Socket { address, source }),
            }
        }
        Err(failure.unwrap_or(BindError::NoAddress))
    }
}

/// Why a server could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// A route makes no sense.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The address cannot be read or resolved.
    #[error("the address to listen on cannot be resolved")]
    Resolve(#[source] io::Error),
    /// The name resolves to no address.
    #[error("the name to listen on has no address")]
    NoAddress,
    /// The address cannot be bound.
    #[error("{address} cannot be listened on")]
    Socket {
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        source: io::Error,
    },
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
