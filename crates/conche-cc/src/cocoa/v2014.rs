//! CoCoA as first published, and the optimised form of the same paper.
//!
//! Source: ETFA'14 §II.B (draft-bormann-core-cocoa-01) with optimisations (i) to (iii), without
//! (iv), the mean of the last h RTOs: the authors' code has h = 1.
//!
//! Divergences and resolutions:
//! - gains are α = 1/4 and β = 1/8, as in the authors' code, unlike RFC 6298 and the later draft;
//! - first timeouts are randomised as in the authors' code, not in the paper;
//! - without a sample, the RTO doubles per running exchange; Californium multiplies by their
//!   number, unlimited;
//! - equation (6) multiplies a small, idle RTO by 16, see [`SmallAging`];
//! - optimisation (iii) halves an idle estimator's distance to 2 s; the paper omits whether the RTO
//!   follows. It is blended in like a sample, as the rule would otherwise have no effect.

use core::time::Duration;

use super::ageing::{SmallAging, age_small};
use super::{FrozenFactor, INITIAL_RTO, MAX_RTO, Vbf};
use crate::backoff::{VariableBackoff, dithered};
use crate::control::{Acknowledged, Sent, Snapshot};
use crate::estimator::{Estimator, Gains};
use crate::features::Features;
use crate::parameters::Range;
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros, Stamp};

/// CoCoA of ETFA'14.
///
/// ```
/// use conche_cc::cocoa::Cocoa2014;
///
/// assert_eq!(Cocoa2014::default().weak_limit, u8::MAX, "every acknowledgement gives a sample");
/// assert_eq!(Cocoa2014::optimized().weak_limit, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cocoa2014 {
    /// RTO before the first sample.
    pub ack_timeout: Duration,
    /// Maximum first timeout in RTOs.
    pub ack_random_factor: Factor,
    /// Maximum RTO and timeout.
    pub max_rto: Duration,
    /// Growth of a small, idle RTO.
    pub small_aging: SmallAging,
    /// Maximum retransmissions for a weak sample; optimisation (i) sets 1.
    pub weak_limit: u8,
    /// A weak estimate's weight is 1/2^`weak_weight_shift`; optimisation (ii) sets 2, a quarter.
    pub weak_weight_shift: u8,
    /// Optimisation (iii): estimates above 2 s move towards it after 60 s without a sample.
    pub estimator_aging: bool,
}

impl Default for Cocoa2014 {
    fn default() -> Self {
        Self {
            ack_timeout: INITIAL_RTO,
            ack_random_factor: Factor::ONE_AND_HALF,
            max_rto: MAX_RTO,
            small_aging: SmallAging::Mul16,
            weak_limit: u8::MAX,
            weak_weight_shift: 1,
            estimator_aging: false,
        }
    }
}

impl Cocoa2014 {
    /// With optimisations (i), (ii) and (iii).
    #[must_use]
    pub fn optimized() -> Self {
        Self { weak_limit: 1, weak_weight_shift: 2, estimator_aging: true, ..Self::default() }
    }

    /// As [`Cocoa::initial_rto`](super::Cocoa::initial_rto).
    pub fn initial_rto(&self, peer: &mut Cocoa2014Peer, now: Instant, running: u16) -> Duration {
        self.age(peer, now);
        self.initial(peer, running).into()
    }

    fn initial(&self, peer: &Cocoa2014Peer, running: u16) -> Micros {
        let blind = peer.strong.is_unmeasured() && peer.weak.is_unmeasured();
        let doublings = if blind { running.min(31) } else { 0 };
        peer.rto.times(1 << doublings).min(self.cap())
    }

    fn cap(&self) -> Micros {
        self.max_rto.into()
    }
}

crate::parameters! {
    Cocoa2014 {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000), "RTO before the first sample", "RFC 7252 §4.8";
        "ack_random_factor" => ack_random_factor, Range::permille(1_000, 10_000),
            "maximum first timeout in RTOs", "RFC 7252 §4.8";
        "max_rto" => max_rto, Range::millis(1_000, 600_000), "maximum RTO and timeout", "ETFA'14";
        "small_aging" => small_aging, SmallAging::RANGE, "growth of a small, idle RTO", "ETFA'14, equation (6)";
        "weak_limit" => weak_limit, Range::count(0, 255),
            "maximum retransmissions for a weak sample", "ETFA'14, optimisation (i)";
        "weak_weight_shift" => weak_weight_shift, Range::count(0, 16),
            "binary exponent of a weak estimate's weight, 1/2^n", "ETFA'14, optimisation (ii)";
        "estimator_aging" => estimator_aging, Range::Flag,
            "idle estimates above 2 s move towards it", "ETFA'14, optimisation (iii)";
    }
}

const K_STRONG: u32 = 4;
const K_WEAK: u32 = 1;
const STRONG_WEIGHT_SHIFT: u8 = 1;
const DECAY_TARGET: Micros = Micros::from_millis(2_000);

