//! Outputs and errors of [`Sessions`](super::Sessions).

use conche_proto::{Flight, Instant};

use super::table::Place;
use crate::credentials::Identity;
use crate::engine::Failure;

/// A session's ID, never reused, so that an exchange never continues in another session (RFC 7252
/// §9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    pub(super) place: Place,
    pub(super) number: u64,
}

impl core::fmt::Display for SessionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.number)
    }
}

/// The local role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The local side began the handshake.
    Client,
    /// The peer began the handshake.
    Server,
}

/// An output; poll until [`Output::Wait`].
///
/// Deliberately exhaustive: an ignored output would lose data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// Send the datagram in the buffer.
    Transmit {
        /// The destination.
        to: P,
        /// Length in bytes.
        len: usize,
    },
    /// The handshake is complete; the session can be sent to.
    Established {
        /// The session.
        session: SessionId,
        /// The peer's address.
        peer: P,
        /// The local role.
        role: Role,
        /// The peer's authenticated identity.
        identity: Identity,
    },
    /// The buffer holds plaintext of an established session.
    Received {
        /// The session.
        session: SessionId,
        /// Length in bytes.
        len: usize,
    },
    /// A client's handshake waits for the key of this identity, which is not authenticated.
    ///
    /// Look it up and call [`provide_key`](super::Sessions::provide_key), within
    /// [`Config::lookup_timeout`](crate::Config::lookup_timeout). Each handshake wants one key, so
    /// the limits of handshakes are those of lookups. [`HandshakeFailed`](Self::HandshakeFailed) or
    /// [`Closed`](Self::Closed) makes a lookup superfluous.
    KeyWanted {
        /// The session to be established.
        session: SessionId,
        /// The client's address.
        peer: P,
        /// The identity: at most 1024 bytes.
        identity: Vec<u8>,
    },
    /// A session, or a local handshake, has ended; its ID is invalid.
    Closed {
        /// The session.
        session: SessionId,
        /// The peer's address.
        peer: P,
        /// The reason.
        why: Ended,
    },
    /// A peer's handshake has failed.
    HandshakeFailed {
        /// Its session, which was never established; `None` if the first message was refused.
        session: Option<SessionId>,
        /// The peer's address.
        peer: P,
        /// The identity of a pre-shared key that the client sent, not authenticated.
        identity: Option<Vec<u8>>,
        /// The reason.
        why: Failure,
    },
    /// Progress of a handshake under [external congestion
    /// control](super::Sessions::connect_controlled).
    Flight {
        /// The session to be established.
        session: SessionId,
        /// The server's address.
        peer: P,
        /// The progress.
        progress: Progress,
    },
    /// Nothing to do before this time, or the next input if `None`.
    Wait(Option<Instant>),
}

/// Progress of a handshake's flights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A flight or retransmission was sent: the datagrams since the last such report.
    Left(Flight),
    /// The answer to the last flight begins, with the transmission answered, if certain and without
    /// delay.
    Answered(Option<u8>),
}

/// Why a session has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// Closed locally.
    #[error("closed by us")]
    Closed,
    /// Closed by the peer.
    #[error("closed by the peer")]
    ByPeer,
    /// The client has completed a new session's handshake (RFC 6347 §4.2.8).
    #[error("the client at this address has begun a new session")]
    Replaced,
    /// Idlest of its share when a new session needed room.
    #[error("a new session needed its place")]
    Evicted,
    /// The session failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Why a session could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A handshake with this peer is in progress.
    #[error("there is a handshake with this peer already")]
    Busy,
    /// The maximum number of handshakes is in progress.
    #[error("too many handshakes are in progress")]
    Full,
    /// The credentials are invalid.
    #[error(transparent)]
    Config(#[from] crate::ConfigError),
}

/// Why plaintext could not be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The session does not exist, or its handshake is not complete.
    #[error("there is no such session, or its handshake is not done")]
    NotOpen,
    /// The plaintext exceeds a record's 16384 bytes (RFC 5246 §6.2.1).
    #[error("{0} bytes: a record carries 16384")]
    TooLong(usize),
    /// The engine failed; [`Output::Closed`] follows.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Counters, and numbers of sessions and handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Open sessions.
    pub sessions: usize,
    /// Handshakes in progress.
    pub handshakes: usize,
    /// Completed handshakes.
    pub established: u64,
    /// Failed handshakes.
    pub failed: u64,
    /// ClientHellos answered by a request for a cookie.
    pub cookie_requests: u64,
    /// ClientHellos with a valid cookie, refused for lack of room.
    pub refused: u64,
    /// Peers' handshakes displaced by another host's, or by their own later one.
    pub displaced: u64,
    /// Open sessions closed to make room.
    pub evicted: u64,
    /// Associations ended by a panic on their peer's input.
    pub panicked: u64,
    /// Records dropped before an engine.
    pub dropped: u64,
}
