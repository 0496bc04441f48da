//! [`Validation`]: whether a source has shown that what is sent to its address reaches it, and how much it is sent before
//! that (RFC 9175 §2.4, item 3).
//!
//! A source that has not shown it pays for each datagram with one of its own: what answers a request has three times its
//! bytes at most (the factor of RFC 9000 §8), and what answers a copy of it three times those of the copy. So nothing has
//! to be remembered of those who have shown nothing, however many addresses somebody forges. To that end a request of
//! such a source
//!
//! - gets one message: its response is piggybacked, or is one Non-confirmable message, which is never sent again. It comes
//!   within [`separate_after`](crate::EndpointConfig::separate_after) or not at all;
//! - is answered with 4.01 and an Echo value instead of a response that is too large or late, so that its sender can ask
//!   once more with that value. What would do something again then, such as POST, and what asks to be notified or for a body
//!   in sets (RFC 9177), gets this
//!   answer before the application hears of it.
//!
//! The challenge obeys the factor as well: a request that is too short for an answer with a value of 16 bytes, such as a
//! GET of 8 bytes, gets one of 6 bytes, which has three times the bytes of the shortest request at most. Without it a client
//! that asks in few bytes could never show where it is, unless it thought of asking in more. A MAC of 32 bits could be
//! guessed: [`GUESSES`] brief values that are wrong, in [`LIFETIME`], end brief values until that is over. So a forger hits one
//! address in some eight years; while he tries, requests that are so short are answered with a bare 4.01.
//!
//! Sources that have sent back their Echo value are remembered for a while, in a table of fixed size. Nobody gets into it by
//! forging; whoever is displaced is asked once more.

use alloc::boxed::Box;
use alloc::vec;
use core::num::NonZeroU16;
use core::time::Duration;

use rand_core::RngCore;
use smallvec::SmallVec;

use super::outbox::Source;
use super::receive::Arrival;
use super::{Endpoint, StreamEnd};
use crate::PeerKey;
use crate::blockwise::Asked;
use crate::codec::{Body, Code, Message, NUMBERED_COPY_BYTES, OptionNumber, Overhead};
use crate::echo::Freshness;
use crate::exchange::{Reliability, Response};
use crate::incoming::{RequestId, Waiting};
use crate::observe::REGISTER;
use conche_cc::{Controller, Instant};

/// So many times the bytes of a datagram may answer it.
const FACTOR: usize = 3;

/// The bytes of the option Echo with a value of 16 bytes, whose length takes a byte more, and with a brief one.
const ECHO_BYTES: usize = 3 + Freshness::LENGTH;
const BRIEF_ECHO_BYTES: usize = 2 + Freshness::BRIEF;

/// For so long an Echo value is good, and a source that sent it back counts as validated: as long as a copy of its request
/// can come (EXCHANGE_LIFETIME, RFC 7252 §4.8.2).
const LIFETIME: Duration = Duration::from_secs(247);

/// Sources that are remembered.
const PLACES: usize = 4096;

/// So many brief values that are wrong are looked at in each [`LIFETIME`].
const GUESSES: u32 = 4096;

/// What is known of sources.
#[derive(Debug)]
pub(super) struct Validation {
    freshness: Freshness,
    /// Keyed hashes of validated sources, each in the one place that it can have, and until when they count.
    validated: Box<[(u64, Instant)]>,
    /// Brief values that were wrong, since this long before that time.
    guessed: u32,
    guessed_until: Instant,
}

impl Validation {
    pub(super) fn new(random: &mut impl RngCore) -> Self {
        let mut key = [0; 16];
        random.fill_bytes(&mut key);
        Self {
            freshness: Freshness::new(key, LIFETIME),
            validated: vec![(0, Instant::ZERO); PLACES].into_boxed_slice(),
            guessed: 0,
            guessed_until: Instant::ZERO,
        }
    }

    /// How many bytes may answer this message; `None` if its source is validated, which it is by a fresh Echo value.
    fn allowance<P: PeerKey>(
        &mut self,
        now: Instant,
        from: &P,
        hash: u64,
        message: &Message<'_>,
    ) -> Option<NonZeroU16> {
        let place = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        let (validated, until) = self.validated[place];
        if validated == hash && now < until {
            return None;
        }
        let Some(age) = message.option(OptionNumber::ECHO).and_then(|value| self.age(now, from, value)) else {
            let bytes = message.as_bytes().len().saturating_mul(FACTOR);
            return NonZeroU16::new(u16::try_from(bytes).unwrap_or(u16::MAX));
        };
        self.validated[place] = (hash, now + LIFETIME.saturating_sub(age));
        None
    }

    /// How long ago this source was given this value; `None` if it never was, or too long ago.
    fn age<P: PeerKey>(&mut self, now: Instant, from: &P, value: &[u8]) -> Option<Duration> {
        let Ok(brief) = <[u8; Freshness::BRIEF]>::try_from(value) else {
            return self.freshness.check(now, from, value).ok();
        };
        if !self.takes_brief(now) {
            return None;
        }
        let age = self.freshness.check_brief(now, from, brief);
        if age.is_none() {
            self.guessed += 1;
        }
        age
    }

