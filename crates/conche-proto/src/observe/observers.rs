//! [`Observers`]: the clients that observe resources of this endpoint (RFC 7641 §4).
//!
//! A change has constant cost: it increments the topic's version, and each observer stores the
//! version last sent to it. Skipped states are not queued. Bounded in total, per peer, and per
//! group of sources by its [share](crate::shares).

use alloc::collections::BTreeMap;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use conche_cc::Instant;
use conche_cc::units::Stamp;

use crate::blockwise::BlockOptions;
use crate::codec::{Body, Code, MessageId, OptionNumber, Token};
use crate::config::{Limits, ObserverChecks, SharedConfig};
use crate::hash::Keyed;
use crate::security::Security;
use crate::shares::{CANDIDATES, Group, Shares};
use crate::store::{Arena, CreateOnDemand, Index, Linked, Links, List, Timers, index_type};
use crate::transport::{Content, ExchangeId, Failure, ObserverIndex, PeerIndex, Reliability, RequestId, Response};

index_type!(pub(super) ObservingPeerIndex);
index_type!(pub(super) TopicIndex);

/// Identifies an observer of this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObserverId {
    index: ObserverIndex,
    generation: u32,
}

/// Reason why an observation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObserverEnd {
    /// The client deregistered with Observe 1 (RFC 7641 §3.6).
    Deregistered,
    /// The client registered again with the same token (RFC 7641 §4.1).
    Replaced,
    /// Evicted for another client before a [proof](ObserverChecks) of presence.
    Displaced,
    /// The client received 4.06: the Content-Format differs from the first response (RFC 7641
    /// §4.2).
    FormatChanged,
    /// A notification was rejected or not delivered (RFC 7641 §4.5).
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

/// The identity of an observer (RFC 7641 §4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObserverKey {
    pub(crate) peer: PeerIndex,
    pub(crate) token: Token,
    pub(crate) local: Option<IpAddr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) key: ObserverKey,
    pub(crate) group: Group,
    pub(crate) host: Group,
    pub(crate) topic: u64,
    pub(crate) proven: bool,
    pub(crate) measured: bool,
    pub(crate) request: RequestId,
    pub(crate) requested: BlockOptions,
    pub(crate) security: Security,
}

#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) key: ObserverKey,
    pub(crate) group: Group,
    pub(crate) requested: BlockOptions,
    pub(crate) security: Security,
    pub(crate) content: Content,
    pub(crate) reliability: Reliability,
}

const _: () = assert!(Observers::BYTES <= 120 + size_of::<ObserverKey>());

#[derive(Debug)]
pub(crate) struct Observers {
    pub(super) slots: Arena<Observer, ObserverIndex>,
    by_key: Index<ObserverIndex>,
    pub(super) observing_peers: Arena<ObservingPeer, ObservingPeerIndex>,
    by_peer: Index<ObservingPeerIndex>,
    pub(super) topics: Arena<Topic, TopicIndex>,
    pub(super) by_name: Index<TopicIndex>,
    /// Topics with observers still to visit, in turn.
    pub(super) notify_queue: List<NotifyQueue, TopicIndex>,
    /// Timers until each topic's newest state settles.
    pub(super) settling: Timers<TopicIndex>,
    shares: Shares,
    hosts: Shares,
    /// Opened topics and bytes of states, per group.
    topic_shares: Shares,
    state_shares: Shares,
    /// In order of the last proof or registration.
    unproven: List<OfPresence, ObserverIndex>,
    checked: List<OfPresence, ObserverIndex>,
    proven: List<OfPresence, ObserverIndex>,
    /// Unproven observers per group, checked or not.
    unproven_shares: Shares,
    /// Unproven observers without a check in progress, and the number that triggers checks.
    unproven_len: usize,
    crowded: usize,
    pub(super) checks: Option<ObserverChecks>,
    hash: Keyed,
    generation: u32,
    /// Observers with an unanswered registration, by request.
    registering: BTreeMap<RequestId, ObserverIndex>,
    /// Highest sequence number of any ended topic.
    sequence: Sequence,
}

#[derive(Debug)]
pub(crate) struct ObserversConfig {
    pub(crate) hash: Keyed,
    pub(crate) config: SharedConfig,
}

impl CreateOnDemand for Observers {
    type Config = ObserversConfig;

    fn empty<'a>() -> &'a Self {
        const { &Self::new(Keyed::NONE, None, 0) }
    }

