//! Errors of endpoint operations.

use thiserror::Error;

/// The input was refused, because outputs wait. Poll until [`Output::Wait`](super::Output::Wait),
/// then pass it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the endpoint's outputs have not been polled: poll until it says to wait, then hand the input in again")]
pub struct OutputsPending;

/// Reason why a request or ping is refused; temporary if [`is_busy`](RequestError::is_busy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The code is not a method.
    #[error("{0} is not a method: a request's code is 0.01 to 0.31")]
    NotAMethod(crate::codec::Code),
    /// The message exceeds [`Limits::message_bytes`](crate::Limits::message_bytes), even in blocks.
    #[error("the message takes {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Size of the message.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The payload exceeds [`Limits::body_bytes`](crate::Limits::body_bytes).
    #[error("the body takes {bytes} bytes, the limit body_bytes is {limit}")]
    BodyTooLarge {
        /// Size of the payload.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The start of a body with a [rest](crate::RemainingBody) does not exceed the first block, or
    /// no block fits into a message.
    #[error(
        "the beginning of the body has {given} bytes: {least} are enough, unless options leave no room for a block"
    )]
    TooShort {
        /// Given size in bytes.
        given: usize,
        /// Sufficient size for the largest blocks.
        least: usize,
    },
    /// [`Limits::queue_per_peer`](crate::Limits::queue_per_peer) is reached.
    #[error("{limit} messages wait for this peer already: wait for some to end, or raise queue_per_peer")]
    QueueFull {
        /// The limit.
        limit: usize,
    },
    /// [`Limits::queue`](crate::Limits::queue) is reached.
    #[error("{limit} requests wait for admission already: wait for some to end, or raise the limit 'queue'")]
    QueuesFull {
        /// The limit.
        limit: usize,
    },
    /// [`Limits::exchanges`](crate::Limits::exchanges) is reached.
    #[error("{limit} exchanges are open already: wait for some to end, or raise the limit 'exchanges'")]
    TooManyExchanges {
        /// The limit.
        limit: usize,
    },
    /// The peer table is full of peers in use.
    #[error("{limit} peers were used lately: wait for some to become idle, or raise the limit 'peers'")]
    PeersFull {
        /// The limit.
        limit: usize,
    },
    /// The requested token is in use toward this peer (RFC 7252 §5.3.1).
    #[error("another request to this peer has this token: wait for its end, or let the endpoint choose one")]
    TokenInUse,
    /// A group request cannot be Confirmable (RFC 7252 §8.1).
    #[error("a request to a group cannot be Confirmable: send it as Non-confirmable")]
    ConfirmableToGroup,
    /// A group GET has no ETag: each member has its own representations (RFC 7252 §8.2.1).
    #[error("a GET to a group cannot have an ETag: leave the option out")]
    ETagToGroup,
    /// All message IDs for group requests were used recently.
    #[error("{limit} requests to groups were sent in the last minutes: wait for their message IDs to be free")]
    GroupsBusy {
        /// Number of these message IDs.
        limit: usize,
    },
    /// Only GET and FETCH can be observed (RFC 7641 §2, RFC 8132 §2.4).
    #[error("{0} cannot be observed: a subscription is a GET or FETCH")]
    NotObservable(crate::codec::Code),
    /// [`Limits::subscriptions`](crate::Limits::subscriptions) is reached.
    #[error("{limit} subscriptions are open already: end some, or raise the limit 'subscriptions'")]
    TooManySubscriptions {
        /// The limit.
        limit: usize,
    },
    /// The subscription is over.
    #[error("the subscription is over: subscribe anew")]
    NotSubscribed,
    /// The request cannot be protected with its context.
    #[cfg(feature = "oscore")]
    #[error("the request cannot be protected: {0}")]
    NotProtected(crate::oscore::ProtectError),
    /// A group request cannot be protected: two ends share an OSCORE context (RFC 8613 §1).
    #[cfg(feature = "oscore")]
    #[error("a request to a group cannot be protected with OSCORE")]
    ProtectedToGroup,
    /// All tokens of the configured length, below 4 bytes, are in use toward this peer.
    #[error("all tokens of {length} bytes are in use toward this peer: raise token_length")]
    NoToken {
        /// [`EndpointConfig::token_length`](crate::EndpointConfig::token_length).
        length: usize,
    },
}

impl RequestError {
    /// Returns `true` if the same request may be accepted later.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        #[cfg(feature = "oscore")]
        if let Self::NotProtected(error) = self {
            return *error == crate::oscore::ProtectError::NotReserved;
        }
        matches!(
            self,
            Self::QueueFull { .. }
                | Self::QueuesFull { .. }
                | Self::TooManyExchanges { .. }
                | Self::PeersFull { .. }
                | Self::TooManySubscriptions { .. }
                | Self::NoToken { .. }
                | Self::GroupsBusy { .. }
        )
    }
}

/// Reason why a response is refused. Never a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RespondError {
    /// The request was answered, ignored, or refused with 5.03 because the peer table was full.
    #[error("the request is not waiting for a response: it was answered, ignored or refused before")]
    NotPending,
    /// The code is not a response code.
    #[error("{0} is not a response code: its class must be 2, 4 or 5")]
    NotAResponse(crate::codec::Code),
    /// A response to a group request cannot be streamed: the client requests the rest by unicast
    /// (RFC 7959 §2.8).
    #[error("the request came to a group: its response has to be whole")]
    ToGroup,
    /// The group of sources has used its share of [`Limits::transfers`](crate::Limits::transfers),
    /// or the peer [`Limits::transfers_per_peer`](crate::Limits::transfers_per_peer).
    #[error("too many bodies go in parts: {limit} are allowed in all, of one peer transfers_per_peer")]
    TooManyStreams {
        /// The limit over all peers.
        limit: usize,
    },
    /// The payload exceeds [`Limits::body_bytes`](crate::Limits::body_bytes). The request still
    /// awaits a response.
    #[error("the response's body takes {bytes} bytes, the limit body_bytes is {limit}")]
    BodyTooLarge {
        /// Size of the payload.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The message exceeds [`Limits::message_bytes`](crate::Limits::message_bytes), even in blocks.
    /// The request still awaits a response.
    #[error("the response takes {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Size of the message.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// Reason why a notification is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// The code is not a response code.
    #[error("{0} is not a response code: its class must be 2, 4 or 5")]
    NotAResponse(crate::codec::Code),
    /// The body exceeds [`Limits::body_bytes`](crate::Limits::body_bytes).
    #[error("the notification's body has {bytes} bytes, the limit is {limit}")]
    BodyTooLarge {
        /// Size of the body.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// No room in [`Limits::state_bytes`](crate::Limits::state_bytes). An error as the last
    /// notification can still be sent.
    #[error("the states that are kept for observers take too many bytes: the limit state_bytes is {limit}")]
    StatesFull {
        /// The limit.
        limit: usize,
    },
    /// The longest accepted token, Observe and OSCORE leave no room for a block in
    /// [`Limits::message_bytes`](crate::Limits::message_bytes).
    #[error("the notification takes {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Size of the message.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// Reason why a message cannot be superseded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SupersedeError {
    /// The exchange is not that of an outstanding separate response.
    #[error("the exchange is not that of a response on its way: it is over, or a request's")]
    NotOutstanding,
    /// The new message is not a legal response.
    #[error(transparent)]
    Refused(#[from] RespondError),
}
