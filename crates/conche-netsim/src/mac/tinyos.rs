//! TinyOS 2.1's CC2420 stack (`CC2420CsmaP`, `CC2420TransmitP`, `PacketLinkP`), and binary
//! exponential backoff.
//!
//! WiOpt'12 (Betzler et al.: Should we use the default protocol settings for networks of
//! constrained devices?) compares the two.

use std::time::Duration;

use super::access::{Access, Decision};
use crate::radio::phy::SYMBOL;
use crate::rng::Stream;
use crate::units::nanos;

/// TinyOS's backoff: one range before the first assessment, a shorter one after each busy channel,
/// without limit. PacketLink retries with an initial backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinyOs {
    /// Range of the initial backoff in jiffies (1/32768 s), uniform, inclusive. Default: 11 to 320.
    pub initial_jiffies: (u16, u16),
    /// Range of the backoff after a busy channel, likewise. Default: 11 to 80.
    pub congestion_jiffies: (u16, u16),
    /// PacketLink's maximum number of retransmissions. Default: 3.
    pub retries: u8,
}

/// Backoff uniform over a window of 140 symbols, doubled with each busy channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinaryExponential {
    /// The first window, in symbols (16 µs). Default: 140.
    pub window_symbols: u32,
    /// Maximum number of doublings. Default: 5.
    pub max_doublings: u8,
    /// Busy channels until a frame fails as if unacknowledged. Default: 4.
    pub max_busy: u8,
    /// Maximum number of retransmissions. Default: 3.
    pub retries: u8,
}

impl Default for TinyOs {
    fn default() -> Self {
        // CC2420CsmaP: random % (0x1F * CC2420_BACKOFF_PERIOD) + CC2420_MIN_BACKOFF, both 10;
        // congestion backoff uses 0x7. As minimum waits, they add a jiffy.
        Self { initial_jiffies: (11, 320), congestion_jiffies: (11, 80), retries: 3 }
    }
}

impl Default for BinaryExponential {
    fn default() -> Self {
        Self { window_symbols: 140, max_doublings: 5, max_busy: 4, retries: 3 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TinyOsAccess {
    config: TinyOs,
    retries: u8,
}

impl TinyOsAccess {
    pub(super) fn new(config: TinyOs) -> Self {
        Self { config, retries: 0 }
    }

    fn initial(&self, stream: &mut Stream) -> Duration {
        let (low, high) = self.config.initial_jiffies;
        jiffies(stream, low, high)
    }
}

impl Access for TinyOsAccess {
    fn first(&mut self, stream: &mut Stream) -> Duration {
        self.retries = 0;
        self.initial(stream)
    }

    fn busy(&mut self, stream: &mut Stream) -> Decision {
        let (low, high) = self.config.congestion_jiffies;
        Decision::Wait(jiffies(stream, low, high))
    }

    fn no_ack(&mut self, stream: &mut Stream) -> Decision {
        if self.retries >= self.config.retries {
            return Decision::GiveUp;
        }
        self.retries += 1;
        Decision::Wait(self.initial(stream))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BinaryExponentialAccess {
    config: BinaryExponential,
    busy: u8,
    retries: u8,
}

impl BinaryExponentialAccess {
    pub(super) fn new(config: BinaryExponential) -> Self {
        Self { config, busy: 0, retries: 0 }
    }

    fn backoff(&self, stream: &mut Stream) -> Duration {
        let doublings = self.busy.min(self.config.max_doublings).min(31);
        let window = u64::from(self.config.window_symbols) << doublings;
        Duration::from_nanos(stream.between(0, window) * nanos(SYMBOL))
    }
}

impl Access for BinaryExponentialAccess {
    fn first(&mut self, stream: &mut Stream) -> Duration {
        (self.busy, self.retries) = (0, 0);
        self.backoff(stream)
    }

    fn busy(&mut self, stream: &mut Stream) -> Decision {
        self.busy += 1;
        if self.busy >= self.config.max_busy { self.no_ack(stream) } else { Decision::Wait(self.backoff(stream)) }
    }

    fn no_ack(&mut self, stream: &mut Stream) -> Decision {
        if self.retries >= self.config.retries {
            return Decision::GiveUp;
        }
        self.retries += 1;
        self.busy = 0;
        Decision::Wait(self.backoff(stream))
    }
}

fn jiffies(stream: &mut Stream, low: u16, high: u16) -> Duration {
    let jiffies = stream.between(low.into(), high.into());
    Duration::from_nanos((jiffies * 1_000_000_000 + (1 << 14)) >> 15)
}

#[cfg(test)]
mod tests {
    use super::super::access::testing::{attempts, spread, stream};
    use super::*;

    fn assert_mean(mean: Duration, expected_ms: f64) {
        let mean_ms = mean.as_secs_f64() * 1e3;
        assert!((mean_ms / expected_ms - 1.0).abs() < 0.005, "{mean_ms:.4} ms instead of {expected_ms} ms");
    }

    #[test]
    fn initial_backoffs_have_a_mean_of_5_051_ms_and_those_of_congestion_1_389_ms() {
        let (mut access, mut stream) = (TinyOsAccess::new(TinyOs::default()), stream());
        let (low, mean, high) = spread(|| access.first(&mut stream));
        assert_eq!((low.as_micros(), high.as_micros()), (335, 9765));
        assert_mean(mean, 5.051);
        let (low, mean, high) = spread(|| match access.busy(&mut stream) {
            Decision::Wait(wait) => wait,
            Decision::GiveUp => panic!("congestion has no limit"),
        });
        assert_eq!((low.as_micros(), high.as_micros()), (335, 2441));
        assert_mean(mean, 1.389);
    }

    #[test]
    fn a_frame_is_sent_once_more_than_its_retries() {
        for retries in [1, 3, 5, 7] {
            let config = TinyOs { retries, ..TinyOs::default() };
            assert_eq!(attempts(&mut TinyOsAccess::new(config), Access::no_ack), u32::from(retries) + 1);
            let config = BinaryExponential { retries, ..BinaryExponential::default() };
            let mut access = BinaryExponentialAccess::new(config);
            assert_eq!(attempts(&mut access, Access::no_ack), u32::from(retries) + 1);
            assert_eq!(attempts(&mut access, Access::busy), 4 * (u32::from(retries) + 1));
        }
    }

    #[test]
    fn the_window_of_binary_exponential_backoff_doubles() {
        let mut stream = stream();
        for (busy, symbols) in [(0, 140), (1, 280), (2, 560), (3, 1120)] {
            let (low, mean, high) = spread(|| {
                let mut access = BinaryExponentialAccess::new(BinaryExponential::default());
                let mut wait = access.first(&mut stream);
                for _ in 0..busy {
                    let Decision::Wait(next) = access.busy(&mut stream) else { panic!("given up after {busy}") };
                    wait = next;
                }
                wait
            });
            assert_eq!((low, high), (Duration::ZERO, symbols * SYMBOL));
            assert_mean(mean, f64::from(symbols) * 0.008);
        }
    }
}
