//! A segment as an exchange of the controller.

use std::time::Duration;

use conche_proto::cc::Controller;
use conche_proto::cc::control::{AbandonReason, Abandoned, AckKind, AckedCopy, Acknowledged, Expired, Load, Sent};
use smallvec::SmallVec;

use crate::Instant;

#[derive(Debug)]
pub(super) struct Exchange<C: Controller> {
    flight: C::Flight,
    /// Times of all transmissions.
    pub(super) sent: SmallVec<[Instant; 2]>,
    pub(super) deadline: Option<Instant>,
    /// Earliest time of the next retransmission, once returned by the controller.
    again: Option<Instant>,
    pub(super) timeouts: u8,
    pub(super) acknowledged: bool,
}

/// How a segment's arrival was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// By its own acknowledgment.
    InTime,
    /// By a later segment's: its own was lost, or an earlier segment was missing.
    Late,
}

impl<C: Controller> Exchange<C> {
    pub(super) fn new() -> Self {
        let flight = C::Flight::default();
        Self { flight, sent: SmallVec::new(), deadline: None, again: None, timeouts: 0, acknowledged: false }
    }

    /// Records a transmission and returns its timeout.
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

    /// Returns the earliest time of a transmission; now for the first.
    pub(super) fn may_leave_again(&mut self, controller: &C, peer: &mut C::Peer, now: Instant, load: Load) -> Instant {
        if self.sent.is_empty() {
            return now;
        }
        let (flight, attempt) = (&mut self.flight, self.sent.len().saturating_sub(1));
        let attempt = u8::try_from(attempt).unwrap_or(u8::MAX);
        *self.again.get_or_insert_with(|| controller.expired(peer, flight, &Expired { now, attempt, load }))
    }

    /// Marks a loss before the timeout; the segment may be retransmitted at once.
    pub(super) fn lost(&mut self, now: Instant) {
        (self.deadline, self.again) = (None, Some(now));
    }

    /// Returns an unambiguous round-trip time.
    pub(super) fn acknowledge(
        &mut self,
        controller: &C,
        peer: &mut C::Peer,
        now: Instant,
        known: Known,
        load: Load,
    ) -> Option<Duration> {
        // An earlier missing segment delayed the acknowledgment.
        let in_time = known == Known::InTime && self.deadline.is_some();
        (self.acknowledged, self.deadline) = (true, None);
        // As with a separate response, arrival is certain, but the path unmeasured.
        let kind = if in_time { AckKind::Empty } else { AckKind::Separate };
        let event = Acknowledged { now, sent: &self.sent, copy: AckedCopy::Unknown, kind, load };
        controller.acknowledged(peer, &self.flight, &event);
        (in_time && self.sent.len() == 1).then(|| event.since_first())
    }

    pub(super) fn abandon(
        &mut self,
        controller: &C,
        peer: &mut C::Peer,
        now: Instant,
        reason: AbandonReason,
        load: Load,
    ) {
        if !self.acknowledged && !self.sent.is_empty() {
            controller.abandoned(peer, &self.flight, &Abandoned { now, reason, sent: &self.sent, load });
        }
    }

    fn copies(&self) -> u8 {
        u8::try_from(self.sent.len()).unwrap_or(u8::MAX)
    }
}
