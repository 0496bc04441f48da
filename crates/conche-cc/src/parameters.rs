//! Parameters of controllers by name: tables, parsing and errors.
//!
//! [`parameters!`](crate::parameters!) writes a controller's table, from which command line,
//! scenarios and `conche controllers --parameters` derive. It is optional for controllers of other
//! crates:
//!
//! ```
//! use conche_cc::parameters::{Parameters, Range};
//! use core::time::Duration;
//!
//! #[derive(Clone, Debug)]
//! struct Mine {
//!     gain: u8,
//!     max_rto: Duration,
//! }
//!
//! conche_cc::parameters! {
//!     Mine {
//!         "gain" => gain, Range::count(1, 16), "RTO in round trips", "this crate";
//!         "max_rto" => max_rto, Range::millis(1_000, 120_000), "maximum RTO", "this crate";
//!     }
//! }
//!
//! let mut mine = Mine { gain: 2, max_rto: Duration::from_secs(60) };
//! mine.set("max_rto", "1.5s")?;
//! assert_eq!(mine.max_rto, Duration::from_millis(1_500));
//! assert!(mine.set("gain", "17").is_err());
//! # Ok::<(), conche_cc::parameters::SettingError>(())
//! ```

use core::fmt;
use core::time::Duration;

use crate::units::Factor;

/// A value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A time, such as `1.5s`.
    Span(Duration),
    /// A factor in thousandths, such as `1.5`.
    Factor(Factor),
    /// A whole number.
    Count(u32),
    /// `true` or `false`.
    Flag(bool),
    /// A word.
    Choice(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Span(span) => {
                let (unit, name) =
                    *SHOWN_UNITS.iter().find(|(unit, _)| span.as_nanos() >= *unit).unwrap_or(&(1_000_000_000, "s"));
                decimal(f, span.as_nanos(), unit)?;
                f.write_str(name)
            }
            Self::Factor(factor) => decimal(f, factor.permille().into(), 1_000),
            Self::Count(count) => write!(f, "{count}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Choice(word) => f.write_str(word),
        }
    }
}

const SHOWN_UNITS: &[(u128, &str)] = &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];

/// Nanoseconds per unit, longer names first.
const UNITS: &[(&str, u64)] = &[
    ("min", 60_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
    ("s", 1_000_000_000),
    ("h", 3_600_000_000_000),
];

/// `unit` is a power of ten.
fn decimal(f: &mut fmt::Formatter<'_>, number: u128, unit: u128) -> fmt::Result {
    write!(f, "{}", number / unit)?;
    let (mut rest, mut place) = (number % unit, unit / 10);
    if rest > 0 {
        f.write_str(".")?;
    }
    while rest > 0 {
        write!(f, "{}", rest / place)?;
        (rest, place) = (rest % place, place / 10);
    }
    Ok(())
}

/// Reads a decimal number as a whole number of 1/`unit`.
fn scaled(text: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let fraction_unit = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction = fraction.parse::<u128>().ok()?.checked_mul(unit.into())?;
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit);
    (fraction % fraction_unit == 0).then(|| u64::try_from(whole + fraction / fraction_unit).ok())?
}

fn span(text: &str) -> Option<Duration> {
    let (number, nanos) = UNITS.iter().find_map(|(name, nanos)| Some((text.strip_suffix(name)?, *nanos)))?;
    scaled(number.trim_end(), nanos).map(Duration::from_nanos)
}

fn factor(text: &str) -> Option<Factor> {
    scaled(text, 1_000).and_then(|permille| u16::try_from(permille).ok()).map(Factor::from_permille)
}

