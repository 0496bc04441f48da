//! [`Secured`]: the DTLS sessions of one socket.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use conche_dtls::{BUFFER, Config, Ended, Output, Progress, Role, SessionId, Sessions};
use conche_proto::cc::control::AbandonReason;
use conche_proto::{Datagram, Event, ExchangeId, Failure, Input, Instant, Transmit};
use tracing::debug;

use super::waiting::{Done, Waiting};
use super::{SessionDriver, is_record};
use crate::address::{Address, SessionNumber};
use crate::driver::{Driver, Service, SharedController, receiving};
use crate::security::{HandshakeError, Identity, Security};
use crate::socket::Arrival;

/// Maximum bytes that a record adds to a message: header, nonce and tag (RFC 5246 §6.2.3.3).
const OVERHEAD: usize = 64;

/// Maximum bytes of a handshake datagram. Every IPv6 path carries them.
const MTU: usize = 1280;

/// Address of a peer, and the local address of a socket that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) at: SocketAddr,
    pub(super) local: Option<IpAddr>,
}

/// The sessions of one socket.
pub(in crate::driver) struct Secured {
    pub(super) sessions: Sessions<Place>,
    pub(super) security: Arc<Security>,
    pub(super) open: HashMap<SessionId, Open>,
    pub(super) by_number: HashMap<SessionNumber, SessionId>,
    /// The session that was opened last with each address.
    pub(super) by_address: HashMap<SocketAddr, SessionNumber>,
    last_number: u32,
    pub(super) waiting: Waiting,
    /// Messages passed to the sessions that are not yet records, in order.
    sealed: VecDeque<Transmit<Address>>,
    /// Inputs that the endpoint has no room for yet.
    held: VecDeque<Held>,
    buffer: Box<[u8]>,
    /// When the sessions are to be polled again.
    due: Option<Instant>,
    /// Number of panics in sessions at the last count.
    panicked: u64,
}

/// An established session.
pub(super) struct Open {
    number: SessionNumber,
    pub(super) place: Place,
    pub(super) identity: Option<Identity>,
    /// State of a session that this socket opened.
    pub(super) ours: Option<Ours>,
}

/// State of a session that this socket opened.
pub(super) struct Ours {
    /// The requested server name.
    pub(super) name: Arc<str>,
    /// The server may have lost the session. New requests use another one until a record arrives.
    pub(super) doubted: bool,
    /// Message IDs of Confirmable messages sent since the last record arrived, [`REMEMBERED`] at
    /// most.
    unanswered: Vec<u16>,
    /// Beginning of the last datagram sent, to match ICMP errors.
    sent: Vec<u8>,
}

/// Message IDs kept to recognize retransmissions.
const REMEMBERED: usize = 16;

impl Ours {
    fn new(name: Arc<str>) -> Self {
        Self { name, doubted: false, unanswered: Vec::new(), sent: Vec::new() }
    }

    /// Records a sent message. Returns whether it is a retransmission, and no record arrived since
    /// its first transmission.
    fn is_silent(&mut self, message: &[u8]) -> bool {
        const CONFIRMABLE: u8 = 0;
        let &[first, _, high, low, ..] = message else { return false };
        if first >> 4 & 3 != CONFIRMABLE {
            return false;
        }
        let id = u16::from_be_bytes([high, low]);
        if self.unanswered.contains(&id) {
            return true;
        }
        if self.unanswered.len() < REMEMBERED {
            self.unanswered.push(id);
        }
        false
    }
}

/// An input for the endpoint.
enum Held {
    Message {
        from: Address,
        local: Option<IpAddr>,
        bytes: Vec<u8>,
    },
    /// Messages to the peer of a session cannot be sent.
    Unreachable(Address),
    /// A session ended. Its observations end, and responses to its requests are dropped.
    Over(Address),
}

/// Bytes kept of a sent datagram to match ICMP errors. An error that quotes fewer than
/// [`LEAST_QUOTED`] bytes is ignored: an attacker can guess the first bytes, but not the random, or
/// nonce and tag, that follow.
const QUOTED: usize = 64;
const LEAST_QUOTED: usize = 32;

