//! [`Sessions`]: all sessions of one socket, ours and those of clients.

mod event;
mod flight;
mod handshake;
mod poll;
mod receive;
mod silence;
mod table;

use core::hash::{Hash, Hasher};
use core::time::Duration;
use std::collections::VecDeque;

use conche_proto::shares::{Group, Shares};
use conche_proto::{Instant, Limiter, PeerKey};
use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};
use siphasher::sip::SipHasher13;

pub use self::event::{ConnectError, Ended, Output, Progress, Role, SendError, SessionId, Stats};
use self::flight::Flights;
use self::handshake::{Expected, Handshake};
use self::table::{Began, State, Table};
use crate::config::{Config, ConfigError};
use crate::cookie::{Gate, REPLY};
use crate::credentials::{ClientCredentials, Identity};
use crate::engine::{DimplEngines, Engine, Engines, Failure, Fence};
use crate::wire::{self, content};

/// Answers of one datagram each that wait to be polled. More are dropped: a driver polls after each datagram.
const REPLIES: usize = 64;
/// Flight timeouts for which a peer was silent before its handshake gives way to one of a host with as many: by then the flight that it
/// has to answer was repeated, unless it takes long to it.
const PATIENCE: u32 = 4;
/// Bytes of plaintext in a record, at most (RFC 5246 §6.2.1).
const LONGEST_PLAINTEXT: usize = 1 << 14;

/// Tells which sources count as one.
type Sources<P> = Box<dyn Fn(&P) -> u64 + Send + Sync>;

/// All sessions of one socket. See the crate's own page.
pub struct Sessions<P, E: Engines = DimplEngines> {
    config: Config,
    engines: E,
    random: ChaCha12Rng,
    gate: Gate,
    table: Table<P, Fence<E::Engine>>,
    /// Handshakes that go on, by groups of sources.
    shares: Shares,
    unfinished: Unfinished,
    group_key: [u64; 2],
    groups: Option<Sources<P>>,
    hosts: Option<Sources<P>>,
    /// Answers that belong to no session.
    replies: VecDeque<Reply<P>>,
    ended: VecDeque<Output<P>>,
    stats: Stats,
}

/// Limits of unfinished handshakes per second.
#[derive(Debug)]
struct Unfinished {
    hosts: Limiter,
    groups: Limiter,
}

/// A datagram that belongs to no session.
#[derive(Clone, Copy, Debug)]
struct Reply<P> {
    to: P,
    bytes: [u8; REPLY],
    len: usize,
}

impl<P> Reply<P> {
    /// A fatal alert that nothing protects: handshakes that have failed have no keys in common.
    fn alert(to: P, sequence: u64, description: u8) -> Self {
        let mut bytes = [0; REPLY];
        let len = wire::write_record(&mut bytes, content::ALERT, wire::DTLS_1_2, sequence, &[2, description]);
        Self { to, bytes, len }
    }
}

impl<P: PeerKey> Sessions<P> {
    /// Sessions that begin now. `seed` is where their randomness comes from (but for keys, which the system's gives): it must be unpredictable, as cookies are
    /// made with it.
    ///
    /// # Errors
    ///
    /// The configuration cannot be used.
    pub fn new(now: Instant, config: Config, seed: [u8; 32]) -> Result<Self, ConfigError> {
        config.check()?;
        let engines = DimplEngines::new(&config)?;
        Self::with_engines(now, config, seed, engines)
    }
}

impl<P: PeerKey, E: Engines> Sessions<P, E> {
    /// As [`Sessions::new`], with engines of another kind.
    ///
    /// # Errors
    ///
    /// The configuration cannot be used.
    pub fn with_engines(now: Instant, config: Config, seed: [u8; 32], engines: E) -> Result<Self, ConfigError> {
        config.check()?;
        let mut random = ChaCha12Rng::from_seed(seed);
        let gate = Gate::new(now, &mut random);
        let mut keys = || [random.next_u64(), random.next_u64()];
        let (table, group_key) = (keys(), keys());
        let unfinished = Unfinished {
            hosts: Limiter::new(config.unfinished_per_host),
            groups: Limiter::new(config.unfinished_per_group),
        };
        Ok(Self {
            config,
            engines,
            unfinished,
            gate,
            table: Table::new(table),
            shares: Shares::default(),
            group_key,
            groups: None,
            hosts: None,
            replies: VecDeque::with_capacity(REPLIES),
            ended: VecDeque::new(),
            stats: Stats::default(),
            random,
        })
    }

