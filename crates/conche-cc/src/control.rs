//! The [`Controller`] trait: a controller receives events and returns limits.
//!
//! State is divided by lifetime and number:
//!
//! - The **controller** is an algorithm with its configuration, shared by all peers.
//! - Its [`Peer`](Controller::Peer) is the state of one destination, such as an estimator or a
//!   backed-off RTO.
//! - Its [`Flight`](Controller::Flight) is the state of one exchange, such as its timer, a frozen
//!   backoff factor or a delivery snapshot. It travels with the exchange, so that several exchanges
//!   with one peer (NSTART > 1) stay apart.
//!
//! The endpoint owns the rest: message IDs, retransmission counters, NSTART, queues,
//! `MAX_RETRANSMIT`, `MAX_TRANSMIT_SPAN`, and a safety envelope that bounds every controller. The
//! calls of one exchange:
//!
//! ```text
//! submitted ──> admit ──> sent(attempt 0) ──┬──> acknowledged                  (ACK or response)
//!                ^  │                       ├──> expired ──> sent(attempt 1) ──> …       (timer)
//!      again on  └──┘ At(t), OnEvent        └──> abandoned       (gave up, cancelled, RST, ICMP)
//! ```
//!
//! A Non-confirmable message has `admit` and `sent` only; the timeout that `sent` returns bounds
//! its use of an NSTART slot. ACKs, RSTs and piggybacked responses are not admitted: they answer
//! messages of the peer.

use core::fmt::Debug;
use core::time::Duration;

use crate::path_history::PathHistory;
use crate::time::Instant;

/// A congestion control algorithm with its configuration, shared by all peers that it controls.
///
/// No method has a default, so that none is forgotten. A rule for the retransmission timer alone
/// implements [`RtoRule`](crate::RtoRule) instead.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a congestion controller",
    note = "implement `RtoRule` for a rule of the retransmission timer, or `Controller` itself"
)]
pub trait Controller {
    /// State of one destination.
    type Peer: Clone + Debug;
    /// State of one exchange. `Default` is the state before the first transmission.
    type Flight: Clone + Default + Debug;

    /// Returns whether timers follow measurements of the path. RFC 7252 §4.8.1 requires this for an
    /// `ACK_TIMEOUT` below 1 s and for NSTART above 1.
    fn measures_rtt(&self) -> bool;

    /// Returns the state of a new destination.
    fn peer(&self, now: Instant) -> Self::Peer;

    /// Returns the state of a new destination, derived from the state of its path as
    /// [seen by](PathHistory::seen_by) this destination. An algorithm may ignore `history` and
    /// return [`peer`](Self::peer), or take a [first sample](PathHistory::as_first_sample).
    fn seed(&self, now: Instant, history: &PathHistory) -> Self::Peer;

    /// Returns whether `message` may leave now. Called before the first transmission. If the
    /// message has to wait, called again at the time of [`Admission::At`] and after every event of
    /// this peer.
    fn admit(&self, peer: &mut Self::Peer, now: Instant, message: &Submission, load: &Load) -> Admission;

    /// Handles a transmission. Returns the time to wait for an acknowledgement, or for the response
    /// to a Non-confirmable request.
    fn sent(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Sent) -> Duration;

    /// Handles an expired timer of a Confirmable message, once before each retransmission. Returns
    /// the earliest time of the retransmission, `event.now` for immediately. The endpoint abandons
    /// the exchange if that is after MAX_TRANSMIT_SPAN.
    fn expired(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Expired) -> Instant;

    /// Handles the first acknowledgement of an exchange, an Empty ACK or a response.
    fn acknowledged(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Acknowledged<'_>);

    /// Handles the end of an exchange without an acknowledgement.
    fn abandoned(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Abandoned<'_>);

    /// Handles an idle period in which a slot was free and no message was queued: the application,
    /// not the network, limited the rate. Called at its end, before [`admit`](Self::admit) of the
    /// next message. A client that sends again as soon as it receives is never idle.
    fn drained(&self, peer: &mut Self::Peer, now: Instant, load: &Load);

    /// Returns the initial RTO of a new exchange, before randomisation, after ageing.
    fn base(&self, peer: &mut Self::Peer, now: Instant) -> Duration;

    /// Returns the estimates of a peer for logs and metrics.
    fn snapshot(&self, peer: &Self::Peer) -> Snapshot;
}

/// A message that waits for admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Confirmable or Non-confirmable.
    pub confirmable: bool,
    /// A Non-confirmable message may be sent as Confirmable, to detect whether the peer is alive.
    pub may_confirm: bool,
    /// UDP payload plus the configured overhead, in bytes.
    pub bytes: u32,
    /// The endpoint's `PROBING_RATE` (RFC 7252 §4.7, §4.8), in bytes per second; zero counts as 1.
    pub probing_rate: u32,
}

/// Messages in flight and queued for a peer, counted by the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Other exchanges that occupy an NSTART slot.
    pub exchanges: u16,
    /// Bytes of their messages.
    pub bytes: u32,
    /// Other messages that wait for admission.
    pub queued: u16,
    /// Non-confirmable messages sent.
    pub non: NonHistory,
}

