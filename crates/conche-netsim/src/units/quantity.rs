//! Quantities: a number and its unit.

use std::borrow::Cow;
use std::fmt;

/// Why a quantity could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` is not {what}: {problem}; write it as in \"{example}\"")]
pub struct UnitError {
    pub(super) input: String,
    pub(super) what: &'static str,
    pub(super) problem: String,
    pub(super) example: Cow<'static, str>,
}

pub(super) trait Quantity: Sized {
    const WHAT: &'static str;
    const EXAMPLE: &'static str;
    /// Units and their sizes in the smallest one.
    const UNITS: &'static [(&'static str, u64)];
    /// Unit of zero in the short form.
    const MAIN_UNIT: &'static str;
    fn from_base(base: u64) -> Self;
    fn to_base(&self) -> u64;

    fn parse(input: &str) -> Result<Self, UnitError> {
        let fail = |problem: String| UnitError {
            input: input.to_owned(),
            what: Self::WHAT,
            problem,
            example: Self::EXAMPLE.into(),
        };
        let text = input.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim_start());
        if text.starts_with('-') {
            return Err(fail("it is negative".to_owned()));
        }
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
        if f.alternate() {
            return Self::show_short(base, f);
        }
        let (name, factor) = Self::UNITS
            .iter()
            .filter(|(_, factor)| base.is_multiple_of(*factor) && base >= *factor)
            .max_by_key(|(_, factor)| *factor)
            .unwrap_or(&Self::UNITS[0]);
        write!(f, "{}{name}", base / factor)
    }

    /// Formats with up to three decimals, in the largest unit that is exact: `26.8kbit/s`.
    fn show_short(base: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = u128::from(base);
        let thousandths = |factor: u64| base * 1_000 / u128::from(factor);
        let is_exact = |factor: u64| (base * 1_000).is_multiple_of(factor.into()) && base >= factor.into();
        let exact = Self::UNITS.iter().filter(|(_, factor)| is_exact(*factor));
        let Some((name, factor)) = exact.max_by_key(|(_, factor)| *factor) else {
            return write!(f, "0{}", Self::MAIN_UNIT);
        };
        let (whole, part) = (thousandths(*factor) / 1_000, thousandths(*factor) % 1_000);
        match format!("{part:03}").trim_end_matches('0') {
            "" => write!(f, "{whole}{name}"),
            decimals => write!(f, "{whole}.{decimals}{name}"),
        }
    }
}

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

macro_rules! quantity {
    ($name:ident) => {
        impl std::str::FromStr for $name {
            type Err = $crate::units::UnitError;

            fn from_str(input: &str) -> Result<Self, $crate::units::UnitError> {
                <Self as $crate::units::quantity::Quantity>::parse(input)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::units::quantity::Quantity::show(self, f)
            }
        }
    };
}

pub(super) use quantity;
