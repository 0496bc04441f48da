//! [`DtlsLanes`]: DTLS (RFC 7252 §9), with a session per lane of a thread.
//!
//! Messages wait for their lane's session. A replacement lane opens its session with its first
//! request, whose latency includes the handshake.

use std::time::Duration;

use conche_dtls::{BUFFER, ClientCredentials, Config, ConfigError, Ended, Failure, Output, SessionId, Sessions};
use conche_proto::{Instant, Stats};

use crate::tally::{self, Times, nanos, times};

/// Record header, nonce and tag (RFC 5246 §6.2.3.3).
const OVERHEAD: usize = 64;

const MTU: usize = 1280;

/// Shorter than a normal client's.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// Further messages, probably retransmissions, are dropped.
const HELD: usize = 64;

/// Sockets are the effective limit.
const MOST: usize = 1 << 22;

pub(crate) struct DtlsLanes {
    sessions: Sessions<u32>,
    credentials: ClientCredentials,
    lanes: Vec<Lane>,
    buffer: Box<[u8]>,
    due: Option<Instant>,
    wire: WireCounts,
    pub(crate) counts: Counts,
    pub(crate) is_counting: bool,
    pub(crate) failure: Option<Ended>,
    opening: usize,
}

#[derive(Debug, Default)]
struct Lane {
    state: State,
    held: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Closed,
    Opening {
        session: SessionId,
        since: Instant,
        bytes: u64,
    },
    Open(SessionId),
}

#[derive(Clone, Copy, Debug, Default)]
struct WireCounts {
    sent: u64,
    bytes_sent: u64,
    received: u64,
    bytes_received: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Counts {
    pub(crate) opened: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) bytes: u64,
    pub(crate) times: Times,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self { opened: 0, failed: 0, lost: 0, bytes: 0, times: times() }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.failed += other.failed;
        self.lost += other.lost;
        self.bytes += other.bytes;
        tally::add(&mut self.times, &other.times);
    }
}

pub(crate) enum Next<'a> {
    Datagram {
        lane: u32,
        bytes: &'a [u8],
    },
    Message {
        lane: u32,
        bytes: &'a [u8],
    },
    /// Fail the requests on this lane.
    Lost {
        lane: u32,
    },
}

impl DtlsLanes {
    pub(crate) fn new(credentials: ClientCredentials, seed: [u8; 32]) -> Result<Self, ConfigError> {
        let mut config = Config { mtu: MTU, handshake_timeout: HANDSHAKE, ..Config::default() };
        (config.max_sessions, config.max_handshakes) = (MOST, MOST);
        Ok(Self {
            sessions: Sessions::new(Instant::ZERO, config, seed)?,
            credentials,
            lanes: Vec::new(),
            buffer: vec![0; BUFFER].into(),
            due: None,
            wire: WireCounts::default(),
            counts: Counts::new(),
            is_counting: true,
            failure: None,
            opening: 0,
        })
    }

