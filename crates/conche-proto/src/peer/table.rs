//! The table of peers: bounded, and when it is full the peer that has been idle longest makes room, but never one that
//! was used within the idle lifetime: its message IDs could be reused too early, and its RTO would be forgotten.

use alloc::collections::VecDeque;
use core::hash::BuildHasher;
use core::time::Duration;

use hashbrown::HashMap;
use slab::Slab;
use smallvec::SmallVec;

use super::{ControllerId, Peer};
use crate::PeerKey;
use crate::message::MessageIds;
use conche_cc::control::NonHistory;
use conche_cc::{Controller, Instant};

const OLDER: usize = 0;
const YOUNGER: usize = 1;

/// The table is full of peers that are in use or were until lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeersFull;

/// All peers of an endpoint.
#[derive(Debug)]
pub(crate) struct Peers<P, C: Controller, S> {
    index: HashMap<P, u32, S>,
    peers: Slab<Peer<P, C>>,
    capacity: usize,
    idle_lifetime: Duration,
    /// How long a peer is kept at least: its message IDs must not be drawn anew within EXCHANGE_LIFETIME.
    retention: Duration,
    /// The ends of the list of idle peers: idle longest, idle shortest.
    longest_idle: Option<u32>,
    shortest_idle: Option<u32>,
}

impl<P: PeerKey, C: Controller, S: BuildHasher> Peers<P, C, S> {
    pub(crate) fn new(capacity: usize, idle_lifetime: Duration, exchange_lifetime: Duration, hasher: S) -> Self {
        Self {
            index: HashMap::with_hasher(hasher),
            peers: Slab::new(),
            capacity,
            idle_lifetime,
            retention: idle_lifetime.max(exchange_lifetime),
            longest_idle: None,
            shortest_idle: None,
        }
    }

    pub(crate) fn find(&self, key: &P) -> Option<u32> {
        if self.index.is_empty() { None } else { self.index.get(key).copied() }
    }

    pub(crate) fn get(&self, index: u32) -> &Peer<P, C> {
        &self.peers[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Peer<P, C> {
        &mut self.peers[index as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// The peer `key`, whose state is made (from a controller and a random first message ID) or, after a long idle
    /// time, made anew where it was not used for the idle lifetime: what was learnt then says nothing of now.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        key: P,
        control: impl FnOnce(&P) -> (ControllerId, C::Peer),
        first_id: impl FnOnce() -> u16,
    ) -> Result<u32, PeersFull> {
        if let Some(index) = self.find(&key) {
            let peer = self.get_mut(index);
            if peer.exchanges.is_empty() {
                if now - peer.last_used > self.idle_lifetime {
                    let peer = self.get_mut(index);
                    (peer.controller, peer.control) = control(&key);
                    peer.non = NonHistory::default();
                    peer.starved_since = None;
                    peer.mismatched_acks = 0;
                }
                self.used(now, index);
            }
            return Ok(index);
        }
        if self.peers.len() >= self.capacity {
            self.evict(now)?;
        }
        let (controller, state) = control(&key);
        let index = self.peers.insert(Peer {
            key,
            controller,
            control: state,
            ids: MessageIds::starting_at(first_id()),
            exchanges: SmallVec::new(),
            queue: VecDeque::new(),
            outstanding: 0,
            outstanding_bytes: 0,
            non: NonHistory::default(),
            silent: false,
            starved_since: None,
            mismatched_acks: 0,
            last_used: now,
            links: [None, None],
        });
        let index = u32::try_from(index).map_err(|_| PeersFull)?;
        self.index.insert(key, index);
        self.link(index);
        Ok(index)
    }

    /// An exchange with this peer begins.
    pub(crate) fn begin(&mut self, peer: u32, exchange: u32) {
        if self.get(peer).exchanges.is_empty() {
            self.unlink(peer);
        }
        self.get_mut(peer).exchanges.push(exchange);
    }

    /// An exchange with this peer is over.
    pub(crate) fn end(&mut self, now: Instant, peer: u32, exchange: u32) {
        let state = self.get_mut(peer);
        if let Some(position) = state.exchanges.iter().position(|&index| index == exchange) {
            state.exchanges.swap_remove(position);
        }
        if state.exchanges.is_empty() {
            state.last_used = now;
            state.queue.shrink_to_fit();
            self.link(peer);
        }
    }

    /// An idle peer was used: it moves to the young end.
    fn used(&mut self, now: Instant, peer: u32) {
        self.unlink(peer);
        self.get_mut(peer).last_used = now;
        self.link(peer);
    }

    fn evict(&mut self, now: Instant) -> Result<(), PeersFull> {
        let index = self.longest_idle.ok_or(PeersFull)?;
        let peer = self.get(index);
        if now - peer.last_used < self.retention {
            return Err(PeersFull);
        }
        let key = peer.key;
        self.unlink(index);
        self.index.remove(&key);
        self.peers.remove(index as usize);
        Ok(())
    }

    fn link(&mut self, index: u32) {
        let older = self.shortest_idle.replace(index);
        self.get_mut(index).links = [older, None];
        match older {
            Some(older) => self.get_mut(older).links[YOUNGER] = Some(index),
            None => self.longest_idle = Some(index),
        }
    }

    fn unlink(&mut self, index: u32) {
        let [older, younger] = core::mem::take(&mut self.get_mut(index).links);
        match older {
            Some(older) => self.get_mut(older).links[YOUNGER] = younger,
            None => self.longest_idle = younger,
        }
        match younger {
            Some(younger) => self.get_mut(younger).links[OLDER] = older,
            None => self.shortest_idle = older,
        }
    }
}
