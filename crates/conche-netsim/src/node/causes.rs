use std::hint::black_box;

use conche_proto::{Event, ExchangeId, Transmit};

use crate::NodeId;
use crate::packet::{Cause, Transmission};

/// The packets that transmissions answer: the packet being handled or, for later responses, the one
/// that the application states.
#[derive(Debug, Default)]
pub(super) struct Causes {
    received: Option<Cause>,
    /// Stated for the next responses.
    stated: Vec<Cause>,
    separate: Vec<(ExchangeId, Cause)>,
}

impl Causes {
    pub(super) fn prefetch(&self) {
        black_box((self.received.is_some(), self.stated.len(), self.separate.len()));
    }

    pub(super) fn receive(&mut self, cause: Cause) {
        self.received = Some(cause);
    }

    pub(super) fn received(&self) -> Option<Cause> {
        self.received
    }

    pub(super) fn state(&mut self, cause: Option<Cause>, separate: Option<ExchangeId>) {
        match (cause, separate) {
            (Some(cause), Some(exchange)) => self.separate.push((exchange, cause)),
            (Some(cause), None) => self.stated.push(cause),
            (None, _) => {}
        }
    }

    pub(super) fn clear(&mut self) {
        self.received = None;
        self.stated.clear();
    }

    pub(super) fn forget(&mut self, exchange: ExchangeId) {
        self.separate.retain(|(of, _)| *of != exchange);
    }

    pub(super) fn origin_of(
        &mut self,
        transmit: &Transmit<NodeId>,
        node: NodeId,
    ) -> (Option<Transmission>, Option<Cause>) {
        let Some(exchange) = transmit.exchange else {
            return (None, self.answered_by_next(transmit.to));
        };
        let transmission = Transmission { node, exchange: exchange.as_u64(), attempt: transmit.attempt };
        let separate = self.separate.iter().find(|(of, _)| *of == exchange);
        (Some(transmission), separate.map(|(_, cause)| *cause))
    }

    /// The first cause stated for `peer`, else the packet being handled.
    fn answered_by_next(&mut self, peer: NodeId) -> Option<Cause> {
        match self.stated.iter().position(|cause| cause.from == peer) {
            Some(first) => Some(self.stated.remove(first)),
            None => self.received.filter(|cause| cause.from == peer),
        }
    }

    pub(super) fn forget_ended(&mut self, event: &Event<NodeId>) {
        if let Event::Acknowledged { exchange, .. } | Event::Failed { exchange, .. } = event {
            self.forget(*exchange);
        }
    }
}
