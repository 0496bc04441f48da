//! Sequence numbers of notifications (RFC 7641 §3.4, §4.4).

use core::time::Duration;

use conche_cc::Instant;

/// The bits of time that number notifications: units of 2^16 ns, 15 259 of them a second. The RFC demands that fewer than
/// 2^23 pass within 256 s; these are half of that.
const TICK_BITS: u32 = 16;

/// The numbers of one topic: never lower than the clock, so that they go on rising after a topic was forgotten, and never
/// the same for two states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sequence(u64);

impl Sequence {
    pub(super) const START: Self = Self(0);

    /// The number of what is true now.
    pub(super) fn at(&mut self, now: Instant) -> u32 {
        self.0 = self.0.max(now.as_nanos() >> TICK_BITS);
        self.value()
    }

    /// The number of a new state.
    pub(super) fn next(&mut self, now: Instant) -> u32 {
        self.0 = (now.as_nanos() >> TICK_BITS).max(self.0 + 1);
        self.value()
    }

    /// A number lower than that of the newest state.
    pub(super) const fn before(self) -> u32 {
        Self(self.0.wrapping_sub(1)).value()
    }

    const fn value(self) -> u32 {
        (self.0 & 0xff_ffff) as u32
    }
}

/// What orders notifications: the number of the newest, and when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) sequence: u32,
    pub(crate) received: Instant,
}

impl Order {
    /// A notification with this order is newer than this one (RFC 7641 §3.4).
    pub(crate) fn is_before(&self, new: &Self) -> bool {
        const HALF: u32 = 1 << 23;
        let (old, sequence) = (self.sequence, new.sequence);
        (old < sequence && sequence - old < HALF)
            || (old > sequence && old - sequence > HALF)
            || new.received > self.received + Duration::from_secs(128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    // RFC 7641 §3.4 (Q105)
    #[test]
    fn newer_is_the_higher_number_modulo_2_to_the_24_or_what_comes_128_seconds_later() {
        let order = |sequence, seconds: u64| Order { sequence, received: Instant::from_millis(seconds * 1_000) };
        let newer = |old, new| Order::is_before(&old, &new);
        assert!(newer(order(1, 0), order(2, 0)));
        assert!(!newer(order(2, 0), order(1, 0)));
        assert!(!newer(order(2, 0), order(2, 0)), "a copy is not newer");
        assert!(newer(order(0xff_ffff, 0), order(0, 0)), "it wraps");
        assert!(newer(order(0, 0), order((1 << 23) - 1, 0)));
        assert!(!newer(order(0, 0), order(1 << 23, 0)));
        assert!(!newer(order(5, 0), order(4, 128)));
        assert!(newer(order(5, 0), order(4, 129)));
    }
}
