//! The timeouts of what a host sends.

use std::time::Duration;

use conche_netsim::{Instant, NodeId};
use conche_proto::Transmit;
use conche_proto::cc::AnyController;

use super::recorded::LastTimeout;

/// The timeout of one copy of a Confirmable message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// The exchange that it is of: a number that no other one has of the same endpoint.
    pub exchange: u64,
    /// When the copy left.
    pub at: Instant,
    /// 0 for an original, n for the n-th retransmission.
    pub attempt: u8,
    /// How long the controller would wait for the acknowledgement.
    pub after: Duration,
}

/// Records the timeouts of a host in the order in which its copies leave.
#[derive(Debug, Default)]
pub struct Timeouts {
    last: LastTimeout,
    log: Vec<Timeout>,
}

impl Timeouts {
    /// This controller, observed.
    #[must_use]
    pub fn of(&self, controller: AnyController) -> AnyController {
        self.last.of(controller)
    }

    /// A datagram leaves. The controller has just been asked if it is a copy of a Confirmable message.
    pub(super) fn leaves(&mut self, now: Instant, transmit: &Transmit<NodeId>) {
        if let (Some(after), Some(exchange)) = (self.last.take(), transmit.exchange) {
            let (exchange, attempt) = (exchange.as_u64(), transmit.attempt);
            self.log.push(Timeout { exchange, at: now, attempt, after });
        }
    }

    /// What has been recorded.
    #[must_use]
    pub fn into_log(self) -> Vec<Timeout> {
        self.log
    }
}
