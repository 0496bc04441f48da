//! Compact quantities of at most 32 bits, in saturating integer arithmetic.

use core::time::Duration;

use crate::time::Instant;

/// A span of whole microseconds, at most 71 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(u32);

impl Micros {
    /// The empty span.
    pub const ZERO: Self = Self(0);
    /// One microsecond.
    pub const MIN: Self = Self(1);
    /// One millisecond, the minimum timeout of every controller.
    pub const MILLISECOND: Self = Self(1_000);
    /// The longest span.
    pub const MAX: Self = Self(u32::MAX);

    /// Returns a span of `micros` microseconds.
    #[must_use]
    pub const fn new(micros: u32) -> Self {
        Self(micros)
    }

    /// Returns a span of `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u32) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Returns the span from `earlier` to `later`, at least zero.
    #[must_use]
    pub const fn between(earlier: Instant, later: Instant) -> Self {
        Self(saturate(later.as_nanos().saturating_sub(earlier.as_nanos()) / 1_000))
    }

    /// Returns the number of microseconds.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, at least zero.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the absolute difference.
    #[must_use]
    pub const fn distance(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }

    /// Returns `count` times the span.
    #[must_use]
    pub const fn times(self, count: u32) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// Returns the quotient, rounded down, or the span itself for a zero divisor.
    #[must_use]
    pub const fn divided(self, by: u32) -> Self {
        match self.0.checked_div(by) {
            Some(part) => Self(part),
            None => self,
        }
    }

    /// Returns the span scaled by `factor`.
    #[must_use]
    pub const fn scaled(self, factor: Factor) -> Self {
        Self(saturate(self.0 as u64 * factor.0 as u64 / 1_000))
    }

    /// Returns the span divided by 2^`shift`.
    #[must_use]
    pub const fn shifted(self, shift: u8) -> Self {
        Self(self.0 >> shift)
    }

    /// Returns the mean of `self` and `target`, which has this `weight` of at most 1; rounded down.
    #[must_use]
    pub const fn blended(self, target: Self, weight: Factor) -> Self {
        let old = self.0 as u64 * weight.complement().0 as u64;
        Self(saturate((old + target.0 as u64 * weight.0 as u64) / 1_000))
    }

    /// Returns the weighted mean `(1 - w)·self + w·target` with w = 1/2^`shift`, exact and rounded
    /// down.
    #[must_use]
    pub const fn towards(self, target: Self, shift: u8) -> Self {
        let old = ((1u64 << shift) - 1) * self.0 as u64;
        Self(saturate((old + target.0 as u64) >> shift))
    }
}

impl From<Duration> for Micros {
    fn from(span: Duration) -> Self {
        let micros = span.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(span.subsec_micros()));
        Self(saturate(micros))
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Self {
        Self::from_micros(u64::from(span.0))
    }
}

/// An instant in wrapping milliseconds: 4 bytes instead of 8.
///
/// Ages wrap after 49.7 days: a longer idle period reads too short, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(u32);

impl Stamp {
    /// Returns the stamp of `now`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "wraps by design")]
    pub const fn at(now: Instant) -> Self {
        Self(now.as_millis() as u32)
    }

    /// Returns the milliseconds from this stamp to `now`.
    #[must_use]
    pub const fn age_ms(self, now: Self) -> u32 {
        now.0.wrapping_sub(self.0)
    }

    /// Returns the instant of a stamp not later than `now`, rounded down to a millisecond.
    #[must_use]
    pub const fn instant(self, now: Instant) -> Instant {
        let age = self.age_ms(Self::at(now)) as u64;
        Instant::from_millis(now.as_millis().saturating_sub(age))
    }

    /// Returns the stamp `span` later, in whole milliseconds.
    #[must_use]
    pub const fn later_by(self, span: Micros) -> Self {
        Self(self.0.wrapping_add(span.0 / 1_000))
    }
}

/// A dimensionless factor in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u16);

impl Factor {
    /// The factor 1/4.
    pub const QUARTER: Self = Self(250);
    /// The factor 1/2.
    pub const HALF: Self = Self(500);
    /// The factor 1.
    pub const ONE: Self = Self(1_000);
    /// The factor 2: binary exponential backoff.
    pub const TWO: Self = Self(2_000);
    /// 1.5, the `ACK_RANDOM_FACTOR` of RFC 7252 §4.8.
    pub const ONE_AND_HALF: Self = Self(1_500);
    /// The factor 3.
    pub const THREE: Self = Self(3_000);

    /// Returns the factor of `permille` thousandths.
    #[must_use]
    pub const fn from_permille(permille: u16) -> Self {
        Self(permille)
    }

    /// Returns `part`/`whole`, rounded to the nearest thousandth; zero if `whole` is zero.
    #[must_use]
    pub fn share(part: u32, whole: u32) -> Self {
        let thousandths = u64::from(part) * 1_000 + u64::from(whole / 2);
        let permille = thousandths.checked_div(u64::from(whole)).unwrap_or(0);
        Self(u16::try_from(permille).unwrap_or(u16::MAX))
    }

