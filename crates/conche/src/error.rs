//! [`ConfigError`]: invalid settings.

use std::io;

use ipnet::IpNet;
use thiserror::Error;

/// An endpoint supports 256 controllers, including the default.
pub(crate) const MAX_PREFIXES: usize = 255;

#[derive(Debug, Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// Settings that no endpoint supports.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An endpoint setting is invalid, or contradicts another one or a controller.
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
    /// Too many prefixes have controllers.
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
    /// OSCORE keys cannot be used: others have the same IDs, another socket has them, or their
    /// sequence numbers cannot be stored.
    #[cfg(feature = "oscore")]
    #[error("the OSCORE keys for {peer} cannot be used: {problem}")]
    Keys {
        /// The peer, as displayed by [`Identity`](crate::oscore::Identity).
        peer: String,
        /// The cause.
        problem: String,
    },
    /// The party does not determine the expected peer.
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
    /// A [`secured_only`](crate::server::ServerBuilder::secured_only) server has no credentials
    /// that authenticate clients.
    #[cfg(any(feature = "dtls", feature = "oscore"))]
    #[error(
        "secured_only refuses every request, as no credentials authenticate a client: add some with ServerBuilder::oscore, edhoc, psk, \
         outgoing_psk or outgoing_roots, or client_roots to a certificate"
    )]
    NoClientCredentials,
    /// [`client_roots`](crate::server::ServerBuilder::client_roots) without a server certificate.
    #[cfg(feature = "dtls")]
    #[error(
        "client_roots has no effect without ServerBuilder::certificate. The roots of servers that Server::client asks are outgoing_roots"
    )]
    ClientRootsWithoutCertificate,
    /// A client certificate without roots that authenticate servers.
    #[cfg(feature = "dtls")]
    #[error(
        "a client's certificate has no effect without the roots of servers: add ClientBuilder::roots, or ServerBuilder::outgoing_roots \
         to outgoing_certificate"
    )]
    CertificateWithoutRoots,
    /// A PSK identity names two peers: it has one key for sessions that clients open and another
    /// for those that the program opens.
    #[cfg(feature = "dtls")]
    #[error(
        "the PSK identity \"{identity}\" has one key in ServerBuilder::psk and another in outgoing_psk: use one key, or two identities"
    )]
    TwoKeys {
        /// The identity; bytes other than printable ASCII are escaped.
        identity: String,
    },
    /// The operating system has no random bytes, so tokens could be guessed.
    #[error("the operating system gives no random bytes: {0}")]
    NoRandomness(String),
}
