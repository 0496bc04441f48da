//! Full backoff: the backed-off timer carries over, as in TCP since Karn and Partridge.
//!
//! Source: ANRW'18 §4.2. An exchange with a retransmission gives no round-trip time, but its last
//! timeout may have been too short: full backoff keeps it, unrandomised, until an exchange needs no
//! retransmission. Variant 3 of the default is from code for Contiki
//! (github.com/vishal623/CoAP-Fullbackoff-Variants).
//!
//! Readings, checked against the paper's figures: in variant 2, only exchanges without a
//! retransmission halve the default's kept timer, and CoCoA keeps min(32 s, f(x)·x), x the larger
//! of the armed timer and the updated RTO. Not in the paper: failure ([`suggests_congestion`])
//! keeps the last timer, kept timers do not age, and Non-confirmable messages change nothing.
//!
//! Uncertain: whether a retransmission restarts variant 3's count of successes, for which the code
//! has a line that is commented out. Here it does. The code keeps one timer for all peers; here
//! each peer has its own.

use crate::backoff::{grown, suggests_congestion};
use crate::cocoa::{self, Cocoa, FrozenFactor, draft03::CocoaPeer};
use crate::control::{Abandoned, Acknowledged, Sent, Snapshot};
use crate::default::{self, CoapDefault};
use crate::features::Features;
use crate::parameters::words;
use crate::rule::RtoRule;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// A backed-off exchange's timeout; zero for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptTimeout(Micros);

impl KeptTimeout {
    /// Returns the kept timeout.
    #[must_use]
    pub fn get(self) -> Option<Micros> {
        (self.0 != Micros::ZERO).then_some(self.0)
    }

    fn after_failure(last: Option<Micros>, event: &Abandoned<'_>) -> Option<Self> {
        last.filter(|_| suggests_congestion(event)).map(Self)
    }
}

/// Effect of an exchange without retransmission on the default's kept timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Variant 1: it is dropped.
    #[default]
    Forget,
    /// Variant 2: halved, and dropped unless the half exceeds the longest first timeout.
    Halve,
    /// Variant 3: divided by 2^j by the j-th in succession, and dropped unless the quotient exceeds
    /// the shortest first timeout. First timeouts exceed it by as much as the default's are
    /// randomised.
    Divide,
}

/// The default with full backoff.
///
/// ```
/// use conche_cc::full_backoff::{DefaultFullBackoff, Recovery};
///
/// assert_eq!(DefaultFullBackoff::variant_2().recovery, Recovery::Halve);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultFullBackoff {
    /// Used while no timeout is kept.
    pub default: CoapDefault,
    /// Effect of an exchange without retransmission.
    pub recovery: Recovery,
}

impl DefaultFullBackoff {
    /// Variant 1 of ANRW'18.
    #[must_use]
    pub fn variant_1() -> Self {
        Self::default()
    }

    /// Variant 2 of ANRW'18.
    #[must_use]
    pub fn variant_2() -> Self {
        Self { recovery: Recovery::Halve, ..Self::default() }
    }

    /// Variant 3, from code for Contiki.
    #[must_use]
    pub fn variant_3() -> Self {
        Self { recovery: Recovery::Divide, ..Self::default() }
    }

    fn recovered(&self, peer: DefaultFullBackoffPeer) -> DefaultFullBackoffPeer {
        let (kept, successes) = (peer.kept, peer.successes.saturating_add(1));
        let initial = self.default.initial();
        let (rest, least) = match self.recovery {
            Recovery::Forget => (Micros::ZERO, initial),
            Recovery::Halve => (kept.0.shifted(1), initial.scaled(self.default.ack_random_factor)),
            Recovery::Divide => (kept.0.shifted(successes.min(31)), initial),
        };
        let kept = if rest > least { KeptTimeout(rest) } else { KeptTimeout::default() };
        DefaultFullBackoffPeer { kept, successes }
    }
}

/// Per-peer state of the default with full backoff: 5 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct DefaultFullBackoffPeer {
    kept: KeptTimeout,
    /// Exchanges without retransmission since the timeout was kept.
    successes: u8,
}

