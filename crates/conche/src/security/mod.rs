//! Security over DTLS (RFC 7252 §9): pre-shared keys, certificates and peer identities.
//!
//! A client with a key requests `coaps` URIs, and a server with keys accepts only these:
//!
//! ```
//! # #[cfg(feature = "dtls")] {
//! use conche::security::Secret;
//! use conche::server::get;
//! use conche::{Client, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let keys = |identity: &[u8]| (identity == b"lamp-7").then(|| Secret::new(*b"sesame"));
//! let server = Server::builder().psk(keys).route("/hello", get(async || "world")).bind("127.0.0.1:0").await?;
//!
//! let client = Client::builder().psk(*b"lamp-7", Secret::new(*b"sesame"))?.build()?;
//! let uri = format!("coaps://{}/hello", server.local_addr());
//! assert_eq!(client.get(uri).await?.text()?, "world");
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! For sessions that clients open, set [`ServerBuilder::psk`](crate::server::ServerBuilder::psk) or
//! [`psk_lookup`](crate::server::ServerBuilder::psk_lookup), `certificate` and `client_roots`. For
//! sessions that the program opens, set [`ClientBuilder::psk`](crate::client::ClientBuilder::psk),
//! `roots` and `certificate`, or on a server
//! [`outgoing_psk`](crate::server::ServerBuilder::outgoing_psk), `outgoing_roots` and
//! `outgoing_certificate`.
//!
//! Keys authenticate an [`Identity`]. A request goes only to the peer that its URI and credentials
//! name, or [`expect_peer`](crate::client::RequestBuilder::expect_peer).
//!
//! The first request to a server opens a session, which later requests share and which has its own
//! congestion control. If a message is retransmitted without a record since its first transmission,
//! a second session is opened in parallel: the server may have restarted, or a NAT rebound the
//! socket. If it answers first, the first session is closed and unacknowledged idempotent requests
//! are sent again. Others fail with [`Error::SessionOver`](crate::Error::SessionOver): the server
//! may have executed them, and recognizes duplicates only within a session.
//!
//! The protocol is DTLS 1.2 (RFC 6347), with TLS_PSK_WITH_AES_128_CCM_8 for keys, and ECDHE_ECDSA
//! with AES-GCM or ChaCha20-Poly1305 for certificates. [`conche_dtls`](https://docs.rs/conche-dtls)
//! documents limits and protection against denial of service.

#[cfg(feature = "dtls")]
mod credentials;
#[cfg(feature = "dtls")]
mod events;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "dtls")]
pub use conche_dtls::{CredentialsError, KeyLog, Keys, OwnCertificate, Secret};

#[cfg(feature = "dtls")]
pub use credentials::{Certificate, Roots};
#[cfg(feature = "dtls")]
pub(crate) use credentials::{KeyLookup, Security};
#[cfg(feature = "dtls")]
pub(crate) use events::SessionObserver;
#[cfg(feature = "dtls")]
pub use events::{HandshakeFailure, SessionEnd, SessionEvent, SessionInfo};

/// Reason why no session with a server could be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HandshakeError {
    message: Arc<str>,
    unreachable: bool,
    alert: Option<u8>,
}

impl HandshakeError {
    pub(crate) fn new(what: &dyn fmt::Display) -> Self {
        Self { message: what.to_string().into(), unreachable: false, alert: None }
    }

    pub(crate) fn unprotected() -> Self {
        Self::new(&"a server with keys sends requests over coaps only: use a coaps URI")
    }

    pub(crate) fn silence(what: &dyn fmt::Display) -> Self {
        Self { unreachable: true, ..Self::new(what) }
    }

    #[cfg(feature = "dtls")]
    pub(crate) fn alert_of(what: &str, alert: u8) -> Self {
        Self { alert: Some(alert), ..Self::new(&format_args!("{what} (alert {alert})")) }
    }

    pub(crate) fn none() -> Self {
        Self::new(&"neither a key nor trusted roots are configured")
    }

    #[cfg(feature = "dtls")]
    pub(crate) fn unreachable() -> Self {
        Self::silence(&"the port is unreachable")
    }

    pub(crate) fn late() -> Self {
        Self::silence(&"the request timed out before the handshake ended")
    }

    /// Returns the alert with which the server ended the handshake (RFC 5246 §7.2, RFC 4279 §6).
    #[must_use]
    pub fn alert(&self) -> Option<u8> {
        self.alert
    }

    /// Whether the server did not respond, or is unreachable.
    #[must_use]
    pub fn is_timeout_or_unreachable(&self) -> bool {
        self.unreachable
    }
}

