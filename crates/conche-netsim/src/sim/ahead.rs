//! Getting ready for what comes next: with tens of thousands of nodes no cache has what an event needs, and one event after
//! the other would wait for memory. Here all that a few dozen events are known to need is read at once, so that they wait
//! together. Nothing depends on what is read.

use std::hint::black_box;

use super::{Event, Simulation};
use crate::NodeId;
use crate::host::Host;
use crate::packet::PacketRef;
use crate::trace::Observer;
use crate::wired;

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
    fn get_ready(&self) {
        // The first reads tell where the next ones are.
        for event in self.world.scheduler.coming() {
            match event {
                Event::Wired(wired::Event::Arrive { packet, .. }) => self.world.packets.glance(packet),
                Event::Timer(timer) => {
                    black_box(self.world.timers.owner(timer));
                }
                Event::Wake(node) => self.glance(node),
                _ => {}
            }
        }
        for event in self.world.scheduler.coming() {
            match event {
                Event::Wired(wired::Event::Arrive { packet, at }) => self.glance_at_receiver(packet, at),
                Event::Timer(timer) => {
                    if let Some(node) = self.world.timers.owner(timer) {
                        self.glance(node);
                    }
                }
                _ => {}
            }
        }
    }

    fn glance_at_receiver(&self, packet: PacketRef, at: NodeId) {
        let packet = self.world.packets.get(packet);
        if self.network.reaches(at, packet.meta.to) {
            black_box(packet.bytes.first().copied());
            self.glance(packet.meta.to);
        }
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
