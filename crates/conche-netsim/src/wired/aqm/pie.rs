//! PIE drops arriving frames with a probability that keeps the delay at a target.
//!
//! Source: RFC 8033, §4 and its pseudocode, with their names, burst allowance (§4.4),
//! de-randomisation (§5.4) and the cap on growth (§5.5). The delay is the last transmitted frame's
//! wait, by timestamps.
//!
//! Divergences: an idle link has no delay. PIE is always on (§5.3 is optional), does not scale by
//! frame size, and does not mark. Updates happen at arrivals and departures; their inputs do not
//! change in between.

use std::time::Duration;

use crate::Instant;
use crate::rng::Stream;

/// PIE's parameters.
///
/// ```toml
/// target = "15ms"
/// update = "15ms"
/// alpha = 0.125
/// beta = 1.25
/// max_burst = "150ms"
/// mean_packet_bytes = 1500
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pie {
    /// QDELAY_REF: the target delay. Default: 15 ms.
    pub target: Duration,
    /// T_UPDATE: interval of probability updates, at least 1 ms. Default: 15 ms.
    pub update: Duration,
    /// Weight of the deviation from the target, in 1/s. Default: 0.125.
    pub alpha: f64,
    /// Weight of the growth since the last update, in 1/s. Default: 1.25.
    pub beta: f64,
    /// MAX_BURST: time without drops after the queue was short. Default: 150 ms.
    pub max_burst: Duration,
    /// MEAN_PKTSIZE: no drops while at most two such frames wait. Default: 1500 bytes.
    pub mean_packet_bytes: u32,
}

impl Default for Pie {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self { target: ms(15), update: ms(15), alpha: 0.125, beta: 1.25, max_burst: ms(150), mean_packet_bytes: 1500 }
    }
}

#[derive(Clone, Debug)]
pub(in super::super) struct PieState {
    config: Pie,
    drop_prob: f64,
    accu_prob: f64,
    burst_allowance: Duration,
    current_qdelay: Duration,
    qdelay_old: Duration,
    next_update: Instant,
    stream: Stream,
}

impl PieState {
    pub(super) fn new(config: Pie, stream: Stream) -> Self {
        let config = Pie { update: config.update.max(Duration::from_millis(1)), ..config };
        Self {
            config,
            drop_prob: 0.0,
            accu_prob: 0.0,
            burst_allowance: config.max_burst,
            current_qdelay: Duration::ZERO,
            qdelay_old: Duration::ZERO,
            next_update: Instant::ZERO + config.update,
            stream,
        }
    }

    pub(super) fn admits(&mut self, now: Instant, found: super::QueueState) -> bool {
        self.catch_up(now);
        if self.burst_allowance.is_zero() && self.drops_early(found.bytes) {
            self.accu_prob = 0.0;
            return false;
        }
        if self.drop_prob <= 0.0 && self.is_short() {
            self.burst_allowance = self.config.max_burst;
        }
        true
    }

    pub(super) fn overflowed(&mut self) {
        self.accu_prob = 0.0;
    }

    pub(super) fn dequeued(&mut self, now: Instant, waited: Duration) {
        self.catch_up(now);
        self.current_qdelay = waited;
    }

    /// `drop_early()`.
    fn drops_early(&mut self, waiting_bytes: u64) -> bool {
        let hardly_late = self.qdelay_old < self.config.target / 2 && self.drop_prob < 0.2;
        if hardly_late || waiting_bytes <= 2 * u64::from(self.config.mean_packet_bytes) {
            return false;
        }
        if self.drop_prob <= 0.0 {
            self.accu_prob = 0.0;
        }
        self.accu_prob += self.drop_prob;
        match self.accu_prob {
            accu if accu < 0.85 => false,
            accu if accu >= 8.5 => true,
            _ => self.stream.chance(self.drop_prob),
        }
    }

    fn catch_up(&mut self, now: Instant) {
        while self.next_update <= now {
            if self.is_at_rest() {
                // Further updates would not change the state.
                let update = crate::units::nanos(self.config.update);
                let due = crate::units::nanos(now - self.next_update) / update + 1;
                self.next_update =
                    Instant::from_nanos(self.next_update.as_nanos().saturating_add(due.saturating_mul(update)));
                return;
            }
            self.calculate_drop_prob();
            self.next_update += self.config.update;
        }
    }

    fn is_at_rest(&self) -> bool {
        self.current_qdelay.is_zero()
            && self.qdelay_old.is_zero()
            && self.drop_prob <= 0.0
            && self.burst_allowance.is_zero()
    }

    fn calculate_drop_prob(&mut self) {
        let (current, old) = (self.current_qdelay.as_secs_f64(), self.qdelay_old.as_secs_f64());
        let deviation = current - self.config.target.as_secs_f64();
        let mut p = self.config.alpha * deviation + self.config.beta * (current - old);
        p /= match self.drop_prob {
            prob if prob < 0.000_001 => 2048.0,
            prob if prob < 0.000_01 => 512.0,
            prob if prob < 0.000_1 => 128.0,
            prob if prob < 0.001 => 32.0,
            prob if prob < 0.01 => 8.0,
            prob if prob < 0.1 => 2.0,
            _ => 1.0,
        };
        if self.drop_prob >= 0.1 {
            p = p.min(0.02);
        }
        self.drop_prob += p;
        if self.is_short() {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        self.qdelay_old = self.current_qdelay;
        self.burst_allowance = self.burst_allowance.saturating_sub(self.config.update);
    }

    /// Returns whether the delay is, and was at the last update, below half of the target.
    fn is_short(&self) -> bool {
        self.current_qdelay < self.config.target / 2 && self.qdelay_old < self.config.target / 2
    }
}

#[cfg(test)]
mod tests {
    use super::super::QueueState;
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn pie() -> PieState {
        PieState::new(Pie::default(), Streams::new(3).stream(Entity::Run, Purpose::named("test")))
    }

