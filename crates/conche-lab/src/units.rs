//! Quantities as people write them: `"400ms"`, `"30kbit/s"`, `"2500B"`.
//!
//! A number without a unit is refused, in a scenario file as on the command line. Times are held as integer nanoseconds,
//! rates as bits a second and sizes as bytes; a value that does not fit exactly is an error, never rounded.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A span of time, such as `"400ms"`; units: ns, us, ms, s, min, h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A data rate in bits a second, such as `"30kbit/s"`; units: bit/s, kbit/s, Mbit/s, Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

/// A size in bytes, such as `"2500B"`; units: B, kB, MB (powers of ten), KiB, MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A span that is drawn uniformly from a range, such as `"10ms..20ms"`, or one that is always the same, `"15ms"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanRange {
    least: Duration,
    most: Duration,
}

/// Why a quantity could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` is not {what}: {problem}; write it as in \"{example}\"")]
pub struct UnitError {
    input: String,
    what: &'static str,
    problem: String,
    example: &'static str,
}

impl SpanRange {
    /// Every span from `least` to `most`, or `None` if `least` is the longer one.
    #[must_use]
    pub fn new(least: Duration, most: Duration) -> Option<Self> {
        (least <= most).then_some(Self { least, most })
    }

    /// The range as nanoseconds.
    #[must_use]
    pub fn as_nanos(&self) -> RangeInclusive<u64> {
        nanos(self.least)..=nanos(self.most)
    }

    /// The shortest span of the range.
    #[must_use]
    pub fn least(&self) -> Duration {
        self.least
    }

    /// The longest span of the range.
    #[must_use]
    pub fn most(&self) -> Duration {
        self.most
    }
}

/// What the three kinds of quantity share: a decimal number and a unit with its factor.
trait Quantity: Sized {
    const WHAT: &'static str;
    const EXAMPLE: &'static str;
    /// Unit names with what one of them is in the base unit, the longest names first where one ends in another.
    const UNITS: &'static [(&'static str, u64)];
    fn from_base(base: u64) -> Self;
    fn to_base(&self) -> u64;

    fn parse(input: &str) -> Result<Self, UnitError> {
        let fail =
            |problem: String| UnitError { input: input.to_owned(), what: Self::WHAT, problem, example: Self::EXAMPLE };
        let text = input.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim_start());
        if number.is_empty() {
            return Err(fail("it does not start with a number".to_owned()));
        }
        if unit.is_empty() {
            return Err(fail("a bare number has no unit".to_owned()));
        }
        let Some(&(_, factor)) = Self::UNITS.iter().find(|(name, _)| *name == unit) else {
            let known: Vec<_> = Self::UNITS.iter().map(|(name, _)| *name).collect();
            return Err(fail(format!("unknown unit `{unit}`, the units are {}", known.join(", "))));
        };
        scale(number, factor).map(Self::from_base).map_err(|problem| fail(problem.to_owned()))
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.to_base();
        let (name, factor) = Self::UNITS
            .iter()
            .filter(|(_, factor)| base.is_multiple_of(*factor) && base >= *factor)
            .max_by_key(|(_, factor)| *factor)
            .unwrap_or(&Self::UNITS[0]);
        write!(f, "{}{name}", base / factor)
    }
}

/// `number`, a plain decimal, times `factor`, if that is a whole number that fits.
fn scale(number: &str, factor: u64) -> Result<u64, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err("the number is malformed");
    }
    if fraction.len() > 18 {
        return Err("the number has too many decimals");
    }
    let digits = |text: &str| if text.is_empty() { Ok(0) } else { text.parse::<u128>() };
    let (Ok(whole), Ok(part)) = (digits(whole), digits(fraction)) else {
        return Err("the number is too large");
    };
    let denominator = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(u32::MAX));
    let numerator =
        whole.checked_mul(denominator).and_then(|n| n.checked_add(part)).and_then(|n| n.checked_mul(factor.into()));
    match numerator {
        Some(n) if !n.is_multiple_of(denominator) => Err("it is finer than the smallest unit"),
        Some(n) => u64::try_from(n / denominator).map_err(|_| "the number is too large"),
        None => Err("the number is too large"),
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

    fn from_base(base: u64) -> Self {
        Self(Duration::from_nanos(base))
    }

    fn to_base(&self) -> u64 {
        nanos(self.0)
    }
}

impl Quantity for Rate {
    const WHAT: &'static str = "a data rate";
    const EXAMPLE: &'static str = "30kbit/s";
    const UNITS: &'static [(&'static str, u64)] =
        &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];

    fn from_base(base: u64) -> Self {
        Self(base)
    }

    fn to_base(&self) -> u64 {
        self.0
    }
}

impl Quantity for Size {
    const WHAT: &'static str = "a size";
    const EXAMPLE: &'static str = "2500B";
    const UNITS: &'static [(&'static str, u64)] =
        &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("KiB", 1 << 10), ("MiB", 1 << 20)];

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
            example: "10ms..20ms",
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

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Strings in, strings out; numbers get an error that shows what to write.
struct UnitVisitor<T> {
    what: &'static str,
    example: &'static str,
    parsed: std::marker::PhantomData<T>,
}

impl<T> UnitVisitor<T> {
    fn bare<E: de::Error>(&self, number: impl fmt::Display) -> E {
        E::custom(format_args!("the bare number {number} has no unit; write {} as in \"{}\"", self.what, self.example))
    }
}

impl<T: FromStr<Err = UnitError>> Visitor<'_> for UnitVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as in \"{}\"", self.what, self.example)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        Err(self.bare(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Err(self.bare(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        Err(self.bare(number))
    }
}

macro_rules! quantity {
    ($name:ident) => {
        impl FromStr for $name {
            type Err = UnitError;

            fn from_str(input: &str) -> Result<Self, UnitError> {
                Self::parse(input)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.show(f)
            }
        }

        as_string!($name, $name::WHAT, $name::EXAMPLE);
    };
}

macro_rules! as_string {
    ($name:ident, $what:expr, $example:expr) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(UnitVisitor {
                    what: $what,
                    example: $example,
                    parsed: std::marker::PhantomData,
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

quantity!(Span);
quantity!(Rate);
quantity!(Size);
as_string!(SpanRange, "a time or a range of times", "10ms..20ms");

#[cfg(test)]
mod tests;
