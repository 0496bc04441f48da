//! Inputs and outputs of an endpoint.

use crate::codec::{OwnedMessage, Token};
use crate::observe::{ObserverEnd, ObserverId, SubscriptionEnd, SubscriptionId};
#[cfg(feature = "oscore")]
use crate::oscore::{ContextId, Reserve};
use crate::transport::{Datagram, ExchangeId, ExchangeStats, Failure, RequestId, Transmit};
use conche_cc::Instant;
use thiserror::Error;

/// An external event for the endpoint.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a, P> {
    /// A datagram arrived.
    Datagram(Datagram<'a, P>),
    /// The network could not deliver a datagram (ICMP destination or port unreachable). Errors that
    /// only indicate congestion or size must not be passed (RFC 7252 §4.2).
    Unreachable {
        /// Destination of the datagram.
        peer: P,
        /// The start of the datagram quoted by the error. It must match an outstanding message, so
        /// that forged errors cancel nothing. `None` if the operating system matched the error to a
        /// connected socket.
        quoted: Option<&'a [u8]>,
    },
}

impl<'a, P> Input<'a, P> {
    /// Creates the input for a datagram with only a source address.
    pub const fn datagram(from: P, bytes: &'a [u8]) -> Self {
        Self::Datagram(Datagram::new(from, bytes))
    }
}

/// The next action of the driver. Exhaustive: ignoring an output would lose a datagram or an event.
#[derive(Debug)]
pub enum Output<P> {
    /// Send the datagram at the front of the buffer.
    Transmit(Transmit<P>),
    /// Pass this event to the application.
    Event(Event<P>),
    /// Nothing to do before this time; with `None`, before the next input.
    Wait(Option<Instant>),
}