    fn found(bytes: u64) -> QueueState {
        QueueState { frames: 40, bytes, idle: false }
    }

    fn assert_probability(pie: &PieState, expected: f64) {
        assert!((pie.drop_prob - expected).abs() < 1e-12, "{} instead of {expected}", pie.drop_prob);
    }

    #[test]
    fn the_probability_moves_as_computed_by_hand() {
        let mut pie = pie();
        // 35 ms: 0.125·0.020 + 1.25·0.035 = 0.04625, over 2048.
        pie.dequeued(Instant::ZERO, ms(35));
        pie.catch_up(Instant::from_millis(15));
        let first = 0.046_25 / 2048.0;
        assert_probability(&pie, first);
        // 0.0000226: 0.125·0.020 + 0 = 0.0025, over 128.
        pie.catch_up(Instant::from_millis(30));
        assert_probability(&pie, first + 0.0025 / 128.0);
        // 45 ms: 0.125·0.030 + 1.25·0.010 = 0.01625, over 128 once more (0.0000421).
        pie.dequeued(Instant::from_millis(31), ms(45));
        pie.catch_up(Instant::from_millis(45));
        assert_probability(&pie, first + 0.0025 / 128.0 + 0.01625 / 128.0);
        // Back to 15 ms from 0.05: 1.25·(−0.030), over 2.
        pie.drop_prob = 0.05;
        pie.dequeued(Instant::from_millis(46), ms(15));
        pie.catch_up(Instant::from_millis(60));
        assert_probability(&pie, 0.05 - 0.0375 / 2.0);
    }

    #[test]
    fn it_grows_by_two_per_cent_at_most_and_decays_when_the_delay_is_half_the_target() {
        let mut pie = pie();
        (pie.drop_prob, pie.qdelay_old) = (0.3, ms(500));
        pie.dequeued(Instant::ZERO, ms(900));
        pie.catch_up(Instant::from_millis(15));
        assert_probability(&pie, 0.32);
        (pie.qdelay_old, pie.current_qdelay) = (ms(7), ms(7));
        pie.catch_up(Instant::from_millis(30));
        assert_probability(&pie, (0.32 - 0.125 * 0.008) * 0.98);
    }

    #[test]
    fn a_burst_passes_for_150_ms_and_no_longer() {
        let mut pie = pie();
        pie.dequeued(Instant::ZERO, ms(500));
        (pie.drop_prob, pie.qdelay_old) = (1.0, ms(500));
        let admits = |pie: &mut PieState, at| (0..100).all(|_| pie.admits(Instant::from_millis(at), found(9_000)));
        assert!(admits(&mut pie, 149));
        assert!(!admits(&mut pie, 150));
        // A short queue without drops restores the allowance.
        (pie.drop_prob, pie.qdelay_old, pie.current_qdelay) = (0.0, ms(1), ms(1));
        assert!(pie.admits(Instant::from_millis(151), found(9_000)));
        assert_eq!(pie.burst_allowance, ms(150));
    }

    #[test]
    fn drops_are_spread_between_accumulated_probabilities_of_085_and_85() {
        let mut pie = pie();
        (pie.drop_prob, pie.qdelay_old, pie.burst_allowance) = (0.125, ms(20), Duration::ZERO);
        let (mut gaps, mut gap) = (Vec::new(), 0);
        for _ in 0..100_000 {
            gap += 1;
            if !pie.admits(Instant::ZERO, found(9_000)) {
                gaps.push(std::mem::take(&mut gap));
            }
        }
        let (least, most) = (gaps.iter().min().copied(), gaps.iter().max().copied());
        assert!(least >= Some(7), "{least:?}");
        assert!(most <= Some(68), "{most:?}");
        // 6 frames without a draw, then geometric with mean 8; 7000 gaps make an error of 0.09.
        let mean = f64::from(gaps.iter().sum::<i32>()) / gaps.len() as f64;
        assert!((mean - 14.0).abs() < 0.35, "{mean}");
    }

    #[test]
    fn two_frames_may_always_wait_and_a_delay_of_half_the_target_may_be() {
        let mut pie = pie();
        (pie.drop_prob, pie.qdelay_old, pie.burst_allowance) = (1.0, ms(20), Duration::ZERO);
        assert!((0..100).all(|_| pie.admits(Instant::ZERO, found(3_000))));
        (pie.drop_prob, pie.qdelay_old) = (0.19, ms(7));
        assert!((0..100).all(|_| pie.admits(Instant::ZERO, found(9_000))));
    }

    #[test]
    fn a_long_rest_is_as_many_updates_one_by_one() {
        let mut pie = pie();
        pie.drop_prob = 0.5;
        pie.catch_up(Instant::from_millis(1_000_000_000));
        assert_probability(&pie, 0.0);
        assert!(pie.is_at_rest());
        assert_eq!(pie.next_update, Instant::from_millis(1_000_000_005));
    }
}
