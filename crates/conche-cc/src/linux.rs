//! Linux RTO: the estimator of Linux's TCP, applied to CoAP exchanges.
//!
//! Source: `tcp_rtt_estimator` of the Linux kernel; ComMag'16 for CoAP: timeouts are unrandomised,
//! and a backed-off RTO carries over until a sample without retransmission (Karn's algorithm).
//! Unlike in RFC 6298, a shrinking round-trip time raises the mean deviation slowly, and RTTVAR is
//! the largest mean deviation in a round trip, at least 50 ms.
//!
//! Divergences: deviations are from the old smoothed value, as in the kernel (Californium: the
//! new). Later Californium, unlike ComMag'16, forgets a backed-off RTO. Microseconds replace
//! milliseconds.

use core::time::Duration;

use crate::backoff::{CarriedBackoff, backed_off, bounded};
use crate::control::{Acknowledged, Sent, Snapshot};
use crate::features::Features;
use crate::parameters::Range;
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{Micros, Stamp};

/// The RTO of Linux's TCP.
///
/// ```
/// use conche_cc::linux::Linux;
/// use conche_cc::Controller;
///
/// assert_eq!(size_of::<<Linux as Controller>::Peer>(), 21);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linux {
    /// RTO before the first sample.
    pub ack_timeout: Duration,
    /// Minimum mean deviation; the RTO exceeds SRTT by four times this.
    pub min_deviation: Duration,
    /// Maximum timeout.
    pub max_rto: Duration,
}

impl Default for Linux {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(2),
            min_deviation: Duration::from_millis(50),
            max_rto: Duration::from_secs(120),
        }
    }
}

impl Linux {
    fn estimate(&self, peer: &LinuxPeer) -> Micros {
        let estimator = peer.estimator;
        if estimator.is_unmeasured() { self.ack_timeout.into() } else { estimator.rto() }
    }

    fn cap(&self) -> Micros {
        self.max_rto.into()
    }
}

/// Per-peer state: 21 bytes, as in ComMag'16, Table 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct LinuxPeer {
    estimator: KernelEstimator,
    exponent: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KernelEstimator {
    /// Zero until the first sample.
    srtt: Micros,
    mdev: Micros,
    mdev_max: Micros,
    rttvar: Micros,
    /// Start of the window.
    mark: Stamp,
}

impl KernelEstimator {
    fn is_unmeasured(&self) -> bool {
        self.srtt == Micros::ZERO
    }

    fn rto(&self) -> Micros {
        self.srtt.plus(self.rttvar.times(4))
    }

    fn sample(&mut self, rtt: Micros, floor: Micros, started: Stamp, now: Stamp) {
        if self.is_unmeasured() {
            let mdev = rtt.shifted(1);
            let rttvar = mdev.max(floor);
            *self = Self { srtt: rtt, mdev, mdev_max: rttvar, rttvar, mark: now };
            return;
        }
        self.update_deviation(rtt);
        self.srtt = self.srtt.towards(rtt, 3).max(Micros::MIN);
        if self.mdev > self.mdev_max {
            self.mdev_max = self.mdev;
            self.rttvar = self.rttvar.max(self.mdev_max);
        }
        let window_is_a_round_trip_old = self.mark.age_ms(now) >= started.age_ms(now);
        if window_is_a_round_trip_old {
            if self.mdev_max < self.rttvar {
                self.rttvar = self.rttvar.towards(self.mdev_max, 2);
            }
            self.mark = now;
            self.mdev_max = floor;
        }
    }

    /// A shrinking round-trip time has an eighth of the gain.
    fn update_deviation(&mut self, rtt: Micros) {
        let error = self.srtt.distance(rtt);
        let shrank = rtt < self.srtt;
        let shift = if shrank && error > self.mdev { 5 } else { 2 };
        self.mdev = self.mdev.towards(error, shift);
    }
}

crate::parameters! {
    Linux {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000), "RTO before the first sample", "RFC 7252 §4.8";
        "min_deviation" => min_deviation, Range::millis(0, 10_000), "minimum mean deviation", "tcp_rtt_estimator";
        "max_rto" => max_rto, Range::millis(1_000, 600_000), "maximum timeout", "tcp_rtt_estimator";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "Linux RTO: TCP's estimator in the Linux kernel",
    strong_rtt: true,
    weak_rtt: None,
    dithering: "none",
    backoff: "binary",
    ageing: "none",
    reuses_backed_off_rto: true,
    source: "ComMag'16; Linux, tcp_rtt_estimator",
    peer_bytes: size_of::<LinuxPeer>(),
    flight_bytes: size_of::<RuleFlight<CarriedBackoff>>(),
    published_bytes: Some(21),
};

