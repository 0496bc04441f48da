//! [`Handshake`]: a handshake's state besides its engine, and its [`Flights`] (RFC 6347 §4.2.4).

use core::ops::RangeInclusive;
use core::time::Duration;

use conche_proto::{Flight, Instant};

use crate::credentials::Identity;
use crate::engine::Failure;
use crate::wire::{self, Handshake as Message, RECORD_HEADER, Reader, Record, content, message};

#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) source: u64,
    pub(super) proved: Option<Identity>,
    pub(super) early_finished: EarlyFinished,
    pub(super) held: Option<HeldKeyExchange>,
    expected: Expected,
    /// Its message numbers are one higher.
    has_cookie_request: bool,
    last: u16,
    pub(super) flights: Flights,
    /// The first fatal alert; until one flight timeout, the peer may disprove it by continuing.
    alert: Option<(u8, Option<Instant>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Server {
        with_keys: bool,
    },
    /// After a client's ClientHello of this number, with a requested certificate first.
    Client {
        hello: u16,
        certificate: bool,
    },
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
            held: None,
            expected,
            has_cookie_request: false,
            last,
            flights,
            alert: None,
        }
    }

    /// Returns whether the engine receives a record; an impossible one would block its queue.
    pub(super) fn admits(&mut self, now: Instant, record: &Record<'_>) -> bool {
        match record.content {
            content::HANDSHAKE => self.admits_messages(now, record),
            content::CHANGE_CIPHER_SPEC if record.fragment == [1] => {
                if !core::mem::replace(&mut self.early_finished.changed, true) {
                    self.suspend_alert();
                    self.on_last_flight(now);
                }
                true
            }
            _ => false,
        }
    }

    fn admits_messages(&mut self, now: Instant, record: &Record<'_>) -> bool {
        let mut last = None;
        for message in wire::handshakes(record.fragment) {
            if !self.expected.admits(&message, self.has_cookie_request) {
                return false;
            }
            last = last.max(Some((message.number, message.message)));
        }
        let Some((last, what)) = last else { return false };
        let asks = what == message::HELLO_VERIFY_REQUEST && self.flights.asks_for_cookie();
        self.has_cookie_request |= what == message::HELLO_VERIFY_REQUEST;
        if last > self.last || asks {
            self.last = self.last.max(last);
            self.suspend_alert();
            self.flights.on_answer(now, answer(record.sequence, what, self.expected.is_prompt()));
        }
        true
    }

    pub(super) fn on_last_flight(&mut self, now: Instant) {
        let answer = if self.expected.is_prompt() { Answer::PromptEnd } else { Answer::Considered };
        self.flights.on_answer(now, answer);
    }

    /// Keeps an alert, perhaps forged: a peer that continues has not sent it.
    pub(super) fn on_alert(&mut self, now: Instant, fragment: &[u8]) {
        const FATAL: u8 = 2;
        if let [FATAL, description] = *fragment {
            let (_, until) = self.alert.get_or_insert((description, None));
            until.get_or_insert(now + self.flights.first_timeout());
        }
    }

    fn suspend_alert(&mut self) {
        if let Some((_, until)) = &mut self.alert {
            *until = None;
        }
    }

    /// Returns whether a Finished can be decrypted.
    pub(super) fn has_keys(&self) -> bool {
        self.early_finished.changed && self.held.is_none()
    }

    pub(super) fn readable_finished(&self) -> Option<Box<[u8]>> {
        self.early_finished.record.clone().filter(|_| self.has_keys())
    }

    /// Holds back a ClientKeyExchange; `None` for a record without one.
    pub(super) fn hold(&mut self, record: &Record<'_>) -> Option<Held> {
        if record.content != content::HANDSHAKE {
            return None;
        }
        let exchange = |message: &Message<'_>| message.message == message::CLIENT_KEY_EXCHANGE;
        let mut fragments = wire::handshakes(record.fragment).filter(exchange).peekable();
        fragments.peek()?;
        let held = self.held.get_or_insert_default();
        let is_complete = fragments.any(|fragment| held.take(record, &fragment));
        Some(if is_complete { Held::Complete } else { Held::Kept })
    }

    /// When a lookup fails the handshake.
    pub(super) fn lookup_deadline(&self) -> Option<Instant> {
        self.held.as_ref()?.until
    }

    /// Returns when the alert fails the handshake.
    pub(super) fn alert_deadline(&self) -> Option<Instant> {
        self.alert?.1
    }

    pub(super) fn timeout_reason(&self) -> Failure {
        self.alert.map_or(Failure::Silence, |(description, _)| Failure::Alert(description))
    }
}

impl Expected {
    /// Returns whether the peer neither signs nor verifies.
    fn is_prompt(self) -> bool {
        matches!(self, Self::Server { with_keys: true })
    }

