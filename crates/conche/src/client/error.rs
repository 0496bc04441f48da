//! Why a request has no response.

use std::io;
use std::net::SocketAddr;

use conche_proto::codec::{BuildError, Code};
use conche_proto::{Course, Failure, RequestError};
use thiserror::Error;

use crate::driver::ExchangeError;
use crate::settings::ConfigError;
use crate::uri::{Host, Uri, UriError};

/// Why a request has no response. A response with an error code is no such error, unless
/// [`Response::successful`](super::Response::successful) makes it one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The URI is malformed or of another scheme.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The host's name could not be resolved.
    #[error("the host {host:?} cannot be resolved")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver says.
        source: io::Error,
    },
    /// The host's name has no address.
    #[error("the host {host:?} has no address")]
    NoAddress {
        /// The name.
        host: String,
    },
    /// The settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No socket could be opened.
    #[error("no socket could be opened")]
    Socket(#[source] io::Error),
    /// The request's options are not legal.
    #[error("the request is not legal")]
    Request(#[from] BuildError),
    /// The request was not accepted, since it is too large or a queue is full.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// Requests come faster than the client takes them in.
    #[error("too many requests at once: wait for some to end")]
    Busy,
    /// The exchange failed.
    #[error("{peer}: {failure}{}", told(course))]
    Failed {
        /// Whom it was with.
        peer: SocketAddr,
        /// Why.
        failure: Failure,
        /// How it went.
        course: Course,
    },
    /// The task that drives the socket has ended, with its runtime.
    #[error("the client's task has ended: does its runtime still run?")]
    Stopped,
    /// A response with an error code, made an error by [`Response::successful`](super::Response::successful).
    #[error("the server answers {code:?}{}", diagnostic.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Response {
        /// Its code.
        code: Code,
        /// Its diagnostic payload (RFC 7252 §5.5.2).
        diagnostic: Option<String>,
    },
}

/// What of the course explains a failure.
fn told(course: &Course) -> String {
    match course.transmissions {
        0 => String::new(),
        1 => format!(" (sent once, waited {:.1?})", course.elapsed),
        copies => format!(" (sent {copies} times within {:.1?})", course.elapsed),
    }
}

impl Error {
    /// No answer came, or the network says that none will.
    #[must_use]
    pub fn is_timeout_or_unreachable(&self) -> bool {
        match self {
            Self::Resolve { .. } | Self::NoAddress { .. } => true,
            Self::Failed { failure, .. } => matches!(
                failure,
                Failure::TimedOut
                    | Failure::NoResponse
                    | Failure::Deadline
                    | Failure::QueueExpired
                    | Failure::Unreachable
            ),
            _ => false,
        }
    }

    pub(super) fn exchange(peer: SocketAddr, error: ExchangeError) -> Self {
        match error {
            ExchangeError::Busy => Self::Busy,
            ExchangeError::Refused(refusal) => Self::Refused(refusal),
            ExchangeError::Failed { failure, course } => Self::Failed { peer, failure, course },
            ExchangeError::Stopped => Self::Stopped,
        }
    }

    pub(super) fn no_address(uri: &Uri) -> Self {
        let host = match uri.host() {
            Host::Address(address) => address.to_string(),
            Host::Scoped { address, zone } => format!("{address}%{zone}"),
            Host::Name(name) => name.clone(),
        };
        Self::NoAddress { host }
    }

    /// The request certainly had no effect at this address, so that the host's next address may be tried. After a
    /// retransmission an earlier copy may have had one.
    pub(super) fn is_worth_another_address(&self) -> bool {
        matches!(
            self,
            Self::Failed { failure: Failure::Unreachable, course, .. } if course.transmissions <= 1
        )
    }
}
