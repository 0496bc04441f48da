//! Inputs and outputs of an endpoint.

use crate::codec::{OwnedMessage, Token};
use crate::observe::{ObserverEnd, ObserverId, SubscriptionEnd, SubscriptionId};
#[cfg(feature = "oscore")]
use crate::oscore::{ContextId, Reserve};
use crate::transport::{Course, Datagram, ExchangeId, Failure, RequestId, Transmit};
use conche_cc::Instant;
use thiserror::Error;

/// An external event for the endpoint.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a, P> {
    /// A datagram arrived.
    Datagram(Datagram<'a, P>),
    /// The network reported that a datagram could not be delivered (ICMP destination or port
    /// unreachable). Errors that only indicate congestion or size (Source Quench, Time Exceeded,
    /// Packet Too Big) must not be passed (RFC 7252 §4.2).
    Unreachable {
        /// Destination of the datagram.
        peer: P,
        /// The start of the datagram as quoted by the error. It is compared with outstanding
        /// messages, so that an off-path attacker cannot cancel exchanges with forged errors.
        /// `None` if the operating system has matched the error to a connected socket.
        quoted: Option<&'a [u8]>,
    },
}

impl<'a, P> Input<'a, P> {
    /// Creates the input for a datagram with only a source address.
    pub const fn datagram(from: P, bytes: &'a [u8]) -> Self {
        Self::Datagram(Datagram::new(from, bytes))
    }
}

/// The next action of the driver. Poll until [`Output::Wait`].
///
/// Exhaustive on purpose: a driver that ignores an output would lose a datagram or an event.
#[derive(Debug)]
pub enum Output<P> {
    /// Send the datagram at the front of the buffer.
    Transmit(Transmit<P>),
    /// Pass this event to the application.
    Event(Event<P>),
    /// Nothing to do before this time; `None`: before the next input.
    Wait(Option<Instant>),
}

/// An event for the application.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<P> {
    /// A request arrived; answer with [`Endpoint::respond`](super::Endpoint::respond). Duplicates
    /// cause no event. [`Endpoint::came_to_group`](super::Endpoint::came_to_group) returns whether
    /// it was sent to a group.
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
        course: Course,
    },
    /// A block of the response to a [streamed](crate::Request::streamed) request arrived, with the
    /// options of the response; more blocks follow.
    /// [`Endpoint::fetch_next`](super::Endpoint::fetch_next) requests the next one. All blocks are
    /// of the same body: if the body changes, the exchange fails.
    Block {
        /// The exchange that [`Endpoint::request`](super::Endpoint::request) opened.
        exchange: ExchangeId,
        /// Sender of the block.
        from: P,
        /// The block. Its Size2 option, if present, is the size of the body or an estimate (RFC
        /// 7959 §4).
        message: OwnedMessage,
        /// Statistics of the exchange so far.
        course: Course,
    },
    /// A body [supplied](crate::Rest) in parts needs more bytes, or its end. Reported once until
    /// the application supplies a part.
    Wanted {
        /// The body.
        body: Unfinished,
        /// Number of bytes needed for the next message. More may be supplied.
        bytes: usize,
    },
    /// Another block of a request body arrived that the application
    /// [streams](super::Endpoint::stream_requests). The client waits for
    /// [`Endpoint::continue_request`](super::Endpoint::continue_request) or, after the last block,
    /// for the response.
    Part {
        /// The request, as in [`Event::Request`].
        request: RequestId,
        /// The block, with the options of the request.
        message: OwnedMessage,
        /// This is the last block.
        last: bool,
    },
    /// A streamed request or response body ended early. The request no longer awaits anything.
    StreamOver {
        /// The request, as in [`Event::Request`].
        request: RequestId,
        /// The reason.
        reason: StreamEnd,
    },
    /// The peer acknowledged a message. For a request, the response comes later and the exchange
    /// continues. For a separate response or a ping (acknowledged by a RST), the exchange is over.
    Acknowledged {
        /// The exchange.
        exchange: ExchangeId,
        /// The peer.
        from: P,
        /// Statistics of the exchange so far.
        course: Course,
    },
    /// The peer rejected a Non-confirmable response with a Reset. Reported only for the most
    /// recently sent responses.
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
        /// The response. If it is a block of a larger body, the rest can be requested from its
        /// sender.
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
        course: Course,
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
    /// The newest notification is older than its Max-Age plus some seconds: the server may have
    /// lost the registration. The application should [register again](super::Endpoint::reregister)
    /// (RFC 7641 §3.3.1).
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
    /// A request with No-Response (RFC 7967) ended without a response, as requested: the peer
    /// acknowledged it, or it was Non-confirmable and may not have arrived.
    Unanswered {
        /// The exchange.
        exchange: ExchangeId,
        /// The peer.
        peer: P,
        /// Statistics of the exchange.
        course: Course,
    },
    /// The application must store a reservation of sequence numbers for a security context, and
    /// report [success](super::Endpoint::reserved) or [failure](super::Endpoint::not_reserved). An
    /// application that does not reuse the credentials after a restart stores nothing and reports
    /// success at once.
    #[cfg(feature = "oscore")]
    Reserve(Reserve),
    /// A handshake flight may be sent: its first transmission, or a retransmission of the last
    /// flight. Report it with [`Endpoint::flight_left`](super::Endpoint::flight_left).
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
        course: Course,
        /// The security context.
        #[cfg(feature = "oscore")]
        context: Option<ContextId>,
    },
}

/// A body that the application has not supplied completely yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unfinished {
    /// The body of a request sent by this endpoint.
    Request(ExchangeId),
    /// The body of the response to this request.
    Response(RequestId),
}

/// AbandonReason a body that was received or sent in parts ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamEnd {
    /// The client has not sent or requested a block for EXCHANGE_LIFETIME.
    Abandoned,
    /// The client started the body again.
    BegunAnew,
    /// There was no room for the state of a late response; the client received 5.03.
    Refused,
    /// The body has more blocks than block numbers, or no block fits into a message.
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

/// The body does not exist or needs no more data: its exchange is over, it was answered early, or
/// it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("nothing is missing of this body: its exchange is over, or all of it was supplied")]
pub struct NotWanted;
