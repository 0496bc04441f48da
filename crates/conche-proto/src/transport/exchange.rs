//! Exchanges opened by this endpoint: requests, pings, separate responses (RFC 7252 §5.2) and
//! notifications (RFC 7641 §4.2), from submission to end.
//!
//! ```text
//!   Queued ──admitted──> Departing ──left──> AwaitingAck ──Empty ACK──> AwaitingResponse ──> over
//!     ^                      ^                  │  │  │
//!     └── more to send ──────│──────────────────│──┘  └── response, RST, give-up, cancel ──> over
//!                            └──── expired ─────┘
//! ```
//!
//! A request with a streamed body is `Paused` between two messages, until the application
//! continues.
//!
//! An exchange is a *sender*: it sends messages in sequence and keeps its place in the peer's queue
//! until the last. A response superseded before its acknowledgement sends the next at once. A block
//! transfer sends the next message after the answer to the last, from the end of the queue.

use alloc::boxed::Box;
use core::fmt;
use core::net::IpAddr;
use core::num::NonZeroU8;
use core::time::Duration;

use super::path::{PathIndex, TransmissionOutcome};
use super::peer::{PeerIndex, Queue};
use super::peer_table::Peers;
use super::transfer::ActiveTransfer;
use crate::PeerKey;
use crate::codec::{Body, Code, MessageId, NoResponse, OptionNumber, Token, Type};
use crate::config::Times;
#[cfg(feature = "oscore")]
use crate::oscore::ProtectError;
use crate::security::Security;
use crate::shares::Group;
use crate::store::{Compact, Linked, Links, index_type};
use conche_cc::control::AckedCopy;
use conche_cc::{Controller, Instant};
use smallvec::SmallVec;

index_type!(pub(crate) ExchangeIndex);
index_type!(pub(crate) ObserverIndex);
index_type!(pub(crate) SubscriptionIndex);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Request,
    Ping,
    /// A separate response to a request of this group. A Non-confirmable one opens an exchange only
    /// if it must wait.
    Response(Group),
    /// A notification for this observer (RFC 7641 §4.2).
    Notification(ObserverIndex),
    /// Reception of a Q-Block notification for this subscription (RFC 9177 §4.5).
    State(SubscriptionIndex),
    /// A handshake of the layer below: its flights are created elsewhere.
    Handshake,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Queued,
    /// A transmission waits for the next poll or the controller's time.
    Departing,
    /// Sent, not acknowledged. A Non-confirmable request: its response is due.
    AwaitingAck,
    AwaitingResponse,
    /// The application must accept or supply a block.
    Paused,
}

/// The content of a message, without its token.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) code: Code,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) struct Exchange<C: Controller> {
    pub(crate) generation: u32,
    pub(crate) peer: PeerIndex,
    pub(crate) purpose: Purpose,
    pub(crate) state: State,
    pub(crate) state_until: Instant,
    /// When to ask for admission again, or when to leave the path, if before `state_until`.
    /// Otherwise the far future.
    pub(crate) ask_again: Instant,
    pub(crate) deadline: Instant,
    pub(crate) content: Content,
    pub(crate) security: Security,
    /// Replaces the content with the next retransmission, or follows its acknowledgement.
    pub(crate) successor: Option<Content>,
    pub(crate) transfer: Option<Box<ActiveTransfer>>,
    /// Fetch the remaining blocks automatically.
    pub(crate) whole: bool,
    /// The application receives the response block by block.
    pub(crate) streamed: bool,
    pub(crate) token: Token,
    /// The peer may not support a token of this length.
    pub(crate) tries_token: bool,
    pub(crate) local: Option<IpAddr>,
    /// Valid after admission.
    pub(crate) id: MessageId,
    pub(super) identified: bool,
    pub(crate) confirmable: bool,
    pub(crate) may_confirm: bool,
    /// UDP payload and counted overhead, in bytes.
    pub(crate) bytes: u32,
    pub(crate) holds_slot: bool,
    pub(crate) path: Option<Compact<PathIndex>>,
    /// An Empty ACK arrived that was not trusted.
    pub(crate) doubtful_ack: bool,
    pub(crate) submitted: Instant,
    pub(crate) sent: SmallVec<[Instant; 5]>,
    /// The last timeout armed.
    pub(crate) timeout: Option<Duration>,
    pub(crate) acknowledged: Option<Instant>,
    /// The transmission of a handshake flight that the peer answered, counted from 1.
    pub(crate) acknowledged_copy: Option<NonZeroU8>,
    pub(crate) flight: C::Flight,
    /// Links in the peer's queue, or in the list of the peer's other exchanges.
    pub(super) of_peer: Links,
}

