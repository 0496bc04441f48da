//! CoCoA as first published, and the optimised form of the same paper.
//!
//! Source: ETFA'14 §II.B (draft-bormann-core-cocoa-01) and its optimisations (i) to (iii). Number (iv), the mean of the
//! last h RTOs, is h = 1 in the authors' code and so not here.
//!
//! Divergences and resolutions:
//! - gains are α = 1/4 and β = 1/8, the reverse of RFC 6298 and of the later draft; the authors' code agrees;
//! - the paper does not speak of dithering; the authors' code dithers, and so does this;
//! - blind, the RTO doubles with each exchange that is running; Californium multiplies by their count, and never stops;
//! - equation (6) multiplies a small, idle RTO by 16, see [`SmallAging`];
//! - optimisation (iii) halves an idle estimator's distance to 2 s, but does not say whether the RTO follows: it is
//!   blended in as a sample would be, without which the rule had no effect.

use core::time::Duration;

use super::ageing::{SmallAging, age_small};
use super::{CocoaFlight, INITIAL_RTO, MAX_RTO, Series, Vbf};
use crate::backoff::{VariableBackoff, dithered};
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::estimator::{Estimator, Gains};
use crate::features::Features;
use crate::group::Group;
use crate::non::paced_by_rto;
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
    /// The RTO before the first sample.
    pub ack_timeout: Duration,
    /// The first timer is up to this many times the RTO.
    pub ack_random_factor: Factor,
    /// Neither an RTO nor a timer is longer.
    pub max_rto: Duration,
    /// How a small RTO grows when it is idle.
    pub small_aging: SmallAging,
    /// Exchanges with more retransmissions than this give no weak sample; optimisation (i) sets 1.
    pub weak_limit: u8,
    /// A weak estimate weighs 1/2^`weak_weight_shift` in the RTO; optimisation (ii) sets 2, for a quarter.
    pub weak_weight_shift: u8,
    /// Optimisation (iii): an estimator that is idle for 60 s and estimates more than 2 s moves towards 2 s.
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
    /// With the paper's optimisations (i), (ii) and (iii).
    #[must_use]
    pub fn optimized() -> Self {
        Self { weak_limit: 1, weak_weight_shift: 2, estimator_aging: true, ..Self::default() }
    }

    /// The initial RTO of an exchange that starts now beside `running` others, before dithering: see
    /// [`Cocoa::initial_rto`](super::Cocoa::initial_rto).
    pub fn initial_rto(&self, peer: &mut Cocoa2014Peer, now: Instant, running: u16) -> Duration {
        self.initial(peer, now, running).into()
    }

    fn initial(&self, peer: &mut Cocoa2014Peer, now: Instant, running: u16) -> Micros {
        self.apply_ageing(peer, now);
        let blind = peer.strong.is_blind() && peer.weak.is_blind();
        let doublings = if blind { running.min(31) } else { 0 };
        peer.rto.times(1 << doublings).min(self.cap())
    }

    fn cap(&self) -> Micros {
        self.max_rto.into()
    }

    fn apply_ageing(&self, peer: &mut Cocoa2014Peer, now: Instant) {
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
}

const K_STRONG: u32 = 4;
const K_WEAK: u32 = 1;
/// A strong estimate weighs a half in the RTO.
const STRONG_WEIGHT_SHIFT: u8 = 1;
/// What an idle estimator moves to, and above what it does.
const DECAY_TARGET: Micros = Micros::from_millis(2_000);

/// One step of optimisation (iii) if it is due: s ← (2 s + s)/2, v ← v/2. The answer is the new estimate. It halves the
/// excess over 2 s, so that the steps end by themselves.
fn decay(estimator: &mut Estimator, at: &mut Tick, k: u32, now: Tick, idle_s: u32) -> Option<Micros> {
    let (srtt, rttvar) = (estimator.srtt()?, estimator.rttvar()?);
    if estimator.rto(k) <= DECAY_TARGET || !at.is_due(now, idle_s) {
        return None;
    }
    *estimator = Estimator::starting(srtt.towards(DECAY_TARGET, 1), rttvar.shifted(1));
    at.advance();
    Some(estimator.rto(k))
}

