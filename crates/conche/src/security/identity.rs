//! [`Identity`]: who asks, as far as keys vouch for it.

use std::fmt;
#[cfg(feature = "dtls")]
use std::sync::Arc;

/// Who sent a request, as far as keys vouch for it. As an argument of a handler it lets only requests pass of which that is known;
/// others are answered with 4.01. What somebody may do is the program's affair: of one handler, or of a layer around many, which finds
/// it in [`Request::extension`](crate::server::Request::extension) ([`from_fn`](crate::server::from_fn) has an example).
///
/// A handler with this argument cannot be observed: a [`Notifier`](crate::server::Notifier) asks once for all who observe, and so for
/// nobody in particular. A layer can look at who registers.
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
    /// Who knows the pre-shared key of this identity, in a DTLS session.
    #[cfg(feature = "dtls")]
    Psk(Arc<[u8]>),
    /// Who knows the private key of this certificate (DER), for which one of the server's roots vouches, in a DTLS session.
    #[cfg(feature = "dtls")]
    Certificate(Arc<[u8]>),
    /// Who knows these OSCORE keys, through whatever the request came.
    #[cfg(feature = "oscore")]
    Oscore(crate::oscore::Identity),
    /// Who knows the private key of this credential, with which OSCORE keys were agreed on (EDHOC), through whatever the request came.
    #[cfg(feature = "edhoc")]
    Edhoc(crate::edhoc::Identity),
}

impl Identity {
    /// Whom a session is with; nobody in particular if the client has shown nothing.
    #[cfg(feature = "dtls")]
    pub(crate) fn of_session(proved: conche_dtls::Identity) -> Option<Self> {
        match proved {
            conche_dtls::Identity::Psk(identity) => Some(Self::Psk(identity.into())),
            conche_dtls::Identity::Certificate(der) => Some(Self::Certificate(der.into())),
            _ => None,
        }
    }
}

/// For logs: that of a pre-shared key as text, with what is not ASCII escaped; a certificate by its length; one of OSCORE in
/// hexadecimal digits; one of EDHOC by its subject. What somebody may do goes by the identity itself, as
/// two of different kinds may read alike.
impl fmt::Display for Identity {
    #[cfg_attr(not(any(feature = "dtls", feature = "oscore")), expect(unused_variables, reason = "there is nobody"))]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            #[cfg(feature = "dtls")]
            Self::Psk(ref identity) => write!(f, "{}", identity.escape_ascii()),
            #[cfg(feature = "dtls")]
            Self::Certificate(ref der) => write!(f, "a certificate of {} bytes", der.len()),
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
