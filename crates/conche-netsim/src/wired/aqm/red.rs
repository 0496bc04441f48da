//! RED drops arriving frames with a probability that grows with the mean queue length.
//!
//! Source, with its names: Floyd, Jacobson: Random Early Detection gateways for congestion
//! avoidance, IEEE/ACM ToN 1(4), 1993, figure 2. "Gentle" (Floyd: Recommendation on using the
//! "gentle_" variant of RED, 2000): from the upper threshold to twice that, the probability rises
//! from max_p to 1 instead of jumping. Lengths are in waiting frames.

use crate::rng::Stream;
use crate::{BitRate, Instant};

/// RED's parameters.
///
/// ```toml
/// min_packets = 5
/// max_packets = 15
/// max_probability = "10%"
/// weight = 0.002
/// mean_packet_bytes = 500
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// min_th: mean length without drops, in frames. Default: 5.
    pub min_packets: f64,
    /// max_th: mean length with drop probability `max_probability`, in frames. Default: 15.
    pub max_packets: f64,
    /// max_p: drop probability at the upper threshold. Default: 0.1.
    pub max_probability: f64,
    /// w_q: weight of the current length. Default: 0.002.
    pub weight: f64,
    /// Assumed frame length on an idle link. Default: 500 bytes.
    pub mean_packet_bytes: u32,
}

impl Default for Red {
    fn default() -> Self {
        Self { min_packets: 5.0, max_packets: 15.0, max_probability: 0.1, weight: 0.002, mean_packet_bytes: 500 }
    }
}

#[derive(Clone, Debug)]
pub(in super::super) struct RedState {
    config: Red,
    /// s: transmission time of a typical frame.
    transmission_seconds: f64,
    avg: f64,
    /// Frames since the last drop; `None` below the lower threshold.
    count: Option<u32>,
    /// q_time: when the link became idle.
    idle_since: Instant,
    stream: Stream,
}

impl RedState {
    pub(super) fn new(config: Red, rate: Option<BitRate>, stream: Stream) -> Self {
        let transmission = rate.map(|rate| rate.serialisation(config.mean_packet_bytes).as_secs_f64());
        let transmission_seconds = transmission.unwrap_or_default();
        Self { config, transmission_seconds, avg: 0.0, count: None, idle_since: Instant::ZERO, stream }
    }

    pub(super) fn admits(&mut self, now: Instant, found: super::QueueState) -> bool {
        self.measure(now, found);
        let probability = self.probability();
        if probability <= 0.0 {
            self.count = None;
            return true;
        }
        let count = self.count.map_or(0, |count| count.saturating_add(1));
        let spread = probability / (1.0 - f64::from(count) * probability);
        let dropped = !(0.0..1.0).contains(&spread) || self.stream.chance(spread);
        self.count = Some(if dropped { 0 } else { count });
        !dropped
    }

    pub(super) fn idle(&mut self, now: Instant) {
        self.idle_since = now;
    }

    fn measure(&mut self, now: Instant, found: super::QueueState) {
        let weight = self.config.weight;
        if found.idle {
            let m = (now - self.idle_since).as_secs_f64() / self.transmission_seconds;
            self.avg = if m.is_finite() { self.avg * libm::pow(1.0 - weight, m) } else { 0.0 };
        } else {
            self.avg += weight * (found.frames as f64 - self.avg);
        }
    }

    /// p_b.
    fn probability(&self) -> f64 {
        let Red { min_packets: min, max_packets: max, max_probability, .. } = self.config;
        match self.avg {
            avg if avg < min => 0.0,
            avg if avg < max => max_probability * (avg - min) / (max - min),
            avg => (max_probability + (1.0 - max_probability) * (avg - max) / max).min(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::QueueState;
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    fn red(config: Red) -> RedState {
        let stream = Streams::new(3).stream(Entity::Run, Purpose::named("test"));
        RedState::new(config, Some(BitRate::kbit(400)), stream)
    }

    fn found(frames: usize) -> QueueState {
        QueueState { frames, bytes: 100 * frames as u64, idle: false }
    }

    #[test]
    fn the_mean_is_weighted_and_decays_while_the_link_is_idle_by_the_frames_that_could_have_left() {
        let mut red = red(Red { weight: 0.25, ..Red::default() });
        for (frames, avg) in [(4, 1.0), (4, 1.75), (0, 1.3125)] {
            red.admits(Instant::ZERO, found(frames));
            assert!((red.avg - avg).abs() < 1e-12, "{}", red.avg);
        }
        // 500 bytes take 10 ms: 20 ms are two frames, 0.75².
        red.idle(Instant::from_millis(100));
        red.admits(Instant::from_millis(120), QueueState { frames: 0, bytes: 0, idle: true });
        assert!((red.avg - 1.3125 * 0.5625).abs() < 1e-9, "{}", red.avg);
    }

    #[test]
    fn the_probability_rises_gently_beyond_the_upper_threshold() {
        let mut red = red(Red::default());
        for (avg, probability) in
            [(4.9, 0.0), (5.0, 0.0), (10.0, 0.05), (15.0, 0.1), (22.5, 0.55), (30.0, 1.0), (99.0, 1.0)]
        {
            red.avg = avg;
            assert!((red.probability() - probability).abs() < 1e-12, "{avg}: {}", red.probability());
        }
    }

    #[test]
    fn drops_are_spread_uniformly_so_that_no_more_than_1_over_p_frames_lie_between_two() {
        // p_a = p_b/(1 − count·p_b): gaps between drops are uniform over 1..=1/p_b = 20.
        let mut red = red(Red { weight: 0.0, ..Red::default() });
        red.avg = 10.0;
        let (mut gaps, mut gap) = (Vec::new(), 0_u32);
        for _ in 0..200_000 {
            gap += 1;
            if !red.admits(Instant::ZERO, found(10)) {
                gaps.push(std::mem::take(&mut gap));
            }
        }
        // After a drop count is 0, and 1 with the next frame: the longest gap is 1/p_b − 1.
        let mean = gaps.iter().map(|gap| f64::from(*gap)).sum::<f64>() / gaps.len() as f64;
        assert!(gaps.iter().skip(1).all(|gap| (1..20).contains(gap)));
        // Uniform over 1..=19: σ = 5.48; 20 000 gaps make an error of 0.04.
        assert!((mean - 10.0).abs() < 0.16, "{mean}");
    }
}
