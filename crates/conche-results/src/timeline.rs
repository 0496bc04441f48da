//! Some exchanges with every copy of their requests.

use serde::{Deserialize, Serialize};

/// An exchange, copy by copy.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Timeline {
    /// Why this one.
    pub which: Which,
    /// The scheme.
    pub scheme: String,
    /// The traffic that it belongs to.
    pub traffic: String,
    /// The number of the client's node.
    pub client: u32,
    /// The number of the server's node.
    pub server: u32,
    /// When its first copy left, in seconds since the run began.
    pub start_s: f64,
    /// How long it took, in seconds.
    pub lasted_s: f64,
    /// Whether it was answered.
    pub is_answered: bool,
    /// Of each copy when it left, in seconds after the first one, and for how many the sender would wait then.
    pub copies: Vec<(f64, f64)>,
}

/// Which exchange of a scheme's in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// The one that took longest.
    Slowest,
    /// The one that half of all took no longer than.
    Median,
    /// The one with most copies; of several, the longest.
    MostCopies,
}

impl Which {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Slowest, Self::Median, Self::MostCopies];

    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Slowest => "the slowest",
            Self::Median => "the median",
            Self::MostCopies => "the one with most retransmissions",
        }
    }
}
