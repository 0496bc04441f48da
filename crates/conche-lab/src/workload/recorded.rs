//! A controller that records the timeouts that it answers.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use conche_proto::cc::control::{Abandoned, Acknowledged, Admission, Expired, Load, Sent, Snapshot, Submission};
use conche_proto::cc::{AnyController, Controller, Instant};

/// The timeout of one transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// When the copy left.
    pub at: Instant,
    /// 0 for an original, n for the n-th retransmission.
    pub attempt: u8,
    /// How long the controller would wait for the acknowledgement.
    pub after: Duration,
}

/// One of conche's controllers, observed: it behaves as if alone.
#[derive(Clone, Debug)]
pub struct Recorded {
    controller: AnyController,
    /// Shared with whoever reads it after the run; both are of one thread.
    log: Option<Rc<RefCell<Vec<Timeout>>>>,
}

impl Recorded {
    /// This controller, whose timeouts for Confirmable messages are added to a log, if anybody wants to know them.
    #[must_use]
    pub fn new(controller: AnyController, log: Option<Rc<RefCell<Vec<Timeout>>>>) -> Self {
        Self { controller, log }
    }
}

impl Controller for Recorded {
    type Peer = <AnyController as Controller>::Peer;
    type Flight = <AnyController as Controller>::Flight;

    fn measures_rtt(&self) -> bool {
        self.controller.measures_rtt()
    }

    fn peer(&self, now: Instant) -> Self::Peer {
        self.controller.peer(now)
    }

    fn admit(&self, peer: &mut Self::Peer, now: Instant, message: &Submission, load: &Load) -> Admission {
        self.controller.admit(peer, now, message, load)
    }

    fn sent(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Sent) -> Duration {
        let after = self.controller.sent(peer, flight, event);
        if let Some(log) = self.log.as_ref().filter(|_| event.confirmable) {
            log.borrow_mut().push(Timeout { at: event.now, attempt: event.attempt, after });
        }
        after
    }

    fn expired(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Expired) -> Instant {
        self.controller.expired(peer, flight, event)
    }

    fn acknowledged(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Acknowledged<'_>) {
        self.controller.acknowledged(peer, flight, event);
    }

    fn abandoned(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Abandoned<'_>) {
        self.controller.abandoned(peer, flight, event);
    }

    fn drained(&self, peer: &mut Self::Peer, now: Instant, load: &Load) {
        self.controller.drained(peer, now, load);
    }

    fn base(&self, peer: &mut Self::Peer, now: Instant) -> Duration {
        self.controller.base(peer, now)
    }

    fn snapshot(&self, peer: &Self::Peer) -> Snapshot {
        self.controller.snapshot(peer)
    }
}
