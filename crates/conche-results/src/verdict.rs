//! What becomes of what is said in words.

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The outcome lies where it must, with all of its 95 % interval.
    Holds,
    /// Some of the interval lies where it must and some does not, or there is no interval.
    Inconclusive,
    /// No part of the interval lies where it must.
    Refuted,
}

impl Verdict {
    /// As a figure has it: 1 if the claim holds, 0 if it is refuted, and one half in between.
    #[must_use]
    pub const fn number(self) -> f64 {
        match self {
            Self::Holds => 1.0,
            Self::Inconclusive => 0.5,
            Self::Refuted => 0.0,
        }
    }

    /// What a figure's number stands for.
    #[must_use]
    pub fn of(number: f64) -> Self {
        match number {
            0.75.. => Self::Holds,
            0.25..0.75 => Self::Inconclusive,
            _ => Self::Refuted,
        }
    }

    /// As tables have it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Inconclusive => "inconclusive",
            Self::Refuted => "does not hold",
        }
    }
}
