//! DTLS sessions between the socket and the endpoint (RFC 7252 §9). The endpoint sees plaintext and
//! sessions as peers; the socket sees records and plaintext, which differ in the first byte (RFC
//! 7983 §7).

#[cfg(feature = "dtls")]
mod failures;
#[cfg(feature = "dtls")]
mod handshakes;
#[cfg(feature = "dtls")]
mod lookups;
#[cfg(feature = "dtls")]
mod sessions;

#[cfg(feature = "dtls")]
pub(crate) use failures::FailureReason;
#[cfg(feature = "dtls")]
pub(crate) use handshakes::SessionRequest;
#[cfg(feature = "dtls")]
pub(crate) use lookups::FoundKey;
#[cfg(feature = "dtls")]
pub(crate) use sessions::{DtlsSessions, Output, SessionInput};

use crate::address::Address;
use crate::security::{HandshakeError, PeerMismatch};

/// RFC 7983 §7.
pub(crate) fn is_record(datagram: &[u8]) -> bool {
    cfg!(feature = "dtls") && datagram.first().is_some_and(|first| (20..64).contains(first))
}

#[derive(Clone, Debug)]
pub(crate) enum OpenError {
    Handshake(HandshakeError),
    Peer(PeerMismatch),
}

impl From<HandshakeError> for OpenError {
    fn from(error: HandshakeError) -> Self {
        Self::Handshake(error)
    }
}

impl From<PeerMismatch> for OpenError {
    fn from(mismatch: PeerMismatch) -> Self {
        Self::Peer(mismatch)
    }
}

pub(crate) type SessionResult = Result<Address, OpenError>;
