//! Why a request has no response.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use conche_proto::codec::{BuildError, Code, Escaped};
use conche_proto::{Course, Failure, RequestError};
use thiserror::Error;

use crate::body::BoxError;
use crate::driver::{Busy, ExchangeError, is_unreachable};
#[cfg(feature = "oscore")]
use crate::oscore::KeysError;
use crate::security::{HandshakeError, PeerMismatch};
use crate::settings::{ConfigError, StartError};
use crate::uri::UriError;

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
    /// The client has one socket, which does not reach addresses of this IP version.
    #[error("{peer} cannot be reached from a socket that is bound to {local}: the IP versions differ")]
    IpVersion {
        /// Whom the request is for.
        peer: SocketAddr,
        /// What the socket is bound to.
        local: SocketAddr,
    },
    /// The address is that of a group, all of whose members would answer (RFC 7252 §8).
    #[error("{peer} is a group: ask it with multicast, which tells the responses of all its members")]
    Group {
        /// The address.
        peer: SocketAddr,
    },
    /// The address is not that of a group.
    #[error("{peer} is no group: its address is none of multicast")]
    NoGroup {
        /// The address.
        peer: SocketAddr,
    },
    /// A `coaps` URI names a group, with which no session can be (RFC 7252 §9).
    #[error("a group cannot be asked over coaps: DTLS is between two")]
    SecuredGroup,
    /// No keys were agreed on with the server.
    #[cfg(feature = "edhoc")]
    #[error("{peer}: no keys were agreed on")]
    Edhoc {
        /// The server.
        peer: SocketAddr,
        /// Why.
        source: crate::edhoc::Error,
    },
    /// The request's options are not legal.
    #[error("the request is not legal")]
    Request(#[from] BuildError),
    /// The value that shall be the payload cannot be written in this format.
    #[error("the payload cannot be written as {format}: {problem}")]
    Encode {
        /// JSON or CBOR.
        format: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The payload of the response cannot be read as the value that was asked for.
    #[error("the payload cannot be read as {format}: {}", Escaped(problem))]
    Decode {
        /// JSON or CBOR.
        format: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The payload of the request could not be made to its end, so that the transfer was ended.
    #[error("the payload of the request failed on its way")]
    Body(#[source] BoxError),
    /// Something is full, so that the request was not taken in.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The request was not accepted: not even with the smallest block does it fit into a message, or its token is in use.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The payload of the request is larger than the client's limit. Nothing was sent.
    #[error(
        "the payload has {bytes} bytes, which is more than the limit of {limit}: the client's body_limit raises it"
    )]
    RequestTooLarge {
        /// How many bytes it has.
        bytes: usize,
        /// How many are allowed: [`body_limit`](super::ClientBuilder::body_limit).
        limit: usize,
    },
    /// The payload of the response is larger than the client's limit, or there is no room beside those of other responses.
    #[error(
        "{peer}: the payload of the response has more than the limit of {limit} bytes, or finds no room beside others: \
         the client's body_limit raises both"
    )]
    ResponseTooLarge {
        /// Whose response it is.
        peer: SocketAddr,
        /// How many bytes are allowed: [`body_limit`](super::ClientBuilder::body_limit).
        limit: usize,
        /// How the exchange went.
        course: Course,
    },
    /// The operating system would not send the request, and would not send it later either: there is no route, a firewall
    /// forbids it, or the address is one of a kind that nothing is sent to.
    #[error("{peer}: the operating system does not send the request{}", again(*transmissions))]
    Send {
        /// Whom it was for.
        peer: SocketAddr,
        /// What the operating system says.
        source: io::Error,
        /// Copies that had left before.
        transmissions: u16,
    },
    /// There is no session with the server, through which alone its `coaps` resources are reached. The request was not sent.
    #[error("{peer}: there is no session with the server")]
    Handshake {
        /// Whom it was for.
        peer: SocketAddr,
        /// Why.
        source: HandshakeError,
    },
    /// The peer is another one than the request expects. It was not sent. See
    /// [`expect_peer`](super::RequestBuilder::expect_peer).
    #[error("{peer}: {mismatch}")]
    UnexpectedPeer {
        /// The address that the request was for.
        peer: SocketAddr,
        /// The identities.
        mismatch: PeerMismatch,
    },
    /// The keys that would protect the request cannot be used. It was not sent.
    #[cfg(feature = "oscore")]
    #[error("{peer}: the request cannot be protected")]
    Keys {
        /// Whom it was for.
        peer: SocketAddr,
        /// Why.
        source: KeysError,
    },
    /// The exchange failed.
    #[error("{peer}: {}", Told(*failure, course))]
    Failed {
        /// Whom it was with.
        peer: SocketAddr,
        /// Why.
        failure: Failure,
        /// How it went. Without any transmission the request was certainly not received.
        course: Course,
    },
    /// The DTLS session ended before the response, and the server may have executed the request. It
    /// recognizes duplicates only within a session. See [`security`](crate::security).
    #[error("{peer}: the session ended before the response{}", maybe_executed(course))]
    SessionOver {
        /// The server.
        peer: SocketAddr,
        /// The course of the exchange. Without any transmission the server has not executed the
        /// request.
        course: Course,
    },
    /// The request has an option No-Response (RFC 7967), and no response came, as it asked.
    /// [`send_without_response`](super::RequestBuilder::send_without_response) makes this a success.
    #[error("{peer}: no response came, as the request asked with No-Response")]
    Unanswered {
        /// Whom it was for.
        peer: SocketAddr,
        /// How it went: acknowledged if it was Confirmable.
        course: Course,
    },
    /// The task that drives the socket has ended: with its server, or with its runtime.
    #[error("the client's task has ended: does its server or its runtime still run?")]
    Stopped,
    /// A response with an error code, made an error by [`Response::successful`](super::Response::successful).
    #[error("the server answers {code:?}{}", told(diagnostic.as_deref()))]
    Response {
        /// Its code.
        code: Code,
        /// Its diagnostic payload (RFC 7252 §5.5.2), as it came, or what its problem details say (RFC 9290). Only what the error
        /// displays is fit for a log or a terminal.
        diagnostic: Option<String>,
    },
}

