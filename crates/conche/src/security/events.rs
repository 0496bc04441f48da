//! [`SessionEvent`]: reports opened and closed sessions to the program.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use conche_dtls::{Ended, Failure};

use super::Identity;

/// A DTLS session opened or closed, or a peer's handshake failed. See
/// [`Builder::on_session`](crate::Builder::on_session).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A handshake succeeded.
    #[non_exhaustive]
    Opened {
        /// The session.
        session: SessionInfo,
    },
    /// An open session ended.
    #[non_exhaustive]
    Closed {
        /// The session, as reported when it opened.
        session: SessionInfo,
        /// The reason.
        reason: SessionEnd,
    },
    /// A handshake failed that a peer began. A handshake that this program began fails with the
    /// error of its requests, [`Error::Handshake`](crate::Error::Handshake).
    #[non_exhaustive]
    HandshakeFailed {
        /// The address of the peer, which has proved to receive there (RFC 6347 §4.2.1).
        peer: SocketAddr,
        /// The identity of a pre-shared key that the peer sent. It is not authenticated: any peer
        /// may send any identity.
        claimed: Option<Identity>,
        /// The reason.
        reason: HandshakeFailure,
    },
}

/// A DTLS session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Number of the session among those of this client or server, with all its sockets and
    /// workers, from 1.
    pub id: u64,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// The local address, if the socket has several and the session uses one of them.
    pub local: Option<IpAddr>,
    /// Whether this program began the handshake.
    pub is_outgoing: bool,
    /// The authenticated identity of the peer, or `None` for a client without credentials. For a
    /// certificate, [`Identity::Certificate`] has the common name and the alternative names.
    pub identity: Option<Identity>,
}

/// Why an open session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionEnd {
    /// The peer sent a close_notify alert (RFC 5246 §7.2.1).
    #[error("the peer closed it")]
    CloseNotify,
    /// The peer sent this fatal alert (RFC 5246 §7.2).
    #[error("the peer ended it with alert {0}")]
    Alert(u8),
    /// The peer began another session from the same address (RFC 6347 §4.2.8), which is reported as
    /// opened next.
    #[error("the peer at this address has begun a new session")]
    Replaced,
    /// A new session needed its place:
    /// [`max_sessions`](crate::server::ServerBuilder::max_sessions),
    /// [`max_sessions_per_identity`](crate::server::ServerBuilder::max_sessions_per_identity).
    #[error("a new session needed its place")]
    Evicted,
    /// This client or server stopped.
    #[error("this endpoint stopped")]
    Stopped,
    /// An error of the session; the text is for logs.
    #[error("{0}")]
    Failed(String),
}

impl From<&Ended> for SessionEnd {
    fn from(why: &Ended) -> Self {
        match why {
            Ended::Closed => Self::Stopped,
            Ended::ByPeer => Self::CloseNotify,
            Ended::Replaced => Self::Replaced,
            Ended::Evicted => Self::Evicted,
            Ended::Failed(Failure::Alert(alert)) => Self::Alert(*alert),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Why a peer's handshake failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeFailure {
    /// The peer stopped answering, or began another handshake.
    #[error("the peer did not answer in time")]
    Timeout,
    /// The peer sent this fatal alert (RFC 5246 §7.2).
    #[error("the peer ended it with alert {0}")]
    Alert(u8),
    /// The key is not that of the identity, or the identity is unknown.
    #[error("the peer's key is not the one of its identity, or there is no such identity")]
    Key,
    /// [`psk_lookup`](crate::server::ServerBuilder::psk_lookup) did not return in time.
    #[error("the lookup of the peer's key took too long")]
    LookupTimeout,
    /// The peer's certificate is missing or not trusted; the text is for logs.
    #[error("{0}")]
    Certificate(String),
    /// There is no common cipher suite or protocol version.
    #[error("there is no cipher suite or version in common")]
    NotSupported,
    /// It was ended to make room for the handshake of another host.
    #[error("a handshake of another host needed its place")]
    Evicted,
    /// Another error; the text is for logs.
    #[error("{0}")]
    Failed(String),
}

impl From<&Failure> for HandshakeFailure {
    fn from(why: &Failure) -> Self {
        match why {
            Failure::Silence => Self::Timeout,
            Failure::Alert(alert) => Self::Alert(*alert),
            Failure::Credentials => Self::Key,
            Failure::Lookup => Self::LookupTimeout,
            Failure::Certificate(_) | Failure::NoCertificate => Self::Certificate(why.to_string()),
            Failure::Suite | Failure::Version => Self::NotSupported,
            Failure::Displaced => Self::Evicted,
            other => Self::Failed(other.to_string()),
        }
    }
}

/// The program's function. Clones share the numbers of sessions.
#[derive(Clone)]
pub(crate) struct SessionObserver(Arc<Inner>);

struct Inner {
    observe: Box<dyn Fn(&SessionEvent) + Send + Sync>,
    last: AtomicU64,
}

impl SessionObserver {
    pub(crate) fn new(observe: impl Fn(&SessionEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { observe: Box::new(observe), last: AtomicU64::new(0) }))
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.0.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn report(&self, event: &SessionEvent) {
        (self.0.observe)(event);
    }
}

impl fmt::Debug for SessionObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionObserver")
    }
}
