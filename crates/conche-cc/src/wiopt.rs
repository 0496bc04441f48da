//! The timers that WiOpt'12 compared: static, semi-dynamic and RFC 6298.
//!
//! Source: WiOpt'12. Static is RFC 7252's default. Semi-dynamic measures one round-trip time, at setup, and never again:
//! RTO = 4·RTT. RFC 6298 is TCP's estimator with an initial RTO of 1 s and a floor of 500 ms; what it backs off carries over
//! until a round-trip time without retransmission is seen (Karn's algorithm).
//!
//! Resolution: the paper takes the setup's round-trip time from a handshake, which CoAP has not. The first exchange without
//! a retransmission stands for it, and until then timers are the static ones; or see [`SemiDynamicPeer::after_setup`].

use core::time::Duration;

use crate::backoff::{CarriedTimer, Timer, backed_off, bounded};
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::default::{self, CoapDefault};
use crate::estimator::{Estimator, Gains};
use crate::features::Features;
use crate::group::Group;
use crate::non::paced_by_rto;
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// The feature table's row of the static timer.
pub const STATIC_FEATURES: Features = Features {
    about: "static timer in [2, 3] s: the default under the name WiOpt'12 gives it",
    source: "WiOpt'12",
    published_bytes: None,
    ..default::FEATURES
};

/// Four times the round-trip time at setup, for ever.
///
/// ```
/// use conche_cc::wiopt::{SemiDynamic, SemiDynamicPeer};
/// use conche_cc::{Controller, Instant};
/// use core::time::Duration;
///
/// let mut peer = SemiDynamicPeer::after_setup(Duration::from_millis(80));
/// assert_eq!(SemiDynamic::default().base(&mut peer, Instant::ZERO), Duration::from_millis(320));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SemiDynamic {
    /// The algorithm before the setup's round-trip time is known; its cap holds afterwards too.
    pub default: CoapDefault,
}

/// What the semi-dynamic timer remembers of a peer: 4 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SemiDynamicPeer {
    /// Zero until it is known.
    setup_rtt: Micros,
}

impl SemiDynamicPeer {
    /// A peer whose setup took `rtt`.
    #[must_use]
    pub fn after_setup(rtt: Duration) -> Self {
        Self { setup_rtt: Micros::from(rtt).max(Micros::MIN) }
    }

    /// RTO = 4·RTT, once that is known.
    fn rto(self) -> Option<Micros> {
        (self.setup_rtt != Micros::ZERO).then_some(self.setup_rtt.times(4))
    }
}

/// The feature table's row of the semi-dynamic timer.
pub const SEMI_DYNAMIC_FEATURES: Features = Features {
    about: "semi-dynamic: four times the first round-trip time, then frozen",
    strong_rtt: true,
    weak_rtt: None,
    dithering: "until measured: [1, 1.5]",
    backoff: "binary",
    ageing: "none",
    reuses_backed_off_rto: false,
    source: "WiOpt'12",
    peer_bytes: size_of::<SemiDynamicPeer>(),
    flight_bytes: size_of::<Timer>(),
    published_bytes: None,
};

impl Controller for SemiDynamic {
    type Peer = SemiDynamicPeer;
    type Flight = Timer;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, _now: Instant) -> SemiDynamicPeer {
        SemiDynamicPeer::default()
    }

    fn seed(&self, now: Instant, _group: &Group) -> SemiDynamicPeer {
        self.peer(now)
    }

    fn admit(&self, peer: &mut SemiDynamicPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable {
            return Admission::Send;
        }
        paced_by_rto(now, message, &load.non, self.base(peer, now).into())
    }

    fn sent(&self, peer: &mut SemiDynamicPeer, timer: &mut Timer, event: &Sent) -> Duration {
        let first = || peer.rto().unwrap_or_else(|| self.default.draw(event.random));
        timer.arm(event, first, Factor::TWO, self.default.cap())
    }

    fn expired(&self, _peer: &mut SemiDynamicPeer, _timer: &mut Timer, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut SemiDynamicPeer, _timer: &Timer, event: &Acknowledged<'_>) {
        if peer.rto().is_none()
            && let Some(setup_rtt) = sample::strong_rtt(event)
        {
            *peer = SemiDynamicPeer { setup_rtt };
        }
    }

    /// Nothing: what is frozen stays.
    fn abandoned(&self, _peer: &mut SemiDynamicPeer, _timer: &Timer, _event: &Abandoned<'_>) {}

    fn drained(&self, _peer: &mut SemiDynamicPeer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut SemiDynamicPeer, _now: Instant) -> Duration {
        bounded(peer.rto().unwrap_or(self.default.initial()), self.default.cap()).into()
    }

    fn snapshot(&self, peer: &SemiDynamicPeer) -> Snapshot {
        Snapshot { rto: self.base(&mut { *peer }, Instant::ZERO), ..Snapshot::default() }
    }
}

/// RFC 6298, as TCP uses it.
///
/// ```
/// use conche_cc::wiopt::Rfc6298;
/// use core::time::Duration;
///
/// let as_the_rfc_asks = Rfc6298 { min_rto: Duration::from_secs(1), ..Rfc6298::default() };
/// assert_eq!(as_the_rfc_asks.initial_rto, Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rfc6298 {
    /// The RTO before the first sample.
    pub initial_rto: Duration,
    /// No RTO is shorter. RFC 6298 §2.4 says 1 s, WiOpt'12 ran 500 ms.
    pub min_rto: Duration,
    /// No timer is longer.
    pub max_rto: Duration,
    /// G, the least that the variation adds to the smoothed round-trip time.
    pub clock_granularity: Duration,
}

