//! [`Secured`]: DTLS between the socket and the endpoint (RFC 7252 §9). The endpoint sees plaintext, of peers that are sessions; the
//! socket sees records. Both kinds of datagram may come to one socket, as their first byte tells them apart (RFC 7983 §7).

mod waiting;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use conche_dtls::{BUFFER, Config, Ended, Output, Progress, Role, SessionId, Sessions};
use conche_proto::cc::control::Why;
use conche_proto::{Datagram, ExchangeId, Input, Instant, Transmit};
use tracing::debug;

use super::address::SessionNumber;
use super::socket::Arrival;
use super::{Address, Driver};
use crate::controllers::SharedController;
use crate::security::{Identity, Security};
pub(crate) use waiting::OpenError;
use waiting::{Done, Waiting};
pub(super) use waiting::{Opened, Secure};

/// What protects a message is no longer: header of a record, nonce and tag (RFC 5246 §6.2.3.3).
const OVERHEAD: usize = 64;

/// Datagrams of handshakes are no longer. Every path of IPv6 carries as much.
const MTU: usize = 1280;

/// Where a peer is, and which of our addresses it talks to, where the socket has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    at: SocketAddr,
    local: Option<IpAddr>,
}

/// The sessions of one socket.
pub(super) struct Secured {
    sessions: Sessions<Place>,
    security: Arc<Security>,
    open: HashMap<SessionId, Open>,
    by_number: HashMap<SessionNumber, SessionId>,
    /// The session that was opened last with who is there.
    by_address: HashMap<SocketAddr, SessionNumber>,
    last_number: u32,
    waiting: Waiting,
    /// What was protected, in its order, and has not come out yet.
    sealed: VecDeque<Transmit<Address>>,
    /// What the endpoint has to take in when it has room.
    held: VecDeque<Held>,
    buffer: Box<[u8]>,
    /// When the sessions have something to do.
    due: Option<Instant>,
    /// Panics of sessions, as counted last.
    panicked: u64,
}

/// A session whose handshake is done.
struct Open {
    number: SessionNumber,
    place: Place,
    identity: Option<Identity>,
    /// If we have opened it, for whom.
    ours: Option<Ours>,
}

/// What is kept of a session that we have opened.
struct Ours {
    /// The name that its server was asked for.
    name: Arc<str>,
    /// The server may have lost the session. New requests use another one until a record arrives.
    doubted: bool,
    /// Message IDs of Confirmable messages sent since the last record arrived, [`REMEMBERED`] at
    /// most.
    unanswered: Vec<u16>,
    /// The datagram that was sent last, by which an ICMP error is known.
    sent: Vec<u8>,
}

/// Message IDs kept to recognize retransmissions.
const REMEMBERED: usize = 16;

impl Ours {
    fn new(name: Arc<str>) -> Self {
        Self { name, doubted: false, unanswered: Vec::new(), sent: Vec::new() }
    }

