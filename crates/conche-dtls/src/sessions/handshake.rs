//! [`Handshake`]: a handshake's state besides its engine.

use core::ops::RangeInclusive;

use conche_proto::Instant;

use super::flight::{self, Answer, Flights};
use crate::credentials::Identity;
use crate::engine::Failure;
use crate::wire::{self, Handshake as Message, Record, content, message};

#[derive(Debug)]
pub(super) struct Handshake {
    /// The group of sources.
    pub(super) source: u64,
    pub(super) proved: Option<Identity>,
    pub(super) early_finished: EarlyFinished,
    expected: Expected,
    /// The server has asked for a cookie: its message numbers are one higher.
    is_asked: bool,
    /// The peer's last message number.
    last: u16,
    pub(super) flights: Flights,
    /// The first fatal alert; until one flight timeout, the peer may disprove it by continuing.
    alert: Option<(u8, Option<Instant>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// A server's flights.
    Server { with_keys: bool },
    /// After a client's ClientHello of this number, with a requested certificate first.
    Client { hello: u16, certificate: bool },
}

impl Handshake {
    pub(super) fn new(source: u64, expected: Expected, flights: Flights) -> Self {
        let last = match expected {
            Expected::Server { .. } => 0,
            Expected::Client { hello, .. } => hello,
        };
        Self {
            source,
            proved: None,
            early_finished: EarlyFinished::default(),
            expected,
            is_asked: false,
            last,
            flights,
            alert: None,
        }
    }

    /// Returns `true` if the engine should receive an unprotected record; an impossible one would
    /// block its queue.
    pub(super) fn admits(&mut self, now: Instant, record: &Record<'_>) -> bool {
        match record.content {
            content::HANDSHAKE => self.admits_messages(now, record),
            content::CHANGE_CIPHER_SPEC if record.fragment == [1] => {
                if !core::mem::replace(&mut self.early_finished.changed, true) {
                    self.goes_on();
                    self.ends(now);
                }
                true
            }
            _ => false,
        }
    }

    fn admits_messages(&mut self, now: Instant, record: &Record<'_>) -> bool {
        let mut last = None;
        for message in wire::handshakes(record.fragment) {
            if !self.expected.admits(&message, self.is_asked) {
                return false;
            }
            last = last.max(Some((message.number, message.message)));
        }
        let Some((last, what)) = last else { return false };
        let asks = what == message::HELLO_VERIFY_REQUEST && self.flights.asks_for_cookie();
        self.is_asked |= what == message::HELLO_VERIFY_REQUEST;
        if last > self.last || asks {
            self.last = self.last.max(last);
            self.goes_on();
            self.flights.answered(now, flight::answer(record.sequence, what, self.expected.is_prompt()));
        }
        true
    }

    /// Handles the start or completion of the peer's last flight.
    pub(super) fn ends(&mut self, now: Instant) {
        let answer = if self.expected.is_prompt() { Answer::PromptEnd } else { Answer::Considered };
        self.flights.answered(now, answer);
    }

    /// Alerts are unprotected and perhaps forged: a peer that continues has not sent it.
    pub(super) fn alerted(&mut self, now: Instant, fragment: &[u8]) {
        const FATAL: u8 = 2;
        if let [FATAL, description] = *fragment {
            let (_, until) = self.alert.get_or_insert((description, None));
            until.get_or_insert(now + self.flights.first_timeout());
        }
    }

    fn goes_on(&mut self) {
        if let Some((_, until)) = &mut self.alert {
            *until = None;
        }
    }

    /// Returns when the received alert fails the handshake.
    pub(super) fn until(&self) -> Option<Instant> {
        self.alert?.1
    }

    pub(super) fn timeout_reason(&self) -> Failure {
        self.alert.map_or(Failure::Silence, |(description, _)| Failure::Alert(description))
    }
}

impl Expected {
    /// Whether the peer answers without signing or verifying.
    fn is_prompt(self) -> bool {
        matches!(self, Self::Server { with_keys: true })
    }

    /// Checks a message's number and length. An answer to a later ClientHello belongs to another
    /// handshake.
    fn admits(self, found: &Message<'_>, is_asked: bool) -> bool {
        let within = |range: RangeInclusive<u16>| range.contains(&found.number);
        let follows = |range: RangeInclusive<u16>| {
            found.number.checked_sub(u16::from(is_asked)).is_some_and(|number| range.contains(&number))
        };
        let length = found.length;
        match (self, found.message) {
            // Version and a cookie.
            (Self::Server { .. }, message::HELLO_VERIFY_REQUEST) => within(0..=0) && (3..=258).contains(&length),
            // Version, random, session ID, suite, compression.
            (Self::Server { .. }, message::SERVER_HELLO) => follows(0..=0) && length >= 38,
            (Self::Server { with_keys: false }, message::CERTIFICATE) => follows(1..=1) && length >= 3,
            (Self::Server { with_keys: false }, message::SERVER_KEY_EXCHANGE) => follows(2..=2) && length >= 4,
            (Self::Server { with_keys: false }, message::CERTIFICATE_REQUEST) => follows(3..=3) && length >= 5,
            (Self::Server { with_keys: false }, message::SERVER_HELLO_DONE) => follows(3..=4) && length == 0,
            // An optional hint.
            (Self::Server { with_keys: true }, message::SERVER_KEY_EXCHANGE) => follows(1..=1) && length >= 2,
            (Self::Server { with_keys: true }, message::SERVER_HELLO_DONE) => follows(1..=2) && length == 0,
            // Further fragments; the first passes the cookie check.
            (Self::Client { hello, .. }, message::CLIENT_HELLO) => found.offset > 0 && within(hello..=hello),
            (Self::Client { hello, certificate: true }, message::CERTIFICATE) => {
                within(hello + 1..=hello + 1) && length >= 3
            }
            (Self::Client { hello, certificate }, message::CLIENT_KEY_EXCHANGE) => {
                within(hello + 1..=hello + 1 + u16::from(certificate)) && length >= 2
            }
            (Self::Client { hello, certificate: true }, message::CERTIFICATE_VERIFY) => {
                within(hello + 3..=hello + 3) && length >= 4
            }
            _ => false,
        }
    }
}

/// A Finished before its ChangeCipherSpec: datagrams may be reordered, and engines drop
/// undecryptable records.
#[derive(Debug, Default)]
pub(super) struct EarlyFinished {
    /// ChangeCipherSpec has arrived.
    pub(super) changed: bool,
    record: Option<Box<[u8]>>,
}

impl EarlyFinished {
    /// A record with a Finished: 12 bytes, their header, and the suites' protection.
    const LONGEST: usize = 128;

    /// Keeps the last short enough protected record.
    pub(super) fn keep(&mut self, record: &[u8]) {
        if record.len() <= Self::LONGEST {
            self.record = Some(record.into());
        }
    }

    pub(super) fn readable(&self) -> Option<Box<[u8]>> {
        self.record.clone().filter(|_| self.changed)
    }
}