/// Takes a due step of optimisation (iii), s ← (2 s + s)/2 and v ← v/2.
fn decay(estimator: &mut Estimator, at: &mut Tick, k: u32, now: Tick, idle_s: u32) -> Option<Micros> {
    let (srtt, rttvar) = (estimator.srtt()?, estimator.rttvar()?);
    if estimator.rto(k) <= DECAY_TARGET || !at.is_due(now, idle_s) {
        return None;
    }
    *estimator = Estimator::starting(srtt.towards(DECAY_TARGET, 1), rttvar.shifted(1));
    at.advance();
    Some(estimator.rto(k))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tick(u16);

impl Tick {
    const PERIOD: u16 = 240;
    /// Longer idle periods make ticks ambiguous.
    const HORIZON_S: u32 = 4 * 3_600;

    #[expect(clippy::cast_possible_truncation, reason = "wraps by design")]
    fn at(now: Instant) -> Self {
        Self((now.as_millis() / 250) as u16)
    }

    fn is_due(self, now: Self, idle_s: u32) -> bool {
        idle_s >= Self::HORIZON_S || now.0.wrapping_sub(self.0) >= Self::PERIOD
    }

    fn advance(&mut self) {
        self.0 = self.0.wrapping_add(Self::PERIOD);
    }
}

/// Per-peer state: 28 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cocoa2014Peer {
    strong: Estimator,
    weak: Estimator,
    rto: Micros,
    /// Reference time of small RTOs' ageing.
    last: Stamp,
    strong_at: Tick,
    weak_at: Tick,
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "CoCoA as first published: every ACK gives a sample, equal weights",
    strong_rtt: true,
    weak_rtt: Some(u8::MAX),
    dithering: "[1, 1.5]",
    backoff: "variable 3/2/1.3, frozen for the exchange",
    ageing: "small x16 after 16 RTO",
    reuses_backed_off_rto: false,
    source: "ETFA'14",
    peer_bytes: size_of::<Cocoa2014Peer>(),
    flight_bytes: size_of::<RuleFlight<FrozenFactor>>(),
    published_bytes: None,
};

/// Feature table row of the optimised form.
pub const OPTIMIZED_FEATURES: Features = Features {
    about: "the same with weak RTTs of one retransmission only, at a quarter, and estimator ageing",
    weak_rtt: Some(1),
    ageing: "small x16 after 16 RTO, estimators half way to 2 s after 60 s",
    ..FEATURES
};

impl RtoRule for Cocoa2014 {
    type Peer = Cocoa2014Peer;
    type Exchange = FrozenFactor;
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, now: Instant) -> Cocoa2014Peer {
        Cocoa2014Peer {
            strong: Estimator::default(),
            weak: Estimator::default(),
            rto: Micros::from(self.ack_timeout).min(self.cap()),
            last: Stamp::at(now),
            strong_at: Tick::at(now),
            weak_at: Tick::at(now),
        }
    }

    fn age(&self, peer: &mut Cocoa2014Peer, now: Instant) {
        let idle_s = peer.last.age_ms(Stamp::at(now)) / 1_000;
        age_small(&mut peer.rto, &mut peer.last, Stamp::at(now), self.small_aging);
        if self.estimator_aging {
            let now = Tick::at(now);
            let blend = |rto: &mut Micros, estimate, shift| *rto = rto.towards(estimate, shift);
            while let Some(estimate) = decay(&mut peer.strong, &mut peer.strong_at, K_STRONG, now, idle_s) {
                blend(&mut peer.rto, estimate, STRONG_WEIGHT_SHIFT);
            }
            while let Some(estimate) = decay(&mut peer.weak, &mut peer.weak_at, K_WEAK, now, idle_s) {
                blend(&mut peer.rto, estimate, self.weak_weight_shift);
            }
        }
        peer.rto = peer.rto.min(self.cap()).max(Micros::MIN);
    }

    fn rto(&self, peer: &Cocoa2014Peer) -> Micros {
        peer.rto
    }

    fn first_timeout(&self, peer: &mut Cocoa2014Peer, factor: &mut FrozenFactor, sent: &Sent) -> Micros {
        let first = dithered(self.initial(peer, sent.load.exchanges), self.ack_random_factor, sent.random);
        factor.freeze(VariableBackoff::ETFA14, first).min(self.cap())
    }

    fn next_timeout(&self, _peer: &mut Self::Peer, factor: &mut FrozenFactor, current: Micros, _: &Sent) -> Micros {
        Vbf::Frozen.next(*factor, current, VariableBackoff::ETFA14, self.cap())
    }

    fn on_ack(&self, peer: &mut Cocoa2014Peer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        let retransmissions = event.retransmissions();
        let Some(rtt) = sample::rtt(event) else { return };
        if retransmissions > usize::from(self.weak_limit) {
            return;
        }
        let rto = if retransmissions == 0 {
            peer.strong.sample(rtt, Gains::ETFA14);
            peer.strong_at = Tick::at(event.now);
            peer.rto.towards(peer.strong.rto(K_STRONG), STRONG_WEIGHT_SHIFT)
        } else {
            peer.weak.sample(rtt, Gains::ETFA14);
            peer.weak_at = Tick::at(event.now);
            peer.rto.towards(peer.weak.rto(K_WEAK), self.weak_weight_shift)
        };
        peer.rto = rto.min(self.cap()).max(Micros::MIN);
        peer.last = Stamp::at(event.now);
    }

    fn report(&self, peer: &Cocoa2014Peer) -> Snapshot {
        let estimator = if peer.strong.is_unmeasured() { peer.weak } else { peer.strong };
        estimator.snapshot(self.rto(peer))
    }
}

#[cfg(test)]
mod tests;
