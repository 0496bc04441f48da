//! Probabilities, in per cent.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::UnitError;

/// A probability, such as `"5%"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probability(pub f64);

pub(super) const WHAT: &str = "a probability";
pub(super) const EXAMPLE: &str = "5%";

/// Returns the probability that a number without a unit means; `None` if it is none. Above 1, it is
/// in per cent.
pub(super) fn meant(number: f64) -> Option<String> {
    let percent = if number > 1.0 { number } else { (number * 1e11).round() / 1e9 };
    (0.0..=100.0).contains(&number).then(|| format!("{percent}%"))
}

impl FromStr for Probability {
    type Err = UnitError;

    fn from_str(input: &str) -> Result<Self, UnitError> {
        let fail = |problem: &str, example: Cow<'static, str>| UnitError {
            input: input.to_owned(),
            what: WHAT,
            problem: problem.to_owned(),
            example,
        };
        let text = input.trim();
        if text.starts_with('-') {
            return Err(fail("it is negative", EXAMPLE.into()));
        }
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let Some(number) = text.strip_suffix('%').map(str::trim_end) else {
            let number = text.parse().ok().filter(|_| is_number(text));
            return Err(match number.and_then(meant) {
                Some(meant) => fail("a bare number has no unit", meant.into()),
                None => fail("it is not in per cent", EXAMPLE.into()),
            });
        };
        let malformed = || fail("the number is malformed", EXAMPLE.into());
        if !is_number(number) {
            return Err(malformed());
        }
        // In the text, so that "0.1%" is exactly the number 0.001.
        let probability: f64 = format!("{number}e-2").parse().map_err(|_| malformed())?;
        if probability > 1.0 { Err(fail("it is above 100%", EXAMPLE.into())) } else { Ok(Self(probability)) }
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nine decimals of a per cent, without the error of binary fractions.
        write!(f, "{}%", (self.0 * 1e11).round() / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cent_are_the_nearest_number() {
        for (text, expected) in
            [("5%", 0.05), ("0.1%", 0.001), ("0%", 0.0), ("100%", 1.0), (" 12.5 %", 0.125), ("0.2%", 0.002)]
        {
            assert_eq!(text.parse(), Ok(Probability(expected)), "{text}");
            assert_eq!(Probability(expected).to_string(), text.replace(' ', ""));
        }
    }

    #[test]
    fn other_than_per_cent_up_to_100_is_refused() {
        for (text, expected) in [
            ("0.05", "`0.05` is not a probability: a bare number has no unit; write it as in \"5%\""),
            ("20", "`20` is not a probability: a bare number has no unit; write it as in \"20%\""),
            ("200", "it is not in per cent; write it as in \"5%\""),
            ("", "it is not in per cent"),
            ("500%", "it is above 100%"),
            ("-5%", "it is negative"),
            ("-0.1", "it is negative"),
            ("1e3%", "the number is malformed"),
            ("%", "the number is malformed"),
            (".%", "the number is malformed"),
        ] {
            let error = text.parse::<Probability>().expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
