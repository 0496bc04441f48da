//! Exchanges that this endpoint opens: requests, pings, separate responses (RFC 7252 §5.2) and notifications (RFC 7641
//! §4.2), from submission to end.
//!
//! ```text
//!   Queued ──admitted──> Departing ──left──> AwaitingAck ──Empty ACK──> AwaitingResponse ──> over
//!     ^                      ^                  │  │  │
//!     └── more to send ──────│──────────────────│──┘  └── response, RST, given up, cancelled ──> over
//!                            └──── expired ─────┘
//! ```
//!
//! A request with a body that is streamed is `Paused` between two messages, for as long as the application takes.
//!
//! An exchange is a *sender*: it yields messages one after the other and keeps its place in the peer's queue until it has
//! no more. A request yields one; a response that is superseded before it was acknowledged yields the next at once. A
//! transfer of blocks yields the next when the last was answered, and stands at the end of the queue then.
//!
//! | module | what it holds |
//! |---|---|
//! | `request` | what an application hands in |
//! | `course` | how an exchange went and ended |
//! | `table` | [`Exchanges`]: by number, message ID and token, from opening to closing |
//! | `admission` | which messages may leave: NSTART, message IDs, PROBING_RATE, the controller |
//! | `retransmission` | what the controller is told, and the timers that it gives |
//! | `handshake` | the flights of a handshake (RFC 6347 §4.2.4), in the place of messages |
//! | `transfer` | requests that take more than one message |
//! | `sets` | messages that leave many at a time and get one answer (RFC 9177) |

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

/// What an exchange is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Request,
    Ping,
    /// A separate response to a request of this group. A Non-confirmable one opens an exchange only if it has to wait.
    Response(Group),
    /// A notification for this observer (RFC 7641 §4.2).
    Notification(u32),
    /// A state comes in sets that this subscription observes (RFC 9177 §4.5): a request that has nothing to send but what asks
    /// for more.
    State(u32),
    /// A handshake of what stands below the endpoint: it has no message, but flights that somebody else writes.
    Handshake,
}

/// Where an exchange stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for admission.
    Queued,
    /// A copy waits to be polled, or for the time at which the controller lets it leave.
    Departing,
    /// A copy is on its way; for a NON request: its response is expected about now.
    AwaitingAck,
    /// No acknowledgement is due any more, but a response is.
    AwaitingResponse,
    /// The application has to take a block, or to supply one, before the next message.
    Paused,
}

/// What a message carries beside its token: what one yielded by the same sender changes.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) code: Code,
    pub(crate) body: Body,
}

/// One exchange.
#[derive(Debug)]
pub(crate) struct Exchange<C: Controller> {
    pub(crate) generation: u32,
    pub(crate) peer: u32,
    pub(crate) purpose: Purpose,
    pub(crate) state: State,
    /// When the state's own timer is due.
    pub(crate) state_until: Instant,
    /// At the head of the queue: the time to ask for admission again. While the exchange counts on
    /// its path: the time to leave that, if its timer is longer. The far future otherwise.
    pub(crate) ask_again: Instant,
    /// When the application's patience ends.
    pub(crate) deadline: Instant,
    pub(crate) content: Content,
    /// How it is protected; then the content is the outer message's.
    pub(crate) security: Security,
    /// What supersedes the content with the next copy or, if that is acknowledged first, follows it.
    pub(crate) successor: Option<Content>,
    /// The messages that follow, if it takes more than one.
    pub(crate) transfer: Option<Box<Transferring>>,
    /// A response that is a block of a larger body is fetched on.
    pub(crate) whole: bool,
    /// The application gets the response block by block.
    pub(crate) streamed: bool,
    pub(crate) token: Token,
    /// Nobody knows whether the peer understands this token.
    pub(crate) tries_token: bool,
    /// Which of our addresses it leaves from.
    pub(crate) local: Option<IpAddr>,
    /// Valid once it has been admitted.
    pub(crate) id: MessageId,
    /// It is found by that ID.
    identified: bool,
    pub(crate) confirmable: bool,
    pub(crate) may_confirm: bool,
    /// UDP payload and counted overhead.
    pub(crate) bytes: u32,
    pub(crate) holds_slot: bool,
    /// The path that it counts on until its first copy is acknowledged, or that one's timer over.
    pub(crate) path: Option<Number>,
    /// An Empty ACK came that was not believed.
    pub(crate) doubtful_ack: bool,
    pub(crate) submitted: Instant,
    /// When each copy left.
    pub(crate) sent: SmallVec<[Instant; 5]>,
    /// The timeout armed last.
    pub(crate) timeout: Option<Duration>,
    pub(crate) acknowledged: Option<Instant>,
    /// The copy of a handshake flight that the peer answered, counted from 1, if it is known.
    pub(crate) told_copy: Option<NonZeroU8>,
    pub(crate) flight: C::Flight,
    /// In its peer's queue while it waits there, and else among its peer's other exchanges.
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

