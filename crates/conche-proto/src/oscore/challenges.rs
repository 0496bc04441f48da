//! [`Challenges`]: limits the sequence numbers that a server uses for Echo challenges after a
//! restart (RFC 8613 appendix B.1.2), because any replayed request causes one.

use core::time::Duration;

use conche_cc::Instant;

use crate::codec::{Body, Code};

/// Number of challenges for requests other than the newest one: at once, then one per second.
const OTHERS: u16 = 32;

/// Time for which duplicates of the newest request get the same challenge: half the lifetime of an
/// Echo value.
const REPEATED_FOR: Duration = Duration::from_secs(46);

/// The challenges of one context without a replay window.
///
/// The client's next requests have larger numbers than all replayed ones, so each request with a
/// larger number than all before is challenged. A duplicate of it gets the same bytes, which uses
/// no number. Other requests, such as replayed ones in turn, share a rate limit.
#[derive(Debug)]
pub(super) struct Challenges {
    newest: u64,
    at: Instant,
    answer: (Code, Body),
    /// Remaining challenges for other requests.
    others: u16,
    /// When `others` was last updated.
    counted: Instant,
}

/// The answer to a possibly replayed request.
#[derive(Debug)]
pub(super) enum Challenge {
    /// A new challenge.
    New,
    /// The challenge that the original request got.
    Repeated(Code, Body),
    /// No answer.
    None,
}

impl Challenges {
    /// Decides on the answer to a request with this number.
    pub(super) fn admit(challenges: Option<&mut Self>, now: Instant, number: u64) -> Challenge {
        let Some(challenges) = challenges else { return Challenge::New };
        if number > challenges.newest {
            return Challenge::New;
        }
        if number == challenges.newest && now.since(challenges.at) < REPEATED_FOR {
            let (code, body) = challenges.answer.clone();
            return Challenge::Repeated(code, body);
        }
        let seconds = now.since(challenges.counted).as_secs();
        if seconds > 0 {
            let more = u16::try_from(seconds).unwrap_or(OTHERS);
            challenges.others = challenges.others.saturating_add(more).min(OTHERS);
            challenges.counted = now;
        }
        match challenges.others.checked_sub(1) {
            Some(left) => {
                challenges.others = left;
                Challenge::New
            }
            None => Challenge::None,
        }
    }

    /// Records a new challenge.
    pub(super) fn note(before: Option<Self>, now: Instant, number: u64, answer: (Code, Body)) -> Self {
        match before {
            Some(before) if number < before.newest => before,
            before => {
                let (others, counted) = before.map_or((OTHERS, now), |before| (before.others, before.counted));
                Self { newest: number, at: now, answer, others, counted }
            }
        }
    }
}
