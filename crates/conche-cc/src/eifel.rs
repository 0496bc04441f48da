//! The Eifel retransmission timer, for CoAP.
//!
//! Source: code for Contiki (github.com/vishal623/CoAPEifel), after Ludwig and Sklower, "The Eifel
//! Retransmission Timer" (2000). With n = 3, and D = R - SRTT of an exchange without
//! retransmission:
//!
//! - SRTT ← SRTT + D/n, from 0
//! - RTTVAR ← RTTVAR + (D - RTTVAR)/n if D ≥ RTTVAR, /n² if 0 ≤ D < RTTVAR; a falling round-trip
//!   time leaves it. From 0
//! - RTO = max(SRTT + n·RTTVAR, R + 2 ticks of 1/128 s)
//!
//! The first timeout is 1 to 1.5 RTOs. Each retransmission doubles the timeout, and the RTO becomes
//! the doubled timeout, until the next sample.
//!
//! Uncertain: the initial RTO, here 2 s, and the maximum, here 60 s. The code counts whole ticks;
//! here microseconds are rounded down.

use core::time::Duration;

use crate::backoff::{dithered, grown};
use crate::control::{Acknowledged, Sent, Snapshot};
use crate::features::Features;
use crate::parameters::Range;
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros, saturate};

/// The Eifel timer.
///
/// ```
/// use conche_cc::eifel::Eifel;
/// use conche_cc::{Controller, Instant};
/// use core::time::Duration;
///
/// let eifel = Eifel::default();
/// let mut peer = eifel.peer(Instant::ZERO);
/// assert_eq!(eifel.base(&mut peer, Instant::ZERO), Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eifel {
    /// RTO before the first sample.
    pub ack_timeout: Duration,
    /// Maximum first timeout in RTOs.
    pub ack_random_factor: Factor,
    /// n: the gain is 1/n, and RTO = SRTT + n·RTTVAR; zero counts as 1.
    pub inverse_gain: u8,
    /// Minimum excess of the RTO over the last sample.
    pub min_margin: Duration,
    /// Maximum RTO and timeout.
    pub max_rto: Duration,
}

impl Default for Eifel {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(2),
            ack_random_factor: Factor::ONE_AND_HALF,
            inverse_gain: 3,
            min_margin: Duration::from_micros(15_625),
            max_rto: Duration::from_secs(60),
        }
    }
}

impl Eifel {
    fn cap(&self) -> Micros {
        self.max_rto.into()
    }

    fn sample(&self, peer: &mut EifelPeer, rtt: Micros) {
        let n = u32::from(self.inverse_gain.max(1));
        let (risen, grown) = (rtt.minus(peer.srtt), rtt >= peer.srtt);
        peer.srtt = mean(peer.srtt, rtt, n).max(Micros::MIN);
        if grown {
            peer.rttvar = mean(peer.rttvar, risen, if risen >= peer.rttvar { n } else { n * n });
        }
        let estimate = peer.srtt.plus(peer.rttvar.times(n));
        peer.rto = estimate.max(rtt.plus(self.min_margin.into())).min(self.cap());
    }
}

/// Returns `old` + (`new` - `old`)/`n`, rounded down.
fn mean(old: Micros, new: Micros, n: u32) -> Micros {
    let n = u64::from(n);
    Micros::new(saturate((u64::from(old.get()) * (n - 1) + u64::from(new.get())) / n))
}

/// Per-peer state: 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EifelPeer {
    /// Zero until the first sample.
    srtt: Micros,
    rttvar: Micros,
    rto: Micros,
}

crate::parameters! {
    Eifel {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000), "RTO before the first sample", "RFC 7252 §4.8";
        "ack_random_factor" => ack_random_factor, Range::permille(1_000, 10_000),
            "maximum first timeout in RTOs", "RFC 7252 §4.8";
        "inverse_gain" => inverse_gain, Range::count(1, 255),
            "n: the gain is 1/n, and RTO = SRTT + n·RTTVAR", "CoAPEifel";
        "min_margin" => min_margin, Range::millis(0, 10_000),
            "minimum excess of the RTO over the last sample", "CoAPEifel";
        "max_rto" => max_rto, Range::millis(1_000, 600_000), "maximum RTO and timeout", "conche";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "Eifel: a third of each error; a falling RTT does not raise the variation",
    strong_rtt: true,
    weak_rtt: None,
    dithering: "[1, 1.5]",
    backoff: "binary",
    ageing: "none",
    reuses_backed_off_rto: true,
    source: "CoAPEifel (Contiki code); Ludwig and Sklower 2000",
    peer_bytes: size_of::<EifelPeer>(),
    flight_bytes: size_of::<RuleFlight<()>>(),
    published_bytes: None,
};

