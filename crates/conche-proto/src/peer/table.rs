//! The table of peers: bounded. When it is full, the peer that has been idle longest makes room,
//! but not within the idle lifetime: its message IDs could be reused too early, and its RTO would
//! be forgotten.
//!
//! Any datagram with a forged source can make a peer. So peers that made themselves count in the
//! [share](crate::shares) of their group. Until such a peer has answered a message of this
//! endpoint, or its source is validated, it is *unproven*: when the table is full it makes room for
//! others however lately it was used. A forged source does not notice that, and no RTO is lost. A
//! genuine one may take a new message for a duplicate of an old one with a probability of 2^-16 for
//! each message that it was sent within EXCHANGE_LIFETIME.

use alloc::boxed::Box;
use core::hint::black_box;
use core::num::NonZeroU32;
use core::time::Duration;

use rand_core::RngCore;

use super::non::NonSent;
use super::paths::{ChoosePath, Entry, Fate, Paths};
use super::trust::Trust;
use super::usage::Usage;
use super::{ControllerId, Controllers, Idle, Mark, Marks, PathKey, Peer, PeerSnapshot};
use crate::PeerKey;
use crate::hash::Keyed;
use crate::message::{NextId, UsedIds};
use crate::shares::{CANDIDATES, Group, Shares};
use crate::store::{Arena, Chain, Index, Links, List, NIL};
use conche_cc::control::{Abandoned, AckKind, AckedCopy, Acknowledged};
use conche_cc::group::Group as PathGroup;
use conche_cc::{Controller, Instant};

/// The table is full of peers that are in use or were until lately, or a group has its share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeersFull;

/// All peers of an endpoint, and the controllers that they have.
#[derive(Debug)]
pub(crate) struct Peers<P, C: Controller> {
    pub(crate) controllers: Controllers<P, C>,
    paths: Option<Box<Paths<P>>>,
    pub(super) slots: Arena<Peer<P, C>>,
    index: Index,
    hash: Keyed,
    /// Those that nothing holds: first those that are lost, and then the others, idle longest first.
    idle: List<Idle>,
    /// Idle peers that are unproven, in the same order, and their shares.
    unproven: List<Idle>,
    unproven_shares: Shares,
    /// Of peers that they themselves made.
    shares: Shares,
    /// Some of those that nothing holds may be lost.
    may_forget: bool,
    /// The one that was found last, if it is there still.
    recent: u32,
    capacity: usize,
    idle_lifetime: Duration,
    /// How long a peer is kept at least: its message IDs must not be drawn anew within EXCHANGE_LIFETIME.
    retention: Duration,
}

