//! Forwards packets from link to link to their destination.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use super::buffer::LinkAction;
use super::change_error::ChangeError;
use super::link::{FrameOutcome, Kind, Link, LinkConfig};
use super::nat::Nats;
use super::topology::{TopologyError, check_wire};
use crate::event::{Event, EventContext};
use crate::ids::Hop;
use crate::packet::PacketRef;
use crate::trace::{DropReason, Observer};
use crate::{Instant, LinkId, NodeId};

/// Maximum number of links crossed; more indicate a loop.
const HOP_LIMIT: u8 = 64;

#[derive(Debug)]
pub(crate) struct Network {
    links: Vec<Link>,
    routes: Vec<Route>,
    pub(crate) dropped: u64,
    pub(crate) duplicated: u64,
    cut_off: BTreeSet<NodeId>,
    nats: Option<Box<Nats>>,
    actions: Vec<LinkAction>,
    /// Links whose frames wake the sender, with the links toward it.
    waking: BTreeMap<LinkId, Vec<LinkId>>,
}

#[derive(Clone, Debug)]
pub(super) enum Route {
    None,
    Always(LinkId),
    /// This link, if any, with a few exceptions sorted by destination.
    Mostly(Option<LinkId>, Vec<(NodeId, Option<LinkId>)>),
    Table(Vec<Option<LinkId>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardOutcome {
    Consumed,
    /// At its destination, at the same instant.
    Arrived(PacketRef),
    /// At a station, for a radio hop.
    Hop(PacketRef, Hop, LinkId),
}

impl Network {
    pub(super) fn new(
        links: Vec<Link>,
        routes: Vec<Route>,
        waking: BTreeMap<LinkId, Vec<LinkId>>,
        nats: Option<Box<Nats>>,
    ) -> Self {
        let (cut_off, actions) = Default::default();
        Self { links, routes, dropped: 0, duplicated: 0, cut_off, nats, actions, waking }
    }

    pub(crate) fn forward<O: Observer>(
        &mut self,
        around: &mut EventContext<'_, O>,
        packet: PacketRef,
        at: NodeId,
    ) -> ForwardOutcome {
        let (to, mut at) = (around.packets.forwarding(packet).to, at);
        loop {
            if !self.cut_off.is_empty() && self.cut_off.contains(&at) {
                self.drop(around, packet, DropReason::NodeDown(at));
                return ForwardOutcome::Consumed;
            }
            if let Some(nats) = &mut self.nats
                && !nats.translate(around.scheduler.now(), at, to, &mut around.packets.get_mut(packet).meta)
            {
                self.drop(around, packet, DropReason::NoMapping(at));
                return ForwardOutcome::Consumed;
            }
            if at == to {
                return ForwardOutcome::Arrived(packet);
            }
            let Some(id) = self.routes[at.index()].to(to) else {
                self.drop(around, packet, DropReason::NoRoute(at));
                return ForwardOutcome::Consumed;
            };
            let hops = &mut around.packets.forwarding(packet).hops;
            *hops += 1;
            if *hops > HOP_LIMIT {
                self.drop(around, packet, DropReason::HopLimit(at));
                return ForwardOutcome::Consumed;
            }
            let link = &mut self.links[id.index()];
            if !link.up {
                self.drop(around, packet, DropReason::LinkDown(id));
                return ForwardOutcome::Consumed;
            }
            around.observer.on_entered(around.scheduler.now(), around.packets.get(packet), id);
            match &mut link.kind {
                Kind::Transparent => at = link.to,
                Kind::Wire(wire) => {
                    let duplicate = wire.line().duplicates_next().then(|| around.packets.duplicate(packet));
                    self.cross(around, packet, duplicate, id);
                    return ForwardOutcome::Consumed;
                }
                Kind::Buffer(buffer) => {
                    let duplicate = buffer.line().duplicates_next().then(|| around.packets.duplicate(packet));
                    self.cross(around, packet, duplicate, id);
                    return ForwardOutcome::Consumed;
                }
                Kind::Hop(hop) => return ForwardOutcome::Hop(packet, *hop, id),
            }
        }
    }

    pub(crate) fn reaches(&self, at: NodeId, to: NodeId) -> bool {
        let over_link = || {
            let link = &self.links[self.routes[at.index()].to(to)?.index()];
            Some(matches!(link.kind, Kind::Transparent) && link.to == to)
        };
        at == to || over_link().unwrap_or(false)
    }

    /// Returns the nodes from one to another, with both; they end before `to` without a path.
    pub(crate) fn path(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = NodeId> {
        let next = move |at: &NodeId| {
            let id = self.routes[at.index()].to(to).filter(|_| *at != to)?;
            Some(self.links[id.index()].to)
        };
        // A longer walk goes in a circle.
        std::iter::successors(Some(from), next).take(self.routes.len() + 1)
    }

    pub(crate) fn mapped_address(&self, now: Instant, node: NodeId) -> Option<NodeId> {
        self.nats.as_ref()?.address(now, node)
    }

    pub(crate) fn rebind(&mut self, node: NodeId) -> bool {
        self.nats.as_mut().is_some_and(|nats| nats.rebind(node))
    }

    pub(crate) fn prefetch(&self, node: NodeId) {
        if let Route::Always(id) = self.routes[node.index()] {
            black_box(self.links[id.index()].up);
        }
    }

    pub(crate) fn config(&self, id: LinkId) -> Result<LinkConfig, ChangeError> {
        match &self.links.get(id.index()).ok_or(ChangeError::NoSuchLink(id))?.kind {
            Kind::Buffer(buffer) => Ok(*buffer.config()),
            Kind::Transparent | Kind::Wire(_) | Kind::Hop(_) => Err(ChangeError::Fixed(id)),
        }
    }

    pub(crate) fn is_up(&self, id: LinkId) -> Option<bool> {
        self.links.get(id.index()).map(|link| link.up)
    }

    pub(crate) fn waiting(&self, id: LinkId, now: Instant) -> Option<(u64, u64)> {
        match &self.links.get(id.index())?.kind {
            Kind::Wire(wire) => wire.waiting(now),
            Kind::Buffer(buffer) => Some(buffer.waiting()),
            Kind::Transparent | Kind::Hop(_) => None,
        }
    }

    pub(crate) fn change<O: Observer>(
        &mut self,
        around: &mut EventContext<'_, O>,
        id: LinkId,
        config: LinkConfig,
    ) -> Result<(), ChangeError> {
        let link = self.links.get_mut(id.index()).ok_or(ChangeError::NoSuchLink(id))?;
        let Kind::Buffer(buffer) = &mut link.kind else { return Err(ChangeError::Fixed(id)) };
        check_wire(&id.to_string(), &config)?;
        let awaits = |config: &LinkConfig| config.wakes.is_some_and(|wakes| wakes.awaits_uplinks());
        if awaits(&config) && !self.waking.values().flatten().any(|sleeping| *sleeping == id) {
            return Err(TopologyError::LateUplinks(id.to_string()).into());
        }
        buffer.change(config, around.scheduler.now(), &mut self.actions);
        self.settle(around, id);
        Ok(())
    }

    pub(crate) fn set_up<O: Observer>(
        &mut self,
        around: &mut EventContext<'_, O>,
        id: LinkId,
        up: bool,
    ) -> Result<(), ChangeError> {
        let link = self.links.get_mut(id.index()).ok_or(ChangeError::NoSuchLink(id))?;
        match &mut link.kind {
            // Departures are already scheduled.
            Kind::Wire(_) => return Err(ChangeError::Fixed(id)),
            Kind::Buffer(buffer) if !up => buffer.interrupt(around.scheduler.now(), &mut self.actions),
            Kind::Buffer(_) | Kind::Transparent | Kind::Hop(_) => {}
        }
        link.up = up;
        self.settle(around, id);
        Ok(())
    }

    pub(crate) fn cut_off(&mut self, node: NodeId, cut: bool) {
        if cut {
            self.cut_off.insert(node);
        } else {
            self.cut_off.remove(&node);
        }
    }

    /// Handles [`Event::Lose`].
    pub(crate) fn lose<O: Observer>(&mut self, around: &mut EventContext<'_, O>, packet: PacketRef, link: LinkId) {
        self.drop(around, packet, DropReason::Lost(link));
    }

    pub(crate) fn refuse<O: Observer>(&mut self, around: &mut EventContext<'_, O>, packet: PacketRef, at: NodeId) {
        self.drop(around, packet, DropReason::NoHost(at));
    }

    fn cross<O: Observer>(
        &mut self,
        around: &mut EventContext<'_, O>,
        packet: PacketRef,
        duplicate: Option<PacketRef>,
        id: LinkId,
    ) {
        if let Some(duplicate) = duplicate {
            self.duplicated += 1;
            around.observer.on_duplicated(around.scheduler.now(), around.packets.get(duplicate), id);
        }
        self.enqueue(around, packet, id);
        if let Some(duplicate) = duplicate {
            self.enqueue(around, duplicate, id);
        }
    }

    fn enqueue<O: Observer>(&mut self, around: &mut EventContext<'_, O>, packet: PacketRef, id: LinkId) {
        let now = around.scheduler.now();
        let payload_bytes = around.packets.forwarding(packet).payload_bytes;
        match &mut self.links[id.index()].kind {
            Kind::Wire(wire) => {
                let outcome = match wire.accept(now, payload_bytes) {
                    None => FrameOutcome::Refused,
                    Some(departure) => {
                        around.observer.on_queued(now, id, departure);
                        let outcome = wire.line().leave(departure);
                        self.follow(around, packet, id, outcome);
                        return self.wake(around, id, departure, outcome);
                    }
                };
                self.follow(around, packet, id, outcome);
            }
            Kind::Buffer(buffer) => {
                buffer.enqueue(now, packet, payload_bytes, &mut self.actions);
                self.settle(around, id);
            }
            Kind::Transparent | Kind::Hop(_) => unreachable!("packets are offered to wires only"),
        }
    }

    /// Handles [`Event::Resume`].
    #[inline(never)]
    pub(crate) fn resume<O: Observer>(&mut self, around: &mut EventContext<'_, O>, link: LinkId, number: u32) {
        let now = around.scheduler.now();
        if let Kind::Buffer(buffer) = &mut self.links[link.index()].kind {
            buffer.resume(now, number, &mut self.actions);
            self.settle(around, link);
        }
    }

    fn settle<O: Observer>(&mut self, around: &mut EventContext<'_, O>, link: LinkId) {
        let mut all = std::mem::take(&mut self.actions);
        for action in all.drain(..) {
            match action {
                LinkAction::Refused(packet) => self.drop(around, packet, DropReason::QueueFull(link)),
                LinkAction::Interrupted(packet) => self.drop(around, packet, DropReason::LinkDown(link)),
                LinkAction::DroppedEarly(packet) => self.drop(around, packet, DropReason::DroppedEarly(link)),
                LinkAction::Left(packet, outcome) => {
                    self.follow(around, packet, link, outcome);
                    self.wake(around, link, around.scheduler.now(), outcome);
                }
                LinkAction::Resumes(at, number) => around.scheduler.schedule(at, Event::Resume { link, number }),
            }
        }
        self.actions = all;
    }

    /// Opens the links toward a frame's sender, unless the frame is lost.
    fn wake<O: Observer>(
        &mut self,
        around: &mut EventContext<'_, O>,
        uplink: LinkId,
        departure: Instant,
        outcome: FrameOutcome,
    ) {
        let Some(sleeping) = self.waking.get(&uplink).filter(|_| matches!(outcome, FrameOutcome::Arrives(_))) else {
            return;
        };
        for link in sleeping.clone() {
            if let Kind::Buffer(buffer) = &mut self.links[link.index()].kind {
                buffer.open(departure, around.scheduler.now(), &mut self.actions);
                self.settle(around, link);
            }
        }
    }

    fn follow<O: Observer>(
        &mut self,
        around: &mut EventContext<'_, O>,
        packet: PacketRef,
        id: LinkId,
        outcome: FrameOutcome,
    ) {
        match outcome {
            FrameOutcome::Refused => self.drop(around, packet, DropReason::QueueFull(id)),
            FrameOutcome::Lost(at) => around.scheduler.schedule(at, Event::Lose { packet, link: id }),
            FrameOutcome::Arrives(at) => {
                let to = self.links[id.index()].to;
                around.scheduler.schedule(at, Event::arrive(packet, to));
            }
        }
    }

    fn drop<O: Observer>(&mut self, around: &mut EventContext<'_, O>, packet: PacketRef, reason: DropReason) {
        self.dropped += 1;
        around.observer.on_dropped(around.scheduler.now(), around.packets.get(packet), reason);
        around.packets.remove(packet);
    }
}

const ENTRIES_PER_EXCEPTION: usize = 8;

impl Route {
    /// In a tree a node forwards most destinations over one link; full tables are quadratic in
    /// nodes.
    pub(super) fn by_destination(table: &[Option<LinkId>]) -> Self {
        let most = most_common(table);
        let exceptions = || (0..).map(NodeId).zip(table.iter().copied()).filter(|(_, link)| *link != most);
        if exceptions().count() <= table.len() / ENTRIES_PER_EXCEPTION {
            Self::Mostly(most, exceptions().collect())
        } else {
            Self::Table(table.to_vec())
        }
    }

    fn to(&self, destination: NodeId) -> Option<LinkId> {
        match self {
            Self::None => None,
            Self::Always(link) => Some(*link),
            Self::Mostly(link, exceptions) => {
                let exception = exceptions.binary_search_by_key(&destination, |(of, _)| *of);
                exception.map_or(*link, |place| exceptions[place].1)
            }
            Self::Table(table) => table.get(destination.index()).copied().flatten(),
        }
    }

    pub(super) fn set(&mut self, destination: NodeId, link: Option<LinkId>) {
        match self {
            Self::None => *self = Self::Mostly(None, vec![(destination, link)]),
            Self::Always(always) => *self = Self::Mostly(Some(*always), vec![(destination, link)]),
            Self::Mostly(_, exceptions) => match exceptions.binary_search_by_key(&destination, |(of, _)| *of) {
                Ok(place) => exceptions[place].1 = link,
                Err(place) => exceptions.insert(place, (destination, link)),
            },
            Self::Table(table) => table[destination.index()] = link,
        }
    }
}

/// Returns a table's majority entry (Boyer and Moore 1981).
fn most_common(table: &[Option<LinkId>]) -> Option<LinkId> {
    let (mut candidate, mut lead) = (None, 0_usize);
    for link in table {
        match lead {
            0 => (candidate, lead) = (*link, 1),
            _ if *link == candidate => lead += 1,
            _ => lead -= 1,
        }
    }
    candidate
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_route_equals_its_table(
            most in prop::option::of(0..9_u32),
            others in prop::collection::vec((0..100_usize, prop::option::of(0..9_u32)), 0..60),
            set in prop::collection::vec((0..100_u32, 0..9_u32), 0..20),
        ) {
            let mut table = vec![most.map(LinkId); 100];
            others.into_iter().for_each(|(place, link)| table[place] = link.map(LinkId));
            let mut route = Route::by_destination(&table);
            for (place, link) in set {
                route.set(NodeId(place), Some(LinkId(link)));
                table[place as usize] = Some(LinkId(link));
            }
            let said: Vec<_> = (0..100).map(|place| route.to(NodeId(place))).collect();
            prop_assert_eq!(said, table);
        }
    }
}
