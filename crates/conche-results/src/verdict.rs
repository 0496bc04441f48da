//! Verdicts on claims.

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The outcome's 95 % interval lies inside the claimed range.
    Holds,
    /// The interval lies partly inside, or is missing.
    Inconclusive,
    /// The interval lies outside.
    Refuted,
}

impl Verdict {
    /// Returns 1 if the claim holds, 0 if refuted, else 0.5.
    #[must_use]
    pub const fn number(self) -> f64 {
        match self {
            Self::Holds => 1.0,
            Self::Inconclusive => 0.5,
            Self::Refuted => 0.0,
        }
    }

    /// Returns the verdict of a value.
    #[must_use]
    pub fn of(number: f64) -> Self {
        match number {
            0.75.. => Self::Holds,
            0.25..0.75 => Self::Inconclusive,
            _ => Self::Refuted,
        }
    }

    /// Returns the word for tables.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Inconclusive => "inconclusive",
            Self::Refuted => "does not hold",
        }
    }
}