/// Keeps the beginning of a sent datagram.
pub(super) fn remember(sent: &mut Vec<u8>, datagram: &[u8]) {
    sent.clear();
    sent.extend_from_slice(&datagram[..datagram.len().min(QUOTED)]);
}

/// Returns whether an ICMP error quotes this datagram.
pub(super) fn is_of(quoted: &[u8], sent: &[u8]) -> bool {
    let compared = quoted.len().min(sent.len());
    compared >= LEAST_QUOTED && quoted[..compared] == sent[..compared]
}

impl Secured {
    /// Returns `None` without credentials. `peers` bounds the sessions of a client.
    pub(in crate::driver) fn start(now: Instant, security: &Arc<Security>, peers: usize) -> io::Result<Option<Self>> {
        if security.is_none() {
            return Ok(None);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let server = security.server_credentials().map_err(io::Error::other)?;
        let mut config = Config { server, mtu: MTU, key_log: security.key_log.clone(), ..Config::default() };
        if !security.is_server() {
            // The application chooses the servers of a client, and how many.
            (config.max_sessions, config.max_handshakes) = (peers, peers);
        }
        config.max_sessions = security.max_sessions.unwrap_or(config.max_sessions);
        config.max_sessions_per_identity = security.max_sessions_per_identity;
        let mut sessions = Sessions::new(now, config, seed).map_err(io::Error::other)?;
        sessions.set_source_groups(Box::new(|place: &Place| Address::from(place.at).prefix()));
        sessions.set_hosts(Box::new(|place: &Place| Address::from(place.at).host()));
        Ok(Some(Self {
            sessions,
            security: Arc::clone(security),
            open: HashMap::new(),
            by_number: HashMap::new(),
            by_address: HashMap::new(),
            last_number: 0,
            waiting: Waiting::default(),
            sealed: VecDeque::new(),
            held: VecDeque::new(),
            buffer: vec![0; BUFFER].into(),
            due: None,
            panicked: 0,
        }))
    }

    /// Returns the maximum bytes of a datagram for messages of this size.
    pub(in crate::driver) fn longest_datagram(message_bytes: usize) -> usize {
        message_bytes.saturating_add(OVERHEAD).max(MTU)
    }

    /// Returns the identity that the peer of a session has shown.
    pub(in crate::driver) fn identity(&self, session: Address) -> Option<Identity> {
        let Address::Dtls(_, number) = session else { return None };
        self.open.get(self.by_number.get(&number)?)?.identity.clone()
    }

    /// Returns whether messages outside a session are accepted.
    pub(in crate::driver) fn takes_plaintext(&self) -> bool {
        !self.security.is_server()
    }

    /// Passes a record to the sessions with its sender.
    fn take(&mut self, now: Instant, from: Address, local: Option<IpAddr>, record: &[u8]) {
        let mut place = Place { at: from.socket_addr(), local };
        // A session that this socket opened may not know its local address.
        let ours = Place { local: None, ..place };
        let begun = self.waiting.session(ours.at).and_then(|session| self.sessions.peer(session));
        if local.is_some() && (begun == Some(ours) || self.sessions.open(&ours).is_some()) {
            place = ours;
        }
        self.sessions.handle(now, place, record);
    }

    fn seal(&mut self, transmit: Transmit<Address>, message: &[u8]) -> bool {
        let Address::Dtls(_, number) = transmit.to else { return false };
        let Some(session) = self.by_number.get(&number) else { return false };
        let sent = self.sessions.send(*session, message);
        if sent.is_ok() {
            self.sealed.push_back(transmit);
        }
        sent.is_ok()
    }

    /// Returns whether the session is open.
    fn knows(&self, session: Address) -> bool {
        matches!(session, Address::Dtls(_, number) if self.by_number.contains_key(&number))
    }

    fn ours(&mut self, session: Address) -> Option<&mut Ours> {
        let Address::Dtls(_, number) = session else { return None };
        self.open.get_mut(self.by_number.get(&number)?)?.ours.as_mut()
    }

    /// Records the arrival of a record. Returns the handshake of a parallel session, to be
    /// cancelled.
    fn heard(&mut self, session: SessionId) -> Option<ExchangeId> {
        let open = self.open.get_mut(&session)?;
        let ours = open.ours.as_mut()?;
        ours.unanswered.clear();
        if !ours.doubted || self.by_address.get(&open.place.at) != Some(&open.number) {
            return None;
        }
        ours.doubted = false;
        let address = Address::from(open.place.at).secured(open.number);
        let (exchange, begun) = self.waiting.answered_by(open.place.at, address, open.identity.as_ref())?;
        if let Some(begun) = begun {
            self.sessions.close(begun);
        }
        Some(exchange)
    }

    /// Keeps a sent datagram to match ICMP errors.
    fn remember_sent(&mut self, transmit: &Transmit<Address>, len: usize) {
        let datagram = &self.buffer[..len];
        let Address::Dtls(_, number) = transmit.to else { return self.waiting.sent(transmit.to, datagram) };
        let open = self.by_number.get(&number).and_then(|session| self.open.get_mut(session));
        if let Some(ours) = open.and_then(|open| open.ours.as_mut()) {
            remember(&mut ours.sent, datagram);
        }
    }

    /// Adds an established session. Returns its handshake if this socket opened it.
    fn opened(
        &mut self,
        session: SessionId,
        place: Place,
        role: Role,
        identity: Option<Identity>,
    ) -> Option<ExchangeId> {
        // No session has the number 0.
        self.last_number = self.last_number.checked_add(1).unwrap_or(1);
        let number = SessionNumber(self.last_number);
        let address = Address::from(place.at).secured(number);
        let done = match role {
            Role::Client => self.waiting.opened(place.at, address, identity.clone()),
            Role::Server => None,
        };
        let (ours, identity, done) = match done {
            Some(Done { name, identity, exchange }) => (Some(Ours::new(name)), identity, Some(exchange)),
            None => (None, identity, None),
        };
        debug!(peer = %address, %session, ?role, "a session is open");
        self.by_number.insert(number, session);
        self.by_address.insert(place.at, number);
        self.open.insert(session, Open { number, place, identity, ours });
        done
    }

    /// Removes a session. Returns its handshake and the reason if it had not been established.
    fn over(&mut self, session: SessionId, place: Place, why: &Ended) -> Option<(ExchangeId, AbandonReason)> {
        debug!(peer = %place.at, %session, %why, "a session is over");
        match self.open.remove(&session) {
            Some(Open { number, .. }) => {
                self.by_number.remove(&number);
                if self.by_address.get(&place.at) == Some(&number) {
                    self.by_address.remove(&place.at);
                }
                self.held.push_back(Held::Over(Address::from(place.at).secured(number)));
                None
            }
            None => self.waiting.failed(place.at, session, why),
        }
    }
}

impl<C: SharedController, S: Service> SessionDriver for Driver<C, S> {
    fn take_record(&mut self, arrival: Arrival) -> bool {
        let Some(secured) = &mut self.secured else { return false };
        let Datagram { from, bytes, local, multicast, .. } = arrival.datagram(&self.incoming);
        if !is_record(bytes) && secured.takes_plaintext() {
            return false;
        }
        // A session has two endpoints.
        if !multicast {
            secured.take(self.now, from, local, bytes);
            self.hear_sessions();
        }
        true
    }