impl RtoRule for Linux {
    type Peer = LinuxPeer;
    type Exchange = CarriedBackoff;
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, _now: Instant) -> LinuxPeer {
        LinuxPeer::default()
    }

    fn rto(&self, peer: &LinuxPeer) -> Micros {
        bounded(backed_off(self.estimate(peer), peer.exponent), self.cap())
    }

    fn first_timeout(&self, peer: &mut LinuxPeer, backoff: &mut CarriedBackoff, _sent: &Sent) -> Micros {
        backoff.first(self.estimate(peer), peer.exponent, self.cap())
    }

    fn next_timeout(&self, peer: &mut Self::Peer, backoff: &mut CarriedBackoff, current: Micros, _: &Sent) -> Micros {
        backoff.next(current, &mut peer.exponent, self.cap())
    }

    fn on_ack(&self, peer: &mut LinuxPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        if let Some(rtt) = sample::strong_rtt(event) {
            let started = Stamp::at(event.sent.first().copied().unwrap_or(event.now));
            let mut estimator = peer.estimator;
            estimator.sample(rtt, self.min_deviation.into(), started, Stamp::at(event.now));
            *peer = LinuxPeer { estimator, exponent: 0 };
        }
    }

    fn report(&self, peer: &LinuxPeer) -> Snapshot {
        let estimator = peer.estimator;
        let measured = |span: Micros| (!estimator.is_unmeasured()).then_some(Duration::from(span));
        Snapshot {
            rto: self.rto(peer).into(),
            srtt: measured(estimator.srtt),
            rttvar: measured(estimator.rttvar),
            bandwidth: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDriver;

    #[test]
    fn the_first_sample_gives_three_times_itself() {
        assert_eq!(TestDriver::new(&Linux::default()).clean(300), 900);
    }

    #[test]
    fn a_backed_off_rto_persists_until_a_clean_exchange() {
        let linux = Linux::default();
        let mut drive = TestDriver::new(&linux);
        assert_eq!([drive.start(0.5), drive.time_out()], [2_000, 4_000], "undithered");
        assert_eq!(drive.ack_after(150), 4_000);
        assert_eq!([drive.start(0.5), drive.time_out()], [4_000, 8_000]);
        assert_eq!(drive.ack_after(150), 8_000);
        assert_eq!(drive.clean(400), 1_200);
    }

    #[test]
    fn a_ten_second_round_trip_is_never_measured_before_the_rto_exceeds_it() {
        let linux = Linux::default();
        let mut drive = TestDriver::new(&linux);
        drive.start(0.5);
        drive.time_out();
        drive.time_out();
        assert_eq!(drive.ack_at(10_000), 8_000);
    }

    #[test]
    fn the_rto_stays_200_ms_above_a_steady_round_trip() {
        let linux = Linux::default();
        let mut drive = TestDriver::new(&linux);
        for _ in 0..200 {
            drive.clean(100);
        }
        assert_eq!(drive.base(), 300);
    }

    #[test]
    fn a_falling_round_trip_raises_the_deviation_an_eighth_as_much_as_a_rising_one() {
        let rto_after = |rtt_ms| {
            let linux = Linux::default();
            let mut drive = TestDriver::new(&linux);
            for _ in 0..200 {
                drive.clean(1_000);
            }
            drive.clean(rtt_ms)
        };
        let (risen, fallen) = (rto_after(1_400), rto_after(600));
        // Deviation 400/4 = 100 ms, SRTT 1050 ms; or 400/32 below the floor of 50 ms, SRTT 950 ms.
        assert!((1_449..=1_452).contains(&risen) && (1_149..=1_152).contains(&fallen), "{risen}, {fallen}");
    }

    #[test]
    fn weeks_of_silence_do_not_stop_the_window() {
        for days in [25, 48, 60] {
            let linux = Linux::default();
            let mut drive = TestDriver::new(&linux);
            drive.clean(2_000);
            drive.wait(days * 86_400_000);
            for _ in 0..100 {
                drive.clean(200);
            }
            assert!(drive.base() < 500, "{} ms after {days} days", drive.base());
        }
    }
}
