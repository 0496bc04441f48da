//! The timers that WiOpt'12 compared: static, semi-dynamic and RFC 6298.
//!
//! The static timer is RFC 7252's default. The semi-dynamic one is four times a round-trip time
//! measured at setup. RFC 6298 is TCP's estimator with an initial RTO of 1 s and a floor of 500 ms;
//! backoff carries over until a sample without retransmission (Karn's algorithm).
//!
//! Resolution: CoAP has no setup handshake. The first exchange without a retransmission replaces
//! it. See also [`SemiDynamicPeer::after_setup`].

use core::time::Duration;

use crate::backoff::{CarriedBackoff, backed_off, bounded, grown};
use crate::control::{Acknowledged, Sent, Snapshot};
use crate::default::{self, CoapDefault};
use crate::estimator::{Estimator, Gains};
use crate::features::Features;
use crate::parameters::Range;
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// Feature table row of the static timer.
pub const STATIC_FEATURES: Features = Features {
    about: "static timer in [2, 3] s: the default under the name WiOpt'12 gives it",
    source: "WiOpt'12",
    published_bytes: None,
    ..default::FEATURES
};

/// Four times the round-trip time at setup, never updated.
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
    /// Used before the first measurement; its cap always holds.
    pub default: CoapDefault,
}

/// Per-peer state: 4 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SemiDynamicPeer {
    setup_rtt: Micros,
}

impl SemiDynamicPeer {
    /// Returns a peer whose setup took `rtt`.
    #[must_use]
    pub fn after_setup(rtt: Duration) -> Self {
        Self { setup_rtt: Micros::from(rtt).max(Micros::MIN) }
    }

    fn frozen(self) -> Option<Micros> {
        (self.setup_rtt != Micros::ZERO).then_some(self.setup_rtt.times(4))
    }
}

crate::parameters! {
    SemiDynamic {} + default
}

/// Feature table row of the semi-dynamic timer.
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
    flight_bytes: size_of::<RuleFlight<()>>(),
    published_bytes: None,
};

impl RtoRule for SemiDynamic {
    type Peer = SemiDynamicPeer;
    type Exchange = ();
    const MEASURES_RTT: bool = true;
    /// The timer would freeze at other peers' round-trip time.
    const STARTS_FROM_PATH: bool = false;

    fn new_peer(&self, _now: Instant) -> SemiDynamicPeer {
        SemiDynamicPeer::default()
    }

    fn rto(&self, peer: &SemiDynamicPeer) -> Micros {
        bounded(peer.frozen().unwrap_or(self.default.initial()), self.default.cap())
    }

    fn first_timeout(&self, peer: &mut SemiDynamicPeer, (): &mut (), sent: &Sent) -> Micros {
        bounded(peer.frozen().unwrap_or_else(|| self.default.draw(sent.random)), self.default.cap())
    }

    fn next_timeout(&self, _peer: &mut SemiDynamicPeer, (): &mut (), current: Micros, _sent: &Sent) -> Micros {
        grown(current, Factor::TWO, self.default.cap())
    }

    fn on_ack(&self, peer: &mut SemiDynamicPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        if peer.frozen().is_none()
            && let Some(setup_rtt) = sample::strong_rtt(event)
        {
            *peer = SemiDynamicPeer { setup_rtt };
        }
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
    /// RTO before the first sample.
    pub initial_rto: Duration,
    /// Minimum RTO before backoff: 1 s in RFC 6298 §2.4, 500 ms in WiOpt'12.
    pub min_rto: Duration,
    /// Maximum timeout.
    pub max_rto: Duration,
    /// G: minimum addition of the variation to SRTT.
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
    fn estimate(&self, peer: &Rfc6298Peer) -> Micros {
        let estimator = peer.estimator;
        let Some(srtt) = estimator.srtt() else { return self.initial_rto.into() };
        estimator.rto(4).max(srtt.plus(self.clock_granularity.into())).max(self.min_rto.into())
    }

    fn cap(&self) -> Micros {
        self.max_rto.into()
    }
}

/// Per-peer state: 9 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct Rfc6298Peer {
    estimator: Estimator,
    exponent: u8,
}

crate::parameters! {
    Rfc6298 {
        "initial_rto" => initial_rto, Range::millis(1, 60_000), "RTO before the first sample", "RFC 6298 §2.1";
        "min_rto" => min_rto, Range::millis(1, 60_000), "minimum RTO before backoff", "RFC 6298 §2.4; WiOpt'12";
        "max_rto" => max_rto, Range::millis(1_000, 600_000), "maximum timeout", "RFC 6298 §2.5";
        "clock_granularity" => clock_granularity, Range::millis(0, 10_000),
            "G: minimum excess of the RTO over SRTT", "RFC 6298 §2.3";
    }
}

/// Feature table row of RFC 6298.
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
    flight_bytes: size_of::<RuleFlight<CarriedBackoff>>(),
    published_bytes: None,
};

impl RtoRule for Rfc6298 {
    type Peer = Rfc6298Peer;
    type Exchange = CarriedBackoff;
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, _now: Instant) -> Rfc6298Peer {
        Rfc6298Peer::default()
    }

    fn rto(&self, peer: &Rfc6298Peer) -> Micros {
        bounded(backed_off(self.estimate(peer), peer.exponent), self.cap())
    }

    fn first_timeout(&self, peer: &mut Rfc6298Peer, backoff: &mut CarriedBackoff, _sent: &Sent) -> Micros {
        backoff.first(self.estimate(peer), peer.exponent, self.cap())
    }

    fn next_timeout(&self, peer: &mut Self::Peer, backoff: &mut CarriedBackoff, current: Micros, _: &Sent) -> Micros {
        backoff.next(current, &mut peer.exponent, self.cap())
    }

    fn on_ack(&self, peer: &mut Rfc6298Peer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        if let Some(rtt) = sample::strong_rtt(event) {
            let mut estimator = peer.estimator;
            estimator.sample(rtt, Gains::RFC6298);
            *peer = Rfc6298Peer { estimator, exponent: 0 };
        }
    }

    fn report(&self, peer: &Rfc6298Peer) -> Snapshot {
        let estimator = peer.estimator;
        estimator.snapshot(self.rto(peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDriver;

    #[test]
    fn semi_dynamic_freezes_at_four_times_the_first_clean_round_trip() {
        let semi = SemiDynamic::default();
        let mut drive = TestDriver::new(&semi);
        assert_eq!([drive.start(0.0), drive.time_out()], [2_000, 4_000], "static before");
        assert_eq!(drive.ack_after(150), 2_000);
        assert_eq!(drive.clean(100), 400);
        assert_eq!(drive.clean(300), 400);
        assert_eq!([drive.start(1.0), drive.time_out()], [400, 800]);
    }

    #[test]
    fn rfc_6298_starts_at_one_second_and_has_a_floor_of_a_half() {
        let rfc = Rfc6298::default();
        let mut drive = TestDriver::new(&rfc);
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
        let mut drive = TestDriver::new(&rfc);
        drive.start(0.0);
        drive.time_out();
        assert_eq!(drive.ack_after(100), 2_000);
        assert_eq!(drive.clean(300), 900);
    }
}
