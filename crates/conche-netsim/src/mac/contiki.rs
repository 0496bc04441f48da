//! CSMA of Contiki 2.7, 3.0 and 3.1 (their `core/net/mac/csma.c`).
//!
//! A frame's first attempt does not wait, except by a time base behind a frame that was given up
//! (2.7 and 3.0) or sent (2.7, unless in one duty-cycled burst). The versions differ in waits after
//! failures, and in whether busy channels count towards the limit.
//! [`QueueConfig`](super::QueueConfig) configures their queues.

use std::time::Duration;

use super::access::{Access, Decision, Outcome, draw};
use crate::rng::Stream;

/// Contiki 2.7: after any failure one time base plus up to three, in whole clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contiki27 {
    /// Interval of channel checks, or its substitute without duty cycling. Default: 125 ms (8 Hz).
    pub time_base: Duration,
    /// Maximum unacknowledged transmissions, without busy channels. Default: 5, the Tmote Sky's
    /// (SICSLOWPAN_CONF_MAX_MAC_TRANSMISSIONS); csma.c's 3 applies only to packets without a value.
    pub max_transmissions: u8,
    /// Clock tick, the unit of random waits. Default: 1/128 s, the motes' `CLOCK_SECOND`.
    pub tick: Duration,
}

/// Contiki 3.0: as 2.7, but the random part doubles with each transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contiki30 {
    /// As in [`Contiki27`]. Default: 125 ms.
    pub time_base: Duration,
    /// As in [`Contiki27`]. Default: 5.
    pub max_transmissions: u8,
    /// Maximum number of doublings. Default: 3.
    pub max_doublings: u8,
    /// As in [`Contiki27`]. Default: 1/128 s.
    pub tick: Duration,
}

/// Contiki 3.1: busy channels increase the backoff exponent; several are one failed transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contiki31 {
    /// CSMA_MIN_BE. Default: 0.
    pub min_be: u8,
    /// CSMA_MAX_BE. Default: 4.
    pub max_be: u8,
    /// CSMA_MAX_BACKOFF: maximum consecutive busy channels; one more fails the transmission.
    /// Default: 5.
    pub max_backoff: u8,
    /// CSMA_MAX_FRAME_RETRIES. Default: 7.
    pub max_frame_retries: u8,
    /// Unit of the backoff, and clock tick. Default: 1 ms, as on Cooja motes.
    pub unit: Duration,
}

const MOTE_TICK: Duration = Duration::from_nanos(1_000_000_000 / 128);

impl Default for Contiki27 {
    fn default() -> Self {
        Self { time_base: Duration::from_millis(125), max_transmissions: 5, tick: MOTE_TICK }
    }
}

impl Default for Contiki30 {
    fn default() -> Self {
        Self { time_base: Duration::from_millis(125), max_transmissions: 5, max_doublings: 3, tick: MOTE_TICK }
    }
}

