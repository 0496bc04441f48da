//! [`Validation`]: keeps the endpoint from amplifying traffic towards a forged address (RFC 9175
//! §2.4, item 3; RFC 9000 §8).
//!
//! Until a source has proved that it receives datagrams at its address, each of its own may be
//! answered with three times its bytes. Such a request gets one message that is never
//! retransmitted: a piggybacked response, or a Non-confirmable one. If that is not enough, because
//! the response is larger or must be retransmitted, or the request registers an observer or uses
//! Q-Block, the response or the request is held and the source is sent a *ping*: an Empty
//! Confirmable message of 4 bytes with a random message ID. Every endpoint answers it with a Reset
//! (RFC 7252 §4.3). The answer validates the source and releases the message. Clients need not know
//! Echo, and each handler runs once.
//!
//! ```text
//!   client                     server
//!     | GET (20 bytes) --------> |  handler: 1000 bytes are more than 60
//!     | <-- CON, Empty, ID 7d34  |  response held
//!     | RST, ID 7d34 ----------> |  source validated for 247 s
//!     | <-- ACK, 2.05, 1000 bytes|
//! ```
//!
//! Without an answer to the ping the response leaves after 12 s as far as the allowance goes: the
//! first block of 16 bytes. Requests for further blocks pay for those.
//!
//! Held messages are bounded ([`pings`]). Without room for one, without room for a block, and with
//! [`SourceValidation::Echo`], the request is answered with 4.01 and an Echo value (RFC 9175 §2.3).
//! A request with that value validates its source at once. A response to a request that is not
//! idempotent is then cut to its code, since a client that repeated the request would repeat its
//! effect.
//!
//! A source also counts as validated when it acknowledges a Confirmable response or notification.
//!
//! # Limits
//! An Echo value of 16 bytes needs more room than three times the shortest requests, so those get
//! one of 6 bytes. Its MAC of 32 bits could be guessed: after [`GUESSES`] wrong ones no brief value
//! is accepted for the rest of a [`LIFETIME`], so a forger guesses one in some eight years. The
//! message ID of a ping has 16 bits; wrong answers are counted by host.
//!
//! A host that runs CoAP at the forged address and port answers the ping although it requested
//! nothing. Only [`SourceValidation::Echo`] protects such hosts.

use core::time::Duration;

use rand_core::RngCore;
use smallvec::SmallVec;

use crate::PeerKey;
use crate::codec::Overhead;
use crate::echo::Freshness;
use crate::exchange::{Reliability, Response};
use crate::incoming::{Came, Waiting};
use crate::server::validation::pings::Pings;
use crate::server::validation::sources::Validated;
use crate::transport::allows;
use conche_cc::Instant;

pub(crate) mod pings;
mod sources;

/// The bytes of an Echo option with a value of 16 bytes (with one more byte for the length), and
/// with a brief one.
const ECHO_BYTES: usize = 3 + Freshness::LENGTH;
const BRIEF_ECHO_BYTES: usize = 2 + Freshness::BRIEF;

/// How long an Echo value is valid, and a source after it was validated: as long as a
/// retransmission of its request can arrive (EXCHANGE_LIFETIME, RFC 7252 §4.8.2).
pub(crate) const LIFETIME: Duration = Duration::from_secs(247);

/// The maximum number of wrong brief Echo values that are checked in each [`LIFETIME`].
const GUESSES: u32 = 4096;

/// State of address validation, created when the first source has to prove its address.
#[derive(Debug)]
pub(crate) struct Validation<P> {
    freshness: Freshness,
    pub(crate) validated: Validated,
    pub(crate) pings: Pings<P>,
    /// The number of wrong brief Echo values in the period that ends at `guessed_until`.
    guessed: u32,
    guessed_until: Instant,
}

impl<P> Validation<P> {
    pub(crate) fn new(random: &mut impl RngCore, ack_timeout: Duration) -> Self {
        let mut key = [0; 16];
        random.fill_bytes(&mut key);
        Self {
            freshness: Freshness::new(key, LIFETIME),
            validated: Validated::new(),
            pings: Pings::new(ack_timeout),
            guessed: 0,
            guessed_until: Instant::ZERO,
        }
    }

    /// Returns when the next interval of a pinged source ends.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.pings.next_due()
    }

    /// Returns the number of sources that have not answered a ping.
    pub(crate) fn pinged(&self) -> usize {
        self.pings.len()
    }

    /// Returns the number of held requests and responses.
    pub(crate) fn held(&self) -> usize {
        self.pings.held()
    }

    /// Returns the age of the Echo value that this source returned. `None` if it is not one of its
    /// values or is too old.
    pub(in crate::server) fn age(&mut self, now: Instant, from: &P, value: &[u8]) -> Option<Duration>
    where
        P: PeerKey,
    {
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

    /// Returns whether brief values are accepted: fewer than [`GUESSES`] wrong ones arrived in this
    /// period.
    fn takes_brief(&mut self, now: Instant) -> bool {
        if now >= self.guessed_until {
            (self.guessed, self.guessed_until) = (0, now + LIFETIME);
        }
        self.guessed < GUESSES
    }

    /// Returns the Echo value for a source, in an option of at most `room` bytes.
    pub(in crate::server) fn value(
        &mut self,
        now: Instant,
        from: &P,
        room: usize,
    ) -> Option<SmallVec<[u8; Freshness::LENGTH]>>
    where
        P: PeerKey,
    {
        match room {
            ECHO_BYTES.. => Some(self.freshness.challenge(now, from).into()),
            BRIEF_ECHO_BYTES.. if self.takes_brief(now) => {
                Some(SmallVec::from_slice(&self.freshness.brief_challenge(now, from)))
            }
            _ => None,
        }
    }
}

/// Returns whether a response may only be sent to a validated source: it is larger than the
/// allowance, or must be sent in a Confirmable message.
#[inline]
pub(crate) fn needs_proof<P>(waiting: &Waiting<P>, response: &Response) -> bool {
    let confirmable = match response.reliability {
        Some(reliability) => reliability == Reliability::Confirmable,
        None => waiting.came == Came::Confirmable,
    };
    let confirmable = confirmable && !waiting.can_piggyback();
    confirmable || !allows(waiting.allowance, Overhead::of(&waiting.token).message(&response.body))
}
