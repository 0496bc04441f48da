//! [`Sessions`]: all sessions of one socket, in both roles.
//!
//! A record goes to the cookie verifier, a handshake, or the open session; `poll` returns their
//! actions.

mod event;
mod handshake;
mod table;

use core::hash::{Hash, Hasher};
use core::time::Duration;
use std::collections::VecDeque;

use conche_proto::shares::{Group, Shares};
use conche_proto::{Instant, Limiter, PeerKey};
use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};
use siphasher::sip::SipHasher13;

use crate::BUFFER;
use crate::config::{Config, ConfigError};
use crate::cookie::{CookieVerifier, Hello, Issued, REPLY, Verdict};
use crate::credentials::{ClientCredentials, Identity, LONGEST_IDENTITY, is_key};
use crate::engine::{DimplEngines, Engine, Engines, Failure, Opening, PanicGuard, Step, catch_panic};
use crate::secret::Secret;
use crate::wire::{self, HANDSHAKE_HEADER, Record, alert, content, message};
pub use event::{ConnectError, Ended, Output, Progress, Role, SendError, SessionId, Stats};
use handshake::{Expected, FinalFlightLimiter, Flights, Handshake, Held, HeldKeyExchange};
use table::{Associations, Initiator, NewSession, Place, State, Table};

/// More are dropped: a driver polls after each datagram.
const REPLIES: usize = 64;
/// Maximum silence of a handshake, in flight timeouts, before it gives way to one of a host with as
/// many. By then the local flight was retransmitted.
const MAX_SILENT_TIMEOUTS: u32 = 4;
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
    shares: Shares,
    unfinished: Unfinished,
    group_key: [u64; 2],
    groups: Option<Sources<P>>,
    hosts: Option<Sources<P>>,
    replies: VecDeque<Reply<P>>,
    events: VecDeque<Output<P>>,
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
    /// Writes an unprotected alert: a failed handshake has no common keys.
    fn alert(to: P, sequence: u64, description: u8) -> Self {
        let mut bytes = [0; REPLY];
        let len = wire::write_record(&mut bytes, content::ALERT, wire::DTLS_1_2, sequence, &[2, description]);
        Self { to, bytes, len }
    }
}

