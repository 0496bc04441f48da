//! The CoCoA family: Simple Congestion Control/Advanced.
//!
//! CoCoA keeps two RFC 6298 estimators: the strong one samples exchanges without retransmissions,
//! the weak one exchanges with retransmissions. Each new estimate is blended into one RTO.
//!
//! | module | algorithm | source |
//! |---|---|---|
//! | [`draft03`] | CoCoA and CoCoA+ | draft-ietf-core-cocoa-03; ComMag'16 |
//! | [`v2014`] | CoCoA as first published, and its optimised form | ETFA'14 (draft-01) |
//! | [`strong`] | CoCoA-S, strong estimator only | ComMag'16 |
//! | [`ageing`] | ageing of the RTO of an idle peer | draft-ietf-core-cocoa-03 §4.3 |

pub mod ageing;
pub mod draft03;
pub mod strong;
pub mod v2014;

pub use ageing::{Aging, SmallAging};
pub use draft03::Cocoa;
pub use strong::CocoaS;
pub use v2014::Cocoa2014;

use core::time::Duration;

use crate::backoff::{VariableBackoff, grown};
use crate::units::{Factor, Micros};

/// RTO before the first sample (`ACK_TIMEOUT`).
pub const INITIAL_RTO: Duration = Duration::from_secs(2);
/// Maximum RTO.
pub const MAX_RTO: Duration = Duration::from_secs(60);
/// Limit of backoff, and maximum RTO of a new exchange (draft-ietf-core-cocoa-03 §4.2.1).
pub const BACKOFF_LIMIT: Duration = Duration::from_secs(32);

/// The timeout that selects the variable backoff factor. The sources disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vbf {
    /// The expired timeout: 0.3 s → 0.9 → 2.7 → 5.4 (text and pseudocode of
    /// draft-ietf-core-cocoa-03). Only this reading reproduces ANRW'18.
    #[default]
    Current,
    /// The first timeout of the exchange, after randomisation: 0.3 s → 0.9 → 2.7 → 8.1 (ETFA'14,
    /// ComMag'16, Californium).
    Frozen,
}

/// Per-exchange state of every CoCoA: the backoff factor that its first timeout selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrozenFactor(Factor);

impl Default for FrozenFactor {
    fn default() -> Self {
        Self(Factor::TWO)
    }
}

impl FrozenFactor {
    /// Selects the factor by the first timeout of the exchange, and returns that timeout.
    fn freeze(&mut self, backoff: VariableBackoff, first: Micros) -> Micros {
        self.0 = backoff.factor(first);
        first
    }
}

impl Vbf {
    /// Returns the timeout after `current`, at most `limit` but not less than `current`.
    fn next(self, frozen: FrozenFactor, current: Micros, backoff: VariableBackoff, limit: Micros) -> Micros {
        let factor = match self {
            Self::Current => backoff.factor(current),
            Self::Frozen => frozen.0,
        };
        grown(current, factor, limit)
    }
}
