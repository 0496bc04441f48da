//! Timeouts of a host's transmissions.

use std::time::Duration;

use conche_netsim::{Instant, NodeId};
use conche_proto::Transmit;
use conche_proto::cc::AnyController;

use super::timeout_probe::LastTimeout;

/// The timeout of a Confirmable transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// Exchange number, unique within the endpoint.
    pub exchange: u64,
    /// Time of transmission.
    pub at: Instant,
    /// 0 for the original, n for retransmission n.
    pub attempt: u8,
    /// The controller's wait for the acknowledgement.
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

    /// For a Confirmable datagram, the controller has just returned its timeout.
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