/// When an estimator took its last sample: wrapping quarters of a second, so that two of them fit beside two estimators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tick(u16);

impl Tick {
    /// 60 s.
    const PERIOD: u16 = 240;
    /// A peer idle for longer than this, 4 h, is past what ticks can tell apart.
    const HORIZON_S: u32 = 4 * 3_600;

    #[expect(clippy::cast_possible_truncation, reason = "wraps by design")]
    fn at(now: Instant) -> Self {
        Self((now.as_millis() / 250) as u16)
    }

    /// A period has passed, given that the peer as a whole has been idle for `idle_s` seconds.
    fn is_due(self, now: Self, idle_s: u32) -> bool {
        idle_s >= Self::HORIZON_S || now.0.wrapping_sub(self.0) >= Self::PERIOD
    }

    fn advance(&mut self) {
        self.0 = self.0.wrapping_add(Self::PERIOD);
    }
}

/// What CoCoA of 2014 remembers of a peer: 28 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cocoa2014Peer {
    strong: Estimator,
    weak: Estimator,
    rto: Micros,
    /// The reference of small ageing.
    last: Stamp,
    strong_at: Tick,
    weak_at: Tick,
}

/// The feature table's row of CoCoA as published in 2014.
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
    flight_bytes: size_of::<CocoaFlight>(),
    published_bytes: None,
};

/// The feature table's row of the optimised form.
pub const OPTIMIZED_FEATURES: Features = Features {
    about: "the same with weak RTTs of one retransmission only, at a quarter, and estimator ageing",
    weak_rtt: Some(1),
    ageing: "small x16 after 16 RTO, estimators half way to 2 s after 60 s",
    ..FEATURES
};

impl Controller for Cocoa2014 {
    type Peer = Cocoa2014Peer;
    type Flight = CocoaFlight;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, now: Instant) -> Cocoa2014Peer {
        Cocoa2014Peer {
            strong: Estimator::default(),
            weak: Estimator::default(),
            rto: Micros::from(self.ack_timeout).min(self.cap()),
            last: Stamp::at(now),
            strong_at: Tick::at(now),
            weak_at: Tick::at(now),
        }
    }

    fn seed(&self, now: Instant, group: &Group) -> Cocoa2014Peer {
        group.as_first_sample(self, now)
    }

    fn admit(&self, peer: &mut Cocoa2014Peer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable {
            return Admission::Send;
        }
        paced_by_rto(now, message, &load.non, self.initial(peer, now, 0))
    }

    fn sent(&self, peer: &mut Cocoa2014Peer, flight: &mut CocoaFlight, event: &Sent) -> Duration {
        let series = Series { backoff: VariableBackoff::ETFA14, vbf: Vbf::Frozen, limit: self.cap(), cap: self.cap() };
        series.arm(flight, event, || {
            dithered(self.initial(peer, event.now, event.load.exchanges), self.ack_random_factor, event.random)
        })
    }

    fn expired(&self, _peer: &mut Cocoa2014Peer, _flight: &mut CocoaFlight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut Cocoa2014Peer, _flight: &CocoaFlight, event: &Acknowledged<'_>) {
        self.apply_ageing(peer, event.now);
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

    /// Nothing: an exhausted or cancelled exchange leaves the estimators as they are.
    fn abandoned(&self, _peer: &mut Cocoa2014Peer, _flight: &CocoaFlight, _event: &Abandoned<'_>) {}

    fn drained(&self, _peer: &mut Cocoa2014Peer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut Cocoa2014Peer, now: Instant) -> Duration {
        self.initial(peer, now, 0).into()
    }

    fn snapshot(&self, peer: &Cocoa2014Peer) -> Snapshot {
        let estimator = if peer.strong.is_blind() { peer.weak } else { peer.strong };
        Snapshot {
            rto: peer.rto.into(),
            srtt: estimator.srtt().map(Duration::from),
            rttvar: estimator.rttvar().map(Duration::from),
            bandwidth: None,
        }
    }
}

#[cfg(test)]
mod tests;