/// Valid values of a parameter, bounds included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// A time with a unit: `us`, `ms`, `s`, `min` or `h`.
    Span(Duration, Duration),
    /// A factor, exact to a thousandth.
    Factor(Factor, Factor),
    /// A whole number.
    Count(u32, u32),
    /// A rate in whole bytes per second.
    BytesPerSecond(u32, u32),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Range {
    /// Returns the times from `min` to `max` milliseconds.
    #[must_use]
    pub const fn millis(min: u64, max: u64) -> Self {
        Self::Span(Duration::from_millis(min), Duration::from_millis(max))
    }

    /// Returns the factors from `min` to `max` thousandths.
    #[must_use]
    pub const fn permille(min: u16, max: u16) -> Self {
        Self::Factor(Factor::from_permille(min), Factor::from_permille(max))
    }

    /// Returns the whole numbers from `min` to `max`.
    #[must_use]
    pub const fn count(min: u32, max: u32) -> Self {
        Self::Count(min, max)
    }

    /// Returns the unit of the values: `time`, `factor`, `bytes/s`, or `-`.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Span(..) => "time",
            Self::Factor(..) => "factor",
            Self::BytesPerSecond(..) => "bytes/s",
            Self::Count(..) | Self::Flag | Self::Choice(_) => "-",
        }
    }

    /// Reads a value; `None` if it is malformed or out of range.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<Value> {
        let text = text.trim();
        match self {
            Self::Span(min, max) => span(text).filter(|span| (min..=max).contains(span)).map(Value::Span),
            Self::Factor(min, max) => factor(text).filter(|factor| (min..=max).contains(factor)).map(Value::Factor),
            Self::Count(min, max) | Self::BytesPerSecond(min, max) => {
                text.parse().ok().filter(|count| (min..=max).contains(count)).map(Value::Count)
            }
            Self::Flag => text.parse().ok().map(Value::Flag),
            Self::Choice(words) => words.iter().find(|word| same_name(word, text)).map(|word| Value::Choice(word)),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Span(min, max) => write!(f, "{} to {}", Value::Span(min), Value::Span(max)),
            Self::Factor(min, max) => write!(f, "{} to {}", Value::Factor(min), Value::Factor(max)),
            Self::Count(min, max) | Self::BytesPerSecond(min, max) => write!(f, "{min} to {max}"),
            Self::Flag => f.write_str("true or false"),
            Self::Choice(words) => words.iter().enumerate().try_for_each(|(n, word)| {
                if n > 0 {
                    f.write_str("|")?;
                }
                f.write_str(word)
            }),
        }
    }
}

/// A parameter's row in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name of the configuration's field, in the terms of the source.
    pub name: &'static str,
    /// Valid values.
    pub range: Range,
    /// Effect, in one line.
    pub about: &'static str,
    /// Definition: RFC, draft or paper.
    pub source: &'static str,
}

/// A configuration that [`parameters!`](crate::parameters!) describes.
pub trait Parameters {
    /// Returns a parameter with its present value, in table order; `None` beyond the last.
    fn parameter(&self, index: usize) -> Option<(&'static Description, Value)>;

    /// Sets the parameter to a value in its range; returns whether it has one of this kind.
    fn assign(&mut self, index: usize, value: Value) -> bool;

    /// Sets a parameter by name; `-` equals `_`.
    ///
    /// # Errors
    ///
    /// If the name is unknown, or the value is malformed or out of range.
    fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let mut all = (0..).map_while(|index| Some((index, self.parameter(index)?.0)));
        let (index, description) = all.find(|(_, known)| same_name(known.name, name)).ok_or(SettingError::Unknown)?;
        let value = description.range.parse(value).ok_or(SettingError::Invalid(description))?;
        if self.assign(index, value) { Ok(()) } else { Err(SettingError::Invalid(description)) }
    }
}

/// Reasons against a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// The name is unknown.
    Unknown,
    /// The value is malformed or out of this parameter's range.
    Invalid(&'static Description),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such parameter"),
            Self::Invalid(Description { name, range, .. }) => write!(f, "{name} must be {range}"),
        }
    }
}

impl core::error::Error for SettingError {}

/// A field of a configuration that [`parameters!`](crate::parameters!) can set.
pub trait Field: Sized {
    /// Returns the value.
    fn value(&self) -> Value;

    /// Returns the field with this value; `None` if it is of another kind.
    fn of(value: Value) -> Option<Self>;
}

macro_rules! fields {
    ($($type:ty, $value:ident => $to:expr, $pattern:pat => $from:expr;)+) => {$(
        impl Field for $type {
            fn value(&self) -> Value {
                let $value = *self;
                $to
            }

            fn of(value: Value) -> Option<Self> {
                match value {
                    $pattern => $from,
                    _ => None,
                }
            }
        }
    )+};
}

fields! {
    Duration, span => Value::Span(span), Value::Span(span) => Some(span);
    Factor, factor => Value::Factor(factor), Value::Factor(factor) => Some(factor);
    bool, flag => Value::Flag(flag), Value::Flag(flag) => Some(flag);
    u8, count => Value::Count(count.into()), Value::Count(count) => count.try_into().ok();
    u16, count => Value::Count(count.into()), Value::Count(count) => count.try_into().ok();
    u32, count => Value::Count(count), Value::Count(count) => Some(count);
}

