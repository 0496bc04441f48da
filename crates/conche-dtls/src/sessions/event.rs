//! Outputs and errors of [`Sessions`](super::Sessions).

use conche_proto::{Flight, Instant};

use crate::credentials::Identity;
use crate::engine::Failure;

/// A session's ID, which is never reused for the same address or any other. An exchange that began
/// in one session therefore never continues in another (RFC 7252 §9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    pub(super) place: u32,
    pub(super) number: u64,
}

impl core::fmt::Display for SessionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.number)
    }
}

/// The local role in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The local side began the handshake.
    Client,
    /// The peer began the handshake.
    Server,
}

/// An output. Poll until it is [`Output::Wait`].
///
/// Deliberately exhaustive: ignoring an output would lose a datagram or an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// Send the datagram at the front of the buffer.
    Transmit {
        /// The destination.
        to: P,
        /// Length in bytes.
        len: usize,
    },
    /// The handshake is complete, and the session can be sent to.
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
    /// The front of the buffer holds plaintext from the peer of an established session.
    Received {
        /// The session.
        session: SessionId,
        /// Length in bytes.
        len: usize,
    },
    /// A session, or a handshake begun locally, has ended. Its ID is invalid from now on. Failed
    /// handshakes of peers are only counted, in [`Stats`].
    Closed {
        /// The session.
        session: SessionId,
        /// The peer's address.
        peer: P,
        /// The reason.
        why: Ended,
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
    /// Nothing to do before this time, or before the next input if `None`.
    Wait(Option<Instant>),
}

/// Progress of the flights of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A flight, or a retransmission, was sent: the datagrams since the last such report.
    Left(Flight),
    /// The answer to the last flight begins to arrive. The number is the transmission that it
    /// answers, if that is certain and the peer answered without delay.
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
    /// The client at this address has completed a handshake for a new session (RFC 6347 §4.2.8).
    #[error("the client at this address has begun a new session")]
    Replaced,
    /// A new session needed its place, and it was the idlest of its share.
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
    #[error("as many handshakes go on as there may")]
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
    /// The plaintext exceeds 16384 bytes, the maximum of a record (RFC 5246 §6.2.1).
    #[error("{0} bytes: a record carries 16384")]
    TooLong(usize),
    /// The engine failed. [`Output::Closed`] follows.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Counters, and numbers of open sessions and handshakes.
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
    /// ClientHellos with a valid cookie that were refused for lack of room.
    pub refused: u64,
    /// Handshakes of peers displaced by one of another host, or by a later one of their own.
    pub displaced: u64,
    /// Open sessions closed to make room for new ones.
    pub evicted: u64,
    /// Associations that ended because the code that handles their peer's input panicked.
    pub panicked: u64,
    /// Records dropped before they reached an engine.
    pub dropped: u64,
}
