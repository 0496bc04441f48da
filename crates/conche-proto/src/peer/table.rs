//! The table of peers: bounded, and when it is full the peer that has been idle longest makes room, but never one that
//! was used within the idle lifetime: its message IDs could be reused too early, and its RTO would be forgotten.
//!
//! Any datagram with a forged source can make a peer. So those that we did not ask for count in the
//! [share](crate::shares) of their group, and leave room for others and for our own.

use core::time::Duration;

use rand_core::RngCore;

use super::non::NonSent;
use super::trust::Trust;
use super::{Controllers, Peer, PeerSnapshot};
use crate::PeerKey;
use crate::hash::Keyed;
use crate::message::MessageIds;
use crate::shares::{Group, Shares};
use crate::store::{Arena, Chain, Chained, Index, Linked, Links, List};
use conche_cc::{Controller, Instant};

/// The table is full of peers that are in use or were until lately, or a group has its share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeersFull;

#[derive(Debug)]
struct ByKey;

impl<P, C: Controller> Chained<ByKey> for Peer<P, C> {
    fn chain(&self) -> Chain {
        self.chain
    }

    fn set_chain(&mut self, chain: Chain) {
        self.chain = chain;
    }
}

#[derive(Debug)]
struct Idle;

impl<P, C: Controller> Linked<Idle> for Peer<P, C> {
    fn links(&mut self) -> &mut Links {
        &mut self.idle
    }
}

/// All peers of an endpoint, and the controllers that they have.
#[derive(Debug)]
pub(crate) struct Peers<P, C: Controller> {
    pub(crate) controllers: Controllers<P, C>,
    slots: Arena<Peer<P, C>>,
    index: Index<ByKey>,
    hash: Keyed,
    /// Those that nothing holds, idle longest first.
    idle: List<Idle>,
    /// Of peers that they themselves made.
    shares: Shares,
    capacity: usize,
    idle_lifetime: Duration,
    /// How long a peer is kept at least: its message IDs must not be drawn anew within EXCHANGE_LIFETIME.
    retention: Duration,
}

impl<P: PeerKey, C: Controller> Peers<P, C> {
    /// Bytes of an idle peer with its place in the index, without what its controller allocates.
    pub(crate) const BYTES: usize = Arena::<Peer<P, C>>::PLACE_BYTES + Index::<ByKey>::BYTES;

    pub(crate) fn new(
        controller: C,
        capacity: usize,
        idle_lifetime: Duration,
        exchange_lifetime: Duration,
        hash: Keyed,
    ) -> Self {
        Self {
            controllers: Controllers::new(controller),
            slots: Arena::new(),
            index: Index::new(),
            hash,
            idle: List::new(),
            shares: Shares::default(),
            capacity,
            idle_lifetime,
            retention: idle_lifetime.max(exchange_lifetime),
        }
    }

    /// The peer with this key, whose [hash](Self::hash) is known already.
    pub(crate) fn find(&mut self, key: &P, hash: u64) -> Option<u32> {
        self.index.find(&self.slots, hash, |peer: &Peer<P, C>| peer.key == *key)
    }

    /// The hash of a peer's key.
    pub(crate) fn hash(&self, key: &P) -> u64 {
        self.hash.hash(key)
    }

    /// The same for those who only look.
    pub(crate) fn peek(&self, key: &P) -> Option<u32> {
        self.index.peek(&self.slots, self.hash(key), |peer: &Peer<P, C>| peer.key == *key)
    }

