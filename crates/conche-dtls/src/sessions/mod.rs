//! [`Sessions`]: all sessions of one socket, in both roles.

mod event;
mod flight;
mod handshake;
mod idle_order;
mod poll;
mod receive;
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
use self::table::{Initiator, State, Table};
use crate::config::{Config, ConfigError};
use crate::cookie::{CookieVerifier, REPLY};
use crate::credentials::{ClientCredentials, Identity};
use crate::engine::{DimplEngines, Engine, Engines, Failure, PanicGuard};
use crate::wire::{self, content};

/// More are dropped: a driver polls after each datagram.
const REPLIES: usize = 64;
/// Flight timeouts without a message until a handshake gives way to one of a host with as many. The
/// flight to be answered was then retransmitted, unless the peer is slow.
const PATIENCE: u32 = 4;
/// Maximum plaintext of a record in bytes (RFC 5246 §6.2.1).
const LONGEST_PLAINTEXT: usize = 1 << 14;

type Sources<P> = Box<dyn Fn(&P) -> u64 + Send + Sync>;

/// All sessions of one socket.
pub struct Sessions<P, E: Engines = DimplEngines> {
    config: Config,
    engines: E,
    random: ChaCha12Rng,
    cookie_verifier: CookieVerifier,
    table: Table<P, PanicGuard<E::Engine>>,
    /// Handshakes by group of sources.
    shares: Shares,
    unfinished: Unfinished,
    group_key: [u64; 2],
    groups: Option<Sources<P>>,
    hosts: Option<Sources<P>>,
    /// Replies without a session.
    replies: VecDeque<Reply<P>>,
    ended: VecDeque<Output<P>>,
    stats: Stats,
}

#[derive(Debug)]
struct Unfinished {
    hosts: Limiter,
    groups: Limiter,
}

#[derive(Clone, Copy, Debug)]
struct Reply<P> {
    to: P,
    bytes: [u8; REPLY],
    len: usize,
}

impl<P> Reply<P> {
    /// Unprotected: a failed handshake has no common keys.
    fn alert(to: P, sequence: u64, description: u8) -> Self {
        let mut bytes = [0; REPLY];
        let len = wire::write_record(&mut bytes, content::ALERT, wire::DTLS_1_2, sequence, &[2, description]);
        Self { to, bytes, len }
    }
}

impl<P: PeerKey> Sessions<P> {
    /// Creates an empty set of sessions.
    ///
    /// `seed` supplies all randomness except for keys (the system's). It must be unpredictable, for
    /// the cookies.
    ///
    /// # Errors
    ///
    /// The configuration is invalid.
    pub fn new(now: Instant, config: Config, seed: [u8; 32]) -> Result<Self, ConfigError> {
        config.check()?;
        let engines = DimplEngines::new(&config)?;
        Self::with_engines(now, config, seed, engines)
    }
}

impl<P: PeerKey, E: Engines> Sessions<P, E> {
    /// Like [`Sessions::new`], with another engine.
    ///
    /// # Errors
    ///
    /// The configuration is invalid.
    pub fn with_engines(now: Instant, config: Config, seed: [u8; 32], engines: E) -> Result<Self, ConfigError> {
        config.check()?;
        let mut random = ChaCha12Rng::from_seed(seed);
        let cookie_verifier = CookieVerifier::new(now, &mut random);
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
            cookie_verifier,
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

    /// Maps peers to groups of sources, such as a prefix's addresses to one number. Handshakes and
    /// sessions are limited per group. Default: each peer is a group.
    pub fn set_source_groups(&mut self, groups: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.groups = Some(groups);
    }

    /// Maps peers to hosts, such as an address's ports to one number. Under contention, a group's
    /// hosts share its handshakes and sessions equally. Default: each peer is a host.
    pub fn set_hosts(&mut self, hosts: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.hosts = Some(hosts);
    }

    /// Begins a session with a server.
    ///
    /// `round_trip` is the path's, if known; flights wait three times as long, and at least
    /// [`Config::flight_timeout`]. [`Output::Established`] or [`Output::Closed`] follows; until
    /// then an open session with this peer stays open.
    ///
    /// # Errors
    ///
    /// A handshake with this peer is in progress, too many are, or the credentials are invalid.
    pub fn connect(
        &mut self,
        now: Instant,
        to: P,
        credentials: &ClientCredentials,
        round_trip: Option<Duration>,
    ) -> Result<SessionId, ConnectError> {
        self.open_by(now, to, credentials, |least| Flights::new(least, round_trip, false))
    }

    /// Begins a session under external congestion control.
    ///
    /// [`Output::Flight`] reports flights and answers; the caller [retransmits](Self::repeat). The
    /// next poll sends the first flight.
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
        if self.table.associations(&to).pending.is_some() {
            return Err(ConnectError::Busy);
        }
        if self.stats.handshakes >= self.config.max_handshakes {
            return Err(ConnectError::Full);
        }
        let engine = self.engines.connect(now, credentials)?;
        let expected = Expected::Server { with_keys: matches!(credentials, ClientCredentials::Psk { .. }) };
        let flights = flights(self.config.flight_timeout);
        Ok(self.begin(now, to, engine, Initiator::Local(Box::new(credentials.clone())), expected, flights))
    }

    /// Retransmits the last flight under [external congestion control](Self::connect_controlled),
    /// by [`poll`](Self::poll).
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

    /// Sends plaintext in one record, returned by [`poll`](Self::poll).
    ///
    /// # Errors
    ///
    /// The session is not open, the plaintext is too long, or the engine fails.
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

    /// Closes a session and notifies its peer. [`Output::Closed`] follows if it exists.
    pub fn close(&mut self, session: SessionId) {
        if self.table.get(session).is_some() {
            self.retire(session.place, Ended::Closed);
        }
    }

