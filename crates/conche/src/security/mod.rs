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
//! Credentials have a direction. For sessions that clients open, set
//! [`ServerBuilder::psk`](crate::server::ServerBuilder::psk), `certificate` and `client_roots`. For
//! sessions that the program opens, set [`ClientBuilder::psk`](crate::client::ClientBuilder::psk),
//! `roots` and `certificate`, or on a server
//! [`outgoing_psk`](crate::server::ServerBuilder::outgoing_psk), `outgoing_roots` and
//! `outgoing_certificate`.
//!
//! Keys authenticate an [`Identity`]: the sender of a request or of a
//! [`Response`](crate::client::Response::peer_identity). A request goes only to the peer that its
//! URI and credentials name, or that [`expect_peer`](crate::client::RequestBuilder::expect_peer)
//! names.
//!
//! The first request to a server opens a session, which later requests share. It has its own
//! congestion control. When a message is retransmitted and no record has arrived since its first
//! transmission, a second session is opened in parallel: the server may have restarted, or a NAT
//! may have rebound the socket to another address. The session that answers first is used. If that
//! is the second, the first is closed and unacknowledged idempotent requests are sent again through
//! the second. Other requests fail with [`Error::SessionOver`](crate::Error::SessionOver): the
//! server may have executed them, and recognizes duplicates only within a session.
//!
//! The protocol is DTLS 1.2 (RFC 6347), with TLS_PSK_WITH_AES_128_CCM_8 for keys, and ECDHE_ECDSA
//! with AES-GCM or ChaCha20-Poly1305 for certificates. [`conche_dtls`](https://docs.rs/conche-dtls)
//! documents its limits and its protection against denial of service.

#[cfg(feature = "dtls")]
mod certificate;
#[cfg(feature = "dtls")]
mod credentials;
mod identity;
mod peer_mismatch;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "dtls")]
pub use certificate::Certificate;
#[cfg(feature = "dtls")]
pub use conche_dtls::{CredentialsError, KeyLog, Keys, OwnCertificate, Secret};
#[cfg(feature = "dtls")]
pub use credentials::Roots;
#[cfg(feature = "dtls")]
pub(crate) use credentials::Security;
pub use identity::Identity;
pub use peer_mismatch::PeerMismatch;

/// Why no session with a server could be opened.
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

    /// A server with keys tried to send a request without a session.
    pub(crate) fn unprotected() -> Self {
        Self::new(&"a server with keys asks nobody without a session: use coaps")
    }

    /// Like [`new`](Self::new), for a peer that does not respond.
    pub(crate) fn silence(what: &dyn fmt::Display) -> Self {
        Self { unreachable: true, ..Self::new(what) }
    }

    /// Like [`new`](Self::new), for a handshake that the server ended with this alert.
    #[cfg(feature = "dtls")]
    pub(crate) fn alert_of(what: &str, alert: u8) -> Self {
        Self { alert: Some(alert), ..Self::new(&format_args!("{what} (alert {alert})")) }
    }

    /// The program has no credentials for the server.
    pub(crate) fn none() -> Self {
        Self::new(&"there is no key to show, and there are no roots to believe in")
    }

    #[cfg(feature = "dtls")]
    pub(crate) fn unreachable() -> Self {
        Self::silence(&"nobody is there")
    }

    pub(crate) fn late() -> Self {
        Self::silence(&"the request's time was over before the handshake was")
    }

    /// Returns the alert with which the server ended the handshake, if it did (RFC 5246 §7.2, RFC
    /// 4279 §6).
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
