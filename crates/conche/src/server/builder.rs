//! Builds servers.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "dtls")]
use conche_dtls::ServerKeys;
use conche_proto::SourceValidation;
use conche_proto::cc::AnyController;
#[cfg(feature = "dtls")]
use ipnet::IpNet;
use thiserror::Error;
use tokio::net::ToSocketAddrs;

use super::workers::Workers;
use super::{Resource, RouteError, Router, Server};
use crate::builder::{Builder, Served, Setup};
use crate::client::{CacheLimits, Client, RequestSettings};
use crate::driver::{Handlers, SharedController};
use crate::error::{ConfigError, StartError};
#[cfg(feature = "dtls")]
use crate::prefixes::everywhere;
#[cfg(feature = "dtls")]
use crate::security::{CredentialsError, KeyLookup, Keys, OwnCertificate, Roots, Secret};
use crate::socket::Binding;

/// Builds a [`Server`].
pub type ServerBuilder<C = AnyController> = Builder<ServerRole, C>;

/// Settings that only servers have.
#[derive(Clone, Debug, Default)]
pub struct ServerRole {
    router: Router,
    handlers: Handlers,
    client_requests: RequestSettings,
    /// Number of workers besides the first.
    more_workers: usize,
}

impl<C: SharedController> Builder<ServerRole, C> {
    /// Adds a resource; see [`Router`] for the syntax of paths.
    pub fn route(mut self, path: &str, resource: Resource) -> Self {
        self.role.router = self.role.router.route(path, resource);
        self
    }

    /// Serves this router's resources, replacing those added before.
    pub fn router(mut self, router: Router) -> Self {
        self.role.router = router;
        self
    }

    /// Joins a multicast group (RFC 7252 §8), such as `ff05::fd` for All CoAP Nodes (§12.8). Linux
    /// only.
    ///
    /// `interface` is a network interface's index, or 0 for the operating system's choice. The
    /// server must be bound to an unspecified address or the group's, at the clients' port.
    ///
    /// [`EndpointConfig::multicast`](crate::EndpointConfig::multicast) sets the random delay of
    /// responses. Errors and responses without a payload are not sent.
    pub fn join_group(mut self, group: IpAddr, interface: u32) -> Self {
        self.settings.groups.push((group, interface));
        self
    }

