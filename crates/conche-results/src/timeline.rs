//! Timelines of selected exchanges.

use serde::{Deserialize, Serialize};

/// An exchange, transmission by transmission.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Timeline {
    /// The reason for its selection.
    pub which: Which,
    /// The scheme.
    pub scheme: String,
    /// The traffic that it belongs to.
    pub traffic: String,
    /// The number of the client's node.
    pub client: u32,
    /// The number of the server's node.
    pub server: u32,
    /// Time of the first transmission, in seconds since the start of the run.
    pub start_s: f64,
    /// Its duration, in seconds.
    pub lasted_s: f64,
    /// Whether it was answered.
    pub is_answered: bool,
    /// For each transmission, its time after the first one and its timeout, in seconds.
    pub copies: Vec<(f64, f64)>,
}

/// The exchange that is selected, of those of a scheme in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// The slowest.
    Slowest,
    /// The one of median duration.
    Median,
    /// The one with the most transmissions; of several, the slowest.
    MostCopies,
}

impl Which {
    /// All selections.
    pub const ALL: [Self; 3] = [Self::Slowest, Self::Median, Self::MostCopies];

    /// Returns the description.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Slowest => "the slowest",
            Self::Median => "the median",
            Self::MostCopies => "the one with most retransmissions",
        }
    }
}
