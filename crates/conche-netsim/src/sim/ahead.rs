//! Getting ready for what comes next: with tens of thousands of nodes no cache has what an event needs, and one event after
//! the other would wait for memory. Here all that a few dozen events are known to need is read at once, so that they wait
//! together. Nothing depends on what is read.

use std::hint::black_box;

use super::{Arrival, Event, Simulation};
use crate::NodeId;
use crate::host::{Host, Received};
use crate::packet::{Packet, PacketRef};
use crate::trace::Observer;

/// Fewer nodes fit a cache.
const MANY: usize = 1000;

impl<H: Host, O: Observer> Simulation<H, O> {
    /// Finds out what comes next if that is not known yet, and gets ready for it.
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
        // The first reads tell where the next ones are, and whether any are needed: most packets go on to a further link, and
        // many wake-ups have been put off.
        for (_, event) in self.world.scheduler.coming() {
            match event {
                Event::Arrive(Arrival { packet, .. }) => self.world.packets.glance_at_way(packet),
                Event::Timer(timer) => {
                    black_box(self.timers.owner(timer));
                }
                Event::Wake(node) => self.world.wake_ups[node.index()].glance(),
                _ => {}
            }
        }
        let mut arriving = std::mem::take(&mut self.arriving);
        for (at, event) in self.world.scheduler.coming() {
            match event {
                Event::Arrive(Arrival { packet, at }) => {
                    if let Some(to) = self.receiver(packet, at) {
                        arriving.push((packet, to));
                        self.world.packets.glance(packet);
                        self.glance(to);
                    }
                }
                Event::Timer(timer) => {
                    if let Some(node) = self.timers.owner(timer) {
                        self.glance(node);
                    }
                }
                Event::Wake(node) if self.world.wake_ups[node.index()].wakes(at) => self.glance(node),
                _ => {}
            }
        }
        for (packet, _) in &arriving {
            black_box(self.world.packets.get(*packet).bytes.first().copied());
        }
        for (packet, to) in arriving.drain(..) {
            if let Some(host) = self.host(to) {
                let Packet { meta, snr_db, bytes } = self.world.packets.get(packet);
                host.glance_at(Received { meta, bytes, snr_db: *snr_db });
            }
        }
        self.arriving = arriving;
    }

    /// Who receives a packet that comes to this node, if it gets to that host at once.
    fn receiver(&self, packet: PacketRef, at: NodeId) -> Option<NodeId> {
        let to = self.world.packets.destination(packet);
        self.network.reaches(at, to).then_some(to)
    }

    /// Reads what a node is about to need.
    fn glance(&self, node: NodeId) {
        self.world.wake_ups[node.index()].glance();
        self.network.glance(node);
        if let Some(host) = self.host(node) {
            host.glance();
        }
    }
}