    pub(crate) fn get(&self, index: u32) -> &Peer<P, C> {
        &self.slots[index]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Peer<P, C> {
        &mut self.slots[index]
    }

    /// A peer and its controller.
    pub(crate) fn controlled(&mut self, index: u32) -> (&mut Peer<P, C>, &C) {
        let peer = &mut self.slots[index];
        let controller = self.controllers.get(peer.controller);
        (peer, controller)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Entries looked at by all searches so far.
    pub(crate) fn steps(&self) -> u64 {
        self.index.steps()
    }

    /// The peer `key`, whose state is made with a random first message ID or, after a long idle time, made anew: what was
    /// learnt then says nothing of now. Who opens it must [`hold`](Self::hold) it or [`touch`](Self::touch) it. If there is
    /// none, it is made at the expense of `group`, or of [`Group::NOBODY`] if it is we who want something of it.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        key: P,
        group: Group,
        random: &mut impl RngCore,
    ) -> Result<u32, PeersFull> {
        let hash = self.hash(&key);
        if let Some(index) = self.find(&key, hash) {
            let peer = self.get(index);
            if peer.holds == 0 && now - peer.last_used > self.idle_lifetime {
                self.begin_anew(now, index);
            }
            return Ok(index);
        }
        let theirs = group != Group::NOBODY;
        while self.slots.len() >= self.capacity || theirs && !self.shares.admits(group, 1, self.capacity) {
            self.evict(now)?;
        }
        let (controller, control) = self.controllers.begin(now, &key);
        let first_id = random.next_u32().to_le_bytes();
        let peer = Peer {
            key,
            controller,
            control,
            ids: MessageIds::starting_at(u16::from_le_bytes([first_id[0], first_id[1]])),
            queue: List::new(),
            queued: 0,
            outstanding: 0,
            outstanding_bytes: 0,
            non: NonSent::default(),
            silent: false,
            starved_since: Instant::FAR_FUTURE,
            trust: Trust::default(),
            group,
            holds: 0,
            last_used: now,
            idle: Links::default(),
            chain: Chain::default(),
        };
        let index = self.slots.insert(peer).ok_or(PeersFull)?;
        if theirs {
            self.shares.take(group, 1);
        }
        self.index.insert(&mut self.slots, hash, index);
        self.idle.push_back(&mut self.slots, index);
        Ok(index)
    }

    /// Forgets what was learnt of the path to a peer.
    pub(crate) fn reset(&mut self, now: Instant, index: u32) {
        let peer = &mut self.slots[index];
        peer.control = self.controllers.get(peer.controller).peer(now);
        peer.starved_since = Instant::FAR_FUTURE;
    }

    /// Something needs this peer until it lets go: an exchange, or a request whose response will.
    pub(crate) fn hold(&mut self, index: u32) {
        let peer = self.get_mut(index);
        peer.holds += 1;
        if peer.holds == 1 {
            self.idle.remove(&mut self.slots, index);
        }
    }

    /// A peer was used that nothing holds: it moves to the young end.
    pub(crate) fn touch(&mut self, now: Instant, index: u32) {
        self.hold(index);
        self.let_go(now, index);
    }

    pub(crate) fn let_go(&mut self, now: Instant, index: u32) {
        let peer = self.get_mut(index);
        peer.holds -= 1;
        if peer.holds == 0 {
            peer.last_used = now;
            self.idle.push_back(&mut self.slots, index);
        }
    }

    pub(crate) fn snapshot(&self, index: u32) -> PeerSnapshot {
        let peer = self.get(index);
        PeerSnapshot {
            controller: peer.controller,
            congestion: self.controllers.get(peer.controller).snapshot(&peer.control),
            outstanding: peer.outstanding,
            queued: peer.queued as usize,
        }
    }

    fn begin_anew(&mut self, now: Instant, index: u32) {
        let (controller, control) = self.controllers.begin(now, &self.get(index).key);
        let peer = self.get_mut(index);
        (peer.controller, peer.control) = (controller, control);
        peer.non = NonSent::default();
        peer.starved_since = Instant::FAR_FUTURE;
        peer.trust = Trust::default();
    }

    fn evict(&mut self, now: Instant) -> Result<(), PeersFull> {
        let index = self.idle.first().ok_or(PeersFull)?;
        let &Peer { last_used, group, .. } = self.get(index);
        if now - last_used < self.retention {
            return Err(PeersFull);
        }
        self.idle.remove(&mut self.slots, index);
        self.index.remove(&mut self.slots, index);
        if group != Group::NOBODY {
            self.shares.give_back(group, 1);
        }
        self.slots.remove(index);
        Ok(())
    }
}
