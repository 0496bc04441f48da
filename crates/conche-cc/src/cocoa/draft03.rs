//! CoCoA of draft-ietf-core-cocoa-03, and CoCoA+ of ComMag'16.
//!
//! The first selects the backoff factor by the expired timeout, the second by the first ([`Vbf`]).
//! Californium's CoCoA (`Cocoa.java`, commit 0435df87), with which ComMag'16 measured GPRS, is the
//! second with the gains of ETFA'14.
//!
//! Divergences and resolutions:
//! - the draft's appendix B writes `BETA*(RTT_strong-RTT)` without the absolute value;
//! - ageing counts from the last acknowledgement by default, see [`Aging`];
//! - with n running exchanges and no sample, the initial RTO is 2 s · (n + 1); §4.2.2 states 6 s
//!   for n = 2;
//! - a separate response gives no sample: its time includes processing.

use core::time::Duration;

use super::ageing::{Aging, AgingRto};
use super::{BACKOFF_LIMIT, FrozenFactor, INITIAL_RTO, MAX_RTO, Vbf};
use crate::backoff::{VariableBackoff, dithered};
use crate::control::{Acknowledged, Sent, Snapshot};
use crate::estimator::{Estimator, Gains};
use crate::features::Features;
use crate::parameters::Range;
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// CoCoA of draft-ietf-core-cocoa-03; with [`Vbf::Frozen`], CoCoA+.
///
/// ```
/// use conche_cc::cocoa::Cocoa;
/// use conche_cc::{Controller, Instant};
/// use core::time::Duration;
///
/// let cocoa = Cocoa::default();
/// let mut peer = cocoa.peer(Instant::ZERO);
/// assert_eq!(cocoa.base(&mut peer, Instant::ZERO), Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cocoa {
    /// RTO before the first sample.
    pub ack_timeout: Duration,
    /// Maximum first timeout in RTOs.
    pub ack_random_factor: Factor,
    /// The timeout that selects the backoff factor.
    pub vbf: Vbf,
    /// The start of an idle period.
    pub aging: Aging,
    /// Maximum retransmissions for a weak sample.
    pub weak_limit: u8,
    /// K of the strong estimator: RTO_strong = SRTT + K·RTTVAR.
    pub strong_k: u8,
    /// K of the weak estimator: RTO_weak = SRTT + K·RTTVAR.
    pub weak_k: u8,
    /// Gains of both estimators.
    pub gains: Gains,
    /// Weight of RTO_strong in the RTO, at most 1.
    pub strong_weight: Factor,
    /// Weight of RTO_weak in the RTO, at most 1.
    pub weak_weight: Factor,
    /// Backoff factors.
    pub backoff: VariableBackoff,
    /// Maximum RTO of a new exchange, and limit of backoff.
    pub backoff_limit: Duration,
    /// Maximum RTO and first timeout.
    pub max_rto: Duration,
}

impl Default for Cocoa {
    fn default() -> Self {
        Self::draft03()
    }
}

impl Cocoa {
    /// The draft, with ageing since the last acknowledgement, for production.
    #[must_use]
    pub fn draft03() -> Self {
        Self {
            ack_timeout: INITIAL_RTO,
            ack_random_factor: Factor::ONE_AND_HALF,
            vbf: Vbf::Current,
            aging: Aging::SinceActivity,
            weak_limit: WEAK_LIMIT,
            strong_k: 4,
            weak_k: 1,
            gains: Gains::RFC6298,
            strong_weight: Factor::HALF,
            weak_weight: Factor::QUARTER,
            backoff: VariableBackoff::DRAFT03,
            backoff_limit: BACKOFF_LIMIT,
            max_rto: MAX_RTO,
        }
    }

    /// CoCoA+ of ComMag'16: the first backoff factor is kept.
    #[must_use]
    pub fn plus() -> Self {
        Self { vbf: Vbf::Frozen, ..Self::draft03() }
    }

    /// CoCoA+ as in Californium: α = 1/4 and β = 1/8.
    #[must_use]
    pub fn californium() -> Self {
        Self { gains: Gains::ETFA14, ..Self::plus() }
    }