    /// Sets how a client over UDP proves that its address is not forged. Until then it is sent at
    /// most three times the bytes received from it.
    ///
    /// By default the client answers a ping or returns an Echo value (RFC 9175 §2.4): one more
    /// round trip before a large response or an observation, once in 247 s. A DTLS handshake is
    /// such a proof.
    ///
    /// [`SourceValidation::Off`] suits networks without forged addresses. Call
    /// [`config`](Self::config) first: it overwrites this setting,
    /// [`EndpointConfig::source_validation`](crate::EndpointConfig::source_validation).
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use conche::server::get;
    /// use conche::{Server, SourceValidation};
    ///
    /// let route = get(async || "a long list\n".repeat(50));
    /// let server = Server::builder().source_validation(SourceValidation::Off).route("/list", route);
    /// let server = server.bind("[fd00::1]:5683").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn source_validation(mut self, validation: SourceValidation) -> Self {
        self.settings.config.source_validation = validation;
        self
    }

    /// Sets the maximum number of waiting handlers, 1024 by default. One prefix (/16 for IPv4, /32
    /// for IPv6) may use at most half.
    ///
    ///  Beyond the limit, a request whose handler would wait is answered with 5.03 and Max-Age. One
    /// that is not idempotent is refused before its handler starts.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.role.handlers.max = handlers;
        self
    }

    /// Runs each handler as its own task from the start.
    ///
    /// By default a handler becomes a task only where it first waits. Until then it delays all
    /// others: move long computations to [`tokio::task::spawn_blocking`], or spawn handlers on a
    /// runtime with several threads. [`concurrency`](Self::concurrency) then counts all handlers,
    /// and refuses those beyond it before they start.
    pub fn spawn_handlers(mut self) -> Self {
        self.role.handlers.spawn = true;
        self
    }

    /// Serves with this number of threads, each with its own runtime, endpoint and socket at the
    /// same address (SO_REUSEPORT).
    ///
    /// The default is 1, a task on the caller's runtime. More require Linux.
    ///
    /// The kernel distributes clients by address and port. A client behind a NAT may change to
    /// another worker, without its state.
    ///
    /// - Handlers run concurrently and share the router's state. A [`Notifier`](super::Notifier)
    ///   reaches all observers: each worker runs the handler once per change. Tasks that a handler
    ///   spawns end with the server.
    /// - [`Limits`](crate::Limits), except those per peer, and [`concurrency`](Self::concurrency)
    ///   are divided evenly among workers. Each worker measures up to
    ///   [`Limits::paths`](crate::Limits::paths) paths; a [`path_store`](Self::path_store) merges
    ///   them.
    /// - [`Server::client`] has its own sockets, which serve no resources. Both roles at one
    ///   address, as for LwM2M, require one worker.
    /// - Groups cannot be [joined](Self::join_group): each worker would respond.
    /// - The user's other programs could bind the address and receive part of the traffic. A server
    ///   whose address is in use fails to start.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use conche::server::get;
    /// use conche::{Client, Server};
    ///
    /// let server = Server::builder().route("/hello", get(async || "world")).workers(2).bind("127.0.0.1:0").await?;
    ///
    /// let uri = format!("coap://{}/hello", server.local_addr());
    /// assert_eq!(Client::new().get(uri).await?.text()?, "world");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(target_os = "linux"))]
    /// # fn main() {}
    /// ```
    pub fn workers(mut self, workers: usize) -> Self {
        self.role.more_workers = workers.saturating_sub(1);
        self
    }

    /// Serves clients in DTLS sessions with pre-shared keys (RFC 7252 §9.1.3.1), and nothing
    /// unprotected: `coaps`, at port 5684 by default.
    ///
    /// `keys` returns the key of an identity, on the task that drives the socket, for any bytes
    /// that an unauthenticated client sends; a panic counts as `None`. For keys in a database, use
    /// [`psk_lookup`](Self::psk_lookup), which replaces this function.
    ///
    /// For sessions that this program opens, see [`outgoing_psk`](Self::outgoing_psk).
    #[cfg(feature = "dtls")]
    pub fn psk(mut self, keys: impl Keys + 'static) -> Self {
        (self.settings.security.keys, self.settings.security.lookup) = (Some(ServerKeys::new(keys)), None);
        self
    }

    /// Like [`psk`](Self::psk), with an asynchronous function, such as a query of a database.
    /// Replaces the function of `psk`.
    ///
    /// The function runs as a task for each handshake, once the client's address is verified (RFC
    /// 6347 §4.2.1), while other sessions and handshakes continue. Its argument has at most 1024
    /// bytes and is not authenticated: any client may send any identity. `None`, and a panic, make
    /// the handshake fail as with a wrong key, so that the client cannot probe for identities (RFC
    /// 4279 §2), except by the time that the function takes. Keys are not cached: a new session of
    /// the same client calls the function again.
    ///
    /// A handshake has one task. So the limits of handshakes bound the tasks: 256 at once, and half
    /// of the free ones for one network (IPv4 /16, IPv6 /32); unfinished handshakes also 16 per
    /// second and host (IPv4 address, IPv6 /64), 128 per network. Each [worker](Self::workers) has
    /// these limits. A task that takes 10 seconds is aborted, as is that of a handshake that ends
    /// early. The client then receives the alert `internal_error` and may try again: apply a
    /// shorter timeout inside the function to have the handshake fail as with a wrong key.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::collections::HashMap;
    /// use std::sync::Arc;
    ///
    /// use conche::security::Secret;
    /// use conche::server::get;
    /// use conche::{Client, Server};
    /// use tokio::sync::RwLock;
    ///
    /// // Where a map stands for a database.
    /// let database = Arc::new(RwLock::new(HashMap::from([(b"lamp-7".to_vec(), "sesame")])));
    /// let lookup = move |identity: Vec<u8>| {
    ///     let database = Arc::clone(&database);
    ///     async move { database.read().await.get(&identity).map(|key| Secret::new(*key)) }
    /// };
    /// let server = Server::builder().psk_lookup(lookup).route("/hello", get(async || "world")).bind("127.0.0.1:0").await?;
    ///
    /// let client = Client::builder().psk(*b"lamp-7", Secret::new(*b"sesame"))?.build()?;
    /// let uri = format!("coaps://{}/hello", server.local_addr());
    /// assert_eq!(client.get(uri).await?.text()?, "world");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "dtls")]
    pub fn psk_lookup<F>(mut self, lookup: impl Fn(Vec<u8>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<Secret>> + Send + 'static,
    {
        let security = &mut self.settings.security;
        (security.keys, security.lookup) = (Some(ServerKeys::deferred()), Some(KeyLookup::new(lookup)));
        self
    }

    /// Like [`psk`](Self::psk), with this server certificate (RFC 7252 §9.1.3.3). With both,
    /// clients choose.
    #[cfg(feature = "dtls")]
    pub fn certificate(mut self, own: OwnCertificate) -> Self {
        self.settings.security.certificate = Some(own);
        self
    }

    /// Requires client certificates that these roots authenticate, for sessions with the server's
    /// [`certificate`](Self::certificate).
    #[cfg(feature = "dtls")]
    pub fn client_roots(mut self, roots: Roots) -> Self {
        self.settings.security.client_roots = Some(roots);
        self
    }

    /// Sets the maximum number of open DTLS sessions: 10 000 by default, divided among
    /// [workers](Self::workers). [`bind`](Self::bind) rejects 0.
    ///
    /// An idle session takes about 8 kB with a pre-shared key and 10 kB with a certificate. Beyond
    /// the limit, a new session closes the idlest session of the busiest host (IPv4 address, IPv6
    /// /64) in the busiest network (IPv4 /16, IPv6 /32).
    #[cfg(feature = "dtls")]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.settings.security.max_sessions = Some(sessions);
        self
    }

    /// Sets the maximum number of open DTLS sessions per pre-shared key identity and
    /// [worker](Self::workers): unlimited by default, 0 is rejected. A new session closes the
    /// identity's idlest one.
    #[cfg(feature = "dtls")]
    pub fn max_sessions_per_identity(mut self, sessions: usize) -> Self {
        self.settings.security.max_sessions_per_identity = Some(sessions);
        self
    }

    /// Sets a pre-shared key for DTLS sessions that the server's [`client`](Server::client) opens
    /// for `coaps` requests. The identity has 1 to 1024 bytes.
    ///
    /// The peer's requests in such a session reach the server's routes with this
    /// [`Identity`](crate::security::Identity): an LwM2M device registers at its server and is then
    /// managed through the same session.
    ///
    /// This accepts no sessions ([`psk`](Self::psk) and [`certificate`](Self::certificate) do), and
    /// the server still answers `coap` without [`secured_only`](Self::secured_only).
    ///
    /// ```
    /// use conche::Server;
    /// use conche::security::Secret;
    /// use conche::server::get;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Server::builder()
    ///     .outgoing_psk(*b"lamp-7", Secret::new(*b"sesame"))?
    ///     .secured_only()
    ///     .route("/3/0/0", get(async || "Example Lamps"))
    ///     .bind("127.0.0.1:0")
    ///     .await?;
    /// let requests = device.client();
    /// # let _ = requests;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the identity or the key is empty or too long.
    #[cfg(feature = "dtls")]
    pub fn outgoing_psk(self, identity: impl Into<Vec<u8>>, key: Secret) -> Result<Self, CredentialsError> {
        self.open_with_psk(&everywhere(), identity, key)
    }

    /// Like [`outgoing_psk`](Self::outgoing_psk), for servers in a prefix; the longest match
    /// applies. Use one identity per peer: messages name their sender by identity alone.
    ///
    /// # Errors
    /// As for [`outgoing_psk`](Self::outgoing_psk).
    #[cfg(feature = "dtls")]
    pub fn outgoing_psk_for(
        self,
        prefix: IpNet,
        identity: impl Into<Vec<u8>>,
        key: Secret,
    ) -> Result<Self, CredentialsError> {
        self.open_with_psk(&[prefix], identity, key)
    }

    /// Sets the roots that authenticate servers by certificate, for DTLS sessions of the server's
    /// [`client`](Server::client).
    ///
    /// The certificate must contain the host of the URI. An [`outgoing_psk`](Self::outgoing_psk)
    /// for the same server takes precedence.
    #[cfg(feature = "dtls")]
    pub fn outgoing_roots(mut self, roots: Roots) -> Self {
        self.settings.security.roots = Some(roots);
        self
    }

    /// Sets the client certificate for [`outgoing_roots`](Self::outgoing_roots).
    #[cfg(feature = "dtls")]
    pub fn outgoing_certificate(mut self, own: OwnCertificate) -> Self {
        self.settings.security.own = Some(own);
        self
    }

    /// Serves a client with these keys (OSCORE, RFC 8613). Call it once per client; their IDs or ID
    /// contexts must differ.
    ///
    /// Unprotected requests are served, too, except behind
    /// [`RequireSecured`](super::RequireSecured) or with [`secured_only`](Self::secured_only).
    /// [`oscore`](crate::oscore) has an example.
    #[cfg(feature = "oscore")]
    pub fn oscore(mut self, keys: crate::oscore::Keys) -> Self {
        self.settings.oscore.served.push(keys);
        self
    }

    /// Accepts EDHOC key exchanges (RFC 9528) from clients that this party knows, at
    /// `/.well-known/edhoc` or combined with their first request (RFC 9668).
    ///
    /// Unprotected requests are served as with [`oscore`](Self::oscore).
    #[cfg(feature = "edhoc")]
    pub fn edhoc(mut self, party: crate::edhoc::Party) -> Self {
        self.settings.edhoc.served = Some(party);
        self
    }

    /// Answers a request with 4.01 unless OSCORE keys or a DTLS session authenticate its sender.
    /// Starting without such credentials is a [`ConfigError`].
    #[cfg(any(feature = "dtls", feature = "oscore"))]
    pub fn secured_only(mut self) -> Self {
        self.settings.secured_only = true;
        self
    }

    /// [Caches](crate::client::ClientBuilder::cache) responses to the server's
    /// [`client`](Server::client). Off by default.
    pub fn client_cache(mut self, limits: CacheLimits) -> Self {
        self.role.client_requests.cache = Some(limits);
        self
    }

    /// Sets the [timeout](crate::client::ClientBuilder::timeout) of requests of the server's
    /// [`client`](Server::client). By default there is none.
    pub fn client_timeout(mut self, timeout: Duration) -> Self {
        self.role.client_requests.timeout = Some(timeout);
        self
    }

    /// Starts the server on a UDP address, such as `"[::]:5683"` for all addresses of both IP
    /// versions. Port 0 selects a free port.
    /// The first address that can be bound is used.
    ///
    /// # Errors
    /// If a route or a setting is invalid, or the address cannot be bound.
    pub async fn bind(self, address: impl ToSocketAddrs) -> Result<Server, BindError> {
        let (setup, role) = self.setup();
        let mut failure = None;
        for address in tokio::net::lookup_host(address).await.map_err(BindError::Resolve)? {
            match role.start(&setup, &Binding::Address(address), address) {
                Err(error @ BindError::Socket { .. }) => failure = Some(error),
                started => return started,
            }
        }
        Err(failure.unwrap_or(BindError::NoAddress))
    }

    /// Starts the server on a bound UDP socket, which becomes non-blocking and gets larger buffers.
    /// No other code may receive from it.
    ///
    /// # Errors
    /// If a route or a setting is invalid, or the socket cannot be used.
    pub async fn socket(self, socket: UdpSocket) -> Result<Server, BindError> {
        let address = socket.local_addr().map_err(BindError::Resolve)?;
        let (setup, role) = self.setup();
        role.start(&setup, &Binding::Socket(Arc::new(socket)), address)
    }
}

