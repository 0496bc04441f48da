//! [`DtlsSessions`]: the DTLS sessions of one socket.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use conche_dtls::{BUFFER, Config, Ended, Progress, Role, SessionId, Sessions as Engine};
use conche_proto::cc::control::AbandonReason;
use conche_proto::{ExchangeId, Instant, Transmit};
use tracing::debug;

use super::failures::{FailedHandshakes, FailureReason};
use super::handshakes::{CompletedHandshake, Handshakes};
use super::lookups::{FoundKey, Lookups};
use crate::address::{Address, SessionNumber};
use crate::fence::Fence;
use crate::security::{Identity, Security, SessionEvent, SessionInfo, SessionObserver};

/// Maximum bytes that a record adds: header, nonce and tag (RFC 5246 §6.2.3.3).
const OVERHEAD: usize = 64;

/// Carried by every IPv6 path.
const MTU: usize = 1280;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AddressPair {
    pub(super) peer: SocketAddr,
    pub(super) local: Option<IpAddr>,
}

pub(crate) struct DtlsSessions {
    pub(super) engine: Engine<AddressPair>,
    pub(super) security: Arc<Security>,
    pub(super) open: HashMap<SessionId, OpenSession>,
    pub(super) by_number: HashMap<SessionNumber, SessionId>,
    pub(super) by_address: HashMap<SocketAddr, SessionNumber>,
    last_number: u32,
    pub(super) handshakes: Handshakes,
    pub(super) failed: FailedHandshakes,
    lookups: Lookups,
    fence: Fence,
    sealed: VecDeque<Transmit<Address>>,
    /// Inputs for which the endpoint has no room yet.
    held: VecDeque<SessionInput>,
    buffer: Box<[u8]>,
    due: Option<Instant>,
    panicked: u64,
}

pub(super) struct OpenSession {
    /// For session events; 0 if there are none.
    id: u64,
    number: SessionNumber,
    pub(super) addresses: AddressPair,
    pub(super) identity: Option<Identity>,
    pub(super) outgoing: Option<OutgoingSession>,
}

impl OpenSession {
    fn info(&self) -> SessionInfo {
        SessionInfo {
            id: self.id,
            peer: Address::from(self.addresses.peer).canonical(),
            local: self.addresses.local.map(|local| local.to_canonical()),
            is_outgoing: self.outgoing.is_some(),
            identity: self.identity.clone(),
        }
    }
}

pub(super) struct OutgoingSession {
    pub(super) name: Arc<str>,
    /// New requests use another session until a record arrives.
    pub(super) is_suspect: bool,
    /// Of Confirmable messages since the last record; at most [`REMEMBERED`].
    unanswered: Vec<u16>,
    /// Beginning of the last datagram sent, to match ICMP errors.
    sent: Vec<u8>,
}

/// Kept to recognize retransmissions.
const REMEMBERED: usize = 16;

impl OutgoingSession {
    fn new(name: Arc<str>) -> Self {
        Self { name, is_suspect: false, unanswered: Vec::new(), sent: Vec::new() }
    }

