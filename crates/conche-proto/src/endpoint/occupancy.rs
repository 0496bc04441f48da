//! [`Occupancy`]: how much an endpoint holds.

use super::Endpoint;
use crate::PeerKey;
use conche_cc::Controller;

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// What the endpoint holds, to watch that it stays bounded.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy {
            peers: self.peers.len(),
            exchanges: self.exchanges.len(),
            queued: self.exchanges.queued(),
            over_paths: self.peers.over_paths(),
            incoming: self.incoming.len(),
            awaiting_validation: self.validation.as_ref().map_or(0, |validation| validation.held()),
            responses: self.exchanges.responses(),
            at_leisure: self.leisure.len(),
            observers: self.observers.len(),
            subscriptions: self.subscriptions.len(),
            timers: self.exchanges.timers()
                + self.incoming.timers()
                + self.leisure.len()
                + self.subscriptions.timers()
                + self.observers.timers()
                + self.validation.as_ref().map_or(0, |validation| validation.pinged()),
            transfers: self.exchanges.transfers(),
            assemblies: self.parts.assemblies.contexts().len() + self.sets.as_ref().map_or(0, |sets| sets.len()),
            representations: self.representations.contexts().len(),
            streams: self.parts.streams.len(),
            body_bytes: self.body_bytes(),
            deduplication_entries: self.received.len(),
            deduplication_bytes: self.received.bytes(),
            outputs: self.outbox.len() + self.events.len(),
        }
    }
}

/// How much an endpoint holds of everything that is bounded by [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Peers with state.
    pub peers: usize,
    /// Exchanges that are not over.
    pub exchanges: usize,
    /// Those that wait for admission. What of them [`Limits::queue`](crate::Limits::queue) does not bound is said there.
    pub queued: usize,
    /// Those that count on a [shared](Endpoint::share_paths) path.
    pub over_paths: usize,
    /// Requests of peers that wait for a response.
    pub incoming: usize,
    /// Requests and responses held until their source has [proved its
    /// address](crate::SourceValidation): at most 1 MiB, each counted with 256 bytes beside its
    /// own, and 16 for each source.
    pub awaiting_validation: usize,
    /// Those of the exchanges that are separate responses; with `incoming` within [`Limits::incoming`](crate::Limits).
    pub responses: usize,
    /// Responses to requests that came to a group, which wait for their time; with `incoming` within
    /// [`Limits::incoming`](crate::Limits) too.
    pub at_leisure: usize,
    /// Observers.
    pub observers: usize,
    /// Subscriptions of our own.
    pub subscriptions: usize,
    /// Armed timers.
    pub timers: usize,
    /// Requests of ours that take more than one message, and of which one has been answered.
    pub transfers: usize,
    /// Bodies of requests that are being put together from blocks.
    pub assemblies: usize,
    /// Bodies of responses that are kept for peers that ask for their blocks.
    pub representations: usize,
    /// Requests of peers whose body, or whose response's body, goes block by block between endpoint and application.
    pub streams: usize,
    /// The bytes of both, and of the responses to us that are being put together.
    pub body_bytes: usize,
    /// Messages remembered for deduplication.
    pub deduplication_entries: usize,
    /// Their bytes.
    pub deduplication_bytes: usize,
    /// Outputs that wait to be polled.
    pub outputs: usize,
}
