//! An observer that counts transmissions and losses per client.

use conche_netsim::Instant;
use conche_netsim::packet::Packet;
use conche_netsim::trace::{DropReason, Observer};

/// By node number.
#[derive(Debug)]
pub(super) struct TransmissionCounts(pub(super) Vec<NodeCounts>);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeCounts {
    pub(super) copies: u64,
    pub(super) dropped: u64,
}

impl Observer for TransmissionCounts {
    fn on_sent(&mut self, _now: Instant, packet: &Packet) {
        if packet.meta.transmission.is_some() {
            self.0[packet.meta.from.index()].copies += 1;
        }
    }

    fn on_dropped(&mut self, _now: Instant, packet: &Packet, _reason: DropReason) {
        // A request comes from its client, a response goes to it.
        let client = if packet.meta.transmission.is_some() { packet.meta.from } else { packet.meta.to };
        // A broadcast belongs to no exchange.
        if let Some(client) = self.0.get_mut(client.index()) {
            client.dropped += 1;
        }
    }
}
