//! Basic RTO: the RTO is the last round-trip time.
//!
//! Source: ComMag'16. The first timeout is 1 to 1.5 RTOs; retransmissions double it.
//!
//! Divergences: unlike ComMag'16, later Californium takes 1.5 times the round-trip time,
//! unrandomised, at least 500 ms, and ignores exchanges with three or more retransmissions. The RTO
//! is at least a millisecond, its unit.

use core::time::Duration;

use crate::backoff::{dithered, grown, suggests_congestion};
use crate::control::{Abandoned, Acknowledged, Sent};
use crate::features::Features;
use crate::parameters::Range;
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// The last round-trip time as the RTO.
///
/// ```
/// use conche_cc::basic::Basic;
/// use conche_cc::Controller;
///
/// assert_eq!(size_of::<<Basic as Controller>::Peer>(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basic {
    /// RTO before the first sample.
    pub ack_timeout: Duration,
    /// Maximum first timeout in RTOs.
    pub ack_random_factor: Factor,
    /// Maximum RTO and timeout; at most 65 s.
    pub max_rto: Duration,
}

impl Default for Basic {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(2),
            ack_random_factor: Factor::ONE_AND_HALF,
            max_rto: Duration::from_secs(60),
        }
    }
}

impl Basic {
    fn cap(&self) -> Micros {
        Micros::from(self.max_rto)
    }

    fn peer_with(&self, rto: Micros) -> BasicPeer {
        let nearest_ms = rto.min(self.cap()).plus(Micros::new(500)).get() / 1_000;
        BasicPeer(u16::try_from(nearest_ms).unwrap_or(u16::MAX).max(1))
    }
}

/// Per-peer state: the RTO in milliseconds, 2 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicPeer(u16);

impl BasicPeer {
    fn rto(self) -> Micros {
        Micros::from_millis(u32::from(self.0))
    }
}

crate::parameters! {
    Basic {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000), "RTO before the first sample", "RFC 7252 §4.8";
        "ack_random_factor" => ack_random_factor, Range::permille(1_000, 10_000),
            "maximum first timeout in RTOs", "RFC 7252 §4.8";
        "max_rto" => max_rto, Range::millis(1_000, 65_000), "maximum RTO and timeout", "conche";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "Basic RTO: the last round-trip time, whatever it was",
    strong_rtt: true,
    weak_rtt: Some(u8::MAX),
    dithering: "[1, 1.5]",
    backoff: "binary",
    ageing: "none",
    reuses_backed_off_rto: false,
    source: "ComMag'16",
    peer_bytes: size_of::<BasicPeer>(),
    flight_bytes: size_of::<RuleFlight<()>>(),
    published_bytes: Some(2),
};

impl RtoRule for Basic {
    type Peer = BasicPeer;
    type Exchange = ();
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, _now: Instant) -> BasicPeer {
        self.peer_with(self.ack_timeout.into())
    }

    fn rto(&self, peer: &BasicPeer) -> Micros {
        peer.rto()
    }

    fn first_timeout(&self, peer: &mut BasicPeer, (): &mut (), sent: &Sent) -> Micros {
        dithered(peer.rto(), self.ack_random_factor, sent.random).min(self.cap())
    }

    fn next_timeout(&self, _peer: &mut BasicPeer, (): &mut (), current: Micros, _sent: &Sent) -> Micros {
        grown(current, Factor::TWO, self.cap())
    }

    fn on_ack(&self, peer: &mut BasicPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        if let Some(rtt) = sample::rtt(event) {
            *peer = self.peer_with(rtt);
        }
    }

    /// Shorter timeouts failed.
    fn on_failure(&self, peer: &mut BasicPeer, timeout: Option<Micros>, event: &Abandoned<'_>) {
        if suggests_congestion(event)
            && let Some(timeout) = timeout
        {
            *peer = self.peer_with(timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::AbandonReason;
    use crate::testing::TestDriver;

    #[test]
    fn any_acknowledgement_sets_the_rto_to_its_round_trip_time() {
        let basic = Basic::default();
        let mut drive = TestDriver::new(&basic);
        assert_eq!(drive.clean(300), 300);
        assert_eq!([drive.start(0.0), drive.time_out()], [300, 600]);
        assert_eq!(drive.ack_after(20), 320);
    }

    #[test]
    fn without_an_acknowledgement_the_next_rto_is_the_last_timer() {
        let basic = Basic::default();
        let mut drive = TestDriver::new(&basic);
        drive.start(0.0);
        for _ in 0..4 {
            drive.time_out();
        }
        assert_eq!(drive.end(AbandonReason::GaveUp), 32_000);
    }

    #[test]
    fn round_trips_of_no_time_and_of_hours_leave_an_rto_within_its_bounds() {
        let basic = Basic::default();
        assert_eq!(TestDriver::new(&basic).clean(0), 1);
        assert_eq!(TestDriver::new(&basic).clean(10_000_000), 60_000);
    }
}
