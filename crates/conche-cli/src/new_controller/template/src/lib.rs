//! A congestion controller for CoAP: an algorithm to start from, that works.

use std::time::Duration;

use conche_cc::backoff::{Timer, dithered};
use conche_cc::control::{Abandoned, Acknowledged, Admission, Expired, Load, Sent, Snapshot, Submission};
use conche_cc::features::Features;
use conche_cc::group::Group;
use conche_cc::non::paced_by_rto;
use conche_cc::units::{Factor, Micros};
use conche_cc::{Controller, Instant, sample};

// ANCHOR: types
/// Waits twice as long as the slowest of the latest round trips took. Each new one takes an eighth off an older peak.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwicePeak;

/// What is remembered of a destination.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// Zero before the first sample.
    peak: Micros,
}

/// RFC 7252's ACK_TIMEOUT, before anything was measured.
const FIRST: Micros = Micros::from_millis(2_000);
/// No timer is longer.
const LONGEST: Micros = Micros::from_millis(60_000);

impl Path {
    fn rto(self) -> Micros {
        if self.peak == Micros::ZERO { FIRST } else { self.peak.times(2).min(LONGEST) }
    }
}

/// What tables tell of it.
pub const FEATURES: Features = Features {
    strong_rtt: true,
    dithering: "[1, 1.5]",
    backoff: "x2",
    source: "this crate",
    ..Features::of::<TwicePeak>("twice the slowest of the latest round trips")
};
// ANCHOR_END: types

// ANCHOR: controller
impl Controller for TwicePeak {
    type Peer = Path;
    type Flight = Timer;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, _now: Instant) -> Path {
        Path::default()
    }

    /// Peers of one path may share what they find out; this takes their round-trip time as a first sample.
    fn seed(&self, now: Instant, group: &Group) -> Path {
        group.as_first_sample(self, now)
    }

    /// Non-confirmable messages are never acknowledged: an RTO apart, they cannot fill a queue.
    fn admit(&self, path: &mut Path, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable { Admission::Send } else { paced_by_rto(now, message, &load.non, path.rto()) }
    }

    /// The first timer of an exchange is 1 to 1.5 times the RTO, so that clients that began together do not go on
    /// together; each copy doubles it.
    fn sent(&self, path: &mut Path, timer: &mut Timer, event: &Sent) -> Duration {
        let first = || dithered(path.rto(), Factor::ONE_AND_HALF, event.random);
        timer.arm(event, first, Factor::TWO, LONGEST)
    }

    fn expired(&self, _path: &mut Path, _timer: &mut Timer, event: &Expired) -> Instant {
        event.now
    }

    /// Only exchanges without a copy are measured: of others nobody knows which copy was acknowledged.
    fn acknowledged(&self, path: &mut Path, _timer: &Timer, event: &Acknowledged<'_>) {
        if let Some(rtt) = sample::strong_rtt(event) {
            path.peak = rtt.max(path.peak.minus(path.peak.shifted(3)));
        }
    }

    fn abandoned(&self, _path: &mut Path, _timer: &Timer, _event: &Abandoned<'_>) {}

    fn drained(&self, _path: &mut Path, _now: Instant, _load: &Load) {}

    fn base(&self, path: &mut Path, _now: Instant) -> Duration {
        path.rto().into()
    }

    fn snapshot(&self, path: &Path) -> Snapshot {
        let measured = (path.peak != Micros::ZERO).then(|| path.peak.into());
        Snapshot { rto: path.rto().into(), srtt: measured, ..Snapshot::default() }
    }
}
// ANCHOR_END: controller
