//! [`Challenges`]: bounds the sequence numbers that a server uses for Echo challenges after a restart
//! (RFC 8613 appendix B.1.2), as any recorded request asks for one.

use core::time::Duration;

use conche_cc::Instant;

use crate::codec::{Body, Code};

/// Challenges for requests that are not the newest one: at once, and then one each second.
const OTHERS: u16 = 32;

/// The same challenge answers copies of the newest request for this time, half the lifetime of its
/// Echo value.
const REPEATED_FOR: Duration = Duration::from_secs(46);

/// The challenges of one context that has no replay window yet.
///
/// The client's next requests have larger numbers than all recorded ones, so each request with a
/// larger number than all before is challenged. A copy of it gets the same bytes, which uses no
/// number. Other requests, such as recorded ones in turn, share a rate.
#[derive(Debug)]
pub(super) struct Challenges {
    newest: u64,
    at: Instant,
    answer: (Code, Body),
    /// Challenges left for others.
    others: u16,
    /// When `others` was counted last.
    counted: Instant,
}

/// The answer to a request that may be old.
#[derive(Debug)]
pub(super) enum Challenge {
    /// A challenge of its own.
    New,
    /// The one that its original has got.
    Repeated(Code, Body),
    /// Nothing.
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

    /// Notes a challenge that was made.
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
