//! A congestion controller for CoAP, as a working start for your own.

use std::time::Duration;

use conche_cc::backoff::{Timer, dithered};
use conche_cc::control::{Abandoned, Acknowledged, Admission, Expired, Load, Sent, Snapshot, Submission};
use conche_cc::features::Features;
use conche_cc::non::paced_by_rto;
use conche_cc::parameters::Range;
use conche_cc::path_history::PathHistory;
use conche_cc::units::{Factor, Micros};
use conche_cc::{Controller, Instant, sample};

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

impl TwicePeak {
    fn rto(self, path: Path) -> Micros {
        match path.peak {
            Micros::ZERO => INITIAL_RTO,
            peak => peak.scaled(self.factor).min(MAX_TIMEOUT),
        }
    }
}

/// Its row in the feature table.
pub const FEATURES: Features = Features {
    strong_rtt: true,
    dithering: "[1, 1.5]",
    backoff: "x2",
    source: "this crate",
    ..Features::of::<TwicePeak>("twice the slowest recent round trip")
};

impl Controller for TwicePeak {
    type Peer = Path;
    /// State of one exchange, kept apart for NSTART > 1.
    type Flight = Timer;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, _now: Instant) -> Path {
        Path::default()
    }

    /// Takes the round-trip time of the path as a first sample.
    fn seed(&self, now: Instant, history: &PathHistory) -> Path {
        history.as_first_sample(self, now)
    }

    /// A window or a pacer delays Confirmable messages here. The RTO paces Non-confirmable ones,
    /// which are not acknowledged.
    fn admit(&self, path: &mut Path, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable { Admission::Send } else { paced_by_rto(now, message, &load.non, self.rto(*path)) }
    }

    /// Draws the first timeout from 1 to 1.5 times the RTO, and doubles it with each retransmission.
    fn sent(&self, path: &mut Path, timer: &mut Timer, event: &Sent) -> Duration {
        let first = || dithered(self.rto(*path), Factor::ONE_AND_HALF, event.random);
        timer.arm(event, first, Factor::TWO, MAX_TIMEOUT)
    }

    /// A pacer delays retransmissions here.
    fn expired(&self, _path: &mut Path, _timer: &mut Timer, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, path: &mut Path, _timer: &Timer, event: &Acknowledged<'_>) {
        // After a retransmission, the ACK may answer any transmission (Karn's algorithm).
        if let Some(rtt) = sample::strong_rtt(event) {
            path.peak = rtt.max(path.peak.minus(path.peak.shifted(3)));
        }
    }

    fn abandoned(&self, _path: &mut Path, _timer: &Timer, _event: &Abandoned<'_>) {}

    fn drained(&self, _path: &mut Path, _now: Instant, _load: &Load) {}

    fn base(&self, path: &mut Path, _now: Instant) -> Duration {
        self.rto(*path).into()
    }

    fn snapshot(&self, path: &Path) -> Snapshot {
        let srtt = (path.peak != Micros::ZERO).then(|| path.peak.into());
        Snapshot { rto: self.rto(*path).into(), srtt, ..Snapshot::default() }
    }
}
