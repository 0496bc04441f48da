//! Builds clients: sockets, cache and credentials.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use conche_proto::cc::AnyController;
#[cfg(feature = "dtls")]
use ipnet::IpNet;

use super::Client;
use super::cache::CacheLimits;
use super::sockets::Sockets;
use crate::builder::{Builder, Setup};
use crate::driver::SharedController;
use crate::error::ConfigError;
#[cfg(any(feature = "dtls", feature = "oscore"))]
use crate::prefixes::everywhere;
#[cfg(feature = "dtls")]
use crate::security::{CredentialsError, OwnCertificate, Roots, Secret};
use crate::socket::Binding;

/// Builds a [`Client`].
pub type ClientBuilder<C = AnyController> = Builder<ClientRole, C>;

/// Settings that only clients have.
#[derive(Clone, Debug)]
pub struct ClientRole {
    v4: Binding,
    v6: Binding,
    pub(super) requests: RequestSettings,
}

/// Settings per request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestSettings {
    pub(crate) cache: Option<CacheLimits>,
    pub(crate) timeout: Option<Duration>,
}

impl Default for ClientRole {
    fn default() -> Self {
        Self {
            v4: Binding::Address((Ipv4Addr::UNSPECIFIED, 0).into()),
            v6: Binding::Address((Ipv6Addr::UNSPECIFIED, 0).into()),
            requests: RequestSettings::default(),
        }
    }
}

impl ClientRole {
    pub(super) fn requesting(requests: RequestSettings) -> Self {
        Self { requests, ..Self::default() }
    }

    pub(super) fn client(self, setup: Setup) -> Client {
        #[cfg(feature = "edhoc")]
        let toward = setup.settings.edhoc.toward.clone();
        let client = Client::with(Sockets::own(setup, self.v4, self.v6), self.requests);
        #[cfg(feature = "edhoc")]
        let client = client.with_edhoc_parties(toward);
        client
    }
}

impl<C: SharedController> Builder<ClientRole, C> {
    /// Binds to this local address, for destinations of the same IP version.
    ///
    /// By default the operating system chooses both; off-path attackers cannot guess the port.
    pub fn bind(mut self, local: SocketAddr) -> Self {
        *self.slot(local) = Binding::Address(local);
        self
    }

