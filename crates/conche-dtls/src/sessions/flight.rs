//! [`Flights`]: those of a handshake that leave here. What has left, what was answered after how long, and when to repeat the last (RFC 6347
//! §4.2.4).
//!
//! An answer is a sample of the round-trip time if it is known which copy it is of, and took its sender no time. A HelloVerifyRequest is:
//! it has the record number of its hello, and is made without thinking. A server that knows keys answers at once as well, and so does
//! who answers with a Finished; its ServerHello has the record number of the hello. A copy of it, such as the server's own timer sends, has a number that is higher by two at least: only a third hello
//! could have the same.
//! With certificates both sign and verify first.

use core::time::Duration;

use conche_proto::{Flight, Instant};

use crate::wire::{self, content, message};

/// No timeout need be longer (RFC 6347 §4.2.4.1).
const LONGEST: Duration = Duration::from_secs(60);

/// The flights of one end of a handshake.
#[derive(Debug)]
pub(super) struct Flights {
    /// Who says when one is to be repeated.
    timer: Timer,
    /// What the first copy of a flight waits at least.
    least: Duration,
    /// The same as far as the path is known: no shorter.
    first: Duration,
    is_measured: bool,
    /// The number of the first handshake message of the last flight.
    number: Option<u16>,
    /// When each copy of it began to leave, and under which record number.
    copies: Vec<(Instant, u64)>,
    /// What has left of a copy that is leaving.
    leaving: Option<Flight>,
    is_answered: bool,
    /// The peer has retransmitted since the last timeout.
    is_asked_again: bool,
    /// What was found out of the last answer, if nobody has been told: which copy it is of.
    answer: Option<Option<u8>>,
}

#[derive(Debug)]
enum Timer {
    Ours { timeout: Duration, due: Option<Instant> },
    Elsewhere,
}

/// What an answer began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A HelloVerifyRequest in the record of this number.
    Verify(u64),
    /// A ServerHello in the record of this number, of a peer that did not have to sign.
    Prompt(u64),
    /// The end of the handshake, of a peer that did not have to verify a signature.
    PromptEnd,
    /// Something that may have taken its sender any time.
    Considered,
}

impl Flights {
    /// Flights that wait so long at least. `round_trip` is what is known of the path's.
    pub(super) fn new(least: Duration, round_trip: Option<Duration>, is_controlled: bool) -> Self {
        let timer = if is_controlled { Timer::Elsewhere } else { Timer::Ours { timeout: Duration::ZERO, due: None } };
        let mut flights = Self {
            timer,
            least,
            first: least,
            is_measured: false,
            number: None,
            copies: Vec::new(),
            leaving: None,
            is_answered: true,
            is_asked_again: false,
            answer: None,
        };
        if let Some(round_trip) = round_trip {
            flights.took(round_trip);
        }
        flights
    }

    /// The first timeout of a flight, as far as the path is known.
    pub(super) fn first_timeout(&self) -> Duration {
        self.first
    }

    pub(super) fn is_controlled(&self) -> bool {
        matches!(self.timer, Timer::Elsewhere)
    }

    /// A datagram of a flight leaves.
    pub(super) fn leaves(&mut self, now: Instant, datagram: &[u8]) {
        if self.leaving.is_none() {
            let Some(first) = wire::records(datagram).next() else { return };
            let message = (first.content == content::HANDSHAKE && first.epoch == 0)
                .then(|| wire::handshakes(first.fragment).next())
                .flatten();
            let number = message.map(|message| message.number);
            let repeated = number.is_some() && number <= self.number;
            if !repeated {
                self.copies.clear();
                (self.number, self.is_answered) = (number.or(self.number), false);
            }
            self.copies.push((now, first.sequence));
            self.leaving = Some(Flight { bytes: 0, repeated, least_timeout: self.first });
        }
        if let Some(leaving) = &mut self.leaving {
            leaving.bytes = leaving.bytes.saturating_add(datagram.len());
        }
    }

