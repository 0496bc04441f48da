//! CoCoA-S of ComMag'16: CoCoA with its strong estimator only.
//!
//! Exchanges that needed a retransmission leave no trace: neither a sample nor a backed-off RTO. Backoff factors are
//! frozen for the exchange, ageing is CoCoA's.

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

/// CoCoA-S: strong round-trip times only.
///
/// ```
/// use conche_cc::cocoa::{Aging, CocoaS};
///
/// let as_published = CocoaS { aging: Aging::Literal, ..CocoaS::default() };
/// assert_eq!(size_of_val(&conche_cc::Controller::peer(&as_published, conche_cc::Instant::ZERO)), 16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaS {
    /// The RTO before the first sample.
    pub ack_timeout: Duration,
    /// The first timer is up to this many times the RTO.
    pub ack_random_factor: Factor,
    /// Which timer the backoff factor is chosen by.
    pub vbf: Vbf,
    /// From when idleness is counted.
    pub aging: Aging,
    /// No exchange starts from a longer RTO, and no copy's timer is backed off beyond this.
    pub backoff_limit: Duration,
    /// The RTO is never longer.
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
            max_rto: MAX_RTO,
        }
    }
}

impl CocoaS {
    /// The initial RTO of an exchange that starts now beside `running` others, before dithering: see
    /// [`Cocoa::initial_rto`](super::Cocoa::initial_rto).
    pub fn initial_rto(&self, peer: &mut CocoaSPeer, now: Instant, running: u16) -> Duration {
        self.initial(peer, now, running).into()
    }

    fn initial(&self, peer: &mut CocoaSPeer, now: Instant, running: u16) -> Micros {
        let rto = peer.rto.aged(self.aging, now);
        let rto = if peer.estimator.is_blind() { rto.times(u32::from(running) + 1) } else { rto };
        rto.min(self.backoff_limit.into())
    }
}

/// What CoCoA-S remembers of a peer: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaSPeer {
    estimator: Estimator,
    rto: AgingRto,
}

/// The feature table's row of CoCoA-S.
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
    flight_bytes: size_of::<CocoaFlight>(),
    published_bytes: Some(19),
};

impl Controller for CocoaS {
    type Peer = CocoaSPeer;
    type Flight = CocoaFlight;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, now: Instant) -> CocoaSPeer {
        CocoaSPeer {
            estimator: Estimator::default(),
            rto: AgingRto::new(Micros::from(self.ack_timeout).min(self.max_rto.into()), now),
        }
    }

    fn seed(&self, now: Instant, group: &Group) -> CocoaSPeer {
        group.as_first_sample(self, now)
    }

    fn admit(&self, peer: &mut CocoaSPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable {
            return Admission::Send;
        }
        paced_by_rto(now, message, &load.non, self.initial(peer, now, 0))
    }

    fn sent(&self, peer: &mut CocoaSPeer, flight: &mut CocoaFlight, event: &Sent) -> Duration {
        peer.rto.transmitted(self.aging, event.now);
        let series = Series {
            backoff: VariableBackoff::DRAFT03,
            vbf: self.vbf,
            limit: self.backoff_limit.into(),
            cap: self.max_rto.into(),
        };
        series.arm(flight, event, || {
            dithered(self.initial(peer, event.now, event.load.exchanges), self.ack_random_factor, event.random)
        })
    }

    fn expired(&self, _peer: &mut CocoaSPeer, _flight: &mut CocoaFlight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut CocoaSPeer, _flight: &CocoaFlight, event: &Acknowledged<'_>) {
        peer.rto.acknowledged(self.aging, event.now);
        let Some(rtt) = sample::strong_rtt(event) else { return };
        peer.estimator.sample(rtt, Gains::RFC6298);
        let rto = peer.rto.get().towards(peer.estimator.rto(4), 1);
        peer.rto.set(rto.min(self.max_rto.into()), event.now);
    }

    /// Nothing: only strong samples count.
    fn abandoned(&self, _peer: &mut CocoaSPeer, _flight: &CocoaFlight, _event: &Abandoned<'_>) {}

    fn drained(&self, _peer: &mut CocoaSPeer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut CocoaSPeer, now: Instant) -> Duration {
        self.initial(peer, now, 0).into()
    }

    fn snapshot(&self, peer: &CocoaSPeer) -> Snapshot {
        Snapshot {
            rto: peer.rto.get().min(self.backoff_limit.into()).into(),
            srtt: peer.estimator.srtt().map(Duration::from),
            rttvar: peer.estimator.rttvar().map(Duration::from),
            bandwidth: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Drive;

    #[test]
    fn an_exchange_with_a_retransmission_leaves_no_trace() {
        let cocoa = CocoaS::default();
        let mut drive = Drive::new(&cocoa);
        assert_eq!(drive.clean(300), 1_450);
        assert_eq!([drive.start(0.0), drive.time_out()], [1_450, 2_900]);
        assert_eq!(drive.ack_after(150), 1_450);
    }

    #[test]
    fn the_factor_is_frozen() {
        let cocoa = CocoaS { ack_timeout: Duration::from_millis(300), ..CocoaS::default() };
        let mut drive = Drive::new(&cocoa);
        let timers = [drive.start(0.0), drive.time_out(), drive.time_out(), drive.time_out()];
        assert_eq!(timers, [300, 900, 2_700, 8_100]);
    }

    #[test]
    fn an_idle_small_rto_grows() {
        let cocoa = CocoaS::default();
        let mut drive = Drive::new(&cocoa);
        for _ in 0..20 {
            drive.clean(100);
        }
        let settled = drive.base();
        drive.wait(settled * 16 + 100);
        // RTOs are kept in microseconds: doubled, one may show a millisecond more.
        assert!((settled * 2..=settled * 2 + 1).contains(&drive.base()));
    }
}