    /// Which sources count as one where handshakes and sessions are limited: those that this maps to the same number, for example all
    /// of an address prefix. Without it, each peer is one.
    pub fn set_source_groups(&mut self, groups: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.groups = Some(groups);
    }

    /// Sets the function that maps peers to hosts, for example all ports of an address to one
    /// number. Under contention, the hosts of a group get equal shares of its handshakes and
    /// sessions. By default each peer is a host.
    pub fn set_hosts(&mut self, hosts: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.hosts = Some(hosts);
    }

    /// Begins a session with a server. `round_trip` is that of the path, if it is known; flights wait for three times as long for their answer,
    /// and [`Config::flight_timeout`] at least.
    /// [`Output::Established`] follows, or [`Output::Closed`]. An open session with this peer stays open until then.
    ///
    /// # Errors
    ///
    /// There is a handshake with this peer already, or there are as many as there may, or the credentials cannot be used.
    pub fn connect(
        &mut self,
        now: Instant,
        to: P,
        credentials: &ClientCredentials,
        round_trip: Option<Duration>,
    ) -> Result<SessionId, ConnectError> {
        self.open_by(now, to, credentials, |least| Flights::new(least, round_trip, false))
    }

    /// The same under a congestion control that is elsewhere: [`Output::Flight`] tells it what leaves and what is answered, and it says when to
    /// [repeat](Self::repeat) a flight. The first leaves with the next poll.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect).
    pub fn connect_controlled(
        &mut self,
        now: Instant,
        to: P,
        credentials: &ClientCredentials,
    ) -> Result<SessionId, ConnectError> {
        self.open_by(now, to, credentials, |least| Flights::new(least, None, true))
    }

    fn open_by(
        &mut self,
        now: Instant,
        to: P,
        credentials: &ClientCredentials,
        flights: impl FnOnce(Duration) -> Flights,
    ) -> Result<SessionId, ConnectError> {
        if self.table.pair(&to).pending.is_some() {
            return Err(ConnectError::Busy);
        }
        if self.stats.handshakes >= self.config.max_handshakes {
            return Err(ConnectError::Full);
        }
        let engine = self.engines.connect(now, credentials)?;
        let expected = Expected::Server { with_keys: matches!(credentials, ClientCredentials::Psk { .. }) };
        let flights = flights(self.config.flight_timeout);
        Ok(self.begin(now, to, engine, Began::ByUs(Box::new(credentials.clone())), expected, flights))
    }

    /// Repeats the last flight of a handshake that is [controlled elsewhere](Self::connect_controlled); [`poll`](Self::poll) has its datagrams.
    pub fn repeat(&mut self, session: SessionId) {
        let Some(found) = self.table.get(session) else { return };
        if !matches!(&found.state, State::Pending(handshake) if handshake.flights.is_controlled()) {
            return;
        }
        match found.engine.repeat() {
            Ok(()) => self.table.mark_ready(session.place),
            Err(failure) => self.fail(session.place, failure),
        }
    }

    /// Sends plaintext, in one record; [`poll`](Self::poll) has the datagram.
    ///
    /// # Errors
    ///
    /// The session is not open, or the plaintext too long, or the engine cannot go on.
    pub fn send(&mut self, session: SessionId, plaintext: &[u8]) -> Result<(), SendError> {
        if plaintext.len() > LONGEST_PLAINTEXT {
            return Err(SendError::TooLong(plaintext.len()));
        }
        let open = self.table.get(session).filter(|session| matches!(session.state, State::Open));
        let open = open.ok_or(SendError::NotOpen)?;
        let sent = open.engine.send(plaintext);
        if let Err(failure) = sent {
            self.fail(session.place, failure.clone());
            return Err(failure.into());
        }
        self.table.mark_ready(session.place);
        Ok(())
    }

