//! What goes into an endpoint and what comes out of it.

use core::net::IpAddr;

use super::streams::{StreamEnd, Unfinished};
use crate::codec::{OwnedMessage, Token};
use crate::exchange::{Course, ExchangeId, Failure};
use crate::incoming::RequestId;
use crate::observe::{ObserverEnd, ObserverId, SubscriptionEnd, SubscriptionId};
#[cfg(feature = "oscore")]
use crate::oscore::{ContextId, Reserve};
use conche_cc::Instant;

/// Something that happened outside and that the endpoint must know.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a, P> {
    /// A datagram arrived.
    Datagram(Datagram<'a, P>),
    /// The network says that a datagram of ours could not be delivered (ICMP destination or port unreachable). An error
    /// that only hints at congestion or size (Source Quench, Time Exceeded, Packet Too Big) must not be passed
    /// (RFC 7252 §4.2).
    Unreachable {
        /// Whom that datagram was for.
        peer: P,
        /// The beginning of our own datagram as the error quotes it. It is compared with what is outstanding, so that
        /// an off-path attacker cannot cancel with a forged error. `None` if the operating system vouches for the error
        /// by having matched it to a connected socket.
        quoted: Option<&'a [u8]>,
    },
}

impl<'a, P> Input<'a, P> {
    /// A datagram of which no more is known than whom it came from.
    pub const fn datagram(from: P, bytes: &'a [u8]) -> Self {
        Self::Datagram(Datagram::new(from, bytes))
    }
}

/// A datagram that arrived, and what its driver knows of it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Datagram<'a, P> {
    /// Whom it came from.
    pub from: P,
    /// Its UDP payload.
    pub bytes: &'a [u8],
    /// Which of our own addresses it was sent to: what answers it leaves from there (RFC 7252 §5.3.2). `None` where there
    /// is only one, or the operating system shall choose.
    pub local: Option<IpAddr>,
    /// It was sent to a group of which we are a member, or to all (RFC 7252 §8).
    pub multicast: bool,
    /// The codepoint that it arrived with.
    pub ecn: Ecn,
    /// The transport has validated the source address, as a DTLS handshake does. The endpoint then
    /// asks for no [proof](crate::SourceValidation) of its own.
    pub validated: bool,
}

impl<'a, P> Datagram<'a, P> {
    /// A unicast datagram to our only address.
    pub const fn new(from: P, bytes: &'a [u8]) -> Self {
        Self { from, bytes, local: None, multicast: false, ecn: Ecn::NotCapable, validated: false }
    }
}

/// Explicit congestion notification: the field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not-ECT: congestion shows as loss.
    #[default]
    NotCapable,
    /// ECT(0).
    Capable0,
    /// ECT(1) (RFC 9331: low latency service).
    Capable1,
    /// CE: a router on the way would have dropped the datagram.
    CongestionExperienced,
}

