//! [`Freshness`]: whether a request was made a short time ago, by somebody who gets what is sent to its source address
//! (RFC 9175 §2), without any state for those who ask.
//!
//! The value of the option is the time of the challenge and a MAC over it and the peer: the integrity-protected timestamp
//! of RFC 9175, Appendix A. The MAC is SipHash-2-4 with a key of 128 bits and a tag of 64. All requests of a peer in the
//! same millisecond are challenged with the same value, which tells nothing but that the peer was there.

use core::hash::{Hash, Hasher};
use core::time::Duration;

use siphasher::sip::SipHasher24;
use thiserror::Error;

use conche_cc::Instant;

/// Challenges peers with Echo values, and knows them again.
///
/// ```
/// use std::time::Duration;
///
/// use conche_proto::{Freshness, Instant, Stale};
///
/// let freshness = Freshness::new([7; 16], Duration::from_secs(30));
/// let challenge = freshness.challenge(Instant::ZERO, &"peer");
/// let later = Instant::from_millis(20_000);
/// assert_eq!(freshness.check(later, &"peer", &challenge), Ok(Duration::from_secs(20)));
/// assert_eq!(freshness.check(later, &"somebody else", &challenge), Err(Stale::Foreign));
/// ```
#[derive(Clone)]
pub struct Freshness {
    key: [u8; 16],
    lifetime: Duration,
}

impl Freshness {
    /// The bytes of a challenge: milliseconds and the MAC.
    pub const LENGTH: usize = 16;

    /// The bytes of a brief one.
    pub(crate) const BRIEF: usize = 6;

    /// Takes what was challenged at most `lifetime` ago for fresh. Whoever knows the key can make challenges: it comes from
    /// the operating system, and is another one after each start, since the clock is another one.
    #[must_use]
    pub const fn new(key: [u8; 16], lifetime: Duration) -> Self {
        Self { key, lifetime }
    }

    /// What a peer has to send back: the value of Echo in a 4.01 (RFC 9175 §2.3).
    #[must_use]
    pub fn challenge<P: Hash>(&self, now: Instant, peer: &P) -> [u8; Self::LENGTH] {
        let time = now.as_millis();
        let mut value = [0; Self::LENGTH];
        value[..8].copy_from_slice(&time.to_be_bytes());
        value[8..].copy_from_slice(&self.mac(time, peer).to_be_bytes());
        value
    }

    /// A challenge for a peer that may be sent little: seconds, as far as two bytes tell them, and half of a MAC. Whoever
    /// accepts such values has to bound how many can be tried.
    pub(crate) fn brief_challenge<P: Hash>(&self, now: Instant, peer: &P) -> [u8; Self::BRIEF] {
        self.brief(now.as_millis() / 1_000, peer)
    }

    /// The same as [`check`](Self::check) of a brief value.
    pub(crate) fn check_brief<P: Hash>(&self, now: Instant, peer: &P, value: [u8; Self::BRIEF]) -> Option<Duration> {
        let seconds = now.as_millis() / 1_000;
        let [.., now_high, now_low] = seconds.to_be_bytes();
        let [high, low, ..] = value;
        let elapsed = u16::from_be_bytes([now_high, now_low]).wrapping_sub(u16::from_be_bytes([high, low]));
        let age = u64::from(elapsed);
        let made = self.brief(seconds.checked_sub(age)?, peer);
        let age = Duration::from_secs(age);
        (value == made && age <= self.lifetime).then_some(age)
    }

    fn brief<P: Hash>(&self, seconds: u64, peer: &P) -> [u8; Self::BRIEF] {
        // No time of the longer ones: those count milliseconds of a clock that does not reach its end.
        let mac = self.mac(!seconds, peer).to_be_bytes();
        let [.., high, low] = seconds.to_be_bytes();
        [high, low, mac[0], mac[1], mac[2], mac[3]]
    }