impl ServerRole {
    fn start(&self, setup: &Setup, binding: &Binding, address: SocketAddr) -> Result<Server, BindError> {
        let Self { router, handlers, client_requests, more_workers } = self;
        let (router, handlers) = (router.clone().ready()?, *handlers);
        #[cfg(feature = "edhoc")]
        let router = match setup.settings.edhoc.served {
            Some(_) => router.or_route(crate::edhoc::PATH, edhoc_resource()),
            None => router,
        };
        let served = Served { service: Arc::new(router), handlers };
        let started = match (more_workers, binding) {
            (0, _) => Workers::one(setup, binding, served),
            (_, Binding::Socket(_)) => return Err(BindError::Workers(WorkersError::Socket)),
            #[cfg(feature = "oscore")]
            _ if setup.settings.has_keys() => return Err(BindError::Workers(WorkersError::Keys)),
            _ if !setup.settings.groups.is_empty() => return Err(BindError::Workers(WorkersError::Group)),
            (more, _) => Workers::several(setup, address, served, more.saturating_add(1)),
        };
        let workers = started.map_err(|error| match error {
            StartError::Config(error) => error.into(),
            StartError::Socket(cause) => BindError::Socket { address, cause },
        })?;
        let client = match more_workers {
            #[cfg(feature = "edhoc")]
            0 => Client::of_server(workers.first().clone(), *client_requests).with_edhoc(&setup.settings),
            #[cfg(not(feature = "edhoc"))]
            0 => Client::of_server(workers.first().clone(), *client_requests),
            _ => Client::beside_server(setup.clone(), *client_requests),
        };
        Ok(Server::new(workers, client))
    }
}

