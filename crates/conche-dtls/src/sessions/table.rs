//! [`Table`]: sessions by number and peer, timers, and the idlest.

use core::hash::{BuildHasher, Hash};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use conche_proto::Instant;
use siphasher::sip::SipHasher13;

use super::event::{Ended, Role, SessionId};
use super::flight::FinalFlightLimiter;
use super::handshake::Handshake;
use super::idle_order::{IdleOrder, Share};
use crate::credentials::ClientCredentials;

#[derive(Debug)]
pub(super) struct Session<P, E> {
    pub(super) id: SessionId,
    pub(super) peer: P,
    pub(super) initiator: Initiator,
    pub(super) engine: E,
    pub(super) state: State,
    /// Latest end of its handshake; until then, the same ClientHello random means a retransmission.
    pub(super) deadline: Instant,
    pub(super) last_received: Instant,
    /// Limits its last flight's answers.
    pub(super) final_flight: FinalFlightLimiter,
    wake: Option<Instant>,
    /// Queued to be polled.
    ready: bool,
}

#[derive(Debug)]
pub(super) enum State {
    /// In a handshake.
    Pending(Box<Handshake>),
    Open,
    /// Remaining datagrams are being sent.
    Closing(Ended),
}

#[derive(Debug)]
pub(super) enum Initiator {
    /// The local side, with these credentials.
    Local(Box<ClientCredentials>),
    /// The peer, with this ClientHello random.
    Peer { random: [u8; 32] },
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
    pub(super) open: Option<u32>,
    pub(super) pending: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) group: Share,
    pub(super) host: Share,
    pub(super) identity: Share,
}

#[derive(Debug)]
pub(super) struct Table<P, E> {
    /// Boxed: engines take kilobytes, and most places may be free.
    places: Vec<Option<Box<Session<P, E>>>>,
    free: Vec<u32>,
    last: u64,
    peers: HashMap<P, Associations, Keys>,
    timers: BTreeSet<(Instant, u32)>,
    /// Peers' handshakes by group of sources and host.
    handshakes: BTreeMap<u64, IdleOrder>,
    /// Open sessions by group of sources.
    groups: IdleOrder,
    /// Each group's open sessions by host.
    hosts: BTreeMap<Share, IdleOrder>,
    /// Open sessions by pre-shared key identity, if limited.
    identities: IdleOrder,
    ready: VecDeque<u32>,
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

    pub(super) fn at(&mut self, place: u32) -> Option<&mut Session<P, E>> {
        self.places.get_mut(usize::try_from(place).ok()?)?.as_deref_mut()
    }

    pub(super) fn look(&self, place: u32) -> Option<&Session<P, E>> {
        self.places.get(usize::try_from(place).ok()?)?.as_deref()
    }

    pub(super) fn get(&mut self, id: SessionId) -> Option<&mut Session<P, E>> {
        self.at(id.place).filter(|session| session.id == id)
    }

    /// The peer must have none.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        peer: P,
        engine: E,
        initiator: Initiator,
        state: State,
        deadline: Instant,
    ) -> SessionId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
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
        self.places[place as usize] = Some(Box::new(session));
        self.peers.entry(peer).or_default().pending = Some(place);
        self.mark_ready(place);
        id
    }

    pub(super) fn count_handshake(&mut self, now: Instant, place: u32, source: u64, host: u64) {
        self.handshakes.entry(source).or_default().insert(Some(host), now, place);
    }

    pub(super) fn discount_handshake(&mut self, place: u32, source: u64) {
        let Some(hosts) = self.handshakes.get_mut(&source) else { return };
        hosts.remove(place);
        if hosts.is_empty() {
            self.handshakes.remove(&source);
        }
    }

    /// Returns the idlest handshake of the group's host with most, to make room for this host.
    ///
    /// If that host has at most one more than this one, only a handshake silent for `patience`
    /// gives way, so that hosts do not displace each other in turn.
    pub(super) fn handshake_to_displace(
        &mut self,
        now: Instant,
        source: u64,
        host: u64,
        patience: Duration,
    ) -> Option<u32> {
        let (places, hosts) = (&self.places, self.handshakes.get_mut(&source)?);
        let idlest = hosts.idlest_for(Some(host), |place| last_received(places, place))?;
        let is_rich = hosts.size_with(idlest) > hosts.size(Some(host)).saturating_add(1);
        let is_silent = last_received(places, idlest).is_some_and(|last_received| now.since(last_received) >= patience);
        (is_rich || is_silent).then_some(idlest)
    }

    /// Makes a completed handshake its peer's open session, with these shares.
    pub(super) fn promote(&mut self, now: Instant, place: u32, shares: Shares) {
        let Shares { group, host, identity } = shares;
        let Some(session) = self.at(place) else { return };
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

    pub(super) fn idlest_of(&mut self, identity: Share) -> Option<u32> {
        let places = &self.places;
        self.identities.idlest_of(identity, |place| last_received(places, place))
    }

    /// Returns the session to close for a newcomer: the idlest of the host with most, in the group
    /// with most.
    pub(super) fn idlest(&mut self, newcomer: Shares) -> Option<u32> {
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

    pub(super) fn detach(&mut self, place: u32) {
        let Some(session) = self.at(place) else { return };
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

    pub(super) fn remove(&mut self, place: u32) -> Option<Session<P, E>> {
        self.detach(place);
        self.set_timer(place, None);
        let session = self.places.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(*session)
    }

    pub(super) fn set_timer(&mut self, place: u32, wake: Option<Instant>) {
        let Some(session) = self.at(place) else { return };
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

    pub(super) fn due(&mut self, now: Instant) -> Option<u32> {
        let (at, place) = *self.timers.first()?;
        if at > now {
            return None;
        }
        self.set_timer(place, None);
        Some(place)
    }

    pub(super) fn mark_ready(&mut self, place: u32) {
        let Some(session) = self.at(place) else { return };
        if !core::mem::replace(&mut session.ready, true) {
            self.ready.push_back(place);
        }
    }

    /// Returns the next session to poll, skipping removed ones.
    pub(super) fn next_ready(&mut self) -> Option<u32> {
        while let Some(place) = self.ready.front().copied() {
            if self.at(place).is_some_and(|session| session.ready) {
                return Some(place);
            }
            self.ready.pop_front();
        }
        None
    }

    pub(super) fn mark_idle(&mut self, place: u32) {
        if self.ready.front() == Some(&place) {
            self.ready.pop_front();
        }
        if let Some(session) = self.at(place) {
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

fn last_received<P, E>(places: &[Option<Box<Session<P, E>>>], place: u32) -> Option<Instant> {
    Some(places.get(usize::try_from(place).ok()?)?.as_ref()?.last_received)
}

/// Keys for hashes of addresses, which an attacker may choose.
#[derive(Clone, Copy, Debug)]
struct Keys([u64; 2]);

impl BuildHasher for Keys {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        let Self([first, second]) = *self;
        SipHasher13::new_with_keys(first, second)
    }
}
