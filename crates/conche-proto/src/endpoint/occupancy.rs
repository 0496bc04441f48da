//! The number of objects that an endpoint holds.

use super::{Endpoint, Occupancy};
use crate::PeerKey;
use conche_cc::Controller;

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Returns what the endpoint holds, for monitoring.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy {
            peers: self.layers.transport.peers.len(),
            exchanges: self.layers.transport.exchanges.len(),
            queued: self.layers.transport.exchanges.queued(),
            over_paths: self.layers.transport.peers.over_paths(),
            incoming: self.server.incoming.len(),
            awaiting_validation: self.server.validation.as_ref().map_or(0, |validation| validation.held()),
            responses: self.layers.transport.exchanges.responses(),
            at_leisure: self.server.leisure.len(),
            observers: self.server.observers.len(),
            subscriptions: self.client.subscriptions.len(),
            timers: self.layers.transport.exchanges.timers()
                + self.server.incoming.timers()
                + self.server.leisure.len()
                + self.client.subscriptions.timers()
                + self.server.observers.timers()
                + self.server.validation.as_ref().map_or(0, |validation| validation.pinged()),
            transfers: self.layers.transport.exchanges.transfers(),
            assemblies: self.server.parts.assemblies.contexts().len()
                + self.server.q_block.as_ref().map_or(0, |q_block| q_block.uploads.contexts().len()),
            representations: self.server.representations.contexts().len(),
            streams: self.server.parts.streams.len(),
            body_bytes: self.server.body_bytes(&self.layers),
            deduplication_entries: self.layers.transport.received.len(),
            deduplication_bytes: self.layers.transport.received.bytes(),
            outputs: self.layers.transport.outbox.len() + self.layers.events.len(),
        }
    }
}
