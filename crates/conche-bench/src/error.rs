//! Why a load test has no result.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::plan::PlanError;

/// Why a load test has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be run as it is.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A request can never be sent.
    #[error("{name} cannot be sent")]
    Request {
        /// The kind of request.
        name: String,
        /// Why.
        source: conche_proto::RequestError,
    },
    /// No further source port could be had.
    #[error(
        "no source port could be opened beside {open} others: fewer endpoints or more open files (ulimit -n) may help, and lower \
         rates, since each port is good for 257 messages a second"
    )]
    NoPort {
        /// How many this thread has.
        open: usize,
        /// What the operating system says.
        source: io::Error,
    },
    /// The sockets cannot be waited for.
    #[error("the operating system refuses what a load test needs")]
    Socket(#[source] io::Error),
    /// The network reports the server unreachable, and it has not answered before.
    #[error("nobody answers at {target}: the network reports it unreachable, or no server listens on that port")]
    Refused {
        /// The server.
        target: SocketAddr,
    },
    /// There is no session with the server.
    #[error("{target}: there is no session with the server after {opened} handshakes: {why}")]
    Handshake {
        /// The server.
        target: SocketAddr,
        /// Handshakes that were done before.
        opened: u64,
        /// The server did not answer, which is no matter of keys.
        is_silent: bool,
        /// What has ended the handshake.
        why: String,
    },
    /// Nothing is answered that is protected with the keys of OSCORE.
    #[error("{target}: the first request that was protected with OSCORE has failed: {why}")]
    NotProtected {
        /// The server.
        target: SocketAddr,
        /// The server did not answer, which is no matter of keys.
        is_silent: bool,
        /// Why it has failed.
        why: String,
    },
    /// Credentials cannot be used.
    #[error(transparent)]
    Keys(#[from] conche::oscore::OpenError),
    /// What comes could be of either of two files, or there are too many for a thread.
    #[error("{file}: {source}: `conche keygen --oscore` makes pairs that differ")]
    Context {
        /// The later one of them.
        file: String,
        /// Why it cannot be used.
        source: conche_proto::oscore::InsertError,
    },
    /// How many numbers are used cannot be kept, without which none may be.
    #[error("the numbers of a security context cannot be kept")]
    Numbers(#[source] io::Error),
    /// Tokens could be guessed.
    #[error("the operating system gives no random bytes: {0}")]
    NoRandomness(String),
    /// A thread has ended before its time, which is a defect of this program.
    #[error("a thread of the load test has failed")]
    Thread,
}
