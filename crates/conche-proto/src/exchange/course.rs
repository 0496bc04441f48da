//! Outcome and statistics of an exchange.

use core::fmt;
use core::time::Duration;

#[cfg(feature = "oscore")]
use crate::codec::Code;
#[cfg(feature = "oscore")]
use crate::oscore::ProtectError;

/// Statistics of an exchange, over all its messages (RFC 7959).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Messages sent, without retransmissions: 0 if none left the queue, more than 1 for a
    /// block-wise body.
    pub messages: u32,
    /// Transmissions of all messages, including retransmissions.
    pub transmissions: u32,
    /// Time from submission to the first transmission (NSTART, pacing).
    pub queued: Duration,
    /// Time from the first transmission to the first acknowledgement or response; `None` without
    /// one.
    pub acknowledged_after: Option<Duration>,
    /// Time from the first transmission to this event.
    pub elapsed: Duration,
    /// The last timeout armed.
    pub timeout: Duration,
}

/// AbandonReason an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// All retransmissions were unanswered (RFC 7252 §4.2), or a Non-confirmable request got no
    /// response.
    TimedOut,
    /// The request was acknowledged, but no response arrived within the response timeout.
    NoResponse,
    /// The request's own deadline passed before a response arrived.
    Deadline,
    /// The request exceeded the queue lifetime and was never sent: it had no effect at the peer.
    QueueExpired,
    /// The peer responded with a Reset: it does not process such messages.
    Reset,
    /// The network reported the peer as unreachable.
    Unreachable,
    /// The response had a critical option that is unknown or malformed (RFC 7252 §5.4.1), or a
    /// block that does not continue the previous ones (RFC 7959 §2.4).
    UnacceptableResponse,
    /// The body changed during a block-wise transfer, repeatedly or where repeating the request
    /// could have another effect (RFC 7959 §2.4).
    BodyChanged,
    /// The response body exceeds [`Limits::body_bytes`](crate::Limits::body_bytes) or the rest of
    /// [`Limits::assembly_bytes`](crate::Limits::assembly_bytes), or its blocks exceed the message
    /// size.
    BodyTooLarge,
    /// The message exceeds [`Limits::message_bytes`](crate::Limits::message_bytes) and cannot be
    /// sent block-wise.
    MessageTooLarge,
    /// A protected request (OSCORE, RFC 8613) got an unprotected error. Its sender is unknown: a
    /// server that lost the security context, or an attacker on the path, who may have forwarded
    /// the request before.
    #[cfg(feature = "oscore")]
    NotAuthenticated(Code),
    /// The next message of the exchange could not be protected.
    #[cfg(feature = "oscore")]
    NotProtected(ProtectError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            #[cfg(feature = "oscore")]
            Self::NotAuthenticated(code) => return write!(f, "{code} came without the protection of the request"),
            #[cfg(feature = "oscore")]
            Self::NotProtected(error) => return write!(f, "the next message could not be protected: {error}"),
            Self::TimedOut => "no answer: all retransmissions timed out",
            Self::NoResponse => "the request was acknowledged, but no response followed",
            Self::Deadline => "the request's deadline passed without a response",
            Self::QueueExpired => "it waited too long for its turn and was never sent",
            Self::Reset => "the peer rejected the message with a Reset",
            Self::Unreachable => "the network reports the peer unreachable",
            Self::UnacceptableResponse => {
                "the response carries a critical option that is unknown or malformed, or blocks that do not fit together"
            }
            Self::BodyChanged => "the response's body changed while it was fetched block by block",
            Self::BodyTooLarge => "the response's body is larger than the limit 'body_bytes', or than what is free",
            Self::MessageTooLarge => "the message is larger than the limit 'message_bytes'",
        })
    }
}

impl core::error::Error for Failure {}

/// Identifies an exchange that this endpoint opened: a request, ping, separate response or
/// notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ExchangeId {
    /// Returns a number unique among the exchanges of this endpoint, for logs and traces.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Returns the exchange's place, for drivers that store data per exchange. It is below
    /// [`Limits::exchanges`](crate::Limits::exchanges) plus the other exchanges that the endpoint
    /// has open. The place is reused after the end of the exchange, possibly before its final event
    /// is polled.
    #[must_use]
    pub const fn place(self) -> u32 {
        self.index
    }
}
