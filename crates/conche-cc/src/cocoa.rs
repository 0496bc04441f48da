//! The CoCoA family: Simple Congestion Control/Advanced.
//!
//! CoCoA keeps two RFC 6298 estimators, one for round-trip times of exchanges that needed no retransmission (strong)
//! and one for those that did (weak), and blends each new estimate into one RTO.
//!
//! | module | algorithm | source |
//! |---|---|---|
//! | [`draft03`] | CoCoA and CoCoA+ | draft-ietf-core-cocoa-03; ComMag'16 |
//! | [`v2014`] | CoCoA as first published, and its optimised form | ETFA'14 (draft-01) |
//! | [`strong`] | CoCoA-S, strong estimator only | ComMag'16 |
//! | [`ageing`] | what idleness does to an RTO, shared by all | draft-ietf-core-cocoa-03 §4.3 |

pub mod ageing;
pub mod draft03;
pub mod strong;
pub mod v2014;

pub use ageing::{Aging, SmallAging};
pub use draft03::Cocoa;
pub use strong::CocoaS;
pub use v2014::Cocoa2014;

use core::time::Duration;

use crate::backoff::{Timer, VariableBackoff};
use crate::control::Sent;
use crate::units::{Factor, Micros};

/// The first RTO of every CoCoA, and what it calls `ACK_TIMEOUT`.
pub const INITIAL_RTO: Duration = Duration::from_secs(2);
/// No RTO is longer.
pub const MAX_RTO: Duration = Duration::from_secs(60);
/// Backoff is truncated here, and no exchange starts from more (draft-ietf-core-cocoa-03 §4.2.1).
pub const BACKOFF_LIMIT: Duration = Duration::from_secs(32);

/// Which timer a variable backoff factor is chosen by. The sources disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vbf {
    /// By the timer that ran out: 0.3 s → 0.9 → 2.7 → 5.4 (text and pseudocode of draft-ietf-core-cocoa-03). The
    /// figures of ANRW'18 come out with this reading only.
    #[default]
    Current,
    /// By the first timer of the exchange, after dithering: 0.3 s → 0.9 → 2.7 → 8.1 (ETFA'14, ComMag'16, Californium).
    Frozen,
}

/// What an exchange remembers under any CoCoA: its current timer and, with a frozen factor, that factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaFlight {
    timer: Timer,
    frozen: Factor,
}

impl Default for CocoaFlight {
    fn default() -> Self {
        Self { timer: Timer::default(), frozen: Factor::TWO }
    }
}

impl CocoaFlight {
    /// The timer that was armed last, if any was.
    #[must_use]
    pub fn armed(&self) -> Option<Micros> {
        self.timer.armed()
    }
}

/// How the timers of one exchange follow from its first.
#[derive(Clone, Copy)]
struct Series {
    backoff: VariableBackoff,
    vbf: Vbf,
    /// Copies are not backed off beyond this.
    limit: Micros,
    /// No first timer is longer.
    cap: Micros,
}

impl Series {
    /// Arms the timer of a copy, of an exchange whose first timer is `first()`.
    fn arm(self, flight: &mut CocoaFlight, event: &Sent, first: impl FnOnce() -> Micros) -> Duration {
        let Some(current) = flight.armed() else {
            let first = first();
            flight.frozen = self.backoff.factor(first);
            return flight.timer.arm(event, || first, flight.frozen, self.cap);
        };
        let factor = match self.vbf {
            Vbf::Current => self.backoff.factor(current),
            Vbf::Frozen => flight.frozen,
        };
        flight.timer.arm(event, || current, factor, self.limit)
    }
}