    fn create(ObserversConfig { hash, config }: &Self::Config) -> Self {
        let limits = &config.limits;
        Self::new(*hash, config.observer_checks, limits.observers.min(limits.peers) / 2)
    }
}

impl Observers {
    /// Bytes per observer with its key, without the index.
    pub(crate) const BYTES: usize = Arena::<Observer, ObserverIndex>::PLACE_BYTES;

    const fn new(hash: Keyed, checks: Option<ObserverChecks>, crowded: usize) -> Self {
        Self {
            slots: Arena::new(),
            by_key: Index::new(),
            observing_peers: Arena::new(),
            by_peer: Index::new(),
            topics: Arena::new(),
            by_name: Index::new(),
            notify_queue: List::new(),
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

    pub(crate) fn registered_by(&self, request: RequestId) -> Option<ObserverIndex> {
        self.registering.get(&request).copied()
    }

    pub(super) fn end_registration(&mut self, index: ObserverIndex) {
        if let Progress::Unanswered(request) = self.slots[index].progress {
            self.registering.remove(&request);
        }
    }

    /// Replaces the token: response and notifications use that of the registration's last message
    /// (RFC 7959 §2.5).
    pub(crate) fn continue_registration(
        &mut self,
        index: ObserverIndex,
        token: Token,
        requested: BlockOptions,
        security: Security,
    ) {
        let Observer { observing_peer, token: before, presence, .. } = &self.slots[index];
        let ObservingPeer { peer, group, .. } = self.observing_peers[*observing_peer];
        let unproven = (*presence != Presence::Proven).then_some(&mut self.unproven_shares);
        for shares in unproven.into_iter().chain([&mut self.shares]) {
            shares.give_back(group, before.places());
            shares.take(group, token.places());
        }
        self.by_key.remove(index);
        let hash = self.hash_of(peer, &token);
        let observer = &mut self.slots[index];
        (observer.token, observer.requested, observer.security) = (token, requested, security);
        self.by_key.insert(hash, index);
    }

    /// Returns a topic's number of observers, and one of them.
    pub(crate) fn of_topic(&self, name: u64) -> (usize, Option<ObserverIndex>) {
        let topic = self.by_name.peek(&self.topics, self.hash.spread(name, 1), |topic: &Topic| topic.name == name);
        topic.map_or((0, None), |topic| (self.topics[topic].len as usize, self.topics[topic].observers.first()))
    }

    pub(crate) fn group_has_room(&self, group: Group, token: &Token, capacity: usize) -> bool {
        self.shares.admits(group, token.places(), capacity)
    }

    pub(crate) fn peer_host_and_topic_have_room(&mut self, registration: &Registration, limits: &Limits) -> bool {
        let &Registration { ref key, group, host, topic, .. } = registration;
        let of_peer =
            self.observing_peer(key.peer).map_or(0, |observing_peer| self.observing_peers[observing_peer].len as usize);
        of_peer < limits.observers_per_peer
            && self.hosts.held(host) < limits.observers_per_host
            && (self.topic(topic).is_some() || self.topic_shares.admits(group, 1, limits.topics))
    }

    pub(crate) fn would_have_room_without_unproven(&self, group: Group, token: &Token, capacity: usize) -> bool {
        self.shares.could_admit(group, token.places(), capacity, &self.unproven_shares)
    }

    /// Returns the observer to evict first, and its group: among the oldest unproven observers, one
    /// of the largest group.
    pub(crate) fn displaceable(&mut self) -> Option<(ObserverIndex, Group)> {
        let checked = self.checked.first_few(&mut self.slots, CANDIDATES);
        let oldest = match checked.is_empty() {
            true => self.unproven.first_few(&mut self.slots, CANDIDATES),
            false => checked,
        };
        let group = |index: ObserverIndex| self.observing_peers[self.slots[index].observing_peer].group;
        let candidates = oldest.into_iter().map(|index| (index, group(index)));
        // On a tie, the oldest.
        candidates.rev().max_by_key(|&(_, group)| self.unproven_shares.held(group))
    }

    /// Returns `true` if `group`, which holds `besides` elsewhere, may evict an observer of
    /// `other`.
    pub(crate) fn may_displace(&self, group: Group, besides: usize, other: Group) -> bool {
        self.unproven_shares.may_displace(group, besides, other)
    }

    pub(crate) fn reserve(&mut self, index: ObserverIndex, bytes: usize, capacity: usize) -> bool {
        let topic = self.slots[index].topic;
        bytes <= self.topics[topic].bytes || self.resize(topic, bytes, Some(capacity))
    }

    /// Returns the group to charge for a state of this size: the charged one or, if its share of
    /// `capacity` has no room, that of another observer. A group thus cannot end others'
    /// observations by opening a topic first and then filling its share.
    pub(super) fn payer(&mut self, topic: TopicIndex, bytes: usize, capacity: usize) -> Option<Group> {
        let Self { topics, slots, observing_peers, state_shares, .. } = self;
        let &Topic { group, bytes: before, ref observers, .. } = &topics[topic];
        if bytes <= before || state_shares.admits(group, bytes - before, capacity) {
            return Some(group);
        }
        let group_of = |observer: &Observer| observing_peers[observer.observing_peer].group;
        state_shares.give_back(group, before);
        let admitted = observers.find(slots, |observer| state_shares.admits(group_of(observer), bytes, capacity));
        state_shares.take(group, before);
        admitted.map(|observer| group_of(&slots[observer]))
    }

    pub(super) fn resize(&mut self, topic: TopicIndex, bytes: usize, capacity: Option<usize>) -> bool {
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
        let Registration { key, group, host, topic, proven, measured, request, requested, security } = registration;
        let ObserverKey { peer, token, local } = key;
        let topic = self.open_topic(topic, group)?;
        let observing_peer = self.open_observing_peer(peer, group, host)?;
        let presence = if proven { Presence::Proven } else { Presence::Unproven };
        self.generation = self.generation.wrapping_add(1);
        let (hash, places) = (self.hash_of(peer, &token), token.places());
        let observer = Observer {
            generation: self.generation,
            observing_peer,
            topic,
            seen: self.topics[topic].version,
            progress: Progress::Unanswered(request),
            token,
            local,
            requested,
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
            of_peer: Links::default(),
        };
        let index = self.slots.insert(observer)?;
        self.by_key.insert(hash, index);
        self.topics[topic].observers.push_back(&mut self.slots, index);
        self.topics[topic].len += 1;
        self.observing_peers[observing_peer].observers.push_back(&mut self.slots, index);
        self.observing_peers[observing_peer].len += 1;
        self.enlist(index, presence);
        self.shares.take(group, places);
        self.hosts.take(host, 1);
        self.registering.insert(request, index);
        Some(ObserverId { index, generation: self.generation })
    }

    /// The observer must have no notification in progress. Returns its peer.
    pub(crate) fn remove(&mut self, index: ObserverIndex) -> PeerIndex {
        self.end_registration(index);
        self.unlist(index);
        let &Observer { observing_peer, topic, ref token, .. } = &self.slots[index];
        let places = token.places();
        self.by_key.remove(index);
        self.topics[topic].observers.remove(&mut self.slots, index);
        self.observing_peers[observing_peer].observers.remove(&mut self.slots, index);
        self.slots.remove(index);
        let &mut ObservingPeer { peer, group, host, ref mut len, .. } = &mut self.observing_peers[observing_peer];
        *len -= 1;
        if *len == 0 {
            self.by_peer.remove(observing_peer);
            self.observing_peers.remove(observing_peer);
        }
        self.shares.give_back(group, places);
        self.hosts.give_back(host, 1);
        self.topics[topic].len -= 1;
        self.close_if_unobserved(topic);
        peer
    }

    fn list(&mut self, presence: Presence) -> &mut List<OfPresence, ObserverIndex> {
        match presence {
            Presence::Unproven => &mut self.unproven,
            Presence::Checked => &mut self.checked,
            Presence::Proven => &mut self.proven,
        }
    }

    fn enlist(&mut self, index: ObserverIndex, presence: Presence) {
        self.slots[index].presence = presence;
        self.unproven_len += usize::from(presence == Presence::Unproven);
        if presence != Presence::Proven {
            let Observer { observing_peer, token, .. } = &self.slots[index];
            self.unproven_shares.take(self.observing_peers[*observing_peer].group, token.places());
        }
        let mut list = core::mem::take(self.list(presence));
        list.push_back(&mut self.slots, index);
        *self.list(presence) = list;
    }

    fn unlist(&mut self, index: ObserverIndex) {
        let presence = self.slots[index].presence;
        self.unproven_len -= usize::from(presence == Presence::Unproven);
        if presence != Presence::Proven {
            let Observer { observing_peer, token, .. } = &self.slots[index];
            self.unproven_shares.give_back(self.observing_peers[*observing_peer].group, token.places());
        }
        let mut list = core::mem::take(self.list(presence));
        list.remove(&mut self.slots, index);
        *self.list(presence) = list;
    }

    pub(super) fn set_presence(&mut self, now: Instant, index: ObserverIndex, presence: Presence) {
        self.unlist(index);
        if presence != Presence::Checked {
            self.slots[index].confirmed = now;
        }
        self.enlist(index, presence);
    }

    pub(super) fn next_check(&self) -> Option<Instant> {
        let checks = self.checks?;
        let due = |list: &List<OfPresence, ObserverIndex>, after| {
            list.first().map(|index| self.slots[index].confirmed + after)
        };
        let (first, again) = (due(&self.unproven, checks.first), due(&self.proven, checks.every));
        first.into_iter().chain(again).min()
    }

    pub(super) fn take_check(&mut self, now: Instant) -> Option<ObserverIndex> {
        let checks = self.checks?;
        let due = |list: &List<OfPresence, ObserverIndex>, after| {
            list.first().filter(|&index| self.slots[index].confirmed + after <= now)
        };
        let crowded = self.unproven.first().filter(|_| self.unproven_len > self.crowded);
        let index = crowded.or(due(&self.unproven, checks.first)).or(due(&self.proven, checks.every))?;
        self.set_presence(now, index, Presence::Checked);
        Some(index)
    }

    pub(crate) fn of_peer(&mut self, peer: PeerIndex) -> Option<ObserverIndex> {
        let observing_peer = self.observing_peer(peer)?;
        self.observing_peers[observing_peer].observers.first()
    }

    pub(crate) fn live(&self, id: ObserverId) -> Option<ObserverIndex> {
        let index = id.index;
        self.slots.get(index).filter(|observer| observer.generation == id.generation).map(|_| index)
    }

    pub(crate) fn named(&self, index: ObserverIndex) -> (ObserverId, PeerIndex, u64) {
        let &Observer { generation, observing_peer, topic, .. } = &self.slots[index];
        (ObserverId { index, generation }, self.observing_peers[observing_peer].peer, self.topics[topic].name)
    }

    pub(crate) fn key(&self, index: ObserverIndex) -> ObserverKey {
        let Observer { observing_peer, token, local, .. } = &self.slots[index];
        ObserverKey { peer: self.observing_peers[*observing_peer].peer, token: token.clone(), local: *local }
    }

    pub(crate) fn is_secured_as(&self, index: ObserverIndex, security: &Security) -> bool {
        self.slots[index].security.is_as(security)
    }

    pub(crate) fn find(&mut self, key: &ObserverKey) -> Option<ObserverIndex> {
        let (observing_peers, hash) = (&self.observing_peers, self.hash_of(key.peer, &key.token));
        let is_it = |observer: &Observer| {
            let Observer { observing_peer, token, local, .. } = observer;
            (key.peer, &key.token, key.local) == (observing_peers[*observing_peer].peer, token, *local)
        };
        self.by_key.find(&self.slots, hash, is_it)
    }

    /// Returns the observer of the last notification with this message ID, within the ID's
    /// lifetime.
    pub(crate) fn with_id(
        &mut self,
        now: Instant,
        peer: PeerIndex,
        id: MessageId,
        lifetime: Duration,
    ) -> Option<ObserverIndex> {
        let observing_peer = self.observing_peer(peer)?;
        let lives = |left: Stamp| u128::from(left.age_ms(Stamp::at(now))) < lifetime.as_millis();
        let is_it = |observer: &Observer| observer.last == Some(id) && lives(observer.left);
        self.observing_peers[observing_peer].observers.find(&mut self.slots, is_it)
    }

    pub(crate) fn first_answered_by(&mut self, key: &ObserverKey, exchange: ExchangeId) -> Option<ObserverIndex> {
        self.find(key).filter(|&index| self.slots[index].first == Some(exchange.generation))
    }

    fn hash_of(&self, peer: PeerIndex, token: &Token) -> u64 {
        self.hash.hash(&(peer, token))
    }

    fn observing_peer(&mut self, peer: PeerIndex) -> Option<ObservingPeerIndex> {
        self.by_peer.find(&self.observing_peers, self.hash.spread(peer.into(), 0), |observing_peer: &ObservingPeer| {
            observing_peer.peer == peer
        })
    }

    fn open_observing_peer(&mut self, peer: PeerIndex, group: Group, host: Group) -> Option<ObservingPeerIndex> {
        if let Some(observing_peer) = self.observing_peer(peer) {
            return Some(observing_peer);
        }
        let observing_peer = ObservingPeer { peer, len: 0, group, host, observers: List::new() };
        let index = self.observing_peers.insert(observing_peer)?;
        self.by_peer.insert(self.hash.spread(peer.into(), 0), index);
        Some(index)
    }

    pub(super) fn topic(&mut self, name: u64) -> Option<TopicIndex> {
        self.by_name.find(&self.topics, self.hash.spread(name, 1), |topic: &Topic| topic.name == name)
    }

    fn open_topic(&mut self, name: u64, group: Group) -> Option<TopicIndex> {
        if let Some(topic) = self.topic(name) {
            return Some(topic);
        }
        let index = self.topics.insert(Topic::new(name, group, self.sequence))?;
        self.topic_shares.take(group, 1);
        self.by_name.insert(self.hash.spread(name, 1), index);
        Some(index)
    }

    fn close_if_unobserved(&mut self, index: TopicIndex) {
        let &Topic { len, is_queued, named, sequence, group, bytes, .. } = &self.topics[index];
        if len > 0 {
            return;
        }
        self.topic_shares.give_back(group, 1);
        self.state_shares.give_back(group, bytes);
        self.sequence = self.sequence.max(sequence);
        self.settling.cancel(index);
        if is_queued {
            self.notify_queue.remove(&mut self.topics, index);
        }
        if named {
            self.by_name.remove(index);
        }
        self.topics.remove(index);
    }
}

/// Maximum run of Non-confirmable notifications: limits traffic to forged addresses, and detects
/// departed clients.
const NON_IN_A_ROW: u8 = 4;

impl Observers {
    pub(crate) fn progress(&self, index: ObserverIndex) -> Progress {
        self.slots[index].progress
    }

    /// Adds Observe to the first response, with the number of the state at registration.
    pub(crate) fn first_response(&mut self, now: Instant, index: ObserverIndex, response: &Response) -> Body {
        let Response { code, body, .. } = response;
        let observer = &mut self.slots[index];
        observer.format = ContentFormat::of(*code, body);
        let topic = &mut self.topics[observer.topic];
        // A state published since the registration is newer.
        let sequence = if observer.seen == topic.version { topic.sequence.at(now) } else { topic.sequence.before() };
        body.with_uint(OptionNumber::OBSERVE, sequence)
    }

    /// Records the answer to a registration; `exchange` is `None` if piggybacked.
    pub(crate) fn answered(&mut self, index: ObserverIndex, exchange: Option<ExchangeId>) {
        self.end_registration(index);
        let observer = &mut self.slots[index];
        (observer.progress, observer.first) = (Progress::Idle, exchange.map(|exchange| exchange.generation));
    }

    pub(crate) fn answer_left(&mut self, now: Instant, index: ObserverIndex, id: MessageId) {
        let observer = &mut self.slots[index];
        (observer.last, observer.left) = (Some(id), Stamp::at(now));
    }

    pub(crate) fn notification(&mut self, now: Instant, name: u64, response: &Response) -> Option<Body> {
        let topic = self.topic(name)?;
        // An error ends the observation without a number (RFC 7641 §4.2).
        Some(match response.code.is_success() {
            true => response.body.with_uint(OptionNumber::OBSERVE, self.topics[topic].sequence.next(now)),
            false => response.body.clone(),
        })
    }

    /// Returns `true` if a new state fits, as an error always does.
    pub(crate) fn has_room(&mut self, name: u64, response: &Response, capacity: usize) -> bool {
        let topic = self.topic(name).filter(|_| response.code.is_success());
        topic.is_none_or(|topic| self.payer(topic, response.body.len(), capacity).is_some())
    }

    /// Sets a topic's state and starts to visit its observers; returns their number, or `None` if
    /// the state does not fit into `state_bytes`.
    pub(crate) fn changed(
        &mut self,
        now: Instant,
        name: u64,
        state: ResourceState,
        state_bytes: usize,
    ) -> Option<usize> {
        let Some(index) = self.topic(name) else { return Some(0) };
        let capacity = state.content.code.is_success().then_some(state_bytes);
        if !self.resize(index, state.content.body.len(), capacity) {
            return None;
        }
        let topic = &mut self.topics[index];
        topic.version = topic.version.wrapping_add(1);
        let settles = now + state.settles_after();
        (topic.state, topic.settled) = (Some(state), false);
        let (len, over) = (topic.len as usize, topic.is_over());
        self.walk(index);
        self.settling.set(index, settles);
        if over {
            self.settling.cancel(index);
            self.topics[index].named = false;
            self.by_name.remove(index);
        }
        Some(len)
    }

    fn walk(&mut self, index: TopicIndex) {
        let topic = &mut self.topics[index];
        topic.to_visit = topic.len;
        if !core::mem::replace(&mut topic.is_queued, true) {
            self.notify_queue.push_back(&mut self.topics, index);
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.settling.next().into_iter().chain(self.next_check()).min()
    }

    pub(crate) fn timers(&self) -> usize {
        self.settling.len()
    }

    /// Returns the next observer to notify or check; topics take turns.
    pub(crate) fn visit(&mut self, now: Instant) -> Option<ObserverIndex> {
        if let Some(observer) = self.take_check(now) {
            return Some(observer);
        }
        while let Some(settled) = self.settling.pop_due(now) {
            self.topics[settled].settled = true;
            self.walk(settled);
        }
        while let Some(index) = self.notify_queue.first() {
            self.notify_queue.remove(&mut self.topics, index);
            let topic = &mut self.topics[index];
            let observer = topic.observers.first().filter(|_| topic.to_visit > 0);
            topic.is_queued = observer.is_some();
            let Some(observer) = observer else { continue };
            topic.to_visit -= 1;
            topic.observers.remove(&mut self.slots, observer);
            topic.observers.push_back(&mut self.slots, observer);
            self.notify_queue.push_back(&mut self.topics, index);
            if self.is_behind(observer) || self.is_doubtful(observer) {
                return Some(observer);
            }
        }
        None
    }

    pub(crate) fn is_behind(&self, index: ObserverIndex) -> bool {
        let observer = &self.slots[index];
        let unanswered = matches!(observer.progress, Progress::Unanswered(_));
        !unanswered && !observer.over && observer.seen != self.topics[observer.topic].version
    }

    /// Returns `true` if the newest state has settled, but was sent only as NON. It is repeated as
    /// CON for eventual consistency (RFC 7641 §1.3, §4.5).
    pub(crate) fn is_doubtful(&self, index: ObserverIndex) -> bool {
        let observer = &self.slots[index];
        let topic = &self.topics[observer.topic];
        let never = |state: &ResourceState| state.reliability == Some(Reliability::NeverConfirmable);
        topic.settled && !observer.over && observer.unconfirmed > 0 && !topic.state.as_ref().is_some_and(never)
    }

    /// Returns `true` if the observer must prove its presence and has nothing to acknowledge.
    pub(crate) fn is_in_question(&self, index: ObserverIndex) -> bool {
        let observer = &self.slots[index];
        observer.presence == Presence::Checked && observer.progress == Progress::Idle
    }

    pub(crate) fn is_over(&self, index: ObserverIndex) -> bool {
        let topic = &self.topics[self.slots[index].topic];
        topic.is_over() && !self.is_behind(index)
    }

    pub(crate) fn has_other_format(&self, index: ObserverIndex) -> bool {
        self.slots[index].over
    }

    /// Returns the newest state as a notification, and records it as sent.
    pub(crate) fn message(&mut self, now: Instant, index: ObserverIndex) -> Option<Notification> {
        let observer = &mut self.slots[index];
        let topic = &self.topics[observer.topic];
        let ResourceState { content, reliability } = topic.state.as_ref()?;
        observer.seen = topic.version;
        let format = ContentFormat::of(content.code, &content.body);
        observer.over = observer.format.is_some() && format.is_some() && observer.format != format;
        observer.format = observer.format.or(format);
        let content = match observer.over {
            true => Content { code: Code::NOT_ACCEPTABLE, body: Body::EMPTY },
            false => content.clone(),
        };
        // Without checks, a notification after half a day replaces one.
        let overdue = observer.presence == Presence::Checked || now - observer.confirmed >= ObserverChecks::EVERY;
        let first = self.checks.is_some() && !observer.acknowledged;
        let doubtful = first || topic.settled || observer.unconfirmed >= NON_IN_A_ROW;
        let reliability = match reliability {
            _ if overdue => Reliability::Confirmable,
            None if topic.is_over() || observer.over => Reliability::Confirmable,
            None | Some(Reliability::NonConfirmable) if doubtful => Reliability::Confirmable,
            None => Reliability::NonConfirmable,
            Some(reliability) => *reliability,
        };
        let &ObservingPeer { peer, group, .. } = &self.observing_peers[observer.observing_peer];
        let key = ObserverKey { peer, token: observer.token.clone(), local: observer.local };
        let (requested, security) = (observer.requested, observer.security.clone());
        Some(Notification { key, group, requested, security, content, reliability })
    }

    pub(crate) fn sending(&mut self, index: ObserverIndex, exchange: ExchangeId) {
        self.slots[index].progress = Progress::Sending(exchange);
    }

    pub(crate) fn left(&mut self, now: Instant, index: ObserverIndex, id: MessageId, confirmable: bool) {
        let observer = &mut self.slots[index];
        (observer.last, observer.left) = (Some(id), Stamp::at(now));
        if !confirmable {
            observer.unconfirmed = observer.unconfirmed.saturating_add(1);
        }
    }

    pub(crate) fn payload_left(&mut self, now: Instant, index: ObserverIndex, id: MessageId, begins: bool) {
        let observer = &mut self.slots[index];
        (observer.last, observer.left) = (Some(id), Stamp::at(now));
        observer.unconfirmed = observer.unconfirmed.saturating_add(u8::from(begins));
    }

    pub(crate) fn idle(&mut self, index: ObserverIndex) {
        self.slots[index].progress = Progress::Idle;
    }

    /// Records an acknowledged notification, first response or ping. It proves presence if message
    /// IDs from the peer are trusted.
    pub(crate) fn acknowledged(&mut self, now: Instant, index: ObserverIndex, trusted: bool) {
        let observer = &mut self.slots[index];
        (observer.acknowledged, observer.unconfirmed) = (true, 0);
        if trusted {
            self.set_presence(now, index, Presence::Proven);
        } else if observer.presence != Presence::Proven {
            self.set_presence(now, index, Presence::Unproven);
        }
    }

    pub(crate) fn missed(&mut self, index: ObserverIndex) {
        let observer = &mut self.slots[index];
        (observer.seen, observer.over) = (observer.seen.wrapping_sub(1), false);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Unanswered(RequestId),
    Idle,
    Sending(ExchangeId),
}

#[derive(Debug)]
pub(crate) struct Observer {
    pub(super) generation: u32,
    pub(super) observing_peer: ObservingPeerIndex,
    pub(super) topic: TopicIndex,
    pub(super) seen: u32,
    pub(super) progress: Progress,
    pub(super) token: Token,
    pub(super) local: Option<IpAddr>,
    pub(super) requested: BlockOptions,
    pub(super) security: Security,
    /// Message ID of the last notification, to match a late Reset.
    pub(super) last: Option<MessageId>,
    pub(super) left: Stamp,
    /// [Generation](crate::transport::ExchangeId) of a separate first response.
    pub(super) first: Option<u32>,
    /// Content-Format required of all notifications (RFC 7641 §4.2).
    pub(super) format: Option<ContentFormat>,
    /// The last notification is a 4.06.
    pub(super) over: bool,
    /// Non-confirmable notifications since the last acknowledgement.
    pub(super) unconfirmed: u8,
    /// A notification was acknowledged, or the RTT was known at registration.
    pub(super) acknowledged: bool,
    pub(super) presence: Presence,
    /// Last proof of presence, or the registration.
    pub(super) confirmed: Instant,
    pub(super) of_presence: Links,
    pub(super) of_topic: Links,
    pub(super) of_peer: Links,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentFormat(Option<u16>);

impl ContentFormat {
    /// `None` without a representation: an error, 2.03, or an empty payload without the option.
    pub(super) fn of(code: Code, body: &Body) -> Option<Self> {
        let content = body.content(code).filter(|_| code.is_success() && code != Code::VALID)?;
        let format = content.uint(OptionNumber::CONTENT_FORMAT).and_then(|format| u16::try_from(format).ok());
        (format.is_some() || !body.payload().is_empty()).then_some(Self(format))
    }
}

/// Whether an observer receives at its address; registrations can be forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Unproven,
    /// A Confirmable message was sent or is imminent.
    Checked,
    Proven,
}

#[derive(Debug)]
pub(super) struct ObservingPeer {
    pub(super) peer: PeerIndex,
    pub(super) len: u32,
    pub(super) group: Group,
    pub(super) host: Group,
    pub(super) observers: List<OfPeer, ObserverIndex>,
}

#[derive(Debug)]
pub(super) struct OfPeer;

#[derive(Debug)]
pub(super) struct OfPresence;

impl Linked<OfPresence> for Observer {
    fn links(&mut self) -> &mut Links {
        &mut self.of_presence
    }
}

impl Linked<OfTopic> for Observer {
    fn links(&mut self) -> &mut Links {
        &mut self.of_topic
    }
}

impl Linked<OfPeer> for Observer {
    fn links(&mut self) -> &mut Links {
        &mut self.of_peer
    }
}

/// Bounds of the time until a state settles.
const SETTLED_AFTER: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3_600));

/// Delay of a resource that changes at each expiry of Max-Age: clients register again after 5 s
/// (RFC 7641 §3.3.1).
const LATE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct OfTopic;

#[derive(Debug)]
pub(super) struct NotifyQueue;

/// Observations that differ only in the client.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: u64,
    /// Counts states.
    pub(super) version: u32,
    /// `None` before the first change.
    pub(super) state: Option<ResourceState>,
    pub(super) sequence: Sequence,
    /// A visited observer moves to the end.
    pub(super) observers: List<OfTopic, ObserverIndex>,
    pub(super) len: u32,
    /// Initially the opener of the topic.
    pub(super) group: Group,
    pub(super) bytes: usize,
    /// The newest state is being repeated to observers that may have missed it.
    pub(super) settled: bool,
    pub(super) to_visit: u32,
    pub(super) is_queued: bool,
    /// `false` after its last state.
    pub(super) named: bool,
    pub(super) notify_queue: Links,
}

#[derive(Clone, Debug)]
pub(crate) struct ResourceState {
    pub(crate) content: Content,
    pub(crate) reliability: Option<Reliability>,
}

impl ResourceState {
    /// Returns the time until the state is repeated to observers that may have missed it: slightly
    /// more than Max-Age. Earlier, a change may make this unnecessary; later, clients consider the
    /// state stale.
    pub(super) fn settles_after(&self) -> Duration {
        let content = self.content.body.content(self.content.code);
        let max_age = content.map_or(SETTLED_AFTER.0, |content| content.max_age());
        max_age.clamp(SETTLED_AFTER.0, SETTLED_AFTER.1) + LATE
    }
}

impl Topic {
    pub(super) fn new(name: u64, group: Group, sequence: Sequence) -> Self {
        Self {
            name,
            version: 0,
            state: None,
            sequence,
            observers: List::new(),
            len: 0,
            group,
            bytes: 0,
            settled: false,
            to_visit: 0,
            is_queued: false,
            named: true,
            notify_queue: Links::default(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.as_ref().is_some_and(|state| !state.content.code.is_success())
    }
}

impl Linked<NotifyQueue> for Topic {
    fn links(&mut self) -> &mut Links {
        &mut self.notify_queue
    }
}

/// Numbers count 2^16 ns, 15 259 per second: half of the bound of 2^23 in 256 s.
const TICK_BITS: u32 = 16;

/// The sequence numbers of a topic (RFC 7641 §3.4, §4.4). They never fall below the clock, so they
/// increase even after a topic was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sequence(u64);

impl Sequence {
    pub(super) const START: Self = Self(0);

    pub(super) fn at(&mut self, now: Instant) -> u32 {
        self.0 = self.0.max(now.as_nanos() >> TICK_BITS);
        self.value()
    }

    pub(super) fn next(&mut self, now: Instant) -> u32 {
        self.0 = (now.as_nanos() >> TICK_BITS).max(self.0 + 1);
        self.value()
    }

    /// Returns a number below that of the newest state.
    pub(super) const fn before(self) -> u32 {
        Self(self.0.wrapping_sub(1)).value()
    }

    const fn value(self) -> u32 {
        (self.0 & 0xff_ffff) as u32
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::codec::Order;

    // RFC 7641 §4.4 (Q113)
    #[test]
    fn numbers_rise_with_every_state_and_less_than_half_their_range_in_256_seconds() {
        let (mut sequence, mut now) = (Sequence::default(), Instant::from_millis(77_777));
        let mut order = Order { sequence: sequence.at(now), received: now };
        for n in 0..100_000_u64 {
            now += Duration::from_millis(n % 3 * n % 7);
            let next = Order { sequence: sequence.next(now), received: now };
            assert!(order.is_before(&next) && !next.is_before(&order), "{order:?} {next:?}");
            order = next;
        }
        let first = sequence.at(now);
        let later = sequence.at(now + Duration::from_secs(256));
        assert!(later.wrapping_sub(first) & 0xff_ffff < 1 << 23);
    }
}
