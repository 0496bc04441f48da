//! FASOR: Fast-Slow Retransmission Timeout and Congestion Control.
//!
//! Source: draft-ietf-core-fasor. Two timers: a fast one, TCP's estimator without the 1 s floor, that recovers from losses of
//! a noisy link, and a slow one, one and a half times what an ambiguous exchange took, that lets a full queue drain. A state
//! machine says in which order an exchange uses them:
//!
//! | phase | timers of the exchange |
//! |---|---|
//! | FAST | F, 2F, 4F, … |
//! | FAST-SLOW-FAST | F, max(SLOW, 2F), 2F, 4F, … |
//! | SLOW-FAST | SLOW, F, 2F, … |
//!
//! An acknowledgement after a retransmission moves FAST → FAST-SLOW-FAST → SLOW-FAST, one that is not ambiguous moves back
//! to FAST. **Timers of the later two phases may shrink within an exchange**: that is the algorithm, and the only exception
//! in this crate from the rule that backoff never does.
//!
//! Divergences and resolutions:
//! - the text starts RTTVAR from R/8, the appendix's pseudocode from R/2 with a weight of 1 for the first RTO only, see
//!   [`FirstSample`]; the text is followed;
//! - the draft is silent on failure: it counts as an acknowledgement after retransmissions that took until then;
//! - an unambiguous acknowledgement *of a retransmission* is left undefined: it gives a sample and moves to FAST;
//! - where copies are told apart (a Token for each, or the draft's option), the draft puts the last sample under the RTO as a
//!   floor; after a sample R, SRTT + 4·RTTVAR is never less than R, so that there is nothing to do;
//! - there are no rules for NSTART, ageing or Non-confirmable messages: the last are spaced as CoCoA does.

use core::time::Duration;

use crate::backoff::{bounded, spread, suggests_congestion};
use crate::control::{Abandoned, Acknowledged, Sent, Snapshot};
use crate::estimator::{Estimator, Gains};
use crate::features::Features;
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// What the first sample makes of the variation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstSample {
    /// RTTVAR = R/8, so that RTO = R + 4·R/8 (the text).
    #[default]
    Text,
    /// RTTVAR = R/2, so that RTO = R + 1·R/2, but the second RTO uses four times it (the appendix).
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
    /// The fast timer before the first sample.
    pub ack_timeout: Duration,
    /// What the first sample makes of the variation.
    pub first_sample: FirstSample,
    /// No timer is longer; the draft allows no less than 60 s.
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
    /// The reading of the draft's appendix.
    #[must_use]
    pub fn pseudocode() -> Self {
        Self { first_sample: FirstSample::Pseudocode, ..Self::default() }
    }

    /// Returns the fast timer before randomisation.
    fn fast(&self, peer: &FasorPeer) -> Micros {
        let estimator = peer.estimator;
        let rto = match (estimator.is_blind(), peer.first_rto) {
            (true, _) => self.ack_timeout.into(),
            (false, true) => estimator.rto(1),
            (false, false) => estimator.rto(4),
        };
        self.bounded(rto)
    }

    /// Returns the fast timer, randomised with SRTT·(1/4 + 3/4·u).
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
        let first = estimator.is_blind();
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

/// In which order an exchange uses the fast and the slow timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FasorPhase {
    /// Fast only: the last exchange was not ambiguous.
    #[default]
    Fast,
    /// Fast, slow, fast: one ambiguous exchange. A second chance for the fast timer.
    FastSlowFast,
    /// Slow, then fast: more than one.
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

/// What FASOR remembers of a peer: 14 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct FasorPeer {
    estimator: Estimator,
    slow: Micros,
    phase: FasorPhase,
    /// The RTO is the pseudocode's first, with its own weight of the variation.
    first_rto: bool,
}

impl FasorPeer {
    /// The phase that the next exchange starts in.
    #[must_use]
    pub fn phase(&self) -> FasorPhase {
        self.phase
    }

    /// The exchange took `elapsed` and needed retransmissions: it may have been congestion.
    fn ambiguous(&mut self, elapsed: Micros) {
        self.slow = elapsed.scaled(Factor::ONE_AND_HALF);
        self.phase = self.phase.after_ambiguity();
    }
}

/// Per-exchange state: the order of its next timeouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FasorExchange {
    phase: FasorPhase,
    /// The other timer: slow in FAST-SLOW-FAST, fast in SLOW-FAST.
    other: Micros,
}

/// The feature table's row of FASOR.
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

/// The feature table's row of the pseudocode's reading.
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

    fn next_timeout(
        &self,
        _peer: &mut FasorPeer,
        exchange: &mut FasorExchange,
        current: Micros,
        _sent: &Sent,
    ) -> Micros {
        let doubled = current.times(2);
        let next = match exchange.phase {
            FasorPhase::Fast => doubled,
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