impl<P: PeerKey, C: Controller> Peers<P, C> {
    /// Bytes of an idle peer with its place in the index, without what its controller allocates.
    pub(crate) const BYTES: usize = Arena::<Peer<P, C>>::PLACE_BYTES + Index::BYTES;

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
            recent: NIL,
            capacity,
            idle_lifetime,
            retention: idle_lifetime.max(exchange_lifetime),
        }
    }

    /// The peer with this key, whose [hash](Self::hash) is known already.
    #[inline]
    pub(crate) fn find(&mut self, key: &P, hash: u64) -> Option<u32> {
        let found =
            self.recent(key).or_else(|| self.index.find(&self.slots, hash, |peer: &Peer<P, C>| peer.key == *key));
        self.recent = found.unwrap_or(self.recent);
        found
    }

    /// The same where nobody needs the hash: there is none, if this peer was found last.
    #[inline]
    pub(crate) fn find_unhashed(&mut self, key: &P) -> Option<u32> {
        self.recent(key).or_else(|| self.find(key, self.hash(key)))
    }

    /// The peer that was found last, if this is its key: what comes and goes often does so with one peer.
    #[inline]
    fn recent(&self, key: &P) -> Option<u32> {
        self.slots.get(self.recent).filter(|peer| peer.key == *key).map(|_| self.recent)
    }

    /// The hash of a peer's key.
    #[inline]
    pub(crate) fn hash(&self, key: &P) -> u64 {
        self.hash.hash(key)
    }

    /// The same for those who only look.
    pub(crate) fn peek(&self, key: &P) -> Option<u32> {
        self.recent(key).or_else(|| self.index.peek(&self.slots, self.hash(key), |peer: &Peer<P, C>| peer.key == *key))
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Peer<P, C> {
        &self.slots[index]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Peer<P, C> {
        &mut self.slots[index]
    }

    /// A peer and its controller.
    #[inline]
    pub(crate) fn controlled(&mut self, index: u32) -> (&mut Peer<P, C>, &C) {
        let peer = &mut self.slots[index];
        let controller = self.controllers.get(peer.controller);
        (peer, controller)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Reads what the next step is likely to need.
    #[inline]
    pub(crate) fn glance(&self) {
        black_box((self.idle.first(), self.index.steps()));
        if let Some(peer) = self.slots.get(self.recent) {
            black_box((peer.key, peer.starved_since, peer.marks));
        }
    }

    /// Entries looked at by all searches so far.
    pub(crate) fn steps(&self) -> u64 {
        self.index.steps()
    }

    /// The peer `key`, whose state is made with a random first message ID or, after a long idle time, made anew: what was
    /// learnt then says nothing of now. Who opens it must [`hold`](Self::hold) it or [`touch`](Self::touch) it. If there is
    /// none, it is made at the expense of `group`, or of [`Group::NOBODY`] if it is we who want something of it.
    #[inline]
    pub(crate) fn open(
        &mut self,
        now: Instant,
        key: P,
        group: Group,
        random: &mut impl RngCore,
    ) -> Result<u32, PeersFull> {
        if let Some(index) = self.find_unhashed(&key) {
            if let Usage::Idle { last_used, .. } = self.get(index).usage
                && now - last_used > self.idle_lifetime
            {
                self.begin_anew(now, index);
            }
            if self.get_mut(index).marks.set(Mark::Lost, false) {
                self.put_in_order(index);
            }
            return Ok(index);
        }
        let theirs = group != Group::NOBODY;
        while self.slots.len() >= self.capacity || theirs && !self.shares.admits(group, 1, self.capacity) {
            self.evict(now, group)?;
        }
        let (controller, control, seeded) = self.begin(now, &key);
        let mut marks = Marks::default();
        marks.set(Mark::Seeded, seeded);
        let first_id = random.next_u32().to_le_bytes();
        let peer = Peer {
            key,
            controller,
            control,
            next_id: NextId::starting_at(u16::from_le_bytes([first_id[0], first_id[1]])),
            used_ids: UsedIds::default(),
            non: NonSent::default(),
            marks,
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

    /// Peers share what they find out of their path, of so many paths at most.
    pub(crate) fn share_paths(&mut self, choose: ChoosePath<P>, most: usize) {
        match &mut self.paths {
            // What goes on over a path goes on.
            Some(paths) => paths.choose = choose,
            None => self.paths = Some(Box::new(Paths::new(choose, most, self.hash))),
        }
    }

    /// What is known of all paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (PathKey, &PathGroup)> {
        self.paths.iter().flat_map(|paths| paths.iter())
    }

    /// What was known of a path once.
    pub(crate) fn remember_path(&mut self, key: PathKey, group: PathGroup) {
        if let Some(paths) = &mut self.paths {
            paths.remember(key, group);
        }
    }

    /// May an exchange with a peer begin, as far as its path is concerned?
    #[inline]
    pub(crate) fn ask_path(&mut self, now: Instant, index: u32) -> Entry {
        let Some(paths) = &mut self.paths else { return Entry::Free };
        let peer = &mut self.slots[index];
        paths.ask(now, index, &peer.key, &mut peer.marks)
    }

    /// An exchange with a peer begins on this path.
    pub(crate) fn enter_path(&mut self, path: u32, peer: u32) {
        if let Some(paths) = &mut self.paths {
            paths.enter(path, peer);
        }
    }

    /// An exchange does not go on any more, as far as this path is concerned.
    pub(crate) fn leave_path(&mut self, path: u32, fate: Fate) {
        if let Some(paths) = &mut self.paths {
            paths.leave(path, fate);
        }
    }

    /// A peer that has waited for its turn on its path, and may ask again.
    #[inline]
    pub(crate) fn next_on_path(&mut self) -> Option<u32> {
        loop {
            let index = self.paths.as_mut()?.next()?;
            // Its message may have been cancelled, and it may have made room for another peer, since it began to wait.
            if self.slots.get_mut(index).is_some_and(|peer| peer.marks.set(Mark::Waits, false)) {
                return Some(index);
            }
        }
    }

    /// Exchanges that go on over paths with a gate.
    pub(crate) fn over_paths(&self) -> usize {
        self.paths.as_ref().map_or(0, |paths| paths.outstanding())
    }

    /// What is known of the path to a peer.
    pub(crate) fn path(&self, key: &P) -> Option<&PathGroup> {
        self.paths.as_ref().and_then(|paths| paths.to(key))
    }

    /// Forgets what the peers of a path have found out.
    pub(crate) fn forget_path(&mut self, key: &P) {
        if let Some(paths) = &mut self.paths {
            paths.forget(key);
        }
    }

    /// The controller of a destination of which nothing is known but its path, its state, and whether that says anything.
    fn begin(&self, now: Instant, key: &P) -> (ControllerId, C::Peer, bool) {
        let id = self.controllers.of(key);
        let controller = self.controllers.get(id);
        let group = self.path(key).map(|group| group.seen_by(self.hash(key)));
        match group.filter(|group| group.path(now).is_known()) {
            Some(group) => (id, controller.seed(now, &group), true),
            None => (id, controller.peer(now), false),
        }
    }

    /// Forgets what was learnt of a peer: its state is that of one that has just come.
    pub(crate) fn reset(&mut self, now: Instant, index: u32) {
        let key = self.get(index).key;
        let (controller, control, seeded) = self.begin(now, &key);
        let peer = self.get_mut(index);
        (peer.controller, peer.control) = (controller, control);
        peer.marks.set(Mark::Seeded, seeded);
        peer.marks.set(Mark::Answered, false);
        peer.starved_since = Instant::FAR_FUTURE;
    }

    /// The first acknowledgement of an exchange arrived: its controller learns of it, and its path.
    #[inline]
    pub(crate) fn acknowledged(&mut self, index: u32, flight: &C::Flight, event: &Acknowledged<'_>) {
        let (peer, controller) = self.controlled(index);
        controller.acknowledged(&mut peer.control, flight, event);
        if event.kind != AckKind::Separate && matches!(event.copy, AckedCopy::Exact(_)) {
            peer.marks.set(Mark::Seeded, false);
        }
        peer.marks.set(Mark::Answered, true);
        let key = peer.key;
        if let Some(group) = self.paths.as_mut().and_then(|paths| paths.heard(event.now, &key)) {
            group.acknowledged(self.hash.hash(&key), event);
        }
    }

    /// An exchange ended without an acknowledgement.
    pub(crate) fn abandoned(&mut self, index: u32, flight: &C::Flight, event: &Abandoned<'_>) {
        let (peer, controller) = self.controlled(index);
        controller.abandoned(&mut peer.control, flight, event);
        let key = peer.key;
        if let Some(group) = self.paths.as_mut().and_then(|paths| paths.heard(event.now, &key)) {
            group.abandoned(self.hash.hash(&key), event);
        }
    }

    /// Something needs this peer until it lets go: an exchange, or a request whose response will.
    #[inline]
    pub(crate) fn hold(&mut self, index: u32) {
        let usage = &mut self.get_mut(index).usage;
        match usage {
            Usage::Busy { holds, .. } => *holds = holds.saturating_add(1),
            &mut Usage::Idle { links, .. } => {
                *usage = Usage::BUSY;
                self.unlink(index, links);
            }
        }
    }

    /// A peer was used that nothing holds: it moves to the young end.
    pub(crate) fn touch(&mut self, now: Instant, index: u32) {
        if let Usage::Idle { links, .. } = self.get(index).usage {
            self.unlink(index, links);
            self.make_idle(now, index);
        }
    }

    #[inline]
    pub(crate) fn let_go(&mut self, now: Instant, index: u32) {
        match &mut self.get_mut(index).usage {
            Usage::Busy { holds, .. } => match NonZeroU32::new(holds.get() - 1) {
                Some(left) => *holds = left,
                None => self.make_idle(now, index),
            },
            Usage::Idle { .. } => unreachable!("what lets go of a peer has held it"),
        }
    }

    #[inline]
    fn make_idle(&mut self, now: Instant, index: u32) {
        if self.get(index).marks.has(Mark::Lost) {
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
        peer.marks.set(Mark::Listed, unproven);
        peer.usage = Usage::Idle { last_used: now, links };
    }

    /// An idle peer leaves its list.
    #[inline]
    fn unlink(&mut self, index: u32, links: Links) {
        if self.get_mut(index).marks.set(Mark::Listed, false) {
            self.unproven_shares.give_back(self.get(index).group, 1);
            self.unproven.unlink(&mut self.slots, links);
        } else {
            self.idle.unlink(&mut self.slots, links);
        }
    }

    /// One that nothing holds has become lost, or is lost no more.
    fn put_in_order(&mut self, index: u32) {
        if let Usage::Idle { last_used, links } = self.get(index).usage {
            self.unlink(index, links);
            self.make_idle(last_used, index);
        }
    }

    /// A peer will never be reached again: it is forgotten as soon as nothing holds it.
    pub(crate) fn lose(&mut self, index: u32) {
        if !self.get_mut(index).marks.set(Mark::Lost, true) {
            self.put_in_order(index);
        }
    }

    /// Forgets those that are lost and that nothing holds. Whoever let go of one may have looked at it until now.
    #[inline]
    pub(crate) fn forget_lost(&mut self) {
        if core::mem::take(&mut self.may_forget) {
            while let Some(index) = self.idle.first().filter(|&index| self.get(index).marks.has(Mark::Lost)) {
                self.forget(index);
            }
        }
    }

    pub(crate) fn snapshot(&self, index: u32) -> PeerSnapshot {
        let peer = self.get(index);
        PeerSnapshot {
            controller: peer.controller,
            congestion: self.controllers.get(peer.controller).snapshot(&peer.control),
            outstanding: peer.work().outstanding,
            queued: peer.work().queued as usize,
        }
    }

    fn begin_anew(&mut self, now: Instant, index: u32) {
        self.reset(now, index);
        let peer = self.get_mut(index);
        peer.non = NonSent::default();
        peer.trust = Trust::default();
    }

    /// A peer that nothing holds makes room for one of `group`: one that is lost, if there is any,
    /// or that has been idle for long enough; or else an unproven one, of the oldest ones one of
    /// the group that holds most.
    fn evict(&mut self, now: Instant, group: Group) -> Result<(), PeersFull> {
        let may_go = |&index: &u32| {
            let peer = self.get(index);
            let is_old = matches!(peer.usage, Usage::Idle { last_used, .. } if now - last_used >= self.retention);
            is_old || peer.marks.has(Mark::Lost)
        };
        let old = self.idle.first().filter(may_go).or(self.unproven.first().filter(may_go));
        let index = match old {
            Some(old) => old,
            None => self.displaceable(group).ok_or(PeersFull)?,
        };
        self.forget(index);
        Ok(())
    }

    /// The unproven peer that makes room for one of `group`.
    fn displaceable(&mut self, group: Group) -> Option<u32> {
        if group != Group::NOBODY && !self.shares.could_admit(group, 1, self.capacity, &self.unproven_shares) {
            return None;
        }
        let oldest = self.unproven.first_few(&mut self.slots, CANDIDATES);
        // The oldest, if several groups hold the same number.
        let index = oldest.into_iter().rev().max_by_key(|&index| self.unproven_shares.held(self.slots[index].group))?;
        self.unproven_shares.may_displace(group, 0, self.slots[index].group).then_some(index)
    }

    /// How many idle peers of a group are unproven.
    pub(crate) fn unproven_of(&self, group: Group) -> usize {
        if group == Group::NOBODY { 0 } else { self.unproven_shares.excess(group, 1) }
    }

    /// The table is full, and not only the share of a group.
    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= self.capacity
    }

    /// It has acknowledged a message of ours, or answered it.
    pub(crate) fn has_answered(&self, index: u32) -> bool {
        self.get(index).marks.has(Mark::Answered)
    }

    /// Its source is validated.
    pub(crate) fn validated(&mut self, index: u32) {
        self.get_mut(index).marks.set(Mark::Validated, true);
    }

    /// Its controller has measured the round-trip time to it.
    pub(crate) fn is_measured(&self, index: u32) -> bool {
        let peer = self.get(index);
        let controller = self.controllers.get(peer.controller);
        !peer.marks.has(Mark::Seeded) && controller.snapshot(&peer.control).srtt.is_some()
    }

    /// Forgets a peer that nothing holds.
    fn forget(&mut self, index: u32) {
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