impl<C: Controller> Linked<Queue> for Exchange<C> {
    fn links(&mut self) -> &mut Links {
        &mut self.of_peer
    }
}

impl<C: Controller> Exchange<C> {
    pub(crate) fn id(&self, index: ExchangeIndex) -> ExchangeId {
        ExchangeId { index, generation: self.generation }
    }

    pub(crate) fn message_type(&self) -> Type {
        if self.confirmable { Type::Confirmable } else { Type::NonConfirmable }
    }

    /// Returns the acknowledged transmission, if it is certain.
    pub(crate) fn acked_copy(&self) -> AckedCopy {
        let told =
            self.acknowledged_copy.map(|copy| copy.get() - 1).filter(|&copy| usize::from(copy) < self.sent.len());
        match told {
            _ if self.sent.len() == 1 => AckedCopy::Exact(0),
            Some(copy) => AckedCopy::Exact(copy),
            None => AckedCopy::Unknown,
        }
    }

    #[inline]
    pub(crate) fn attempt(&self) -> u8 {
        u8::try_from(self.sent.len().saturating_sub(1)).unwrap_or(u8::MAX)
    }

    #[inline]
    pub(crate) fn first_sent(&self) -> Option<Instant> {
        self.sent.first().copied()
    }

    /// Returns the time from the first transmission to `now`; zero before it.
    #[inline]
    pub(crate) fn since_first(&self, now: Instant) -> Duration {
        self.first_sent().map_or(Duration::ZERO, |first| now - first)
    }

    #[inline]
    pub(super) fn free_slot<P: PeerKey>(&mut self, peers: &mut Peers<P, C>) {
        if core::mem::take(&mut self.holds_slot) {
            peers.get_mut(self.peer).free_slot(self.bytes);
        }
        self.leave_path(peers, TransmissionOutcome::Unknown);
    }