impl From<KeptTimeout> for DefaultFullBackoffPeer {
    fn from(kept: KeptTimeout) -> Self {
        Self { kept, successes: 0 }
    }
}

words!(Recovery { Forget = "forget", Halve = "halve", Divide = "divide" });

crate::parameters! {
    DefaultFullBackoff {
        "recovery" => recovery, Recovery::RANGE,
            "effect of an exchange without retransmission on the kept timeout", "ANRW'18 §4.2";
    } + default
}

/// Feature table row of the default, variant 1.
pub const DEFAULT_FB1_FEATURES: Features = Features {
    about: "the default, whose backed-off timer is kept until an exchange needs no retransmission",
    reuses_backed_off_rto: true,
    source: "ANRW'18 §4.2",
    peer_bytes: size_of::<DefaultFullBackoffPeer>(),
    published_bytes: None,
    ..default::FEATURES
};

/// Feature table row of the default, variant 2.
pub const DEFAULT_FB2_FEATURES: Features = Features {
    about: "the default, whose kept timer is halved by each exchange without a retransmission",
    ..DEFAULT_FB1_FEATURES
};

/// Feature table row of the default, variant 3.
pub const DEFAULT_FB3_FEATURES: Features = Features {
    about: "the default, whose kept timer is divided by 2^j by the j-th exchange in a row without a retransmission",
    dithering: "timer + [0, 1] s",
    source: "CoAP-Fullbackoff-Variants (Contiki code)",
    ..DEFAULT_FB1_FEATURES
};

impl RtoRule for DefaultFullBackoff {
    type Peer = DefaultFullBackoffPeer;
    type Exchange = ();
    const MEASURES_RTT: bool = false;

    fn new_peer(&self, _now: Instant) -> DefaultFullBackoffPeer {
        DefaultFullBackoffPeer::default()
    }

    fn rto(&self, peer: &DefaultFullBackoffPeer) -> Micros {
        let kept = peer.kept;
        kept.get().unwrap_or(self.default.initial())
    }

    fn first_timeout(&self, peer: &mut DefaultFullBackoffPeer, (): &mut (), sent: &Sent) -> Micros {
        let (kept, drawn) = (peer.kept, self.default.draw(sent.random));
        let first = match kept.get() {
            Some(kept) if self.recovery == Recovery::Divide => kept.plus(drawn.minus(self.default.initial())),
            Some(kept) => kept,
            None => drawn,
        };
        first.min(self.default.cap())
    }

    fn next_timeout(&self, _peer: &mut Self::Peer, (): &mut (), current: Micros, _sent: &Sent) -> Micros {
        grown(current, Factor::TWO, self.default.cap())
    }

    fn on_ack(&self, peer: &mut DefaultFullBackoffPeer, timeout: Option<Micros>, event: &Acknowledged<'_>) {
        if let Some(armed) = timeout {
            *peer = if event.retransmissions() > 0 { KeptTimeout(armed).into() } else { self.recovered(*peer) };
        }
    }

    fn on_failure(&self, peer: &mut DefaultFullBackoffPeer, timeout: Option<Micros>, event: &Abandoned<'_>) {
        if let Some(kept) = KeptTimeout::after_failure(timeout, event) {
            *peer = kept.into();
        }
    }
}

/// The timeout kept by CoCoA after a retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Variant 1: the armed timeout.
    #[default]
    Unchanged,
    /// Variant 2: the larger of the armed timeout and the updated RTO, backed off once.
    OnceMore,
}

/// CoCoA with full backoff.
///
/// ```
/// use conche_cc::cocoa::Cocoa;
/// use conche_cc::full_backoff::CocoaFullBackoff;
///
/// // As in ANRW'18.
/// let measured = CocoaFullBackoff { cocoa: Cocoa::anrw18(), ..CocoaFullBackoff::variant_2() };
/// assert_ne!(measured, CocoaFullBackoff::variant_2());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CocoaFullBackoff {
    /// Used while no timeout is kept.
    pub cocoa: Cocoa,
    /// The timeout that is kept.
    pub growth: Growth,
}