    fn hear_sessions(&mut self) {
        if !self.hand_in_held() {
            return;
        }
        let Some(secured) = &mut self.secured else { return };
        while !self.outgoing.is_full() {
            match secured.sessions.poll(self.now, &mut secured.buffer) {
                Output::Transmit { to, len } => {
                    let plain = Transmit::new(Address::from(to.at), len);
                    let is_sealed = secured.sealed.front().is_some_and(|sealed| sealed.to.socket_addr() == to.at);
                    let sealed = if is_sealed { secured.sealed.pop_front() } else { None };
                    let mut transmit = sealed.unwrap_or(plain);
                    (transmit.len, transmit.local) = (len, transmit.local.or(to.local));
                    secured.remember_sent(&transmit, len);
                    self.outgoing.room()[..len].copy_from_slice(&secured.buffer[..len]);
                    self.outgoing.push(self.now, transmit);
                }
                Output::Received { session, len } => {
                    if let Some(exchange) = secured.heard(session) {
                        self.endpoint.handshake_over(self.now, exchange, Some(AbandonReason::Cancelled));
                    }
                    let Some(open) = secured.open.get_mut(&session) else { continue };
                    let from = Address::from(open.place.at).secured(open.number);
                    let mut datagram = Datagram::new(from, &secured.buffer[..len]);
                    // The handshake has shown that the peer receives.
                    (datagram.local, datagram.validated) = (open.place.local, true);
                    self.telemetry.arrived(self.now, &datagram);
                    if receiving::handle(&mut self.endpoint, &self.telemetry, self.now, datagram).is_err() {
                        let (local, bytes) = (open.place.local, secured.buffer[..len].to_vec());
                        secured.held.push_back(Held::Message { from, local, bytes });
                    }
                }
                Output::Established { session, peer, role, identity } => {
                    if let Some(done) = secured.opened(session, peer, role, Identity::of_session(identity)) {
                        self.endpoint.handshake_over(self.now, done, None);
                    }
                }
                Output::Closed { session, peer, why } => {
                    if let Some((failed, why)) = secured.over(session, peer, &why) {
                        self.endpoint.handshake_over(self.now, failed, Some(why));
                    }
                }
                Output::Flight { peer, progress, .. } => match (secured.waiting.exchange(peer.at), progress) {
                    (Some(handshake), Progress::Left(flight)) => {
                        self.endpoint.flight_left(self.now, handshake, &flight);
                    }
                    (Some(handshake), Progress::Answered(copy)) => {
                        self.endpoint.flight_answered(self.now, handshake, copy);
                    }
                    (None, _) => {}
                },
                Output::Wait(due) => {
                    // Every sealed message came out as a record, or its session failed.
                    secured.sealed.clear();
                    secured.due = due;
                    let panicked = secured.sessions.stats().panicked;
                    let before = std::mem::replace(&mut secured.panicked, panicked);
                    if panicked > before {
                        self.fence.count("a DTLS session", panicked - before);
                    }
                    return;
                }
            }
        }
    }

