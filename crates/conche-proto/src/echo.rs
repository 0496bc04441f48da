//! [`Freshness`]: stateless challenges that prove that a request is recent and that its sender
//! receives at its source address (RFC 9175 §2).
//!
//! The option value is the time of the challenge and a MAC over time and peer: the
//! integrity-protected timestamp of RFC 9175, Appendix A. The MAC is SipHash-2-4 with a 128-bit key
//! and a 64-bit tag. The time is the clock of the endpoint.

use core::hash::{Hash, Hasher};
use core::time::Duration;

use siphasher::sip::SipHasher24;
use thiserror::Error;

use conche_cc::Instant;

/// Creates and verifies Echo values.
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
    /// Length of a challenge in bytes: nanoseconds and MAC.
    pub const LENGTH: usize = 16;

    /// Length of a brief challenge in bytes.
    pub(crate) const BRIEF: usize = 6;

    /// Creates a checker that accepts challenges up to `lifetime` old. Anyone with the key can
    /// create challenges: take it from the operating system's random source, and a new one at each
    /// start, because the clock restarts as well.
    #[must_use]
    pub const fn new(key: [u8; 16], lifetime: Duration) -> Self {
        Self { key, lifetime }
    }

    /// Returns the Echo value for a 4.01 response, which the peer must send back (RFC 9175 §2.3).
    #[must_use]
    pub fn challenge<P: Hash>(&self, now: Instant, peer: &P) -> [u8; Self::LENGTH] {
        let time = now.as_nanos();
        let mut value = [0; Self::LENGTH];
        value[..8].copy_from_slice(&time.to_be_bytes());
        value[8..].copy_from_slice(&self.mac(time, peer).to_be_bytes());
        value
    }

    /// Returns a challenge for small responses: the lower 16 bits of the time in seconds, and half
    /// a MAC. The caller must limit the number of guesses.
    pub(crate) fn brief_challenge<P: Hash>(&self, now: Instant, peer: &P) -> [u8; Self::BRIEF] {
        self.brief(now.as_millis() / 1_000, peer)
    }

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
        // Disjoint from the times of full challenges, whose nanoseconds reach this range after 584
        // years.
        let mac = self.mac(!seconds, peer).to_be_bytes();
        let [.., high, low] = seconds.to_be_bytes();
        [high, low, mac[0], mac[1], mac[2], mac[3]]
    }

    /// Returns the age of a challenge to this peer.
    ///
    /// # Errors
    /// If the value was not issued to this peer or is too old. The request should then get a 4.01
    /// response with a new challenge.
    pub fn check<P: Hash>(&self, now: Instant, peer: &P, value: &[u8]) -> Result<Duration, Stale> {
        let age = now.since(self.made_at(peer, value)?);
        if age > self.lifetime { Err(Stale::Old { age }) } else { Ok(age) }
    }

    /// Returns the time of a challenge to this peer, however old.
    pub(crate) fn made_at<P: Hash>(&self, peer: &P, value: &[u8]) -> Result<Instant, Stale> {
        let value: &[u8; Self::LENGTH] = value.try_into().map_err(|_| Stale::Foreign)?;
        let (time, mac) = value.split_at(8);
        let [time, mac] =
            [time, mac].map(|half| half.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte)));
        // A comparison in constant time, so that timing reveals nothing about single bytes.
        if (mac ^ self.mac(time, peer)) != 0 {
            return Err(Stale::Foreign);
        }
        Ok(Instant::from_nanos(time))
    }

    fn mac<P: Hash>(&self, time: u64, peer: &P) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(time);
        peer.hash(&mut hasher);
        hasher.finish()
    }
}

/// Omits the key.
impl core::fmt::Debug for Freshness {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Freshness").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

/// Reason why a request does not count as fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Stale {
    /// The value was not issued to this peer, or not with this key.
    #[error("the value of Echo is none that this peer was given")]
    Foreign,
    /// The challenge is too old.
    #[error("the value of Echo was given {age:.1?} ago, which is too long")]
    Old {
        /// Age of the challenge.
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
    fn a_forged_echo_value_or_one_of_another_peer_or_key_is_foreign() {
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
