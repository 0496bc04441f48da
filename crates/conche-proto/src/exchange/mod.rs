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
//! until the last. A request sends one. A response superseded before its acknowledgement sends the
//! next at once. A block transfer sends the next message after the answer to the last, from the end
//! of the queue.
//!
//! | module | contents |
//! |---|---|
//! | `request` | requests and responses of the application |
//! | `course` | outcome and statistics |
//! | `table` | [`Exchanges`]: by number, message ID and token, from opening to closing |
//! | `admission` | decides which messages may leave |
//! | `retransmission` | reports to the controller, and its timers |
//! | `handshake` | flights of a handshake (RFC 6347 §4.2.4) in place of messages |
//! | `transfer` | requests of more than one message |
//! | `sets` | MAX_PAYLOADS bursts with a single answer (RFC 9177) |

mod admission;
mod course;
mod handshake;
mod request;
mod retransmission;
mod sets;
mod table;
mod transfer;

pub use course::{Course, ExchangeId, Failure};
pub use handshake::Flight;
pub use request::{Reliability, Request, Response, Rest};
pub(crate) use retransmission::Next;
pub(crate) use sets::Left;
pub(crate) use table::{Exchanges, Opening, token_hash};
pub(crate) use transfer::{Kept, Transferring, Work};

use alloc::boxed::Box;
use core::net::IpAddr;
use core::num::NonZeroU8;
use core::time::Duration;

use smallvec::SmallVec;

use crate::PeerKey;
use crate::codec::{Body, Code, MessageId, NoResponse, OptionNumber, Token, Type};
use crate::config::Times;
use crate::peer::{Fate, Peers, Queue};
use crate::security::Security;
use crate::shares::Group;
use crate::store::{Linked, Links, Number};
use conche_cc::control::AckedCopy;
use conche_cc::{Controller, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Request,
    Ping,
    /// A separate response to a request of this group. A Non-confirmable response opens an exchange
    /// only if it must wait.
    Response(Group),
    /// A notification for this observer (RFC 7641 §4.2).
    Notification(u32),
    /// Reception of a Q-Block notification for this subscription (RFC 9177 §4.5): sends only
    /// requests for missing blocks.
    State(u32),
    /// A handshake of the layer below: its flights are created elsewhere.
    Handshake,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for admission.
    Queued,
    /// A transmission waits for the next poll, or for the time set by the controller.
    Departing,
    /// Sent, not acknowledged. A Non-confirmable request: its response is due.
    AwaitingAck,
    /// Acknowledged, or past the time for it; the response is missing.
    AwaitingResponse,
    /// The application must accept or supply a block before the next message.
    Paused,
}

/// The content of a message without its token; it differs between the messages of a sender.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) code: Code,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) struct Exchange<C: Controller> {
    pub(crate) generation: u32,
    pub(crate) peer: u32,
    pub(crate) purpose: Purpose,
    pub(crate) state: State,
    /// When the timer of the state fires.
    pub(crate) state_until: Instant,
    /// At the head of the queue: when to ask for admission again. While the exchange counts on its
    /// path: when to leave the path, if the exchange's own timer is longer. Otherwise the far
    /// future.
    pub(crate) ask_again: Instant,
    pub(crate) deadline: Instant,
    pub(crate) content: Content,
    /// Its protection; if protected, `content` is the outer message.
    pub(crate) security: Security,
    /// Replaces the content with the next retransmission, or follows if the content is acknowledged
    /// first.
    pub(crate) successor: Option<Content>,
    /// The remaining messages of a transfer.
    pub(crate) transfer: Option<Box<Transferring>>,
    /// Fetch the remaining blocks of a block-wise response automatically.
    pub(crate) whole: bool,
    /// The application receives the response block by block.
    pub(crate) streamed: bool,
    pub(crate) token: Token,
    /// It is unknown whether the peer supports a token of this length.
    pub(crate) tries_token: bool,
    /// The local address used.
    pub(crate) local: Option<IpAddr>,
    /// Valid after admission.
    pub(crate) id: MessageId,
    /// Registered in the index of message IDs.
    identified: bool,
    pub(crate) confirmable: bool,
    pub(crate) may_confirm: bool,
    /// UDP payload and counted overhead, in bytes.
    pub(crate) bytes: u32,
    pub(crate) holds_slot: bool,
    /// The path that the exchange counts on, until its first transmission is acknowledged or times
    /// out.
    pub(crate) path: Option<Number>,
    /// An Empty ACK arrived that was not trusted.
    pub(crate) doubtful_ack: bool,
    pub(crate) submitted: Instant,
    pub(crate) sent: SmallVec<[Instant; 5]>,
    /// The last timeout armed.
    pub(crate) timeout: Option<Duration>,
    pub(crate) acknowledged: Option<Instant>,
    /// The transmission of a handshake flight that the peer answered, counted from 1, if known.
    pub(crate) told_copy: Option<NonZeroU8>,
    pub(crate) flight: C::Flight,
    /// Links in the peer's queue during admission, otherwise in the list of the peer's other
    /// exchanges.
    of_peer: Links,
}

impl<C: Controller> Linked<Queue> for Exchange<C> {
    fn links(&mut self) -> &mut Links {
        &mut self.of_peer
    }
}

