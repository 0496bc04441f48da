//! Invariants of a waiting endpoint: everything is within its limits.

use conche_proto::cc::AnyController;
use conche_proto::{Endpoint, Instant, PeerSnapshot};

use super::super::Address;
use super::super::script::PEERS;
use super::super::track::Track;
use super::Checker;

/// Maximum growth of the deduplication table for one message, in bytes.
const ROOM_FOR_ONE_MORE: usize = 16 << 10;

impl Checker {
    pub fn settled(&mut self, now: Instant, endpoint: &Endpoint<Address, AnyController>, wake: Option<Instant>) {
        assert!(wake.is_none_or(|wake| wake > now), "to wait until {wake:?} at {now:?} is a busy loop: {endpoint:?}");
        let (occupancy, limits) = (endpoint.occupancy(), &self.config.limits);
        assert!(occupancy.peers <= limits.peers, "{occupancy:?}");
        let (requests, responses) = (occupancy.exchanges - occupancy.responses, occupancy.responses);
        let observers = occupancy.observers;
        let requests = requests.saturating_sub(observers);
        assert!(requests <= limits.exchanges && occupancy.incoming + responses <= limits.incoming, "{occupancy:?}");
        // An exchange in progress keeps its place, and its next message needs none in the queue.
        let beside = responses + observers + occupancy.subscriptions;
        let most = limits.queue + beside;
        assert!(occupancy.queued <= most || occupancy.queued <= most + self.begun(|_| true), "{occupancy:?}");
        // Q-Block bodies have their own table.
        let assemblies = limits.transfers * if self.bursts.is_some() { 2 } else { 1 };
        assert!(occupancy.assemblies <= assemblies && occupancy.representations <= limits.transfers, "{occupancy:?}");
        assert!(occupancy.streams <= limits.transfers, "{occupancy:?}");
        assert!(occupancy.body_bytes <= 3 * limits.assembly_bytes, "{occupancy:?}");
        assert!(occupancy.queued <= occupancy.exchanges, "{occupancy:?}");
        assert!(occupancy.over_paths + occupancy.queued <= occupancy.exchanges, "{occupancy:?}");
        assert!(observers <= limits.observers && observers <= self.observers.len(), "{occupancy:?}");
        assert!(occupancy.subscriptions <= limits.subscriptions, "{occupancy:?}");
        assert_eq!(occupancy.subscriptions, self.subscriptions.len(), "{occupancy:?}");
        let timed = occupancy.exchanges + occupancy.incoming + occupancy.subscriptions + observers;
        let timed = timed + occupancy.awaiting_validation;
        assert!(occupancy.timers <= timed, "{occupancy:?}");
        assert_eq!(occupancy.outputs, 0, "{occupancy:?}");
        assert!(occupancy.deduplication_bytes <= limits.deduplication_bytes, "{occupancy:?}");
        let more = ROOM_FOR_ONE_MORE + 2 * limits.message_bytes;
        self.forgetful |= occupancy.deduplication_bytes + more > limits.deduplication_bytes / 4 * 3;
        let nstart = self.config.transmission.nstart;
        for (peer, &count) in &self.outstanding {
            assert!(count <= nstart, "{count} Confirmable messages are outstanding to {peer}, NSTART is {nstart}");
            assert!(endpoint.snapshot(peer).is_some(), "a peer with an exchange has state");
        }
        let most = limits.queue_per_peer + beside;
        for peer in 0..PEERS.into() {
            let Some(PeerSnapshot { outstanding, queued, .. }) = endpoint.snapshot(&peer) else { continue };
            assert!(outstanding <= nstart, "{outstanding} are outstanding to {peer}");
            assert!(queued <= most || queued <= most + self.begun(|to| to == peer), "{queued} wait for {peer}");
        }
    }

    fn begun(&self, to: impl Fn(Address) -> bool) -> usize {
        let begun = |track: &&Track| track.before > 0 || !track.sent.is_empty();
        self.exchanges.values().filter(|track| !track.own && !track.ended && to(track.to)).filter(begun).count()
    }
}
