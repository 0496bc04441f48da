//! [`enum@Error`]: why a request has no response.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use conche_proto::codec::{BuildError, Code, Escaped};
use conche_proto::{ExchangeStats, Failure, RequestError};
use thiserror::Error;

use crate::body::BoxError;
use crate::driver::{Busy, ExchangeError};
use crate::error::{ConfigError, StartError};
#[cfg(feature = "oscore")]
use crate::oscore::KeysError;
use crate::security::{HandshakeError, PeerMismatch};
use crate::socket::is_unreachable;
use crate::uri::UriError;

/// Why a request has no response. Responses with an error code become errors only through
/// [`Response::successful`](super::Response::successful).
///
/// `Display` includes the cause, which [`source`](std::error::Error::source) therefore does not
/// return, as for the other errors of this crate. [`Body`](Self::Body) does: its cause is the
/// application's.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The URI is malformed or has another scheme.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The host's name cannot be resolved.
    #[error("the host {host:?} cannot be resolved: {cause}")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's error.
        cause: io::Error,
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
    #[error("no socket could be opened: {0}")]
    Socket(io::Error),
    /// The client's only socket does not reach this IP version.
    #[error("{peer} cannot be reached from a socket that is bound to {local}: the IP versions differ")]
    IpVersion {
        /// The destination.
        peer: SocketAddr,
        /// The address that the socket is bound to.
        local: SocketAddr,
    },
    /// The address is multicast: all members would respond (RFC 7252 §8).
    #[error("{peer} is a multicast address: use multicast(), which returns the responses of all members")]
    Group {
        /// The address.
        peer: SocketAddr,
    },
    /// The address is not multicast.
    #[error("{peer} is not a multicast address")]
    NoGroup {
        /// The address.
        peer: SocketAddr,
    },
    /// A `coaps` URI names a group (RFC 7252 §9).
    #[error("DTLS does not support multicast: use a coap URI")]
    SecuredGroup,
    /// The EDHOC key exchange with the server failed.
    #[cfg(feature = "edhoc")]
    #[error("{peer}: no keys were agreed on: {cause}")]
    Edhoc {
        /// The server.
        peer: SocketAddr,
        /// The cause.
        cause: crate::edhoc::Error,
    },
    /// The request's options are invalid.
    #[error("the request is not legal: {0}")]
    Request(BuildError),
    /// The payload value cannot be encoded.
    #[error("the payload cannot be written as {format}: {problem}")]
    Encode {
        /// JSON or CBOR.
        format: &'static str,
        /// The encoder's message.
        problem: String,
    },
    /// The response's payload cannot be decoded.
    #[error("the payload cannot be read as {format}: {}", Escaped(problem))]
    Decode {
        /// JSON or CBOR.
        format: &'static str,
        /// The decoder's message.
        problem: String,
    },
    /// The source of the request's payload failed, which aborted the transfer.
    #[error("the payload of the request could not be read to its end: {0}")]
    Body(#[source] BoxError),
    /// A limit is reached; the request was not accepted.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The request does not fit into a message even with the smallest block, or its token is in
    /// use.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The request's payload exceeds the client's limit. Nothing was sent.
    #[error(
        "the payload has {bytes} bytes, which is more than the limit of {limit}: raise body_limit of the \
         ClientBuilder, or of the ServerBuilder for Server::client"
    )]
    RequestTooLarge {
        /// Size of the payload in bytes.
        bytes: usize,
        /// The limit in bytes: [`body_limit`](super::ClientBuilder::body_limit).
        limit: usize,
    },
    /// The response's payload exceeds the client's limit, or the room beside other responses.
    #[error(
        "{peer}: the payload of the response has more than the limit of {limit} bytes, or finds no room beside others: \
         raise body_limit of the ClientBuilder, or of the ServerBuilder for Server::client"
    )]
    ResponseTooLarge {
        /// The server.
        peer: SocketAddr,
        /// The limit in bytes: [`body_limit`](super::ClientBuilder::body_limit).
        limit: usize,
        /// The exchange's transmissions and timing.
        course: ExchangeStats,
    },
    /// The operating system permanently refuses to send: no route, a firewall, or an invalid
    /// address.
    #[error("{peer}: the operating system does not send the request{}: {cause}", again(*transmissions))]
    Send {
        /// The destination.
        peer: SocketAddr,
        /// The operating system's error.
        cause: io::Error,
        /// Transmissions before the error.
        transmissions: u16,
    },
    /// No session for a `coaps` request, which was not sent.
    #[error("{peer}: there is no session with the server: {cause}")]
    Handshake {
        /// The server.
        peer: SocketAddr,
        /// The cause.
        cause: HandshakeError,
    },
    /// The peer is not the one of [`expect_peer`](super::RequestBuilder::expect_peer). Nothing was
    /// sent.
    #[error("{peer}: {mismatch}")]
    UnexpectedPeer {
        /// The destination.
        peer: SocketAddr,
        /// The identities.
        mismatch: PeerMismatch,
    },
    /// The keys for the request cannot be used. Nothing was sent.
    #[cfg(feature = "oscore")]
    #[error("{peer}: the request cannot be protected: {cause}")]
    Keys {
        /// The destination.
        peer: SocketAddr,
        /// The cause.
        cause: KeysError,
    },
    /// The exchange failed.
    #[error("{peer}: {}", FailureText(*failure, course))]
    Failed {
        /// The peer.
        peer: SocketAddr,
        /// The cause.
        failure: Failure,
        /// Transmissions and timing; without a transmission the request was not received.
        course: ExchangeStats,
    },
    /// The DTLS session ended before the response. The server may have executed the request: see
    /// [`security`](crate::security).
    #[error("{peer}: the session ended before the response{}", maybe_executed(course))]
    SessionOver {
        /// The server.
        peer: SocketAddr,
        /// As for [`Failed`](Self::Failed).
        course: ExchangeStats,
    },
    /// No response to a request with No-Response (RFC 7967), a success for
    /// [`send_without_response`](super::RequestBuilder::send_without_response).
    #[error("{peer}: no response came, as the request asked with No-Response")]
    Unanswered {
        /// The server.
        peer: SocketAddr,
        /// Transmissions and timing; acknowledged if the request was Confirmable.
        course: ExchangeStats,
    },
    /// The task that drives the socket ended: by [`Client::close`](super::Client::close), or with its
    /// server or runtime.
    #[error("the client's task has ended: was the client closed, or has its server or its runtime ended?")]
    Stopped,
    /// A response with an error code, from [`Response::successful`](super::Response::successful).
    #[error("{peer}: the server answers {code}{}", diagnostic_text(diagnostic.as_deref()))]
    Response {
        /// The server.
        peer: SocketAddr,
        /// Its code.
        code: Code,
        /// Its diagnostic payload (RFC 7252 §5.5.2) unescaped, or problem details (RFC 9290). The
        /// error's `Display` suits logs and terminals.
        diagnostic: Option<String>,
    },
}