impl RtoRule for Eifel {
    type Peer = EifelPeer;
    type Exchange = ();
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, _now: Instant) -> EifelPeer {
        let rto = Micros::from(self.ack_timeout).min(self.cap());
        EifelPeer { srtt: Micros::ZERO, rttvar: Micros::ZERO, rto }
    }

    fn rto(&self, peer: &EifelPeer) -> Micros {
        peer.rto
    }

    fn first_timeout(&self, peer: &mut EifelPeer, (): &mut (), sent: &Sent) -> Micros {
        dithered(peer.rto, self.ack_random_factor, sent.random).min(self.cap())
    }

    fn next_timeout(&self, peer: &mut EifelPeer, (): &mut (), current: Micros, _sent: &Sent) -> Micros {
        peer.rto = grown(current, Factor::TWO, self.cap());
        peer.rto
    }

    fn on_ack(&self, peer: &mut EifelPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        if let Some(rtt) = sample::strong_rtt(event) {
            self.sample(peer, rtt);
        }
    }

    fn report(&self, peer: &EifelPeer) -> Snapshot {
        let measured = |span: Micros| (peer.srtt != Micros::ZERO).then_some(Duration::from(span));
        let (srtt, rttvar) = (measured(peer.srtt), measured(peer.rttvar));
        Snapshot { rto: self.rto(peer).into(), srtt, rttvar, bandwidth: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Controller;
    use crate::testing::TestDriver;

    fn estimates(eifel: &Eifel, peer: &EifelPeer) -> [u128; 2] {
        let snapshot = eifel.snapshot(peer);
        [snapshot.srtt, snapshot.rttvar].map(|estimate| estimate.expect("measured").as_millis())
    }

    #[test]
    fn the_first_sample_is_an_error_from_zero() {
        let eifel = Eifel::default();
        let mut drive = TestDriver::new(&eifel);
        assert_eq!(drive.clean(300), 400, "100 + 3·100");
        assert_eq!(estimates(&eifel, &drive.peer), [100, 100]);
    }

    #[test]
    fn the_variation_rises_by_a_third_and_falls_by_a_ninth_of_the_error() {
        let eifel = Eifel::default();
        let mut drive = TestDriver::new(&eifel);
        drive.clean(300);
        // D = 200 ≥ 100: RTTVAR = 100 + 100/3.
        drive.clean(300);
        assert_eq!(estimates(&eifel, &drive.peer), [166, 133]);
        // D = 133.3 = RTTVAR, then 88.9 < 133.3: RTTVAR = 133.3 - 44.4/9.
        drive.clean(300);
        drive.clean(300);
        assert_eq!(estimates(&eifel, &drive.peer), [240, 128]);
    }

    #[test]
    fn a_falling_round_trip_leaves_the_variation() {
        let eifel = Eifel::default();
        let mut drive = TestDriver::new(&eifel);
        drive.clean(600);
        drive.clean(600);
        let [_, before] = estimates(&eifel, &drive.peer);
        drive.clean(30);
        assert_eq!(estimates(&eifel, &drive.peer)[1], before);
    }

    #[test]
    fn the_rto_is_two_ticks_above_a_steady_round_trip() {
        let eifel = Eifel::default();
        let mut drive = TestDriver::new(&eifel);
        for _ in 0..200 {
            drive.clean(100);
        }
        assert_eq!(drive.base(), 115);
    }

    #[test]
    fn a_doubled_timer_is_the_next_rto_until_a_clean_exchange() {
        let eifel = Eifel::default();
        let mut drive = TestDriver::new(&eifel);
        assert_eq!([drive.start(0.5), drive.time_out(), drive.time_out()], [2_500, 5_000, 10_000]);
        assert_eq!(drive.ack_after(150), 10_000);
        let first = drive.start(1.0);
        assert!((14_999..=15_000).contains(&first), "randomised again: {first}");
        assert_eq!(drive.ack_after(300), 400);
    }

    #[test]
    fn gains_and_samples_of_any_size_keep_the_rto_within_its_bounds() {
        for inverse_gain in [0, 1, 255] {
            let eifel = Eifel { inverse_gain, ..Eifel::default() };
            let mut drive = TestDriver::new(&eifel);
            assert_eq!(drive.clean(10_000_000), 60_000);
            assert!((0..200).map(|_| drive.clean(0)).all(|rto| (15..=60_000).contains(&rto)));
        }
    }
}
