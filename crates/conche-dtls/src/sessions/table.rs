//! [`Table`]: sessions by number and by peer, their timers, and which of them was silent for longest.

use core::hash::{BuildHasher, Hash};
use std::collections::{BTreeSet, HashMap, VecDeque};

use conche_proto::Instant;
use conche_proto::shares::Group;
use siphasher::sip::SipHasher13;

use super::event::{Ended, Role, SessionId};
use crate::credentials::{ClientCredentials, Identity};

/// One association.
#[derive(Debug)]
pub(super) struct Session<P, E> {
    pub(super) id: SessionId,
    pub(super) peer: P,
    pub(super) began: Began,
    pub(super) engine: E,
    pub(super) state: State,
    /// When its handshake is over, one way or the other. Until then a copy of what began it is no more than that.
    pub(super) deadline: Instant,
    /// When it last heard of its peer.
    pub(super) heard: Instant,
    /// When it wants to be woken.
    wake: Option<Instant>,
    /// It is in the queue of those that have something to say.
    ready: bool,
    /// When it was last put into the order of silence.
    placed: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum State {
    /// The handshake goes on. What the peer has proved is told at its end.
    Pending { group: Group, proved: Option<Identity>, early: Early },
    /// Data flows.
    Open,
    /// What remains to be said is being said.
    Closing(Ended),
}

/// A Finished that came before the ChangeCipherSpec that it follows. Where these are sent as datagrams of their own, the network may turn them
/// round, and engines forget what they cannot read yet.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// ChangeCipherSpec has come.
    pub(super) changed: bool,
    record: Option<Box<[u8]>>,
}

impl Early {
    /// Bytes of a record with a Finished, at most: 12 and their header, as far as suites protect them.
    const LONGEST: usize = 128;

    /// Keeps a protected record, the last of those that are short enough.
    pub(super) fn keep(&mut self, record: &[u8]) {
        if record.len() <= Self::LONGEST {
            self.record = Some(record.into());
        }
    }

    /// What may be read now.
    pub(super) fn readable(&self) -> Option<Box<[u8]>> {
        self.record.clone().filter(|_| self.changed)
    }
}

/// How it began.
#[derive(Debug)]
pub(super) enum Began {
    /// We asked for it, and expect this.
    ByUs(Box<ClientCredentials>),
    /// The peer did, by a ClientHello with this random.
    ByPeer { random: [u8; 32] },
}

impl Began {
    pub(super) fn role(&self) -> Role {
        match self {
            Self::ByUs(_) => Role::Client,
            Self::ByPeer { .. } => Role::Server,
        }
    }
}

/// Which associations there are with a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pair {
    pub(super) open: Option<u32>,
    pub(super) pending: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Table<P, E> {
    /// Each in a box: an engine has kilobytes, and most places may be free.
    places: Vec<Option<Box<Session<P, E>>>>,
    free: Vec<u32>,
    last: u64,
    peers: HashMap<P, Pair, Keys>,
    timers: BTreeSet<(Instant, u32)>,
    silence: BTreeSet<(Instant, u32)>,
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
            silence: BTreeSet::new(),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn pair(&self, peer: &P) -> Pair {
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

    /// A handshake begins. There is none with this peer.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        peer: P,
        engine: E,
        began: Began,
        state: State,
        deadline: Instant,
    ) -> SessionId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        self.last += 1;
        let id = SessionId { place, number: self.last };
        let (wake, ready, placed) = (None, false, None);
        let session = Session { id, peer, began, engine, state, deadline, heard: now, wake, ready, placed };
        self.places[place as usize] = Some(Box::new(session));
        self.peers.entry(peer).or_default().pending = Some(place);
        self.mark_ready(place);
        id
    }

    /// A handshake is done: it is the open session with its peer now.
    pub(super) fn promote(&mut self, now: Instant, place: u32) {
        let Some(session) = self.at(place) else { return };
        session.state = State::Open;
        session.placed = Some(now);
        let peer = session.peer;
        self.silence.insert((now, place));
        *self.peers.entry(peer).or_default() = Pair { open: Some(place), pending: None };
    }

    /// The open session that was silent for longest. Those that were heard of since they were placed are placed anew.
    pub(super) fn idlest(&mut self) -> Option<u32> {
        loop {
            let (placed, place) = self.silence.pop_first()?;
            let Some(session) = self.at(place) else { continue };
            if session.heard <= placed {
                self.silence.insert((placed, place));
                return Some(place);
            }
            let heard = session.heard;
            session.placed = Some(heard);
            self.silence.insert((heard, place));
        }
    }

    /// It is neither what its peer is known by any more, nor to be evicted.
    pub(super) fn detach(&mut self, place: u32) {
        let Some(session) = self.at(place) else { return };
        let (peer, placed) = (session.peer, session.placed.take());
        if let Some(placed) = placed {
            self.silence.remove(&(placed, place));
        }
        let Some(pair) = self.peers.get_mut(&peer) else { return };
        for known in [&mut pair.open, &mut pair.pending] {
            if *known == Some(place) {
                *known = None;
            }
        }
        if pair.open.is_none() && pair.pending.is_none() {
            self.peers.remove(&peer);
        }
    }

    /// Takes it out. Nothing is left of it.
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

    /// Takes the next timer that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<u32> {
        let (at, place) = *self.timers.first()?;
        if at > now {
            return None;
        }
        self.set_timer(place, None);
        Some(place)
    }

    /// It may have something to say.
    pub(super) fn mark_ready(&mut self, place: u32) {
        let Some(session) = self.at(place) else { return };
        if !core::mem::replace(&mut session.ready, true) {
            self.ready.push_back(place);
        }
    }

    /// Who may have something to say. A place whose session has gone in between is passed over.
    pub(super) fn next_ready(&mut self) -> Option<u32> {
        while let Some(place) = self.ready.front().copied() {
            if self.at(place).is_some_and(|session| session.ready) {
                return Some(place);
            }
            self.ready.pop_front();
        }
        None
    }

    /// It has nothing more to say.
    pub(super) fn said_all(&mut self, place: u32) {
        if self.ready.front() == Some(&place) {
            self.ready.pop_front();
        }
        if let Some(session) = self.at(place) {
            session.ready = false;
        }
    }

    /// Nothing is left of anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
            && self.peers.is_empty()
            && self.timers.is_empty()
            && self.silence.is_empty()
    }
}

/// Keys of the hash of peers' addresses, which they may choose.
#[derive(Clone, Copy, Debug)]
struct Keys([u64; 2]);

impl BuildHasher for Keys {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        let Self([first, second]) = *self;
        SipHasher13::new_with_keys(first, second)
    }
}