    /// Returns 1 minus the factor, at least zero.
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(1_000_u16.saturating_sub(self.0))
    }

    /// Returns the factor in thousandths.
    #[must_use]
    pub const fn permille(self) -> u16 {
        self.0
    }
}

/// A data rate in sixteenths of a byte per second, up to 268 MB/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BytesPerSecond(u32);

impl BytesPerSecond {
    /// The rate zero.
    pub const ZERO: Self = Self(0);
    const UNITS: u64 = 16;

    /// Returns a rate in whole bytes per second.
    #[must_use]
    pub const fn new(bytes_per_second: u32) -> Self {
        Self(saturate(bytes_per_second as u64 * Self::UNITS))
    }

    /// Returns the rate of `bytes` in `span`, at least a microsecond.
    #[must_use]
    pub fn of(bytes: u32, span: Micros) -> Self {
        Self(saturate(u64::from(bytes) * (Self::UNITS * 1_000_000) / u64::from(span.get().max(1))))
    }

    /// Returns bytes per second, rounded to nearest.
    #[must_use]
    pub const fn get(self) -> u32 {
        saturate((self.0 as u64 + Self::UNITS / 2) / Self::UNITS)
    }

    /// Returns the rate scaled by `factor`.
    #[must_use]
    pub const fn scaled(self, factor: Factor) -> Self {
        Self(saturate(self.0 as u64 * factor.0 as u64 / 1_000))
    }

    /// Returns the time of `bytes`, `Duration::MAX` if the rate is zero.
    #[must_use]
    pub fn time_for(self, bytes: u32) -> Duration {
        let units = u64::from(bytes) * (Self::UNITS * 1_000_000);
        units.checked_div(u64::from(self.0)).map_or(Duration::MAX, Duration::from_micros)
    }

    /// Returns the bytes in `span`.
    #[must_use]
    pub const fn bytes_in(self, span: Micros) -> u32 {
        saturate(self.0 as u64 * span.0 as u64 / (Self::UNITS * 1_000_000))
    }

    /// Returns the mean of `self` with this `weight` and `other` with its complement.
    #[must_use]
    pub fn blended(self, weight: Factor, other: Self) -> Self {
        self.scaled(weight).plus(other.scaled(weight.complement()))
    }

    const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

pub(crate) const fn saturate(value: u64) -> u32 {
    if value > u32::MAX as u64 {
        u32::MAX
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "just compared")]
        {
            value as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_saturate_instead_of_wrapping() {
        assert_eq!(Micros::from(Duration::MAX), Micros::MAX);
        assert_eq!(Micros::MAX.times(2), Micros::MAX);
        assert_eq!(Micros::MAX.scaled(Factor::THREE), Micros::MAX);
        assert_eq!(Micros::from_millis(1).minus(Micros::from_millis(2)), Micros::ZERO);
    }

    #[test]
    fn one_point_three_is_exact() {
        assert_eq!(Micros::new(10).scaled(Factor::from_permille(1_300)), Micros::new(13));
    }

    #[test]
    fn a_weighted_mean_of_equal_spans_is_that_span() {
        assert_eq!(Micros::MAX.towards(Micros::MAX, 3), Micros::MAX);
        assert_eq!(Micros::new(400).towards(Micros::new(800), 2), Micros::new(500));
    }

    #[test]
    fn a_rate_of_zero_takes_for_ever_and_a_span_of_zero_is_a_microsecond() {
        assert_eq!(BytesPerSecond::ZERO.time_for(1), Duration::MAX);
        assert_eq!(BytesPerSecond::of(1, Micros::ZERO), BytesPerSecond::new(1_000_000));
    }

    #[test]
    fn rates_and_spans_agree_on_bytes() {
        let rate = BytesPerSecond::of(100, Micros::from_millis(200));
        assert_eq!(rate, BytesPerSecond::new(500));
        assert_eq!(rate.time_for(100), Duration::from_millis(200));
        assert_eq!(rate.bytes_in(Micros::from_millis(200)), 100);
        let gain = Factor::from_permille(1_200);
        assert_eq!(rate.scaled(gain), BytesPerSecond::new(600));
    }

    #[test]
    fn shares_are_rounded_to_the_nearest_thousandth() {
        assert_eq!(Factor::share(2, 7), Factor::from_permille(286));
        assert_eq!(Factor::share(1, 0), Factor::from_permille(0));
    }

    #[test]
    fn ages_survive_the_wrap_of_the_millisecond_clock() {
        let before = Stamp::at(Instant::from_millis(u64::from(u32::MAX) - 4));
        let after = Stamp::at(Instant::from_millis(u64::from(u32::MAX) + 6));
        assert_eq!(before.age_ms(after), 10);
    }
}
