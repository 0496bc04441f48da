//! Unslotted CSMA-CA (IEEE Std 802.15.4-2006, §7.5.1.4) and retransmission (§7.5.6.4.3), without
//! divergence.

use std::time::Duration;

use super::access::{Access, Decision, draw};
use crate::radio::phy::SYMBOL;
use crate::rng::Stream;

/// aUnitBackoffPeriod (Table 85): 20 symbols, 320 µs.
pub(crate) const A_UNIT_BACKOFF_PERIOD: Duration = Duration::from_micros(20 * 16);
const _: () = assert!(A_UNIT_BACKOFF_PERIOD.as_micros() == 20 * SYMBOL.as_micros());

/// The standard's parameters and defaults (Table 86).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ieee802154 {
    /// macMinBE: the first backoff exponent. Default: 3.
    pub min_be: u8,
    /// macMaxBE: the largest backoff exponent. Default: 5.
    pub max_be: u8,
    /// macMaxCSMABackoffs: maximum number of busy channels after the first. Default: 4.
    pub max_csma_backoffs: u8,
    /// macMaxFrameRetries: maximum number of retransmissions. Default: 3.
    pub max_frame_retries: u8,
}

impl Default for Ieee802154 {
    fn default() -> Self {
        Self { min_be: 3, max_be: 5, max_csma_backoffs: 4, max_frame_retries: 3 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ieee802154Access {
    config: Ieee802154,
    /// NB: busy channels in this attempt.
    nb: u8,
    /// BE: the backoff exponent.
    be: u8,
    retries: u8,
}

impl Ieee802154Access {
    pub(super) fn new(config: Ieee802154) -> Self {
        Self { config, nb: 0, be: config.min_be, retries: 0 }
    }

    /// Step 1.
    fn begin(&mut self, stream: &mut Stream) -> Duration {
        self.nb = 0;
        self.be = self.config.min_be;
        self.backoff(stream)
    }

    /// Step 2: random(2^BE − 1) unit backoff periods.
    fn backoff(&self, stream: &mut Stream) -> Duration {
        draw(stream, 1 << self.be.min(32), A_UNIT_BACKOFF_PERIOD)
    }
}

impl Access for Ieee802154Access {
    fn first(&mut self, stream: &mut Stream) -> Duration {
        self.retries = 0;
        self.begin(stream)
    }

    /// Step 4.
    fn busy(&mut self, stream: &mut Stream) -> Decision {
        self.nb += 1;
        self.be = (self.be + 1).min(self.config.max_be);
        if self.nb > self.config.max_csma_backoffs { Decision::GiveUp } else { Decision::Wait(self.backoff(stream)) }
    }

    fn no_ack(&mut self, stream: &mut Stream) -> Decision {
        if self.retries >= self.config.max_frame_retries {
            return Decision::GiveUp;
        }
        self.retries += 1;
        Decision::Wait(self.begin(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::testing::{attempts, spread, stream};
    use super::*;

    fn access() -> Ieee802154Access {
        Ieee802154Access::new(Ieee802154::default())
    }

    #[test]
    fn backoffs_are_of_7_15_31_31_and_31_periods_at_most() {
        let mut stream = stream();
        for (busy, longest) in [7, 15, 31, 31, 31].into_iter().enumerate() {
            let (low, mean, high) = spread(|| {
                let mut access = access();
                let mut wait = access.first(&mut stream);
                for _ in 0..busy {
                    let Decision::Wait(next) = access.busy(&mut stream) else { panic!("given up after {busy}") };
                    wait = next;
                }
                wait
            });
            assert_eq!((low, high), (Duration::ZERO, longest * A_UNIT_BACKOFF_PERIOD));
            let expected = f64::from(longest) * 160e-6;
            assert!((mean.as_secs_f64() / expected - 1.0).abs() < 0.01, "{mean:?} after {busy} busy channels");
        }
    }

    #[test]
    fn the_fifth_busy_channel_and_the_fourth_missing_acknowledgment_end_it() {
        assert_eq!(attempts(&mut access(), Access::busy), 5);
        assert_eq!(attempts(&mut access(), Access::no_ack), 4);
    }

    #[test]
    fn a_retry_starts_with_the_smallest_exponent() {
        let mut stream = stream();
        let (_, _, high) = spread(|| {
            let mut access = access();
            access.first(&mut stream);
            (0..3).for_each(|_| assert_ne!(access.busy(&mut stream), Decision::GiveUp));
            let Decision::Wait(wait) = access.no_ack(&mut stream) else { panic!("given up") };
            wait
        });
        assert_eq!(high, 7 * A_UNIT_BACKOFF_PERIOD);
    }
}
