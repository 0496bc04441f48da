//! CoCoA as draft-ietf-core-cocoa-03 has it, and CoCoA+ of ComMag'16.
//!
//! Two readings of the backoff factor exist and both are here, see [`Vbf`]: [`Cocoa::draft03`] takes the current timer,
//! [`Cocoa::plus`] freezes the factor of the first.
//!
//! Divergences and resolutions:
//! - appendix B of the draft writes `BETA*(RTT_strong-RTT)`: |·| is missing there;
//! - ageing counts from the last acknowledgement unless configured otherwise, see [`Aging`];
//! - blind, with n exchanges running, the initial RTO is 2 s · (n + 1), as §4.2.2's two give 6 s;
//! - a separate response is no sample: it holds the peer's processing time.

use core::time::Duration;

use super::ageing::{Aging, AgingRto};
use super::{BACKOFF_LIMIT, CocoaFlight, INITIAL_RTO, MAX_RTO, Series, Vbf};
use crate::backoff::{VariableBackoff, dithered};
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::estimator::{Estimator, Gains};
use crate::features::Features;
use crate::group::Group;
use crate::non::paced_by_rto;
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
    /// The RTO before the first sample.
    pub ack_timeout: Duration,
    /// The first timer is up to this many times the RTO.
    pub ack_random_factor: Factor,
    /// Which timer the backoff factor is chosen by.
    pub vbf: Vbf,
    /// From when idleness is counted.
    pub aging: Aging,
    /// Exchanges with more retransmissions than this give no weak sample.
    pub weak_limit: u8,
    /// No exchange starts from a longer RTO, and no copy's timer is backed off beyond this.
    pub backoff_limit: Duration,
    /// The RTO is never longer.
    pub max_rto: Duration,
}

impl Default for Cocoa {
    fn default() -> Self {
        Self::draft03()
    }
}

impl Cocoa {
    /// The draft, with ageing since the last acknowledgement: what to use in production.
    #[must_use]
    pub fn draft03() -> Self {
        Self {
            ack_timeout: INITIAL_RTO,
            ack_random_factor: Factor::ONE_AND_HALF,
            vbf: Vbf::Current,
            aging: Aging::SinceActivity,
            weak_limit: WEAK_LIMIT,
            backoff_limit: BACKOFF_LIMIT,
            max_rto: MAX_RTO,
        }
    }

    /// CoCoA+ of ComMag'16: the backoff factor is frozen for the exchange.
    #[must_use]
    pub fn plus() -> Self {
        Self { vbf: Vbf::Frozen, ..Self::draft03() }
    }

    /// The CoCoA that ANRW'18 measured: the draft without ageing.
    #[must_use]
    pub fn anrw18() -> Self {
        Self { aging: Aging::Off, ..Self::draft03() }
    }

    /// The initial RTO of an exchange that starts now beside `running` others, before dithering. It differs from
    /// [`Controller::base`] for a peer that has given no sample yet: parallel blind exchanges start more slowly.
    pub fn initial_rto(&self, peer: &mut CocoaPeer, now: Instant, running: u16) -> Duration {
        self.initial(peer, now, running).into()
    }

    pub(crate) fn initial(&self, peer: &mut CocoaPeer, now: Instant, running: u16) -> Micros {
        let rto = peer.rto.aged(self.aging, now);
        let rto = if peer.is_blind() { rto.times(u32::from(running) + 1) } else { rto };
        rto.min(self.backoff_limit.into())
    }

    /// Arms the timer of a copy, of an exchange that starts from exactly `kept` if that is given.
    pub(crate) fn arm(
        &self,
        peer: &mut CocoaPeer,
        flight: &mut CocoaFlight,
        event: &Sent,
        kept: Option<Micros>,
    ) -> Duration {
        self.transmitted(peer, event.now);
        let series = Series {
            backoff: VariableBackoff::DRAFT03,
            vbf: self.vbf,
            limit: self.backoff_limit.into(),
            cap: self.max_rto.into(),
        };
        series.arm(flight, event, || kept.unwrap_or_else(|| self.draw(peer, event)))
    }

    /// Notes that a copy leaves, for ageing.
    pub(crate) fn transmitted(&self, peer: &mut CocoaPeer, now: Instant) {
        peer.rto.transmitted(self.aging, now);
    }

