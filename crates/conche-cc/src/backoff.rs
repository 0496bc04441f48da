//! What the algorithms' timers share: dithering of the first, growth of the next, and bounds on both.

use core::time::Duration;

use crate::control::{Abandoned, Sent, Why};
use crate::units::{Factor, Micros, saturate};

/// `base` scaled by a factor drawn uniformly from 1 to `ack_random_factor` (RFC 7252 §4.2), given 32 random bits.
#[must_use]
pub fn dithered(base: Micros, ack_random_factor: Factor, random: u32) -> Micros {
    let spread = base.scaled(ack_random_factor).minus(base);
    base.plus(part(spread, random))
}

/// `base` and from a quarter to all of the smoothed round-trip time, drawn uniformly, given 32 random bits: synchronised
/// senders are spread over as long as a round trip takes (draft-ietf-core-fasor).
#[must_use]
pub fn spread(base: Micros, srtt: Micros, random: u32) -> Micros {
    let quarter = srtt.shifted(2);
    base.plus(quarter).plus(part(srtt.minus(quarter), random))
}

/// The part u of `span`, where u = `random`/2^32.
#[must_use]
pub fn part(span: Micros, random: u32) -> Micros {
    Micros::new(saturate((u64::from(span.get()) * u64::from(random)) >> 32))
}

/// `timer` kept between one millisecond and `cap`.
#[must_use]
pub fn bounded(timer: Micros, cap: Micros) -> Micros {
    timer.min(cap).max(Micros::MILLISECOND)
}

/// The next timer of an exchange whose current one is `timer`: multiplied by `factor`, not above `cap`, and never
/// less than the current one.
#[must_use]
pub fn grown(timer: Micros, factor: Factor, cap: Micros) -> Micros {
    timer.scaled(factor).min(cap).max(timer)
}

/// A variable backoff factor: larger for small timers, smaller for large ones (ETFA'14, draft-ietf-core-cocoa).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableBackoff {
    /// The factor of timers below [`SMALL_RTO`].
    pub small: Factor,
    /// The factor of timers between.
    pub medium: Factor,
    /// The factor of timers above [`LARGE_RTO`].
    pub large: Factor,
}

/// Below this an RTO is small: it backs off faster, and ages upwards.
pub const SMALL_RTO: Micros = Micros::from_millis(1_000);
/// Above this an RTO is large: it backs off more slowly, and ages downwards.
pub const LARGE_RTO: Micros = Micros::from_millis(3_000);

impl VariableBackoff {
    /// 3, 2 and 1.3 (ETFA'14 §II.B).
    pub const ETFA14: Self = Self { small: Factor::THREE, medium: Factor::TWO, large: Factor::from_permille(1_300) };
    /// 3, 2 and 1.5 (draft-ietf-core-cocoa-03 §4.2.1).
    pub const DRAFT03: Self = Self { small: Factor::THREE, medium: Factor::TWO, large: Factor::ONE_AND_HALF };

    /// The factor for `timer`.
    #[must_use]
    pub fn factor(self, timer: Micros) -> Factor {
        if timer < SMALL_RTO {
            self.small
        } else if timer > LARGE_RTO {
            self.large
        } else {
            self.medium
        }
    }
}

/// The timer of one exchange; zero before its first transmission, and for a Non-confirmable message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer(Micros);

impl Timer {
    /// Arms the timer: with `first()` for the original transmission, with the current timer scaled by `factor` for a
    /// copy, both held under `cap`. The answer is what was armed.
    ///
    /// The timer of a Non-confirmable message is not remembered: it bounds the wait for a response and never backs off.
    pub fn arm(&mut self, event: &Sent, first: impl FnOnce() -> Micros, factor: Factor, cap: Micros) -> Duration {
        if !event.confirmable {
            return bounded(first(), cap).into();
        }
        self.0 = if event.attempt == 0 || self.0 == Micros::ZERO {
            bounded(first(), cap)
        } else {
            grown(self.0, factor, cap)
        };
        self.0.into()
    }

    /// Lengthens an armed timer to `least`, not above `cap`. The answer is what is armed then.
    pub fn raise(&mut self, least: Micros, cap: Micros) -> Duration {
        self.0 = self.0.max(least.min(cap));
        self.0.into()
    }

    /// The timer that was armed last, if any was.
    #[must_use]
    pub fn armed(&self) -> Option<Micros> {
        (self.0 != Micros::ZERO).then_some(self.0)
    }
}

/// The timer of one exchange under an algorithm whose backoff carries over to the next exchange, as TCP's does
/// (RFC 6298 §5.5 to §5.7): until a sample proves it wrong, a backed-off RTO is the best there is.
///
/// What carries over is an exponent, kept beside the estimate. An exchange starts from that of its peer and hands back
/// its own as it grows, so that parallel exchanges do not multiply each other's backoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarriedTimer {
    timer: Timer,
    exponent: u8,
}

