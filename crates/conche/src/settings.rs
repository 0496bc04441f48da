//! [`Settings`]: settings common to clients and servers, except for their controllers.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use conche_proto::EndpointConfig;
use ipnet::IpNet;
use thiserror::Error;

use crate::controllers::MAX_PREFIXES;
use crate::driver::Waiting;
#[cfg(feature = "edhoc")]
use crate::edhoc::Party;
#[cfg(feature = "oscore")]
use crate::oscore::Keys;
use crate::paths::{PathStore, Sharing};
#[cfg(feature = "oscore")]
use crate::prefixes::Prefixes;
#[cfg(feature = "dtls")]
use crate::security::Security;
use crate::watch::Watchers;

#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) config: EndpointConfig,
    pub(crate) sharing: Sharing,
    pub(crate) store: Option<PathStore>,
    pub(crate) waiting: Waiting,
    /// The name of the only network interface to use.
    pub(crate) interface: Option<String>,
    /// Multicast groups that a server joins, each with an interface index.
    pub(crate) groups: Vec<(IpAddr, u32)>,
    /// Whether ICMP errors do not end Confirmable exchanges.
    pub(crate) retry_unreachable: bool,
    /// Maximum time that a client polls for responses without sleeping.
    pub(crate) busy_poll: Duration,
    pub(crate) watchers: Watchers,
    /// The credentials of DTLS sessions.
    #[cfg(feature = "dtls")]
    pub(crate) security: Security,
    /// Whether a server refuses unauthenticated requests.
    pub(crate) secured_only: bool,
    #[cfg(feature = "oscore")]
    pub(crate) oscore: Protection,
    #[cfg(feature = "edhoc")]
    pub(crate) edhoc: Agreement,
}

/// EDHOC parties (RFC 9528).
#[cfg(feature = "edhoc")]
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    /// As responder, for clients.
    pub(crate) served: Option<Party>,
    /// As initiator, by destination.
    pub(crate) toward: Prefixes<Party>,
    /// Maximum number of destinations with keys.
    pub(crate) most: usize,
}

#[cfg(feature = "edhoc")]
impl Default for Agreement {
    fn default() -> Self {
        Self { served: None, toward: Prefixes::default(), most: 1024 }
    }
}

/// OSCORE keys (RFC 8613).
#[cfg(feature = "oscore")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Protection {
    /// Of clients.
    pub(crate) served: Vec<Keys>,
    /// By destination.
    pub(crate) toward: Prefixes<Keys>,
}

impl Settings {
    /// Returns whether a destination has OSCORE keys.
    #[cfg(feature = "oscore")]
    pub(crate) fn keys_toward(&self) -> impl Fn(SocketAddr) -> bool + Send + Sync + use<> {
        let toward = self.oscore.toward.clone();
        #[cfg(feature = "edhoc")]
        let agreed = self.edhoc.toward.clone();
        move |to| {
            #[cfg(feature = "edhoc")]
            if agreed.of(to.ip()).is_some() {
                return true;
            }
            toward.of(to.ip()).is_some()
        }
    }

    /// Without OSCORE no destination has keys.
    #[cfg(not(feature = "oscore"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn keys_toward(&self) -> impl Fn(SocketAddr) -> bool + Send + Sync + use<> {
        |_| false
    }

    /// Returns the error that keeps an endpoint from being made, with any controllers.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if let Some((prefix, length)) = self.sharing.impossible() {
            return Err(ConfigError::PathLength { prefix, length });
        }
        #[cfg(feature = "dtls")]
        self.security.validate(self.config.limits.message_bytes)?;
        #[cfg(feature = "edhoc")]
        if let Some((prefix, peers)) =
            self.edhoc.toward.iter().find_map(|(prefix, party)| Some((prefix, party.expected().err()?)))
        {
            return Err(ConfigError::EdhocPeer { prefix, peers });
        }
        #[cfg(any(feature = "dtls", feature = "oscore"))]
        if self.secured_only && !self.authenticates() {
            return Err(ConfigError::NoClientCredentials);
        }
        Ok(())
    }

    /// Whether clients may have OSCORE keys, now or after EDHOC.
    #[cfg(feature = "oscore")]
    pub(crate) fn has_keys(&self) -> bool {
        #[cfg(feature = "edhoc")]
        if self.edhoc.served.is_some() {
            return true;
        }
        !self.oscore.served.is_empty()
    }

    /// Returns whether a request can be authenticated, by keys or by its session.
    #[cfg(any(feature = "dtls", feature = "oscore"))]
    fn authenticates(&self) -> bool {
        #[cfg(feature = "oscore")]
        if self.has_keys() {
            return true;
        }
        #[cfg(feature = "dtls")]
        if self.security.names_peers() {
            return true;
        }
        false
    }
}

