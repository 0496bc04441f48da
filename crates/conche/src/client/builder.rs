//! How a client is made.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use conche_proto::cc::AnyController;
#[cfg(feature = "dtls")]
use ipnet::IpNet;

use super::Client;
use super::cache::CacheLimits;
use super::sockets::Sockets;
use crate::builder::Builder;
use crate::controllers::{Setup, SharedController};
use crate::driver::Binding;
#[cfg(any(feature = "dtls", feature = "oscore"))]
use crate::prefixes::everywhere;
#[cfg(feature = "dtls")]
use crate::security::{CredentialsError, OwnCertificate, Roots, Secret};
use crate::settings::ConfigError;

/// Makes a [`Client`].
pub type ClientBuilder<C = AnyController> = Builder<ClientRole, C>;

/// What only clients have: where they send from, and a cache.
#[derive(Clone, Debug)]
pub struct ClientRole {
    v4: Binding,
    v6: Binding,
    cache: Option<CacheLimits>,
}

impl Default for ClientRole {
    fn default() -> Self {
        Self {
            v4: Binding::Address((Ipv4Addr::UNSPECIFIED, 0).into()),
            v6: Binding::Address((Ipv6Addr::UNSPECIFIED, 0).into()),
            cache: None,
        }
    }
}

impl ClientRole {
    pub(super) fn caching(cache: Option<CacheLimits>) -> Self {
        Self { cache, ..Self::default() }
    }

    pub(super) fn client(self, setup: Setup) -> Client {
        #[cfg(feature = "edhoc")]
        let toward = setup.settings.edhoc.toward.clone();
        let client = Client::with(Sockets::own(setup, self.v4, self.v6), self.cache);
        #[cfg(feature = "edhoc")]
        let client = client.agreeing_toward(toward);
        client
    }
}

impl<C: SharedController> Builder<ClientRole, C> {
    /// Sends from this local address and port, toward destinations of the same IP version. Without it the operating system
    /// chooses both, which is what keeps an attacker off the path from guessing the port.
    pub fn bind(mut self, local: SocketAddr) -> Self {
        *self.slot(local) = Binding::Address(local);
        self
    }

    /// Sends from a UDP socket of the caller's, toward destinations of its IP version. The client makes it non-blocking and
    /// enlarges its buffers; nobody else may receive from it.
    pub fn socket(mut self, socket: UdpSocket) -> Self {
        // What is wrong with a socket that has no address, its first use tells.
        let local = socket.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into());
        *self.slot(local) = Binding::Socket(Arc::new(socket));
        self
    }

    /// Looks for answers for at most so long after a request has left, instead of sleeping until one comes; zero, the default, is not at all.
    /// As with SO_BUSY_POLL of sockets, that saves the time that a core takes to fall asleep and to wake up, which on a fast network
    /// is more than all else that a request takes, and costs the core: while an answer is looked for, only other tasks of the runtime
    /// have turns on it.
    ///
    /// It pays for a program that asks one thing after the other and whose servers answer within tens of microseconds, such as
    /// `Duration::from_micros(100)` on one machine or in one rack. Toward a destination whose round trips take longer, by what
    /// congestion control knows of it, nothing is looked for. With many requests under way at a time it saves nothing: the
    /// next answer is there already. Only on Linux; elsewhere it has no effect.
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

    /// Keeps responses and uses them again (RFC 7252 §5.6), as many as these limits allow. By default none are kept.
    ///
    /// - A GET or FETCH is answered without asking the server if the same was asked before and the answer's Max-Age has not
    ///   passed, which is a minute where the server does not say. That goes for errors, too.
    ///   [`Response::age`](super::Response::age) tells what comes from the cache;
    ///   [`fresh`](super::RequestBuilder::fresh) has the server asked all the same.
    /// - What has an ETag is validated with it when its Max-Age has passed: if the server answers 2.03, the payload that is
    ///   here is the response's, as a 2.05 whose options are renewed.
    /// - A POST, PUT or other method that may change the resource has everything of its path validated before it is used
    ///   again. What others change is not known before Max-Age has passed, unless the resource is
    ///   [observed](super::RequestBuilder::observe): notifications are kept like responses (RFC 7641 §3.3).
    /// - The same is what has the same method, address, options and payload, but for options that are no part of the cache key
    ///   (RFC 7252 §5.4.2). Requests that have conditions or ETags of their own, ask for a block, go to a proxy or to a group
    ///   pass by the cache.
    ///
    /// Ages count on the clock of [`Instant`](std::time::Instant), which on some systems stands still while the machine sleeps.
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
        self.role.cache = Some(limits);
        self
    }

    /// Asks `coaps` URIs with a pre-shared key (RFC 7252 §9.1.3.1), which servers know by this identity, of 1 to 1024 bytes. See
    /// [`security`](crate::security).
    ///
    /// # Errors
    /// If the identity or the key has no byte or too many.
    #[cfg(feature = "dtls")]
    pub fn psk(self, identity: impl Into<Vec<u8>>, key: Secret) -> Result<Self, CredentialsError> {
        self.open_with_psk(&everywhere(), identity, key)
    }

    /// As [`psk`](Self::psk), of the servers of a prefix, such as the one of a device. The longest prefix decides.
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
    /// As [`psk`](Self::psk).
    #[cfg(feature = "dtls")]
    pub fn psk_for(self, prefix: IpNet, identity: impl Into<Vec<u8>>, key: Secret) -> Result<Self, CredentialsError> {
        self.open_with_psk(&[prefix], identity, key)
    }

    /// Asks servers of `coaps` URIs for a certificate that one of these vouches for, with the host of the URI in it (RFC 7252
    /// §9.1.3.3). Where there is a [pre-shared key](Self::psk) for a server as well, that is used instead.
    #[cfg(feature = "dtls")]
    pub fn roots(mut self, roots: Roots) -> Self {
        self.settings.security.roots = Some(roots);
        self
    }

    /// The certificate that servers are shown which [`roots`](Self::roots) authenticate, if they
    /// ask for one.
    #[cfg(feature = "dtls")]
    pub fn certificate(mut self, own: OwnCertificate) -> Self {
        self.settings.security.own = Some(own);
        self
    }

    /// Protects all requests with these keys (OSCORE, RFC 8613), but for those to destinations of which
    /// [`oscore_for`](Self::oscore_for) says something else, and takes no other response than a protected one. Such a client talks to
    /// one server. A request without keys that can be used is not sent, and neither is one to a group.
    ///
    /// An error that is not protected ends a request with [`Failure::NotAuthenticated`](crate::Failure::NotAuthenticated): a server that
    /// does not know the keys can say nothing else. [`oscore`](crate::oscore) has an example.
    #[cfg(feature = "oscore")]
    pub fn oscore(self, keys: crate::oscore::Keys) -> Self {
        let [v4, v6] = everywhere();
        self.oscore_for(v4, keys.clone()).oscore_for(v6, keys)
    }

    /// Agrees on OSCORE keys (EDHOC, RFC 9528) with each server before the first request to it, but for those of `coaps` URIs, and takes no
    /// other response than a protected one. [`edhoc_for`](Self::edhoc_for) does it for some. [`edhoc`](crate::edhoc) has an example.
    #[cfg(feature = "edhoc")]
    pub fn edhoc(self, party: crate::edhoc::Party) -> Self {
        let [v4, v6] = everywhere();
        self.edhoc_for(v4, party.clone()).edhoc_for(v6, party)
    }

    /// The client. Sockets are opened when they are needed.
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
