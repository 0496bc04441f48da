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
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::estimator::{Estimator, Gains};
use crate::features::Features;
use crate::group::Group;
use crate::non::paced_by_rto;
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

    /// The fast timer, undithered.
    fn rto(&self, peer: &FasorPeer) -> Micros {
        let estimator = peer.estimator;
        let rto = match (estimator.is_blind(), peer.first_rto) {
            (true, _) => self.ack_timeout.into(),
            (false, true) => estimator.rto(1),
            (false, false) => estimator.rto(4),
        };
        self.bounded(rto)
    }

    /// The first timer of the next exchange, undithered.
    fn initial(&self, peer: &FasorPeer) -> Micros {
        if peer.phase() == FasorPhase::SlowFast { self.bounded(peer.slow) } else { self.rto(peer) }
    }

    /// The fast timer, spread by SRTT·(1/4 + 3/4·u).
    fn dithered(&self, peer: &FasorPeer, random: u32) -> Micros {
        let rto = self.rto(peer);
        let estimator = peer.estimator;
        spread(rto, estimator.srtt().unwrap_or(rto.divided(3)), random)
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

/// What an exchange remembers: the phase and the timers that it started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FasorFlight {
    phase: FasorPhase,
    /// Zero before the first transmission.
    fast: Micros,
    slow: Micros,
}

impl FasorFlight {
    /// The timer of the copy `attempt`, without its cap.
    fn timer(&self, attempt: u8) -> Micros {
        let fast = |doublings: u8| self.fast.times(1 << doublings.min(31));
        match (self.phase, attempt) {
            (FasorPhase::Fast, n) => fast(n),
            (FasorPhase::FastSlowFast, 0) => self.fast,
            (FasorPhase::FastSlowFast, 1) => self.slow.max(fast(1)),
            (FasorPhase::SlowFast, 0) => self.slow,
            (FasorPhase::FastSlowFast | FasorPhase::SlowFast, n) => fast(n - 1),
        }
    }
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
    flight_bytes: size_of::<FasorFlight>(),
    published_bytes: None,
};

/// The feature table's row of the pseudocode's reading.
pub const PSEUDOCODE_FEATURES: Features =
    Features { about: "FASOR as the draft's appendix starts its estimator", ..FEATURES };

impl Controller for Fasor {
    type Peer = FasorPeer;
    type Flight = FasorFlight;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, _now: Instant) -> FasorPeer {
        FasorPeer::default()
    }

    fn seed(&self, now: Instant, group: &Group) -> FasorPeer {
        group.as_first_sample(self, now)
    }

    fn admit(&self, peer: &mut FasorPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable { Admission::Send } else { paced_by_rto(now, message, &load.non, self.initial(peer)) }
    }

    fn sent(&self, peer: &mut FasorPeer, flight: &mut FasorFlight, event: &Sent) -> Duration {
        let fresh = || FasorFlight { phase: peer.phase, fast: self.dithered(peer, event.random), slow: peer.slow };
        if !event.confirmable {
            return self.bounded(fresh().timer(0)).into();
        }
        if event.attempt == 0 || flight.fast == Micros::ZERO {
            *flight = fresh();
        }
        self.bounded(flight.timer(event.attempt)).into()
    }

    fn expired(&self, _peer: &mut FasorPeer, _flight: &mut FasorFlight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut FasorPeer, _flight: &FasorFlight, event: &Acknowledged<'_>) {
        match (sample::rtt_of_known_copy(event), event.retransmissions()) {
            (Some(rtt), _) => self.sample(peer, rtt),
            (None, 0) => {}
            (None, _) => peer.ambiguous(Micros::from(event.since_first())),
        }
    }

    fn abandoned(&self, peer: &mut FasorPeer, flight: &FasorFlight, event: &Abandoned<'_>) {
        let confirmable = flight.fast != Micros::ZERO;
        if let Some(first) = event.sent.first()
            && confirmable
            && suggests_congestion(event)
        {
            peer.ambiguous(Micros::from(event.now - *first));
        }
    }

    fn drained(&self, _peer: &mut FasorPeer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut FasorPeer, _now: Instant) -> Duration {
        self.initial(peer).into()
    }

    fn snapshot(&self, peer: &FasorPeer) -> Snapshot {
        let estimator = peer.estimator;
        Snapshot {
            rto: self.initial(peer).into(),
            srtt: estimator.srtt().map(Duration::from),
            rttvar: estimator.rttvar().map(Duration::from),
            bandwidth: None,
        }
    }
}

#[cfg(test)]
mod tests;
