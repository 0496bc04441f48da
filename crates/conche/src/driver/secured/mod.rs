//! DTLS between the socket and the endpoint (RFC 7252 §9). The endpoint sees plaintext and sessions
//! as peers, the socket sees records. Both kinds of datagram may arrive at one socket: their first
//! byte differs (RFC 7983 §7).

#[cfg(feature = "dtls")]
mod sessions;
#[cfg(feature = "dtls")]
mod waiting;

use conche_proto::{Event, Instant, Transmit};

use super::Address;
use super::socket::Arrival;
use crate::security::{HandshakeError, Identity, PeerMismatch};
#[cfg(feature = "dtls")]
pub(super) use sessions::Secured;
#[cfg(feature = "dtls")]
pub(super) use waiting::Secure;

/// What the driver asks of its DTLS sessions. The default of each function is the answer of a
/// driver without sessions, and of every driver without the feature `dtls`.
pub(super) trait SessionDriver {
    /// Takes a datagram that is a record, or that arrived where only records are accepted. Returns
    /// `false` for a datagram that the endpoint handles.
    fn take_record(&mut self, _arrival: Arrival) -> bool {
        false
    }

    /// Handles the outputs of the sessions until there are none, or until no more datagrams may
    /// leave at once.
    fn hear_sessions(&mut self) {}

    /// Sends a message through a session. The message lies where the next datagram will be
    /// written.
    fn seal(&mut self, _transmit: Transmit<Address>) {}

    /// Handles an event of a handshake. Returns `false` for other events.
    fn hear_of_handshake(&mut self, _event: &Event<Address>) -> bool {
        false
    }

    /// Has new requests use another session, after a message in this one was not acknowledged.
    /// Exchanges of this session go on.
    fn doubt_session(&mut self, _session: Address) {}

    /// Returns whether this session is open.
    fn is_open(&self, _session: Address) -> bool {
        false
    }

    /// Returns the session with this address that was opened last.
    fn session_with(&self, _at: Address) -> Option<Address> {
        None
    }

    /// Returns the identity that the peer of a session has shown.
    fn session_identity(&self, _session: Address) -> Option<Identity> {
        None
    }

    /// Returns whether messages outside a session are accepted.
    fn takes_plaintext(&self) -> bool {
        true
    }

    /// Handles an ICMP error about a record, of which `quoted` is the beginning.
    fn session_unreachable(&mut self, _peer: Address, _quoted: &[u8]) {}

    /// Returns when the sessions have something to do.
    fn sessions_due(&self) -> Option<Instant> {
        None
    }

    /// Closes all sessions and notifies their peers.
    async fn close_sessions(&mut self) {}
}

#[cfg(not(feature = "dtls"))]
impl<C: super::SharedController, S: super::Service> SessionDriver for super::Driver<C, S> {}

/// Returns whether a datagram is a DTLS record, and not a CoAP message (RFC 7983 §7).
pub(super) fn is_record(datagram: &[u8]) -> bool {
    cfg!(feature = "dtls") && datagram.first().is_some_and(|first| (20..64).contains(first))
}

/// Why a request has no session.
#[derive(Clone, Debug)]
pub(crate) enum OpenError {
    /// The handshake failed, or no credentials are configured for it.
    Handshake(HandshakeError),
    /// The session is with another peer than the request expects.
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

/// A session, or why there is none.
pub(super) type Opened = Result<Address, OpenError>;