impl Default for Contiki31 {
    fn default() -> Self {
        Self { min_be: 0, max_be: 4, max_backoff: 5, max_frame_retries: 7, unit: Duration::from_millis(1) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeBaseAccess {
    time_base: Duration,
    tick: Duration,
    max_transmissions: u8,
    growth: Growth,
    transmissions: u8,
}

#[derive(Clone, Copy, Debug)]
enum Growth {
    /// 2.7: `min(transmissions + 1, 3)`.
    Linear,
    /// 3.0: `2^min(transmissions, max_doublings)`.
    Doubling { max_doublings: u8 },
}

impl From<Contiki27> for TimeBaseAccess {
    fn from(Contiki27 { time_base, max_transmissions, tick }: Contiki27) -> Self {
        Self { time_base, tick, max_transmissions, growth: Growth::Linear, transmissions: 0 }
    }
}

impl From<Contiki30> for TimeBaseAccess {
    fn from(Contiki30 { time_base, max_transmissions, max_doublings, tick }: Contiki30) -> Self {
        Self { time_base, tick, max_transmissions, growth: Growth::Doubling { max_doublings }, transmissions: 0 }
    }
}

impl TimeBaseAccess {
    /// Returns `free_packet`'s pause, which since July 2015 depends on the previous outcome.
    pub(super) fn pause_after(&self, outcome: Outcome) -> Duration {
        match (self.growth, outcome) {
            (Growth::Doubling { .. }, Outcome::Sent) => Duration::ZERO,
            _ => self.time_base,
        }
    }

    fn wait(&self, stream: &mut Stream) -> Decision {
        let time_bases = match self.growth {
            Growth::Linear => u32::from(self.transmissions).saturating_add(1).min(3),
            Growth::Doubling { max_doublings } => 1 << self.transmissions.min(max_doublings).min(31),
        };
        Decision::Wait(self.time_base + below(stream, self.time_base.saturating_mul(time_bases), self.tick))
    }
}

impl Access for TimeBaseAccess {
    fn first(&mut self, _: &mut Stream) -> Duration {
        self.transmissions = 0;
        Duration::ZERO
    }

    fn busy(&mut self, stream: &mut Stream) -> Decision {
        self.wait(stream)
    }

    fn no_ack(&mut self, stream: &mut Stream) -> Decision {
        self.transmissions += 1;
        if self.transmissions >= self.max_transmissions { Decision::GiveUp } else { self.wait(stream) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Contiki31Access {
    config: Contiki31,
    collisions: u8,
    transmissions: u8,
}

impl Contiki31Access {
    pub(super) fn new(config: Contiki31) -> Self {
        Self { config, collisions: 0, transmissions: 0 }
    }

    /// `random_rand() % ((2^BE − 1)·unit)`, and no wait at BE = 0.
    fn wait(&self, stream: &mut Stream) -> Decision {
        let be = self.config.min_be.saturating_add(self.collisions).min(self.config.max_be).min(31);
        Decision::Wait(draw(stream, (1 << be) - 1, self.config.unit))
    }

    fn failed_transmission(&mut self, stream: &mut Stream) -> Decision {
        self.collisions = 0;
        self.transmissions += 1;
        if self.transmissions > self.config.max_frame_retries { Decision::GiveUp } else { self.wait(stream) }
    }
}

impl Access for Contiki31Access {
    fn first(&mut self, _: &mut Stream) -> Duration {
        (self.collisions, self.transmissions) = (0, 0);
        Duration::ZERO
    }

    fn busy(&mut self, stream: &mut Stream) -> Decision {
        self.collisions += 1;
        if self.collisions > self.config.max_backoff { self.failed_transmission(stream) } else { self.wait(stream) }
    }

    fn no_ack(&mut self, stream: &mut Stream) -> Decision {
        self.failed_transmission(stream)
    }
}

fn below(stream: &mut Stream, span: Duration, tick: Duration) -> Duration {
    let tick = tick.max(Duration::from_nanos(1));
    let ticks = u64::try_from(span.as_nanos() / tick.as_nanos()).unwrap_or(u64::MAX);
    draw(stream, ticks, tick)
}

#[cfg(test)]
mod tests {
    use super::super::access::testing::{attempts, spread, stream};
    use super::*;

    const BASE: Duration = Duration::from_millis(125);

    fn waits<A: Access + Copy>(access: A, no_acks: u32) -> (Duration, Duration, Duration) {
        let mut stream = stream();
        spread(|| {
            let mut access = access;
            assert_eq!(access.first(&mut stream), Duration::ZERO);
            (0..no_acks).for_each(|_| assert_ne!(access.no_ack(&mut stream), Decision::GiveUp));
            let Decision::Wait(wait) = access.busy(&mut stream) else { panic!("given up") };
            wait
        })
    }

    fn assert_mean(mean: Duration, expected_ms: f64) {
        let mean_ms = mean.as_secs_f64() * 1e3;
        assert!((mean_ms / expected_ms - 1.0).abs() < 0.01, "{mean_ms:.1} ms instead of {expected_ms} ms");
    }

    #[test]
    fn version_2_7_waits_one_base_and_up_to_three_more() {
        let access = TimeBaseAccess::from(Contiki27::default());
        for (no_acks, spans) in [(0, 1), (1, 2), (2, 3), (4, 3)] {
            let (low, mean, high) = waits(access, no_acks);
            assert_eq!((low, high), (BASE, BASE + spans * BASE - MOTE_TICK));
            assert_mean(mean, 125.0 + (f64::from(spans) * 125.0 - 7.8125) / 2.0);
        }
    }

    #[test]
    fn version_3_0_doubles_its_random_part() {
        let access = TimeBaseAccess::from(Contiki30 { max_transmissions: 9, ..Contiki30::default() });
        for (no_acks, spans) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 8)] {
            let (low, mean, high) = waits(access, no_acks);
            assert_eq!((low, high), (BASE, BASE + spans * BASE - MOTE_TICK));
            assert_mean(mean, 125.0 + (f64::from(spans) * 125.0 - 7.8125) / 2.0);
        }
    }

    #[test]
    fn version_3_1_waits_less_than_2_to_the_be_less_1_milliseconds() {
        let mut stream = stream();
        for (busy, longest_ms) in [(1, 0), (2, 2), (3, 6), (4, 14), (5, 14)] {
            let (low, _, high) = spread(|| {
                let mut access = Contiki31Access::new(Contiki31::default());
                assert_eq!(access.first(&mut stream), Duration::ZERO);
                let mut decision = Decision::GiveUp;
                (0..busy).for_each(|_| decision = access.busy(&mut stream));
                let Decision::Wait(wait) = decision else { panic!("given up") };
                wait
            });
            assert_eq!((low, high), (Duration::ZERO, Duration::from_millis(longest_ms)));
        }
    }

    #[test]
    fn only_version_3_1_gives_up_because_of_busy_channels() {
        assert_eq!(attempts(&mut TimeBaseAccess::from(Contiki27::default()), Access::busy), 1000);
        assert_eq!(attempts(&mut TimeBaseAccess::from(Contiki30::default()), Access::busy), 1000);
        // Eight transmissions that each fail after six busy channels.
        assert_eq!(attempts(&mut Contiki31Access::new(Contiki31::default()), Access::busy), 48);
    }

    #[test]
    fn missing_acknowledgments_end_it_after_five_or_eight_transmissions() {
        assert_eq!(attempts(&mut TimeBaseAccess::from(Contiki27::default()), Access::no_ack), 5);
        assert_eq!(attempts(&mut TimeBaseAccess::from(Contiki30::default()), Access::no_ack), 5);
        assert_eq!(attempts(&mut Contiki31Access::new(Contiki31::default()), Access::no_ack), 8);
    }

    #[test]
    fn only_version_2_7_waits_after_a_frame_that_was_sent() {
        let (old, new) = (TimeBaseAccess::from(Contiki27::default()), TimeBaseAccess::from(Contiki30::default()));
        assert_eq!([old, new].map(|access| access.pause_after(Outcome::Sent)), [BASE, Duration::ZERO]);
        assert_eq!([old, new].map(|access| access.pause_after(Outcome::NoAck)), [BASE, BASE]);
    }
}
