//! Parts of retransmission timers: randomisation, backoff and bounds.

use core::time::Duration;

use crate::event::{AbandonReason, Abandoned, Sent};
use crate::units::{Factor, Micros, saturate};

/// Returns `base` times a uniform factor from 1 to `ack_random_factor` (RFC 7252 §4.2).
#[must_use]
pub fn dithered(base: Micros, ack_random_factor: Factor, random: u32) -> Micros {
    let spread = base.scaled(ack_random_factor).minus(base);
    base.plus(part(spread, random))
}

/// Returns `base` plus a uniform quarter to all of the smoothed round-trip time
/// (draft-ietf-core-fasor).
#[must_use]
pub fn spread(base: Micros, srtt: Micros, random: u32) -> Micros {
    let quarter = srtt.shifted(2);
    base.plus(quarter).plus(part(srtt.minus(quarter), random))
}

/// Returns `span` · `random`/2^32.
#[must_use]
pub fn part(span: Micros, random: u32) -> Micros {
    Micros::new(saturate((u64::from(span.get()) * u64::from(random)) >> 32))
}

/// Returns `timer` between a millisecond and `cap`.
#[must_use]
pub fn bounded(timer: Micros, cap: Micros) -> Micros {
    timer.min(cap).max(Micros::MILLISECOND)
}

/// Returns `timer` times `factor`, at most `cap` but never below `timer`.
#[must_use]
pub fn grown(timer: Micros, factor: Factor, cap: Micros) -> Micros {
    timer.scaled(factor).min(cap).max(timer)
}

/// A backoff factor that is larger for short timeouts (ETFA'14, draft-ietf-core-cocoa).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableBackoff {
    /// Factor below [`SMALL_RTO`].
    pub small: Factor,
    /// Factor in between.
    pub medium: Factor,
    /// Factor above [`LARGE_RTO`].
    pub large: Factor,
}

/// Smaller RTOs back off faster and age upwards.
pub const SMALL_RTO: Micros = Micros::from_millis(1_000);
/// Larger RTOs back off more slowly and age downwards.
pub const LARGE_RTO: Micros = Micros::from_millis(3_000);

impl VariableBackoff {
    /// 3, 2 and 1.3 (ETFA'14 §II.B).
    pub const ETFA14: Self = Self { small: Factor::THREE, medium: Factor::TWO, large: Factor::from_permille(1_300) };
    /// 3, 2 and 1.5 (draft-ietf-core-cocoa-03 §4.2.1).
    pub const DRAFT03: Self = Self { small: Factor::THREE, medium: Factor::TWO, large: Factor::ONE_AND_HALF };

    /// Returns the factor for `timer`.
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

/// An exchange's timer; zero before the first transmission and for a Non-confirmable message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer(Micros);

impl Timer {
    /// Arms the timer with `first()`, or for a retransmission `factor` times the current timeout,
    /// at most `cap`. A Non-confirmable message's timeout is not stored.
    pub fn arm(&mut self, event: &Sent, first: impl FnOnce() -> Micros, factor: Factor, cap: Micros) -> Duration {
        let timeout = match self.expired(event) {
            Some(current) => grown(current, factor, cap),
            None => bounded(first(), cap),
        };
        self.set(event, timeout)
    }

    pub(crate) fn expired(self, event: &Sent) -> Option<Micros> {
        self.armed().filter(|_| event.confirmable && event.attempt > 0)
    }

    pub(crate) fn set(&mut self, event: &Sent, timeout: Micros) -> Duration {
        let timeout = timeout.max(Micros::MILLISECOND);
        if event.confirmable {
            self.0 = timeout;
        }
        timeout.into()
    }

    /// Raises the armed timeout to `least`, at most `cap`.
    pub fn raise(&mut self, least: Micros, cap: Micros) -> Duration {
        self.0 = self.0.max(least.min(cap));
        self.0.into()
    }

    /// Returns the last armed timeout.
    #[must_use]
    pub fn armed(&self) -> Option<Micros> {
        (self.0 != Micros::ZERO).then_some(self.0)
    }
}

/// Backoff that carries over to the next exchange until a new sample, as in TCP (RFC 6298 §5.5 to
/// §5.7). Exchanges start from the peer's exponent and raise it; parallel ones do not multiply it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarriedBackoff {
    exponent: u8,
}

impl CarriedBackoff {
    /// Returns the first timeout, `rto` · 2^`carried`, [`bounded`].
    pub fn first(&mut self, rto: Micros, carried: u8, cap: Micros) -> Micros {
        self.exponent = carried;
        bounded(backed_off(rto, carried), cap)
    }

    /// Returns `current` doubled, and raises `carried`.
    pub fn next(&mut self, current: Micros, carried: &mut u8, cap: Micros) -> Micros {
        self.exponent = self.exponent.saturating_add(1).min(MAX_EXPONENT);
        *carried = self.exponent.max(*carried);
        grown(current, Factor::TWO, cap)
    }
}

/// 1 ms doubled 22 times exceeds every cap.
const MAX_EXPONENT: u8 = 22;

/// Returns `rto` · 2^`exponent`, an exponent of at most 22.
#[must_use]
pub fn backed_off(rto: Micros, exponent: u8) -> Micros {
    rto.times(1 << exponent.min(MAX_EXPONENT))
}

/// Whether an unacknowledged end suggests congestion: exhausted retransmissions or a cancellation
/// after one, but not a Reset or an unreachable network.
#[must_use]
pub fn suggests_congestion(event: &Abandoned<'_>) -> bool {
    match event.reason {
        AbandonReason::GaveUp => true,
        AbandonReason::Cancelled => event.sent.len() > 1,
        AbandonReason::Reset | AbandonReason::Unreachable => false,
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
        let (mut a, mut b, mut carried) = (CarriedBackoff::default(), CarriedBackoff::default(), 0);
        let rto = Micros::from_millis(500);
        let first = [a.first(rto, carried, Micros::MAX), b.first(rto, carried, Micros::MAX)];
        let next = [a.next(rto, &mut carried, Micros::MAX), b.next(rto, &mut carried, Micros::MAX)];
        assert_eq!((first, next), ([rto; 2], [rto.times(2); 2]));
        assert_eq!(CarriedBackoff::default().first(rto, carried, Micros::MAX), rto.times(2), "one doubling, not two");
    }
}
