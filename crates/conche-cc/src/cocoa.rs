//! The CoCoA family: Simple Congestion Control/Advanced. One RTO blends two RFC 6298 estimators,
//! strong (without retransmissions) and weak (with).
//!
//! | module | algorithm | source |
//! |---|---|---|
//! | [`draft03`] | CoCoA and CoCoA+ | draft-ietf-core-cocoa-03; ComMag'16 |
//! | [`contiki`] | CoCoA+ as its authors ran it on motes | Contiki, er-cocoa.c |
//! | [`plus_plus`] | CoCoA++: the same, with backoff by the delay gradient | FGCS 2019 |
//! | [`v2014`] | CoCoA as first published, and its optimised form | ETFA'14 (draft-01) |
//! | [`strong`] | CoCoA-S, strong estimator only | ComMag'16 |
//! | [`ageing`] | ageing of the RTO of an idle peer | draft-ietf-core-cocoa-03 §4.3 |

pub mod ageing;
pub mod contiki;
pub mod draft03;
pub mod plus_plus;
pub mod strong;
pub mod v2014;

pub use ageing::{Aging, SmallAging};
pub use contiki::CocoaContiki;
pub use draft03::Cocoa;
pub use plus_plus::CocoaPlusPlus;
pub use strong::CocoaS;
pub use v2014::Cocoa2014;

use core::time::Duration;

use crate::backoff::{VariableBackoff, grown};
use crate::parameters::words;
use crate::units::{Factor, Micros};

/// RTO before the first sample (`ACK_TIMEOUT`).
pub const INITIAL_RTO: Duration = Duration::from_secs(2);
/// Maximum RTO.
pub const MAX_RTO: Duration = Duration::from_secs(60);
/// Limit of backoff, and of a new exchange's RTO (draft-ietf-core-cocoa-03 §4.2.1).
pub const BACKOFF_LIMIT: Duration = Duration::from_secs(32);

/// The timeout that selects the variable backoff factor; the sources disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vbf {
    /// The expired timeout: 0.3 s → 0.9 → 2.7 → 5.4 (draft-ietf-core-cocoa-03, text and
    /// pseudocode). Only this reproduces ANRW'18.
    #[default]
    Current,
    /// The exchange's randomised first timeout: 0.3 s → 0.9 → 2.7 → 8.1 (ETFA'14, ComMag'16,
    /// Californium).
    Frozen,
}

words!(Vbf { Current = "current", Frozen = "frozen" });

/// Per-exchange state: the first timeout's backoff factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrozenFactor(Factor);

impl Default for FrozenFactor {
    fn default() -> Self {
        Self(Factor::TWO)
    }
}

impl FrozenFactor {
    fn freeze(&mut self, backoff: VariableBackoff, first: Micros) -> Micros {
        self.0 = backoff.factor(first);
        first
    }
}

impl Vbf {
    fn next(self, frozen: FrozenFactor, current: Micros, backoff: VariableBackoff, limit: Micros) -> Micros {
        let factor = match self {
            Self::Current => backoff.factor(current),
            Self::Frozen => frozen.0,
        };
        grown(current, factor, limit)
    }
}