impl Ecn {
    /// The two bits of the field.
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

/// What the endpoint wants next. Poll until it answers [`Output::Wait`].
///
/// A closed set on purpose: a driver that passed over an output would lose a datagram or an event.
#[derive(Debug)]
pub enum Output<P> {
    /// Send the datagram that has been written to the front of the buffer.
    Transmit(Transmit<P>),
    /// Tell the application.
    Event(Event<P>),
    /// Nothing to do before this time, or before the next input if `None`.
    Wait(Option<Instant>),
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transmit<P> {
    /// Whom to.
    pub to: P,
    /// Which of our addresses it must leave from: the one that the message it answers was sent to. `None`: whichever the
    /// operating system chooses.
    pub local: Option<IpAddr>,
    /// The codepoint to send it with.
    pub ecn: Ecn,
    /// How many bytes of the buffer it takes.
    pub len: usize,
    /// The exchange that it opens or repeats: a request, ping, separate response or notification of ours, registrations that the
    /// endpoint itself repeats and payloads of a body in sets (RFC 9177) included. `None` for what only answers a message of
    /// the peer: ACK, RST, piggybacked response, what is said of a set.
    pub exchange: Option<ExchangeId>,
    /// 0 for an original transmission, n for the n-th retransmission; of a set, for what is sent after its n-th answer that
    /// some of it is missing.
    pub attempt: u8,
}

impl<P> Transmit<P> {
    /// A datagram of so many bytes that answers something, and leaves from whichever address.
    pub const fn new(to: P, len: usize) -> Self {
        Self { to, local: None, ecn: Ecn::NotCapable, len, exchange: None, attempt: 0 }
    }
}

/// Something that the application must know.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<P> {
    /// A request arrived; answer with [`Endpoint::respond`](super::Endpoint::respond). Duplicates do not come here.
    /// [`Endpoint::came_to_group`](super::Endpoint::came_to_group) tells whether others were asked as well.
    Request {
        /// What the answer names.
        id: RequestId,
        /// Whom it came from.
        from: P,
        /// The request.
        message: OwnedMessage,
    },
    /// The response to a request arrived: that exchange is over.
    Response {
        /// The exchange that [`Endpoint::request`](super::Endpoint::request) opened.
        exchange: ExchangeId,
        /// Whom it came from.
        from: P,
        /// The response, whatever its code.
        message: OwnedMessage,
        /// How the exchange went.
        course: Course,
    },
    /// A block of the response to a [streamed](crate::Request::streamed) request arrived, with the options of the response; more
    /// follow. The next one is asked for when [`Endpoint::fetch_next`](super::Endpoint::fetch_next) says so. No block is of
    /// another body than those before: when it changes, the exchange fails.
    Block {
        /// The exchange that [`Endpoint::request`](super::Endpoint::request) opened.
        exchange: ExchangeId,
        /// Whom it came from.
        from: P,
        /// The block. Its Size2, if it has one, says how large the body will be, or about (RFC 7959 §4).
        message: OwnedMessage,
        /// How the exchange went so far.
        course: Course,
    },
    /// A body that is [supplied](crate::Rest) in parts goes on with so many bytes, or with its end. Told once until something
    /// is supplied.
    Wanted {
        /// Whose body it is.
        body: Unfinished,
        /// How many bytes are missing of what leaves next. More may be supplied.
        bytes: usize,
    },
    /// Another block of a request's body arrived that the application
    /// [wanted](super::Endpoint::stream_requests) as it comes. The client waits for
    /// [`Endpoint::continue_request`](super::Endpoint::continue_request) or, with the last block, for the response.
    Part {
        /// The request, as [`Event::Request`] named it.
        request: RequestId,
        /// The block, with the options of the request.
        message: OwnedMessage,
        /// It is the last one.
        last: bool,
    },
    /// A body that came, or left, in parts is over before its end. The request is not waiting for anything any more.
    StreamOver {
        /// The request, as [`Event::Request`] named it.
        request: RequestId,
        /// Why.
        reason: StreamEnd,
    },
    /// The peer acknowledged a message of ours. For a request: it has the request, the response comes later and the
    /// exchange goes on. For a separate response or a ping (where the "acknowledgement" is a RST): the exchange is over.
    Acknowledged {
        /// The exchange.
        exchange: ExchangeId,
        /// The peer.
        from: P,
        /// How the exchange went so far.
        course: Course,
    },
    /// The peer rejected a Non-confirmable response with a Reset: it has no use for it. Told only if it was one of the last
    /// that left.
    Rejected {
        /// The peer.
        from: P,
        /// The token of the response, and of the request that it answered.
        token: Token,
    },
    /// A response to a request to a group arrived; there may be more (RFC 7252 §8.2).
    GroupResponse {
        /// What [`Endpoint::request_group`](super::Endpoint::request_group) opened.
        exchange: ExchangeId,
        /// Whom it came from.
        from: P,
        /// The response. If it is a block of a larger body, the rest can be asked of its sender.
        message: OwnedMessage,
    },
    /// A request to a group is over: what still comes is not told.
    GroupOver {
        /// The exchange.
        exchange: ExchangeId,
        /// The group.
        group: P,
        /// How many responses were told.
        responses: usize,
        /// How the exchange went.
        course: Course,
    },
    /// What is observed has changed (RFC 7641 §3.2). No notification is older than one that was told before.
    Notification {
        /// What [`Endpoint::subscribe`](super::Endpoint::subscribe) named.
        subscription: SubscriptionId,
        /// Whom it came from.
        from: P,
        /// The new state. An error, or a response without the Observe option, is the last one.
        message: OwnedMessage,
    },
    /// What is known of something observed is older than its Max-Age, and some seconds more: the server may have
    /// forgotten the registration. Time to [register again](super::Endpoint::reregister) (RFC 7641 §3.3.1).
    Stale {
        /// The subscription.
        subscription: SubscriptionId,
        /// The server.
        from: P,
    },
    /// A subscription is over, not by the application's will.
    SubscriptionOver {
        /// The subscription.
        subscription: SubscriptionId,
        /// The server.
        from: P,
        /// Why.
        reason: SubscriptionEnd,
        /// What it was protected with.
        #[cfg(feature = "oscore")]
        context: Option<ContextId>,
    },
    /// An observer is gone, not by the application's will.
    ObserverGone {
        /// What [`Endpoint::observe`](super::Endpoint::observe) named.
        observer: ObserverId,
        /// The client.
        from: P,
        /// What it observed.
        topic: u64,
        /// Why.
        reason: ObserverEnd,
    },
    /// A request with No-Response (RFC 7967) is over, and no response came, as it asked: the peer acknowledged it, or it
    /// was Non-confirmable and nobody knows whether it arrived.
    Unanswered {
        /// The exchange.
        exchange: ExchangeId,
        /// The peer.
        peer: P,
        /// How the exchange went.
        course: Course,
    },
    /// The application is to store how far the sequence numbers of a security context are used, and to say that it
    /// [has](super::Endpoint::reserved), or [could not](super::Endpoint::not_reserved). Who keeps nothing because the
    /// credentials are not used after a restart says so at once.
    #[cfg(feature = "oscore")]
    Reserve(Reserve),
    /// A flight of a handshake may leave: its first, or a copy of the one that left last. When it has,
    /// [`Endpoint::flight_left`](super::Endpoint::flight_left) is to be told.
    Flight {
        /// What [`Endpoint::begin_handshake`](super::Endpoint::begin_handshake) opened.
        exchange: ExchangeId,
        /// Whom the handshake is with.
        peer: P,
    },
    /// An exchange failed and is over.
    Failed {
        /// The exchange.
        exchange: ExchangeId,
        /// The peer.
        peer: P,
        /// Why.
        reason: Failure,
        /// How the exchange went.
        course: Course,
        /// What it was protected with.
        #[cfg(feature = "oscore")]
        context: Option<ContextId>,
    },
}
