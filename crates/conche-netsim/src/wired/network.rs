//! The network at work: packets go from link to link until they reach their node.

use std::collections::BTreeSet;

use super::buffer::Done;
use super::link::{Fate, Kind, Link, LinkConfig};
use super::topology::check_wire;
use crate::mac::Hop;
use crate::packet::{PacketRef, Packets};
use crate::scheduler::Scheduler;
use crate::sim::{self, ChangeError};
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
    /// Nodes that are cut off.
    cut_off: BTreeSet<NodeId>,
    /// What a link has just done; empty in between.
    done: Vec<Done>,
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
    /// A link goes on with what waits for it.
    Resume {
        /// Which link.
        link: LinkId,
        /// Which of its events this is.
        number: u32,
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
        Self { links, routes, dropped: 0, duplicated: 0, cut_off: BTreeSet::new(), done: Vec::new() }
    }

    /// Sends a packet on its way from the node `at`, until something other than a wire has to carry it.
    pub(crate) fn forward<O: Observer>(
        &mut self,
        around: &mut Surroundings<'_, O>,
        packet: PacketRef,
        at: NodeId,
    ) -> Forwarded {
        let (to, mut at) = (around.packets.get(packet).meta.to, at);
        loop {
            if !self.cut_off.is_empty() && self.cut_off.contains(&at) {
                self.drop(around, packet, DropReason::NodeDown(at));
                return Forwarded::Taken;
            }
            if at == to {
                return Forwarded::Arrived(packet);
            }
            let Some(id) = self.routes[at.index()].to(to) else {
                self.drop(around, packet, DropReason::NoRoute(at));
                return Forwarded::Taken;
            };
            let hops = &mut around.packets.get_mut(packet).hops;
            *hops += 1;
            if *hops > HOP_LIMIT {
                self.drop(around, packet, DropReason::HopLimit(at));
                return Forwarded::Taken;
            }
            let link = &mut self.links[id.index()];
            if !link.up {
                self.drop(around, packet, DropReason::LinkDown(id));
                return Forwarded::Taken;
            }
            match &mut link.kind {
                Kind::Transparent => at = link.to,
                Kind::Wire(wire) => {
                    let duplicate = wire.line().duplicates_next().then(|| around.packets.duplicate(packet));
                    self.cross(around, packet, duplicate, id);
                    return Forwarded::Taken;
                }
                Kind::Buffer(buffer) => {
                    let duplicate = buffer.line().duplicates_next().then(|| around.packets.duplicate(packet));
                    self.cross(around, packet, duplicate, id);
                    return Forwarded::Taken;
                }
                Kind::Hop(hop) => return Forwarded::Hop(packet, *hop, id),
            }
        }
    }

    /// How a link that can change behaves.
    pub(crate) fn config(&self, id: LinkId) -> Result<LinkConfig, ChangeError> {
        match &self.links.get(id.index()).ok_or(ChangeError::NoSuchLink(id))?.kind {
            Kind::Buffer(buffer) => Ok(*buffer.config()),
            Kind::Transparent | Kind::Wire(_) | Kind::Hop(_) => Err(ChangeError::Fixed(id)),
        }
    }

    /// Lets a link behave otherwise.
    pub(crate) fn change<O: Observer>(
        &mut self,
        around: &mut Surroundings<'_, O>,
        id: LinkId,
        config: LinkConfig,
    ) -> Result<(), ChangeError> {
        let link = self.links.get_mut(id.index()).ok_or(ChangeError::NoSuchLink(id))?;
        let Kind::Buffer(buffer) = &mut link.kind else { return Err(ChangeError::Fixed(id)) };
        check_wire(&id.to_string(), &config)?;
        buffer.change(config, around.scheduler.now(), &mut self.done);
        self.settle(around, id);
        Ok(())
    }

    /// Takes a link down or up.
    pub(crate) fn set_up<O: Observer>(
        &mut self,
        around: &mut Surroundings<'_, O>,
        id: LinkId,
        up: bool,
    ) -> Result<(), ChangeError> {
        let link = self.links.get_mut(id.index()).ok_or(ChangeError::NoSuchLink(id))?;
        match &mut link.kind {
            // What waits for it is as good as gone already.
            Kind::Wire(_) => return Err(ChangeError::Fixed(id)),
            Kind::Buffer(buffer) if !up => buffer.interrupt(around.scheduler.now(), &mut self.done),
            Kind::Buffer(_) | Kind::Transparent | Kind::Hop(_) => {}
        }
        link.up = up;
        self.settle(around, id);
        Ok(())
    }

    /// Cuts a node off, or ends that.
    pub(crate) fn cut_off(&mut self, node: NodeId, cut: bool) {
        if cut {
            self.cut_off.insert(node);
        } else {
            self.cut_off.remove(&node);
        }
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
        let payload_bytes = around.packets.get(packet).bytes.len();
        match &mut self.links[id.index()].kind {
            Kind::Wire(wire) => {
                let fate = wire.offer(now, payload_bytes);
                self.follow(around, packet, id, fate);
            }
            Kind::Buffer(buffer) => {
                buffer.offer(now, packet, payload_bytes, &mut self.done);
                self.settle(around, id);
            }
            Kind::Transparent | Kind::Hop(_) => unreachable!("packets are offered to wires only"),
        }
    }

    /// The event of a link that [`Event::Resume`] announced.
    #[inline(never)]
    pub(crate) fn resume<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, link: LinkId, number: u32) {
        let now = around.scheduler.now();
        if let Kind::Buffer(buffer) = &mut self.links[link.index()].kind {
            buffer.resume(now, number, &mut self.done);
            self.settle(around, link);
        }
    }

    /// Lets what a link has done happen.
    fn settle<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, link: LinkId) {
        let mut all = std::mem::take(&mut self.done);
        for done in all.drain(..) {
            match done {
                Done::Refused(packet) => self.drop(around, packet, DropReason::QueueFull(link)),
                Done::Interrupted(packet) => self.drop(around, packet, DropReason::LinkDown(link)),
                Done::DroppedEarly(packet) => self.drop(around, packet, DropReason::DroppedEarly(link)),
                Done::Left(packet, fate) => self.follow(around, packet, link, fate),
                Done::Resumes(at, number) => around.scheduler.schedule(at, Event::Resume { link, number }.into()),
            }
        }
        self.done = all;
    }

    fn follow<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, packet: PacketRef, id: LinkId, fate: Fate) {
        match fate {
            Fate::Refused => self.drop(around, packet, DropReason::QueueFull(id)),
            Fate::Lost(at) => around.scheduler.schedule(at, Event::Lose { packet, link: id }.into()),
            Fate::Arrives(at) => {
                let to = self.links[id.index()].to;
                around.scheduler.schedule(at, Event::Arrive { packet, at: to }.into());
            }
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
