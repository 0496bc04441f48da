//! Peak-Hopper RTO: follows peaks of the round-trip time at once and decays slowly.
//!
//! Source: Ekström and Ludwig, "The Peak-Hopper: A New End-to-End Retransmission Timer for Reliable
//! Unicast Transport" (2003 manuscript); ComMag'16 for CoAP: timeouts are unrandomised, and binary
//! backoff carries over. ComMag'16 measured Californium of October 2014, see [`PaperVariant`].

use core::time::Duration;

use crate::backoff::{CarriedBackoff, backed_off, bounded};
use crate::control::{Acknowledged, Sent};
use crate::features::Features;
use crate::parameters::{Range, words};
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{Micros, saturate};

/// Reading of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaperVariant {
    /// δ = (R - R_prev)/R_prev, signed; the boost starts from 3/4.
    #[default]
    Original,
    /// δ = 2·|R - R_prev|/R: a *falling* round-trip time raises the RTO too. Boost and R_prev start
    /// from 0, so the second sample gets the full boost.
    Californium2014,
}

/// Peak-Hopper.
///
/// ```
/// use conche_cc::peak_hopper::{PeakHopper, PaperVariant};
///
/// assert_eq!(PeakHopper::default().reading, PaperVariant::Original);
/// assert_eq!(PeakHopper::californium_2014().reading, PaperVariant::Californium2014);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakHopper {
    /// RTO before the first sample.
    pub ack_timeout: Duration,
    /// Reading of the paper.
    pub reading: PaperVariant,
    /// F: boost and RTO decay by 1/(F·S) per sample.
    pub fading: u8,
    /// S: samples per flight; for CoAP, NSTART.
    pub samples_per_flight: u8,
    /// 2·G: minimum excess of the RTO over the last two samples.
    pub min_margin: Duration,
    /// Maximum timeout.
    pub max_rto: Duration,
}

impl Default for PeakHopper {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(2),
            reading: PaperVariant::Original,
            fading: 24,
            samples_per_flight: 1,
            min_margin: Duration::from_millis(100),
            max_rto: Duration::from_secs(60),
        }
    }
}

impl PeakHopper {
    /// Californium 2014's reading, measured in ComMag'16.
    #[must_use]
    pub fn californium_2014() -> Self {
        Self { reading: PaperVariant::Californium2014, ..Self::default() }
    }

    fn sample(&self, hopper: &mut Hopper, rtt: Micros) {
        if hopper.is_unmeasured() {
            hopper.rto = rtt.plus(rtt.times(3).shifted(2));
            if self.reading == PaperVariant::Original {
                (hopper.boost, hopper.previous) = (Boost::FIRST, rtt);
            }
            return;
        }
        let previous = hopper.previous;
        let hop = match self.reading {
            PaperVariant::Original => Boost::ratio(rtt.minus(previous), previous),
            PaperVariant::Californium2014 => Boost::ratio(rtt.distance(previous).times(2), rtt),
        };
        hopper.boost = hop.max(Boost(self.decayed(hopper.boost.0)));
        let peak = rtt.max(previous);
        hopper.rto = Micros::new(self.decayed(hopper.rto.get()))
            .max(peak.plus(hopper.boost.of(peak)))
            .max(peak.plus(self.min_margin.into()));
        hopper.previous = rtt;
    }

    /// D = 1 - 1/(F·S).
    fn decayed(&self, value: u32) -> u32 {
        let steps = u64::from(self.fading.max(1)) * u64::from(self.samples_per_flight.max(1));
        saturate(u64::from(value) * (steps - 1) / steps)
    }

    fn estimate(&self, peer: &PeakHopperPeer) -> Micros {
        let hopper = peer.hopper;
        if hopper.is_unmeasured() { self.ack_timeout.into() } else { hopper.rto }
    }

    fn cap(&self) -> Micros {
        self.max_rto.into()
    }
}

/// Per-peer state: 13 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct PeakHopperPeer {
    hopper: Hopper,
    exponent: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hopper {
    previous: Micros,
    boost: Boost,
    rto: Micros,
}

impl Hopper {
    fn is_unmeasured(&self) -> bool {
        self.rto == Micros::ZERO
    }
}

/// B: the RTO's excess over the peak, in 2^-16 of it, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Boost(u32);

impl Boost {
    const ONE: u32 = 1 << 16;
    const FIRST: Self = Self(Self::ONE * 3 / 4);

    fn ratio(part: Micros, whole: Micros) -> Self {
        let ratio = (u64::from(part.get()) << 16) / u64::from(whole.get().max(1));
        Self(saturate(ratio).min(Self::ONE))
    }

    fn of(self, span: Micros) -> Micros {
        Micros::new(saturate((u64::from(span.get()) * u64::from(self.0)) >> 16))
    }
}

words!(PaperVariant { Original = "original", Californium2014 = "californium2014" });

