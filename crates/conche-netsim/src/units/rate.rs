//! Bit rates.

use std::time::Duration;

use super::quantity::{Quantity, quantity};

/// A rate in bits per second, such as `"30kbit/s"` (1 kbit/s = 10³ bit/s). Units: bit/s, kbit/s,
/// Mbit/s, Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitRate(u64);

impl BitRate {
    /// Creates a rate of `bits` bit/s; topologies reject zero.
    #[must_use]
    pub const fn bit(bits: u64) -> Self {
        Self(bits)
    }

    /// Creates a rate of `kilobits` kbit/s.
    #[must_use]
    pub const fn kbit(kilobits: u64) -> Self {
        Self(kilobits.saturating_mul(1_000))
    }

    /// Creates a rate of `megabits` Mbit/s.
    #[must_use]
    pub const fn mbit(megabits: u64) -> Self {
        Self(megabits.saturating_mul(1_000_000))
    }

    /// Returns the rate in bits per second.
    #[must_use]
    pub const fn as_bits(self) -> u64 {
        self.0
    }

    /// Returns the transmission time of `bytes`, to the nearest nanosecond.
    #[must_use]
    pub const fn serialisation(self, bytes: u32) -> Duration {
        Duration::from_nanos(self.serialisation_nanos(bytes))
    }

    pub(crate) const fn serialisation_nanos(self, bytes: u32) -> u64 {
        let rate = if self.0 == 0 { 1 } else { self.0 };
        // Exceeds u64 only for frames beyond 2 GB.
        (bytes as u64 * 8).saturating_mul(1_000_000_000).saturating_add(rate / 2) / rate
    }
}

impl Quantity for BitRate {
    const WHAT: &'static str = "a data rate";
    const EXAMPLE: &'static str = "30kbit/s";
    const UNITS: &'static [(&'static str, u64)] =
        &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
    const MAIN_UNIT: &'static str = "bit/s";

    fn from_base(base: u64) -> Self {
        Self(base)
    }

    fn to_base(&self) -> u64 {
        self.0
    }
}

quantity!(BitRate);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_rounds_to_the_nearest_nanosecond() {
        assert_eq!(BitRate::kbit(30).serialisation(94), Duration::from_nanos(25_066_667));
        assert_eq!(BitRate::kbit(60).serialisation(32), Duration::from_nanos(4_266_667));
        assert_eq!(BitRate::mbit(1).serialisation(0), Duration::ZERO);
    }

    #[test]
    fn a_rate_prints_in_the_largest_unit_that_is_exact() {
        assert_eq!(BitRate::kbit(30).to_string(), "30kbit/s");
        assert_eq!(BitRate::bit(2_000_000).to_string(), "2Mbit/s");
        assert_eq!(BitRate::bit(1_500).to_string(), "1500bit/s");
    }

    #[test]
    fn the_short_form_has_up_to_three_exact_decimals() {
        for (bits, text) in [
            (0, "0bit/s"),
            (26_800, "26.8kbit/s"),
            (1_234_567, "1234.567kbit/s"),
            (999, "999bit/s"),
            (1_050_000, "1.05Mbit/s"),
            (u64::MAX, "18446744073709551.615kbit/s"),
        ] {
            let shown = format!("{:#}", BitRate::bit(bits));
            assert_eq!((shown.as_str(), shown.parse()), (text, Ok(BitRate::bit(bits))));
        }
    }
}