/// History of Non-confirmable messages to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonHistory {
    /// Time of the last one; `None` if its response arrived while it was outstanding (RFC 7252
    /// §4.7).
    pub last: Option<Instant>,
    /// Number sent since the last Confirmable message, saturating.
    pub since_confirmable: u8,
    /// Time of the first one since a message from the peer arrived; `None` without one.
    pub unanswered_since: Option<Instant>,
    /// Bytes sent as Non-confirmable since a message from the peer arrived, saturating.
    pub unanswered_bytes: u32,
}

/// Result of [`Controller::admit`]. Pacing returns a time, a window waits for an event: after a
/// plain refusal by a pacer, no event might follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Send now.
    Send,
    /// Send this Non-confirmable message now, as Confirmable.
    SendConfirmable,
    /// Call [`Controller::admit`] again at this time.
    At(Instant),
    /// The window is full: call [`Controller::admit`] again after the next event of this peer.
    OnEvent,
}

/// A transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Time of the transmission.
    pub now: Instant,
    /// 0 for the original transmission, n for retransmission n.
    pub attempt: u8,
    /// Sent as Confirmable.
    pub confirmable: bool,
    /// UDP payload plus overhead, in bytes.
    pub bytes: u32,
    /// 32 uniform random bits for the timeout.
    pub random: u32,
    /// Other messages of this peer.
    pub load: Load,
}

/// An expired retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Time of the call, not before the timer's deadline.
    pub now: Instant,
    /// The transmission of the timer: 0 for the original.
    pub attempt: u8,
    /// Other messages of this peer.
    pub load: Load,
}

/// The first acknowledgement of an exchange, with all transmission times.
///
/// Algorithms use different times: Karn's algorithm only their number, a weak RTT the first, others
/// the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged<'a> {
    /// Time of arrival.
    pub now: Instant,
    /// Times of all transmissions, the original first; never empty.
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

/// The transmission that an acknowledgement answers; 0 is the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckedCopy {
    /// This one: the acknowledgement identifies it, or there was only one.
    Exact(u8),
    /// This one or a later one.
    AtLeast(u8),
    /// Any: all transmissions of a CoAP message have the same message ID.
    Unknown,
}

/// The kind of message that acknowledged an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// An ACK that carries the response (RFC 7252 §5.2.1).
    Piggybacked,
    /// An Empty ACK (RFC 7252 §5.2.2), authenticated by its message ID alone.
    Empty,
    /// A separate response without, or before, an ACK. Its time includes the server's processing,
    /// so it gives no RTT sample.
    Separate,
}

/// The end of an exchange without an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned<'a> {
    /// Time of the end.
    pub now: Instant,
    /// Reason of the end.
    pub reason: AbandonReason,
    /// Times of all transmissions, the original first; never empty.
    pub sent: &'a [Instant],
    /// Other messages of this peer.
    pub load: Load,
}

/// Reason for the end of an exchange without an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbandonReason {
    /// The last timer expired: `MAX_RETRANSMIT` or `MAX_TRANSMIT_SPAN` is exhausted.
    GaveUp,
    /// Cancelled by the application.
    Cancelled,
    /// Reset by the peer.
    Reset,
    /// The network reported the peer unreachable.
    Unreachable,
}

/// Estimates of a peer; `None` if the algorithm has no such estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Initial RTO before randomisation, without ageing that may be due.
    pub rto: Duration,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Round-trip time variation.
    pub rttvar: Option<Duration>,
    /// Estimated bottleneck bandwidth, in bytes per second.
    pub bandwidth: Option<u32>,
}
