//! The observer that counts copies and losses for each client.

use conche_netsim::Instant;
use conche_netsim::packet::Packet;
use conche_netsim::trace::{DropReason, Observer};

/// What became of the exchanges of each node, by its number.
#[derive(Debug)]
pub(super) struct PacketCounts(pub(super) Vec<OfNode>);

/// What became of the exchanges of one node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfNode {
    /// Copies of its requests that it sent.
    pub(super) copies: u64,
    /// Of these, and of the responses to them, those that were lost.
    pub(super) dropped: u64,
}

impl Observer for PacketCounts {
    fn on_sent(&mut self, _now: Instant, packet: &Packet) {
        if packet.meta.copy.is_some() {
            self.0[packet.meta.from.index()].copies += 1;
        }
    }

    fn on_dropped(&mut self, _now: Instant, packet: &Packet, _reason: DropReason) {
        // A request comes from its client, a response goes to it.
        let client = if packet.meta.copy.is_some() { packet.meta.from } else { packet.meta.to };
        // A broadcast belongs to no exchange.
        if let Some(client) = self.0.get_mut(client.index()) {
            client.dropped += 1;
        }
    }
}