    #[inline]
    pub(super) fn leave_path<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, fate: TransmissionOutcome) {
        if let Some(path) = self.path.take() {
            self.ask_again = Instant::FAR_FUTURE;
            peers.leave_path(path.get(), fate);
        }
    }

    /// Returns `true` for a sent Confirmable message without acknowledgement or answer.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.confirmable && self.acknowledged.is_none() && !self.sent.is_empty()
    }

    #[inline]
    pub(crate) fn unprotected(&self) -> (Code, &Body) {
        self.security.unprotected().unwrap_or((self.content.code, &self.content.body))
    }

    fn unwanted(&self) -> NoResponse {
        let value = self.unprotected().1.option(OptionNumber::NO_RESPONSE);
        NoResponse::of_value(value.filter(|_| self.purpose == Purpose::Request))
    }

    pub(crate) fn wants_no_response(&self) -> bool {
        self.unwanted().suppresses_all()
    }

    /// Returns `true` if the missing response is not a failure: the request suppresses some
    /// responses, and may have reached the peer.
    pub(crate) fn stays_unanswered_by(&self, reason: Failure) -> bool {
        let silent = matches!(reason, Failure::NoResponse | Failure::TimedOut | Failure::Deadline);
        let arrived = self.acknowledged.is_some() || !self.confirmable && !self.sent.is_empty();
        silent && arrived && self.unwanted() != NoResponse::NOTHING
    }

    /// Returns `true` if the end of the exchange is reported.
    pub(crate) fn is_reportable(&self) -> bool {
        match self.purpose {
            Purpose::Response(_) => self.confirmable && self.transfer.is_none(),
            Purpose::State(_) => false,
            Purpose::Request | Purpose::Ping | Purpose::Notification(_) | Purpose::Handshake => true,
        }
    }

    pub(super) fn is_asked_for(&self) -> bool {
        matches!(self.purpose, Purpose::Request | Purpose::Ping | Purpose::Handshake)
    }

    /// Returns `true` for a Non-confirmable response of one message.
    pub(crate) fn is_over_when_left(&self) -> bool {
        !self.confirmable && matches!(self.purpose, Purpose::Response(_))
    }

    pub(crate) fn notifies(&self) -> bool {
        matches!(self.purpose, Purpose::Notification(_))
    }

    /// Returns when the controller has delayed a queued message for too long. A notification waits
    /// at least EXCHANGE_LIFETIME: an expired one would be reopened at once.
    pub(super) fn pause_ends(&self, times: &Times) -> Instant {
        let longest = match self.notifies() {
            true => times.longest_pause.max(times.exchange_lifetime),
            false => times.longest_pause,
        };
        self.submitted + longest
    }

    /// Returns `true` if it checks an observer with an Empty message (RFC 7252 §4.3).
    pub(crate) fn pings_observer(&self) -> bool {
        self.notifies() && self.content.code == Code::EMPTY
    }

    /// Returns the token of its message; an Empty message has none.
    pub(crate) fn token_sent(&self) -> &Token {
        if self.content.code == Code::EMPTY { &Token::EMPTY } else { &self.token }
    }

    pub(crate) fn asks_again(&self) -> bool {
        self.ask_again < Instant::FAR_FUTURE
    }

    /// Returns when its timer fires.
    #[inline]
    pub(crate) fn wake(&self) -> Instant {
        let waits_for_turn = self.state == State::Queued && self.asks_again();
        let until = if waits_for_turn { self.ask_again } else { self.state_until.min(self.ask_again) };
        until.min(self.deadline)
    }

    #[inline]
    pub(crate) fn course(&self, now: Instant) -> ExchangeStats {
        match &self.transfer {
            None => self.course_of_message(now),
            Some(transfer) => transfer.course(now, self.course_of_message(now)),
        }
    }

    #[inline]
    pub(super) fn course_of_message(&self, now: Instant) -> ExchangeStats {
        let first = self.first_sent();
        ExchangeStats {
            messages: u32::from(first.is_some()),
            transmissions: u32::try_from(self.sent.len()).unwrap_or(u32::MAX),
            queued: first.unwrap_or(now) - self.submitted,
            acknowledged_after: self.acknowledged.zip(first).map(|(acknowledged, first)| acknowledged - first),
            elapsed: self.since_first(now),
            timeout: self.timeout.unwrap_or_default(),
        }
    }
}

/// Statistics of an exchange, over all its messages (RFC 7959).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeStats {
    /// Messages sent, without retransmissions: more than 1 for a block-wise body.
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

/// Reason why an exchange failed.
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
    /// The request exceeded the queue lifetime and was never sent.
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
    /// [`Limits::assembly_bytes`](crate::Limits::assembly_bytes), or a block exceeds the message
    /// size.
    BodyTooLarge,
    /// The message exceeds [`Limits::message_bytes`](crate::Limits::message_bytes) and cannot be
    /// sent block-wise.
    MessageTooLarge,
    /// A protected request (OSCORE, RFC 8613) got an unprotected error, from a server that lost the
    /// security context or an attacker on the path, who may have forwarded the request before.
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
    pub(crate) index: ExchangeIndex,
    pub(crate) generation: u32,
}

impl ExchangeId {
    /// Returns a number unique among the exchanges of this endpoint, for logs and traces.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.index.0 as u64
    }

    /// Returns the exchange's place, for drivers that store data per exchange: below
    /// [`Limits::exchanges`](crate::Limits::exchanges) plus the endpoint's own exchanges. It is
    /// reused after the end, possibly before the final event is polled.
    #[must_use]
    pub const fn place(self) -> u32 {
        self.index.0
    }
}
