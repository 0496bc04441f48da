//! The default congestion control of CoAP, and CoAP_B.
//!
//! Source: RFC 7252 §4.2, §4.7 and §4.8; CoAP_B is ETFA'14, Table I: the same with half the `ACK_TIMEOUT`, which is
//! the least that RFC 7252 §4.8.1 allows.
//!
//! The first timer is drawn from [`ACK_TIMEOUT`, `ACK_TIMEOUT` · `ACK_RANDOM_FACTOR`] and doubles with each copy.
//! Nothing is measured and nothing is remembered of a peer.
//!
//! Divergence: RFC 7252 names no cap for a timer. With the default `MAX_RETRANSMIT` of 4 the longest is 48 s and no cap
//! is felt; for larger values timers stop at 60 s, as ANRW'18 ran it.

use core::time::Duration;

use crate::backoff::{Timer, dithered};
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::features::Features;
use crate::group::Group;
use crate::non::paced_by_probing_rate;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// RFC 7252's default: a random first timer, binary exponential backoff, no memory.
///
/// ```
/// use conche_cc::default::CoapDefault;
/// use conche_cc::units::Factor;
/// use core::time::Duration;
///
/// let lively = CoapDefault { ack_timeout: Duration::from_secs(1), ..CoapDefault::default() };
/// assert_eq!(lively, CoapDefault::coap_b());
/// assert_eq!(lively.ack_random_factor, Factor::ONE_AND_HALF);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoapDefault {
    /// `ACK_TIMEOUT`: the shortest first timer.
    pub ack_timeout: Duration,
    /// `ACK_RANDOM_FACTOR`: the longest first timer is this many times the shortest.
    pub ack_random_factor: Factor,
    /// No timer is longer.
    pub max_timeout: Duration,
}

impl Default for CoapDefault {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(2),
            ack_random_factor: Factor::ONE_AND_HALF,
            max_timeout: Duration::from_secs(60),
        }
    }
}

impl CoapDefault {
    /// CoAP_B of ETFA'14: `ACK_TIMEOUT` = 1 s.
    #[must_use]
    pub fn coap_b() -> Self {
        Self { ack_timeout: Duration::from_secs(1), ..Self::default() }
    }

    /// The undithered first timer.
    pub(crate) fn initial(&self) -> Micros {
        Micros::from(self.ack_timeout)
    }

    /// A freshly drawn first timer.
    pub(crate) fn draw(&self, random: u32) -> Micros {
        dithered(self.initial(), self.ack_random_factor, random)
    }

    /// The cap of all timers.
    pub(crate) fn cap(&self) -> Micros {
        Micros::from(self.max_timeout)
    }
}

/// The feature table's row of RFC 7252's default.
pub const FEATURES: Features = Features {
    about: "RFC 7252: random first timer in [2, 3] s, doubled for each copy",
    strong_rtt: false,
    weak_rtt: None,
    dithering: "[1, 1.5]",
    backoff: "binary",
    ageing: "none",
    reuses_backed_off_rto: false,
    source: "RFC 7252 §4.2",
    peer_bytes: size_of::<<CoapDefault as Controller>::Peer>(),
    flight_bytes: size_of::<<CoapDefault as Controller>::Flight>(),
    published_bytes: Some(2),
};

/// The feature table's row of CoAP_B.
pub const COAP_B_FEATURES: Features = Features {
    about: "the default with ACK_TIMEOUT = 1 s",
    source: "ETFA'14, Table I",
    published_bytes: None,
    ..FEATURES
};

impl Controller for CoapDefault {
    type Peer = ();
    type Flight = Timer;

    fn measures_rtt(&self) -> bool {
        false
    }

    fn peer(&self, _now: Instant) {}

    fn admit(&self, (): &mut (), now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable { Admission::Send } else { paced_by_probing_rate(now, message, &load.non) }
    }

    fn seed(&self, _now: Instant, _group: &Group) {}

    fn sent(&self, (): &mut (), timer: &mut Timer, event: &Sent) -> Duration {
        timer.arm(event, || self.draw(event.random), Factor::TWO, self.cap())
    }

    fn expired(&self, (): &mut (), _timer: &mut Timer, event: &Expired) -> Instant {
        event.now
    }

    /// Nothing: the default measures nothing.
    fn acknowledged(&self, (): &mut (), _timer: &Timer, _event: &Acknowledged<'_>) {}

    /// Nothing: the default remembers nothing.
    fn abandoned(&self, (): &mut (), _timer: &Timer, _event: &Abandoned<'_>) {}

    fn drained(&self, (): &mut (), _now: Instant, _load: &Load) {}

    fn base(&self, (): &mut (), _now: Instant) -> Duration {
        self.initial().into()
    }

    fn snapshot(&self, (): &()) -> Snapshot {
        Snapshot { rto: self.initial().into(), ..Snapshot::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(attempt: u8, random: u32) -> Sent {
        let (now, load) = (Instant::ZERO, Load::default());
        Sent { now, attempt, confirmable: true, bytes: 50, random, load }
    }

    #[test]
    fn five_timers_double_from_a_draw_between_two_and_three_seconds() {
        let controller = CoapDefault::default();
        for (random, first_ms) in [(0, 2_000), (1 << 31, 2_500)] {
            let mut timer = Timer::default();
            for attempt in 0..5 {
                let expected = Duration::from_millis(first_ms << attempt);
                assert_eq!(controller.sent(&mut (), &mut timer, &sent(attempt, random)), expected);
            }
        }
    }

    #[test]
    fn twenty_retransmissions_stop_at_the_cap() {
        let controller = CoapDefault::default();
        let mut timer = Timer::default();
        let last = (0..=20).map(|attempt| controller.sent(&mut (), &mut timer, &sent(attempt, 0))).last();
        assert_eq!(last, Some(Duration::from_secs(60)));
    }

    #[test]
    fn coap_b_starts_between_one_and_one_and_a_half_seconds() {
        let controller = CoapDefault::coap_b();
        let top = controller.sent(&mut (), &mut Timer::default(), &sent(0, u32::MAX));
        assert!(top > Duration::from_millis(1_499) && top <= Duration::from_millis(1_500));
    }
}