impl<P: PeerKey> Sessions<P> {
    /// Creates an empty set of sessions.
    ///
    /// `seed` must be unpredictable, for the cookies. It supplies all randomness except for keys,
    /// which use the system's.
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
            events: VecDeque::new(),
            stats: Stats::default(),
            random,
        })
    }

    /// Maps peers to groups of sources, such as address prefixes, to which limits of handshakes and
    /// sessions apply. By default, each peer is a group.
    pub fn set_source_groups(&mut self, groups: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.groups = Some(groups);
    }

    /// Maps peers to hosts, such as IP addresses. Under contention, a group's hosts share its
    /// handshakes and sessions equally. By default, each peer is a host.
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
        let handshake = Handshake::new(self.source_of(&to), expected, flights);
        Ok(self.begin(now, to, engine, Initiator::Local(Box::new(credentials.clone())), handshake))
    }

    /// Retransmits the last flight under [external congestion control](Self::connect_controlled),
    /// by [`poll`](Self::poll).
    pub fn repeat(&mut self, session: SessionId) {
        let Some(found) = self.table.by_id_mut(session) else { return };
        if !matches!(&found.state, State::Pending(handshake) if handshake.flights.is_controlled()) {
            return;
        }
        match found.engine.repeat() {
            Ok(()) => self.table.mark_ready(session.place),
            Err(failure) => self.fail(session.place, failure),
        }
    }

    /// Continues a handshake with the key of its identity: see [`Output::KeyWanted`].
    ///
    /// With `None`, or an invalid key, it goes on and fails as with a wrong key, so that the client
    /// cannot probe for identities (RFC 4279 §2). Does nothing if the handshake has ended.
    pub fn provide_key(&mut self, session: SessionId, key: Option<Secret>) {
        let Some(found) = self.table.by_id_mut(session) else { return };
        let State::Pending(handshake) = &mut found.state else { return };
        let Some(held) = handshake.held.take_if(|held| held.until.is_some()) else { return };
        found.engine.set_key(held.identity().unwrap_or_default(), key.filter(is_key));
        let finished = handshake.readable_finished();
        self.feed(session.place, &held.record());
        if let Some(finished) = finished {
            self.feed(session.place, &finished);
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
        let open = self.table.by_id_mut(session).filter(|session| matches!(session.state, State::Open));
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
        if self.table.by_id_mut(session).is_some() {
            self.retire(session.place, Ended::Closed);
        }
    }

    /// Returns the address of a session's peer.
    #[must_use]
    pub fn peer(&self, session: SessionId) -> Option<P> {
        self.table.at(session.place).filter(|found| found.id == session).map(|found| found.peer)
    }

    /// Returns the open session with a peer.
    #[must_use]
    pub fn open(&self, peer: &P) -> Option<SessionId> {
        self.table.at(self.table.associations(peer).open?).map(|session| session.id)
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Returns `true` if no state of any peer is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.replies.is_empty() && self.events.is_empty()
    }

    fn begin(
        &mut self,
        now: Instant,
        peer: P,
        engine: E::Engine,
        initiator: Initiator,
        handshake: Handshake,
    ) -> SessionId {
        let (source, role) = (self.source_of(&peer), initiator.role());
        let host = self.host_of(&peer);
        self.stats.handshakes += 1;
        let deadline = now + self.config.handshake_timeout;
        let state = State::Pending(Box::new(handshake));
        let id =
            self.table.insert(now, NewSession { peer, initiator, engine: PanicGuard::new(engine), state, deadline });
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

    /// Closes a session if these shares have no room.
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

    /// Counts a handshake; `false` if host or group is at its limit.
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

    /// Makes room, perhaps by displacing a handshake of the peer's group.
    fn has_room_for_handshake(&mut self, now: Instant, peer: &P) -> bool {
        let (source, most) = (self.source_of(peer), self.config.max_handshakes);
        if self.stats.handshakes < most && self.shares.admits(Group::of(source), 1, most) {
            return true;
        }
        let (host, patience) = (self.host_of(peer), self.config.flight_timeout.saturating_mul(MAX_SILENT_TIMEOUTS));
        let Some(place) = self.table.handshake_to_displace(now, source, host, patience) else { return false };
        self.stats.displaced += 1;
        self.fail(place, Failure::Displaced);
        true
    }

    fn release(&mut self, place: Place, role: Role, source: u64) {
        if role == Role::Server {
            self.shares.give_back(Group::of(source), 1);
            self.table.discount_handshake(place, source);
        }
        self.stats.handshakes = self.stats.handshakes.saturating_sub(1);
    }

    /// Sends an alert if possible.
    fn fail(&mut self, place: Place, failure: Failure) {
        if failure == Failure::Panicked {
            self.stats.panicked += 1;
        }
        let Some(session) = self.table.at_mut(place) else { return };
        let to = session.peer;
        let (failure, pending) = match &session.state {
            State::Pending(handshake) if failure == Failure::Silence => (handshake.timeout_reason(), true),
            state => (failure, matches!(state, State::Pending(_))),
        };
        if let (Some(alert), true) = (failure.alert(), pending) {
            // No replay window has seen this number.
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

    /// Ends a session once the close_notify is sent.
    fn retire(&mut self, place: Place, why: Ended) {
        let Some(session) = self.table.at_mut(place) else { return };
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

    fn finish(&mut self, place: Place, why: Ended) {
        let Some(session) = self.table.remove(place) else { return };
        let (id, peer, role) = (session.id, session.peer, session.initiator.role());
        let why = match (session.state, why) {
            (State::Pending(handshake), why) => {
                self.stats.failed += 1;
                self.release(place, role, handshake.source);
                if let (Role::Server, Ended::Failed(why)) = (role, &why) {
                    let held = handshake.held.as_ref().and_then(HeldKeyExchange::identity);
                    let identity = session.engine.identity().or(held).map(<[u8]>::to_vec);
                    let why = why.clone();
                    return self.events.push_back(Output::HandshakeFailed { session: Some(id), peer, identity, why });
                }
                why
            }
            (State::Open, why) => {
                self.stats.sessions -= 1;
                why
            }
            (State::Closing(first), _) => first,
        };
        self.events.push_back(Output::Closed { session: id, peer, why });
    }

    fn check_certificate(&mut self, now: Instant, place: Place, certificate: &[u8]) -> Result<(), Failure> {
        let clients = self.config.trusted_clients();
        let Some(session) = self.table.at_mut(place) else { return Ok(()) };
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

struct ReceivedHello<'a> {
    hello: Hello<'a>,
    record: &'a Record<'a>,
    datagram_bytes: usize,
}

impl<P: PeerKey, E: Engines> core::fmt::Debug for Sessions<P, E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sessions").field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl<P: PeerKey, E: Engines> Sessions<P, E> {
    /// Handles a datagram. [`poll`](Self::poll) until it waits before the next.
    pub fn handle(&mut self, now: Instant, from: P, datagram: &[u8]) {
        let mut records = wire::records(datagram);
        let Some(first) = records.next() else { return };
        match self.config.server.as_ref().and_then(|_| Hello::read(&first)) {
            Some(hello) => {
                self.hello(now, from, &ReceivedHello { hello, record: &first, datagram_bytes: datagram.len() })
            }
            None => self.record(now, from, &first),
        }
        // No second ClientHello: one answer per datagram.
        for record in records {
            self.record(now, from, &record);
        }
        // Keys may exist now. Engines take records already read for duplicates.
        if let Some(place) = self.table.associations(&from).pending
            && let Some(record) = self.handshake(place).and_then(|handshake| handshake.readable_finished())
        {
            self.feed(place, &record);
        }
    }

    fn hello(&mut self, now: Instant, from: P, received: &ReceivedHello<'_>) {
        let ReceivedHello { hello, datagram_bytes, .. } = received;
        match self.cookie_verifier.verify(now, &from, hello, *datagram_bytes, &mut self.random) {
            Verdict::Ignore => self.stats.dropped += 1,
            Verdict::Reply(bytes) => {
                self.stats.cookie_requests += 1;
                self.reply(Reply { to: from, bytes, len: bytes.len() });
            }
            Verdict::Valid(issued) => self.accept_hello(now, from, received, issued),
        }
    }

    /// Accepts a ClientHello. An open session stays open until the new one is (RFC 6347 §4.2.8).
    fn accept_hello(&mut self, now: Instant, from: P, received: &ReceivedHello<'_>, issued: Issued) {
        let &ReceivedHello { ref hello, record, datagram_bytes } = received;
        let Associations { open, pending } = self.table.associations(&from);
        match self.role_in(now, pending, hello) {
            // A retransmission of this handshake's ClientHello.
            Some((place, Role::Server, true)) => return self.retransmitted_hello(place, record),
            // A local handshake takes precedence.
            Some((_, Role::Client, _)) => {
                self.stats.refused += 1;
                return;
            }
            _ => {}
        }
        if self.role_in(now, open, hello).is_some_and(|(_, _, is_retransmission)| is_retransmission) {
            self.stats.dropped += 1;
            return;
        }
        if !self.cookie_verifier.is_unspent(now, &from, issued) {
            return match self.cookie_verifier.request_cookie(now, &from, hello, datagram_bytes) {
                // A reply would disturb a running handshake.
                Verdict::Reply(bytes) if pending.is_none() => {
                    self.stats.cookie_requests += 1;
                    self.reply(Reply { to: from, bytes, len: bytes.len() });
                }
                _ => self.stats.dropped += 1,
            };
        }
        if !self.admit_unfinished(now, &from) {
            self.stats.refused += 1;
            return;
        }
        // The client has restarted.
        if let Some(before) = pending {
            self.finish(before, Failure::Silence.into());
        }
        if !self.has_room_for_handshake(now, &from) {
            self.uncount_unfinished(&from);
            self.stats.refused += 1;
            return;
        }
        self.cookie_verifier.spend(now, &from, issued);
        let opening = Opening {
            sequence: hello.sequence,
            number: hello.number,
            opening: hello.opening,
            cookie: hello.cookie,
            suites: hello.suites,
            compression: hello.compression,
        };
        match catch_panic(|| self.engines.accept(now, &opening)) {
            Ok(engine) => {
                let initiator = Initiator::Peer { random: *hello.random };
                let certificate = self.config.trusted_clients().is_some();
                let expected = Expected::Client { hello: hello.number, certificate };
                let flights = Flights::new(self.config.flight_timeout, Some(issued.age), false);
                let handshake = Handshake::new(self.source_of(&from), expected, flights);
                let SessionId { place, .. } = self.begin(now, from, engine, initiator, handshake);
                self.feed(place, record.bytes);
            }
            Err(failure) => {
                self.stats.failed += 1;
                self.stats.panicked += u64::from(failure == Failure::Panicked);
                let description = failure.alert().unwrap_or(alert::HANDSHAKE_FAILURE);
                self.reply(Reply::alert(from, hello.sequence, description));
                let failed = Output::HandshakeFailed { session: None, peer: from, identity: None, why: failure };
                self.events.push_back(failed);
            }
        }
    }

    fn retransmitted_hello(&mut self, place: Place, record: &Record<'_>) {
        let Some(session) = self.table.at_mut(place) else { return };
        let State::Pending(handshake) = &mut session.state else { return };
        if handshake.flights.may_answer_retransmission() {
            self.feed(place, record.bytes);
        } else {
            self.stats.dropped += 1;
        }
    }

    /// Returns the local role, and whether the ClientHello repeats the association's first; a
    /// restarted client may repeat its random.
    fn role_in(&mut self, now: Instant, place: Option<Place>, hello: &Hello<'_>) -> Option<(Place, Role, bool)> {
        let session = self.table.at_mut(place?)?;
        let is_retransmission = matches!(&session.initiator, Initiator::Peer { random } if random == hello.random)
            && now < session.deadline;
        Some((session.id.place, session.initiator.role(), is_retransmission))
    }

    /// Handles a record. A handshake beside an open session gets unprotected records and protected
    /// handshake messages.
    fn record(&mut self, now: Instant, from: P, record: &Record<'_>) {
        let Associations { open, pending } = self.table.associations(&from);
        let of_handshake = record.epoch == 0 || record.content == content::HANDSHAKE;
        let place = if of_handshake { pending.or(open) } else { open.or(pending) };
        let longest = self.config.max_message;
        let session = place.and_then(|place| Some((place, self.table.at_mut(place)?)));
        let Some((place, session)) = session.filter(|_| may_pass(record, longest)) else {
            self.stats.dropped += 1;
            return;
        };
        // The peer's retransmission: the local flight was lost.
        let is_open = matches!(session.state, State::Open);
        if is_open
            && record.content == content::HANDSHAKE
            && session.final_flight.may_answer(now)
            && let Err(failure) = session.engine.repeat()
        {
            return self.fail(place, failure);
        }
        let admitted = match &mut session.state {
            _ if record.epoch > 0 => true,
            State::Pending(handshake) if record.content == content::ALERT => {
                handshake.on_alert(now, record.fragment);
                return self.table.mark_ready(place);
            }
            State::Pending(handshake) => {
                let admitted = handshake.admits(now, record);
                if admitted {
                    session.last_received = now;
                }
                admitted
            }
            // Retransmitted handshake messages, answered by a retransmission.
            State::Open | State::Closing(_) => record.content == content::HANDSHAKE,
        };
        if !admitted {
            self.stats.dropped += 1;
            return;
        }
        let is_finished = of_handshake && record.epoch > 0;
        if let Some(handshake) = self.handshake(place).filter(|handshake| is_finished && !handshake.has_keys()) {
            return handshake.early_finished.keep(record.bytes);
        }
        if record.epoch > 0 || !self.hold(now, place, record) {
            self.feed(place, record.bytes);
        }
    }

    fn handshake(&mut self, place: Place) -> Option<&mut Handshake> {
        match &mut self.table.at_mut(place)?.state {
            State::Pending(handshake) => Some(handshake),
            State::Open | State::Closing(_) => None,
        }
    }

    fn hold(&mut self, now: Instant, place: Place, record: &Record<'_>) -> bool {
        let until = now + self.config.lookup_timeout;
        let Some(session) = self.table.at_mut(place).filter(|session| session.engine.wants_key()) else { return false };
        let (id, peer) = (session.id, session.peer);
        let State::Pending(handshake) = &mut session.state else { return false };
        let Some(held) = handshake.hold(record) else { return false };
        if held == Held::Kept {
            return true;
        }
        let Some(exchange) = &mut handshake.held else { return true };
        exchange.until = Some(until);
        let identity = exchange.identity().filter(|identity| identity.len() <= LONGEST_IDENTITY);
        match identity.map(<[u8]>::to_vec) {
            Some(identity) => {
                self.events.push_back(Output::KeyWanted { session: id, peer, identity });
                // Sets the timer.
                self.table.mark_ready(place);
            }
            // Malformed, or unknown to every table of keys.
            None => self.provide_key(id, None),
        }
        true
    }

    fn feed(&mut self, place: Place, record: &[u8]) {
        let Some(session) = self.table.at_mut(place) else { return };
        match session.engine.receive(record) {
            Ok(()) => self.table.mark_ready(place),
            // Not polled for long: a full queue loses records, as any network.
            Err(Failure::Full) if matches!(session.state, State::Open) => self.stats.dropped += 1,
            Err(failure) => self.fail(place, failure),
        }
    }
}

/// Returns whether a record has protected data or a handshake message, at most `longest` long. A
/// ClientHello's start only goes to the cookie verifier.
fn may_pass(record: &Record<'_>, longest: usize) -> bool {
    match (record.epoch, record.content) {
        (0, content::HANDSHAKE) if record.fragment.len() > longest + HANDSHAKE_HEADER => false,
        (0, content::HANDSHAKE) => wire::handshakes(record.fragment).all(|handshake| {
            handshake.length <= longest && (handshake.message != message::CLIENT_HELLO || handshake.offset > 0)
        }),
        (0, content::CHANGE_CIPHER_SPEC | content::ALERT) => true,
        (1, content::HANDSHAKE | content::ALERT | content::APPLICATION_DATA) => true,
        _ => false,
    }
}

impl<P: PeerKey, E: Engines> Sessions<P, E> {
    /// Returns the next output.
    ///
    /// # Panics
    ///
    /// If the buffer has fewer than [`BUFFER`] bytes, which could lose a record.
    pub fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Output<P> {
        assert!(buffer.len() >= BUFFER, "a buffer of {} bytes: {BUFFER} are needed", buffer.len());
        loop {
            if let Some(Reply { to, bytes, len }) = self.replies.pop_front() {
                buffer[..len].copy_from_slice(&bytes[..len]);
                return Output::Transmit { to, len };
            }
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            if let Some(place) = self.table.next_ready() {
                match self.step(now, place, buffer) {
                    Some(output) => return output,
                    None => continue,
                }
            }
            let Some(place) = self.table.due(now) else { return Output::Wait(self.table.next_timer()) };
            let Some(session) = self.table.at_mut(place) else { continue };
            let State::Pending(handshake) = &mut session.state else { continue };
            if handshake.alert_deadline().unwrap_or(session.deadline).min(session.deadline) <= now {
                self.fail(place, Failure::Silence);
                continue;
            }
            if handshake.lookup_deadline().is_some_and(|until| until <= now) {
                self.fail(place, Failure::Lookup);
                continue;
            }
            // During a lookup the client has answered.
            let is_unanswered = handshake.flights.take_due(now) && handshake.lookup_deadline().is_none();
            match if is_unanswered { session.engine.repeat() } else { Ok(()) } {
                Ok(()) => self.table.mark_ready(place),
                Err(failure) => self.fail(place, failure),
            }
        }
    }

    fn step(&mut self, now: Instant, place: Place, buffer: &mut [u8]) -> Option<Output<P>> {
        let session = self.table.at_mut(place)?;
        let (id, peer) = (session.id, session.peer);
        let told = |progress| Some(Output::Flight { session: id, peer, progress });
        if let State::Pending(handshake) = &mut session.state {
            let answer = handshake.flights.take_answer();
            if let Some(copy) = answer.filter(|_| handshake.flights.is_controlled()) {
                return told(Progress::Answered(copy));
            }
        }
        let step = match session.engine.poll(buffer) {
            Ok(step) => step,
            Err(failure) => {
                self.fail(place, failure);
                return None;
            }
        };
        match step {
            Step::Transmit(len) => {
                if let State::Pending(handshake) = &mut session.state {
                    handshake.flights.on_datagram_sent(now, &buffer[..len]);
                }
                Some(Output::Transmit { to: peer, len })
            }
            Step::Data(len) => {
                session.last_received = now;
                // Plaintext after the local close_notify is discarded.
                matches!(session.state, State::Open).then_some(Output::Received { session: id, len })
            }
            Step::Certificate(len) => {
                let certificate = buffer.get(..len)?.to_vec();
                if let Err(failure) = catch_panic(|| self.check_certificate(now, place, &certificate)) {
                    self.fail(place, failure);
                }
                None
            }
            Step::Connected => {
                self.connected(now, place);
                None
            }
            Step::Closed => {
                self.finish(place, Ended::ByPeer);
                None
            }
            Step::Wait => {
                let wake = match &mut session.state {
                    State::Pending(handshake) => {
                        let sent = handshake.flights.on_flight_sent(now, || self.random.next_u32());
                        if let Some(flight) = sent.filter(|_| handshake.flights.is_controlled()) {
                            return told(Progress::Left(flight));
                        }
                        let repeat = handshake.flights.due();
                        let deadlines = [handshake.alert_deadline(), handshake.lookup_deadline()];
                        deadlines.into_iter().chain([repeat, Some(session.deadline)]).flatten().min()
                    }
                    State::Open => None,
                    State::Closing(_) => {
                        self.finish(place, Ended::Closed);
                        return None;
                    }
                };
                self.table.mark_idle(place);
                self.table.set_timer(place, wake);
                None
            }
        }
    }

    fn connected(&mut self, now: Instant, place: Place) {
        let Some(session) = self.table.at_mut(place) else { return };
        let (id, peer, role) = (session.id, session.peer, session.initiator.role());
        let State::Pending(handshake) = &mut session.state else { return };
        session.final_flight = FinalFlightLimiter::new(now, handshake.flights.first_timeout());
        let (source, proved) = (handshake.source, handshake.proved.take());
        let by_key = session.engine.identity().map(|identity| Identity::Psk(identity.to_vec()));
        let identity = proved.or(by_key).unwrap_or(Identity::Anonymous);
        session.last_received = now;
        // A server that knows the key has no other name.
        let asked = match &session.initiator {
            Initiator::Local(expected) => !matches!(**expected, ClientCredentials::Psk { .. }),
            Initiator::Peer { .. } => self.config.trusted_clients().is_some(),
        };
        if identity == Identity::Anonymous && asked {
            return self.fail(place, Failure::NoCertificate);
        }
        self.release(place, role, source);
        if role == Role::Server {
            self.uncount_unfinished(&peer);
        }
        if let Some(before) = self.table.associations(&peer).open {
            self.finish(before, Ended::Replaced);
        }
        let of_client = role == Role::Server;
        let (group, host) = (of_client.then_some(source), of_client.then(|| self.host_of(&peer)));
        let bounded = self.config.max_sessions_per_identity.and(Some(&identity));
        let identity_share = match bounded {
            Some(Identity::Psk(identity)) => Some(self.hash(identity)),
            _ => None,
        };
        let shares = table::Shares { group, host, identity: identity_share };
        self.make_room(shares);
        self.table.promote(now, place, shares);
        self.stats.sessions += 1;
        self.stats.established += 1;
        // After the end of the session that it replaces.
        self.events.push_back(Output::Established { session: id, peer, role, identity });
    }
}