    fn seal(&mut self, transmit: Transmit<Address>) {
        let Some(secured) = &mut self.secured else { return };
        let message = &self.outgoing.room()[..transmit.len];
        if secured.seal(transmit, message) {
            self.telemetry.departed(self.now, &transmit, message, &Ok(()));
            if secured.ours(transmit.to).is_some_and(|ours| ours.is_silent(message)) {
                self.open_beside(transmit.to);
            }
        } else {
            let over = !secured.knows(transmit.to);
            let held = if over { Held::Over(transmit.to) } else { Held::Unreachable(transmit.to) };
            secured.held.push_back(held);
        }
    }

    fn hear_of_handshake(&mut self, event: &Event<Address>) -> bool {
        let (Event::Flight { exchange, peer } | Event::Failed { exchange, peer, .. }) = event else { return false };
        let Some(secured) = &mut self.secured else { return false };
        let at = peer.socket_addr();
        if secured.waiting.exchange(at) != Some(*exchange) {
            return false;
        }
        if let Event::Failed { reason, .. } = event {
            let error = match reason {
                Failure::Unreachable => HandshakeError::unreachable(),
                reason => HandshakeError::new(reason),
            };
            let refused = secured.waiting.refuse(at, &error);
            refused.and_then(|(_, session)| session).into_iter().for_each(|session| secured.sessions.close(session));
        } else if !secured.fly(self.now, at) {
            self.endpoint.handshake_over(self.now, *exchange, Some(AbandonReason::Cancelled));
        }
        true
    }