impl<C: Controller> Exchange<C> {
    pub(crate) fn id(&self, index: u32) -> ExchangeId {
        ExchangeId { index, generation: self.generation }
    }

    pub(crate) fn message_type(&self) -> Type {
        if self.confirmable { Type::Confirmable } else { Type::NonConfirmable }
    }

    /// Returns the acknowledged transmission: exact if only one was sent, or if a handshake's
    /// answer identifies it. The number of a transmission not yet sent is ignored.
    pub(crate) fn acked_copy(&self) -> AckedCopy {
        let told = self.told_copy.map(|copy| copy.get() - 1).filter(|&copy| usize::from(copy) < self.sent.len());
        match told {
            _ if self.sent.len() == 1 => AckedCopy::Exact(0),
            Some(copy) => AckedCopy::Exact(copy),
            None => AckedCopy::Unknown,
        }
    }

    /// Returns the number of the last transmission: 0 for the original.
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
    fn free_slot<P: PeerKey>(&mut self, peers: &mut Peers<P, C>) {
        if core::mem::take(&mut self.holds_slot) {
            peers.get_mut(self.peer).free_slot(self.bytes);
        }
        self.leave_path(peers, Fate::Unknown);
    }

    /// Removes the exchange from its path.
    #[inline]
    fn leave_path<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, fate: Fate) {
        if let Some(path) = self.path.take() {
            self.ask_again = Instant::FAR_FUTURE;
            peers.leave_path(path.get(), fate);
        }
    }

    /// Returns `true` if it was sent as a Confirmable message and neither acknowledged nor
    /// answered.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.confirmable && self.acknowledged.is_none() && !self.sent.is_empty()
    }

    /// Returns code and body of its message before protection.
    #[inline]
    pub(crate) fn said(&self) -> (Code, &Body) {
        self.security.said().unwrap_or((self.content.code, &self.content.body))
    }

    fn unwanted(&self) -> NoResponse {
        let value = self.said().1.option(OptionNumber::NO_RESPONSE);
        NoResponse::of_value(value.filter(|_| self.purpose == Purpose::Request))
    }

    /// Returns `true` if the request wants no response.
    pub(crate) fn wants_no_response(&self) -> bool {
        self.unwanted().suppresses_all()
    }

    /// Returns `true` if the missing response is not a failure: the request suppresses some
    /// responses, and it reached the peer or cannot be known to have.
    pub(crate) fn stays_unanswered_by(&self, reason: Failure) -> bool {
        let silent = matches!(reason, Failure::NoResponse | Failure::TimedOut | Failure::Deadline);
        let arrived = self.acknowledged.is_some() || !self.confirmable && !self.sent.is_empty();
        silent && arrived && self.unwanted() != NoResponse::NOTHING
    }

    /// Returns `true` if the end of the exchange is reported, since its [`ExchangeId`] was handed
    /// out.
    pub(crate) fn is_reportable(&self) -> bool {
        match self.purpose {
            Purpose::Response(_) => self.confirmable && self.transfer.is_none(),
            Purpose::State(_) => false,
            Purpose::Request | Purpose::Ping | Purpose::Notification(_) | Purpose::Handshake => true,
        }
    }

    /// Returns `true` if the application opened it.
    fn is_asked_for(&self) -> bool {
        matches!(self.purpose, Purpose::Request | Purpose::Ping | Purpose::Handshake)
    }

    /// Returns `true` if it ends with its transmission: a Non-confirmable response of one message.
    pub(crate) fn is_over_when_left(&self) -> bool {
        !self.confirmable && matches!(self.purpose, Purpose::Response(_))
    }

    pub(crate) fn notifies(&self) -> bool {
        matches!(self.purpose, Purpose::Notification(_))
    }

    /// Returns when the controller has delayed a queued message for too long. An expired
    /// notification would be reopened at once with the same state, so it waits at least
    /// EXCHANGE_LIFETIME.
    fn pause_ends(&self, times: &Times) -> Instant {
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

    /// Returns `true` if a time is set for the next admission attempt.
    pub(crate) fn asks_again(&self) -> bool {
        self.ask_again < Instant::FAR_FUTURE
    }

    /// Returns when its timer fires. A queued exchange with a time for its next admission attempt
    /// waits for that instead of its queue lifetime.
    #[inline]
    pub(crate) fn wake(&self) -> Instant {
        let waits_for_turn = self.state == State::Queued && self.asks_again();
        let until = if waits_for_turn { self.ask_again } else { self.state_until.min(self.ask_again) };
        until.min(self.deadline)
    }

    #[inline]
    pub(crate) fn course(&self, now: Instant) -> Course {
        match &self.transfer {
            None => self.course_of_message(now),
            Some(transfer) => transfer.course(now, self.course_of_message(now)),
        }
    }

    /// Returns the statistics of the last message.
    #[inline]
    fn course_of_message(&self, now: Instant) -> Course {
        let first = self.first_sent();
        Course {
            messages: u32::from(first.is_some()),
            transmissions: u32::try_from(self.sent.len()).unwrap_or(u32::MAX),
            queued: first.unwrap_or(now) - self.submitted,
            acknowledged_after: self.acknowledged.zip(first).map(|(acknowledged, first)| acknowledged - first),
            elapsed: self.since_first(now),
            timeout: self.timeout.unwrap_or_default(),
        }
    }
}
