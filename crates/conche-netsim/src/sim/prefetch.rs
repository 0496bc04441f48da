//! Prefetches the state that the next events need.
//!
//! With tens of thousands of nodes, each event would wait for memory. Reading the state for a few
//! dozen at once overlaps the waits, and affects no result.

use std::hint::black_box;

use super::Simulation;
use crate::NodeId;
use crate::event::{Arrival, Event};
use crate::host::{Host, Received};
use crate::packet::{Packet, PacketRef};
use crate::trace::Observer;

/// Fewer nodes fit into a cache.
const MANY: usize = 1000;

impl<H: Host, O: Observer> Simulation<H, O> {
    /// Fetches events from the wheel if none are known.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        if self.world.scheduler.knows_next() {
            return;
        }
        self.world.scheduler.look_ahead();
        if self.hosts.len() >= MANY {
            self.get_ready();
        }
    }

    #[inline(never)]
    fn get_ready(&mut self) {
        // Finds addresses for the second pass and skips needless reads: most packets only cross to
        // another link, and many wake-ups have been postponed.
        for (_, event) in self.world.scheduler.next_events() {
            match event {
                Event::Arrive(Arrival { packet, .. }) => self.world.packets.prefetch_forwarding(packet),
                Event::Timer(timer) => {
                    black_box(self.timers.owner(timer));
                }
                Event::Wake(node) => self.world.wake_ups[node.index()].prefetch(),
                _ => {}
            }
        }
        let mut arriving = std::mem::take(&mut self.arriving);
        for (at, event) in self.world.scheduler.next_events() {
            match event {
                Event::Arrive(Arrival { packet, at }) => {
                    if let Some(to) = self.receiver(packet, at) {
                        arriving.push((packet, to));
                        self.world.packets.prefetch_delivery(packet);
                        self.prefetch_node(to);
                    }
                }
                Event::Timer(timer) => {
                    if let Some(node) = self.timers.owner(timer) {
                        self.prefetch_node(node);
                    }
                }
                Event::Wake(node) if self.world.wake_ups[node.index()].wakes(at) => self.prefetch_node(node),
                _ => {}
            }
        }
        for (packet, _) in &arriving {
            black_box(self.world.packets.get(*packet).bytes.first().copied());
        }
        for (packet, to) in arriving.drain(..) {
            if let Some(host) = self.host(to) {
                let Packet { meta, snr_db, bytes } = self.world.packets.get(packet);
                host.prefetch_for(Received { meta, bytes, snr_db: *snr_db });
            }
        }
        self.arriving = arriving;
    }

    fn receiver(&self, packet: PacketRef, at: NodeId) -> Option<NodeId> {
        let to = self.world.packets.destination(packet);
        self.network.reaches(at, to).then_some(to)
    }

    fn prefetch_node(&self, node: NodeId) {
        self.world.wake_ups[node.index()].prefetch();
        self.network.prefetch(node);
        if let Some(host) = self.host(node) {
            host.prefetch();
        }
    }
}
