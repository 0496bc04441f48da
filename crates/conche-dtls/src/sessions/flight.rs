//! [`Flights`]: one end's flights in a handshake, answers and retransmission (RFC 6347 §4.2.4).
//!
//! An answer without delay to a certain transmission samples the round-trip time. A
//! HelloVerifyRequest qualifies: it has its ClientHello's record number and takes no time to
//! compute. Servers with pre-shared keys and peers that answer with a Finished are also prompt. The
//! ServerHello has the ClientHello's record number; its retransmission, such as by the server's
//! timer, has a number higher by at least two, which only a third ClientHello could share. With
//! certificates, both sides sign and verify first.

use core::time::Duration;

use conche_proto::{Flight, Instant};

use crate::wire::{self, content, message};

/// RFC 6347 §4.2.4.1.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Flights {
    /// Controls retransmission.
    timer: Timer,
    /// Minimum of `first`.
    least: Duration,
    /// First timeout, from the path.
    first: Duration,
    is_measured: bool,
    /// The last flight's first message number.
    number: Option<u16>,
    /// Its transmissions' starts and record numbers.
    transmissions: Vec<(Instant, u64)>,
    /// The sent part of the current transmission.
    leaving: Option<Flight>,
    is_answered: bool,
    /// The peer has retransmitted since the last timeout.
    is_asked_again: bool,
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
    /// `round_trip` is the path's, if known.
    pub(super) fn new(least: Duration, round_trip: Option<Duration>, is_controlled: bool) -> Self {
        let timer = if is_controlled { Timer::External } else { Timer::Local { timeout: Duration::ZERO, due: None } };
        let mut flights = Self {
            timer,
            least,
            first: least,
            is_measured: false,
            number: None,
            transmissions: Vec::new(),
            leaving: None,
            is_answered: true,
            is_asked_again: false,
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

    pub(super) fn leaves(&mut self, now: Instant, datagram: &[u8]) {
        if self.leaving.is_none() {
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
            self.leaving = Some(Flight { bytes: 0, repeated, least_timeout: self.first });
        }
        if let Some(leaving) = &mut self.leaving {
            leaving.bytes = leaving.bytes.saturating_add(datagram.len());
        }
    }

    /// Ends a transmission and sets a local timer, varied by `random`.
    pub(super) fn have_left(&mut self, now: Instant, random: impl FnOnce() -> u32) -> Option<Flight> {
        let flight = self.leaving.take()?;
        if let Timer::Local { timeout, due } = &mut self.timer {
            let least = if flight.repeated { timeout.saturating_mul(2) } else { *timeout };
            *timeout = least.min(LONGEST).max(self.first);
            // ACK_RANDOM_FACTOR (RFC 7252 §4.8): clients that start together do not retransmit
            // together.
            let spread = u64::try_from(timeout.as_nanos() / 2).unwrap_or(u64::MAX);
            let more = u64::try_from((u128::from(spread) * u128::from(random())) >> 32).unwrap_or(spread);
            *due = Some(now + *timeout + Duration::from_nanos(more));
        }
        Some(flight)
    }

    pub(super) fn answered(&mut self, now: Instant, answer: Answer) {
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
        // The backed-off timeout stood for an unknown round-trip time (RFC 6347 §4.2.4.1).
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

    /// Returns `true` if the last flight was the first ClientHello, so that a HelloVerifyRequest
    /// may follow.
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
        self.is_asked_again &= !is_due;
        is_due
    }

    /// Returns `true` if the last flight may answer a retransmission: once between two timeouts.
    pub(super) fn takes_copy(&mut self) -> bool {
        !core::mem::replace(&mut self.is_asked_again, true)
    }

    /// Sets the RTO after a first sample (RFC 6298 §2.2).
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