    /// CoCoA in ANRW'18: the draft without ageing.
    #[must_use]
    pub fn anrw18() -> Self {
        Self { aging: Aging::Off, ..Self::draft03() }
    }

    /// Returns a new exchange's initial RTO beside `running` others, before randomisation; unlike
    /// [`Controller::base`](crate::Controller::base), it grows with `running` without a sample.
    pub fn initial_rto(&self, peer: &mut CocoaPeer, now: Instant, running: u16) -> Duration {
        self.age(peer, now);
        self.initial(peer, running).into()
    }

    fn initial(&self, peer: &CocoaPeer, running: u16) -> Micros {
        let rto = peer.rto.get();
        let rto = if peer.is_unmeasured() { rto.times(u32::from(running) + 1) } else { rto };
        rto.min(self.backoff_limit.into())
    }

    pub(crate) fn draw(&self, peer: &CocoaPeer, sent: &Sent) -> Micros {
        dithered(self.initial(peer, sent.load.exchanges), self.ack_random_factor, sent.random)
    }

    pub(crate) fn start(&self, peer: &mut CocoaPeer, factor: &mut FrozenFactor, sent: &Sent, first: Micros) -> Micros {
        self.transmitted(peer, sent.now);
        factor.freeze(self.backoff, first).min(self.max_rto.into())
    }

    pub(crate) fn transmitted(&self, peer: &mut CocoaPeer, now: Instant) {
        peer.rto.transmitted(self.aging, now);
    }
}

/// Per-peer state of CoCoA: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaPeer {
    strong: Estimator,
    weak: Estimator,
    rto: AgingRto,
}

impl CocoaPeer {
    /// Returns whether there is no sample of either kind.
    #[must_use]
    pub fn is_unmeasured(&self) -> bool {
        self.strong.is_unmeasured() && self.weak.is_unmeasured()
    }

    /// Returns the estimator without retransmissions.
    #[must_use]
    pub fn strong(&self) -> Estimator {
        self.strong
    }

    /// Returns the estimator with retransmissions.
    #[must_use]
    pub fn weak(&self) -> Estimator {
        self.weak
    }
}

const WEAK_LIMIT: u8 = 2;

crate::parameters! {
    Cocoa {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000), "RTO before the first sample", "RFC 7252 §4.8";
        "ack_random_factor" => ack_random_factor, Range::permille(1_000, 10_000),
            "maximum first timeout in RTOs", "RFC 7252 §4.8";
        "strong_k" => strong_k, Range::count(0, 64), "K of RTO_strong = SRTT + K·RTTVAR", "draft-ietf-core-cocoa-03 §4.2";
        "weak_k" => weak_k, Range::count(0, 64), "K of RTO_weak = SRTT + K·RTTVAR", "draft-ietf-core-cocoa-03 §4.2";
        "srtt_shift" => gains.srtt_shift, Range::count(0, 16),
            "binary exponent of SRTT's gain, 1/2^n", "draft-ietf-core-cocoa-03 §4.2; Californium";
        "rttvar_shift" => gains.rttvar_shift, Range::count(0, 16),
            "binary exponent of RTTVAR's gain, 1/2^n", "draft-ietf-core-cocoa-03 §4.2; Californium";
        "strong_weight" => strong_weight, Range::permille(0, 1_000),
            "weight of RTO_strong in the RTO", "draft-ietf-core-cocoa-03 §4.2";
        "weak_weight" => weak_weight, Range::permille(0, 1_000),
            "weight of RTO_weak in the RTO", "draft-ietf-core-cocoa-03 §4.2";
        "weak_limit" => weak_limit, Range::count(0, 255),
            "maximum retransmissions for a weak sample", "draft-ietf-core-cocoa-03 §4.2";
        "vbf" => vbf, Vbf::RANGE, "timeout that selects the backoff factor", "draft-ietf-core-cocoa-03 §4.2.1; ComMag'16";
        "backoff_small" => backoff.small, Range::permille(1_000, 10_000),
            "backoff factor of timeouts below 1 s", "draft-ietf-core-cocoa-03 §4.2.1";
        "backoff_medium" => backoff.medium, Range::permille(1_000, 10_000),
            "backoff factor of timeouts from 1 s to 3 s", "draft-ietf-core-cocoa-03 §4.2.1";
        "backoff_large" => backoff.large, Range::permille(1_000, 10_000),
            "backoff factor of timeouts above 3 s", "draft-ietf-core-cocoa-03 §4.2.1";
        "backoff_limit" => backoff_limit, Range::millis(1, 600_000),
            "maximum RTO of a new exchange, and limit of backoff", "draft-ietf-core-cocoa-03 §4.2.1";
        "max_rto" => max_rto, Range::millis(1_000, 600_000), "maximum RTO and first timeout", "draft-ietf-core-cocoa-03";
        "aging" => aging, Aging::RANGE, "start of an idle period", "draft-ietf-core-cocoa-03 §4.3";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "CoCoA draft-03: strong and weak RTTs, variable backoff by the current timer, ageing",
    strong_rtt: true,
    weak_rtt: Some(WEAK_LIMIT),
    dithering: "[1, 1.5]",
    backoff: "variable 3/2/1.5, by the current timer",
    ageing: "small x2 after 16 RTO, large half way to 2 s after 4 RTO",
    reuses_backed_off_rto: false,
    source: "draft-ietf-core-cocoa-03",
    peer_bytes: size_of::<CocoaPeer>(),
    flight_bytes: size_of::<RuleFlight<FrozenFactor>>(),
    published_bytes: Some(29),
};