    /// Returns the address of a session's peer.
    #[must_use]
    pub fn peer(&self, session: SessionId) -> Option<P> {
        self.table.look(session.place).filter(|found| found.id == session).map(|found| found.peer)
    }

    /// Returns the open session with a peer.
    #[must_use]
    pub fn open(&self, peer: &P) -> Option<SessionId> {
        self.table.look(self.table.associations(peer).open?).map(|session| session.id)
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Returns `true` if no state of any peer is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.replies.is_empty() && self.ended.is_empty()
    }

    fn begin(
        &mut self,
        now: Instant,
        peer: P,
        engine: E::Engine,
        initiator: Initiator,
        expected: Expected,
        flights: Flights,
    ) -> SessionId {
        let (source, role) = (self.source_of(&peer), initiator.role());
        let host = self.host_of(&peer);
        self.stats.handshakes += 1;
        let deadline = now + self.config.handshake_timeout;
        let handshake = Handshake::new(source, expected, flights);
        let id = self.table.insert(
            now,
            peer,
            PanicGuard::new(engine),
            initiator,
            State::Pending(Box::new(handshake)),
            deadline,
        );
        // Local handshakes count towards no share.
        if role == Role::Server {
            self.shares.take(Group::of(source), 1);
            self.table.count_handshake(now, id.place, source, host);
        }
        id
    }

    fn source_of(&self, peer: &P) -> u64 {
        match &self.groups {
            Some(groups) => self.hash(&groups(peer)),
            None => self.hash(peer),
        }
    }

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

    /// Closes a session if a new one with these shares needs room.
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

    /// Returns `false` if host or group is at its limit.
    fn admit_unfinished(&mut self, now: Instant, peer: &P) -> bool {
        let (host, group) = (Group::of(self.host_of(peer)), Group::of(self.source_of(peer)));
        let admitted = self.unfinished.hosts.admits(now, host);
        if admitted && !self.unfinished.groups.admits(now, group) {
            self.unfinished.hosts.give_back(host);
            return false;
        }
        admitted
    }

    fn uncount_unfinished(&mut self, peer: &P) {
        let (host, group) = (Group::of(self.host_of(peer)), Group::of(self.source_of(peer)));
        self.unfinished.hosts.give_back(host);
        self.unfinished.groups.give_back(group);
    }

    /// May displace a handshake of the peer's group.
    fn has_room_for_handshake(&mut self, now: Instant, peer: &P) -> bool {
        let (source, most) = (self.source_of(peer), self.config.max_handshakes);
        if self.stats.handshakes < most && self.shares.admits(Group::of(source), 1, most) {
            return true;
        }
        let (host, patience) = (self.host_of(peer), self.config.flight_timeout.saturating_mul(PATIENCE));
        let Some(place) = self.table.handshake_to_displace(now, source, host, patience) else { return false };
        self.stats.displaced += 1;
        self.fail(place, Failure::Full);
        true
    }

    fn release(&mut self, place: u32, role: Role, source: u64) {
        if role == Role::Server {
            self.shares.give_back(Group::of(source), 1);
            self.table.discount_handshake(place, source);
        }
        self.stats.handshakes = self.stats.handshakes.saturating_sub(1);
    }

    /// Sends an alert if possible.
    fn fail(&mut self, place: u32, failure: Failure) {
        if failure == Failure::Panicked {
            self.stats.panicked += 1;
        }
        let Some(session) = self.table.at(place) else { return };
        let to = session.peer;
        let (failure, pending) = match &session.state {
            State::Pending(handshake) if failure == Failure::Silence => (handshake.timeout_reason(), true),
            state => (failure, matches!(state, State::Pending(_))),
        };
        if let (Some(alert), true) = (failure.alert(), pending) {
            // After a handshake's few records, no replay window has seen this number.
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

    /// Waits until the close_notify is sent.
    fn retire(&mut self, place: u32, why: Ended) {
        let Some(session) = self.table.at(place) else { return };
        session.engine.close();
        let (role, before) = (session.initiator.role(), core::mem::replace(&mut session.state, State::Closing(why)));
        match before {
            State::Pending(handshake) => {
                let source = handshake.source;
                self.stats.failed += 1;
                self.release(place, role, source);
            }
            State::Open => self.stats.sessions -= 1,
            // Already closing: the first reason counts.
            State::Closing(first) => session.state = State::Closing(first),
        }
        self.table.detach(place);
        self.table.set_timer(place, None);
        self.table.mark_ready(place);
    }

    /// Reports the end, except for a peer's failed handshake.
    fn finish(&mut self, place: u32, why: Ended) {
        let Some(session) = self.table.remove(place) else { return };
        let (why, told) = match session.state {
            State::Pending(handshake) => {
                let source = handshake.source;
                self.stats.failed += 1;
                self.release(place, session.initiator.role(), source);
                (why, session.initiator.role() == Role::Client)
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

    fn check_certificate(&mut self, now: Instant, place: u32, certificate: &[u8]) -> Result<(), Failure> {
        let clients = self.config.trusted_clients();
        let Some(session) = self.table.at(place) else { return Ok(()) };
        let State::Pending(handshake) = &mut session.state else { return Ok(()) };
        let checked = match (&session.initiator, clients) {
            (Initiator::Local(expected), _) => match &**expected {
                ClientCredentials::Certificate { trust, name, .. } => trust.check_server(now, certificate, name),
                ClientCredentials::Psk { .. } => return Err(Failure::NoCertificate),
            },
            (Initiator::Peer { .. }, Some(trust)) => trust.check_client(now, certificate),
            // An unrequested certificate proves nothing.
            (Initiator::Peer { .. }, None) => return Err(Failure::NoCertificate),
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
