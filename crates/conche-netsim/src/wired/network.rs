//! The network at work: packets go from link to link until they reach their node.

use super::link::{Fate, Kind, Link};
use crate::mac::Hop;
use crate::packet::{PacketRef, Packets};
use crate::scheduler::Scheduler;
use crate::sim;
use crate::trace::{DropReason, Observer};
use crate::{LinkId, NodeId};

/// More links than any sensible route has: what crosses more is in a loop.
const HOP_LIMIT: u8 = 64;

/// The links and routes of a simulation.
#[derive(Debug)]
pub(crate) struct Network {
    links: Vec<Link>,
    routes: Vec<Route>,
    pub(crate) dropped: u64,
    pub(crate) duplicated: u64,
}

/// Where a node sends a packet.
#[derive(Clone, Debug)]
pub(super) enum Route {
    /// Nowhere: no link leaves the node.
    None,
    /// Over its only link.
    Always(LinkId),
    /// By destination.
    Table(Vec<Option<LinkId>>),
}

/// What happens in the network by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A packet comes to a node.
    Arrive {
        /// Which packet.
        packet: PacketRef,
        /// Which node.
        at: NodeId,
    },
    /// A packet is lost on a wire.
    Lose {
        /// Which packet.
        packet: PacketRef,
        /// Which link it was on.
        link: LinkId,
    },
}

/// Where a packet is after it was sent on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarded {
    /// On a wire, or dropped.
    Taken,
    /// At its destination, in this very instant.
    Arrived(PacketRef),
    /// At a station that is to send it over a hop of a radio network.
    Hop(PacketRef, Hop, LinkId),
}

/// What the network needs of the simulation while it moves a packet.
pub(crate) struct Surroundings<'a, O> {
    pub(crate) scheduler: &'a mut Scheduler<sim::Event>,
    pub(crate) packets: &'a mut Packets,
    pub(crate) observer: &'a mut O,
}

impl Network {
    pub(super) fn new(links: Vec<Link>, routes: Vec<Route>) -> Self {
        Self { links, routes, dropped: 0, duplicated: 0 }
    }

    /// Sends a packet on its way from the node `at`, until something other than a wire has to carry it.
    pub(crate) fn forward<O: Observer>(
        &mut self,
        around: &mut Surroundings<'_, O>,
        packet: PacketRef,
        at: NodeId,
    ) -> Forwarded {
        let (to, mut at) = (around.packets.way(packet).to, at);
        while at != to {
            let Some(id) = self.routes[at.index()].to(to) else {
                self.drop(around, packet, DropReason::NoRoute(at));
                return Forwarded::Taken;
            };
            let hops = &mut around.packets.way(packet).hops;
            *hops += 1;
            if *hops > HOP_LIMIT {
                self.drop(around, packet, DropReason::HopLimit(at));
                return Forwarded::Taken;
            }
            let link = &mut self.links[id.index()];
            match &mut link.kind {
                Kind::Transparent => at = link.to,
                Kind::Wire(wire) => {
                    let duplicate = wire.duplicates_next().then(|| around.packets.duplicate(packet));
                    self.cross(around, packet, duplicate, id);
                    return Forwarded::Taken;
                }
                Kind::Hop(hop) => return Forwarded::Hop(packet, *hop, id),
            }
        }
        Forwarded::Arrived(packet)
    }

    /// A packet that [`Event::Lose`] announced is lost.
    pub(crate) fn lose<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, packet: PacketRef, link: LinkId) {
        self.drop(around, packet, DropReason::Lost(link));
    }

    /// A packet came to its node, but nobody is there.
    pub(crate) fn refuse<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, packet: PacketRef, at: NodeId) {
        self.drop(around, packet, DropReason::NoHost(at));
    }

    /// Offers a packet, and its duplicate if the link has made one, to the link.
    fn cross<O: Observer>(
        &mut self,
        around: &mut Surroundings<'_, O>,
        packet: PacketRef,
        duplicate: Option<PacketRef>,
        id: LinkId,
    ) {
        if let Some(duplicate) = duplicate {
            self.duplicated += 1;
            around.observer.on_duplicated(around.scheduler.now(), around.packets.get(duplicate), id);
        }
        self.offer(around, packet, id);
        if let Some(duplicate) = duplicate {
            self.offer(around, duplicate, id);
        }
    }

    fn offer<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, packet: PacketRef, id: LinkId) {
        let now = around.scheduler.now();
        let payload_bytes = around.packets.way(packet).payload_bytes;
        let Link { to, kind: Kind::Wire(wire) } = &mut self.links[id.index()] else {
            unreachable!("packets are offered to wires only")
        };
        match wire.offer(now, payload_bytes) {
            Fate::Refused => self.drop(around, packet, DropReason::QueueFull(id)),
            Fate::Lost(at) => around.scheduler.schedule(at, Event::Lose { packet, link: id }.into()),
            Fate::Arrives(at) => around.scheduler.schedule(at, Event::Arrive { packet, at: *to }.into()),
        }
    }

    fn drop<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, packet: PacketRef, reason: DropReason) {
        self.dropped += 1;
        around.observer.on_dropped(around.scheduler.now(), around.packets.get(packet), reason);
        around.packets.remove(packet);
    }
}

impl Route {
    fn to(&self, destination: NodeId) -> Option<LinkId> {
        match self {
            Self::None => None,
            Self::Always(link) => Some(*link),
            Self::Table(table) => table.get(destination.index()).copied().flatten(),
        }
    }

    /// Sets the route to one destination in a network of `nodes` nodes.
    pub(super) fn set(&mut self, nodes: usize, destination: NodeId, link: LinkId) {
        let mut table = match std::mem::replace(self, Self::None) {
            Self::None => vec![None; nodes],
            Self::Always(link) => vec![Some(link); nodes],
            Self::Table(table) => table,
        };
        table[destination.index()] = Some(link);
        *self = Self::Table(table);
    }
}