    /// Takes a message that is sent. Returns whether it is a retransmission, and no record arrived
    /// since its first transmission.
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

/// Something for the endpoint.
enum Held {
    Message {
        from: Address,
        local: Option<IpAddr>,
        bytes: Vec<u8>,
    },
    /// Nothing reaches the other end of a session: whatever waits for it waits in vain.
    Unreachable(Address),
    /// A session is over, and with it what was observed through it. What is still to be answered through it goes nowhere.
    Over(Address),
}

/// Of a datagram of ours so much is kept, and an ICMP error that quotes less than [`LEAST_QUOTED`] is not believed: what comes
/// in the first bytes can be guessed, and what is in the following, a random or a nonce with a tag, cannot.
const QUOTED: usize = 64;
const LEAST_QUOTED: usize = 32;

/// Keeps the beginning of the datagram that is sent last.
fn remember(sent: &mut Vec<u8>, datagram: &[u8]) {
    sent.clear();
    sent.extend_from_slice(&datagram[..datagram.len().min(QUOTED)]);
}

/// What an ICMP error quotes is of this datagram.
fn is_of(quoted: &[u8], sent: &[u8]) -> bool {
    let compared = quoted.len().min(sent.len());
    compared >= LEAST_QUOTED && quoted[..compared] == sent[..compared]
}

impl Secured {
    /// `None` if nothing is secured. A client has sessions with so many peers at most.
    pub(super) fn start(now: Instant, security: &Arc<Security>, peers: usize) -> io::Result<Option<Self>> {
        if security.is_none() {
            return Ok(None);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let server = security.server_credentials().map_err(io::Error::other)?;
        let mut config = Config { server, mtu: MTU, key_log: security.key_log.clone(), ..Config::default() };
        if !security.is_server() {
            // Whom a client talks to is its own choice, and how many at once its callers'.
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

    /// Bytes of the largest datagram, with messages of so many.
    pub(super) fn longest_datagram(message_bytes: usize) -> usize {
        message_bytes.saturating_add(OVERHEAD).max(MTU)
    }

    /// A datagram that begins like this is a record of DTLS, and no message of CoAP (RFC 7983 §7).
    pub(super) fn is_record(datagram: &[u8]) -> bool {
        datagram.first().is_some_and(|first| (20..64).contains(first))
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.held.is_empty() { self.due } else { Some(Instant::ZERO) }
    }

    /// Who the other end of a session is.
    pub(super) fn identity(&self, session: Address) -> Option<Identity> {
        let Address::Dtls(_, number) = session else { return None };
        self.open.get(self.by_number.get(&number)?)?.identity.clone()
    }

    /// Messages that are not protected may come to this socket as well.
    pub(super) fn takes_plaintext(&self) -> bool {
        !self.security.is_server()
    }

    /// Hands a record to the sessions with its sender.
    fn take(&mut self, now: Instant, from: Address, local: Option<IpAddr>, record: &[u8]) {
        let mut place = Place { at: from.socket_addr(), local };
        // Sessions that we began without knowing which of our addresses they would leave from.
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

    /// The session is open.
    fn knows(&self, session: Address) -> bool {
        matches!(session, Address::Dtls(_, number) if self.by_number.contains_key(&number))
    }

    fn ours(&mut self, session: Address) -> Option<&mut Ours> {
        let Address::Dtls(_, number) = session else { return None };
        self.open.get_mut(self.by_number.get(&number)?)?.ours.as_mut()
    }

    /// Takes note of a record of a session. Returns the handshake of a parallel session, to be
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

    /// A datagram of ours leaves. An ICMP error may quote it.
    fn remember_sent(&mut self, transmit: &Transmit<Address>, len: usize) {
        let datagram = &self.buffer[..len];
        let Address::Dtls(_, number) = transmit.to else { return self.waiting.sent(transmit.to, datagram) };
        let open = self.by_number.get(&number).and_then(|session| self.open.get_mut(session));
        if let Some(ours) = open.and_then(|open| open.ours.as_mut()) {
            remember(&mut ours.sent, datagram);
        }
    }

    /// The answer is the handshake of ours that is done.
    fn opened(
        &mut self,
        session: SessionId,
        place: Place,
        role: Role,
        identity: Option<Identity>,
    ) -> Option<ExchangeId> {
        // 0 is nobody's.
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

    /// The answer is the handshake of ours that has failed, and why.
    fn over(&mut self, session: SessionId, place: Place, why: &Ended) -> Option<(ExchangeId, Why)> {
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

impl<C: SharedController> Driver<C> {
    /// Takes in a record.
    pub(super) fn take_record(&mut self, arrival: Arrival) {
        let Some(secured) = &mut self.secured else { return };
        let Datagram { from, bytes, local, multicast, .. } = arrival.datagram(&self.incoming);
        // DTLS is between two.
        if multicast {
            return;
        }
        secured.take(self.now, from, local, bytes);
        self.hear_sessions();
    }

    /// Hands in what the endpoint had no room for. `false` if it has none yet.
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
                    self.traffic.hand_in(self.now, datagram, &mut self.endpoint)
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

    /// What the sessions have to say, until they have no more or no more may leave at once.
    pub(super) fn hear_sessions(&mut self) {
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
                        self.endpoint.handshake_over(self.now, exchange, Some(Why::Cancelled));
                    }
                    let Some(open) = secured.open.get_mut(&session) else { continue };
                    let from = Address::from(open.place.at).secured(open.number);
                    let mut datagram = Datagram::new(from, &secured.buffer[..len]);
                    // The handshake has shown that the peer receives.
                    (datagram.local, datagram.validated) = (open.place.local, true);
                    self.traffic.arrived(self.now, &datagram);
                    if self.traffic.hand_in(self.now, datagram, &mut self.endpoint).is_err() {
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
                    // What was protected has come out, or its session has failed.
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

    /// A message is to leave through a session: it stands where the next datagram will.
    pub(super) fn seal(&mut self, transmit: Transmit<Address>) {
        let Some(secured) = &mut self.secured else { return };
        let message = &self.outgoing.room()[..transmit.len];
        if secured.seal(transmit, message) {
            self.traffic.departed(self.now, &transmit, message, &Ok(()));
            if secured.ours(transmit.to).is_some_and(|ours| ours.is_silent(message)) {
                self.open_beside(transmit.to);
            }
        } else {
            let over = !secured.knows(transmit.to);
            let held = if over { Held::Over(transmit.to) } else { Held::Unreachable(transmit.to) };
            secured.held.push_back(held);
        }
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

    /// A message was never acknowledged. Whoever asks next opens another session; what goes on in this one goes on.
    pub(super) fn doubt_session(&mut self, peer: Address) {
        if let Some(ours) = self.secured.as_mut().and_then(|secured| secured.ours(peer)) {
            ours.doubted = true;
        }
    }

    /// This is a session that is open.
    pub(super) fn is_open(&self, session: Address) -> bool {
        self.secured.as_ref().is_some_and(|secured| secured.knows(session))
    }

    /// The session that was opened last with who is there.
    pub(super) fn session_with(&self, at: Address) -> Option<Address> {
        let number = self.secured.as_ref()?.by_address.get(&at.socket_addr())?;
        Some(at.secured(*number))
    }

    /// The network says that a datagram of ours, of which this is the beginning, reached nobody.
    pub(super) fn unreachable_for_sessions(&mut self, peer: Address, quoted: &[u8]) {
        let session = self.session_with(peer);
        let Some(secured) = &mut self.secured else { return };
        if let Some(failed) = secured.waiting.unreachable(peer, quoted, &mut secured.sessions) {
            self.endpoint.handshake_over(self.now, failed, Some(Why::Unreachable));
        }
        if let Some(session) = session
            && let Some(ours) = secured.ours(session)
            && is_of(quoted, &ours.sent)
        {
            ours.doubted = true;
            secured.held.push_back(Held::Unreachable(session));
        }
    }

    /// Tells the other ends that their sessions are over.
    pub(super) async fn close_sessions(&mut self) {
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