crate::parameters! {
    PeakHopper {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000), "RTO before the first sample", "RFC 7252 §4.8";
        "reading" => reading, PaperVariant::RANGE, "definition of the hop δ", "Ekström and Ludwig 2003; Californium";
        "fading" => fading, Range::count(1, 255), "F: decay by 1/(F·S) per sample", "Ekström and Ludwig 2003";
        "samples_per_flight" => samples_per_flight, Range::count(1, 255),
            "S: samples per flight", "Ekström and Ludwig 2003";
        "min_margin" => min_margin, Range::millis(0, 10_000),
            "2·G: minimum excess of the RTO over the last two samples", "Ekström and Ludwig 2003";
        "max_rto" => max_rto, Range::millis(1_000, 600_000), "maximum timeout", "Ekström and Ludwig 2003";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "Peak-Hopper: hops on RTT peaks at once, decays slowly",
    strong_rtt: true,
    weak_rtt: None,
    dithering: "none",
    backoff: "binary",
    ageing: "none",
    reuses_backed_off_rto: true,
    source: "Ekström and Ludwig 2003; ComMag'16",
    peer_bytes: size_of::<PeakHopperPeer>(),
    flight_bytes: size_of::<RuleFlight<CarriedBackoff>>(),
    published_bytes: Some(43),
};

/// Feature table row of Californium's reading.
pub const CALIFORNIUM_FEATURES: Features = Features {
    about: "Peak-Hopper as Californium had it in 2014: falling RTTs hop too",
    source: "Californium, October 2014; ComMag'16",
    ..FEATURES
};

impl RtoRule for PeakHopper {
    type Peer = PeakHopperPeer;
    type Exchange = CarriedBackoff;
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, _now: Instant) -> PeakHopperPeer {
        PeakHopperPeer::default()
    }

    fn rto(&self, peer: &PeakHopperPeer) -> Micros {
        bounded(backed_off(self.estimate(peer), peer.exponent), self.cap())
    }

    fn first_timeout(&self, peer: &mut PeakHopperPeer, backoff: &mut CarriedBackoff, _sent: &Sent) -> Micros {
        backoff.first(self.estimate(peer), peer.exponent, self.cap())
    }

    fn next_timeout(&self, peer: &mut Self::Peer, backoff: &mut CarriedBackoff, current: Micros, _: &Sent) -> Micros {
        backoff.next(current, &mut peer.exponent, self.cap())
    }

    fn on_ack(&self, peer: &mut PeakHopperPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        if let Some(rtt) = sample::strong_rtt(event) {
            let mut hopper = peer.hopper;
            self.sample(&mut hopper, rtt);
            *peer = PeakHopperPeer { hopper, exponent: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDriver;

    fn bases<const N: usize>(hopper: &PeakHopper, rtts_ms: [u64; N]) -> [u64; N] {
        let mut drive = TestDriver::new(hopper);
        rtts_ms.map(|rtt_ms| drive.clean(rtt_ms))
    }

    #[test]
    fn the_first_sample_gets_a_boost_of_three_quarters() {
        assert_eq!(bases(&PeakHopper::default(), [300]), [525]);
    }

    #[test]
    fn a_peak_makes_the_rto_hop_at_once_and_decay_slowly() {
        let [first, peak, after] = bases(&PeakHopper::default(), [400, 800, 400]);
        // δ = 1, so twice the peak; then 23/24 of the boost over the same peak.
        assert_eq!((first, peak), (700, 1_600));
        assert!((1_566..=1_567).contains(&after), "{after}");
    }

    #[test]
    fn a_falling_round_trip_hops_only_by_the_reading_of_2014() {
        let rtts = [400, 400, 400, 400, 100];
        let decayed = |bases: [u64; 5]| bases[4] < bases[3];
        assert!(decayed(bases(&PeakHopper::default(), rtts)));
        let [.., before, fallen] = bases(&PeakHopper::californium_2014(), rtts);
        assert!(fallen > before && fallen == 800, "boosted to twice the last peak: {fallen}");
    }

    #[test]
    fn the_second_sample_gets_the_full_boost_by_the_reading_of_2014() {
        assert_eq!(bases(&PeakHopper::californium_2014(), [300, 320]), [525, 640]);
        assert_eq!(bases(&PeakHopper::default(), [300, 320])[1], 550);
    }

    #[test]
    fn a_backed_off_rto_persists_until_a_clean_exchange() {
        let hopper = PeakHopper::default();
        let mut drive = TestDriver::new(&hopper);
        assert_eq!([drive.start(0.5), drive.time_out(), drive.time_out()], [2_000, 4_000, 8_000]);
        assert_eq!(drive.ack_at(10_000), 8_000);
        assert_eq!(drive.clean(400), 700);
    }

    #[test]
    fn the_rto_stays_two_clock_ticks_above_the_peak() {
        let hopper = PeakHopper::default();
        let mut drive = TestDriver::new(&hopper);
        for _ in 0..200 {
            drive.clean(50);
        }
        assert_eq!(drive.base(), 150);
    }
}
