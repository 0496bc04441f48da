//! How a server is made.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

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
use crate::builder::Builder;
use crate::client::{CacheLimits, Client};
use crate::controllers::{Setup, SharedController};
use crate::driver::{Binding, Handlers};
#[cfg(feature = "dtls")]
use crate::prefixes::everywhere;
#[cfg(feature = "dtls")]
use crate::security::{CredentialsError, Keys, OwnCertificate, Roots, Secret};
use crate::settings::{ConfigError, StartError};

/// Makes a [`Server`].
pub type ServerBuilder<C = AnyController> = Builder<ServerRole, C>;

/// What only servers have: their resources, how handlers run, and the cache of their client.
#[derive(Clone, Debug, Default)]
pub struct ServerRole {
    router: Router,
    handlers: Handlers,
    client_cache: Option<CacheLimits>,
    /// Beside the first one.
    more_workers: usize,
}

impl<C: SharedController> Builder<ServerRole, C> {
    /// Adds a resource; see [`Router`] for the form of paths.
    pub fn route(mut self, path: &str, resource: Resource) -> Self {
        self.role.router = self.role.router.route(path, resource);
        self
    }

    /// Serves these resources, instead of those that were added before.
    pub fn router(mut self, router: Router) -> Self {
        self.role.router = router;
        self
    }

    /// Becomes a member of a group (RFC 7252 §8): requests to this multicast address are served as well, such as
    /// 224.0.1.187, `ff02::fd` or `ff05::fd` for All CoAP Nodes (§12.8). `interface` is the index of a network interface, with
    /// 0 for the one that the operating system chooses. The server must be bound to an unspecified address or to the group's,
    /// at the port that clients ask, which is 5683 by default.
    ///
    /// Responses are spread over some seconds ([`EndpointConfig::multicast`](crate::EndpointConfig::multicast)), and errors and
    /// responses without a payload are not sent. Handlers should be prepared to be asked together with many others.
    ///
    /// Only Linux tells what came to a group from what came to this server alone; elsewhere a group is answered at once, and
    /// so starting the server fails.
    pub fn join_group(mut self, group: IpAddr, interface: u32) -> Self {
        self.settings.groups.push((group, interface));
        self
    }

    /// Chooses the proof that the address of a client over UDP is not forged. A client without it
    /// is sent at most three times the bytes that came from it. By default it answers a ping, as
    /// every client of RFC 7252 does, or returns an Echo value (RFC 9175 §2.4). That takes one more
    /// round trip before a large response or an observation, once in 247 s. Clients over DTLS have
    /// proved their address in the handshake.
    ///
    /// Use [`SourceValidation::Off`] in networks without forged addresses. See
    /// [`EndpointConfig::source_validation`](crate::EndpointConfig::source_validation).
    ///
    /// [`config`](Self::config) sets it anew, and so comes first.
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

