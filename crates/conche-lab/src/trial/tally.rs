//! The observer that counts copies and losses for each client.

use conche_netsim::packet::Packet;
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::{Instant, NodeId};

/// Counts, by the client whose exchange a packet belongs to.
#[derive(Debug)]
pub(super) struct Tally {
    nodes: Vec<OfNode>,
}

/// What became of the exchanges of one node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfNode {
    /// Copies of its requests that it sent.
    pub(super) copies: u64,
    /// Of these, and of the responses to them, those that were lost.
    pub(super) dropped: u64,
}

impl Tally {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes: vec![OfNode::default(); nodes] }
    }

    pub(super) fn of(&self, node: NodeId) -> OfNode {
        self.nodes.get(node.index()).copied().unwrap_or_default()
    }
}

impl Observer for Tally {
    fn on_sent(&mut self, _now: Instant, packet: &Packet) {
        if packet.meta.copy.is_some() {
            self.nodes[packet.meta.from.index()].copies += 1;
        }
    }

    fn on_dropped(&mut self, _now: Instant, packet: &Packet, _reason: DropReason) {
        // A request comes from its client, a response goes to it.
        let client = if packet.meta.copy.is_some() { packet.meta.from } else { packet.meta.to };
        // A broadcast belongs to no exchange.
        if let Some(client) = self.nodes.get_mut(client.index()) {
            client.dropped += 1;
        }
    }
}