    /// All of what was leaving has left. Its timer is set, if that is ours; `random` are bits to vary it by.
    pub(super) fn have_left(&mut self, now: Instant, random: impl FnOnce() -> u32) -> Option<Flight> {
        let flight = self.leaving.take()?;
        if let Timer::Ours { timeout, due } = &mut self.timer {
            let least = if flight.repeated { timeout.saturating_mul(2) } else { *timeout };
            *timeout = least.min(LONGEST).max(self.first);
            // ACK_RANDOM_FACTOR (RFC 7252 §4.8): those that begin together do not go on together.
            let spread = u64::try_from(timeout.as_nanos() / 2).unwrap_or(u64::MAX);
            let more = u64::try_from((u128::from(spread) * u128::from(random())) >> 32).unwrap_or(spread);
            *due = Some(now + *timeout + Duration::from_nanos(more));
        }
        Some(flight)
    }

    /// Something comes that can only follow the last flight.
    pub(super) fn answered(&mut self, now: Instant, answer: Answer) {
        if core::mem::replace(&mut self.is_answered, true) {
            return;
        }
        let alone = (self.copies.len() == 1).then_some(0);
        let copy = match answer {
            Answer::Verify(number) => self.copies.iter().position(|copy| copy.1 == number).or(alone),
            Answer::Prompt(number) => self.prompted(number),
            Answer::PromptEnd => alone,
            Answer::Considered => None,
        };
        if let Some(&(sent, _)) = copy.and_then(|copy| self.copies.get(copy)) {
            self.took(now.since(sent));
        }
        // What was backed off stands for a round trip that nobody knows (RFC 6347 §4.2.4.1).
        if let Timer::Ours { timeout, .. } = &mut self.timer
            && self.is_measured
        {
            *timeout = Duration::ZERO;
        }
        self.answer = Some(copy.and_then(|copy| u8::try_from(copy).ok()));
    }

    /// The copy that a ServerHello of this number answers: one of the first two, if they are of one record each.
    fn prompted(&self, number: u64) -> Option<usize> {
        let (_, first) = self.copies.first()?;
        let copy = usize::try_from(number.checked_sub(*first)?).ok().filter(|copy| *copy < 2)?;
        (self.copies.get(copy)?.1 == number).then_some(copy)
    }

    /// What is to be told of the last answer.
    pub(super) fn take_answer(&mut self) -> Option<Option<u8>> {
        self.answer.take()
    }

    /// The first hello was the last that left: what follows it may be a HelloVerifyRequest.
    pub(super) fn asks_for_cookie(&self) -> bool {
        self.number == Some(0) && !self.is_answered
    }

    /// When to repeat the last flight, if that is for us to say.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.timer {
            Timer::Ours { due, .. } => due,
            Timer::Elsewhere => None,
        }
    }

    /// The time has come: the last flight is to be repeated.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = match &mut self.timer {
            Timer::Ours { due, .. } => due.take_if(|due| *due <= now).is_some(),
            Timer::Elsewhere => false,
        };
        self.is_asked_again &= !is_due;
        is_due
    }

    /// The peer retransmits the flight before ours. Returns whether ours may be sent again for it:
    /// once between two timeouts.
    pub(super) fn takes_copy(&mut self) -> bool {
        !core::mem::replace(&mut self.is_asked_again, true)
    }

    /// The RTO after a first sample (RFC 6298 §2.2).
    fn took(&mut self, round_trip: Duration) {
        self.first = round_trip.saturating_mul(3).clamp(self.least, LONGEST.max(self.least));
        self.is_measured = true;
    }
}

/// How often the last flight of an open session answers a peer that repeats its own: at once, and then ever more seldom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    again: Instant,
    pause: Duration,
}

impl Echo {
    pub(super) fn new(now: Instant, pause: Duration) -> Self {
        Self { again: now, pause }
    }

    /// The last flight may leave once more.
    pub(super) fn may_answer(&mut self, now: Instant) -> bool {
        let may = now >= self.again;
        if may {
            self.again = now + self.pause;
            self.pause = self.pause.saturating_mul(2).min(LONGEST.max(self.pause));
        }
        may
    }
}

/// What began to come: a record of a handshake message that was waited for.
pub(super) fn answer(number: u64, message_type: u8, is_prompt: bool) -> Answer {
    match message_type {
        message::HELLO_VERIFY_REQUEST => Answer::Verify(number),
        message::SERVER_HELLO if is_prompt => Answer::Prompt(number),
        _ => Answer::Considered,
    }
}
