//! [`Observers`]: the clients that observe something here (RFC 7641 §4).
//!
//! An observer has at most one notification under way. What changes meanwhile supersedes it or follows it, so nothing
//! queues up however slow a client is. Bounded in total, for each peer, and for each group of sources by its
//! [share](crate::shares).

use alloc::collections::BTreeMap;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use super::entry::{Observer, Progress, Watcher};
use super::sequence::Sequence;
use super::topics::{Topic, Walking};
use crate::blockwise::Asked;
use crate::codec::{MessageId, Token};
use crate::exchange::{Content, ExchangeId, Failure, Reliability};
use crate::hash::Keyed;
use crate::incoming::RequestId;
use crate::security::Security;
use crate::shares::{Group, Shares};
use crate::store::{Arena, Index, Links, List, Seldom, Timers};
use conche_cc::Instant;
use conche_cc::units::Stamp;

/// Names an observer of something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObserverId {
    index: u32,
    generation: u32,
}

/// Why an observer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObserverEnd {
    /// It deregistered: a request with Observe 1 (RFC 7641 §3.6).
    Deregistered,
    /// It registered again under the same token (RFC 7641 §4.1); that request follows.
    Replaced,
    /// The state has another Content-Format than the first response had: the client was sent 4.06
    /// (RFC 7641 §4.2).
    FormatChanged,
    /// It rejected a notification, or a notification could not be delivered (RFC 7641 §4.5).
    Failed(Failure),
}

impl fmt::Display for ObserverEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deregistered => f.write_str("the client deregistered"),
            Self::Replaced => f.write_str("the client registered again"),
            Self::FormatChanged => f.write_str("the Content-Format of the state has changed"),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

/// Who observes: what an entry in the list of observers is found by (RFC 7641 §4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) peer: u32,
    pub(crate) token: Token,
    pub(crate) local: Option<IpAddr>,
}

/// A client that wants to observe.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) place: Place,
    pub(crate) group: Group,
    pub(crate) topic: u64,
    pub(crate) request: RequestId,
    pub(crate) asked: Asked,
    pub(crate) security: Security,
}

/// A message that an observer is to be sent.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) place: Place,
    pub(crate) group: Group,
    pub(crate) asked: Asked,
    pub(crate) security: Security,
    /// The whole state, however large.
    pub(crate) content: Content,
    pub(crate) reliability: Reliability,
}

/// An observer is no larger than 96 bytes and its key: peer, token and our address.
const _: () = assert!(Observers::BYTES <= 96 + size_of::<Place>());

/// All clients that observe something here.
#[derive(Debug)]
pub(crate) struct Observers {
    pub(super) slots: Arena<Observer>,
    by_place: Index,
    pub(super) watchers: Arena<Watcher>,
    by_peer: Index,
    pub(super) topics: Arena<Topic>,
    pub(super) by_name: Index,
    /// Topics whose observers are being told, in turn.
    pub(super) walking: List<Walking>,
    /// When the newest state of each topic has settled.
    pub(super) settling: Timers,
    shares: Shares,
    hash: Keyed,
    generation: u32,
    /// Observers with a registration that awaits its response, by request.
    registering: BTreeMap<RequestId, u32>,
    /// No topic starts lower than one ended.
    sequence: Sequence,
}

impl Seldom for Observers {
    type Recipe = Keyed;

    fn empty<'a>() -> &'a Self {
        const { &Self::new(Keyed::NONE) }
    }

    fn make(hash: &Keyed) -> Self {
        Self::new(*hash)
    }
}

impl Observers {
    /// Bytes of an observer, its key included, without its place in the index.
    pub(crate) const BYTES: usize = Arena::<Observer>::PLACE_BYTES;

    const fn new(hash: Keyed) -> Self {
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

    /// Returns the observer that this request registers, as long as the request awaits its
    /// response.
    pub(crate) fn registered_by(&self, request: RequestId) -> Option<u32> {
        self.registering.get(&request).copied()
    }

    /// Forgets the request that registered an observer, which is answered or never will be.
    pub(super) fn end_registration(&mut self, index: u32) {
        if let Progress::Unanswered(request) = self.slots[index].progress {
            self.registering.remove(&request);
        }
    }

    /// Changes the token of an observer to that of the next message of its registration (RFC 7959
    /// §2.5). The response and the notifications answer the last message, and so have its token.
    pub(crate) fn continue_registration(&mut self, index: u32, token: Token, asked: Asked, security: Security) {
        let Observer { watcher, token: before, .. } = &self.slots[index];
        let Watcher { peer, group, .. } = self.watchers[*watcher];
        self.shares.give_back(group, before.places());
        self.shares.take(group, token.places());
        self.by_place.remove(index);
        let hash = self.hash_of(peer, &token);
        let observer = &mut self.slots[index];
        (observer.token, observer.asked, observer.security) = (token, asked, security);
        self.by_place.insert(hash, index);
    }

    /// How many observe this.
    pub(crate) fn of_topic(&self, name: u64) -> (usize, Option<u32>) {
        let topic = self.by_name.peek(&self.topics, self.hash.spread(name, 1), |topic: &Topic| topic.name == name);
        topic.map_or((0, None), |topic| (self.topics[topic].len as usize, self.topics[topic].observers.first()))
    }

    /// There may be one more of this group with this token, of `capacity` in all.
    pub(crate) fn admits(&self, group: Group, token: &Token, capacity: usize) -> bool {
        self.shares.admits(group, token.places(), capacity)
    }

    /// There may be one more of this peer, which may have so many.
    pub(crate) fn admits_peer(&mut self, peer: u32, per_peer: usize) -> bool {
        self.watcher(peer).map_or(0, |watcher| self.watchers[watcher].len as usize) < per_peer
    }

    /// Enters an observer that is admitted, and that is none yet.
    pub(crate) fn insert(&mut self, now: Instant, registration: Registration) -> Option<ObserverId> {
        let Registration { place, group, topic, request, asked, security } = registration;
        let Place { peer, token, local } = place;
        let topic = self.open_topic(topic)?;
        let watcher = self.open_watcher(peer, group)?;
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
            confirmed: now,
            of_topic: Links::default(),
            of_watcher: Links::default(),
        };
        let index = self.slots.insert(observer)?;
        self.by_place.insert(hash, index);
        self.topics[topic].observers.push_back(&mut self.slots, index);
        self.topics[topic].len += 1;
        self.watchers[watcher].observers.push_back(&mut self.slots, index);
        self.watchers[watcher].len += 1;
        self.shares.take(group, places);
        self.registering.insert(request, index);
        Some(ObserverId { index, generation: self.generation })
    }

