//! FASOR: Fast-Slow Retransmission Timeout and Congestion Control.
//!
//! Source: draft-ietf-core-fasor. The fast timer, TCP's estimator without its floor of 1 s,
//! recovers from noise. The slow one, 1.5 times an ambiguous exchange's duration, drains a full
//! queue. A state machine selects their order:
//!
//! | phase | timers of the exchange |
//! |---|---|
//! | FAST | F, 2F, 4F, … |
//! | FAST-SLOW-FAST | F, max(SLOW, 2F), 2F, 4F, … |
//! | SLOW-FAST | SLOW, F, 2F, … |
//!
//! An ambiguous acknowledgement, after a retransmission, moves FAST → FAST-SLOW-FAST → SLOW-FAST,
//! an unambiguous one back to FAST. **In the last two, timeouts may shrink within an exchange.**
//!
//! Divergences and resolutions:
//! - the text starts RTTVAR from R/8, the appendix's pseudocode from R/2 with a weight of 1 for the
//!   first RTO only: see [`FirstSample`];
//! - failure, not covered, counts as an ambiguous acknowledgement;
//! - an unambiguous acknowledgement *of a retransmission* gives a sample and moves to FAST;
//! - where transmissions are distinguishable (a Token each, or the draft's option), the last sample
//!   bounds the RTO from below: SRTT + 4·RTTVAR is at least that anyway;
//! - NSTART, ageing and Non-confirmable messages have no rules: the last are paced as in CoCoA.

use core::time::Duration;

use crate::backoff::{bounded, spread, suggests_congestion};
use crate::control::{Abandoned, Acknowledged, Sent, Snapshot};
use crate::estimator::{Estimator, Gains};
use crate::features::Features;
use crate::parameters::{Range, words};
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// Initial variation, from the first sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstSample {
    /// RTTVAR = R/8, RTO = R + 4·R/8 (the text).
    #[default]
    Text,
    /// RTTVAR = R/2, RTO = R + 1·R/2; later RTOs use 4·RTTVAR (the appendix).
    Pseudocode,
}

/// FASOR.
///
/// ```
/// use conche_cc::fasor::{Fasor, FasorPhase};
/// use conche_cc::{Controller, Instant};
///
/// let fasor = Fasor::default();
/// assert_eq!(fasor.peer(Instant::ZERO).phase(), FasorPhase::Fast);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fasor {
    /// Fast timer before the first sample.
    pub ack_timeout: Duration,
    /// Initial variation, from the first sample.
    pub first_sample: FirstSample,
    /// Maximum timeout; in the draft at least 60 s.
    pub max_timeout: Duration,
}

impl Default for Fasor {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(2),
            first_sample: FirstSample::Text,
            max_timeout: Duration::from_secs(60),
        }
    }
}

impl Fasor {
    /// The draft's appendix.
    #[must_use]
    pub fn pseudocode() -> Self {
        Self { first_sample: FirstSample::Pseudocode, ..Self::default() }
    }

    fn fast(&self, peer: &FasorPeer) -> Micros {
        let estimator = peer.estimator;
        let rto = match (estimator.is_unmeasured(), peer.first_rto) {
            (true, _) => self.ack_timeout.into(),
            (false, true) => estimator.rto(1),
            (false, false) => estimator.rto(4),
        };
        self.bounded(rto)
    }

    /// Randomised by SRTT·(1/4 + 3/4·u).
    fn spread_fast(&self, peer: &FasorPeer, random: u32) -> Micros {
        let fast = self.fast(peer);
        let estimator = peer.estimator;
        spread(fast, estimator.srtt().unwrap_or(fast.divided(3)), random)
    }

    fn bounded(&self, timer: Micros) -> Micros {
        bounded(timer, self.max_timeout.into())
    }

    fn sample(&self, peer: &mut FasorPeer, rtt: Micros) {
        let mut estimator = peer.estimator;
        let first = estimator.is_unmeasured();
        if first && self.first_sample == FirstSample::Text {
            estimator = Estimator::starting(rtt, rtt.shifted(3));
        } else {
            estimator.sample(rtt, Gains::RFC6298);
        }
        peer.estimator = estimator;
        peer.first_rto = first && self.first_sample == FirstSample::Pseudocode;
        peer.phase = FasorPhase::Fast;
    }
}

/// Order of timers in an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FasorPhase {
    /// Fast only, after an unambiguous exchange.
    #[default]
    Fast,
    /// Fast, slow, fast, after one ambiguous exchange.
    FastSlowFast,
    /// Slow, then fast, after more than one.
    SlowFast,
}

