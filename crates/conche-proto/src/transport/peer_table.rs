//! The peer table. When it is full, the peer that has been idle longest is evicted, but not within
//! the idle lifetime: its message IDs could be reused too early, and its RTO would be lost.
//!
//! A datagram with a forged source can create a peer. Such peers count against the
//! [share](crate::shares) of their group. Until the peer has answered a message or its source is
//! validated, it is *unproven*: when the table is full it is evicted for others, even if used
//! recently. A genuine one may then take a new message for a duplicate, with a probability of 2^-16
//! for each message that it received within EXCHANGE_LIFETIME.

use alloc::boxed::Box;
use core::hint::black_box;
use core::num::NonZeroU32;
use core::time::Duration;

use super::message_id::{NextId, UsedIds};
use super::path::{ChoosePath, Entry, PathIndex, PathKey, Paths, TransmissionOutcome};
use super::peer::{
    ControllerId, Controllers, Idle, NonSent, Peer, PeerFlag, PeerFlags, PeerIndex, PeerSnapshot, Trust, Usage,
};
use crate::PeerKey;
use crate::hash::Keyed;
use crate::shares::{CANDIDATES, Group, Shares};
use crate::store::{Arena, ArenaIndex, Chain, Index, Links, List};
use conche_cc::control::{Abandoned, AckKind, AckedCopy, Acknowledged};
use conche_cc::path_history::PathHistory;
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

/// The table is full of peers in use or recently used, or a group has used its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeersFull;

#[derive(Debug)]
pub(crate) struct Peers<P, C: Controller> {
    pub(crate) controllers: Controllers<P, C>,
    paths: Option<Box<Paths<P>>>,
    pub(super) slots: Arena<Peer<P, C>, PeerIndex>,
    index: Index<PeerIndex>,
    hash: Keyed,
    /// Unheld peers: first the lost ones, then the others, idle longest first.
    idle: List<Idle, PeerIndex>,
    /// Idle unproven peers, in the same order, and their shares.
    unproven: List<Idle, PeerIndex>,
    unproven_shares: Shares,
    shares: Shares,
    /// Some unheld peers may be lost.
    may_forget: bool,
    /// The peer found last, if it still exists.
    recent: PeerIndex,
    capacity: usize,
    idle_lifetime: Duration,
    /// Minimum retention of a peer: its message IDs must not be drawn again within
    /// EXCHANGE_LIFETIME.
    retention: Duration,
}

impl<P: PeerKey, C: Controller> Peers<P, C> {
    /// Bytes of an idle peer with its index entry, without the controller's allocations.
    pub(crate) const BYTES: usize = Arena::<Peer<P, C>, PeerIndex>::PLACE_BYTES + Index::<PeerIndex>::BYTES;

    pub(crate) fn new(
        controller: C,
        capacity: usize,
        idle_lifetime: Duration,
        exchange_lifetime: Duration,
        hash: Keyed,
    ) -> Self {
        Self {
            controllers: Controllers::new(controller),
            paths: None,
            slots: Arena::new(),
            index: Index::new(),
            hash,
            idle: List::new(),
            unproven: List::new(),
            unproven_shares: Shares::default(),
            shares: Shares::default(),
            may_forget: false,
            recent: PeerIndex::NONE,
            capacity,
            idle_lifetime,
            retention: idle_lifetime.max(exchange_lifetime),
        }
    }

    #[inline]
    pub(crate) fn find(&mut self, key: &P, hash: u64) -> Option<PeerIndex> {
        let found =
            self.recent(key).or_else(|| self.index.find(&self.slots, hash, |peer: &Peer<P, C>| peer.key == *key));
        self.recent = found.unwrap_or(self.recent);
        found
    }

    /// Needs no hash if the peer was found last.
    #[inline]
    pub(crate) fn find_unhashed(&mut self, key: &P) -> Option<PeerIndex> {
        self.recent(key).or_else(|| self.find(key, self.hash(key)))
    }

    #[inline]
    fn recent(&self, key: &P) -> Option<PeerIndex> {
        self.slots.get(self.recent).filter(|peer| peer.key == *key).map(|_| self.recent)
    }

    #[inline]
    pub(crate) fn hash(&self, key: &P) -> u64 {
        self.hash.hash(key)
    }

    pub(crate) fn peek(&self, key: &P) -> Option<PeerIndex> {
        self.recent(key).or_else(|| self.index.peek(&self.slots, self.hash(key), |peer: &Peer<P, C>| peer.key == *key))
    }

