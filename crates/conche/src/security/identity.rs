//! [`Identity`]: an authenticated peer.

use std::fmt;
#[cfg(feature = "dtls")]
use std::sync::Arc;

#[cfg(feature = "dtls")]
use super::Certificate;

/// A peer authenticated by keys: the sender of a request or of a
/// [`Response`](crate::client::Response::peer_identity).
///
/// As a handler argument it admits only requests of authenticated senders; others are answered with
/// 4.01. The program authorizes the sender, in one handler or in a layer around several, which
/// reads the identity from [`Request::extension`](crate::server::Request::extension)
/// ([`from_fn`](crate::server::from_fn) has an example).
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
    /// session that this program opened, it is the identity that this program sent: the server has
    /// proved that it holds the same key.
    #[cfg(feature = "dtls")]
    Psk(Arc<[u8]>),
    /// The holder of this certificate's private key, authenticated by the trusted roots, in a DTLS
    /// session.
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

    /// Whether a DTLS session authenticates the peer, rather than each message.
    #[cfg(feature = "dtls")]
    pub(crate) fn is_of_session(&self) -> bool {
        matches!(self, Self::Psk(_) | Self::Certificate(_))
    }

    /// Returns the identity with its kind, for errors.
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

    /// Returns the peer of a session, or `None` if it is not authenticated.
    #[cfg(feature = "dtls")]
    pub(crate) fn of_session(proved: conche_dtls::Identity) -> Option<Self> {
        match proved {
            conche_dtls::Identity::Psk(identity) => Some(Self::Psk(identity.into())),
            conche_dtls::Identity::Certificate(der) => Some(Self::Certificate(Certificate::from_der(der))),
            _ => None,
        }
    }
}

/// Formats for logs: a PSK identity as text, with bytes that are not printable ASCII escaped; a
/// certificate by its subject; OSCORE keys by their ID in hexadecimal; an EDHOC credential by its
/// subject. Identities of different kinds may format alike, so compare identities, not text.
impl fmt::Display for Identity {
    #[cfg_attr(not(any(feature = "dtls", feature = "oscore")), expect(unused_variables, reason = "there is nobody"))]
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