    /// For a server whose responses pass a thin link, as those to a site of many devices: it does not answer each copy of a request
    /// at once where the next request of the same client has shown that such repeats were unnecessary, since the answers wait in a
    /// queue; see [`EndpointConfig::pace_repeats`](crate::EndpointConfig::pace_repeats). A client that
    /// pauses before its requests is taken for such a one now and then, and a lost answer of it is then repeated later, by as long at most as it
    /// has been since the first one. If a client has several requests outstanding, as proxies do, an answer that is held may be spared though it was lost,
    /// until a copy of an earlier request has come from it; its next copy is answered at once.
    ///
    /// [`config`](Self::config) sets it anew, and so comes first.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use conche::Server;
    /// use conche::server::get;
    ///
    /// let route = get(|| async { "23 C" });
    /// let server = Server::builder().pace_repeats().route("/temperature", route).bind("[::]:5683").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn pace_repeats(mut self) -> Self {
        self.settings.config.pace_repeats = true;
        self
    }

    /// How many handlers may wait for something at the same time. By default 1024. The handlers of clients of one prefix
    /// (/16 of IPv4, /32 of IPv6) are no more than how many others may still wait: if nobody else waits, half of them.
    ///
    /// Those that are ready at once do not count: they run however many others wait. A handler that would have to wait
    /// beyond these numbers is dropped where it would, and its request answered with 5.03 and Max-Age. A request that is not
    /// idempotent, such as POST, is refused before its handler begins, so that nothing is done by halves.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.role.handlers.most = handlers;
        self
    }

    /// Runs each handler as a task of its own from its beginning on.
    ///
    /// Otherwise a handler first runs on the task that drives the socket, up to where it first waits for something, and
    /// becomes a task only there; most handlers never wait, and cost none. What a handler does up to that point, all others
    /// wait for: one that computes for long or that blocks the thread stops the server meanwhile. Such work belongs in
    /// [`tokio::task::spawn_blocking`]. Where that cannot be had, and the runtime has several threads, spawned handlers hold
    /// up nothing but their thread; then [`concurrency`](Self::concurrency) counts all of them, and what is beyond it is
    /// refused before it begins.
    pub fn spawn_handlers(mut self) -> Self {
        self.role.handlers.spawn = true;
        self
    }

    /// Serves with so many threads, each with a socket of the same address (SO_REUSEPORT), an endpoint and a runtime of its own. By
    /// default there is 1 worker, which is a task on the runtime that the server is started on. Only on Linux there can be more.
    ///
    /// For a server whose one core is not enough. The kernel hands out clients by the addresses and ports of both sides, so that all that
    /// a client sends comes to one worker as long as all of them run, which remembers it, paces it and knows what it observes. A client whose
    /// address or port changes, as behind a NAT, is a new one to any server; here it may get another worker as well. What
    /// follows for a program:
    ///
    /// - Handlers run on the threads of the workers, at the same time. They share the state of the router, and a
    ///   [`Notifier`](super::Notifier) reaches the observers of all workers: each of these asks the handler once for a change.
    ///   What a handler spawns ends with the server.
    /// - [`Limits`](crate::Limits) and [`concurrency`](Self::concurrency) are shared out evenly among workers; clients are not, if they are
    ///   few. What is for each peer stays as it is, and each worker finds out paths by itself, up to [`Limits::paths`](crate::Limits::paths);
    ///   a [`path_store`](Self::path_store) brings that together for the next start.
    /// - [`Server::client`] has sockets of its own, and requests that come to these find no
    ///   resource. A program that needs both roles at one address, as LwM2M does, has one worker.
    /// - Groups cannot be [joined](Self::join_group): each worker would answer.
    /// - Any other program of the same user could bind the address, too, if it asks for SO_REUSEPORT, and would get a part of the
    ///   clients. A server that finds the address in use when it starts says so.
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

    /// Serves clients in DTLS sessions that they open with a pre-shared key (RFC 7252 §9.1.3.1),
    /// and nothing that is not protected: this server answers `coaps`, by default at port 5684. The
    /// function returns the key of an identity. It runs on the task that drives the socket, for any
    /// bytes that an unauthenticated client sends; a panic counts as `None`. A client does not
    /// learn whether its identity or its key was wrong. See [`security`](crate::security).
    ///
    /// [`outgoing_psk`](Self::outgoing_psk) sets the key for sessions that this program opens.
    #[cfg(feature = "dtls")]
    pub fn psk(mut self, keys: impl Keys + 'static) -> Self {
        self.settings.security.keys = Some(ServerKeys::new(keys));
        self
    }

    /// Serves clients in DTLS sessions that they open with a certificate of the server (RFC 7252
    /// §9.1.3.3), which this is, and nothing that is not protected. With [`psk`](Self::psk) as
    /// well, clients choose.
    #[cfg(feature = "dtls")]
    pub fn certificate(mut self, own: OwnCertificate) -> Self {
        self.settings.security.certificate = Some(own);
        self
    }

    /// Requires a certificate of clients in handshakes with the server's
    /// [`certificate`](Self::certificate): one that these roots authenticate.
    #[cfg(feature = "dtls")]
    pub fn client_roots(mut self, roots: Roots) -> Self {
        self.settings.security.client_roots = Some(roots);
        self
    }

    /// Sets the maximum number of open DTLS sessions: 10 000 by default, divided among
    /// [workers](Self::workers). An idle session takes about 8 kB with a pre-shared key and 10 kB
    /// with a certificate. Beyond the limit, a new session closes the idlest session of the host
    /// (IPv4 address, IPv6 /64) with most sessions, in the network (IPv4 /16, IPv6 /32) with most
    /// sessions. [`bind`](Self::bind) rejects 0.
    #[cfg(feature = "dtls")]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.settings.security.max_sessions = Some(sessions);
        self
    }

    /// Sets the maximum number of open DTLS sessions per pre-shared key identity and
    /// [worker](Self::workers): unlimited by default. Beyond the limit, a new session closes the
    /// idlest one of the identity. [`bind`](Self::bind) rejects 0.
    #[cfg(feature = "dtls")]
    pub fn max_sessions_per_identity(mut self, sessions: usize) -> Self {
        self.settings.security.max_sessions_per_identity = Some(sessions);
        self
    }

    /// Opens DTLS sessions with a pre-shared key for `coaps` requests of the server's
    /// [`client`](Server::client), as [`ClientBuilder::psk`](crate::client::ClientBuilder::psk)
    /// does for other clients. Servers know the key by this identity of 1 to 1024 bytes.
    ///
    /// The peer may send requests through such a session, too, and the server's routes answer them:
    /// so an LwM2M device registers at its server and is then managed through the same session.
    /// Their [`Identity`](crate::security::Identity) is the one given here.
    ///
    /// This opens no way in: clients open sessions only with the credentials of [`psk`](Self::psk)
    /// and [`certificate`](Self::certificate). Without these two the server answers `coap` as well,
    /// unless [`secured_only`](Self::secured_only) forbids it.
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

    /// As [`outgoing_psk`](Self::outgoing_psk), for the servers of a prefix. The longest prefix
    /// decides. Keys of several peers need several identities, as requests and responses name their
    /// sender by its identity alone.
    ///
    /// # Errors
    /// As [`outgoing_psk`](Self::outgoing_psk).
    #[cfg(feature = "dtls")]
    pub fn outgoing_psk_for(
        self,
        prefix: IpNet,
        identity: impl Into<Vec<u8>>,
        key: Secret,
    ) -> Result<Self, CredentialsError> {
        self.open_with_psk(&[prefix], identity, key)
    }

    /// Opens DTLS sessions with servers that show a certificate, for `coaps` requests of the
    /// server's [`client`](Server::client), as
    /// [`ClientBuilder::roots`](crate::client::ClientBuilder::roots) does for other clients: these
    /// roots must authenticate the certificate, and it must contain the host of the URI. An
    /// [`outgoing_psk`](Self::outgoing_psk) for the same server is used instead. Requests from the
    /// peer are served as there.
    #[cfg(feature = "dtls")]
    pub fn outgoing_roots(mut self, roots: Roots) -> Self {
        self.settings.security.roots = Some(roots);
        self
    }

    /// The certificate that servers are shown which [`outgoing_roots`](Self::outgoing_roots)
    /// authenticate, if they ask for one.
    #[cfg(feature = "dtls")]
    pub fn outgoing_certificate(mut self, own: OwnCertificate) -> Self {
        self.settings.security.own = Some(own);
        self
    }

    /// Serves a client that has these keys, whose requests and responses are protected (OSCORE, RFC 8613). To be called for each of
    /// them; their IDs differ, or their ID contexts. A handler learns by [`Identity`](crate::oscore::Identity) who asks. Requests that are not
    /// protected are served as well, except behind [`RequireSecured`](super::RequireSecured) or with
    /// [`secured_only`](Self::secured_only). [`oscore`](crate::oscore) has an example.
    #[cfg(feature = "oscore")]
    pub fn oscore(mut self, keys: crate::oscore::Keys) -> Self {
        self.settings.oscore.served.push(keys);
        self
    }

    /// Agrees on OSCORE keys with clients that this party knows and that know it (EDHOC, RFC 9528), as they ask for it at
    /// `/.well-known/edhoc`, or with their first request (RFC 9668). Requests that are not protected are served as well, as with
    /// [`oscore`](Self::oscore). [`edhoc`](crate::edhoc) has an example.
    #[cfg(feature = "edhoc")]
    pub fn edhoc(mut self, party: crate::edhoc::Party) -> Self {
        self.settings.edhoc.served = Some(party);
        self
    }

    /// Answers a request with 4.01 unless OSCORE keys or a DTLS session authenticate its sender.
    /// Without credentials that authenticate clients the server fails to start, with a
    /// [`ConfigError`](crate::ConfigError).
    #[cfg(any(feature = "dtls", feature = "oscore"))]
    pub fn secured_only(mut self) -> Self {
        self.settings.secured_only = true;
        self
    }

    /// Has the server's [`client`](Server::client) keep responses and use them again, as many as these limits allow: as
    /// [`cache`](crate::client::ClientBuilder::cache) does for other clients. By default none are kept.
    pub fn client_cache(mut self, limits: CacheLimits) -> Self {
        self.role.client_cache = Some(limits);
        self
    }

    /// Starts the server on a UDP address, such as `"[::]:5683"` for all addresses of both IP versions. Port 0 takes a
    /// free one. Of several addresses the first that can be bound is taken.
    ///
    /// # Errors
    /// If a route or a setting makes no sense, or the address cannot be bound.
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

    /// Starts the server on a bound UDP socket of the caller's. It is made non-blocking, and its buffers are enlarged;
    /// nobody else may receive from it.
    ///
    /// # Errors
    /// If a route or a setting makes no sense, or the socket cannot be used.
    pub async fn socket(self, socket: UdpSocket) -> Result<Server, BindError> {
        let address = socket.local_addr().map_err(BindError::Resolve)?;
        let (setup, role) = self.setup();
        role.start(&setup, &Binding::Socket(Arc::new(socket)), address)
    }
}

