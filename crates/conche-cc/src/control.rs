//! The [`Controller`] trait: a controller is *told facts and asked for limits*.
//!
//! Three things are kept apart, because they live for different times and there are different numbers of them:
//!
//! - the **controller** itself is an algorithm with its configuration; there is one, shared by all peers;
//! - its [`Peer`](Controller::Peer) is what is remembered for one destination (an estimator, a backed-off RTO);
//! - its [`Flight`](Controller::Flight) is what one exchange must remember between its own events (the timer series, a
//!   frozen backoff factor, a delivery snapshot). It travels with the exchange, so that NSTART > 1 mixes nothing up.
//!
//! The endpoint that drives a controller owns everything else: message IDs, retransmission counters, NSTART, queues,
//! `MAX_RETRANSMIT`, `MAX_TRANSMIT_SPAN` and a safety envelope that holds whatever a controller answers. The life of one
//! exchange, in calls:
//!
//! ```text
//!  submitted ──> admit ──> sent(attempt 0) ──┬──> acknowledged                    (an ACK or a response came)
//!                 ^  │                       ├──> expired ──> sent(attempt 1) ──> …   (its timer ran out)
//!      asked again└──┘ At(t), OnEvent        └──> abandoned                       (gave up, cancelled, RST, ICMP)
//! ```
//!
//! A Non-confirmable message knows admission and departure only: the timeout that `sent` answers says how long it occupies
//! an NSTART slot. ACKs, RSTs and piggybacked responses are never asked for admission: they answer what the peer sent.

use core::fmt::Debug;
use core::time::Duration;

use crate::group::Group;
use crate::time::Instant;

/// A congestion control algorithm with its configuration, shared by all peers that it controls.
///
/// Every method must be written: an algorithm that has nothing to do for an event says so.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a congestion controller",
    note = "implement `RtoRule` for a rule of the retransmission timer, or `Controller` itself"
)]
pub trait Controller {
    /// What is remembered for each destination.
    type Peer: Clone + Debug;
    /// What one exchange remembers between its events; `Default` is the state before its first transmission.
    type Flight: Clone + Default + Debug;

    /// Timers follow measurements of the path. RFC 7252 §4.8.1 lets only such a mechanism have an `ACK_TIMEOUT` under
    /// 1 s, or NSTART above 1.
    fn measures_rtt(&self) -> bool;

    /// The state for a destination of which nothing is known yet.
    fn peer(&self, now: Instant) -> Self::Peer;

    /// The state for a destination that has none of its own, from the state of its path as this
    /// destination [sees](Group::seen_by) it. An algorithm that does not use it returns the same as
    /// [`peer`](Self::peer); one with estimators of its own can take a [first
    /// sample](Group::as_first_sample).
    fn seed(&self, now: Instant, group: &Group) -> Self::Peer;

    /// May `message` leave now? Asked before its first transmission, and again when the answer was not a permission:
    /// at the time of [`Admission::At`], and after every event of this peer.
    fn admit(&self, peer: &mut Self::Peer, now: Instant, message: &Submission, load: &Load) -> Admission;

    /// A copy of a message left. The answer is how long to wait for its acknowledgement (for a NON request: for its
    /// response) before the timer expires.
    fn sent(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Sent) -> Duration;

    /// The timer of a Confirmable message ran out and the endpoint is about to retransmit it. Told once for each
    /// retransmission; the answer is the earliest time at which the copy may leave (`event.now` for "at once"). One that
    /// falls behind MAX_TRANSMIT_SPAN does not leave: then the exchange is abandoned.
    fn expired(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Expired) -> Instant;

    /// The first acknowledgement of an exchange arrived, as an Empty ACK or with a response.
    fn acknowledged(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Acknowledged<'_>);

    /// An exchange ended without an acknowledgement.
    fn abandoned(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Abandoned<'_>);

    /// Nothing was queued for this peer for a while although a slot was free: the application, not the network, set the
    /// pace. Told when the pause is over, before the message that ends it is asked about: a closed loop that sends again
    /// at once never paused.
    fn drained(&self, peer: &mut Self::Peer, now: Instant, load: &Load);

    /// The initial RTO that a new exchange would use now, before dithering. Applies ageing that is due.
    fn base(&self, peer: &mut Self::Peer, now: Instant) -> Duration;

    /// What can be shown of this peer in logs and metrics.
    fn snapshot(&self, peer: &Self::Peer) -> Snapshot;
}

/// A message that waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The message is Confirmable; otherwise Non-confirmable.
    pub confirmable: bool,
    /// A Non-confirmable message may be sent as Confirmable instead, to learn whether the peer is still there.
    pub may_confirm: bool,
    /// UDP payload plus the overhead that the endpoint is configured to count, in bytes.
    pub bytes: u32,
    /// `PROBING_RATE` as the endpoint is configured (RFC 7252 §4.7, §4.8), in bytes a second; zero counts as 1.
    pub probing_rate: u32,
}

/// What is on its way to a peer, counted by the endpoint so that no controller can leak a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Exchanges that occupy an NSTART slot, without the one that the call is about.
    pub exchanges: u16,
    /// The bytes of those exchanges' messages.
    pub bytes: u32,
    /// Messages that wait for admission, without the one that the call is about.
    pub queued: u16,
    /// What Non-confirmable messages have been sent.
    pub non: NonHistory,
}