    /// Whether the message is a retransmission without a record since its first transmission.
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

pub(crate) enum SessionInput {
    Message {
        from: Address,
        local: Option<IpAddr>,
        bytes: Vec<u8>,
    },
    /// Messages to the peer of a session cannot be sent.
    Unreachable(Address),
    /// A session ended.
    Over(Address),
}

/// Bytes of a sent datagram kept to match ICMP errors. Errors that quote fewer than
/// [`LEAST_QUOTED`] bytes are ignored: an attacker can guess the first bytes, but not the random,
/// or nonce and tag, that follow.
const QUOTED: usize = 64;
const LEAST_QUOTED: usize = 32;

pub(super) fn keep_start(sent: &mut Vec<u8>, datagram: &[u8]) {
    sent.clear();
    sent.extend_from_slice(&datagram[..datagram.len().min(QUOTED)]);
}

pub(super) fn quotes(quoted: &[u8], sent: &[u8]) -> bool {
    let compared = quoted.len().min(sent.len());
    compared >= LEAST_QUOTED && quoted[..compared] == sent[..compared]
}

pub(crate) enum Output {
    /// Send the first bytes of the [`buffer`](DtlsSessions::buffer) to the peer.
    Record(Transmit<Address>),
    Message {
        from: Address,
        local: Option<IpAddr>,
        len: usize,
        /// A handshake parallel to the session, to be cancelled.
        superseded: Option<ExchangeId>,
    },
    /// A handshake succeeded or, with this reason, failed.
    HandshakeOver {
        exchange: ExchangeId,
        failed: Option<AbandonReason>,
    },
    Flight {
        exchange: ExchangeId,
        progress: Progress,
    },
    Wait {
        panics: u64,
    },
}

impl DtlsSessions {
    /// Returns `None` without credentials. `peers` bounds the sessions of a client.
    pub(crate) fn start(
        now: Instant,
        security: &Arc<Security>,
        peers: usize,
        fence: Fence,
    ) -> io::Result<Option<Self>> {
        if security.is_none() {
            return Ok(None);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let server = security.server_credentials().map_err(io::Error::other)?;
        let mut config = Config { server, mtu: MTU, key_log: security.key_log.clone(), ..Config::default() };
        if !security.is_server() {
            // The application chooses the servers of a client.
            (config.max_sessions, config.max_handshakes) = (peers, peers);
        }
        config.max_sessions = security.max_sessions.unwrap_or(config.max_sessions);
        config.max_sessions_per_identity = security.max_sessions_per_identity;
        let mut engine = Engine::new(now, config, seed).map_err(io::Error::other)?;
        engine.set_source_groups(Box::new(|addresses: &AddressPair| Address::from(addresses.peer).prefix()));
        engine.set_hosts(Box::new(|addresses: &AddressPair| Address::from(addresses.peer).host()));
        Ok(Some(Self {
            engine,
            security: Arc::clone(security),
            open: HashMap::new(),
            by_number: HashMap::new(),
            by_address: HashMap::new(),
            last_number: 0,
            handshakes: Handshakes::default(),
            failed: FailedHandshakes::default(),
            lookups: Lookups::new(fence.clone()),
            fence,
            sealed: VecDeque::new(),
            held: VecDeque::new(),
            buffer: vec![0; BUFFER].into(),
            due: None,
            panicked: 0,
        }))
    }

    pub(crate) fn longest_datagram(message_bytes: usize) -> usize {
        message_bytes.saturating_add(OVERHEAD).max(MTU)
    }

    pub(crate) fn identity(&self, session: Address) -> Option<Identity> {
        let Address::Dtls(_, number) = session else { return None };
        self.open.get(self.by_number.get(&number)?)?.identity.clone()
    }

    pub(crate) fn takes_plaintext(&self) -> bool {
        !self.security.is_server()
    }

    pub(crate) fn take(&mut self, now: Instant, from: Address, local: Option<IpAddr>, record: &[u8]) {
        let mut addresses = AddressPair { peer: from.socket_addr(), local };
        // An own session may not know its local address.
        let without_local = AddressPair { local: None, ..addresses };
        let begun = self.handshakes.session(addresses.peer).and_then(|session| self.engine.peer(session));
        if local.is_some() && (begun == Some(without_local) || self.engine.open(&without_local).is_some()) {
            addresses = without_local;
        }
        self.engine.handle(now, addresses, record);
    }

    pub(crate) fn seal(&mut self, transmit: Transmit<Address>, message: &[u8]) -> bool {
        let Address::Dtls(_, number) = transmit.to else { return false };
        let Some(session) = self.by_number.get(&number) else { return false };
        let sent = self.engine.send(*session, message);
        if sent.is_ok() {
            self.sealed.push_back(transmit);
        }
        sent.is_ok()
    }

    pub(crate) fn is_open(&self, session: Address) -> bool {
        matches!(session, Address::Dtls(_, number) if self.by_number.contains_key(&number))
    }

    pub(super) fn outgoing(&mut self, session: Address) -> Option<&mut OutgoingSession> {
        let Address::Dtls(_, number) = session else { return None };
        self.open.get_mut(self.by_number.get(&number)?)?.outgoing.as_mut()
    }

    pub(crate) fn session_with(&self, at: Address) -> Option<Address> {
        let number = self.by_address.get(&at.socket_addr())?;
        Some(at.secured(*number))
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        if self.held.is_empty() { self.due } else { Some(Instant::ZERO) }
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Output {
        use conche_dtls::Output as Event;
        loop {
            match self.engine.poll(now, &mut self.buffer) {
                Event::Transmit { to, len } => {
                    let plain = Transmit::new(Address::from(to.peer), len);
                    let is_sealed = self.sealed.front().is_some_and(|sealed| sealed.to.socket_addr() == to.peer);
                    let sealed = if is_sealed { self.sealed.pop_front() } else { None };
                    let mut transmit = sealed.unwrap_or(plain);
                    (transmit.len, transmit.local) = (len, transmit.local.or(to.local));
                    self.keep_sent(&transmit, len);
                    return Output::Record(transmit);
                }
                Event::Received { session, len } => {
                    let superseded = self.on_record(session);
                    let Some(open) = self.open.get(&session) else { continue };
                    let from = Address::from(open.addresses.peer).secured(open.number);
                    return Output::Message { from, local: open.addresses.local, len, superseded };
                }
                Event::Established { session, peer, role, identity } => {
                    if let Some(exchange) = self.on_open(session, peer, role, Identity::of_session(identity)) {
                        return Output::HandshakeOver { exchange, failed: None };
                    }
                }
                Event::KeyWanted { session, identity, .. } => match &self.security.lookup {
                    Some(lookup) => self.lookups.begin(lookup, session, identity),
                    None => self.engine.provide_key(session, None),
                },
                Event::HandshakeFailed { session, peer, identity, why } => {
                    debug!(peer = %peer.peer, %why, "a handshake failed");
                    self.failed.count((&why).into());
                    self.report(|| SessionEvent::HandshakeFailed {
                        peer: Address::from(peer.peer).canonical(),
                        claimed: identity.map(Identity::psk),
                        reason: (&why).into(),
                    });
                    session.into_iter().for_each(|session| self.lookups.cancel(session));
                }
                Event::Closed { session, peer, why } => {
                    self.lookups.cancel(session);
                    if let Some((exchange, why)) = self.on_closed(session, peer, &why) {
                        return Output::HandshakeOver { exchange, failed: Some(why) };
                    }
                }
                Event::Flight { peer, progress, .. } => {
                    if let Some(exchange) = self.handshakes.exchange(peer.peer) {
                        return Output::Flight { exchange, progress };
                    }
                }
                Event::Wait(due) => {
                    // Every sealed message came out as a record, or its session failed.
                    self.sealed.clear();
                    self.due = due;
                    let panicked = self.engine.stats().panicked;
                    let before = std::mem::replace(&mut self.panicked, panicked);
                    return Output::Wait { panics: panicked.saturating_sub(before) };
                }
            }
        }
    }

    /// Waits forever without sessions or lookups.
    pub(crate) async fn next_key(sessions: Option<&mut Self>) -> FoundKey {
        match sessions {
            Some(sessions) => sessions.lookups.next().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn provide_key(&mut self, found: FoundKey) {
        self.engine.provide_key(found.session, found.key);
    }

    pub(crate) fn buffer(&self, len: usize) -> &[u8] {
        &self.buffer[..len]
    }

    pub(crate) fn next_input(&mut self) -> Option<SessionInput> {
        self.held.pop_front()
    }

    pub(crate) fn put_back(&mut self, input: SessionInput) {
        self.held.push_front(input);
    }

    pub(crate) fn hold_message(&mut self, from: Address, local: Option<IpAddr>, len: usize) {
        let bytes = self.buffer[..len].to_vec();
        self.held.push_back(SessionInput::Message { from, local, bytes });
    }

    pub(crate) fn on_unsent(&mut self, session: Address) {
        let is_over = !self.is_open(session);
        self.held.push_back(if is_over { SessionInput::Over(session) } else { SessionInput::Unreachable(session) });
    }

    pub(crate) fn is_silent(&mut self, session: Address, message: &[u8]) -> bool {
        self.outgoing(session).is_some_and(|outgoing| outgoing.is_silent(message))
    }

    /// Makes new requests use another session until a record arrives.
    pub(crate) fn suspect(&mut self, session: Address) {
        if let Some(outgoing) = self.outgoing(session) {
            outgoing.is_suspect = true;
        }
    }

    pub(crate) fn on_unreachable(&mut self, peer: Address, quoted: &[u8]) -> Option<ExchangeId> {
        let session = self.session_with(peer);
        let failed = self.handshakes.on_unreachable(peer, quoted, &mut self.engine);
        if failed.is_some() {
            self.failed.count(FailureReason::Unreachable);
        }
        if let Some(session) = session
            && let Some(outgoing) = self.outgoing(session)
            && quotes(quoted, &outgoing.sent)
        {
            outgoing.is_suspect = true;
            self.held.push_back(SessionInput::Unreachable(session));
        }
        failed
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn stats(&self) -> conche_dtls::Stats {
        self.engine.stats()
    }

    /// Returns the number of failed handshakes for each reason.
    #[cfg(feature = "metrics")]
    pub(crate) fn failed_handshakes(&self) -> Vec<(&'static str, u64)> {
        self.failed.rows()
    }

    pub(crate) fn open_sessions(&self) -> Vec<SessionId> {
        self.open.keys().copied().collect()
    }

    pub(crate) fn close(&mut self, session: SessionId) {
        self.engine.close(session);
    }

    fn on_record(&mut self, session: SessionId) -> Option<ExchangeId> {
        let open = self.open.get_mut(&session)?;
        let outgoing = open.outgoing.as_mut()?;
        outgoing.unanswered.clear();
        if !outgoing.is_suspect || self.by_address.get(&open.addresses.peer) != Some(&open.number) {
            return None;
        }
        outgoing.is_suspect = false;
        let address = Address::from(open.addresses.peer).secured(open.number);
        let (exchange, begun) = self.handshakes.superseded(open.addresses.peer, address, open.identity.as_ref())?;
        if let Some(begun) = begun {
            self.engine.close(begun);
        }
        Some(exchange)
    }

    fn keep_sent(&mut self, transmit: &Transmit<Address>, len: usize) {
        let datagram = &self.buffer[..len];
        let Address::Dtls(_, number) = transmit.to else { return self.handshakes.sent(transmit.to, datagram) };
        let open = self.by_number.get(&number).and_then(|session| self.open.get_mut(session));
        if let Some(outgoing) = open.and_then(|open| open.outgoing.as_mut()) {
            keep_start(&mut outgoing.sent, datagram);
        }
    }

    fn report(&self, event: impl FnOnce() -> SessionEvent) {
        if let Some(observer) = &self.security.observer {
            let event = event();
            self.fence.run("a function for session events", || observer.report(&event));
        }
    }

    fn on_open(
        &mut self,
        session: SessionId,
        addresses: AddressPair,
        role: Role,
        identity: Option<Identity>,
    ) -> Option<ExchangeId> {
        // No session has the number 0.
        self.last_number = self.last_number.checked_add(1).unwrap_or(1);
        let number = SessionNumber(self.last_number);
        let address = Address::from(addresses.peer).secured(number);
        let done = match role {
            Role::Client => self.handshakes.opened(addresses.peer, address, identity.clone()),
            Role::Server => None,
        };
        let (outgoing, identity, done) = match done {
            Some(CompletedHandshake { name, identity, exchange }) => {
                (Some(OutgoingSession::new(name)), identity, Some(exchange))
            }
            None => (None, identity, None),
        };
        debug!(peer = %address, %session, ?role, "a session is open");
        self.by_number.insert(number, session);
        self.by_address.insert(addresses.peer, number);
        let id = self.security.observer.as_ref().map_or(0, SessionObserver::next_id);
        let open = OpenSession { id, number, addresses, identity, outgoing };
        self.report(|| SessionEvent::Opened { session: open.info() });
        self.open.insert(session, open);
        done
    }

    fn on_closed(
        &mut self,
        session: SessionId,
        addresses: AddressPair,
        why: &Ended,
    ) -> Option<(ExchangeId, AbandonReason)> {
        debug!(peer = %addresses.peer, %session, %why, "a session is over");
        match self.open.remove(&session) {
            Some(open) => {
                let number = open.number;
                self.report(|| SessionEvent::Closed { session: open.info(), reason: why.into() });
                self.by_number.remove(&number);
                if self.by_address.get(&addresses.peer) == Some(&number) {
                    self.by_address.remove(&addresses.peer);
                }
                self.held.push_back(SessionInput::Over(Address::from(addresses.peer).secured(number)));
                None
            }
            None => {
                let failed = self.handshakes.failed(addresses.peer, session, why)?;
                self.failed.count(match why {
                    Ended::Failed(failure) => failure.into(),
                    Ended::Evicted => FailureReason::Evicted,
                    _ => FailureReason::Other,
                });
                Some(failed)
            }
        }
    }
}