impl ServerRole {
    fn start(&self, setup: &Setup, binding: &Binding, address: SocketAddr) -> Result<Server, BindError> {
        let Self { router, handlers, client_cache, more_workers } = self;
        let (router, handlers) = (router.clone().ready()?, *handlers);
        #[cfg(feature = "edhoc")]
        let router = match setup.settings.edhoc.served {
            Some(_) => router.or_route(crate::edhoc::PATH, crate::edhoc::resource()),
            None => router,
        };
        let started = match (more_workers, binding) {
            (0, _) => Workers::one(setup, binding, (router, handlers)),
            (_, Binding::Socket(_)) => return Err(BindError::Workers(WorkersError::Socket)),
            #[cfg(feature = "oscore")]
            _ if setup.settings.has_keys() => return Err(BindError::Workers(WorkersError::Keys)),
            _ if !setup.settings.groups.is_empty() => return Err(BindError::Workers(WorkersError::Group)),
            (more, _) => Workers::several(setup, address, (&router, handlers), more.saturating_add(1)),
        };
        let workers = started.map_err(|error| match error {
            StartError::Config(error) => error.into(),
            StartError::Socket(source) => BindError::Socket { address, source },
        })?;
        let client = match more_workers {
            #[cfg(feature = "edhoc")]
            0 => Client::of_server(workers.first().clone(), *client_cache).agreeing(&setup.settings),
            #[cfg(not(feature = "edhoc"))]
            0 => Client::of_server(workers.first().clone(), *client_cache),
            _ => Client::beside_server(setup.clone(), *client_cache),
        };
        Ok(Server::new(workers, client))
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
    /// Several [workers](ServerBuilder::workers) cannot serve what was asked for.
    #[error(transparent)]
    Workers(#[from] WorkersError),
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

/// Why a server cannot have several workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorkersError {
    /// Each needs a socket of its own.
    #[error("several workers cannot serve one socket: let the server bind the address, or have one worker")]
    Socket,
    /// Each of them would answer what is asked of a group.
    #[error("several workers cannot join a group, as each of them would answer: have one worker")]
    Group,
    /// One of them has the keys, and a client may come to any.
    #[cfg(feature = "oscore")]
    #[error("several workers cannot have the same OSCORE keys, as numbers would be used twice: have one worker")]
    Keys,
}