/// Feature table row of CoCoA+.
pub const PLUS_FEATURES: Features = Features {
    about: "CoCoA+: CoCoA with the backoff factor of the exchange's first timer",
    backoff: "variable 3/2/1.5, frozen for the exchange",
    source: "ComMag'16",
    ..FEATURES
};

/// Feature table row of Californium's CoCoA.
pub const CALIFORNIUM_FEATURES: Features = Features {
    about: "CoCoA+ as in Californium: SRTT and RTTVAR have each other's gain",
    source: "Californium, Cocoa.java; ComMag'16",
    published_bytes: None,
    ..PLUS_FEATURES
};

impl RtoRule for Cocoa {
    type Peer = CocoaPeer;
    type Exchange = FrozenFactor;
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, now: Instant) -> CocoaPeer {
        CocoaPeer {
            strong: Estimator::default(),
            weak: Estimator::default(),
            rto: AgingRto::new(Micros::from(self.ack_timeout).min(self.max_rto.into()), now),
        }
    }

    fn age(&self, peer: &mut CocoaPeer, now: Instant) {
        peer.rto.age(self.aging, now);
    }

    fn rto(&self, peer: &CocoaPeer) -> Micros {
        peer.rto.get().min(self.backoff_limit.into())
    }

    fn first_timeout(&self, peer: &mut CocoaPeer, factor: &mut FrozenFactor, sent: &Sent) -> Micros {
        let first = self.draw(peer, sent);
        self.start(peer, factor, sent, first)
    }

    fn next_timeout(&self, peer: &mut CocoaPeer, factor: &mut FrozenFactor, current: Micros, sent: &Sent) -> Micros {
        self.transmitted(peer, sent.now);
        self.vbf.next(*factor, current, self.backoff, self.backoff_limit.into())
    }

    fn on_ack(&self, peer: &mut CocoaPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        peer.rto.acknowledged(self.aging, event.now);
        let retransmissions = event.retransmissions();
        let Some(rtt) = sample::rtt(event) else { return };
        if retransmissions > usize::from(self.weak_limit) {
            return;
        }
        let rto = peer.rto.get();
        let rto = if retransmissions == 0 {
            peer.strong.sample(rtt, self.gains);
            rto.blended(peer.strong.rto(self.strong_k.into()), self.strong_weight)
        } else {
            peer.weak.sample(rtt, self.gains);
            rto.blended(peer.weak.rto(self.weak_k.into()), self.weak_weight)
        };
        peer.rto.set(rto.min(self.max_rto.into()), event.now);
    }

    fn report(&self, peer: &CocoaPeer) -> Snapshot {
        let estimator = if peer.strong.is_unmeasured() { peer.weak } else { peer.strong };
        estimator.snapshot(self.rto(peer))
    }
}

#[cfg(test)]
mod tests;