    /// Takes an observer that is sent nothing out of all lists; the answer is its peer.
    pub(crate) fn remove(&mut self, index: u32) -> u32 {
        self.end_registration(index);
        let &Observer { watcher, topic, ref token, .. } = &self.slots[index];
        let places = token.places();
        self.by_place.remove(index);
        self.topics[topic].observers.remove(&mut self.slots, index);
        self.watchers[watcher].observers.remove(&mut self.slots, index);
        self.slots.remove(index);
        let &mut Watcher { peer, group, ref mut len, .. } = &mut self.watchers[watcher];
        *len -= 1;
        if *len == 0 {
            self.by_peer.remove(watcher);
            self.watchers.remove(watcher);
        }
        self.shares.give_back(group, places);
        self.topics[topic].len -= 1;
        self.close_if_unobserved(topic);
        peer
    }

    /// One that this peer is.
    pub(crate) fn of_peer(&mut self, peer: u32) -> Option<u32> {
        let watcher = self.watcher(peer)?;
        self.watchers[watcher].observers.first()
    }

    /// The observer of this name, if it still observes.
    pub(crate) fn live(&self, id: ObserverId) -> Option<u32> {
        self.slots.get(id.index).filter(|observer| observer.generation == id.generation).map(|_| id.index)
    }

    /// Its name, its peer, and what it observes.
    pub(crate) fn named(&self, index: u32) -> (ObserverId, u32, u64) {
        let &Observer { generation, watcher, topic, .. } = &self.slots[index];
        (ObserverId { index, generation }, self.watchers[watcher].peer, self.topics[topic].name)
    }

    /// Where it is.
    pub(crate) fn place(&self, index: u32) -> Place {
        let Observer { watcher, token, local, .. } = &self.slots[index];
        Place { peer: self.watchers[*watcher].peer, token: token.clone(), local: *local }
    }

    /// It registered with a request that was protected like this.
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

    /// The observer whose last notification had this message ID, as long as no other message can have it.
    pub(crate) fn with_id(&mut self, now: Instant, peer: u32, id: MessageId, lifetime: Duration) -> Option<u32> {
        let watcher = self.watcher(peer)?;
        let lives = |left: Stamp| u128::from(left.age_ms(Stamp::at(now))) < lifetime.as_millis();
        let is_it = |observer: &Observer| observer.last == Some(id) && lives(observer.left);
        self.watchers[watcher].observers.find(&mut self.slots, is_it)
    }

    /// The observer whose first response this exchange is.
    pub(crate) fn first_answered_by(&mut self, place: &Place, exchange: ExchangeId) -> Option<u32> {
        self.find(place).filter(|&index| self.slots[index].first == Some(exchange.generation))
    }

    fn hash_of(&self, peer: u32, token: &Token) -> u64 {
        self.hash.hash(&(peer, token))
    }

    fn watcher(&mut self, peer: u32) -> Option<u32> {
        self.by_peer.find(&self.watchers, self.hash.spread(peer.into(), 0), |watcher: &Watcher| watcher.peer == peer)
    }

    fn open_watcher(&mut self, peer: u32, group: Group) -> Option<u32> {
        if let Some(watcher) = self.watcher(peer) {
            return Some(watcher);
        }
        let watcher = Watcher { peer, len: 0, group, observers: List::new() };
        let index = self.watchers.insert(watcher)?;
        self.by_peer.insert(self.hash.spread(peer.into(), 0), index);
        Some(index)
    }

    pub(super) fn topic(&mut self, name: u64) -> Option<u32> {
        self.by_name.find(&self.topics, self.hash.spread(name, 1), |topic: &Topic| topic.name == name)
    }

    fn open_topic(&mut self, name: u64) -> Option<u32> {
        if let Some(topic) = self.topic(name) {
            return Some(topic);
        }
        let index = self.topics.insert(Topic::new(name, self.sequence))?;
        self.by_name.insert(self.hash.spread(name, 1), index);
        Some(index)
    }

    fn close_if_unobserved(&mut self, index: u32) {
        let &Topic { len, walks, named, sequence, .. } = &self.topics[index];
        if len > 0 {
            return;
        }
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
