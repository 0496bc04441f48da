//! The [`Controller`] trait, and the events that it handles.
//!
//! State is divided by lifetime:
//!
//! - The **controller** is an algorithm with its configuration, for all peers.
//! - Its [`Peer`](Controller::Peer) is a destination's state, such as an estimator.
//! - Its [`Flight`](Controller::Flight) is an exchange's state, such as its timer, so that
//!   exchanges with a peer (NSTART > 1) stay apart.
//!
//! The endpoint owns message IDs, retransmission counters, NSTART, queues, `MAX_RETRANSMIT`,
//! `MAX_TRANSMIT_SPAN`, and a safety envelope. The calls of one exchange:
//!
//! ```text
//! submitted ──> admit ──> sent(attempt 0) ──┬──> acknowledged                  (ACK or response)
//!                ^  │                       ├──> expired ──> sent(attempt 1) ──> …       (timer)
//!      again on  └──┘ At(t), OnEvent        └──> abandoned       (gave up, cancelled, RST, ICMP)
//! ```
//!
//! Only `sent` receives random bits ([`Sent::random`]): 32 with each transmission. All other calls
//! are deterministic.
//!
//! A Non-confirmable message has only `admit` and `sent`, whose timeout bounds its use of an NSTART
//! slot. ACKs, RSTs and piggybacked responses are not admitted.

use core::fmt::Debug;
use core::time::Duration;

pub use crate::estimator::Snapshot;
pub use crate::event::{
    AbandonReason, Abandoned, AckKind, AckedCopy, Acknowledged, Admission, Expired, Load, NonHistory, Sent, Submission,
};
use crate::path_history::PathHistory;
use crate::time::Instant;

/// A congestion control algorithm with its configuration.
///
/// No method has a default, so that none is forgotten. Rules for the retransmission timer alone
/// implement [`RtoRule`](crate::RtoRule).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a congestion controller",
    note = "implement `RtoRule` for a rule of the retransmission timer, or `Controller` itself"
)]
pub trait Controller {
    /// State of one destination.
    type Peer: Clone + Debug;
    /// State of one exchange; `Default` before the first transmission.
    type Flight: Clone + Default + Debug;

    /// Returns whether timers follow path measurements, as RFC 7252 §4.8.1 requires for an
    /// `ACK_TIMEOUT` below 1 s or NSTART above 1.
    fn measures_rtt(&self) -> bool;

    /// Returns the state of a new destination.
    fn peer(&self, now: Instant) -> Self::Peer;

    /// Returns a new destination's state from its path's as [seen by](PathHistory::seen_by) it; may
    /// ignore `history` or take a [first sample](PathHistory::as_first_sample).
    fn seed(&self, now: Instant, history: &PathHistory) -> Self::Peer;

    /// Returns whether `message` may leave now. Called before the first transmission, at
    /// [`Admission::At`], and after every event of this peer.
    fn admit(&self, peer: &mut Self::Peer, now: Instant, message: &Submission, load: &Load) -> Admission;

    /// Handles a transmission; returns the wait for an acknowledgement, or for a Non-confirmable
    /// request's response.
    fn sent(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Sent) -> Duration;

    /// Handles a Confirmable message's expired timer; returns the retransmission's earliest time.
    /// Beyond MAX_TRANSMIT_SPAN, the endpoint abandons the exchange.
    fn expired(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Expired) -> Instant;

    /// Handles an exchange's first acknowledgement: Empty ACK or response.
    fn acknowledged(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Acknowledged<'_>);

    /// Handles an exchange's end without acknowledgement.
    fn abandoned(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Abandoned<'_>);

    /// Handles the end of an idle period with a free slot and no queue, before the next
    /// [`admit`](Self::admit).
    fn drained(&self, peer: &mut Self::Peer, now: Instant, load: &Load);

    /// Returns a new exchange's initial RTO, before randomisation, after ageing.
    fn base(&self, peer: &mut Self::Peer, now: Instant) -> Duration;

    /// Returns a peer's estimates for logs and metrics.
    fn snapshot(&self, peer: &Self::Peer) -> Snapshot;
}

/// The sample triples in the RTO.
const MAX_SAMPLE: Duration = Duration::from_millis(1_333);

impl PathHistory {
    /// Returns a peer's state after one lossless exchange at the path's smoothed round-trip time;
    /// at most 1333 ms if the state is not its own, so the RTO is at most 4 s.
    pub fn as_first_sample<C: Controller>(&self, controller: &C, now: Instant) -> C::Peer {
        let mut peer = controller.peer(now);
        let Some((srtt, ..)) = self.path(now).learnt() else { return peer };
        let sample = if self.is_own() { srtt } else { srtt.min(MAX_SAMPLE) };
        let sent = now - sample;
        // The clock may have started too late.
        if now - sent == sample {
            let (copy, kind) = (AckedCopy::Exact(0), AckKind::Piggybacked);
            let event = Acknowledged { now, sent: &[sent], copy, kind, load: Load::default() };
            controller.acknowledged(&mut peer, &C::Flight::default(), &event);
        }
        peer
    }
}
