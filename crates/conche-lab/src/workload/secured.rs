//! Simulated DTLS sessions, by `conche-dtls`.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use conche_dtls::{
    BUFFER, ClientCredentials, Config, ConfigError, Output, Progress, Role, Secret, ServerCredentials, ServerKeys,
    SessionId, Sessions,
};
use conche_netsim::node::{Step, Underlay};
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::{Instant, NodeId};

use crate::scenario::Handshakes;

const IDENTITY: &[u8] = b"endpoint";
const KEY: [u8; 16] = *b"0123456789abcdef";
/// RFC 6347 §4.1; other records are for handshakes or closing.
const APPLICATION_DATA: u8 = 23;

/// A host's handshakes by peer.
pub type Log = Rc<RefCell<BTreeMap<NodeId, HandshakeCounts>>>;

/// The handshakes between two nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounts {
    /// Durations of completed handshakes, from first datagram until the client may send.
    pub done: Vec<Duration>,
    /// Handshakes that missed their deadline.
    pub failed: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// UDP payload bytes sent.
    pub bytes: u64,
}

impl HandshakeCounts {
    /// Adds the other end's or another life's counts.
    pub fn add(&mut self, other: &Self) {
        self.done.extend(&other.done);
        self.failed += other.failed;
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
    }
}

/// The sessions of a node.
#[derive(Debug)]
pub struct Secured {
    sessions: Sessions<NodeId>,
    credentials: ClientCredentials,
    open: BTreeMap<NodeId, Open>,
    asked: BTreeMap<NodeId, (SessionId, Instant)>,
    /// Events for the node.
    steps: VecDeque<Step>,
    log: Log,
}

#[derive(Debug)]
struct Open {
    session: SessionId,
    maybe_stale: bool,
}

impl Secured {
    /// Creates the sessions of a node restarted `lives` times.
    ///
    /// # Errors
    /// Invalid handshake parameters.
    pub fn new(
        node: NodeId,
        lives: usize,
        streams: &Streams,
        handshakes: &Handshakes,
        is_server: bool,
    ) -> Result<Self, ConfigError> {
        let purpose = |what: &str| Purpose::named(&format!("{what} {lives}"));
        let seed = streams.seed_bytes(Entity::Node(node), purpose("sessions"));
        let [a, b, c, d, e, f, g, h, ..] = streams.seed_bytes(Entity::Node(node), purpose("handshakes"));
        let keys = ServerKeys::new(|identity: &[u8]| (identity == IDENTITY).then(|| Secret::new(KEY)));
        let server = ServerCredentials { psk: Some(keys), ..ServerCredentials::default() };
        let mut config = Config {
            server: is_server.then_some(server),
            mtu: usize::try_from(handshakes.mtu.0).unwrap_or(usize::MAX),
            flight_timeout: handshakes.flight_timeout.0,
            handshake_timeout: handshakes.deadline.0,
            seed: Some(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
            ..Config::default()
        };
        if !is_server {
            // Clients need no limits.
            (config.max_sessions, config.max_handshakes) = (usize::MAX, usize::MAX);
        }
        let sessions = Sessions::new(Instant::ZERO, config, seed)?;
        let credentials = ClientCredentials::psk(IDENTITY, Secret::new(KEY))?;
        let (open, asked, steps, log) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new(), Log::default());
        Ok(Self { sessions, credentials, open, asked, steps, log })
    }

    /// Returns the log of its handshakes.
    #[must_use]
    pub fn log(&self) -> Log {
        Rc::clone(&self.log)
    }

    fn count(&self, peer: NodeId, count: impl FnOnce(&mut HandshakeCounts)) {
        count(self.log.borrow_mut().entry(peer).or_default());
    }

    fn opened(&mut self, now: Instant, peer: NodeId, session: SessionId, role: Role) {
        // Exchanges do not continue on another session (RFC 7252 §9.1).
        if self.open.insert(peer, Open { session, maybe_stale: false }).is_some() {
            self.steps.push_back(Step::Lost(peer));
        }
        if let (Role::Client, Some((_, began))) = (role, self.asked.remove(&peer)) {
            self.count(peer, |handshakes| handshakes.done.push(now - began));
            self.steps.push_back(Step::Opened(peer));
        }
    }

    fn closed(&mut self, peer: NodeId, session: SessionId) {
        if self.open.get(&peer).is_some_and(|open| open.session == session) {
            self.open.remove(&peer);
            self.steps.push_back(Step::Lost(peer));
        } else if self.asked.get(&peer).is_some_and(|(asked, _)| *asked == session) {
            self.asked.remove(&peer);
            self.count(peer, |handshakes| handshakes.failed += 1);
            self.steps.push_back(Step::Refused(peer));
        }
    }
}

impl Underlay for Secured {
    fn buffer_bytes(&self) -> usize {
        BUFFER
    }

    fn receive(&mut self, now: Instant, from: NodeId, datagram: &[u8]) {
        self.sessions.handle(now, from, datagram);
    }

    fn send(&mut self, to: NodeId, message: &[u8]) -> bool {
        let Some(open) = self.open.get(&to) else { return false };
        self.sessions.send(open.session, message).is_ok()
    }

    fn is_open(&self, to: NodeId) -> bool {
        self.open.get(&to).is_some_and(|open| !open.maybe_stale)
    }

    fn send_flight(&mut self, now: Instant, to: NodeId) {
        if let Some((session, _)) = self.asked.get(&to) {
            return self.sessions.repeat(*session);
        }
        match self.sessions.connect_controlled(now, to, &self.credentials) {
            Ok(session) => {
                self.asked.insert(to, (session, now));
            }
            // A handshake in the other direction, or a limit.
            Err(_) => self.steps.push_back(Step::Refused(to)),
        }
    }

    fn give_up(&mut self, to: NodeId) {
        match self.asked.get(&to) {
            Some((session, _)) => self.sessions.close(*session),
            None => self.steps.push_back(Step::Refused(to)),
        }
    }

    fn mark_doubtful(&mut self, peer: NodeId) {
        if let Some(open) = self.open.get_mut(&peer) {
            open.maybe_stale = true;
        }
    }

    fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Step {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return step;
            }
            match self.sessions.poll(now, buffer) {
                Output::Transmit { to, len } => {
                    if buffer[..len].first() != Some(&APPLICATION_DATA) {
                        self.count(to, |handshakes| {
                            handshakes.datagrams += 1;
                            handshakes.bytes += len as u64;
                        });
                    }
                    return Step::Transmit { to, len };
                }
                Output::Received { session, len } => {
                    if let Some(from) = self.sessions.peer(session) {
                        return Step::Received { from, len };
                    }
                }
                Output::Established { session, peer, role, .. } => self.opened(now, peer, session, role),
                Output::Closed { session, peer, .. } => self.closed(peer, session),
                Output::Flight { peer, progress: Progress::Left(flight), .. } => return Step::Left(peer, flight),
                Output::Flight { peer, progress: Progress::Answered(copy), .. } => return Step::Answered(peer, copy),
                Output::KeyWanted { .. } | Output::HandshakeFailed { .. } => {}
                Output::Wait(due) => return Step::Wait(due),
            }
        }
    }
}