    /// A freshly drawn first timer.
    pub(crate) fn draw(&self, peer: &mut CocoaPeer, event: &Sent) -> Micros {
        let rto = self.initial(peer, event.now, event.load.exchanges);
        dithered(rto, self.ack_random_factor, event.random)
    }

    /// The RTO without ageing that may be due.
    pub(crate) fn rto(&self, peer: &CocoaPeer) -> Micros {
        peer.rto.get().min(self.backoff_limit.into())
    }
}

/// What CoCoA remembers of a peer: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaPeer {
    strong: Estimator,
    weak: Estimator,
    rto: AgingRto,
}

impl CocoaPeer {
    /// No sample of either kind has been taken yet.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.strong.is_blind() && self.weak.is_blind()
    }

    /// The estimator of exchanges without retransmissions.
    #[must_use]
    pub fn strong(&self) -> Estimator {
        self.strong
    }

    /// The estimator of exchanges with retransmissions.
    #[must_use]
    pub fn weak(&self) -> Estimator {
        self.weak
    }
}

/// An exchange with more retransmissions gives no weak sample.
const WEAK_LIMIT: u8 = 2;
/// K of the strong estimator: RTO_strong = SRTT + 4·RTTVAR.
const K_STRONG: u32 = 4;
/// K of the weak estimator: RTO_weak = SRTT + RTTVAR.
const K_WEAK: u32 = 1;

/// The feature table's row of CoCoA.
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
    flight_bytes: size_of::<CocoaFlight>(),
    published_bytes: Some(29),
};

/// The feature table's row of CoCoA+.
pub const PLUS_FEATURES: Features = Features {
    about: "CoCoA+: CoCoA with the backoff factor of the exchange's first timer",
    backoff: "variable 3/2/1.5, frozen for the exchange",
    source: "ComMag'16",
    ..FEATURES
};

impl Controller for Cocoa {
    type Peer = CocoaPeer;
    type Flight = CocoaFlight;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, now: Instant) -> CocoaPeer {
        CocoaPeer {
            strong: Estimator::default(),
            weak: Estimator::default(),
            rto: AgingRto::new(Micros::from(self.ack_timeout).min(self.max_rto.into()), now),
        }
    }

    fn seed(&self, now: Instant, group: &Group) -> CocoaPeer {
        group.as_first_sample(self, now)
    }

    fn admit(&self, peer: &mut CocoaPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable {
            return Admission::Send;
        }
        paced_by_rto(now, message, &load.non, self.initial(peer, now, 0))
    }

    fn sent(&self, peer: &mut CocoaPeer, flight: &mut CocoaFlight, event: &Sent) -> Duration {
        self.arm(peer, flight, event, None)
    }

    fn expired(&self, _peer: &mut CocoaPeer, _flight: &mut CocoaFlight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut CocoaPeer, _flight: &CocoaFlight, event: &Acknowledged<'_>) {
        peer.rto.acknowledged(self.aging, event.now);
        let retransmissions = event.retransmissions();
        let Some(rtt) = sample::rtt(event) else { return };
        if retransmissions > usize::from(self.weak_limit) {
            return;
        }
        let rto = peer.rto.get();
        let rto = if retransmissions == 0 {
            peer.strong.sample(rtt, Gains::RFC6298);
            rto.towards(peer.strong.rto(K_STRONG), 1)
        } else {
            peer.weak.sample(rtt, Gains::RFC6298);
            rto.towards(peer.weak.rto(K_WEAK), 2)
        };
        peer.rto.set(rto.min(self.max_rto.into()), event.now);
    }

    /// Nothing: an exhausted or cancelled exchange leaves the estimators as they are.
    fn abandoned(&self, _peer: &mut CocoaPeer, _flight: &CocoaFlight, _event: &Abandoned<'_>) {}

    fn drained(&self, _peer: &mut CocoaPeer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut CocoaPeer, now: Instant) -> Duration {
        self.initial(peer, now, 0).into()
    }

    fn snapshot(&self, peer: &CocoaPeer) -> Snapshot {
        let estimator = if peer.strong.is_blind() { peer.weak } else { peer.strong };
        Snapshot {
            rto: self.rto(peer).into(),
            srtt: estimator.srtt().map(Duration::from),
            rttvar: estimator.rttvar().map(Duration::from),
            bandwidth: None,
        }
    }
}

#[cfg(test)]
mod tests;