/// An event for the application.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<P> {
    /// A request arrived; answer with [`Endpoint::respond`](super::Endpoint::respond). Duplicates
    /// cause no event. [`Endpoint::is_group_request`](super::Endpoint::is_group_request) recognises group
    /// requests.
    Request {
        /// Identifies the request in answers.
        id: RequestId,
        /// Sender of the request.
        from: P,
        /// The request.
        message: OwnedMessage,
    },
    /// The response to a request arrived: the exchange is over.
    Response {
        /// The exchange that [`Endpoint::request`](super::Endpoint::request) opened.
        exchange: ExchangeId,
        /// Sender of the response.
        from: P,
        /// The response, with any code.
        message: OwnedMessage,
        /// Statistics of the exchange.
        course: ExchangeStats,
    },
    /// A block of the response to a [streamed](crate::Request::streamed) request arrived; request
    /// the next with [`Endpoint::fetch_next`](super::Endpoint::fetch_next). If the body changes,
    /// the exchange fails.
    Block {
        /// The exchange that [`Endpoint::request`](super::Endpoint::request) opened.
        exchange: ExchangeId,
        /// Sender of the block.
        from: P,
        /// The block. Size2, if present, is the size of the body or an estimate (RFC 7959 §4).
        message: OwnedMessage,
        /// Statistics of the exchange so far.
        course: ExchangeStats,
    },
    /// A body [supplied](crate::RemainingBody) in parts needs more bytes, or its end. Reported once
    /// per part.
    Wanted {
        /// The body.
        body: IncompleteBody,
        /// Bytes needed for the next message. More may be supplied.
        bytes: usize,
    },
    /// Another block of a [streamed](super::Endpoint::stream_requests) request body arrived. The
    /// client waits for [`Endpoint::continue_request`](super::Endpoint::continue_request) or, after
    /// the last block, the response.
    Part {
        /// The request, as in [`Event::Request`].
        request: RequestId,
        /// The block, with the options of the request.
        message: OwnedMessage,
        /// This is the last block.
        last: bool,
    },
    /// A streamed body ended early. The request awaits nothing.
    StreamOver {
        /// The request, as in [`Event::Request`].
        request: RequestId,
        /// The reason.
        reason: StreamEnd,
    },
    /// The peer acknowledged a message. The exchange of a request continues; that of a separate
    /// response or a ping is over.
    Acknowledged {
        /// The exchange.
        exchange: ExchangeId,
        /// The peer.
        from: P,
        /// Statistics of the exchange so far.
        course: ExchangeStats,
    },
    /// The peer rejected one of the last Non-confirmable responses with a Reset.
    Rejected {
        /// The peer.
        from: P,
        /// The token of the response and of its request.
        token: Token,
    },
    /// A response to a group request arrived; more may follow (RFC 7252 §8.2).
    GroupResponse {
        /// The exchange that [`Endpoint::request_group`](super::Endpoint::request_group) opened.
        exchange: ExchangeId,
        /// Sender of the response.
        from: P,
        /// The response. The rest of a larger body can be requested from its sender.
        message: OwnedMessage,
    },
    /// A group request is over: later responses are not reported.
    GroupOver {
        /// The exchange.
        exchange: ExchangeId,
        /// The group.
        group: P,
        /// Number of reported responses.
        responses: usize,
        /// Statistics of the exchange.
        course: ExchangeStats,
    },
    /// An observed resource has changed (RFC 7641 §3.2). Notifications are reported in order; older
    /// ones are dropped.
    Notification {
        /// The subscription that [`Endpoint::subscribe`](super::Endpoint::subscribe) opened.
        subscription: SubscriptionId,
        /// Sender of the notification.
        from: P,
        /// The new state. An error, or a response without the Observe option, is the last one.
        message: OwnedMessage,
    },
    /// The newest notification exceeds its Max-Age by some seconds: the server may have lost the
    /// registration. [Register again](super::Endpoint::reregister) (RFC 7641 §3.3.1).
    Stale {
        /// The subscription.
        subscription: SubscriptionId,
        /// The server.
        from: P,
    },
    /// A subscription ended, but not by the application.
    SubscriptionOver {
        /// The subscription.
        subscription: SubscriptionId,
        /// The server.
        from: P,
        /// The reason.
        reason: SubscriptionEnd,
        /// The security context.
        #[cfg(feature = "oscore")]
        context: Option<ContextId>,
    },
    /// An observer was removed, but not by the application.
    ObserverGone {
        /// The observer that [`Endpoint::observe`](super::Endpoint::observe) added.
        observer: ObserverId,
        /// The client.
        from: P,
        /// The observed topic.
        topic: u64,
        /// The reason.
        reason: ObserverEnd,
    },
    /// A request with No-Response (RFC 7967) ended: the peer acknowledged it, or it was
    /// Non-confirmable and may be lost.
    Unanswered {
        /// The exchange.
        exchange: ExchangeId,
        /// The peer.
        peer: P,
        /// Statistics of the exchange.
        course: ExchangeStats,
    },
    /// Store a reservation of sequence numbers for a security context, and report
    /// [success](super::Endpoint::reserved) or [failure](super::Endpoint::not_reserved). An
    /// application that does not reuse the credentials after a restart may report success at once.
    #[cfg(feature = "oscore")]
    Reserve(Reserve),
    /// A handshake flight may be sent or repeated. Report it with
    /// [`Endpoint::flight_left`](super::Endpoint::flight_left).
    Flight {
        /// The exchange that [`Endpoint::begin_handshake`](super::Endpoint::begin_handshake)
        /// opened.
        exchange: ExchangeId,
        /// Peer of the handshake.
        peer: P,
    },
    /// An exchange failed and is over.
    Failed {
        /// The exchange.
        exchange: ExchangeId,
        /// The peer.
        peer: P,
        /// The reason.
        reason: Failure,
        /// Statistics of the exchange.
        course: ExchangeStats,
        /// The security context.
        #[cfg(feature = "oscore")]
        context: Option<ContextId>,
    },
}

/// A body that is not supplied completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IncompleteBody {
    /// The body of a request sent by this endpoint.
    Request(ExchangeId),
    /// The body of the response to this request.
    Response(RequestId),
}

/// Reason why a body in parts ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamEnd {
    /// The client has not sent or requested a block for EXCHANGE_LIFETIME.
    Abandoned,
    /// The client started the body again.
    BegunAnew,
    /// No room for the state of a late response; the client received 5.03.
    Refused,
    /// The body exceeds the block numbers, or no block fits into a message.
    TooLarge,
}

impl core::fmt::Display for StreamEnd {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Abandoned => "the client has not gone on with the body for too long",
            Self::BegunAnew => "the client began the body anew",
            Self::Refused => "there was no room for its answer",
            Self::TooLarge => "the body has more blocks than can be numbered, or none fits into a message",
        })
    }
}

/// The body needs no more data: its exchange is over, it was answered early, or it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("nothing is missing of this body: its exchange is over, or all of it was supplied")]
pub struct BodyClosed;