    /// Sends from the caller's UDP socket, for destinations of its IP version.
    ///
    /// The client makes it non-blocking and enlarges its buffers. No other code may receive from
    /// it.
    pub fn socket(mut self, socket: UdpSocket) -> Self {
        // A socket without an address fails on first use.
        let local = socket.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into());
        *self.slot(local) = Binding::Socket(Arc::new(socket));
        self
    }

    /// Polls for responses for up to this long after a send, instead of sleeping. Zero, the
    /// default, disables it. Linux only.
    ///
    /// Like `SO_BUSY_POLL`, this saves sleeping and waking up, for sequential requests to servers
    /// that respond within tens of microseconds. Meanwhile the core runs only the runtime's tasks.
    /// Destinations with a longer RTT are not polled for.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let client = conche::Client::builder().busy_poll(Duration::from_micros(100)).build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn busy_poll(mut self, longest: Duration) -> Self {
        self.settings.busy_poll = longest;
        self
    }

    /// Sets the default [`timeout`](super::RequestBuilder::timeout) of requests and of
    /// [`Client::ping`]; none by default.
    ///
    /// For an observation it applies to the first response, for a
    /// [streamed](super::RequestBuilder::stream) response to the whole body. [`Client::multicast`]
    /// keeps its 10 s.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let client = conche::Client::builder().timeout(Duration::from_secs(10)).build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.role.requests.timeout = Some(timeout);
        self
    }

    /// Caches responses within these limits (RFC 7252 §5.6). Off by default.
    ///
    /// - A GET or FETCH is answered from the cache until the Max-Age of an equal request's
    ///   response, whatever its code, expires (60 s if the server sends none).
    ///   [`Response::age`](super::Response::age) identifies such responses;
    ///   [`fresh`](super::RequestBuilder::fresh) bypasses them.
    /// - An expired response with an ETag is validated: on 2.03 the result is the cached payload as
    ///   2.05 with updated options.
    /// - An unsafe method, such as POST, marks everything cached for its path for validation.
    ///   Changes by others remain unknown until Max-Age expires or a notification of an
    ///   [observation](super::RequestBuilder::observe) arrives, which is cached too (RFC 7641
    ///   §3.3).
    /// - Requests are equal if method, address, payload and options are, except NoCacheKey options
    ///   (RFC 7252 §5.4.2). Requests with their own conditions or ETags, for single blocks, to a
    ///   proxy or to a group bypass the cache.
    ///
    /// Ages use [`Instant`](std::time::Instant), which may stop while the machine sleeps.
    ///
    /// ```
    /// use conche::client::CacheLimits;
    /// use conche::server::get;
    /// use conche::{Client, Server};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::builder().route("/t", get(async || "21.5")).bind("127.0.0.1:0").await?;
    /// let uri = format!("coap://{}/t", server.local_addr());
    /// let client = Client::builder().cache(CacheLimits::default()).build()?;
    ///
    /// assert!(client.get(&uri).await?.age().is_none(), "the server answers");
    /// assert!(client.get(&uri).await?.age().is_some(), "the cache does");
    /// assert!(client.get(&uri).fresh().await?.age().is_none(), "the server is asked again");
    /// # Ok(())
    /// # }
    /// ```
    pub fn cache(mut self, limits: CacheLimits) -> Self {
        self.role.requests.cache = Some(limits);
        self
    }

    /// Requests `coaps` URIs with a pre-shared key (RFC 7252 §9.1.3.1) and its identity of 1 to
    /// 1024 bytes. See [`security`](crate::security).
    ///
    /// # Errors
    /// If the identity or the key is empty or too long.
    #[cfg(feature = "dtls")]
    pub fn psk(self, identity: impl Into<Vec<u8>>, key: Secret) -> Result<Self, CredentialsError> {
        self.open_with_psk(&everywhere(), identity, key)
    }

    /// Like [`psk`](Self::psk), for servers in a prefix; the longest match applies.
    ///
    /// ```
    /// use conche::Client;
    /// use conche::security::Secret;
    ///
    /// let devices = [("192.0.2.1/32", *b"key of device 1!"), ("192.0.2.2/32", *b"key of device 2!")];
    /// let mut client = Client::builder();
    /// for (prefix, key) in devices {
    ///     client = client.psk_for(prefix.parse()?, *b"gateway", Secret::new(key))?;
    /// }
    /// let client = client.build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`psk`](Self::psk).
    #[cfg(feature = "dtls")]
    pub fn psk_for(self, prefix: IpNet, identity: impl Into<Vec<u8>>, key: Secret) -> Result<Self, CredentialsError> {
        self.open_with_psk(&[prefix], identity, key)
    }

    /// Requests `coaps` URIs with certificates: the server's must contain the URI's host, and one
    /// of these roots must authenticate it (RFC 7252 §9.1.3.3). A [pre-shared key](Self::psk) takes
    /// precedence.
    #[cfg(feature = "dtls")]
    pub fn roots(mut self, roots: Roots) -> Self {
        self.settings.security.roots = Some(roots);
        self
    }

    /// Sets the client certificate for [`roots`](Self::roots), presented on request.
    #[cfg(feature = "dtls")]
    pub fn certificate(mut self, own: OwnCertificate) -> Self {
        self.settings.security.own = Some(own);
        self
    }

    /// Protects all requests with these keys (OSCORE, RFC 8613), for a client of one server. Only
    /// protected responses are accepted.
    ///
    /// [`oscore_for`](Self::oscore_for) overrides the keys for some destinations. Requests without
    /// usable keys, and to groups, are not sent.
    ///
    /// A server without the keys can only send unprotected errors, which end requests with
    /// [`Failure::NotAuthenticated`](crate::Failure::NotAuthenticated). [`oscore`](crate::oscore)
    /// has an example.
    #[cfg(feature = "oscore")]
    pub fn oscore(self, keys: crate::oscore::Keys) -> Self {
        let [v4, v6] = everywhere();
        self.oscore_for(v4, keys.clone()).oscore_for(v6, keys)
    }

    /// Runs an EDHOC key exchange (RFC 9528) before the first request to each server, and accepts
    /// only OSCORE-protected responses. `coaps` URIs are exempt.
    ///
    /// [`edhoc_for`](Self::edhoc_for) selects destinations.
    #[cfg(feature = "edhoc")]
    pub fn edhoc(self, party: crate::edhoc::Party) -> Self {
        let [v4, v6] = everywhere();
        self.edhoc_for(v4, party.clone()).edhoc_for(v6, party)
    }

    /// Builds the client. Its sockets open on first use.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn build(self) -> Result<Client, ConfigError> {
        let (setup, role) = self.setup();
        setup.validate()?;
        Ok(role.client(setup))
    }

    fn slot(&mut self, address: SocketAddr) -> &mut Binding {
        if address.ip().to_canonical().is_ipv4() { &mut self.role.v4 } else { &mut self.role.v6 }
    }
}