    #[inline]
    pub(crate) fn get(&self, index: PeerIndex) -> &Peer<P, C> {
        &self.slots[index]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: PeerIndex) -> &mut Peer<P, C> {
        &mut self.slots[index]
    }

    #[inline]
    pub(crate) fn controlled(&mut self, index: PeerIndex) -> (&mut Peer<P, C>, &C) {
        let peer = &mut self.slots[index];
        let controller = self.controllers.get(peer.controller);
        (peer, controller)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Prefetches the memory of the next step.
    #[inline]
    pub(crate) fn prefetch(&self) {
        black_box((self.idle.first(), self.index.steps()));
        if let Some(peer) = self.slots.get(self.recent) {
            black_box((peer.key, peer.starved_since, peer.flags));
        }
    }

    /// Returns the number of entries visited by all searches.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.index.steps()
    }

    /// Returns the peer `key`, creating it if necessary. State older than the idle lifetime is
    /// reset. The caller must [`hold`](Self::hold) or [`touch`](Self::touch) the peer. A new peer
    /// is charged to `group`; [`Group::NOBODY`] if this endpoint starts the communication.
    #[inline]
    pub(crate) fn open(
        &mut self,
        now: Instant,
        key: P,
        group: Group,
        random: &mut impl RngCore,
    ) -> Result<PeerIndex, PeersFull> {
        if let Some(index) = self.find_unhashed(&key) {
            if let Usage::Idle { last_used, .. } = self.get(index).usage
                && now - last_used > self.idle_lifetime
            {
                self.begin_again(now, index);
            }
            if self.get_mut(index).flags.set(PeerFlag::Lost, false) {
                self.put_in_order(index);
            }
            return Ok(index);
        }
        let theirs = group != Group::NOBODY;
        while self.slots.len() >= self.capacity || theirs && !self.shares.admits(group, 1, self.capacity) {
            self.evict(now, group)?;
        }
        let (controller, control, seeded) = self.begin(now, &key);
        let mut flags = PeerFlags::default();
        flags.set(PeerFlag::Seeded, seeded);
        let first_id = random.next_u32().to_le_bytes();
        let peer = Peer {
            key,
            controller,
            control,
            next_id: NextId::starting_at(u16::from_le_bytes([first_id[0], first_id[1]])),
            used_ids: UsedIds::default(),
            non: NonSent::default(),
            flags,
            starved_since: Instant::FAR_FUTURE,
            trust: Trust::default(),
            exchanges: Chain::new(),
            group,
            usage: Usage::idle(now),
        };
        let index = self.slots.insert(peer).ok_or(PeersFull)?;
        if theirs {
            self.shares.take(group, 1);
        }
        let hash = self.hash(&key);
        self.index.insert(hash, index);
        self.make_idle(now, index);
        Ok(index)
    }

