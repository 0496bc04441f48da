//! What an operation on an endpoint is refused for.

use thiserror::Error;

/// Outputs wait that nobody has polled: the input was not taken. Poll until [`Output::Wait`](super::Output::Wait), then
/// hand it in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the endpoint's outputs have not been polled: poll until it says to wait, then hand the input in again")]
pub struct Undrained;

/// A request or ping is refused; with those of [`is_busy`](RequestError::is_busy), for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The code is not a request's: its class is not 0, or it is Empty.
    #[error("{0} is not a method: a request's code is 0.01 to 0.31")]
    NotAMethod(crate::codec::Code),
    /// The message is larger than [`Limits::message_bytes`](crate::Limits::message_bytes), and no block of its body fits into
    /// one either.
    #[error("the message takes {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// What it would take.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The payload is larger than [`Limits::body_bytes`](crate::Limits::body_bytes).
    #[error("the body takes {bytes} bytes, the limit body_bytes is {limit}")]
    BodyTooLarge {
        /// What was given.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// Less than the first block and a byte of what follows was given of a body whose [rest](crate::Rest) is to be supplied, or no
    /// block fits into a message.
    #[error(
        "the beginning of the body has {given} bytes: {least} are enough, unless options leave no room for a block"
    )]
    TooShort {
        /// What was given.
        given: usize,
        /// What is enough for the largest blocks.
        least: usize,
    },
    /// As many messages wait for this peer as [`Limits::queue_per_peer`](crate::Limits::queue_per_peer) allows.
    #[error("{limit} messages wait for this peer already: wait for some to end, or raise queue_per_peer")]
    QueueFull {
        /// What is allowed.
        limit: usize,
    },
    /// As many requests and pings wait for all peers as [`Limits::queue`](crate::Limits::queue) allows.
    #[error("{limit} requests wait for admission already: wait for some to end, or raise the limit 'queue'")]
    QueuesFull {
        /// What is allowed.
        limit: usize,
    },
    /// As many exchanges are open as [`Limits::exchanges`](crate::Limits::exchanges) allows.
    #[error("{limit} exchanges are open already: wait for some to end, or raise the limit 'exchanges'")]
    TooManyExchanges {
        /// What is allowed.
        limit: usize,
    },
    /// The table of peers is full, and all of them were used within the idle lifetime.
    #[error("{limit} peers were used lately: wait for some to become idle, or raise the limit 'peers'")]
    PeersFull {
        /// What is allowed.
        limit: usize,
    },
    /// The token that was asked for belongs to another request to this peer (RFC 7252 §5.3.1).
    #[error("another request to this peer has this token: wait for its end, or let the endpoint choose one")]
    TokenInUse,
    /// Many would acknowledge it, and none of them alone could (RFC 7252 §8.1).
    #[error("a request to a group cannot be Confirmable: send it as Non-confirmable")]
    ConfirmableToGroup,
    /// The members of a group have representations of their own, which an ETag does not tell apart (RFC 7252 §8.2.1).
    #[error("a GET to a group cannot have an ETag: leave the option out")]
    ETagToGroup,
    /// As many requests to groups were sent lately as there are message IDs for.
    #[error("{limit} requests to groups were sent in the last minutes: wait for their message IDs to be free")]
    GroupsBusy {
        /// How many there are.
        limit: usize,
    },
    /// Only GET and FETCH can be observed (RFC 7641 §2, RFC 8132 §2.4).
    #[error("{0} cannot be observed: a subscription is a GET or FETCH")]
    NotObservable(crate::codec::Code),
    /// As many subscriptions are open as [`Limits::subscriptions`](crate::Limits::subscriptions) allows.
    #[error("{limit} subscriptions are open already: end some, or raise the limit 'subscriptions'")]
    TooManySubscriptions {
        /// What is allowed.
        limit: usize,
    },
    /// The subscription is over.
    #[error("the subscription is over: subscribe anew")]
    NotSubscribed,
    /// The request cannot be protected with the context that it names.
    #[cfg(feature = "oscore")]
    #[error("the request cannot be protected: {0}")]
    NotProtected(crate::oscore::ProtectError),
    /// What protects a request for one server means nothing to the members of a group (RFC 8613 §1).
    #[cfg(feature = "oscore")]
    #[error("a request to a group cannot be protected with OSCORE")]
    ProtectedToGroup,
    /// Tokens are shorter than 4 bytes and all of them are in use toward this peer.
    #[error("all tokens of {length} bytes are in use toward this peer: raise token_length")]
    NoToken {
        /// [`EndpointConfig::token_length`](crate::EndpointConfig::token_length).
        length: usize,
    },
}

impl RequestError {
    /// Something is full, and the same request may be accepted later.
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

/// A response is refused. None is because a queue is full: what was admitted once is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RespondError {
    /// The request is not waiting for a response: it was answered, ignored, or refused with 5.03 when it would have had to
    /// wait and the table of peers was full.
    #[error("the request is not waiting for a response: it was answered, ignored or refused before")]
    NotPending,
    /// The code is not a response's.
    #[error("{0} is not a response code: its class must be 2, 4 or 5")]
    NotAResponse(crate::codec::Code),
    /// What answers a request to a group does not go in parts: its sender asks a member for the rest of a body (RFC 7959
    /// §2.8).
    #[error("the request came to a group: its response has to be whole")]
    ToGroup,
    /// As many bodies of this group of sources go in parts as [`Limits::transfers`](crate::Limits::transfers) allows, or of
    /// this peer as [`Limits::transfers_per_peer`](crate::Limits::transfers_per_peer) does.
    #[error("too many bodies go in parts: {limit} are allowed in all, of one peer transfers_per_peer")]
    TooManyStreams {
        /// What is allowed in all.
        limit: usize,
    },
    /// The payload is larger than [`Limits::body_bytes`](crate::Limits::body_bytes); the request still waits for another
    /// response.
    #[error("the response's body takes {bytes} bytes, the limit body_bytes is {limit}")]
    BodyTooLarge {
        /// What was given.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The message is larger than [`Limits::message_bytes`](crate::Limits::message_bytes), and no block of its body fits into
    /// one either; the request still waits for
    /// another response.
    #[error("the response takes {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// What it would take.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
}

/// A notification is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// The code is not a response's.
    #[error("{0} is not a response code: its class must be 2, 4 or 5")]
    NotAResponse(crate::codec::Code),
    /// The body has more bytes than [`Limits::body_bytes`](crate::Limits::body_bytes).
    #[error("the notification's body has {bytes} bytes, the limit is {limit}")]
    BodyTooLarge {
        /// What it has.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The states of other topics leave no room for this one in
    /// [`Limits::state_bytes`](crate::Limits::state_bytes). An error as the last notification can
    /// still be sent.
    #[error("the states that are kept for observers take too many bytes: the limit state_bytes is {limit}")]
    StatesFull {
        /// The limit.
        limit: usize,
    },
    /// The options leave no room in [`Limits::message_bytes`](crate::Limits::message_bytes) for a block of the body, beside a
    /// token of 8 bytes and the Observe option.
    #[error("the notification takes {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// What it would take.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
}

/// A message cannot be superseded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SupersedeError {
    /// The exchange is over, or it is none of a separate response.
    #[error("the exchange is not that of a response on its way: it is over, or a request's")]
    NotOutstanding,
    /// The new message is no legal response.
    #[error(transparent)]
    Refused(#[from] RespondError),
}
