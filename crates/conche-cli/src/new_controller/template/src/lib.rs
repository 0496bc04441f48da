//! A congestion controller for CoAP, as a working start for your own.

use conche_cc::backoff::{dithered, grown};
use conche_cc::control::{Acknowledged, Sent, Snapshot};
use conche_cc::features::Features;
use conche_cc::parameters::Range;
use conche_cc::units::{Factor, Micros};
use conche_cc::{Instant, RtoRule, sample};

// ANCHOR: types
/// RTO = `factor` times the slowest recent round trip. Each sample reduces an older peak by an
/// eighth.
#[derive(Clone, Copy, Debug)]
pub struct TwicePeak {
    /// RTO in round trips.
    pub factor: Factor,
}

impl Default for TwicePeak {
    fn default() -> Self {
        Self { factor: Factor::TWO }
    }
}

// Sets `factor` by name, as in `--cc twice-peak:factor=3`.
conche_cc::parameters! {
    TwicePeak {
        "factor" => factor, Range::permille(1_000, 10_000), "RTO in round trips", "this crate";
    }
}

/// State of one destination.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// Zero before the first sample.
    peak: Micros,
}

/// RTO before the first sample: RFC 7252's ACK_TIMEOUT.
const INITIAL_RTO: Micros = Micros::from_millis(2_000);
const MAX_TIMEOUT: Micros = Micros::from_millis(60_000);

/// Its row in the feature table.
pub const FEATURES: Features = Features {
    strong_rtt: true,
    dithering: "[1, 1.5]",
    backoff: "x2",
    source: "this crate",
    ..Features::of::<TwicePeak>("twice the slowest recent round trip")
};
// ANCHOR_END: types

// ANCHOR: controller
impl RtoRule for TwicePeak {
    type Peer = Path;
    type Exchange = ();
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, _now: Instant) -> Path {
        Path::default()
    }

    fn rto(&self, path: &Path) -> Micros {
        match path.peak {
            Micros::ZERO => INITIAL_RTO,
            peak => peak.scaled(self.factor).min(MAX_TIMEOUT),
        }
    }

    /// Draws from 1 to 1.5 times the RTO: concurrent clients retransmit at different times.
    fn first_timeout(&self, path: &mut Path, (): &mut (), sent: &Sent) -> Micros {
        dithered(self.rto(path), Factor::ONE_AND_HALF, sent.random).min(MAX_TIMEOUT)
    }

    fn next_timeout(&self, _path: &mut Path, (): &mut (), current: Micros, _sent: &Sent) -> Micros {
        grown(current, Factor::TWO, MAX_TIMEOUT)
    }

    fn on_ack(&self, path: &mut Path, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        // After a retransmission, the ACK may answer any transmission (Karn's algorithm).
        if let Some(rtt) = sample::strong_rtt(event) {
            path.peak = rtt.max(path.peak.minus(path.peak.shifted(3)));
        }
    }

    fn report(&self, path: &Path) -> Snapshot {
        let srtt = (path.peak != Micros::ZERO).then(|| path.peak.into());
        Snapshot { rto: self.rto(path).into(), srtt, ..Snapshot::default() }
    }
}
// ANCHOR_END: controller