/// Describes an enum's variants as words, and makes it a [`Field`].
macro_rules! words {
    ($type:ty { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $type {
            pub(crate) const RANGE: $crate::parameters::Range = $crate::parameters::Range::Choice(&[$($word),+]);
        }

        impl $crate::parameters::Field for $type {
            fn value(&self) -> $crate::parameters::Value {
                $crate::parameters::Value::Choice(match self {
                    $(Self::$variant => $word,)+
                })
            }

            fn of(value: $crate::parameters::Value) -> Option<Self> {
                match value {
                    $($crate::parameters::Value::Choice($word) => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use words;

/// A row of a table and its field. [`parameters!`](crate::parameters!) writes it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Entry<C> {
    pub description: Description,
    pub get: fn(&C) -> Value,
    pub set: fn(&mut C, Value) -> bool,
}

/// Implements [`Parameters`] for a configuration: `"name" => field, range, effect, source;` for
/// each parameter. With `+ field`, the parameters of that field follow.
#[macro_export]
macro_rules! parameters {
    ($type:ty { $($name:literal => $($field:ident).+, $range:expr, $about:expr, $source:expr;)* } $(+ $inner:ident)?) => {
        impl $type {
            const PARAMETERS: &'static [$crate::parameters::Entry<Self>] = &[$(
                $crate::parameters::Entry {
                    description: $crate::parameters::Description {
                        name: $name,
                        range: $range,
                        about: $about,
                        source: $source,
                    },
                    get: |own| $crate::parameters::Field::value(&own.$($field).+),
                    set: |own, value| match $crate::parameters::Field::of(value) {
                        Some(value) => {
                            own.$($field).+ = value;
                            true
                        }
                        None => false,
                    },
                },
            )*];
        }

        impl $crate::parameters::Parameters for $type {
            fn parameter(
                &self,
                index: usize,
            ) -> Option<(&'static $crate::parameters::Description, $crate::parameters::Value)> {
                match Self::PARAMETERS.get(index) {
                    Some(entry) => Some((&entry.description, (entry.get)(self))),
                    None => {
                        $(return $crate::parameters::Parameters::parameter(
                            &self.$inner,
                            index - Self::PARAMETERS.len(),
                        );)?
                        #[allow(unreachable_code, reason = "an inner configuration answers instead")]
                        None
                    }
                }
            }

            fn assign(&mut self, index: usize, value: $crate::parameters::Value) -> bool {
                match Self::PARAMETERS.get(index) {
                    Some(entry) => (entry.set)(self, value),
                    None => {
                        $(return $crate::parameters::Parameters::assign(
                            &mut self.$inner,
                            index - Self::PARAMETERS.len(),
                            value,
                        );)?
                        #[allow(unreachable_code, reason = "an inner configuration answers instead")]
                        false
                    }
                }
            }
        }
    };
}

fn letters(name: &str) -> impl Iterator<Item = u8> + '_ {
    name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() })
}

pub(crate) fn same_name(a: &str, b: &str) -> bool {
    letters(a).eq(letters(b))
}

/// Returns the most similar `known` name within an edit distance of half its length.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (edits, nearest) = known.map(|known| (edits(known, name), known)).min()?;
    (edits <= nearest.len() / 2).then_some(nearest)
}

fn edits(a: &str, b: &str) -> usize {
    const LONGEST: usize = 32;
    let columns = b.len().min(LONGEST);
    let mut before = [0; LONGEST + 1];
    let mut above: [usize; LONGEST + 1] = core::array::from_fn(|n| n);
    let mut last_from = None;
    for (i, from) in letters(a).enumerate() {
        let mut row = [i + 1; LONGEST + 1];
        let mut last_to = None;
        for (j, to) in letters(b).take(LONGEST).enumerate() {
            row[j + 1] = (above[j] + usize::from(from != to)).min(above[j + 1] + 1).min(row[j] + 1);
            if (Some(from), last_from) == (last_to, Some(to)) {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
            last_to = Some(to);
        }
        (before, above, last_from) = (above, row, Some(from));
    }
    above[columns]
}

#[cfg(test)]
mod tests;
