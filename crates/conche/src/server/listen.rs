//! A server on a socket.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::{EndpointConfig, Stats};
use ipnet::IpNet;
use thiserror::Error;
use tokio::net::ToSocketAddrs;
use tokio::task::JoinHandle;

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
    pub async fn shutdown(self, within: Duration) {
        let Self { handle, task } = self;
        handle.shutdown(within).await;
        // The task does not panic by our doing; if it has, the server is down all the same.
        let _ = task.await;
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
        self.router.check()?;
        let mut failure = None;
        for address in tokio::net::lookup_host(address).await.map_err(BindError::Resolve)? {
            let endpoint = self.settings.endpoint()?;
            match Driver::start(address, Role::Server, endpoint, self.router.clone(), self.handlers) {
                Ok((handle, task)) => return Ok(Server { handle, task }),
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
