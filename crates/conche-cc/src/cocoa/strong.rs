//! CoCoA-S of ComMag'16: CoCoA with its strong estimator only.
//!
//! Exchanges with a retransmission change no state, and the first backoff factor is kept. Ageing is
//! CoCoA's.

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

/// CoCoA-S: strong round-trip times only.
///
/// ```
/// use conche_cc::cocoa::{Aging, CocoaS};
/// use conche_cc::{Controller, Instant};
///
/// let as_published = CocoaS { aging: Aging::Literal, ..CocoaS::default() };
/// assert_eq!(size_of_val(&as_published.peer(Instant::ZERO)), 16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaS {
    /// RTO before the first sample.
    pub ack_timeout: Duration,
    /// Maximum first timeout in RTOs.
    pub ack_random_factor: Factor,
    /// The timeout that selects the backoff factor.
    pub vbf: Vbf,
    /// The start of an idle period.
    pub aging: Aging,
    /// Maximum RTO of a new exchange, and limit of backoff.
    pub backoff_limit: Duration,
    /// K: RTO_strong = SRTT + K·RTTVAR.
    pub strong_k: u8,
    /// Weight of RTO_strong in the RTO, at most 1.
    pub strong_weight: Factor,
    /// Maximum RTO and first timeout.
    pub max_rto: Duration,
}

impl Default for CocoaS {
    fn default() -> Self {
        Self {
            ack_timeout: INITIAL_RTO,
            ack_random_factor: Factor::ONE_AND_HALF,
            vbf: Vbf::Frozen,
            aging: Aging::SinceActivity,
            backoff_limit: BACKOFF_LIMIT,
            strong_k: 4,
            strong_weight: Factor::HALF,
            max_rto: MAX_RTO,
        }
    }
}

impl CocoaS {
    /// As [`Cocoa::initial_rto`](super::Cocoa::initial_rto).
    pub fn initial_rto(&self, peer: &mut CocoaSPeer, now: Instant, running: u16) -> Duration {
        self.age(peer, now);
        self.initial(peer, running).into()
    }

    fn initial(&self, peer: &CocoaSPeer, running: u16) -> Micros {
        let rto = peer.rto.get();
        let rto = if peer.estimator.is_unmeasured() { rto.times(u32::from(running) + 1) } else { rto };
        rto.min(self.backoff_limit.into())
    }
}

/// Per-peer state: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaSPeer {
    estimator: Estimator,
    rto: AgingRto,
}

crate::parameters! {
    CocoaS {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000), "RTO before the first sample", "RFC 7252 §4.8";
        "ack_random_factor" => ack_random_factor, Range::permille(1_000, 10_000),
            "maximum first timeout in RTOs", "RFC 7252 §4.8";
        "strong_k" => strong_k, Range::count(0, 64), "K of RTO_strong = SRTT + K·RTTVAR", "ComMag'16";
        "strong_weight" => strong_weight, Range::permille(0, 1_000), "weight of RTO_strong in the RTO", "ComMag'16";
        "vbf" => vbf, Vbf::RANGE, "timeout that selects the backoff factor", "ComMag'16";
        "backoff_limit" => backoff_limit, Range::millis(1, 600_000),
            "maximum RTO of a new exchange, and limit of backoff", "ComMag'16";
        "max_rto" => max_rto, Range::millis(1_000, 600_000), "maximum RTO and first timeout", "ComMag'16";
        "aging" => aging, Aging::RANGE, "start of an idle period", "ComMag'16";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "CoCoA-S: CoCoA with strong RTTs only",
    strong_rtt: true,
    weak_rtt: None,
    dithering: "[1, 1.5]",
    backoff: "variable 3/2/1.5, frozen for the exchange",
    ageing: "small x2 after 16 RTO, large half way to 2 s after 4 RTO",
    reuses_backed_off_rto: false,
    source: "ComMag'16",
    peer_bytes: size_of::<CocoaSPeer>(),
    flight_bytes: size_of::<RuleFlight<FrozenFactor>>(),
    published_bytes: Some(19),
};

impl RtoRule for CocoaS {
    type Peer = CocoaSPeer;
    type Exchange = FrozenFactor;
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, now: Instant) -> CocoaSPeer {
        CocoaSPeer {
            estimator: Estimator::default(),
            rto: AgingRto::new(Micros::from(self.ack_timeout).min(self.max_rto.into()), now),
        }
    }

    fn age(&self, peer: &mut CocoaSPeer, now: Instant) {
        peer.rto.age(self.aging, now);
    }

    fn rto(&self, peer: &CocoaSPeer) -> Micros {
        peer.rto.get().min(self.backoff_limit.into())
    }

    fn first_timeout(&self, peer: &mut CocoaSPeer, factor: &mut FrozenFactor, sent: &Sent) -> Micros {
        peer.rto.transmitted(self.aging, sent.now);
        let first = dithered(self.initial(peer, sent.load.exchanges), self.ack_random_factor, sent.random);
        factor.freeze(VariableBackoff::DRAFT03, first).min(self.max_rto.into())
    }

    fn next_timeout(&self, peer: &mut CocoaSPeer, factor: &mut FrozenFactor, current: Micros, sent: &Sent) -> Micros {
        peer.rto.transmitted(self.aging, sent.now);
        self.vbf.next(*factor, current, VariableBackoff::DRAFT03, self.backoff_limit.into())
    }

    fn on_ack(&self, peer: &mut CocoaSPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        peer.rto.acknowledged(self.aging, event.now);
        let Some(rtt) = sample::strong_rtt(event) else { return };
        peer.estimator.sample(rtt, Gains::RFC6298);
        let rto = peer.rto.get().blended(peer.estimator.rto(self.strong_k.into()), self.strong_weight);
        peer.rto.set(rto.min(self.max_rto.into()), event.now);
    }

    fn report(&self, peer: &CocoaSPeer) -> Snapshot {
        peer.estimator.snapshot(self.rto(peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDriver;

    #[test]
    fn an_exchange_with_a_retransmission_leaves_no_trace() {
        let cocoa = CocoaS::default();
        let mut drive = TestDriver::new(&cocoa);
        assert_eq!(drive.clean(300), 1_450);
        assert_eq!([drive.start(0.0), drive.time_out()], [1_450, 2_900]);
        assert_eq!(drive.ack_after(150), 1_450);
    }

    #[test]
    fn the_factor_is_frozen() {
        let cocoa = CocoaS { ack_timeout: Duration::from_millis(300), ..CocoaS::default() };
        let mut drive = TestDriver::new(&cocoa);
        let timers = [drive.start(0.0), drive.time_out(), drive.time_out(), drive.time_out()];
        assert_eq!(timers, [300, 900, 2_700, 8_100]);
    }

    #[test]
    fn an_idle_small_rto_grows() {
        let cocoa = CocoaS::default();
        let mut drive = TestDriver::new(&cocoa);
        for _ in 0..20 {
            drive.clean(100);
        }
        let settled = drive.base();
        drive.wait(settled * 16 + 100);
        // Twice the milliseconds of an RTO in microseconds may be one too few.
        assert!((settled * 2..=settled * 2 + 1).contains(&drive.base()));
    }
}
