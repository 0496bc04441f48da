//! [`Table`]: sessions by number and peer, their timers, and their [`IdleOrder`].

use core::cmp::Reverse;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use conche_proto::Instant;
use siphasher::sip::SipHasher13;

use super::event::{Ended, Role, SessionId};
use super::handshake::{FinalFlightLimiter, Handshake};
use crate::credentials::ClientCredentials;

/// An index of [`Table::places`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place(u32);

impl Place {
    fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
pub(super) struct Session<P, E> {
    pub(super) id: SessionId,
    pub(super) peer: P,
    pub(super) initiator: Initiator,
    pub(super) engine: E,
    pub(super) state: State,
    /// Until then, the same ClientHello random means a retransmission.
    pub(super) deadline: Instant,
    pub(super) last_received: Instant,
    pub(super) final_flight: FinalFlightLimiter,
    wake: Option<Instant>,
    ready: bool,
}

pub(super) struct NewSession<P, E> {
    pub(super) peer: P,
    pub(super) initiator: Initiator,
    pub(super) engine: E,
    pub(super) state: State,
    pub(super) deadline: Instant,
}

#[derive(Debug)]
pub(super) enum State {
    Pending(Box<Handshake>),
    Open,
    /// Remaining datagrams are being sent.
    Closing(Ended),
}

#[derive(Debug)]
pub(super) enum Initiator {
    Local(Box<ClientCredentials>),
    /// The peer, with this ClientHello random.
    Peer {
        random: [u8; 32],
    },
}

impl Initiator {
    pub(super) fn role(&self) -> Role {
        match self {
            Self::Local(_) => Role::Client,
            Self::Peer { .. } => Role::Server,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Associations {
    pub(super) open: Option<Place>,
    pub(super) pending: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) group: Share,
    pub(super) host: Share,
    pub(super) identity: Share,
}

#[derive(Debug)]
pub(super) struct Table<P, E> {
    /// Boxed: engines take kilobytes.
    places: Vec<Option<Box<Session<P, E>>>>,
    free: Vec<Place>,
    last: u64,
    peers: HashMap<P, Associations, Keys>,
    timers: BTreeSet<(Instant, Place)>,
    /// Peers' handshakes by group of sources and host.
    handshakes: BTreeMap<u64, IdleOrder>,
    /// Open sessions by group of sources.
    groups: IdleOrder,
    /// Each group's open sessions by host.
    hosts: BTreeMap<Share, IdleOrder>,
    /// Open sessions by pre-shared key identity, if limited.
    identities: IdleOrder,
    ready: VecDeque<Place>,
}

impl<P: Copy + Eq + Hash, E> Table<P, E> {
    pub(super) fn new(keys: [u64; 2]) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            last: 0,
            peers: HashMap::with_hasher(Keys(keys)),
            timers: BTreeSet::new(),
            handshakes: BTreeMap::new(),
            groups: IdleOrder::default(),
            hosts: BTreeMap::new(),
            identities: IdleOrder::default(),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn associations(&self, peer: &P) -> Associations {
        self.peers.get(peer).copied().unwrap_or_default()
    }

    pub(super) fn at_mut(&mut self, place: Place) -> Option<&mut Session<P, E>> {
        self.places.get_mut(place.index())?.as_deref_mut()
    }

    pub(super) fn at(&self, place: Place) -> Option<&Session<P, E>> {
        self.places.get(place.index())?.as_deref()
    }

    pub(super) fn by_id_mut(&mut self, id: SessionId) -> Option<&mut Session<P, E>> {
        self.at_mut(id.place).filter(|session| session.id == id)
    }

    /// The peer must have none.
    pub(super) fn insert(&mut self, now: Instant, new: NewSession<P, E>) -> SessionId {
        let NewSession { peer, initiator, engine, state, deadline } = new;
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            Place(u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX))
        });
        self.last += 1;
        let id = SessionId { place, number: self.last };
        let final_flight = FinalFlightLimiter::new(now, Duration::ZERO);
        let session = Session {
            id,
            peer,
            initiator,
            engine,
            state,
            deadline,
            last_received: now,
            final_flight,
            wake: None,
            ready: false,
        };
        self.places[place.index()] = Some(Box::new(session));
        self.peers.entry(peer).or_default().pending = Some(place);
        self.mark_ready(place);
        id
    }

