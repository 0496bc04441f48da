//! CoAP's default congestion control, and CoAP_B.
//!
//! Source: RFC 7252 §4.2, §4.7 and §4.8; for CoAP_B ETFA'14, Table I: half the `ACK_TIMEOUT`, the
//! minimum of RFC 7252 §4.8.1. The first timeout is 1 to `ACK_RANDOM_FACTOR` times `ACK_TIMEOUT`;
//! retransmissions double it.
//!
//! Divergence: RFC 7252 has no maximum timeout. The longest is 48 s with the default
//! `MAX_RETRANSMIT` of 4; with more, timeouts stop at 60 s, as in ANRW'18.

use core::time::Duration;

use crate::backoff::{dithered, grown};
use crate::control::{Acknowledged, Controller, Sent};
use crate::features::Features;
use crate::parameters::Range;
use crate::rule::RtoRule;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// RFC 7252's default: a random first timeout and binary backoff, without state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoapDefault {
    /// `ACK_TIMEOUT`: minimum first timeout.
    pub ack_timeout: Duration,
    /// `ACK_RANDOM_FACTOR`: maximum first timeout in minima.
    pub ack_random_factor: Factor,
    /// Maximum timeout.
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

    pub(crate) fn initial(&self) -> Micros {
        Micros::from(self.ack_timeout)
    }

    pub(crate) fn draw(&self, random: u32) -> Micros {
        dithered(self.initial(), self.ack_random_factor, random)
    }

    pub(crate) fn cap(&self) -> Micros {
        Micros::from(self.max_timeout)
    }
}

crate::parameters! {
    CoapDefault {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000), "minimum first timeout", "RFC 7252 §4.8";
        "ack_random_factor" => ack_random_factor, Range::permille(1_000, 10_000),
            "maximum first timeout in minima", "RFC 7252 §4.8";
        "max_timeout" => max_timeout, Range::millis(1_000, 600_000), "maximum timeout", "ANRW'18";
    }
}

/// Feature table row.
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

/// Feature table row of CoAP_B.
pub const COAP_B_FEATURES: Features = Features {
    about: "the default with ACK_TIMEOUT = 1 s",
    source: "ETFA'14, Table I",
    published_bytes: None,
    ..FEATURES
};

impl RtoRule for CoapDefault {
    type Peer = ();
    type Exchange = ();
    const MEASURES_RTT: bool = false;

    fn new_peer(&self, _now: Instant) {}

    fn rto(&self, (): &()) -> Micros {
        self.initial()
    }

    fn first_timeout(&self, (): &mut (), (): &mut (), sent: &Sent) -> Micros {
        self.draw(sent.random).min(self.cap())
    }

    fn next_timeout(&self, (): &mut (), (): &mut (), current: Micros, _sent: &Sent) -> Micros {
        grown(current, Factor::TWO, self.cap())
    }

    fn on_ack(&self, (): &mut (), _timeout: Option<Micros>, _event: &Acknowledged<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Load;
    use crate::rule::RuleFlight;

    fn sent(attempt: u8, random: u32) -> Sent {
        let (now, load) = (Instant::ZERO, Load::default());
        Sent { now, attempt, confirmable: true, bytes: 50, random, load }
    }

    #[test]
    fn five_timers_double_from_a_draw_between_two_and_three_seconds() {
        let controller = CoapDefault::default();
        for (random, first_ms) in [(0, 2_000), (1 << 31, 2_500)] {
            let mut flight = RuleFlight::default();
            for attempt in 0..5 {
                let expected = Duration::from_millis(first_ms << attempt);
                assert_eq!(controller.sent(&mut (), &mut flight, &sent(attempt, random)), expected);
            }
        }
    }

    #[test]
    fn twenty_retransmissions_stop_at_the_cap() {
        let controller = CoapDefault::default();
        let mut flight = RuleFlight::default();
        let last = (0..=20).map(|attempt| controller.sent(&mut (), &mut flight, &sent(attempt, 0))).last();
        assert_eq!(last, Some(Duration::from_secs(60)));
    }

    #[test]
    fn coap_b_starts_between_one_and_one_and_a_half_seconds() {
        let controller = CoapDefault::coap_b();
        let top = controller.sent(&mut (), &mut RuleFlight::default(), &sent(0, u32::MAX));
        assert!(top > Duration::from_millis(1_499) && top <= Duration::from_millis(1_500));
    }
}