/// RFC 9668 §6: responder, with method 3, cipher suite 2, key IDs (COSE header parameter 4) and
/// combined requests.
#[cfg(feature = "edhoc")]
fn edhoc_resource() -> Resource {
    let resource = Resource::new().resource_type("core.edhoc");
    let resource = resource.attribute("ed-method", "3").attribute("ed-csuite", "2").attribute("ed-idcred-t", "4");
    resource.attribute("ed-r", "").attribute("ed-comb-req", "")
}

/// Error of starting a server.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// A route is invalid.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting requires a single [worker](ServerBuilder::workers).
    #[error(transparent)]
    Workers(#[from] WorkersError),
    /// The address cannot be parsed or resolved.
    #[error("the address to listen on cannot be resolved: {0}{hint}", hint = port_hint(.0))]
    Resolve(io::Error),
    /// The name resolves to no address.
    #[error("the name to listen on has no address")]
    NoAddress,
    /// The address cannot be bound.
    #[error("{address} cannot be listened on: {cause}")]
    Socket {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        cause: io::Error,
    },
}

/// Text is invalid input only if no port number follows its last colon.
fn port_hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::InvalidInput => {
            "; its port is missing or no number: write HOST:PORT, such as \"127.0.0.1:5683\" or \"[::1]:5683\""
        }
        _ => "",
    }
}

/// Reason why a server cannot have several workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorkersError {
    /// Each worker needs its own socket.
    #[error("several workers cannot serve one socket: let the server bind the address, or have one worker")]
    Socket,
    /// Each worker would respond to multicast requests.
    #[error("several workers cannot join a group, as each of them would answer: have one worker")]
    Group,
    /// Only one worker could hold the keys.
    #[cfg(feature = "oscore")]
    #[error("several workers cannot have the same OSCORE keys, as numbers would be used twice: have one worker")]
    Keys,
}