    /// Ends a session, and tells its peer. [`Output::Closed`] follows, unless there is no such session.
    pub fn close(&mut self, session: SessionId) {
        if self.table.get(session).is_some() {
            self.retire(session.place, Ended::Closed);
        }
    }

    /// Where the peer of a session is.
    #[must_use]
    pub fn peer(&self, session: SessionId) -> Option<P> {
        self.table.look(session.place).filter(|found| found.id == session).map(|found| found.peer)
    }

    /// The open session with a peer.
    #[must_use]
    pub fn open(&self, peer: &P) -> Option<SessionId> {
        self.table.look(self.table.pair(peer).open?).map(|session| session.id)
    }

    /// What has happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Nothing is kept of any peer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.replies.is_empty() && self.ended.is_empty()
    }

    fn begin(
        &mut self,
        now: Instant,
        peer: P,
        engine: E::Engine,
        began: Began,
        expected: Expected,
        flights: Flights,
    ) -> SessionId {
        let (source, role) = (self.source_of(&peer), began.role());
        let host = self.host_of(&peer);
        self.stats.handshakes += 1;
        let deadline = now + self.config.handshake_timeout;
        let handshake = Handshake::new(source, expected, flights);
        let id = self.table.insert(now, peer, Fence::new(engine), began, State::Pending(Box::new(handshake)), deadline);
        // What we ask for ourselves is nobody's share.
        if role == Role::Server {
            self.shares.take(Group::of(source), 1);
            self.table.count_handshake(now, id.place, source, host);
        }
        id
    }

    /// The hash of the group of sources that a peer is of.
    fn source_of(&self, peer: &P) -> u64 {
        match &self.groups {
            Some(groups) => self.hash(&groups(peer)),
            None => self.hash(peer),
        }
    }

    /// The hash of the host that a peer is at.
    fn host_of(&self, peer: &P) -> u64 {
        match &self.hosts {
            Some(hosts) => self.hash(&hosts(peer)),
            None => self.hash(peer),
        }
    }

    fn hash(&self, value: &impl Hash) -> u64 {
        let [first, second] = self.group_key;
        let mut hasher = SipHasher13::new_with_keys(first, second);
        value.hash(&mut hasher);
        hasher.finish()
    }

    /// Sees to it that there is room for one more open session of these shares.
    fn make_room(&mut self, shares: table::Shares) {
        let identity = shares.identity;
        let bound = self.config.max_sessions_per_identity;
        let idlest = if bound.is_some_and(|bound| identity.is_some() && self.table.sessions_of(identity) >= bound) {
            self.table.idlest_of(identity)
        } else if self.stats.sessions >= self.config.max_sessions {
            self.table.idlest(shares)
        } else {
            None
        };
        if let Some(idlest) = idlest {
            self.stats.evicted += 1;
            self.retire(idlest, Ended::Evicted);
        }
    }

    /// Counts one more unfinished handshake for the host and the group of this peer. Returns
    /// `false` if either is at its limit.
    fn admit_unfinished(&mut self, now: Instant, peer: &P) -> bool {
        let (host, group) = (Group::of(self.host_of(peer)), Group::of(self.source_of(peer)));
        let admitted = self.unfinished.hosts.admits(now, host);
        if admitted && !self.unfinished.groups.admits(now, group) {
            self.unfinished.hosts.give_back(host);
            return false;
        }
        admitted
    }

    /// Uncounts a handshake that was completed, or not begun after all.
    fn forgive_unfinished(&mut self, peer: &P) {
        let (host, group) = (Group::of(self.host_of(peer)), Group::of(self.source_of(peer)));
        self.unfinished.hosts.give_back(host);
        self.unfinished.groups.give_back(group);
    }

    /// There is room for a handshake that this peer wants to begin, or is made by another of its group of sources that gives way.
    fn has_room_for_handshake(&mut self, now: Instant, peer: &P) -> bool {
        let (source, most) = (self.source_of(peer), self.config.max_handshakes);
        if self.stats.handshakes < most && self.shares.admits(Group::of(source), 1, most) {
            return true;
        }
        let (host, patience) = (self.host_of(peer), self.config.flight_timeout.saturating_mul(PATIENCE));
        let Some(place) = self.table.giving_way(now, source, host, patience) else { return false };
        self.stats.displaced += 1;
        self.fail(place, Failure::Full);
        true
    }

    /// A handshake is over, well or not.
    fn release(&mut self, place: u32, role: Role, source: u64) {
        if role == Role::Server {
            self.shares.give_back(Group::of(source), 1);
            self.table.discount_handshake(place, source);
        }
        self.stats.handshakes = self.stats.handshakes.saturating_sub(1);
    }

    /// An engine cannot go on. Its peer is told why, if it can be told.
    fn fail(&mut self, place: u32, failure: Failure) {
        if failure == Failure::Panicked {
            self.stats.panicked += 1;
        }
        let Some(session) = self.table.at(place) else { return };
        let to = session.peer;
        let (failure, pending) = match &session.state {
            State::Pending(handshake) if failure == Failure::Silence => (handshake.silence(), true),
            state => (failure, matches!(state, State::Pending(_))),
        };
        if let (Some(alert), true) = (failure.alert(), pending) {
            // Records of a handshake are few: no replay window has seen this number.
            self.reply(Reply::alert(to, 0xffff, alert));
        }
        self.finish(place, Ended::Failed(failure));
    }

    fn reply(&mut self, reply: Reply<P>) {
        if self.replies.len() < REPLIES {
            self.replies.push_back(reply);
        } else {
            self.stats.dropped += 1;
        }
    }

    /// Ends a session as soon as its engine has said goodbye.
    fn retire(&mut self, place: u32, why: Ended) {
        let Some(session) = self.table.at(place) else { return };
        session.engine.close();
        let (role, before) = (session.began.role(), core::mem::replace(&mut session.state, State::Closing(why)));
        match before {
            State::Pending(handshake) => {
                let source = handshake.source;
                self.stats.failed += 1;
                self.release(place, role, source);
            }
            State::Open => self.stats.sessions -= 1,
            // It is being closed already: the first reason is the true one.
            State::Closing(first) => session.state = State::Closing(first),
        }
        self.table.detach(place);
        self.table.set_timer(place, None);
        self.table.mark_ready(place);
    }

    /// Takes a session out, and tells of it, unless it was a stranger's handshake.
    fn finish(&mut self, place: u32, why: Ended) {
        let Some(session) = self.table.remove(place) else { return };
        let (why, told) = match session.state {
            State::Pending(handshake) => {
                let source = handshake.source;
                self.stats.failed += 1;
                self.release(place, session.began.role(), source);
                (why, session.began.role() == Role::Client)
            }
            State::Open => {
                self.stats.sessions -= 1;
                (why, true)
            }
            State::Closing(first) => (first, true),
        };
        if told {
            self.ended.push_back(Output::Closed { session: session.id, peer: session.peer, why });
        }
    }

    /// The peer has shown a certificate, at its engine's word.
    fn check_certificate(&mut self, now: Instant, place: u32, certificate: &[u8]) -> Result<(), Failure> {
        let clients = self.config.trusted_clients();
        let Some(session) = self.table.at(place) else { return Ok(()) };
        let State::Pending(handshake) = &mut session.state else { return Ok(()) };
        let checked = match (&session.began, clients) {
            (Began::ByUs(expected), _) => match &**expected {
                ClientCredentials::Certificate { trust, name, .. } => trust.check_server(now, certificate, name),
                ClientCredentials::Psk { .. } => return Err(Failure::NoCertificate),
            },
            (Began::ByPeer { .. }, Some(trust)) => trust.check_client(now, certificate),
            // A certificate that nobody has asked for proves nothing.
            (Began::ByPeer { .. }, None) => return Err(Failure::NoCertificate),
        };
        checked.map_err(Failure::Certificate)?;
        handshake.proved = Some(Identity::Certificate(certificate.to_vec()));
        Ok(())
    }
}

impl<P: PeerKey, E: Engines> core::fmt::Debug for Sessions<P, E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sessions").field("stats", &self.stats).finish_non_exhaustive()
    }
}
