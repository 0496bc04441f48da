//! Which packets the endpoint's transmissions are copies of, and which they answer.
//!
//! The endpoint knows exchanges; it does not know the packets of a simulation. What it transmits while a packet is handled
//! answers that packet, and what the application answers later answers what the application says.

use std::hint::black_box;

use conche_proto::{Event, ExchangeId, Transmit};

use crate::NodeId;
use crate::packet::{Cause, Copied};

/// Which packets the endpoint's transmissions answer.
#[derive(Debug, Default)]
pub(super) struct Causes {
    /// The packet that is being handled.
    received: Option<Cause>,
    /// What the application answers with responses that leave next.
    stated: Vec<Cause>,
    /// What open separate responses answer, for all their copies.
    separate: Vec<(ExchangeId, Cause)>,
}

impl Causes {
    /// Reads what the next step will need.
    pub(super) fn glance(&self) {
        black_box((self.received.is_some(), self.stated.len(), self.separate.len()));
    }

    /// A packet is being handled.
    pub(super) fn receive(&mut self, cause: Cause) {
        self.received = Some(cause);
    }

    /// The packet that is being handled.
    pub(super) fn received(&self) -> Option<Cause> {
        self.received
    }

    /// The application answered `cause`, with a separate response if there is an exchange for it.
    pub(super) fn state(&mut self, cause: Option<Cause>, separate: Option<ExchangeId>) {
        match (cause, separate) {
            (Some(cause), Some(exchange)) => self.separate.push((exchange, cause)),
            (Some(cause), None) => self.stated.push(cause),
            (None, _) => {}
        }
    }

    /// The endpoint has said all that it has to say for now.
    pub(super) fn clear(&mut self) {
        self.received = None;
        self.stated.clear();
    }

    /// A separate response will not be repeated any more.
    pub(super) fn forget(&mut self, exchange: ExchangeId) {
        self.separate.retain(|(of, _)| *of != exchange);
    }

    /// What a transmission is a copy of, and what it answers.
    pub(super) fn origin_of(&mut self, transmit: &Transmit<NodeId>, node: NodeId) -> (Option<Copied>, Option<Cause>) {
        let Some(exchange) = transmit.exchange else {
            return (None, self.answered_by_next(transmit.to));
        };
        let copy = Copied { node, exchange: exchange.as_u64(), attempt: transmit.attempt };
        let separate = self.separate.iter().find(|(of, _)| *of == exchange);
        (Some(copy), separate.map(|(_, cause)| *cause))
    }

    /// What the next answer to `peer` is for: what the application stated, in that order, or else the packet at hand.
    fn answered_by_next(&mut self, peer: NodeId) -> Option<Cause> {
        match self.stated.iter().position(|cause| cause.from == peer) {
            Some(first) => Some(self.stated.remove(first)),
            None => self.received.filter(|cause| cause.from == peer),
        }
    }

    /// A separate response that was acknowledged or has failed will not be repeated any more.
    pub(super) fn forget_ended(&mut self, event: &Event<NodeId>) {
        if let Event::Acknowledged { exchange, .. } | Event::Failed { exchange, .. } = event {
            self.forget(*exchange);
        }
    }
}