    /// Not too many brief values were guessed lately.
    fn takes_brief(&mut self, now: Instant) -> bool {
        if now >= self.guessed_until {
            (self.guessed, self.guessed_until) = (0, now + LIFETIME);
        }
        self.guessed < GUESSES
    }

    /// The value of Echo that a source is given, in an option of so many bytes at most.
    fn value<P: PeerKey>(&mut self, now: Instant, from: &P, room: usize) -> Option<SmallVec<[u8; Freshness::LENGTH]>> {
        match room {
            ECHO_BYTES.. => Some(self.freshness.challenge(now, from).into()),
            BRIEF_ECHO_BYTES.. if self.takes_brief(now) => {
                Some(SmallVec::from_slice(&self.freshness.brief_challenge(now, from)))
            }
            _ => None,
        }
    }
}

/// A message of so many bytes may be sent to a source with this allowance.
pub(super) fn allows(allowance: Option<NonZeroU16>, bytes: usize) -> bool {
    allowance.is_none_or(|allowance| bytes <= usize::from(allowance.get()))
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// How many bytes may answer this message; `None` if its source is validated, or nobody has to be.
    pub(super) fn allowance(
        &mut self,
        now: Instant,
        source: &Source<P>,
        hash: u64,
        message: &Message<'_>,
    ) -> Option<NonZeroU16> {
        let allowance = self.known.as_mut()?.validation.as_mut()?.allowance(now, &source.from, hash, message)?;
        // What leaves says which copy it answers, beside all that is compared with this.
        let beside = if source.copy.is_some() { NUMBERED_COPY_BYTES } else { 0 };
        Some(NonZeroU16::new(allowance.get().saturating_sub(beside)).unwrap_or(NonZeroU16::MIN))
    }

    /// A request of a source that is not validated and that must not go to the application: it could not be asked again
    /// without another effect, or notifications or sets of messages would follow. It is answered.
    pub(super) fn challenges(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        asked: &Asked,
    ) -> bool {
        let follows = || message.uint(OptionNumber::OBSERVE) == Some(REGISTER) || asked.is_in_sets();
        let challenged = arrival.allowance.is_some() && (!message.code().is_idempotent() || follows());
        if challenged {
            self.challenge_at_once(now, arrival, message);
        }
        challenged
    }

    /// Asks the source of a request to show that its address is its own, instead of an answer.
    pub(super) fn challenge_at_once(&mut self, now: Instant, arrival: &Arrival<P>, message: &Message<'_>) {
        let body = self.challenge(now, &arrival.source.from, arrival.allowance, Overhead::of_response_to(message));
        self.answer_at_once(now, arrival, message, Code::UNAUTHORIZED, &body);
    }

    /// What can be sent instead of an answer that is larger than the allowance: of an error its code, and else 4.01.
    pub(super) fn within_allowance(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        overhead: Overhead,
        (code, body): (Code, &Body),
    ) -> (Code, Body) {
        if allows(arrival.allowance, overhead.message(body)) {
            (code, body.clone())
        } else if code.is_success() {
            (Code::UNAUTHORIZED, self.challenge(now, &arrival.source.from, arrival.allowance, overhead))
        } else {
            (code, Body::EMPTY)
        }
    }

    /// The response to a request of a source that is not validated, or 4.01 if it is too large.
    pub(super) fn affordable(&mut self, now: Instant, waiting: &Waiting<P>, response: Response) -> Response {
        let overhead = Overhead::of(&waiting.token);
        let fits = allows(waiting.allowance, overhead.message(&response.body));
        let response = match fits {
            true => response,
            false => Response::new(Code::UNAUTHORIZED, self.challenge(now, &waiting.from, waiting.allowance, overhead)),
        };
        Response { reliability: Some(Reliability::NeverConfirmable), ..response }
    }

    /// A request of a source that is not validated has waited for as long as it may: it is answered with 4.01, and what the
    /// application says comes too late.
    pub(super) fn challenge_late(&mut self, now: Instant, request: RequestId, waiting: &Waiting<P>) {
        let body = self.challenge(now, &waiting.from, waiting.allowance, Overhead::of(&waiting.token));
        self.forget_stream(request, Some(StreamEnd::Challenged));
        // It waits, and the code is that of a response.
        let _ = self.respond(now, request, Response::new(Code::UNAUTHORIZED, body));
    }

    /// The Echo option, or nothing where not even a brief one fits.
    fn challenge(&mut self, now: Instant, from: &P, allowance: Option<NonZeroU16>, overhead: Overhead) -> Body {
        self.stats.challenged += 1;
        let most = allowance.map_or(usize::MAX, |allowance| allowance.get().into());
        let room = overhead.room(most).unwrap_or_default();
        let validation = self.known.as_mut().and_then(|known| known.validation.as_mut());
        let echo = validation.and_then(|validation| validation.value(now, from, room));
        echo.and_then(|echo| Body::builder().option(OptionNumber::ECHO, &echo).build().ok()).unwrap_or_default()
    }
}
