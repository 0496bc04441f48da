//! Inputs and outputs of an endpoint.

use core::net::IpAddr;

use super::streams::{StreamEnd, Unfinished};
use crate::codec::{OwnedMessage, Token};
use crate::exchange::{Course, ExchangeId, Failure};
use crate::incoming::RequestId;
use crate::observe::{ObserverEnd, ObserverId, SubscriptionEnd, SubscriptionId};
#[cfg(feature = "oscore")]
use crate::oscore::{ContextId, Reserve};
use conche_cc::Instant;

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

/// A received datagram with its metadata.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Datagram<'a, P> {
    /// Source of the datagram.
    pub from: P,
    /// The UDP payload.
    pub bytes: &'a [u8],
    /// Local destination address, from which answers are sent (RFC 7252 §5.3.2). `None` if there is
    /// only one, or if the operating system chooses.
    pub local: Option<IpAddr>,
    /// The datagram was sent to a group of which this endpoint is a member, or broadcast (RFC 7252
    /// §8).
    pub multicast: bool,
    /// The ECN codepoint of the IP header.
    pub ecn: Ecn,
    /// The transport has validated the source address, as a DTLS handshake does. The endpoint then
    /// requires no [proof](crate::SourceValidation) of its own.
    pub validated: bool,
}

impl<'a, P> Datagram<'a, P> {
    /// Creates a unicast datagram to the only local address.
    pub const fn new(from: P, bytes: &'a [u8]) -> Self {
        Self { from, bytes, local: None, multicast: false, ecn: Ecn::NotCapable, validated: false }
    }
}

/// Explicit Congestion Notification: the field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not-ECT: congestion causes loss.
    #[default]
    NotCapable,
    /// ECT(0).
    Capable0,
    /// ECT(1) (RFC 9331: low-latency service).
    Capable1,
    /// CE: a router on the path would have dropped the datagram.
    CongestionExperienced,
}

impl Ecn {
    /// Returns the two bits of the field.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Capable1 => 0b01,
            Self::Capable0 => 0b10,
            Self::CongestionExperienced => 0b11,
        }
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

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transmit<P> {
    /// Destination of the datagram.
    pub to: P,
    /// Local address to send from: the destination address of the answered message. `None`: the
    /// operating system chooses.
    pub local: Option<IpAddr>,
    /// The ECN codepoint to send.
    pub ecn: Ecn,
    /// Length of the datagram in the buffer, in bytes.
    pub len: usize,
    /// The exchange that this datagram starts or continues: a request, ping, separate response or
    /// notification of this endpoint, including registrations that the endpoint repeats, and
    /// payloads of a Q-Block burst (RFC 9177). `None` for mere answers to a message of the peer:
    /// ACK, RST, piggybacked responses, reports about a burst.
    pub exchange: Option<ExchangeId>,
    /// 0 for an original transmission, n for the n-th retransmission. In a Q-Block burst, n for
    /// payloads sent after the n-th report of missing ones.
    pub attempt: u8,
}

impl<P> Transmit<P> {
    /// Creates an answer of `len` bytes, sent from any local address.
    pub const fn new(to: P, len: usize) -> Self {
        Self { to, local: None, ecn: Ecn::NotCapable, len, exchange: None, attempt: 0 }
    }
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
