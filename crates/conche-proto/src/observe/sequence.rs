//! Sequence numbers of notifications (RFC 7641 §3.4, §4.4).

use conche_cc::Instant;

/// Sequence numbers count units of 2^16 ns, 15 259 per second. The RFC requires fewer than 2^23
/// within 256 s; this is half of that.
const TICK_BITS: u32 = 16;

/// The sequence numbers of a topic: never below the clock, so that they still increase after a
/// topic was forgotten, and never equal for two states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sequence(u64);

impl Sequence {
    pub(super) const START: Self = Self(0);

    /// Returns the number of the current state.
    pub(super) fn at(&mut self, now: Instant) -> u32 {
        self.0 = self.0.max(now.as_nanos() >> TICK_BITS);
        self.value()
    }

    /// Returns the number of a new state.
    pub(super) fn next(&mut self, now: Instant) -> u32 {
        self.0 = (now.as_nanos() >> TICK_BITS).max(self.0 + 1);
        self.value()
    }

    /// Returns a number below that of the newest state.
    pub(super) const fn before(self) -> u32 {
        Self(self.0.wrapping_sub(1)).value()
    }

    const fn value(self) -> u32 {
        (self.0 & 0xff_ffff) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Order;
    use core::time::Duration;

    // RFC 7641 §4.4 (Q113)
    #[test]
    fn numbers_rise_with_every_state_and_less_than_half_their_range_in_256_seconds() {
        let (mut sequence, mut now) = (Sequence::default(), Instant::from_millis(77_777));
        let mut order = Order { sequence: sequence.at(now), received: now };
        for n in 0..100_000_u64 {
            now += Duration::from_millis(n % 3 * n % 7);
            let next = Order { sequence: sequence.next(now), received: now };
            assert!(order.is_before(&next) && !next.is_before(&order), "{order:?} {next:?}");
            order = next;
        }
        let first = sequence.at(now);
        let later = sequence.at(now + Duration::from_secs(256));
        assert!(later.wrapping_sub(first) & 0xff_ffff < 1 << 23);
    }
}
