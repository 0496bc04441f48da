//! Events of an exchange, and a controller's answer. [`control`](crate::control) exports them.

use core::time::Duration;

use crate::time::Instant;

/// Result of [`Controller::admit`](crate::Controller::admit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Send now.
    Send,
    /// Send this Non-confirmable message now, as Confirmable.
    SendConfirmable,
    /// Ask again at this time: pacing.
    At(Instant),
    /// The window is full: ask again after the peer's next event.
    OnEvent,
}

/// A message awaiting admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Confirmable or Non-confirmable.
    pub confirmable: bool,
    /// May be sent as Confirmable, to detect a dead peer.
    pub may_confirm: bool,
    /// UDP payload plus configured overhead, in bytes.
    pub bytes: u32,
    /// The endpoint's `PROBING_RATE` (RFC 7252 §4.7, §4.8) in bytes per second; zero counts as 1.
    pub probing_rate: u32,
}

/// A peer's messages in flight and queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Other exchanges in NSTART slots.
    pub exchanges: u16,
    /// Bytes of their messages.
    pub bytes: u32,
    /// Other messages awaiting admission.
    pub queued: u16,
    /// Non-confirmable messages sent.
    pub non: NonHistory,
}

/// Non-confirmable messages sent to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonHistory {
    /// Time of the last; `None` if its response came while outstanding (RFC 7252 §4.7).
    pub last: Option<Instant>,
    /// Number since the last Confirmable message, saturating.
    pub since_confirmable: u8,
    /// Time of the first since the peer's last message, if any.
    pub unanswered_since: Option<Instant>,
    /// Bytes since the peer's last message, saturating.
    pub unanswered_bytes: u32,
}

/// A transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Time of the transmission.
    pub now: Instant,
    /// 0 for the original, n for retransmission n.
    pub attempt: u8,
    /// Sent as Confirmable.
    pub confirmable: bool,
    /// UDP payload plus overhead in bytes.
    pub bytes: u32,
    /// 32 uniform random bits for the timeout.
    pub random: u32,
    /// Other messages of this peer.
    pub load: Load,
}

/// An expired retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Time of the call, not before the deadline.
    pub now: Instant,
    /// The timer's transmission: 0 for the original.
    pub attempt: u8,
    /// Other messages of this peer.
    pub load: Load,
}

/// An exchange's first acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged<'a> {
    /// Time of arrival.
    pub now: Instant,
    /// Times of all transmissions; never empty.
    pub sent: &'a [Instant],
    /// The acknowledged transmission.
    pub copy: AckedCopy,
    /// The kind of the acknowledging message.
    pub kind: AckKind,
    /// Other messages of this peer.
    pub load: Load,
}

impl Acknowledged<'_> {
    /// Returns the number of retransmissions.
    #[must_use]
    pub fn retransmissions(&self) -> usize {
        self.sent.len().saturating_sub(1)
    }

    /// Returns the time since the original transmission.
    #[must_use]
    pub fn since_first(&self) -> Duration {
        self.sent.first().map_or(Duration::ZERO, |first| self.now - *first)
    }
}

/// The transmission that an acknowledgement answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckedCopy {
    /// This one (0: the original).
    Exact(u8),
    /// This one or a later one.
    AtLeast(u8),
    /// Any: all transmissions of a CoAP message share a message ID.
    Unknown,
}

/// The kind of acknowledging message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// An ACK with the response (RFC 7252 §5.2.1).
    Piggybacked,
    /// An Empty ACK (RFC 7252 §5.2.2), authenticated only by its message ID.
    Empty,
    /// A separate response without, or before, an ACK; no RTT sample, due to processing.
    Separate,
}

/// An exchange's end without acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned<'a> {
    /// Time of the end.
    pub now: Instant,
    /// Reason of the end.
    pub reason: AbandonReason,
    /// Times of all transmissions; never empty.
    pub sent: &'a [Instant],
    /// Other messages of this peer.
    pub load: Load,
}

/// Reason for an end without acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbandonReason {
    /// `MAX_RETRANSMIT` or `MAX_TRANSMIT_SPAN` is exhausted.
    GaveUp,
    /// Cancelled by the application.
    Cancelled,
    /// Reset by the peer.
    Reset,
    /// The network reported the peer unreachable.
    Unreachable,
}
