//! Control traffic of a converged network: broadcasts that occupy queues, channel and receivers.

use std::time::Duration;

use crate::Instant;
use crate::rng::Stream;
use crate::units::nanos;

/// Periodic broadcasts of all stations.
///
/// From a random start, each station broadcasts one frame per interval, at a random time in its
/// second half, like Trickle at its longest interval (RFC 6206 §4.2), which times RPL's DIOs (RFC
/// 6550 §8.3).
///
/// Divergence: no suppression; a longer interval models a redundancy constant.
///
/// The traffic never ends: a time limit or a host must stop the run.
///
/// ```toml
/// interval = "60s"
/// psdu_octets = 90
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlTraffic {
    /// Interval.
    pub interval: Duration,
    /// PSDU in octets.
    pub psdu_octets: u8,
}

#[derive(Debug)]
pub(super) struct ControlSource {
    /// Start of the next interval.
    interval: Instant,
    stream: Stream,
}

impl ControlSource {
    pub(super) fn new(config: &ControlTraffic, mut stream: Stream) -> Self {
        let interval = Instant::from_nanos(stream.below(nanos(config.interval)));
        Self { interval, stream }
    }

    pub(super) fn next(&mut self, config: &ControlTraffic) -> Instant {
        let half = nanos(config.interval) / 2;
        let at = self.interval + Duration::from_nanos(half + self.stream.below(half));
        // An interval of zero would stop time.
        self.interval += config.interval.max(Duration::from_micros(1));
        at
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::testing::stream;
    use super::*;

    #[test]
    fn a_frame_is_sent_in_the_second_half_of_each_interval() {
        let config = ControlTraffic { interval: Duration::from_secs(60), psdu_octets: 90 };
        let mut source = ControlSource::new(&config, stream());
        let first = source.interval;
        assert!(first < Instant::from_millis(60_000));
        for number in 0..1000 {
            let at = source.next(&config) - (first + number * config.interval);
            assert!((30..60).contains(&at.as_secs()), "{at:?} into interval {number}");
        }
    }
}