    pub(super) fn count_handshake(&mut self, now: Instant, place: Place, source: u64, host: u64) {
        self.handshakes.entry(source).or_default().insert(Some(host), now, place);
    }

    pub(super) fn discount_handshake(&mut self, place: Place, source: u64) {
        let Some(hosts) = self.handshakes.get_mut(&source) else { return };
        hosts.remove(place);
        if hosts.is_empty() {
            self.handshakes.remove(&source);
        }
    }

    /// Returns the idlest handshake of the group's largest host, to make room for this host.
    ///
    /// If that host has at most one more, only a handshake silent for `patience` gives way, so that
    /// hosts do not displace each other in turn.
    pub(super) fn handshake_to_displace(
        &mut self,
        now: Instant,
        source: u64,
        host: u64,
        patience: Duration,
    ) -> Option<Place> {
        let (places, hosts) = (&self.places, self.handshakes.get_mut(&source)?);
        let idlest = hosts.idlest_for(Some(host), |place| last_received(places, place))?;
        let is_rich = hosts.size_with(idlest) > hosts.size(Some(host)).saturating_add(1);
        let is_silent = last_received(places, idlest).is_some_and(|last_received| now.since(last_received) >= patience);
        (is_rich || is_silent).then_some(idlest)
    }

    pub(super) fn promote(&mut self, now: Instant, place: Place, shares: Shares) {
        let Shares { group, host, identity } = shares;
        let Some(session) = self.at_mut(place) else { return };
        session.state = State::Open;
        let peer = session.peer;
        self.groups.insert(group, now, place);
        self.hosts.entry(group).or_default().insert(host, now, place);
        if identity.is_some() {
            self.identities.insert(identity, now, place);
        }
        *self.peers.entry(peer).or_default() = Associations { open: Some(place), pending: None };
    }

    pub(super) fn sessions_of(&self, identity: Share) -> usize {
        self.identities.size(identity)
    }

    pub(super) fn idlest_of(&mut self, identity: Share) -> Option<Place> {
        let places = &self.places;
        self.identities.idlest_of(identity, |place| last_received(places, place))
    }

    /// Returns the idlest of the largest host in the largest group.
    pub(super) fn idlest(&mut self, newcomer: Shares) -> Option<Place> {
        let places = &self.places;
        let last_received = |place| last_received(places, place);
        let idlest = self.groups.idlest_for(newcomer.group, last_received)?;
        let group = self.groups.share_of(idlest)?;
        let hosts = self.hosts.get_mut(&group)?;
        if group == newcomer.group {
            hosts.idlest_for(newcomer.host, last_received)
        } else {
            hosts.idlest_of_fullest(last_received)
        }
    }