/// Why no driver could be started.
#[derive(Debug, Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// Settings that no endpoint can be made with.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A setting of the endpoint is invalid, or contradicts another one or a controller.
    #[error(transparent)]
    Endpoint(#[from] conche_proto::ConfigError),
    /// The message size exceeds that of a DTLS record.
    #[error("Limits::message_bytes is {bytes}: through sessions at most {longest} are possible")]
    SecuredMessage {
        /// Its value.
        bytes: usize,
        /// The maximum.
        longest: usize,
    },
    /// There are controllers for too many prefixes.
    #[error("controllers for {count} prefixes: at most {MAX_PREFIXES} can be told apart")]
    TooManyPrefixes {
        /// Number of prefixes.
        count: usize,
    },
    /// The path length exceeds the address length.
    #[error("paths of {length} bits for {prefix}: its addresses have {}", .prefix.max_prefix_len())]
    PathLength {
        /// The prefix that it was set for.
        prefix: IpNet,
        /// The length.
        length: u8,
    },
    /// Keys cannot be used: others have the same IDs, another socket has them, or their sequence
    /// numbers cannot be stored.
    #[cfg(feature = "oscore")]
    #[error("the OSCORE keys for {peer} cannot be used: {problem}")]
    Keys {
        /// The peer, as displayed by [`Identity`](crate::oscore::Identity).
        peer: String,
        /// The cause.
        problem: String,
    },
    /// The expected peer at these destinations is ambiguous.
    #[cfg(feature = "edhoc")]
    #[error(
        "the EDHOC party for {prefix} knows {peers} peers: name the one to expect there with Party::expecting, use edhoc_for with a party for each, or call Party::expecting_any and name the peer of each request"
    )]
    EdhocPeer {
        /// The destinations.
        prefix: IpNet,
        /// Number of peers that the party knows.
        peers: usize,
    },
    /// A server with [`secured_only`](crate::server::ServerBuilder::secured_only) has no
    /// credentials that authenticate a client.
    #[cfg(any(feature = "dtls", feature = "oscore"))]
    #[error(
        "secured_only refuses every request, as no credentials authenticate a client: add some with ServerBuilder::oscore, edhoc, psk, \
         outgoing_psk or outgoing_roots, or client_roots to a certificate"
    )]
    NoClientCredentials,
    /// [`client_roots`](crate::server::ServerBuilder::client_roots) is set without the server's
    /// certificate: clients are authenticated only in handshakes with that.
    #[cfg(feature = "dtls")]
    #[error(
        "client_roots has no effect without ServerBuilder::certificate. The roots of servers that Server::client asks are outgoing_roots"
    )]
    ClientRootsWithoutCertificate,
    /// A client's certificate is set without roots: it is presented only to servers that roots
    /// authenticate.
    #[cfg(feature = "dtls")]
    #[error(
        "a client's certificate has no effect without the roots of servers: add ClientBuilder::roots, or ServerBuilder::outgoing_roots \
         to outgoing_certificate"
    )]
    CertificateWithoutRoots,
    /// A PSK identity has one key for sessions that clients open and another for sessions that the
    /// program opens, so that it would name two peers.
    #[cfg(feature = "dtls")]
    #[error(
        "the PSK identity \"{identity}\" has one key in ServerBuilder::psk and another in outgoing_psk: use one key, or two identities"
    )]
    TwoKeys {
        /// The identity, with bytes that are not printable ASCII escaped.
        identity: String,
    },
    /// The operating system has no random bytes, without which tokens could be guessed.
    #[error("the operating system gives no random bytes: {0}")]
    NoRandomness(String),
}
