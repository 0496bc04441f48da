//! Errors of load tests.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::plan::PlanError;

/// Why a load test has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A request can never be sent.
    #[error("{name} cannot be sent")]
    Request {
        /// Kind of request.
        name: String,
        /// Cause.
        source: conche_proto::RequestError,
    },
    /// No further source port is available.
    #[error(
        "no source port could be opened beside {open} others: fewer endpoints or more open files (ulimit -n) may help, and lower \
         rates, since each port is good for 257 messages a second"
    )]
    NoPort {
        /// Ports open in this thread.
        open: usize,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Polling the sockets fails.
    #[error("the operating system refuses what a load test needs")]
    Socket(#[source] io::Error),
    /// The server is reported unreachable before any response.
    #[error("no response from {target}: the network reports it unreachable, or no server listens on that port")]
    Refused {
        /// Server.
        target: SocketAddr,
    },
    /// No session could be opened.
    #[error("{target}: there is no session with the server after {opened} handshakes: {why}")]
    Handshake {
        /// Server.
        target: SocketAddr,
        /// Handshakes completed before.
        opened: u64,
        /// Whether the server was silent, rather than rejecting the credentials.
        is_silent: bool,
        /// Cause.
        why: String,
    },
    /// The server answers no OSCORE request.
    #[error("{target}: the first request that was protected with OSCORE has failed: {why}")]
    NotProtected {
        /// Server.
        target: SocketAddr,
        /// Whether the server was silent, rather than rejecting the credentials.
        is_silent: bool,
        /// Cause.
        why: String,
    },
    /// Credentials cannot be used.
    #[error(transparent)]
    Keys(#[from] conche::oscore::OpenError),
    /// Two files are indistinguishable at the receiver, or a thread has too many.
    #[error("{file}: {source}: `conche keygen --oscore` makes pairs that differ")]
    Context {
        /// The later file.
        file: String,
        /// Cause.
        source: conche_proto::oscore::InsertError,
    },
    /// Sequence numbers cannot be stored before their use.
    #[error("the numbers of a security context cannot be kept")]
    Numbers(#[source] io::Error),
    /// No random numbers for unpredictable tokens.
    #[error("the operating system gives no random bytes: {0}")]
    NoRandomness(String),
    /// A thread panicked: a defect of this program.
    #[error("a thread of the load test has failed")]
    Thread,
}