impl Default for Rfc6298 {
    fn default() -> Self {
        Self {
            initial_rto: Duration::from_secs(1),
            min_rto: Duration::from_millis(500),
            max_rto: Duration::from_secs(60),
            clock_granularity: Duration::from_millis(1),
        }
    }
}

impl Rfc6298 {
    /// The RTO without backoff.
    fn estimate(&self, peer: &Rfc6298Peer) -> Micros {
        let estimator = peer.estimator;
        let Some(srtt) = estimator.srtt() else { return self.initial_rto.into() };
        estimator.rto(4).max(srtt.plus(self.clock_granularity.into())).max(self.min_rto.into())
    }

    /// The RTO that the next exchange starts from.
    fn rto(&self, peer: &Rfc6298Peer) -> Micros {
        bounded(backed_off(self.estimate(peer), peer.exponent), self.cap())
    }

    fn cap(&self) -> Micros {
        self.max_rto.into()
    }
}

/// What RFC 6298 remembers of a peer: 9 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct Rfc6298Peer {
    estimator: Estimator,
    /// How often the RTO has been doubled since the last sample.
    exponent: u8,
}

/// The feature table's row of RFC 6298.
pub const RFC6298_FEATURES: Features = Features {
    about: "RFC 6298: TCP's estimator, at least 500 ms",
    strong_rtt: true,
    weak_rtt: None,
    dithering: "none",
    backoff: "binary",
    ageing: "none",
    reuses_backed_off_rto: true,
    source: "RFC 6298; WiOpt'12",
    peer_bytes: size_of::<Rfc6298Peer>(),
    flight_bytes: size_of::<CarriedTimer>(),
    published_bytes: None,
};

impl Controller for Rfc6298 {
    type Peer = Rfc6298Peer;
    type Flight = CarriedTimer;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, _now: Instant) -> Rfc6298Peer {
        Rfc6298Peer::default()
    }

    fn seed(&self, now: Instant, group: &Group) -> Rfc6298Peer {
        group.as_first_sample(self, now)
    }

    fn admit(&self, peer: &mut Rfc6298Peer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable { Admission::Send } else { paced_by_rto(now, message, &load.non, self.rto(peer)) }
    }

    fn sent(&self, peer: &mut Rfc6298Peer, timer: &mut CarriedTimer, event: &Sent) -> Duration {
        let estimate = self.estimate(peer);
        timer.arm(event, estimate, &mut peer.exponent, self.cap())
    }

    fn expired(&self, _peer: &mut Rfc6298Peer, _timer: &mut CarriedTimer, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut Rfc6298Peer, _timer: &CarriedTimer, event: &Acknowledged<'_>) {
        if let Some(rtt) = sample::strong_rtt(event) {
            let mut estimator = peer.estimator;
            estimator.sample(rtt, Gains::RFC6298);
            *peer = Rfc6298Peer { estimator, exponent: 0 };
        }
    }

    /// Nothing: the backoff of its copies has been carried over already.
    fn abandoned(&self, _peer: &mut Rfc6298Peer, _timer: &CarriedTimer, _event: &Abandoned<'_>) {}

    fn drained(&self, _peer: &mut Rfc6298Peer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut Rfc6298Peer, _now: Instant) -> Duration {
        self.rto(peer).into()
    }

    fn snapshot(&self, peer: &Rfc6298Peer) -> Snapshot {
        let estimator = peer.estimator;
        Snapshot {
            rto: self.rto(peer).into(),
            srtt: estimator.srtt().map(Duration::from),
            rttvar: estimator.rttvar().map(Duration::from),
            bandwidth: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Drive;

    #[test]
    fn semi_dynamic_freezes_at_four_times_the_first_clean_round_trip() {
        let semi = SemiDynamic::default();
        let mut drive = Drive::new(&semi);
        assert_eq!([drive.start(0.0), drive.time_out()], [2_000, 4_000], "static before");
        assert_eq!(drive.ack_after(150), 2_000);
        assert_eq!(drive.clean(100), 400);
        assert_eq!(drive.clean(300), 400);
        assert_eq!([drive.start(1.0), drive.time_out()], [400, 800]);
    }

    #[test]
    fn rfc_6298_starts_at_one_second_and_has_a_floor_of_a_half() {
        let rfc = Rfc6298::default();
        let mut drive = Drive::new(&rfc);
        assert_eq!(drive.base(), 1_000);
        assert_eq!(drive.clean(300), 900);
        assert_eq!(drive.clean(10).max(500), drive.base());
        for _ in 0..50 {
            drive.clean(10);
        }
        assert_eq!(drive.base(), 500);
    }

    #[test]
    fn rfc_6298_keeps_a_backed_off_rto_until_a_clean_exchange() {
        let rfc = Rfc6298::default();
        let mut drive = Drive::new(&rfc);
        drive.start(0.0);
        drive.time_out();
        assert_eq!(drive.ack_after(100), 2_000);
        assert_eq!(drive.clean(300), 900);
    }
}