    /// Rejects answers to a later ClientHello, another handshake's.
    fn admits(self, found: &Message<'_>, has_cookie_request: bool) -> bool {
        let within = |range: RangeInclusive<u16>| range.contains(&found.number);
        let follows = |range: RangeInclusive<u16>| {
            found.number.checked_sub(u16::from(has_cookie_request)).is_some_and(|number| range.contains(&number))
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

/// A Finished that overtook its ChangeCipherSpec; engines drop undecryptable records.
#[derive(Debug, Default)]
pub(super) struct EarlyFinished {
    pub(super) changed: bool,
    record: Option<Box<[u8]>>,
}

impl EarlyFinished {
    /// A record with a Finished: 12 bytes, their header, and the suites' protection.
    const LONGEST: usize = 128;

    pub(super) fn keep(&mut self, record: &[u8]) {
        if record.len() <= Self::LONGEST {
            self.record = Some(record.into());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// More is to come, or this is a retransmission.
    Kept,
    Complete,
}

/// A ClientKeyExchange (RFC 4279 §2) that waits for its key. In bytes, at most
/// [`Config::max_message`](crate::Config::max_message).
#[derive(Debug, Default)]
pub(super) struct HeldKeyExchange {
    number: u16,
    /// Of its last record.
    sequence: u64,
    length: usize,
    body: Vec<u8>,
    /// End of the lookup, which runs.
    pub(super) until: Option<Instant>,
}

impl HeldKeyExchange {
    /// Takes fragments in order; retransmissions bring the others. Returns whether it is complete.
    fn take(&mut self, record: &Record<'_>, fragment: &Message<'_>) -> bool {
        if self.until.is_some() {
            return false;
        }
        if fragment.offset == 0 {
            (self.number, self.length) = (fragment.number, fragment.length);
            self.body.clear();
        }
        let end = fragment.offset.saturating_add(fragment.body.len());
        let is_next = fragment.offset == self.body.len() && end <= self.length;
        if (fragment.number, fragment.length) != (self.number, self.length) || !is_next {
            return false;
        }
        self.body.extend_from_slice(fragment.body);
        self.sequence = record.sequence;
        self.body.len() == self.length
    }

    /// `None` if it is malformed.
    pub(super) fn identity(&self) -> Option<&[u8]> {
        Reader(&self.body).long()
    }

    /// One record with the whole message.
    pub(super) fn record(&self) -> Vec<u8> {
        let mut fragment = wire::handshake_header(message::CLIENT_KEY_EXCHANGE, self.number, self.length).to_vec();
        fragment.extend_from_slice(&self.body);
        let mut record = vec![0; RECORD_HEADER + fragment.len()];
        wire::write_record(&mut record, content::HANDSHAKE, wire::DTLS_1_2, self.sequence, &fragment);
        record
    }
}

/// RFC 6347 §4.2.4.1.
const LONGEST: Duration = Duration::from_secs(60);

/// One end's flights in a handshake.
///
/// A prompt answer to an identified transmission samples the round-trip time. A HelloVerifyRequest
/// has its ClientHello's record number and takes no time. Servers with pre-shared keys and peers
/// that answer with a Finished are also prompt. A ServerHello has the ClientHello's record number;
/// its retransmission's is higher by at least two, which only a third ClientHello could share. With
/// certificates, both sides sign and verify first.
#[derive(Debug)]
pub(super) struct Flights {
    timer: Timer,
    least: Duration,
    /// First timeout, from the path.
    first: Duration,
    is_measured: bool,
    /// The last flight's first message number.
    number: Option<u16>,
    /// Its transmissions' starts and record numbers.
    transmissions: Vec<(Instant, u64)>,
    sending: Option<Flight>,
    is_answered: bool,
    /// Since the last timeout.
    has_answered_retransmission: bool,
    /// The last answer's transmission, if unreported.
    answer: Option<Option<u8>>,
}

#[derive(Debug)]
enum Timer {
    Local { timeout: Duration, due: Option<Instant> },
    External,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A HelloVerifyRequest in this record.
    Verify(u64),
    /// A ServerHello in this record, from a peer without signature.
    Prompt(u64),
    /// The handshake's end, from a peer without a signature to verify.
    PromptEnd,
    /// An answer that may have taken any time.
    Considered,
}

impl Flights {
    pub(super) fn new(least: Duration, round_trip: Option<Duration>, is_controlled: bool) -> Self {
        let timer = if is_controlled { Timer::External } else { Timer::Local { timeout: Duration::ZERO, due: None } };
        let mut flights = Self {
            timer,
            least,
            first: least,
            is_measured: false,
            number: None,
            transmissions: Vec::new(),
            sending: None,
            is_answered: true,
            has_answered_retransmission: false,
            answer: None,
        };
        if let Some(round_trip) = round_trip {
            flights.sample_round_trip(round_trip);
        }
        flights
    }

    pub(super) fn first_timeout(&self) -> Duration {
        self.first
    }

    pub(super) fn is_controlled(&self) -> bool {
        matches!(self.timer, Timer::External)
    }

    pub(super) fn on_datagram_sent(&mut self, now: Instant, datagram: &[u8]) {
        if self.sending.is_none() {
            let Some(first) = wire::records(datagram).next() else { return };
            let message = (first.content == content::HANDSHAKE && first.epoch == 0)
                .then(|| wire::handshakes(first.fragment).next())
                .flatten();
            let number = message.map(|message| message.number);
            let repeated = number.is_some() && number <= self.number;
            if !repeated {
                self.transmissions.clear();
                (self.number, self.is_answered) = (number.or(self.number), false);
            }
            self.transmissions.push((now, first.sequence));
            self.sending = Some(Flight { bytes: 0, repeated, least_timeout: self.first });
        }
        if let Some(sending) = &mut self.sending {
            sending.bytes = sending.bytes.saturating_add(datagram.len());
        }
    }

    /// Ends a transmission and starts a local timer, varied by `random`.
    pub(super) fn on_flight_sent(&mut self, now: Instant, random: impl FnOnce() -> u32) -> Option<Flight> {
        let flight = self.sending.take()?;
        if let Timer::Local { timeout, due } = &mut self.timer {
            let least = if flight.repeated { timeout.saturating_mul(2) } else { *timeout };
            *timeout = least.min(LONGEST).max(self.first);
            // Desynchronises clients: ACK_RANDOM_FACTOR (RFC 7252 §4.8).
            let spread = u64::try_from(timeout.as_nanos() / 2).unwrap_or(u64::MAX);
            let more = u64::try_from((u128::from(spread) * u128::from(random())) >> 32).unwrap_or(spread);
            *due = Some(now + *timeout + Duration::from_nanos(more));
        }
        Some(flight)
    }

    pub(super) fn on_answer(&mut self, now: Instant, answer: Answer) {
        if core::mem::replace(&mut self.is_answered, true) {
            return;
        }
        let alone = (self.transmissions.len() == 1).then_some(0);
        let transmission = match answer {
            Answer::Verify(number) => {
                self.transmissions.iter().position(|transmission| transmission.1 == number).or(alone)
            }
            Answer::Prompt(number) => self.prompted(number),
            Answer::PromptEnd => alone,
            Answer::Considered => None,
        };
        if let Some(&(sent, _)) = transmission.and_then(|transmission| self.transmissions.get(transmission)) {
            self.sample_round_trip(now.since(sent));
        }
        // The timeout stood for an unknown round-trip time (RFC 6347 §4.2.4.1).
        if let Timer::Local { timeout, .. } = &mut self.timer
            && self.is_measured
        {
            *timeout = Duration::ZERO;
        }
        self.answer = Some(transmission.and_then(|transmission| u8::try_from(transmission).ok()));
    }

    /// Returns the transmission answered: one of the first two, if each is one record.
    fn prompted(&self, number: u64) -> Option<usize> {
        let (_, first) = self.transmissions.first()?;
        let transmission =
            usize::try_from(number.checked_sub(*first)?).ok().filter(|transmission| *transmission < 2)?;
        (self.transmissions.get(transmission)?.1 == number).then_some(transmission)
    }

    pub(super) fn take_answer(&mut self) -> Option<Option<u8>> {
        self.answer.take()
    }

    /// Returns whether a HelloVerifyRequest may follow.
    pub(super) fn asks_for_cookie(&self) -> bool {
        self.number == Some(0) && !self.is_answered
    }

    pub(super) fn due(&self) -> Option<Instant> {
        match self.timer {
            Timer::Local { due, .. } => due,
            Timer::External => None,
        }
    }

    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = match &mut self.timer {
            Timer::Local { due, .. } => due.take_if(|due| *due <= now).is_some(),
            Timer::External => false,
        };
        self.has_answered_retransmission &= !is_due;
        is_due
    }

    /// Once between two timeouts.
    pub(super) fn may_answer_retransmission(&mut self) -> bool {
        !core::mem::replace(&mut self.has_answered_retransmission, true)
    }

    /// RFC 6298 §2.2.
    fn sample_round_trip(&mut self, round_trip: Duration) {
        self.first = round_trip.saturating_mul(3).clamp(self.least, LONGEST.max(self.least));
        self.is_measured = true;
    }
}

/// An open session's last flight answers a retransmitting peer at once, then at doubling intervals.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinalFlightLimiter {
    again: Instant,
    pause: Duration,
}

impl FinalFlightLimiter {
    pub(super) fn new(now: Instant, pause: Duration) -> Self {
        Self { again: now, pause }
    }

    pub(super) fn may_answer(&mut self, now: Instant) -> bool {
        let may = now >= self.again;
        if may {
            self.again = now + self.pause;
            self.pause = self.pause.saturating_mul(2).min(LONGEST.max(self.pause));
        }
        may
    }
}

pub(super) fn answer(number: u64, message_type: u8, is_prompt: bool) -> Answer {
    match message_type {
        message::HELLO_VERIFY_REQUEST => Answer::Verify(number),
        message::SERVER_HELLO if is_prompt => Answer::Prompt(number),
        _ => Answer::Considered,
    }
}
