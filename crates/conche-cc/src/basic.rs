//! Basic RTO: the next RTO is the last round-trip time, nothing else.
//!
//! Source: ComMag'16, where it shows what little state can do: two bytes. The first timer is drawn from 1 to 1.5 times the
//! RTO and doubles for each copy.
//!
//! Divergences: later Californium takes 1.5 times the round-trip time undithered, puts 500 ms under it and ignores
//! exchanges with three or more retransmissions; ComMag'16 does none of that, and neither does this. The RTO is held
//! between a millisecond and the cap, because two bytes count milliseconds.

use core::time::Duration;

use crate::backoff::{Timer, dithered, suggests_congestion};
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::features::Features;
use crate::group::Group;
use crate::non::paced_by_rto;
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// The last round-trip time as RTO.
///
/// ```
/// use conche_cc::basic::Basic;
/// use conche_cc::Controller;
///
/// assert_eq!(size_of::<<Basic as Controller>::Peer>(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basic {
    /// The RTO before the first sample.
    pub ack_timeout: Duration,
    /// The first timer is up to this many times the RTO.
    pub ack_random_factor: Factor,
    /// Neither the RTO nor a timer is longer; at most 65 s.
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

    fn remember(&self, rto: Micros) -> BasicPeer {
        let nearest_ms = rto.min(self.cap()).plus(Micros::new(500)).get() / 1_000;
        BasicPeer(u16::try_from(nearest_ms).unwrap_or(u16::MAX).max(1))
    }
}

/// What Basic RTO remembers of a peer: its RTO, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicPeer(u16);

impl BasicPeer {
    fn rto(self) -> Micros {
        Micros::from_millis(u32::from(self.0))
    }
}

/// The feature table's row of Basic RTO.
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
    flight_bytes: size_of::<Timer>(),
    published_bytes: Some(2),
};

impl Controller for Basic {
    type Peer = BasicPeer;
    type Flight = Timer;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, _now: Instant) -> BasicPeer {
        self.remember(self.ack_timeout.into())
    }

    fn seed(&self, now: Instant, group: &Group) -> BasicPeer {
        group.as_first_sample(self, now)
    }

    fn admit(&self, peer: &mut BasicPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable { Admission::Send } else { paced_by_rto(now, message, &load.non, peer.rto()) }
    }

    fn sent(&self, peer: &mut BasicPeer, timer: &mut Timer, event: &Sent) -> Duration {
        let first = || dithered(peer.rto(), self.ack_random_factor, event.random);
        timer.arm(event, first, Factor::TWO, self.cap())
    }

    fn expired(&self, _peer: &mut BasicPeer, _timer: &mut Timer, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut BasicPeer, _timer: &Timer, event: &Acknowledged<'_>) {
        if let Some(rtt) = sample::rtt(event) {
            *peer = self.remember(rtt);
        }
    }

    /// Without any acknowledgement the last timer is the best guess of a round-trip time.
    fn abandoned(&self, peer: &mut BasicPeer, timer: &Timer, event: &Abandoned<'_>) {
        if suggests_congestion(event)
            && let Some(last) = timer.armed()
        {
            *peer = self.remember(last);
        }
    }

    fn drained(&self, _peer: &mut BasicPeer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut BasicPeer, _now: Instant) -> Duration {
        peer.rto().into()
    }

    fn snapshot(&self, peer: &BasicPeer) -> Snapshot {
        Snapshot { rto: peer.rto().into(), ..Snapshot::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Why;
    use crate::testing::Drive;

    #[test]
    fn any_acknowledgement_sets_the_rto_to_its_round_trip_time() {
        let basic = Basic::default();
        let mut drive = Drive::new(&basic);
        assert_eq!(drive.clean(300), 300);
        assert_eq!([drive.start(0.0), drive.time_out()], [300, 600]);
        assert_eq!(drive.ack_after(20), 320);
    }

    #[test]
    fn without_an_acknowledgement_the_next_rto_is_the_last_timer() {
        let basic = Basic::default();
        let mut drive = Drive::new(&basic);
        drive.start(0.0);
        for _ in 0..4 {
            drive.time_out();
        }
        assert_eq!(drive.end(Why::GaveUp), 32_000);
    }

    #[test]
    fn round_trips_of_no_time_and_of_hours_leave_an_rto_within_its_bounds() {
        let basic = Basic::default();
        assert_eq!(Drive::new(&basic).clean(0), 1);
        assert_eq!(Drive::new(&basic).clean(10_000_000), 60_000);
    }
}