impl FasorPhase {
    fn after_ambiguity(self) -> Self {
        match self {
            Self::Fast => Self::FastSlowFast,
            Self::FastSlowFast | Self::SlowFast => Self::SlowFast,
        }
    }
}

/// Per-peer state: 14 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct FasorPeer {
    estimator: Estimator,
    slow: Micros,
    phase: FasorPhase,
    /// The RTO is the pseudocode's first, with 1·RTTVAR.
    first_rto: bool,
}

impl FasorPeer {
    /// Returns the phase of the next exchange.
    #[must_use]
    pub fn phase(&self) -> FasorPhase {
        self.phase
    }

    fn ambiguous(&mut self, elapsed: Micros) {
        self.slow = elapsed.scaled(Factor::ONE_AND_HALF);
        self.phase = self.phase.after_ambiguity();
    }
}

/// Per-exchange state: the order of its timeouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FasorExchange {
    phase: FasorPhase,
    /// Slow in FAST-SLOW-FAST, fast in SLOW-FAST.
    other: Micros,
}

words!(FirstSample { Text = "text", Pseudocode = "pseudocode" });

crate::parameters! {
    Fasor {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000), "fast timer before the first sample", "RFC 7252 §4.8";
        "first_sample" => first_sample, FirstSample::RANGE,
            "initial variation, from the first sample", "draft-ietf-core-fasor";
        "max_timeout" => max_timeout, Range::millis(1_000, 600_000), "maximum timeout", "draft-ietf-core-fasor";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "FASOR: a fast timer for noise, a slow one for queues",
    strong_rtt: true,
    weak_rtt: Some(u8::MAX),
    dithering: "RTO + SRTT·[1/4, 1]",
    backoff: "binary, with a slow timer first or second when in doubt",
    ageing: "none",
    reuses_backed_off_rto: true,
    source: "draft-ietf-core-fasor",
    peer_bytes: size_of::<FasorPeer>(),
    flight_bytes: size_of::<RuleFlight<FasorExchange>>(),
    published_bytes: None,
};

/// Feature table row of the pseudocode.
pub const PSEUDOCODE_FEATURES: Features =
    Features { about: "FASOR as the draft's appendix starts its estimator", ..FEATURES };

impl RtoRule for Fasor {
    type Peer = FasorPeer;
    type Exchange = FasorExchange;
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, _now: Instant) -> FasorPeer {
        FasorPeer::default()
    }

    fn rto(&self, peer: &FasorPeer) -> Micros {
        if peer.phase() == FasorPhase::SlowFast { self.bounded(peer.slow) } else { self.fast(peer) }
    }

    fn first_timeout(&self, peer: &mut FasorPeer, exchange: &mut FasorExchange, sent: &Sent) -> Micros {
        let (fast, slow) = (self.spread_fast(peer, sent.random), peer.slow);
        let (first, other) = if peer.phase() == FasorPhase::SlowFast { (slow, fast) } else { (fast, slow) };
        *exchange = FasorExchange { phase: peer.phase(), other };
        self.bounded(first)
    }

    fn next_timeout(&self, _peer: &mut Self::Peer, exchange: &mut FasorExchange, current: Micros, _: &Sent) -> Micros {
        let doubled = current.times(2);
        let next = match exchange.phase {
            FasorPhase::Fast => doubled,
            // Continues as SLOW-FAST, with max(SLOW, 2F) and 2F.
            FasorPhase::FastSlowFast => {
                let slow = exchange.other;
                *exchange = FasorExchange { phase: FasorPhase::SlowFast, other: doubled };
                slow.max(doubled)
            }
            FasorPhase::SlowFast => {
                exchange.phase = FasorPhase::Fast;
                exchange.other
            }
        };
        self.bounded(next)
    }

    fn on_ack(&self, peer: &mut FasorPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        match (sample::rtt_of_known_copy(event), event.retransmissions()) {
            (Some(rtt), _) => self.sample(peer, rtt),
            (None, 0) => {}
            (None, _) => peer.ambiguous(Micros::from(event.since_first())),
        }
    }

    fn on_failure(&self, peer: &mut FasorPeer, timeout: Option<Micros>, event: &Abandoned<'_>) {
        let confirmable = timeout.is_some();
        if let Some(first) = event.sent.first()
            && confirmable
            && suggests_congestion(event)
        {
            peer.ambiguous(Micros::from(event.now - *first));
        }
    }

    fn report(&self, peer: &FasorPeer) -> Snapshot {
        let estimator = peer.estimator;
        estimator.snapshot(self.rto(peer))
    }
}

#[cfg(test)]
mod tests;