    pub(crate) fn share_paths(&mut self, choose: ChoosePath<P>, most: usize) {
        match &mut self.paths {
            // Exchanges in progress continue.
            Some(paths) => paths.choose = choose,
            None => self.paths = Some(Box::new(Paths::new(choose, most, self.hash))),
        }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = (PathKey, &PathHistory)> {
        self.paths.iter().flat_map(|paths| paths.iter())
    }

    pub(crate) fn remember_path(&mut self, key: PathKey, group: PathHistory) {
        if let Some(paths) = &mut self.paths {
            paths.remember(key, group);
        }
    }

    #[inline]
    pub(crate) fn ask_path(&mut self, now: Instant, index: PeerIndex) -> Entry {
        let Some(paths) = &mut self.paths else { return Entry::Free };
        let peer = &mut self.slots[index];
        paths.ask(now, index, &peer.key, &mut peer.flags)
    }

    pub(crate) fn enter_path(&mut self, path: PathIndex, peer: PeerIndex) {
        if let Some(paths) = &mut self.paths {
            paths.enter(path, peer);
        }
    }

    pub(crate) fn leave_path(&mut self, path: PathIndex, fate: TransmissionOutcome) {
        if let Some(paths) = &mut self.paths {
            paths.leave(path, fate);
        }
    }

    /// Returns a peer whose turn on its path has come.
    #[inline]
    pub(crate) fn next_on_path(&mut self) -> Option<PeerIndex> {
        loop {
            let index = self.paths.as_mut()?.next()?;
            // Since then its message may have been cancelled, or the peer evicted.
            if self.slots.get_mut(index).is_some_and(|peer| peer.flags.set(PeerFlag::Waits, false)) {
                return Some(index);
            }
        }
    }

    /// Returns the number of exchanges over paths with a gate.
    pub(crate) fn over_paths(&self) -> usize {
        self.paths.as_ref().map_or(0, |paths| paths.outstanding())
    }

    pub(crate) fn path(&self, key: &P) -> Option<&PathHistory> {
        self.paths.as_ref().and_then(|paths| paths.to(key))
    }

    pub(crate) fn forget_path(&mut self, key: &P) {
        if let Some(paths) = &mut self.paths {
            paths.forget(key);
        }
    }

    /// Returns controller, congestion state, and whether the path seeded it.
    fn begin(&self, now: Instant, key: &P) -> (ControllerId, C::Peer, bool) {
        let id = self.controllers.of(key);
        let controller = self.controllers.get(id);
        let group = self.path(key).map(|group| group.seen_by(self.hash(key)));
        match group.filter(|group| group.path(now).is_known()) {
            Some(group) => (id, controller.seed(now, &group), true),
            None => (id, controller.peer(now), false),
        }
    }

    pub(crate) fn reset(&mut self, now: Instant, index: PeerIndex) {
        let key = self.get(index).key;
        let (controller, control, seeded) = self.begin(now, &key);
        let peer = self.get_mut(index);
        (peer.controller, peer.control) = (controller, control);
        peer.flags.set(PeerFlag::Seeded, seeded);
        peer.flags.set(PeerFlag::Answered, false);
        peer.starved_since = Instant::FAR_FUTURE;
    }

    /// Reports the first acknowledgement of an exchange to its controller and its path.
    #[inline]
    pub(crate) fn acknowledged(&mut self, index: PeerIndex, flight: &C::Flight, event: &Acknowledged<'_>) {
        let (peer, controller) = self.controlled(index);
        controller.acknowledged(&mut peer.control, flight, event);
        if event.kind != AckKind::Separate && matches!(event.copy, AckedCopy::Exact(_)) {
            peer.flags.set(PeerFlag::Seeded, false);
        }
        peer.flags.set(PeerFlag::Answered, true);
        let key = peer.key;
        if let Some(group) = self.paths.as_mut().and_then(|paths| paths.heard(event.now, &key)) {
            group.acknowledged(self.hash.hash(&key), event);
        }
    }

    pub(crate) fn abandoned(&mut self, index: PeerIndex, flight: &C::Flight, event: &Abandoned<'_>) {
        let (peer, controller) = self.controlled(index);
        controller.abandoned(&mut peer.control, flight, event);
        let key = peer.key;
        if let Some(group) = self.paths.as_mut().and_then(|paths| paths.heard(event.now, &key)) {
            group.abandoned(self.hash.hash(&key), event);
        }
    }

    /// Holds a peer for an exchange or a request with a response to come, until
    /// [`let_go`](Self::let_go).
    #[inline]
    pub(crate) fn hold(&mut self, index: PeerIndex) {
        let usage = &mut self.get_mut(index).usage;
        match usage {
            Usage::Busy { holds, .. } => *holds = holds.saturating_add(1),
            &mut Usage::Idle { links, .. } => {
                *usage = Usage::BUSY;
                self.unlink(index, links);
            }
        }
    }

    pub(crate) fn touch(&mut self, now: Instant, index: PeerIndex) {
        if let Usage::Idle { links, .. } = self.get(index).usage {
            self.unlink(index, links);
            self.make_idle(now, index);
        }
    }

    #[inline]
    pub(crate) fn let_go(&mut self, now: Instant, index: PeerIndex) {
        match &mut self.get_mut(index).usage {
            Usage::Busy { holds, .. } => match NonZeroU32::new(holds.get() - 1) {
                Some(left) => *holds = left,
                None => self.make_idle(now, index),
            },
            Usage::Idle { .. } => unreachable!("what lets go of a peer has held it"),
        }
    }

    #[inline]
    fn make_idle(&mut self, now: Instant, index: PeerIndex) {
        if self.get(index).flags.has(PeerFlag::Lost) {
            self.get_mut(index).usage = Usage::idle(now);
            self.idle.push_front(&mut self.slots, index);
            self.may_forget = true;
            return;
        }
        let peer = self.get(index);
        let (unproven, group) = (peer.is_unproven(), peer.group);
        let list = if unproven { &mut self.unproven } else { &mut self.idle };
        let links = list.append(&mut self.slots, index);
        if unproven {
            self.unproven_shares.take(group, 1);
        }
        let peer = self.get_mut(index);
        peer.flags.set(PeerFlag::Listed, unproven);
        peer.usage = Usage::Idle { last_used: now, links };
    }

    #[inline]
    fn unlink(&mut self, index: PeerIndex, links: Links) {
        if self.get_mut(index).flags.set(PeerFlag::Listed, false) {
            self.unproven_shares.give_back(self.get(index).group, 1);
            self.unproven.unlink(&mut self.slots, links);
        } else {
            self.idle.unlink(&mut self.slots, links);
        }
    }

    /// Moves an unheld peer to its place after a flag changed.
    fn put_in_order(&mut self, index: PeerIndex) {
        if let Usage::Idle { last_used, links } = self.get(index).usage {
            self.unlink(index, links);
            self.make_idle(last_used, index);
        }
    }

    /// Marks a peer as unreachable for ever: it is forgotten once unheld.
    pub(crate) fn lose(&mut self, index: PeerIndex) {
        if !self.get_mut(index).flags.set(PeerFlag::Lost, true) {
            self.put_in_order(index);
        }
    }

    /// Forgets unheld lost peers. Deferred, because a caller may still refer to them.
    #[inline]
    pub(crate) fn forget_lost(&mut self) {
        if core::mem::take(&mut self.may_forget) {
            while let Some(index) = self.idle.first().filter(|&index| self.get(index).flags.has(PeerFlag::Lost)) {
                self.forget(index);
            }
        }
    }

    pub(crate) fn snapshot(&self, index: PeerIndex) -> PeerSnapshot {
        let peer = self.get(index);
        PeerSnapshot {
            controller: peer.controller,
            congestion: self.controllers.get(peer.controller).snapshot(&peer.control),
            outstanding: peer.messages().outstanding,
            queued: peer.messages().queued as usize,
        }
    }

    fn begin_again(&mut self, now: Instant, index: PeerIndex) {
        self.reset(now, index);
        let peer = self.get_mut(index);
        peer.non = NonSent::default();
        peer.trust = Trust::default();
    }

    /// Evicts a lost peer, one past its retention, or the oldest unproven one of the group that
    /// holds most.
    fn evict(&mut self, now: Instant, group: Group) -> Result<(), PeersFull> {
        let may_go = |&index: &PeerIndex| {
            let peer = self.get(index);
            let is_old = matches!(peer.usage, Usage::Idle { last_used, .. } if now - last_used >= self.retention);
            is_old || peer.flags.has(PeerFlag::Lost)
        };
        let old = self.idle.first().filter(may_go).or(self.unproven.first().filter(may_go));
        let index = match old {
            Some(old) => old,
            None => self.displaceable(group).ok_or(PeersFull)?,
        };
        self.forget(index);
        Ok(())
    }

    fn displaceable(&mut self, group: Group) -> Option<PeerIndex> {
        if group != Group::NOBODY && !self.shares.could_admit(group, 1, self.capacity, &self.unproven_shares) {
            return None;
        }
        let oldest = self.unproven.first_few(&mut self.slots, CANDIDATES);
        // The oldest, if several groups hold equally many.
        let index = oldest.into_iter().rev().max_by_key(|&index| self.unproven_shares.held(self.slots[index].group))?;
        self.unproven_shares.may_displace(group, 0, self.slots[index].group).then_some(index)
    }

    pub(crate) fn unproven_of(&self, group: Group) -> usize {
        if group == Group::NOBODY { 0 } else { self.unproven_shares.excess(group, 1) }
    }

    /// Returns `true` if the table is full, not only the share of a group.
    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= self.capacity
    }

    pub(crate) fn has_answered(&self, index: PeerIndex) -> bool {
        self.get(index).flags.has(PeerFlag::Answered)
    }

    pub(crate) fn validated(&mut self, index: PeerIndex) {
        self.get_mut(index).flags.set(PeerFlag::Validated, true);
    }

    pub(crate) fn is_measured(&self, index: PeerIndex) -> bool {
        let peer = self.get(index);
        let controller = self.controllers.get(peer.controller);
        !peer.flags.has(PeerFlag::Seeded) && controller.snapshot(&peer.control).srtt.is_some()
    }

    fn forget(&mut self, index: PeerIndex) {
        let peer = self.get(index);
        let group = peer.group;
        if let Usage::Idle { links, .. } = peer.usage {
            self.unlink(index, links);
        }
        self.index.remove(index);
        if group != Group::NOBODY {
            self.shares.give_back(group, 1);
        }
        self.slots.remove(index);
    }
}