    pub(super) fn detach(&mut self, place: Place) {
        let Some(session) = self.at_mut(place) else { return };
        let peer = session.peer;
        if let Some(group) = self.groups.share_of(place)
            && let Some(hosts) = self.hosts.get_mut(&group)
        {
            hosts.remove(place);
            if hosts.is_empty() {
                self.hosts.remove(&group);
            }
        }
        self.groups.remove(place);
        self.identities.remove(place);
        let Some(associations) = self.peers.get_mut(&peer) else { return };
        for known in [&mut associations.open, &mut associations.pending] {
            if *known == Some(place) {
                *known = None;
            }
        }
        if associations.open.is_none() && associations.pending.is_none() {
            self.peers.remove(&peer);
        }
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Session<P, E>> {
        self.detach(place);
        self.set_timer(place, None);
        let session = self.places.get_mut(place.index())?.take()?;
        self.free.push(place);
        Some(*session)
    }

    pub(super) fn set_timer(&mut self, place: Place, wake: Option<Instant>) {
        let Some(session) = self.at_mut(place) else { return };
        let before = core::mem::replace(&mut session.wake, wake);
        if before == wake {
            return;
        }
        if let Some(before) = before {
            self.timers.remove(&(before, place));
        }
        if let Some(wake) = wake {
            self.timers.insert((wake, place));
        }
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn due(&mut self, now: Instant) -> Option<Place> {
        let (at, place) = *self.timers.first()?;
        if at > now {
            return None;
        }
        self.set_timer(place, None);
        Some(place)
    }

    pub(super) fn mark_ready(&mut self, place: Place) {
        let Some(session) = self.at_mut(place) else { return };
        if !core::mem::replace(&mut session.ready, true) {
            self.ready.push_back(place);
        }
    }

    /// Skips removed sessions.
    pub(super) fn next_ready(&mut self) -> Option<Place> {
        while let Some(place) = self.ready.front().copied() {
            if self.at_mut(place).is_some_and(|session| session.ready) {
                return Some(place);
            }
            self.ready.pop_front();
        }
        None
    }

    pub(super) fn mark_idle(&mut self, place: Place) {
        if self.ready.front() == Some(&place) {
            self.ready.pop_front();
        }
        if let Some(session) = self.at_mut(place) {
            session.ready = false;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
            && self.peers.is_empty()
            && self.timers.is_empty()
            && self.handshakes.is_empty()
            && self.groups.is_empty()
            && self.hosts.is_empty()
            && self.identities.is_empty()
    }
}

fn last_received<P, E>(places: &[Option<Box<Session<P, E>>>], place: Place) -> Option<Instant> {
    Some(places.get(place.index())?.as_ref()?.last_received)
}

/// For hashes of addresses, which an attacker may choose.
#[derive(Clone, Copy, Debug)]
struct Keys([u64; 2]);

impl BuildHasher for Keys {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        let Self([first, second]) = *self;
        SipHasher13::new_with_keys(first, second)
    }
}

/// A keyed hash; `None` for sessions begun locally.
pub(super) type Share = Option<u64>;
/// The recorded time of a peer's last record, and its place.
type Standing = (Instant, Place);

/// Sessions or handshakes by share, and within each share in order of silence.
///
/// The largest share gives up a place; of equal ones, the one with the idlest session. Competing
/// shares become equal (max-min fairness).
#[derive(Debug, Default)]
pub(super) struct IdleOrder {
    /// Updated on demand.
    placed: HashMap<Place, (Share, Instant)>,
    shares: BTreeMap<Share, BTreeSet<Standing>>,
    /// Shares by size, the largest last.
    order: BTreeSet<(usize, Reverse<Standing>, Share)>,
}

impl IdleOrder {
    pub(super) fn insert(&mut self, share: Share, at: Instant, place: Place) {
        self.remove(place);
        self.placed.insert(place, (share, at));
        self.change(share, |sessions| sessions.insert((at, place)));
    }

    pub(super) fn remove(&mut self, place: Place) {
        if let Some((share, at)) = self.placed.remove(&place) {
            self.change(share, |sessions| sessions.remove(&(at, place)));
        }
    }

    fn change(&mut self, share: Share, change: impl FnOnce(&mut BTreeSet<Standing>) -> bool) {
        let sessions = self.shares.entry(share).or_default();
        if let Some(first) = sessions.first() {
            self.order.remove(&(sessions.len(), Reverse(*first), share));
        }
        change(sessions);
        match sessions.first() {
            Some(first) => drop(self.order.insert((sessions.len(), Reverse(*first), share))),
            None => drop(self.shares.remove(&share)),
        }
    }

    pub(super) fn size(&self, share: Share) -> usize {
        self.shares.get(&share).map_or(0, BTreeSet::len)
    }

    pub(super) fn size_with(&self, place: Place) -> usize {
        self.placed.get(&place).map_or(0, |(share, _)| self.size(*share))
    }

    pub(super) fn share_of(&self, place: Place) -> Option<Share> {
        self.placed.get(&place).map(|(share, _)| *share)
    }

    fn fullest(&self, newcomer: Share) -> Share {
        match self.order.last() {
            Some((most, _, share)) if *most > self.size(newcomer) => *share,
            _ => newcomer,
        }
    }

    pub(super) fn idlest_of(
        &mut self,
        share: Share,
        last_received: impl Fn(Place) -> Option<Instant>,
    ) -> Option<Place> {
        self.first(|_| share, last_received)
    }

    pub(super) fn idlest_for(
        &mut self,
        newcomer: Share,
        last_received: impl Fn(Place) -> Option<Instant>,
    ) -> Option<Place> {
        self.first(|idle_order| idle_order.fullest(newcomer), last_received)
    }

    pub(super) fn idlest_of_fullest(&mut self, last_received: impl Fn(Place) -> Option<Instant>) -> Option<Place> {
        self.first(|idle_order| idle_order.order.last().and_then(|(_, _, share)| *share), last_received)
    }

    fn first(
        &mut self,
        of: impl Fn(&Self) -> Share,
        last_received: impl Fn(Place) -> Option<Instant>,
    ) -> Option<Place> {
        loop {
            let share = of(self);
            let (at, place) = *self.shares.get(&share)?.first()?;
            match last_received(place).filter(|last_received| *last_received > at) {
                Some(last_received) => self.insert(share, last_received, place),
                None => return Some(place),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.shares.is_empty() && self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_that_want_all_end_up_equal_and_a_modest_one_loses_nothing() {
        let mut idle_order = IdleOrder::default();
        let mut open = 0;
        let mut join = |share: u64, place: u32| {
            if open == 30 {
                let idlest = idle_order.idlest_for(Some(share), |_| None).unwrap();
                idle_order.remove(idlest);
            } else {
                open += 1;
            }
            idle_order.insert(Some(share), Instant::from_millis(u64::from(place)), Place(place));
            [1, 2, 3].map(|share| idle_order.size(Some(share)))
        };
        (0..4).map(|place| join(1, place)).for_each(drop);
        assert_eq!((4..100).map(|place| join(2, place)).last(), Some([4, 26, 0]));
        assert_eq!((100..200).map(|place| join(3, place)).last(), Some([4, 13, 13]));
        assert_eq!((200..300).map(|place| join(2 + u64::from(place % 2), place)).last(), Some([4, 13, 13]));
        (0..300).for_each(|place| idle_order.remove(Place(place)));
        assert!(idle_order.is_empty());
    }

    #[test]
    fn of_shares_that_hold_the_same_the_idlest_makes_room() {
        let mut idle_order = IdleOrder::default();
        let at = Instant::from_millis;
        for (share, place) in [(7, 0), (9, 1), (8, 2)] {
            idle_order.insert(Some(share), at(u64::from(place)), Place(place));
        }
        let last_received = |place| (place == Place(0)).then(|| at(10));
        assert_eq!(idle_order.idlest_for(Some(1), last_received), Some(Place(1)));
    }

    #[test]
    fn a_session_that_received_data_since_is_not_the_idlest() {
        let mut idle_order = IdleOrder::default();
        let at = Instant::from_millis;
        (0..3).for_each(|place| idle_order.insert(None, at(u64::from(place)), Place(place)));
        let last_received = |place| (place == Place(0)).then(|| at(10));
        assert_eq!(idle_order.idlest_of(None, last_received), Some(Place(1)));
        idle_order.remove(Place(1));
        idle_order.remove(Place(2));
        assert_eq!(idle_order.idlest_of(None, last_received), Some(Place(0)));
    }
}
