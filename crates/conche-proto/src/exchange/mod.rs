//! Exchanges that this endpoint opens: requests, pings and separate responses (RFC 7252 §5.2), from submission to end.
//!
//! ```text
//!   Queued ──admitted──> Departing ──left──> AwaitingAck ──Empty ACK──> AwaitingResponse ──> over
//!                            ^                  │  │
//!                            └──── expired ─────┘  └── response, RST, given up, cancelled ──> over
//! ```

mod request;

pub use request::{Reliability, Request, Response};

use core::time::Duration;

use smallvec::SmallVec;

use crate::codec::{Body, Code, MessageId, Token, Type};
use crate::endpoint::{Course, ExchangeId};
use conche_cc::{Controller, Instant};

/// What an exchange is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Request,
    Ping,
    /// A separate response, always Confirmable: a Non-confirmable one opens no exchange.
    Response,
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
}

/// One exchange.
#[derive(Debug)]
pub(crate) struct Exchange<C: Controller> {
    pub(crate) generation: u32,
    pub(crate) peer: u32,
    pub(crate) purpose: Purpose,
    pub(crate) local: Option<core::net::IpAddr>,
    pub(crate) state: State,
    /// When the state's own timer is due.
    pub(crate) state_until: Instant,
    /// When the application's patience ends.
    pub(crate) deadline: Instant,
    pub(crate) code: Code,
    pub(crate) body: Body,
    pub(crate) token: Token,
    /// Valid once it has been admitted.
    pub(crate) id: MessageId,
    pub(crate) confirmable: bool,
    pub(crate) may_confirm: bool,
    /// UDP payload and counted overhead.
    pub(crate) bytes: u32,
    pub(crate) holds_slot: bool,
    pub(crate) submitted: Instant,
    /// When each copy left.
    pub(crate) sent: SmallVec<[Instant; 5]>,
    /// The timeout armed last.
    pub(crate) timeout: Option<Duration>,
    pub(crate) acknowledged: Option<Instant>,
    pub(crate) flight: C::Flight,
}

impl<C: Controller> Exchange<C> {
    pub(crate) fn id(&self, index: u32) -> ExchangeId {
        ExchangeId { index, generation: self.generation }
    }

    pub(crate) fn message_type(&self) -> Type {
        if self.confirmable { Type::Confirmable } else { Type::NonConfirmable }
    }

    /// The number of the copy that was sent last: 0 for the original.
    pub(crate) fn attempt(&self) -> u8 {
        u8::try_from(self.sent.len().saturating_sub(1)).unwrap_or(u8::MAX)
    }

    pub(crate) fn first_sent(&self) -> Option<Instant> {
        self.sent.first().copied()
    }

    /// The time from the first copy's departure to `now`, zero if none left.
    pub(crate) fn since_first(&self, now: Instant) -> Duration {
        self.first_sent().map_or(Duration::ZERO, |first| now - first)
    }

    /// It left as a Confirmable message and neither an ACK nor a response has come.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.confirmable && self.acknowledged.is_none() && !self.sent.is_empty()
    }

    /// When its timer is due next.
    pub(crate) fn wake(&self) -> Instant {
        self.state_until.min(self.deadline)
    }

    pub(crate) fn course(&self, now: Instant) -> Course {
        let first = self.first_sent();
        Course {
            transmissions: u16::try_from(self.sent.len()).unwrap_or(u16::MAX),
            queued: first.unwrap_or(now) - self.submitted,
            acknowledged_after: self.acknowledged.zip(first).map(|(acknowledged, first)| acknowledged - first),
            elapsed: self.since_first(now),
            timeout: self.timeout.unwrap_or_default(),
        }
    }
}