    /// The copy that is acknowledged: exact if only one was sent, or if a handshake's answer shows
    /// which one. The number of a copy that has not been sent is ignored.
    pub(crate) fn acked_copy(&self) -> AckedCopy {
        let told = self.told_copy.map(|copy| copy.get() - 1).filter(|&copy| usize::from(copy) < self.sent.len());
        match told {
            _ if self.sent.len() == 1 => AckedCopy::Exact(0),
            Some(copy) => AckedCopy::Exact(copy),
            None => AckedCopy::Unknown,
        }
    }

    /// The number of the copy that was sent last: 0 for the original.
    #[inline]
    pub(crate) fn attempt(&self) -> u8 {
        u8::try_from(self.sent.len().saturating_sub(1)).unwrap_or(u8::MAX)
    }

    #[inline]
    pub(crate) fn first_sent(&self) -> Option<Instant> {
        self.sent.first().copied()
    }

    /// The time from the first copy's departure to `now`, zero if none left.
    #[inline]
    pub(crate) fn since_first(&self, now: Instant) -> Duration {
        self.first_sent().map_or(Duration::ZERO, |first| now - first)
    }

    /// It occupies no slot any more.
    #[inline]
    fn free_slot<P: PeerKey>(&mut self, peers: &mut Peers<P, C>) {
        if core::mem::take(&mut self.holds_slot) {
            peers.get_mut(self.peer).free_slot(self.bytes);
        }
        self.leave_path(peers, Fate::Unknown);
    }

    /// It does not count on its path any more.
    #[inline]
    fn leave_path<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, fate: Fate) {
        if let Some(path) = self.path.take() {
            self.ask_again = Instant::FAR_FUTURE;
            peers.leave_path(path.get(), fate);
        }
    }

    /// It left as a Confirmable message and neither an ACK nor a response has come.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.confirmable && self.acknowledged.is_none() && !self.sent.is_empty()
    }

    /// What its message says, behind its protection if it has one.
    #[inline]
    pub(crate) fn said(&self) -> (Code, &Body) {
        self.security.said().unwrap_or((self.content.code, &self.content.body))
    }

    /// The responses that its request has no use for.
    fn unwanted(&self) -> NoResponse {
        let value = self.said().1.option(OptionNumber::NO_RESPONSE);
        NoResponse::of_value(value.filter(|_| self.purpose == Purpose::Request))
    }

    /// Its request has no use for any response.
    pub(crate) fn wants_no_response(&self) -> bool {
        self.unwanted().suppresses_all()
    }

    /// It is no failure that nothing came by the time that this says: the request said that it has no use for some
    /// responses, and the peer has it, or nobody can know.
    pub(crate) fn stays_unanswered_by(&self, reason: Failure) -> bool {
        let silent = matches!(reason, Failure::NoResponse | Failure::TimedOut | Failure::Deadline);
        let arrived = self.acknowledged.is_some() || !self.confirmable && !self.sent.is_empty();
        silent && arrived && self.unwanted() != NoResponse::NOTHING
    }

    /// Its end is told: whoever opened it has its [`ExchangeId`].
    pub(crate) fn is_told(&self) -> bool {
        match self.purpose {
            Purpose::Response(_) => self.confirmable && self.transfer.is_none(),
            Purpose::State(_) => false,
            Purpose::Request | Purpose::Ping | Purpose::Notification(_) | Purpose::Handshake => true,
        }
    }

    /// The application opened it.
    fn is_asked_for(&self) -> bool {
        matches!(self.purpose, Purpose::Request | Purpose::Ping | Purpose::Handshake)
    }

    /// It is over when it has left: a Non-confirmable response of one message.
    pub(crate) fn is_over_when_left(&self) -> bool {
        !self.confirmable && matches!(self.purpose, Purpose::Response(_))
    }

    /// It is a notification.
    pub(crate) fn notifies(&self) -> bool {
        matches!(self.purpose, Purpose::Notification(_))
    }

    /// Returns when the controller has held back a queued message for too long. A notification that
    /// expired would be opened again at once with the same state, so it waits for EXCHANGE_LIFETIME
    /// at least.
    fn pause_ends(&self, times: &Times) -> Instant {
        let longest = match self.notifies() {
            true => times.longest_pause.max(times.exchange_lifetime),
            false => times.longest_pause,
        };
        self.submitted + longest
    }

    /// It asks whether an observer is still there, by an Empty message (RFC 7252 §4.3).
    pub(crate) fn pings_observer(&self) -> bool {
        self.notifies() && self.content.code == Code::EMPTY
    }

    /// The token of its message, which an Empty one does not have.
    pub(crate) fn token_sent(&self) -> &Token {
        if self.content.code == Code::EMPTY { &Token::EMPTY } else { &self.token }
    }

    /// It is known when to ask again whether it may leave.
    pub(crate) fn asks_again(&self) -> bool {
        self.ask_again < Instant::FAR_FUTURE
    }

    /// When its timer is due next. A queued exchange whose turn comes at a known time waits for
    /// that instead of its queue's lifetime.
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

    /// How the message went that was sent last.
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
