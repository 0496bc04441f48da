//! One segment on its way, as the exchange that the controller knows it as.

use std::time::Duration;

use conche_proto::cc::Controller;
use conche_proto::cc::control::{Abandoned, AckKind, AckedCopy, Acknowledged, Expired, Load, Sent, Why};
use smallvec::SmallVec;

use crate::Instant;

/// A segment in the retransmission queue.
#[derive(Debug)]
pub(super) struct Exchange<C: Controller> {
    flight: C::Flight,
    /// When each copy left.
    pub(super) sent: SmallVec<[Instant; 2]>,
    /// When its timer runs out; `None` if it is not on its way.
    pub(super) deadline: Option<Instant>,
    /// When its next copy may leave, once the controller has been asked.
    again: Option<Instant>,
    /// How often its own timer ran out.
    pub(super) timeouts: u8,
    pub(super) acknowledged: bool,
}

/// How a segment's arrival became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// By the acknowledgment that it caused.
    InTime,
    /// By that of a later segment: its own was lost, or there was a hole before it.
    Late,
}

impl<C: Controller> Exchange<C> {
    pub(super) fn new() -> Self {
        let flight = C::Flight::default();
        Self { flight, sent: SmallVec::new(), deadline: None, again: None, timeouts: 0, acknowledged: false }
    }

    /// A copy leaves; the answer is its timer.
    pub(super) fn transmit(
        &mut self,
        controller: &C,
        peer: &mut C::Peer,
        now: Instant,
        bytes: u32,
        random: u32,
        load: Load,
    ) -> Duration {
        let sent = Sent { now, attempt: self.copies(), confirmable: true, bytes, random, load };
        self.again = None;
        self.sent.push(now);
        controller.sent(peer, &mut self.flight, &sent)
    }

    /// When the next copy may leave; at any time if there was none.
    pub(super) fn may_leave_again(&mut self, controller: &C, peer: &mut C::Peer, now: Instant, load: Load) -> Instant {
        if self.sent.is_empty() {
            return now;
        }
        let (flight, attempt) = (&mut self.flight, self.sent.len().saturating_sub(1));
        let attempt = u8::try_from(attempt).unwrap_or(u8::MAX);
        *self.again.get_or_insert_with(|| controller.expired(peer, flight, &Expired { now, attempt, load }))
    }

    /// It is known to be lost, not by its timer: its next copy may leave at once.
    pub(super) fn lost(&mut self, now: Instant) {
        (self.deadline, self.again) = (None, Some(now));
    }

    /// It has arrived; the answer is its round-trip time, if that is known without doubt.
    pub(super) fn acknowledge(
        &mut self,
        controller: &C,
        peer: &mut C::Peer,
        now: Instant,
        known: Known,
        load: Load,
    ) -> Option<Duration> {
        // One that was to be sent again had its answer delayed by a hole before it.
        let in_time = known == Known::InTime && self.deadline.is_some();
        (self.acknowledged, self.deadline) = (true, None);
        // A late answer tells the controller that the segment arrived, and as a separate response does, nothing of the path.
        let kind = if in_time { AckKind::Empty } else { AckKind::Separate };
        let event = Acknowledged { now, sent: &self.sent, copy: AckedCopy::Unknown, kind, load };
        controller.acknowledged(peer, &self.flight, &event);
        (in_time && self.sent.len() == 1).then(|| event.since_first())
    }

    pub(super) fn abandon(&mut self, controller: &C, peer: &mut C::Peer, now: Instant, why: Why, load: Load) {
        if !self.acknowledged && !self.sent.is_empty() {
            controller.abandoned(peer, &self.flight, &Abandoned { now, why, sent: &self.sent, load });
        }
    }

    fn copies(&self) -> u8 {
        u8::try_from(self.sent.len()).unwrap_or(u8::MAX)
    }
}
