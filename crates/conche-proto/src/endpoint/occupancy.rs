//! [`Occupancy`]: the number of objects that an endpoint holds.

use super::Endpoint;
use crate::PeerKey;
use conche_cc::Controller;

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Returns what the endpoint holds, for monitoring.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy {
            peers: self.transport.peers.len(),
            exchanges: self.transport.exchanges.len(),
            queued: self.transport.exchanges.queued(),
            over_paths: self.transport.peers.over_paths(),
            incoming: self.incoming.len(),
            awaiting_validation: self.validation.as_ref().map_or(0, |validation| validation.held()),
            responses: self.transport.exchanges.responses(),
            at_leisure: self.leisure.len(),
            observers: self.observers.len(),
            subscriptions: self.subscriptions.len(),
            timers: self.transport.exchanges.timers()
                + self.incoming.timers()
                + self.leisure.len()
                + self.subscriptions.timers()
                + self.observers.timers()
                + self.validation.as_ref().map_or(0, |validation| validation.pinged()),
            transfers: self.transport.exchanges.transfers(),
            assemblies: self.parts.assemblies.contexts().len() + self.sets.as_ref().map_or(0, |sets| sets.len()),
            representations: self.representations.contexts().len(),
            streams: self.parts.streams.len(),
            body_bytes: self.body_bytes(),
            deduplication_entries: self.transport.received.len(),
            deduplication_bytes: self.transport.received.bytes(),
            outputs: self.transport.outbox.len() + self.events.len(),
        }
    }
}

/// The use of all resources limited by [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Peers with state.
    pub peers: usize,
    /// Live exchanges.
    pub exchanges: usize,
    /// Exchanges that wait for admission. [`Limits::queue`](crate::Limits::queue) describes which
    /// of them it limits.
    pub queued: usize,
    /// Exchanges that count on a [shared](Endpoint::share_paths) path.
    pub over_paths: usize,
    /// Received requests that await a response.
    pub incoming: usize,
    /// Requests and responses held until their source has [proved its
    /// address](crate::SourceValidation): at most 1 MiB, each counted with 256 bytes in addition to
    /// its own, and at most 16 per source.
    pub awaiting_validation: usize,
    /// Exchanges that are separate responses; with `incoming` within
    /// [`Limits::incoming`](crate::Limits).
    pub responses: usize,
    /// Responses to group requests that wait for their time; also with `incoming` within
    /// [`Limits::incoming`](crate::Limits).
    pub at_leisure: usize,
    /// Observers.
    pub observers: usize,
    /// Subscriptions of this endpoint.
    pub subscriptions: usize,
    /// Armed timers.
    pub timers: usize,
    /// Own requests of more than one message, after the first answer.
    pub transfers: usize,
    /// Request bodies being reassembled from blocks.
    pub assemblies: usize,
    /// Response bodies stored for requests for their blocks.
    pub representations: usize,
    /// Received requests with a streamed request or response body.
    pub streams: usize,
    /// Bytes of `assemblies` and `representations`, and of responses to this endpoint being
    /// reassembled.
    pub body_bytes: usize,
    /// Messages remembered for deduplication.
    pub deduplication_entries: usize,
    /// Bytes of the deduplication table.
    pub deduplication_bytes: usize,
    /// Outputs that wait to be polled.
    pub outputs: usize,
}
