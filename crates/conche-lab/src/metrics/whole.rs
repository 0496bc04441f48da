//! What a part of a run does not tell.

use super::{Metric, Received};

impl Metric {
    /// Whether it is counted for whole runs only, or is of all that flows have: no phase has it.
    #[must_use]
    pub const fn needs_the_whole(&self) -> bool {
        matches!(
            self,
            Self::CompletionTime
                | Self::Settling { .. }
                | Self::Copies
                | Self::Drops
                | Self::Received(Received::Frames)
        )
    }
}