impl CocoaFullBackoff {
    /// Variant 1 of ANRW'18.
    #[must_use]
    pub fn variant_1() -> Self {
        Self::default()
    }

    /// Variant 2 of ANRW'18.
    #[must_use]
    pub fn variant_2() -> Self {
        Self { growth: Growth::OnceMore, ..Self::default() }
    }

    fn kept_after(&self, armed: Micros, rto: Micros) -> Micros {
        match self.growth {
            Growth::Unchanged => armed,
            Growth::OnceMore => {
                let longer = armed.max(rto);
                let grown = longer.scaled(self.cocoa.backoff.factor(longer));
                grown.min(self.cocoa.backoff_limit.into())
            }
        }
    }
}

/// Per-peer state: 28 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaFullBackoffPeer {
    cocoa: CocoaPeer,
    kept: KeptTimeout,
}

words!(Growth { Unchanged = "unchanged", OnceMore = "once-more" });

crate::parameters! {
    CocoaFullBackoff {
        "growth" => growth, Growth::RANGE, "timeout kept after a retransmission", "ANRW'18 §4.2";
    } + cocoa
}

/// Feature table row of CoCoA, variant 1.
pub const COCOA_FB1_FEATURES: Features = Features {
    about: "CoCoA, whose backed-off timer is kept until an exchange needs no retransmission",
    reuses_backed_off_rto: true,
    source: "ANRW'18 §4.2",
    peer_bytes: size_of::<CocoaFullBackoffPeer>(),
    published_bytes: None,
    ..cocoa::draft03::FEATURES
};

/// Feature table row of CoCoA, variant 2.
pub const COCOA_FB2_FEATURES: Features =
    Features { about: "CoCoA, whose backed-off timer is backed off once more and kept", ..COCOA_FB1_FEATURES };

impl RtoRule for CocoaFullBackoff {
    type Peer = CocoaFullBackoffPeer;
    type Exchange = FrozenFactor;
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, now: Instant) -> CocoaFullBackoffPeer {
        CocoaFullBackoffPeer { cocoa: self.cocoa.new_peer(now), kept: KeptTimeout::default() }
    }

    fn age(&self, peer: &mut CocoaFullBackoffPeer, now: Instant) {
        self.cocoa.age(&mut peer.cocoa, now);
    }

    fn rto(&self, peer: &CocoaFullBackoffPeer) -> Micros {
        peer.kept.get().unwrap_or_else(|| self.cocoa.rto(&peer.cocoa))
    }

    fn first_timeout(&self, peer: &mut CocoaFullBackoffPeer, factor: &mut FrozenFactor, sent: &Sent) -> Micros {
        let first = peer.kept.get().unwrap_or_else(|| self.cocoa.draw(&peer.cocoa, sent));
        self.cocoa.start(&mut peer.cocoa, factor, sent, first)
    }

    fn next_timeout(&self, peer: &mut Self::Peer, factor: &mut FrozenFactor, current: Micros, sent: &Sent) -> Micros {
        self.cocoa.next_timeout(&mut peer.cocoa, factor, current, sent)
    }

    fn on_ack(&self, peer: &mut CocoaFullBackoffPeer, timeout: Option<Micros>, event: &Acknowledged<'_>) {
        self.cocoa.on_ack(&mut peer.cocoa, timeout, event);
        if let Some(armed) = timeout {
            peer.kept = if event.retransmissions() > 0 {
                KeptTimeout(self.kept_after(armed, self.cocoa.rto(&peer.cocoa)))
            } else {
                KeptTimeout::default()
            };
        }
    }

    fn on_failure(&self, peer: &mut CocoaFullBackoffPeer, timeout: Option<Micros>, event: &Abandoned<'_>) {
        if let Some(kept) = KeptTimeout::after_failure(timeout, event) {
            peer.kept = kept;
        }
    }

    fn report(&self, peer: &CocoaFullBackoffPeer) -> Snapshot {
        Snapshot { rto: self.rto(peer).into(), ..self.cocoa.report(&peer.cocoa) }
    }
}

#[cfg(test)]
mod tests;
