//! [`Observers`]: the clients that observe resources of this endpoint (RFC 7641 §4).
//!
//! An observer has at most one notification in progress. A newer state supersedes or follows it, so
//! that nothing queues up for a slow client. Bounded in total, per peer, and per group of sources
//! by its [share](crate::shares).

use alloc::collections::BTreeMap;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use super::entry::{Observer, ObservingPeer, OfPresence, Presence, Progress};
use super::sequence::Sequence;
use super::topics::{Topic, Walking};
use crate::blockwise::Asked;
use crate::codec::{MessageId, Token};
use crate::config::{Limits, ObserverChecks, SharedConfig};
use crate::hash::Keyed;
use crate::security::Security;
use crate::shares::{CANDIDATES, Group, Shares};
use crate::store::{Arena, Index, Links, List, Seldom, Timers};
use crate::transport::{Content, ExchangeId, Failure, Reliability, RequestId};
use conche_cc::Instant;
use conche_cc::units::Stamp;

/// Identifies an observer of a resource of this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObserverId {
    index: u32,
    generation: u32,
}

/// AbandonReason an observation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObserverEnd {
    /// The client deregistered with Observe 1 (RFC 7641 §3.6).
    Deregistered,
    /// The client registered again with the same token (RFC 7641 §4.1); that request follows.
    Replaced,
    /// The client had not proven its presence and was evicted for another one
    /// ([`ObserverChecks`]).
    Displaced,
    /// The state has another Content-Format than the first response: the client was sent 4.06
    /// (RFC 7641 §4.2).
    FormatChanged,
    /// The client rejected a notification, or a notification could not be delivered (RFC 7641
    /// §4.5).
    Failed(Failure),
}

impl fmt::Display for ObserverEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deregistered => f.write_str("the client deregistered"),
            Self::Replaced => f.write_str("the client registered again"),
            Self::Displaced => f.write_str("the client made room for another one before it had proven its presence"),
            Self::FormatChanged => f.write_str("the Content-Format of the state has changed"),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

/// The identity of an entry in the list of observers (RFC 7641 §4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) peer: u32,
    pub(crate) token: Token,
    pub(crate) local: Option<IpAddr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) place: Place,
    pub(crate) group: Group,
    pub(crate) host: Group,
    pub(crate) topic: u64,
    /// The peer has proven that it receives at its address.
    pub(crate) proven: bool,
    pub(crate) measured: bool,
    pub(crate) request: RequestId,
    pub(crate) asked: Asked,
    pub(crate) security: Security,
}

#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) place: Place,
    pub(crate) group: Group,
    pub(crate) asked: Asked,
    pub(crate) security: Security,
    /// The whole state, of any size.
    pub(crate) content: Content,
    pub(crate) reliability: Reliability,
}

/// An observer takes at most 120 bytes and its key: peer, token and local address.
const _: () = assert!(Observers::BYTES <= 120 + size_of::<Place>());

/// All observers of this endpoint's resources.
#[derive(Debug)]
pub(crate) struct Observers {
    pub(super) slots: Arena<Observer>,
    by_place: Index,
    pub(super) watchers: Arena<ObservingPeer>,
    by_peer: Index,
    pub(super) topics: Arena<Topic>,
    pub(super) by_name: Index,
    /// Topics with a walk over their observers in progress, in turn.
    pub(super) walking: List<Walking>,
    /// Timers for the newest state of each topic to settle.
    pub(super) settling: Timers,
    shares: Shares,
    hosts: Shares,
    /// Topics opened by each group, and the bytes of their states.
    topic_shares: Shares,
    state_shares: Shares,
    /// Observers by [`Presence`], each list in the order of the last proof or registration.
    unproven: List<OfPresence>,
    checked: List<OfPresence>,
    proven: List<OfPresence>,
    /// Places of observers that have not proven their presence, checked or not.
    unproven_shares: Shares,
    /// Number of unproven observers without a check in progress, and the number above which they
    /// are checked at once.
    unproven_len: usize,
    crowded: usize,
    pub(super) checks: Option<ObserverChecks>,
    hash: Keyed,
    generation: u32,
    /// Observers with an unanswered registration, by request.
    registering: BTreeMap<RequestId, u32>,
    /// Highest number of any ended topic; no topic starts lower.
    sequence: Sequence,
}

