//! Quantities in readable form: `"400ms"`, `"30kbit/s"`, `"2500B"`, `"5%"`.
//!
//! Numbers need a unit. Times are stored as nanoseconds, rates as bits per second, sizes as bytes;
//! inexact values are errors. With feature `serde`, quantities are strings. `{:#}` shows them with
//! decimals, as in `26.8kbit/s`.

mod probability;
mod quantity;
mod rate;
#[cfg(feature = "serde")]
mod strings;

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

pub use self::probability::Probability;
pub use self::quantity::UnitError;
use self::quantity::{Quantity, quantity};
pub use self::rate::BitRate;

/// A time, such as `"400ms"`. Units: ns, us, ms, s, min, h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A size, such as `"2500B"`. Units: B, kB, MB (powers of ten), KiB, MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A time drawn uniformly from a range, `"10ms..20ms"`, or a constant, `"15ms"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanRange {
    least: Duration,
    most: Duration,
}

impl SpanRange {
    /// Creates the range; `None` if `least > most`.
    #[must_use]
    pub fn new(least: Duration, most: Duration) -> Option<Self> {
        (least <= most).then_some(Self { least, most })
    }

    /// Returns the range in nanoseconds.
    #[must_use]
    pub fn as_nanos(&self) -> RangeInclusive<u64> {
        nanos(self.least)..=nanos(self.most)
    }

    /// Returns the shortest span.
    #[must_use]
    pub fn least(&self) -> Duration {
        self.least
    }

    /// Returns the longest span.
    #[must_use]
    pub fn most(&self) -> Duration {
        self.most
    }
}

impl Quantity for Span {
    const WHAT: &'static str = "a time";
    const EXAMPLE: &'static str = "400ms";
    const UNITS: &'static [(&'static str, u64)] = &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    const MAIN_UNIT: &'static str = "s";

    fn from_base(base: u64) -> Self {
        Self(Duration::from_nanos(base))
    }

    fn to_base(&self) -> u64 {
        nanos(self.0)
    }
}

impl Quantity for Size {
    const WHAT: &'static str = "a size";
    const EXAMPLE: &'static str = "2500B";
    const UNITS: &'static [(&'static str, u64)] =
        &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("KiB", 1 << 10), ("MiB", 1 << 20)];
    const MAIN_UNIT: &'static str = "B";

    fn from_base(base: u64) -> Self {
        Self(base)
    }

    fn to_base(&self) -> u64 {
        self.0
    }
}

impl FromStr for SpanRange {
    type Err = UnitError;

    fn from_str(input: &str) -> Result<Self, UnitError> {
        let (least, most) = input.split_once("..").unwrap_or((input, input));
        let (least, most) = (Span::parse(least)?, Span::parse(most)?);
        Self::new(least.0, most.0).ok_or_else(|| UnitError {
            input: input.to_owned(),
            what: "a range of times",
            problem: "it ends before it begins".to_owned(),
            example: "10ms..20ms".into(),
        })
    }
}

impl fmt::Display for SpanRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            return Span(self.least).fmt(f);
        }
        write!(f, "{}..{}", Span(self.least), Span(self.most))
    }
}

/// Saturates after 584 years.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

quantity!(Span);
quantity!(Size);

#[cfg(all(test, feature = "serde"))]
mod tests;
