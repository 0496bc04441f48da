//! What comes out of [`Sessions`](super::Sessions).

use conche_proto::{Flight, Instant};

use crate::credentials::Identity;
use crate::engine::Failure;

/// Names a session, for good: no other ever has the same, whatever comes from the same address. What goes on with one of them, an exchange
/// of CoAP for example, never goes on with another (RFC 7252 §9.1).
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

/// Which end of a handshake we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We asked for it.
    Client,
    /// The peer did.
    Server,
}

/// What there is to do. Poll until it is [`Output::Wait`].
///
/// A closed set on purpose: who passed over an output would lose a datagram or an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// Send the datagram at the front of the buffer.
    Transmit {
        /// Whom to.
        to: P,
        /// Its bytes.
        len: usize,
    },
    /// A handshake is done: the session can be sent to, and is who it says.
    Established {
        /// The session.
        session: SessionId,
        /// Where it is.
        peer: P,
        /// Which end we are.
        role: Role,
        /// Who the peer has proved to be.
        identity: Identity,
    },
    /// The front of the buffer holds what the peer of an established session has sent.
    Received {
        /// Whose it is.
        session: SessionId,
        /// Its bytes.
        len: usize,
    },
    /// A session is over, or a handshake of ours. Its ID means nothing any more. Handshakes of others that fail are only counted: [`Stats`].
    Closed {
        /// The session.
        session: SessionId,
        /// Where it was.
        peer: P,
        /// Why it ended.
        why: Ended,
    },
    /// What the congestion control is to know of a handshake that [it controls](super::Sessions::connect_controlled).
    Flight {
        /// The session that there will be.
        session: SessionId,
        /// Where its server is.
        peer: P,
        /// What has happened.
        progress: Progress,
    },
    /// Nothing to do before this time, or before the next input if `None`.
    Wait(Option<Instant>),
}

/// What has happened to the flights of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// One has left, or a copy of it: the datagrams since the last time.
    Left(Flight),
    /// The answer to the last one begins to arrive. It is of this copy, and took its sender no time, as far as that is known for certain.
    Answered(Option<u8>),
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// We closed it.
    #[error("closed by us")]
    Closed,
    /// The peer closed it.
    #[error("closed by the peer")]
    ByPeer,
    /// The client at this address has begun a new session, and finished its handshake (RFC 6347 §4.2.8).
    #[error("the client at this address has begun a new session")]
    Replaced,
    /// It was silent for longest of its share, and a new one needed its place.
    #[error("a new session needed its place")]
    Evicted,
    /// It failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A session could not be begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is a handshake with this peer.
    #[error("there is a handshake with this peer already")]
    Busy,
    /// As many handshakes go on as there may.
    #[error("as many handshakes go on as there may")]
    Full,
    /// The credentials cannot be used.
    #[error(transparent)]
    Config(#[from] crate::ConfigError),
}

/// Plaintext could not be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// There is no such session, or its handshake is not done.
    #[error("there is no such session, or its handshake is not done")]
    NotOpen,
    /// It has more bytes than fit into a record: 16384 (RFC 5246 §6.2.1).
    #[error("{0} bytes: a record carries 16384")]
    TooLong(usize),
    /// The engine cannot go on. [`Output::Closed`] follows.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// What has happened so far, and what there is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Sessions that are open.
    pub sessions: usize,
    /// Handshakes that go on.
    pub handshakes: usize,
    /// Handshakes that were completed.
    pub established: u64,
    /// Handshakes that failed.
    pub failed: u64,
    /// ClientHellos that were asked for a cookie.
    pub asked: u64,
    /// ClientHellos with a valid cookie for which there was no room.
    pub refused: u64,
    /// Handshakes of peers that gave way to one of another host, or to a later one of their own.
    pub displaced: u64,
    /// Open sessions that were closed for new ones.
    pub evicted: u64,
    /// Associations that ended because the code that handles their peer's input panicked.
    pub panicked: u64,
    /// Records that were dropped before an engine saw them.
    pub dropped: u64,
}