impl Seldom for Observers {
    type Recipe = (Keyed, SharedConfig);

    fn empty<'a>() -> &'a Self {
        const { &Self::new(Keyed::NONE, None, 0) }
    }

    fn make((hash, config): &Self::Recipe) -> Self {
        let limits = &config.limits;
        Self::new(*hash, config.observer_checks, limits.observers.min(limits.peers) / 2)
    }
}

impl Observers {
    /// Memory per observer in bytes, including its key but not the index entry.
    pub(crate) const BYTES: usize = Arena::<Observer>::PLACE_BYTES;

    const fn new(hash: Keyed, checks: Option<ObserverChecks>, crowded: usize) -> Self {
        Self {
            slots: Arena::new(),
            by_place: Index::new(),
            watchers: Arena::new(),
            by_peer: Index::new(),
            topics: Arena::new(),
            by_name: Index::new(),
            walking: List::new(),
            settling: Timers::new(),
            shares: Shares::new(),
            hosts: Shares::new(),
            topic_shares: Shares::new(),
            state_shares: Shares::new(),
            unproven: List::new(),
            checked: List::new(),
            proven: List::new(),
            unproven_shares: Shares::new(),
            unproven_len: 0,
            crowded,
            checks,
            hash,
            generation: 0,
            registering: BTreeMap::new(),
            sequence: Sequence::START,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// Returns the observer that this request registers, while the request awaits its response.
    pub(crate) fn registered_by(&self, request: RequestId) -> Option<u32> {
        self.registering.get(&request).copied()
    }

    /// Forgets the request that registered an observer.
    pub(super) fn end_registration(&mut self, index: u32) {
        if let Progress::Unanswered(request) = self.slots[index].progress {
            self.registering.remove(&request);
        }
    }

    /// Sets the token of an observer to that of the next message of its registration (RFC 7959
    /// §2.5): the response and the notifications have the token of the last message.
    pub(crate) fn continue_registration(&mut self, index: u32, token: Token, asked: Asked, security: Security) {
        let Observer { watcher, token: before, presence, .. } = &self.slots[index];
        let ObservingPeer { peer, group, .. } = self.watchers[*watcher];
        let unproven = (*presence != Presence::Proven).then_some(&mut self.unproven_shares);
        for shares in unproven.into_iter().chain([&mut self.shares]) {
            shares.give_back(group, before.places());
            shares.take(group, token.places());
        }
        self.by_place.remove(index);
        let hash = self.hash_of(peer, &token);
        let observer = &mut self.slots[index];
        (observer.token, observer.asked, observer.security) = (token, asked, security);
        self.by_place.insert(hash, index);
    }

    /// Returns the number of observers of a topic, and one of them.
    pub(crate) fn of_topic(&self, name: u64) -> (usize, Option<u32>) {
        let topic = self.by_name.peek(&self.topics, self.hash.spread(name, 1), |topic: &Topic| topic.name == name);
        topic.map_or((0, None), |topic| (self.topics[topic].len as usize, self.topics[topic].observers.first()))
    }

    /// Returns `true` if the group may have another observer with this token, of `capacity` in
    /// total.
    pub(crate) fn admits(&self, group: Group, token: &Token, capacity: usize) -> bool {
        self.shares.admits(group, token.places(), capacity)
    }

    /// Returns `true` if there is room for another observer of this peer and host, and for its
    /// topic.
    pub(crate) fn admits_of(&mut self, registration: &Registration, limits: &Limits) -> bool {
        let &Registration { ref place, group, host, topic, .. } = registration;
        let of_peer = self.watcher(place.peer).map_or(0, |watcher| self.watchers[watcher].len as usize);
        of_peer < limits.observers_per_peer
            && self.hosts.held(host) < limits.observers_per_host
            && (self.topic(topic).is_some() || self.topic_shares.admits(group, 1, limits.topics))
    }

    /// Returns `true` if there would be room for another observer without those that have not
    /// proven their presence.
    pub(crate) fn could_admit(&self, group: Group, token: &Token, capacity: usize) -> bool {
        self.shares.could_admit(group, token.places(), capacity, &self.unproven_shares)
    }

    /// Returns the observer to be evicted first, and its group: among the oldest that have not
    /// proven their presence, one of the group that holds most.
    pub(crate) fn displaceable(&mut self) -> Option<(u32, Group)> {
        let checked = self.checked.first_few(&mut self.slots, CANDIDATES);
        let oldest = match checked.is_empty() {
            true => self.unproven.first_few(&mut self.slots, CANDIDATES),
            false => checked,
        };
        let group = |index: u32| self.watchers[self.slots[index].watcher].group;
        let candidates = oldest.into_iter().map(|index| (index, group(index)));
        // The oldest, if several groups hold equally many.
        candidates.rev().max_by_key(|&(_, group)| self.unproven_shares.held(group))
    }

    /// Returns `true` if an observer of `other` may be evicted for one of `group`, which holds
    /// `besides` elsewhere.
    pub(crate) fn may_displace(&self, group: Group, besides: usize, other: Group) -> bool {
        self.unproven_shares.may_displace(group, besides, other)
    }

    /// Reserves bytes for the state of this observer's topic; returns `false` if they exceed
    /// `capacity`.
    pub(crate) fn reserve(&mut self, index: u32, bytes: usize, capacity: usize) -> bool {
        let topic = self.slots[index].topic;
        bytes <= self.topics[topic].bytes || self.resize(topic, bytes, Some(capacity))
    }

    /// Returns the group whose share of `capacity` has room for a state of this size: the group
    /// that is charged for the topic, or else that of another observer. A group therefore cannot
    /// end the observations of others by opening a topic first and then filling its share.
    pub(super) fn payer(&mut self, topic: u32, bytes: usize, capacity: usize) -> Option<Group> {
        let Self { topics, slots, watchers, state_shares, .. } = self;
        let &Topic { group, bytes: before, ref observers, .. } = &topics[topic];
        if bytes <= before || state_shares.admits(group, bytes - before, capacity) {
            return Some(group);
        }
        let group_of = |observer: &Observer| watchers[observer.watcher].group;
        state_shares.give_back(group, before);
        let admitted = observers.find(slots, |observer| state_shares.admits(group_of(observer), bytes, capacity));
        state_shares.take(group, before);
        admitted.map(|observer| group_of(&slots[observer]))
    }

    /// Sets the size of a topic's state; returns `false` if it exceeds `capacity`.
    pub(super) fn resize(&mut self, topic: u32, bytes: usize, capacity: Option<usize>) -> bool {
        let payer = match capacity {
            Some(capacity) => self.payer(topic, bytes, capacity),
            None => Some(self.topics[topic].group),
        };
        let Some(payer) = payer else { return false };
        let Topic { group, bytes: before, .. } = &mut self.topics[topic];
        self.topic_shares.give_back(*group, 1);
        self.topic_shares.take(payer, 1);
        self.state_shares.give_back(*group, *before);
        self.state_shares.take(payer, bytes);
        (*group, *before) = (payer, bytes);
        true
    }

    pub(crate) fn insert(&mut self, now: Instant, registration: Registration) -> Option<ObserverId> {
        let Registration { place, group, host, topic, proven, measured, request, asked, security } = registration;
        let Place { peer, token, local } = place;
        let topic = self.open_topic(topic, group)?;
        let watcher = self.open_watcher(peer, group, host)?;
        let presence = if proven { Presence::Proven } else { Presence::Unproven };
        self.generation = self.generation.wrapping_add(1);
        let (hash, places) = (self.hash_of(peer, &token), token.places());
        let observer = Observer {
            generation: self.generation,
            watcher,
            topic,
            seen: self.topics[topic].version,
            progress: Progress::Unanswered(request),
            token,
            local,
            asked,
            security,
            last: None,
            left: Stamp::at(now),
            first: None,
            format: None,
            over: false,
            unconfirmed: 0,
            acknowledged: measured,
            presence,
            confirmed: now,
            of_presence: Links::default(),
            of_topic: Links::default(),
            of_watcher: Links::default(),
        };
        let index = self.slots.insert(observer)?;
        self.by_place.insert(hash, index);
        self.topics[topic].observers.push_back(&mut self.slots, index);
        self.topics[topic].len += 1;
        self.watchers[watcher].observers.push_back(&mut self.slots, index);
        self.watchers[watcher].len += 1;
        self.enlist(index, presence);
        self.shares.take(group, places);
        self.hosts.take(host, 1);
        self.registering.insert(request, index);
        Some(ObserverId { index, generation: self.generation })
    }

    /// Removes an observer without a notification in progress; returns its peer.
    pub(crate) fn remove(&mut self, index: u32) -> u32 {
        self.end_registration(index);
        self.unlist(index);
        let &Observer { watcher, topic, ref token, .. } = &self.slots[index];
        let places = token.places();
        self.by_place.remove(index);
        self.topics[topic].observers.remove(&mut self.slots, index);
        self.watchers[watcher].observers.remove(&mut self.slots, index);
        self.slots.remove(index);
        let &mut ObservingPeer { peer, group, host, ref mut len, .. } = &mut self.watchers[watcher];
        *len -= 1;
        if *len == 0 {
            self.by_peer.remove(watcher);
            self.watchers.remove(watcher);
        }
        self.shares.give_back(group, places);
        self.hosts.give_back(host, 1);
        self.topics[topic].len -= 1;
        self.close_if_unobserved(topic);
        peer
    }

    fn list(&mut self, presence: Presence) -> &mut List<OfPresence> {
        match presence {
            Presence::Unproven => &mut self.unproven,
            Presence::Checked => &mut self.checked,
            Presence::Proven => &mut self.proven,
        }
    }

    fn enlist(&mut self, index: u32, presence: Presence) {
        self.slots[index].presence = presence;
        self.unproven_len += usize::from(presence == Presence::Unproven);
        if presence != Presence::Proven {
            let Observer { watcher, token, .. } = &self.slots[index];
            self.unproven_shares.take(self.watchers[*watcher].group, token.places());
        }
        let mut list = core::mem::take(self.list(presence));
        list.push_back(&mut self.slots, index);
        *self.list(presence) = list;
    }

    fn unlist(&mut self, index: u32) {
        let presence = self.slots[index].presence;
        self.unproven_len -= usize::from(presence == Presence::Unproven);
        if presence != Presence::Proven {
            let Observer { watcher, token, .. } = &self.slots[index];
            self.unproven_shares.give_back(self.watchers[*watcher].group, token.places());
        }
        let mut list = core::mem::take(self.list(presence));
        list.remove(&mut self.slots, index);
        *self.list(presence) = list;
    }

    pub(super) fn set_presence(&mut self, now: Instant, index: u32, presence: Presence) {
        self.unlist(index);
        if presence != Presence::Checked {
            self.slots[index].confirmed = now;
        }
        self.enlist(index, presence);
    }

    pub(super) fn next_check(&self) -> Option<Instant> {
        let checks = self.checks?;
        let due = |list: &List<OfPresence>, after| list.first().map(|index| self.slots[index].confirmed + after);
        let (first, again) = (due(&self.unproven, checks.first), due(&self.proven, checks.every));
        first.into_iter().chain(again).min()
    }

    /// Takes the next observer to be checked now.
    pub(super) fn take_check(&mut self, now: Instant) -> Option<u32> {
        let checks = self.checks?;
        let due =
            |list: &List<OfPresence>, after| list.first().filter(|&index| self.slots[index].confirmed + after <= now);
        let crowded = self.unproven.first().filter(|_| self.unproven_len > self.crowded);
        let index = crowded.or(due(&self.unproven, checks.first)).or(due(&self.proven, checks.every))?;
        self.set_presence(now, index, Presence::Checked);
        Some(index)
    }

    /// Returns one of the observers of a peer.
    pub(crate) fn of_peer(&mut self, peer: u32) -> Option<u32> {
        let watcher = self.watcher(peer)?;
        self.watchers[watcher].observers.first()
    }

    /// Returns the place of an observer that still exists.
    pub(crate) fn live(&self, id: ObserverId) -> Option<u32> {
        self.slots.get(id.index).filter(|observer| observer.generation == id.generation).map(|_| id.index)
    }

    /// Returns the ID, the peer and the topic's name of an observer.
    pub(crate) fn named(&self, index: u32) -> (ObserverId, u32, u64) {
        let &Observer { generation, watcher, topic, .. } = &self.slots[index];
        (ObserverId { index, generation }, self.watchers[watcher].peer, self.topics[topic].name)
    }

    /// Returns the identity of an observer.
    pub(crate) fn place(&self, index: u32) -> Place {
        let Observer { watcher, token, local, .. } = &self.slots[index];
        Place { peer: self.watchers[*watcher].peer, token: token.clone(), local: *local }
    }

    /// Returns `true` if its registration was protected with the same context.
    pub(crate) fn is_secured_as(&self, index: u32, security: &Security) -> bool {
        self.slots[index].security.is_as(security)
    }

    pub(crate) fn find(&mut self, place: &Place) -> Option<u32> {
        let (watchers, hash) = (&self.watchers, self.hash_of(place.peer, &place.token));
        let is_it = |observer: &Observer| {
            let Observer { watcher, token, local, .. } = observer;
            (place.peer, &place.token, place.local) == (watchers[*watcher].peer, token, *local)
        };
        self.by_place.find(&self.slots, hash, is_it)
    }

    /// Returns the observer whose last notification had this message ID, within the lifetime of the
    /// ID.
    pub(crate) fn with_id(&mut self, now: Instant, peer: u32, id: MessageId, lifetime: Duration) -> Option<u32> {
        let watcher = self.watcher(peer)?;
        let lives = |left: Stamp| u128::from(left.age_ms(Stamp::at(now))) < lifetime.as_millis();
        let is_it = |observer: &Observer| observer.last == Some(id) && lives(observer.left);
        self.watchers[watcher].observers.find(&mut self.slots, is_it)
    }

    /// Returns the observer whose first response was sent by this exchange.
    pub(crate) fn first_answered_by(&mut self, place: &Place, exchange: ExchangeId) -> Option<u32> {
        self.find(place).filter(|&index| self.slots[index].first == Some(exchange.generation))
    }

    fn hash_of(&self, peer: u32, token: &Token) -> u64 {
        self.hash.hash(&(peer, token))
    }

    fn watcher(&mut self, peer: u32) -> Option<u32> {
        self.by_peer
            .find(&self.watchers, self.hash.spread(peer.into(), 0), |watcher: &ObservingPeer| watcher.peer == peer)
    }

    fn open_watcher(&mut self, peer: u32, group: Group, host: Group) -> Option<u32> {
        if let Some(watcher) = self.watcher(peer) {
            return Some(watcher);
        }
        let watcher = ObservingPeer { peer, len: 0, group, host, observers: List::new() };
        let index = self.watchers.insert(watcher)?;
        self.by_peer.insert(self.hash.spread(peer.into(), 0), index);
        Some(index)
    }

    pub(super) fn topic(&mut self, name: u64) -> Option<u32> {
        self.by_name.find(&self.topics, self.hash.spread(name, 1), |topic: &Topic| topic.name == name)
    }

    fn open_topic(&mut self, name: u64, group: Group) -> Option<u32> {
        if let Some(topic) = self.topic(name) {
            return Some(topic);
        }
        let index = self.topics.insert(Topic::new(name, group, self.sequence))?;
        self.topic_shares.take(group, 1);
        self.by_name.insert(self.hash.spread(name, 1), index);
        Some(index)
    }

    fn close_if_unobserved(&mut self, index: u32) {
        let &Topic { len, walks, named, sequence, group, bytes, .. } = &self.topics[index];
        if len > 0 {
            return;
        }
        self.topic_shares.give_back(group, 1);
        self.state_shares.give_back(group, bytes);
        self.sequence = self.sequence.max(sequence);
        self.settling.cancel(index);
        if walks {
            self.walking.remove(&mut self.topics, index);
        }
        if named {
            self.by_name.remove(index);
        }
        self.topics.remove(index);
    }
}