/// A failure, and what of the course explains it.
struct Told<'a>(Failure, &'a Course);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(failure, course) = self;
        match course.transmissions {
            copies if course.messages > 1 => {
                write!(
                    f,
                    "{failure} (block {} of the transfer, {copies} copies sent within {:.1?})",
                    course.messages, course.elapsed
                )
            }
            0 if matches!(failure, Failure::Deadline | Failure::QueueExpired) => {
                write!(f, "it was never sent: {:.1?} passed before its turn came", course.queued)
            }
            0 => write!(f, "{failure}"),
            1 => write!(f, "{failure} (sent once, waited {:.1?})", course.elapsed),
            copies => write!(f, "{failure} (sent {copies} times within {:.1?})", course.elapsed),
        }
    }
}

/// What the peer says.
fn told(diagnostic: Option<&str>) -> String {
    diagnostic.map(|text| format!(": {}", Escaped(text))).unwrap_or_default()
}

/// Whether a server may have executed a request.
fn maybe_executed(course: &Course) -> &'static str {
    if course.transmissions == 0 { "" } else { ", and the server may have executed the request" }
}

fn again(transmissions: u16) -> &'static str {
    if transmissions == 0 { "" } else { " again" }
}

impl Error {
    /// No answer came, or the network says that none will.
    #[must_use]
    pub fn is_timeout_or_unreachable(&self) -> bool {
        match self {
            Self::Resolve { .. } | Self::NoAddress { .. } | Self::SessionOver { .. } => true,
            Self::Send { source, .. } => is_unreachable(source),
            Self::Handshake { source, .. } => source.is_timeout_or_unreachable(),
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

    /// The request may have reached the server and had its effect. Without this it certainly did not, and sending it again
    /// does no harm.
    #[must_use]
    pub fn was_sent(&self) -> bool {
        match self {
            Self::Failed { course, .. } | Self::SessionOver { course, .. } | Self::ResponseTooLarge { course, .. } => {
                course.transmissions > 0
            }
            Self::Send { transmissions, .. } => *transmissions > 0,
            Self::Response { .. } | Self::Decode { .. } | Self::Unanswered { .. } | Self::Stopped => true,
            // Some of it may have been.
            Self::Body(_) => true,
            _ => false,
        }
    }

    pub(super) fn exchange(peer: SocketAddr, error: ExchangeError, body_limit: usize) -> Self {
        match error {
            ExchangeError::Busy(busy) => Self::Busy(busy),
            ExchangeError::Refused(RequestError::BodyTooLarge { bytes, limit }) => {
                Self::RequestTooLarge { bytes, limit }
            }
            ExchangeError::Refused(refusal) => Self::Refused(refusal),
            ExchangeError::Failed { failure: Failure::BodyTooLarge, course } => {
                Self::ResponseTooLarge { peer, limit: body_limit, course }
            }
            ExchangeError::Failed { failure, course } => Self::Failed { peer, failure, course },
            ExchangeError::SessionOver { course } => Self::SessionOver { peer, course },
            ExchangeError::Send { source, transmissions } => Self::Send { peer, source, transmissions },
            ExchangeError::Unprotected => Self::Handshake { peer, source: HandshakeError::unprotected() },
            ExchangeError::UnexpectedPeer(mismatch) => Self::UnexpectedPeer { peer, mismatch },
            #[cfg(feature = "oscore")]
            ExchangeError::Keys(source) => Self::Keys { peer, source },
            ExchangeError::Stopped => Self::Stopped,
        }
    }

    /// The request certainly had no effect at this address, so that the host's next address may be tried. After a
    /// retransmission an earlier copy may have had one.
    pub(super) fn is_worth_another_address(&self) -> bool {
        match self {
            Self::Failed { failure: Failure::Unreachable, course, .. } => course.transmissions <= 1,
            Self::SessionOver { course, .. } => course.transmissions == 0,
            Self::Send { transmissions, .. } => *transmissions == 0,
            Self::IpVersion { .. } => true,
            Self::Handshake { source, .. } => source.is_timeout_or_unreachable(),
            _ => false,
        }
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Config(error) => Self::Config(error),
            StartError::Socket(error) => Self::Socket(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_controls_no_terminal_and_writes_no_line_of_a_log() {
        let text = "no\r\n\x1b]0;owned\x07\u{9b}2J\u{202e}".to_owned();
        let errors = [
            Error::Response { code: Code::BAD_REQUEST, diagnostic: Some(text.clone()) },
            Error::Decode { format: "JSON", problem: text },
        ];
        for error in errors {
            let shown = error.to_string();
            assert!(shown.ends_with(r": no\r\n\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}"), "{shown:?}");
        }
    }
}