    pub(crate) fn longest_datagram(message_bytes: usize) -> usize {
        message_bytes.saturating_add(OVERHEAD).max(MTU)
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn opening(&self) -> usize {
        self.opening
    }

    fn lane(&mut self, lane: u32) -> &mut Lane {
        let place = lane as usize;
        if place >= self.lanes.len() {
            self.lanes.resize_with(place + 1, Lane::default);
        }
        &mut self.lanes[place]
    }

    pub(crate) fn connect(&mut self, now: Instant, lane: u32) {
        if !matches!(self.lane(lane).state, State::Closed) {
            return;
        }
        match self.sessions.connect(now, lane, &self.credentials, None) {
            Ok(session) => {
                self.lane(lane).state = State::Opening { session, since: now, bytes: 0 };
                self.opening += 1;
            }
            // Too few sockets: the credentials worked before.
            Err(_) => self.counts.failed += 1,
        }
        self.due = Some(Instant::ZERO);
    }

    pub(crate) fn send(&mut self, now: Instant, lane: u32, message: &[u8]) {
        self.due = Some(Instant::ZERO);
        if let State::Open(session) = self.lane(lane).state {
            // `poll` reports failures.
            let _ = self.sessions.send(session, message);
            return;
        }
        let held = &mut self.lane(lane).held;
        if held.len() < HELD {
            held.push(message.to_vec());
        }
        self.connect(now, lane);
    }

    pub(crate) fn take(&mut self, now: Instant, lane: u32, datagram: &[u8]) {
        self.wire.received += 1;
        self.wire.bytes_received += datagram.len() as u64;
        self.passes(lane, datagram.len());
        self.sessions.handle(now, lane, datagram);
        self.due = Some(Instant::ZERO);
    }

    pub(crate) fn close(&mut self, lane: u32) {
        let Lane { state, held } = self.lane(lane);
        held.clear();
        match std::mem::take(state) {
            State::Closed => return,
            State::Opening { session, .. } => {
                self.opening -= 1;
                self.sessions.close(session);
            }
            State::Open(session) => self.sessions.close(session),
        }
        self.due = Some(Instant::ZERO);
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Next<'_>> {
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        loop {
            match self.sessions.poll(now, &mut self.buffer) {
                Output::Transmit { to: lane, len } => {
                    self.wire.sent += 1;
                    self.wire.bytes_sent += len as u64;
                    self.passes(lane, len);
                    return Some(Next::Datagram { lane, bytes: &self.buffer[..len] });
                }
                Output::Received { session, len } => {
                    let Some(lane) = self.sessions.peer(session) else { continue };
                    return Some(Next::Message { lane, bytes: &self.buffer[..len] });
                }
                Output::Established { session, peer, .. } => self.opened(now, peer, session),
                Output::Closed { session, peer, why } => {
                    if self.over(peer, session, why) {
                        return Some(Next::Lost { lane: peer });
                    }
                }
                Output::Flight { .. } | Output::KeyWanted { .. } | Output::HandshakeFailed { .. } => {}
                Output::Wait(due) => {
                    self.due = due;
                    return None;
                }
            }
        }
    }

    fn passes(&mut self, lane: u32, len: usize) {
        if let State::Opening { bytes, .. } = &mut self.lane(lane).state {
            *bytes += len as u64;
        }
    }

    fn opened(&mut self, now: Instant, lane: u32, session: SessionId) {
        let Lane { state, held } = self.lane(lane);
        let State::Opening { since, bytes, .. } = *state else { return };
        *state = State::Open(session);
        let held = std::mem::take(held);
        self.opening -= 1;
        if self.is_counting {
            self.counts.opened += 1;
            self.counts.bytes += bytes;
            self.counts.times.saturating_record(nanos(now - since));
        }
        for message in held {
            let _ = self.sessions.send(session, &message);
        }
    }

    fn over(&mut self, lane: u32, session: SessionId, why: Ended) -> bool {
        let (is_counting, at) = (self.is_counting, self.lane(lane));
        match at.state {
            State::Opening { session: opening, .. } if opening == session => {
                self.opening -= 1;
                self.counts.failed += u64::from(is_counting);
            }
            State::Open(open) if open == session => self.counts.lost += u64::from(is_counting),
            _ => return false,
        }
        let at = self.lane(lane);
        at.state = State::Closed;
        at.held.clear();
        self.failure = Some(why);
        true
    }

    pub(crate) fn on_the_wire(&self, stats: Stats) -> Stats {
        let mut stats = stats;
        stats.datagrams_sent = self.wire.sent;
        stats.bytes_sent = self.wire.bytes_sent;
        stats.datagrams_received = self.wire.received;
        stats.bytes_received = self.wire.bytes_received;
        stats
    }
}

pub(crate) fn is_silence(why: &Ended) -> bool {
    matches!(why, Ended::Failed(Failure::Silence))
}