    fn doubt_session(&mut self, peer: Address) {
        if let Some(ours) = self.secured.as_mut().and_then(|secured| secured.ours(peer)) {
            ours.doubted = true;
        }
    }

    fn is_open(&self, session: Address) -> bool {
        self.secured.as_ref().is_some_and(|secured| secured.knows(session))
    }

    fn session_with(&self, at: Address) -> Option<Address> {
        let number = self.secured.as_ref()?.by_address.get(&at.socket_addr())?;
        Some(at.secured(*number))
    }

    fn session_identity(&self, session: Address) -> Option<Identity> {
        self.secured.as_ref()?.identity(session)
    }

    fn takes_plaintext(&self) -> bool {
        self.secured.as_ref().is_none_or(Secured::takes_plaintext)
    }

    fn session_unreachable(&mut self, peer: Address, quoted: &[u8]) {
        let session = self.session_with(peer);
        let Some(secured) = &mut self.secured else { return };
        if let Some(failed) = secured.waiting.unreachable(peer, quoted, &mut secured.sessions) {
            self.endpoint.handshake_over(self.now, failed, Some(AbandonReason::Unreachable));
        }
        if let Some(session) = session
            && let Some(ours) = secured.ours(session)
            && is_of(quoted, &ours.sent)
        {
            ours.doubted = true;
            secured.held.push_back(Held::Unreachable(session));
        }
    }

    fn sessions_due(&self) -> Option<Instant> {
        let secured = self.secured.as_ref()?;
        if secured.held.is_empty() { secured.due } else { Some(Instant::ZERO) }
    }

    async fn close_sessions(&mut self) {
        let Some(secured) = &mut self.secured else { return };
        let open: Vec<_> = secured.open.keys().copied().collect();
        for session in open {
            if let Some(secured) = &mut self.secured {
                secured.sessions.close(session);
            }
            self.hear_sessions();
            if self.outgoing.is_full() {
                self.send_all().await;
            }
        }
        self.hear_sessions();
        self.send_all().await;
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    /// Passes held inputs to the endpoint. Returns `false` if it has no room.
    fn hand_in_held(&mut self) -> bool {
        while let Some(held) = self.secured.as_mut().and_then(|secured| secured.held.pop_front()) {
            let handed_in = match &held {
                Held::Over(peer) => {
                    self.endpoint.lose_peer(self.now, peer);
                    self.observations_lost(*peer);
                    continue;
                }
                Held::Unreachable(peer) => {
                    self.endpoint.handle(self.now, Input::Unreachable { peer: *peer, quoted: None })
                }
                Held::Message { from, local, bytes } => {
                    let mut datagram = Datagram::new(*from, bytes);
                    (datagram.local, datagram.validated) = (*local, true);
                    receiving::handle(&mut self.endpoint, &self.telemetry, self.now, datagram)
                }
            };
            if handed_in.is_err() {
                if let Some(secured) = &mut self.secured {
                    secured.held.push_front(held);
                }
                return false;
            }
        }
        true
    }

    /// Opens a second session in parallel with one that does not answer. The server may have
    /// restarted, or a NAT may have rebound this socket to another address. The session that
    /// answers first is used.
    fn open_beside(&mut self, session: Address) {
        let Some(secured) = &mut self.secured else { return };
        let Some(name) = secured.ours(session).map(|ours| Arc::clone(&ours.name)) else { return };
        let at = session.socket_addr();
        if secured.waiting.has(at) || self.session_with(session) != Some(session) {
            return;
        }
        if let Ok(exchange) = self.endpoint.begin_handshake(self.now, Address::from(at))
            && let Some(secured) = &mut self.secured
        {
            let psk = secured.security.psk_identity(session.canonical().ip());
            secured.waiting.begin_beside(at, exchange, name, psk);
            if let Some(ours) = secured.ours(session) {
                ours.doubted = true;
            }
        }
    }
}