/// The Non-confirmable messages sent to a peer so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonHistory {
    /// When the last one left; `None` if its response arrived while it was outstanding (RFC 7252
    /// §4.7).
    pub last: Option<Instant>,
    /// How many left since the last Confirmable message, saturating.
    pub since_confirmable: u8,
    /// When the first one left after the peer was last heard; `None` while none is unanswered.
    pub unanswered_since: Option<Instant>,
    /// The bytes sent as Non-confirmable since the peer was last heard, saturating.
    pub unanswered_bytes: u32,
}

/// The answer to [`Controller::admit`]. A window ("wait for an event") and pacing ("wait until then") are different
/// answers: a pacer that only said "no" would never be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Send it now.
    Send,
    /// Send this Non-confirmable message now, but as a Confirmable one.
    SendConfirmable,
    /// Ask again at this time.
    At(Instant),
    /// The window is full: ask again after the next event of this peer.
    OnEvent,
}

/// A copy of a message left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When it left.
    pub now: Instant,
    /// 0 for the original transmission, n for the n-th retransmission.
    pub attempt: u8,
    /// The message left as Confirmable.
    pub confirmable: bool,
    /// UDP payload plus counted overhead, in bytes.
    pub bytes: u32,
    /// 32 uniform random bits, for dithering.
    pub random: u32,
    /// What else is on its way.
    pub load: Load,
}

/// A retransmission timer ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// When the endpoint noticed; not before the timer's time.
    pub now: Instant,
    /// Which copy's timer it was: 0 for the original transmission.
    pub attempt: u8,
    /// What else is on its way.
    pub load: Load,
}

/// The first acknowledgement of an exchange arrived.
///
/// It carries all transmission times, since algorithms need different ones: Karn's rule only looks whether there is
/// more than one, a weak RTT counts from the first, others from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged<'a> {
    /// When it arrived.
    pub now: Instant,
    /// When each copy left, the original first; never empty.
    pub sent: &'a [Instant],
    /// What is known of which copy was acknowledged.
    pub copy: AckedCopy,
    /// What kind of message acknowledged it.
    pub kind: AckKind,
    /// What else is on its way.
    pub load: Load,
}

impl Acknowledged<'_> {
    /// How many retransmissions had been made.
    #[must_use]
    pub fn retransmissions(&self) -> usize {
        self.sent.len().saturating_sub(1)
    }

    /// The time since the original transmission, which is R of every algorithm that says nothing else.
    #[must_use]
    pub fn since_first(&self) -> Duration {
        self.sent.first().map_or(Duration::ZERO, |first| self.now - *first)
    }
}

/// Which copy of a message an acknowledgement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckedCopy {
    /// The peer told, or only one copy was sent.
    Exact(u8),
    /// This copy or a later one.
    AtLeast(u8),
    /// CoAP alone does not tell: all copies carry the same message ID.
    Unknown,
}

/// The kind of message that acknowledged an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// An ACK that carries the response (RFC 7252 §5.2.1).
    Piggybacked,
    /// An Empty ACK (RFC 7252 §5.2.2); its message ID is all that vouches for it.
    Empty,
    /// A separate response that came without, or before, an ACK. Its time includes the server's, so no RTT is taken of it.
    Separate,
}

/// An exchange ended without an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned<'a> {
    /// When it ended.
    pub now: Instant,
    /// Why.
    pub why: Why,
    /// When each copy left, the original first; never empty.
    pub sent: &'a [Instant],
    /// What else is on its way.
    pub load: Load,
}

/// Why an exchange ended without an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The last timer ran out: `MAX_RETRANSMIT` or `MAX_TRANSMIT_SPAN` is exhausted.
    GaveUp,
    /// The application cancelled it.
    Cancelled,
    /// The peer answered with a Reset message.
    Reset,
    /// The network reported the peer unreachable.
    Unreachable,
}

/// What can be shown of a peer's congestion state; what an algorithm does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The initial RTO before dithering, without ageing that may be due.
    pub rto: Duration,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Round-trip time variation.
    pub rttvar: Option<Duration>,
    /// Estimated bottleneck bandwidth, in bytes a second.
    pub bandwidth: Option<u32>,
}
