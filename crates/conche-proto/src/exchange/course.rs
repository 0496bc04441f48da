//! How an exchange went and ended.

use core::fmt;
use core::time::Duration;

#[cfg(feature = "oscore")]
use crate::codec::Code;
#[cfg(feature = "oscore")]
use crate::oscore::ProtectError;

/// How an exchange went, all its messages together if it took more than one (RFC 7959).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Messages sent, copies not counted: 0 if it never left the queue, more than 1 if a body went in blocks.
    pub messages: u32,
    /// Copies sent of all messages, the originals included.
    pub transmissions: u32,
    /// How long it waited for admission (NSTART, pacing) before the first copy left.
    pub queued: Duration,
    /// From the first copy's departure to the first acknowledgement or response; `None` if none came.
    pub acknowledged_after: Option<Duration>,
    /// From the first copy's departure to this event.
    pub elapsed: Duration,
    /// The timeout that was armed last.
    pub timeout: Duration,
}

/// Why an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// All retransmissions went unanswered (RFC 7252 §4.2), or a NON request got no response.
    TimedOut,
    /// The request was acknowledged, but no response followed within the response timeout.
    NoResponse,
    /// The request's own deadline passed before a response came.
    Deadline,
    /// It waited longer than the queue lifetime and was never sent: certainly no effect at the peer.
    QueueExpired,
    /// The peer answered with a Reset message: it does not process such messages.
    Reset,
    /// The network reported the peer unreachable.
    Unreachable,
    /// The response carried a critical option that is unknown or malformed (RFC 7252 §5.4.1), or a block that does not
    /// follow those before it (RFC 7959 §2.4).
    UnacceptableResponse,
    /// The body changed while it was fetched block by block, again and again, or where asking again could have another
    /// effect (RFC 7959 §2.4).
    BodyChanged,
    /// The response's body is larger than [`Limits::body_bytes`](crate::Limits::body_bytes) or than what is left of
    /// [`Limits::assembly_bytes`](crate::Limits::assembly_bytes), or its blocks do not fit into messages.
    BodyTooLarge,
    /// The message does not fit into [`Limits::message_bytes`](crate::Limits::message_bytes), and
    /// cannot go in blocks.
    MessageTooLarge,
    /// The request was protected (OSCORE, RFC 8613), and an error came that was not. Nobody knows who sent it: a server that
    /// has lost the security context, or someone on the path, who may have let the request through before.
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

/// Names an exchange that this endpoint opened: a request, a ping, a separate response or a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ExchangeId {
    /// A number that no other exchange of this endpoint has, for logs and traces.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Its place among the exchanges that are not over, for drivers that keep something for each: below
    /// [`Limits::exchanges`](crate::Limits::exchanges) and what else the endpoint has open. It is taken
    /// again once the exchange is over, which may be before its end is polled.
    #[must_use]
    pub const fn place(self) -> u32 {
        self.index
    }
}