impl CarriedTimer {
    /// Arms the timer: with `rto` · 2^`carried` for the original transmission, doubled for a copy, under `cap`.
    pub fn arm(&mut self, event: &Sent, rto: Micros, carried: &mut u8, cap: Micros) -> Duration {
        if event.confirmable && event.attempt > 0 && self.timer.armed().is_some() {
            self.exponent = self.exponent.saturating_add(1).min(MAX_EXPONENT);
            *carried = self.exponent.max(*carried);
        } else {
            self.exponent = *carried;
        }
        self.timer.arm(event, || backed_off(rto, self.exponent), Factor::TWO, cap)
    }
}

/// No timer needs more doublings: the shortest, a millisecond, passes the longest cap on the way.
const MAX_EXPONENT: u8 = 22;

/// `rto` doubled `exponent` times.
#[must_use]
pub fn backed_off(rto: Micros, exponent: u8) -> Micros {
    rto.times(1 << exponent.min(MAX_EXPONENT))
}

/// Whether the end of an exchange that was never acknowledged speaks of congestion.
///
/// Giving up does. So does cancelling an exchange that had been retransmitted, or an application with little patience
/// would never back off. A Reset or a report of an unreachable network does not.
#[must_use]
pub fn suggests_congestion(event: &Abandoned<'_>) -> bool {
    match event.why {
        Why::GaveUp => true,
        Why::Cancelled => event.sent.len() > 1,
        Why::Reset | Why::Unreachable => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Load;
    use crate::time::Instant;

    fn sent(attempt: u8, confirmable: bool) -> Sent {
        Sent { now: Instant::ZERO, attempt, confirmable, bytes: 50, random: 0, load: Load::default() }
    }

    #[test]
    fn dithering_spans_the_whole_range_and_no_more() {
        let base = Micros::from_millis(2_000);
        assert_eq!(dithered(base, Factor::ONE_AND_HALF, 0), base);
        assert_eq!(dithered(base, Factor::ONE_AND_HALF, 1 << 31), Micros::from_millis(2_500));
        let top = dithered(base, Factor::ONE_AND_HALF, u32::MAX);
        assert!(top <= Micros::from_millis(3_000) && top >= Micros::new(2_999_999));
    }

    #[test]
    fn a_random_factor_below_one_does_not_shorten_a_timer() {
        let base = Micros::from_millis(2_000);
        assert_eq!(dithered(base, Factor::from_permille(500), u32::MAX), base);
    }

    #[test]
    fn backoff_factors_change_at_one_and_three_seconds() {
        let vbf = VariableBackoff::DRAFT03;
        let factor = |ms| vbf.factor(Micros::from_millis(ms)).permille();
        assert_eq!([factor(999), factor(1_000), factor(3_000), factor(3_001)], [3_000, 2_000, 2_000, 1_500]);
    }

    #[test]
    fn a_timer_above_its_cap_does_not_shrink() {
        let timer = Micros::from_millis(48_000);
        assert_eq!(grown(timer, Factor::TWO, Micros::from_millis(32_000)), timer);
    }

    #[test]
    fn a_copy_without_an_original_starts_from_the_first_timer() {
        let mut timer = Timer::default();
        let armed = timer.arm(&sent(3, true), || Micros::from_millis(2_000), Factor::TWO, Micros::MAX);
        assert_eq!(armed, Duration::from_secs(2));
    }

    #[test]
    fn a_non_confirmable_message_leaves_no_timer_behind() {
        let mut timer = Timer::default();
        let wait = timer.arm(&sent(0, false), || Micros::from_millis(2_000), Factor::TWO, Micros::MAX);
        assert_eq!((wait, timer.armed()), (Duration::from_secs(2), None));
    }

    #[test]
    fn parallel_exchanges_do_not_multiply_each_others_backoff() {
        let (mut a, mut b, mut carried) = (CarriedTimer::default(), CarriedTimer::default(), 0);
        let rto = Micros::from_millis(500);
        let mut arm = |timer: &mut CarriedTimer, attempt| {
            timer.arm(&sent(attempt, true), rto, &mut carried, Micros::MAX).as_millis()
        };
        assert_eq!([arm(&mut a, 0), arm(&mut b, 0)], [500, 500]);
        assert_eq!([arm(&mut a, 1), arm(&mut b, 1)], [1_000, 1_000]);
        assert_eq!(arm(&mut CarriedTimer::default(), 0), 1_000, "one doubling carried over, not two");
    }
}
