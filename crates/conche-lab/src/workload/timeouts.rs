//! The timeouts of a host's transmissions.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conche_netsim::NodeId;
use conche_proto::Transmit;
use conche_proto::cc::control::{Abandoned, Acknowledged, Admission, Expired, Load, Sent, Snapshot, Submission};
use conche_proto::cc::dynamic::DynController;
use conche_proto::cc::path_history::PathHistory;
use conche_proto::cc::{AnyController, Controller, Instant};

/// The timeout of a Confirmable transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// Exchange number, unique within the endpoint.
    pub exchange: u64,
    /// Time of transmission.
    pub at: Instant,
    /// 0 for the original, n for retransmission n.
    pub attempt: u8,
    /// Timeout that the controller returned.
    pub after: Duration,
}

/// Records a host's timeouts in order.
#[derive(Debug, Default)]
pub struct Timeouts {
    last: LastTimeout,
    log: Vec<Timeout>,
}

impl Timeouts {
    /// Wraps a controller to record its timeouts.
    #[must_use]
    pub fn of(&self, controller: AnyController) -> AnyController {
        self.last.of(controller)
    }

    /// Records the timeout that the controller has just returned.
    pub(super) fn transmitted(&mut self, now: Instant, transmit: &Transmit<NodeId>) {
        if let (Some(after), Some(exchange)) = (self.last.take(), transmit.exchange) {
            let (exchange, attempt) = (exchange.as_u64(), transmit.attempt);
            self.log.push(Timeout { exchange, at: now, attempt, after });
        }
    }

    /// Returns the recorded timeouts.
    #[must_use]
    pub fn into_log(self) -> Vec<Timeout> {
        self.log
    }
}

#[derive(Debug)]
struct TimeoutProbe {
    controller: AnyController,
    last: LastTimeout,
}

#[derive(Clone, Debug, Default)]
struct LastTimeout(Arc<Mutex<Option<Duration>>>);

impl LastTimeout {
    pub(super) fn of(&self, controller: AnyController) -> AnyController {
        DynController::new(TimeoutProbe { controller, last: self.clone() }).into()
    }

    fn set(&self, after: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(after);
    }

    pub(super) fn take(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Controller for TimeoutProbe {
    type Peer = <AnyController as Controller>::Peer;
    type Flight = <AnyController as Controller>::Flight;

    fn measures_rtt(&self) -> bool {
        self.controller.measures_rtt()
    }

    fn peer(&self, now: Instant) -> Self::Peer {
        self.controller.peer(now)
    }

    fn seed(&self, now: Instant, history: &PathHistory) -> Self::Peer {
        self.controller.seed(now, history)
    }

    fn admit(&self, peer: &mut Self::Peer, now: Instant, message: &Submission, load: &Load) -> Admission {
        self.controller.admit(peer, now, message, load)
    }

    fn sent(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Sent) -> Duration {
        let after = self.controller.sent(peer, flight, event);
        if event.confirmable {
            self.last.set(after);
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