/// A peer authenticated by keys: the sender of a request or of a
/// [`Response`](crate::client::Response::peer_identity).
///
/// As a handler argument it refuses unauthenticated requests with 4.01. The program authorizes the
/// sender, in a handler or in a [layer](crate::server::from_fn) that reads
/// [`Request::extension`](crate::server::Request::extension).
///
/// A handler with this argument cannot be observed: a [`Notifier`](crate::server::Notifier) runs it
/// once for all observers. A layer can check registrations.
///
/// ```
/// use conche::security::Identity;
/// use conche::server::{Router, put};
///
/// async fn unlock(who: Identity) {
///     println!("{who} unlocks the door");
/// }
///
/// let router: Router = Router::new().route("/door", put(unlock));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Identity {
    /// The holder of the pre-shared key of this identity, in a DTLS session (RFC 4279). In a
    /// session that this program opened, the identity that it sent.
    #[cfg(feature = "dtls")]
    Psk(Arc<[u8]>),
    /// The holder of this certificate's private key, authenticated by the trusted roots, over DTLS.
    #[cfg(feature = "dtls")]
    Certificate(Certificate),
    /// The holder of these OSCORE keys (RFC 8613), over any transport.
    #[cfg(feature = "oscore")]
    Oscore(crate::oscore::Identity),
    /// The holder of this credential's private key, after EDHOC (RFC 9528), over any transport.
    #[cfg(feature = "edhoc")]
    Edhoc(crate::edhoc::Identity),
}

impl Identity {
    /// Returns the identity of a pre-shared key.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn psk(identity: impl AsRef<[u8]>) -> Self {
        Self::Psk(identity.as_ref().into())
    }

    #[cfg(feature = "dtls")]
    pub(crate) fn is_of_session(&self) -> bool {
        matches!(self, Self::Psk(_) | Self::Certificate(_))
    }

    /// Formats kind and identity, for errors.
    pub(crate) fn long(&self) -> String {
        match *self {
            #[cfg(feature = "dtls")]
            Self::Psk(_) => format!("the PSK identity {self}"),
            #[cfg(feature = "dtls")]
            Self::Certificate(_) => format!("the certificate of {self}"),
            #[cfg(feature = "oscore")]
            Self::Oscore(_) => format!("the OSCORE keys of {self}"),
            #[cfg(feature = "edhoc")]
            Self::Edhoc(_) => format!("the EDHOC credential of {self}"),
        }
    }

    #[cfg(feature = "dtls")]
    pub(crate) fn of_session(proved: conche_dtls::Identity) -> Option<Self> {
        match proved {
            conche_dtls::Identity::Psk(identity) => Some(Self::Psk(identity.into())),
            conche_dtls::Identity::Certificate(der) => Some(Self::Certificate(Certificate::from_der(der))),
            _ => None,
        }
    }
}

/// Formats for logs: a PSK identity as ASCII with escapes; a certificate or EDHOC credential by its
/// subject; OSCORE keys by their ID in hexadecimal. Different identities may format alike.
impl fmt::Display for Identity {
    #[cfg_attr(
        not(any(feature = "dtls", feature = "oscore")),
        expect(unused_variables, reason = "plain CoAP authenticates no client")
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            #[cfg(feature = "dtls")]
            Self::Psk(ref identity) => write!(f, "{}", identity.escape_ascii()),
            #[cfg(feature = "dtls")]
            Self::Certificate(ref certificate) => certificate.fmt(f),
            #[cfg(feature = "oscore")]
            Self::Oscore(ref identity) => identity.fmt(f),
            #[cfg(feature = "edhoc")]
            Self::Edhoc(ref identity) => identity.fmt(f),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

/// The peer at a destination is not the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMismatch {
    expected: Option<Arc<Identity>>,
    authenticated: Option<Identity>,
}

impl PeerMismatch {
    pub(crate) fn new(expected: Option<Arc<Identity>>, authenticated: Option<Identity>) -> Self {
        Self { expected, authenticated }
    }

    /// Returns the expected identity. `None` if the request names none and the peer opened the
    /// session: only [`expect_peer`](crate::client::RequestBuilder::expect_peer) allows such a
    /// session.
    #[must_use]
    pub fn expected(&self) -> Option<&Identity> {
        self.expected.as_deref()
    }

    /// Returns the identity that the session or keys authenticate, if any.
    #[must_use]
    pub fn authenticated(&self) -> Option<&Identity> {
        self.authenticated.as_ref()
    }
}

impl fmt::Display for PeerMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.expected, &self.authenticated) {
            (Some(expected), Some(found)) => {
                write!(f, "the request expects {}, but its keys there authenticate {}", expected.long(), found.long())
            }
            (Some(expected), None) => {
                write!(f, "the request expects {}, but nothing authenticates the peer there", expected.long())
            }
            (None, Some(found)) => write!(
                f,
                "the peer has opened the session and authenticated as {}: a request to it names that identity with expect_peer",
                found.long()
            ),
            (None, None) => {
                f.write_str("the peer has opened the session without an identity, so that no request may use it")
            }
        }
    }
}