    /// How long ago this peer was challenged with this value.
    ///
    /// # Errors
    /// If it never was, or too long ago. Then the request is to be answered with 4.01 and a new challenge.
    pub fn check<P: Hash>(&self, now: Instant, peer: &P, value: &[u8]) -> Result<Duration, Stale> {
        let value: &[u8; Self::LENGTH] = value.try_into().map_err(|_| Stale::Foreign)?;
        let (time, mac) = value.split_at(8);
        let [time, mac] =
            [time, mac].map(|half| half.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte)));
        // The difference tells nothing byte by byte, however long it takes.
        if (mac ^ self.mac(time, peer)) != 0 {
            return Err(Stale::Foreign);
        }
        let age = now.since(Instant::from_millis(time));
        if age > self.lifetime { Err(Stale::Old { age }) } else { Ok(age) }
    }

    fn mac<P: Hash>(&self, time: u64, peer: &P) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(time);
        peer.hash(&mut hasher);
        hasher.finish()
    }
}

/// The key is nobody's business.
impl core::fmt::Debug for Freshness {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Freshness").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

/// Why a request does not count as fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Stale {
    /// The value was not made for this peer, or not with this key.
    #[error("the value of Echo is none that this peer was given")]
    Foreign,
    /// The challenge is too old.
    #[error("the value of Echo was given {age:.1?} ago, which is too long")]
    Old {
        /// How old it is.
        age: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESHNESS: Freshness = Freshness::new([9; 16], Duration::from_secs(30));

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    // RFC 9175 §2.2 (Q205)
    #[test]
    fn a_value_is_fresh_for_its_lifetime_and_not_longer() {
        let value = FRESHNESS.challenge(at(100), &1);
        assert_eq!(FRESHNESS.check(at(100), &1, &value), Ok(Duration::ZERO));
        assert_eq!(FRESHNESS.check(at(130), &1, &value), Ok(Duration::from_secs(30)));
        assert_eq!(FRESHNESS.check(at(131), &1, &value), Err(Stale::Old { age: Duration::from_secs(31) }));
    }

    // RFC 9175 §2.2 (Q205)
    #[test]
    fn a_brief_value_is_fresh_for_its_lifetime_for_its_peer_and_not_again_when_its_seconds_come_round() {
        let value = FRESHNESS.brief_challenge(at(65_530), &1);
        assert_eq!(FRESHNESS.check_brief(at(65_530), &1, value), Some(Duration::ZERO));
        assert_eq!(FRESHNESS.check_brief(at(65_560), &1, value), Some(Duration::from_secs(30)));
        for (seconds, peer) in [(65_561, 1), (65_529, 1), (65_530, 2), (2 * 65_536 - 6, 1), (0, 1)] {
            assert_eq!(FRESHNESS.check_brief(at(seconds), &peer, value), None, "{seconds} s, peer {peer}");
        }
        for bit in 0..8 * Freshness::BRIEF {
            let mut forged = value;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FRESHNESS.check_brief(at(65_530), &1, forged), None, "bit {bit}");
        }
        assert_eq!(FRESHNESS.check(at(65_530), &1, &value), Err(Stale::Foreign), "it is for nothing else");
    }

    // RFC 9175 §2.2 (Q205)
    #[test]
    fn a_value_of_another_peer_another_key_or_nobody_is_foreign() {
        let value = FRESHNESS.challenge(at(0), &1);
        assert_eq!(FRESHNESS.check(at(0), &2, &value), Err(Stale::Foreign));
        let other = Freshness::new([8; 16], Duration::from_secs(30));
        assert_eq!(other.check(at(0), &1, &value), Err(Stale::Foreign));
        for length in (0..40).filter(|length| *length != Freshness::LENGTH) {
            assert_eq!(FRESHNESS.check(at(0), &1, &[0; 40][..length]), Err(Stale::Foreign));
        }
        for bit in 0..8 * Freshness::LENGTH {
            let mut forged = value;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FRESHNESS.check(at(0), &1, &forged), Err(Stale::Foreign), "bit {bit}");
        }
    }
}
