//! [`Handshake`]: what is kept of a handshake that goes on, beside its engine: who the peer has proved to be, what came too early, what can
//! come next, and what nothing vouches for but is told at the end.

use core::ops::RangeInclusive;

use conche_proto::Instant;

use super::flight::{self, Answer, Flights};
use crate::credentials::Identity;
use crate::engine::Failure;
use crate::wire::{self, Handshake as Message, Record, content, message};

/// A handshake that goes on.
#[derive(Debug)]
pub(super) struct Handshake {
    /// The group of sources whose share it counts in.
    pub(super) source: u64,
    /// What the peer has proved is told at the end.
    pub(super) proved: Option<Identity>,
    pub(super) early: Early,
    expected: Expected,
    /// A server has asked for a cookie: its messages have numbers that are higher by one.
    is_asked: bool,
    /// The peer's last message.
    last: u16,
    pub(super) flights: Flights,
    /// The first fatal alert, and until when the peer may go on in spite of it: for as long as a flight waits.
    alert: Option<(u8, Option<Instant>)>,
}

/// What the peer may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// A server's flights.
    Server { with_keys: bool },
    /// What follows a client's hello of this number. Where it is asked for a certificate, that comes first.
    Client { hello: u16, certificate: bool },
}

impl Handshake {
    pub(super) fn new(source: u64, expected: Expected, flights: Flights) -> Self {
        let last = match expected {
            Expected::Server { .. } => 0,
            Expected::Client { hello, .. } => hello,
        };
        Self { source, proved: None, early: Early::default(), expected, is_asked: false, last, flights, alert: None }
    }

    /// Whether the engine should see an unprotected record. What cannot come in this handshake would stay in its queue, before what can.
    pub(super) fn admits(&mut self, now: Instant, record: &Record<'_>) -> bool {
        match record.content {
            content::HANDSHAKE => self.admits_messages(now, record),
            content::CHANGE_CIPHER_SPEC if record.fragment == [1] => {
                if !core::mem::replace(&mut self.early.changed, true) {
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

    /// The last flight of the peer has begun to come, or all of it has come.
    pub(super) fn ends(&mut self, now: Instant) {
        let answer = if self.expected.is_prompt() { Answer::PromptEnd } else { Answer::Considered };
        self.flights.answered(now, answer);
    }

    /// The peer has ended the handshake, or somebody says so in its name: nothing protects this alert. Who goes on has not sent it.
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

    /// When it ends with the alert that it has got.
    pub(super) fn until(&self) -> Option<Instant> {
        self.alert?.1
    }

    /// Why nothing more comes.
    pub(super) fn silence(&self) -> Failure {
        self.alert.map_or(Failure::Silence, |(description, _)| Failure::Alert(description))
    }
}

impl Expected {
    /// Whoever says it answers without a signature to make or to verify.
    fn is_prompt(self) -> bool {
        matches!(self, Self::Server { with_keys: true })
    }

    /// Whether a message of this type can have this number and length. A message that answers a
    /// later ClientHello than the last one belongs to another handshake.
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
            // A hint, which is optional.
            (Self::Server { with_keys: true }, message::SERVER_KEY_EXCHANGE) => follows(1..=1) && length >= 2,
            (Self::Server { with_keys: true }, message::SERVER_HELLO_DONE) => follows(1..=2) && length == 0,
            // The rest of a hello; its beginning comes by the gate or not at all.
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
