//! Received power as an integer.

use std::ops::{AddAssign, SubAssign};

/// Received power in units of 10⁻¹⁷ mW (−170 dBm), up to 22 dBm.
///
/// An integer, so that a sum of signals returns to exactly zero when they end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Power(u64);

const UNITS_PER_MILLIWATT: f64 = 1e17;

impl Power {
    /// No signal.
    pub const ZERO: Self = Self(0);

    /// Creates a power in units of 10⁻¹⁷ mW.
    #[must_use]
    pub const fn units(units: u64) -> Self {
        Self(units)
    }

    /// Returns the power in units of 10⁻¹⁷ mW.
    #[must_use]
    pub const fn as_units(self) -> u64 {
        self.0
    }

    /// Converts dBm to the nearest unit.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a float becomes the nearest integer, and saturates")]
    pub fn from_dbm(dbm: f64) -> Self {
        Self((libm::pow(10.0, dbm / 10.0) * UNITS_PER_MILLIWATT + 0.5) as u64)
    }

    /// Returns the ratio to `other`, infinite if `other` is zero.
    #[must_use]
    pub fn ratio(self, other: Self) -> f64 {
        self.0 as f64 / other.0 as f64
    }

    /// Returns the sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, at least zero.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Power {
    fn add_assign(&mut self, other: Self) {
        *self = self.plus(other);
    }
}

impl SubAssign for Power {
    fn sub_assign(&mut self, other: Self) {
        *self = self.minus(other);
    }
}

pub(crate) fn from_db(decibels: f64) -> f64 {
    libm::pow(10.0, decibels / 10.0)
}

pub(crate) fn to_db(ratio: f64) -> f64 {
    10.0 * libm::log10(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_and_subtracting_the_same_signals_gives_exactly_zero() {
        let mut level = Power::ZERO;
        let signals: Vec<Power> = (0..2000).map(|i| Power::from_dbm(-f64::from(i) / 15.0)).collect();
        signals.iter().for_each(|signal| level += *signal);
        signals.iter().rev().for_each(|signal| level -= *signal);
        assert_eq!(level, Power::ZERO);
    }

    #[test]
    fn ten_decibels_are_a_factor_of_ten() {
        assert_eq!(Power::from_dbm(0.0), Power::units(100_000_000_000_000_000));
        let ratio = Power::from_dbm(-87.0).ratio(Power::from_dbm(-97.0));
        assert!((ratio - 10.0).abs() < 1e-6, "{ratio}");
        assert!((to_db(from_db(-6.02)) + 6.02).abs() < 1e-12);
        assert_eq!(Power::from_dbm(f64::NEG_INFINITY), Power::ZERO);
    }
}