struct FailureText<'a>(Failure, &'a ExchangeStats);

impl fmt::Display for FailureText<'_> {
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
                let limit = if *failure == Failure::Deadline { "its timeout" } else { "queue_lifetime" };
                write!(
                    f,
                    "it was never sent: {limit} passed after {:.1?} in the queue, where it waited for earlier requests to \
                     this destination (transmission.nstart limits those in flight) or for room among those to all \
                     destinations (Limits::queue)",
                    course.queued
                )
            }
            0 => write!(f, "{failure}"),
            1 => write!(f, "{failure} (sent once, waited {:.1?})", course.elapsed),
            copies => write!(f, "{failure} (sent {copies} times within {:.1?})", course.elapsed),
        }
    }
}

fn diagnostic_text(diagnostic: Option<&str>) -> String {
    diagnostic.map(|text| format!(": {}", Escaped(text))).unwrap_or_default()
}

fn maybe_executed(course: &ExchangeStats) -> &'static str {
    if course.transmissions == 0 { "" } else { ", and the server may have executed the request" }
}

fn again(transmissions: u16) -> &'static str {
    if transmissions == 0 { "" } else { " again" }
}

impl Error {
    /// Whether no response arrived or will.
    #[must_use]
    pub fn is_timeout_or_unreachable(&self) -> bool {
        match self {
            Self::Resolve { .. } | Self::NoAddress { .. } | Self::SessionOver { .. } => true,
            Self::Send { cause, .. } => is_unreachable(cause),
            Self::Handshake { cause, .. } => cause.is_timeout_or_unreachable(),
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

    /// Whether the request may have had an effect, which makes repeating it unsafe.
    #[must_use]
    pub fn was_sent(&self) -> bool {
        match self {
            Self::Failed { course, .. } | Self::SessionOver { course, .. } | Self::ResponseTooLarge { course, .. } => {
                course.transmissions > 0
            }
            Self::Send { transmissions, .. } => *transmissions > 0,
            Self::Response { .. } | Self::Decode { .. } | Self::Unanswered { .. } | Self::Stopped => true,
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
            ExchangeError::Send { source, transmissions } => Self::Send { peer, cause: source, transmissions },
            ExchangeError::Unprotected => Self::Handshake { peer, cause: HandshakeError::unprotected() },
            ExchangeError::UnexpectedPeer(mismatch) => Self::UnexpectedPeer { peer, mismatch },
            #[cfg(feature = "oscore")]
            ExchangeError::Keys(cause) => Self::Keys { peer, cause },
            ExchangeError::Stopped => Self::Stopped,
        }
    }

    /// Whether the request certainly had no effect at this address, so the host's next one may be
    /// tried: no earlier transmission can have arrived.
    pub(super) fn is_worth_another_address(&self) -> bool {
        match self {
            Self::Failed { failure: Failure::Unreachable, course, .. } => course.transmissions <= 1,
            Self::SessionOver { course, .. } => course.transmissions == 0,
            Self::Send { transmissions, .. } => *transmissions == 0,
            Self::IpVersion { .. } => true,
            Self::Handshake { cause, .. } => cause.is_timeout_or_unreachable(),
            _ => false,
        }
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self::Request(error)
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
    fn an_error_prints_its_cause_once() {
        let peer = SocketAddr::from(([192, 0, 2, 1], 5684));
        let error = Error::Handshake { peer, cause: HandshakeError::late() };
        assert_eq!(
            error.to_string(),
            "192.0.2.1:5684: there is no session with the server: the request timed out before the handshake ended"
        );
        assert!(std::error::Error::source(&error).is_none());
        let error = Error::Socket(io::Error::from_raw_os_error(24));
        assert!(error.to_string().contains("no socket could be opened: "), "{error}");
        assert!(std::error::Error::source(&error).is_none());
    }

    #[test]
    fn control_characters_in_a_diagnostic_of_a_peer_are_escaped() {
        let text = "no\r\n\x1b]0;owned\x07\u{9b}2J\u{202e}".to_owned();
        let peer = SocketAddr::from(([192, 0, 2, 1], 5683));
        let errors = [
            Error::Response { peer, code: Code::BAD_REQUEST, diagnostic: Some(text.clone()) },
            Error::Decode { format: "JSON", problem: text },
        ];
        for error in errors {
            let shown = error.to_string();
            assert!(shown.ends_with(r": no\r\n\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}"), "{shown:?}");
        }
    }
}
