//! CoDel drops departing frames once the queue delay has exceeded its target for an interval.
//!
//! Source: RFC 8289, §5, with its names. Divergences: a parameter for the bytes that may always
//! wait, not the largest packet seen or the MTU; no ECN.

use std::time::Duration;

use super::super::buffer::{Fifo, Frame};
use crate::Instant;

/// CoDel's parameters.
///
/// The target should be at least one frame's time (RFC 8289 §4.4).
///
/// ```toml
/// target = "5ms"
/// interval = "100ms"
/// mtu_bytes = 1500
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDel {
    /// TARGET: acceptable standing queue delay. Default: 5 ms.
    pub target: Duration,
    /// INTERVAL: permitted time above the target, of the order of a round trip. Default: 100 ms.
    pub interval: Duration,
    /// No drops while at most this many bytes wait behind a frame. Default: 1500.
    pub mtu_bytes: u32,
}

impl Default for CoDel {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), mtu_bytes: 1500 }
    }
}

#[derive(Clone, Debug)]
pub(in super::super) struct CoDelState {
    config: CoDel,
    /// When the delay will have exceeded the target for an interval; `None` below the target.
    first_above_time: Option<Instant>,
    drop_next: Instant,
    count: u32,
    lastcount: u32,
    dropping: bool,
}

struct Dequeued {
    frame: Frame,
    ok_to_drop: bool,
}

impl CoDelState {
    pub(super) fn new(config: CoDel) -> Self {
        Self { config, first_above_time: None, drop_next: Instant::ZERO, count: 0, lastcount: 0, dropping: false }
    }

    /// `deque()` of §5.5.
    pub(super) fn next(&mut self, now: Instant, waiting: &mut Fifo, mut drop: impl FnMut(Frame)) -> Option<Frame> {
        let mut next = self.dequeue(now, waiting);
        if self.dropping {
            self.dropping = next.as_ref().is_some_and(|next| next.ok_to_drop);
            while self.dropping && now >= self.drop_next {
                next.take().into_iter().for_each(|next| drop(next.frame));
                self.count = self.count.saturating_add(1);
                next = self.dequeue(now, waiting);
                self.dropping = next.as_ref().is_some_and(|next| next.ok_to_drop);
                if self.dropping {
                    self.drop_next = self.control_law(self.drop_next);
                }
            }
        } else if next.as_ref().is_some_and(|next| next.ok_to_drop) {
            next.take().into_iter().for_each(|next| drop(next.frame));
            next = self.dequeue(now, waiting);
            self.dropping = true;
            // The drop rate that recently controlled the queue.
            let delta = self.count - self.lastcount;
            let recent = now - self.drop_next < self.config.interval.saturating_mul(16);
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.control_law(now);
            self.lastcount = self.count;
        }
        next.map(|next| next.frame)
    }

    /// `dodequeue()` of §5.6.
    fn dequeue(&mut self, now: Instant, waiting: &mut Fifo) -> Option<Dequeued> {
        let Some(frame) = waiting.pop() else {
            self.first_above_time = None;
            return None;
        };
        let short = now - frame.since < self.config.target || waiting.bytes() <= u64::from(self.config.mtu_bytes);
        let ok_to_drop = !short && self.first_above_time.is_some_and(|end| now >= end);
        self.first_above_time = match self.first_above_time {
            _ if short => None,
            None => Some(now + self.config.interval),
            begun => begun,
        };
        Some(Dequeued { frame, ok_to_drop })
    }

    /// §5.4: `t` + interval/√count.
    fn control_law(&self, t: Instant) -> Instant {
        let seconds = self.config.interval.as_secs_f64() / libm::sqrt(f64::from(self.count));
        t + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::buffer::testing::frame;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Offers two frames of 100 bytes each millisecond and lets one leave, until a time. Returns
    /// the times of drops and the waits of sent frames.
    fn drops(config: CoDel, until: Instant) -> (Vec<Instant>, Vec<Duration>) {
        let (mut codel, mut waiting) = (CoDelState::new(config), Fifo::default());
        let (mut drops, mut waits) = (Vec::new(), Vec::new());
        let mut now = Instant::ZERO;
        while now < until {
            (0..2).for_each(|_| waiting.push(frame(100, now)));
            let next = codel.next(now, &mut waiting, |_| drops.push(now)).expect("more comes than leaves");
            waits.push(now - next.since);
            now += MS;
        }
        (drops, waits)
    }

    #[test]
    fn the_first_drop_comes_an_interval_after_the_target_is_passed_and_the_others_by_the_root_of_their_number() {
        let config = CoDel { mtu_bytes: 0, ..CoDel::default() };
        let (drops, _) = drops(config, Instant::from_millis(600));
        // A frame has waited for 5 ms at 9 or 10 ms, and the first drop is an interval later.
        let first = drops[0];
        assert!((109..=110).contains(&first.as_millis()), "{first:?}");
        let mut expected = first.as_nanos() as f64 / 1e6;
        for (number, drop) in (1..).zip(&drops) {
            // Frames leave at whole milliseconds; the law continues from the exact time.
            let late = drop.as_nanos() as f64 / 1e6 - expected;
            assert!((0.0..1.0).contains(&late), "drop {number} is {late} ms late");
            expected += 100.0 / f64::from(number).sqrt();
        }
        assert!(drops.len() > 5, "{}", drops.len());
    }

    #[test]
    fn a_short_queue_and_a_burst_are_left_alone() {
        let (mut codel, mut waiting) = (CoDelState::new(CoDel { mtu_bytes: 0, ..CoDel::default() }), Fifo::default());
        // A burst of 90 ms, shorter than an interval.
        (0..90).for_each(|_| waiting.push(frame(100, Instant::ZERO)));
        let mut now = Instant::ZERO;
        while codel.next(now, &mut waiting, |_| panic!("dropped")).is_some() {
            now += MS;
        }
        // Frames that always wait for 4 ms.
        for _ in 0..1000 {
            waiting.push(frame(100, now));
            now += 4 * MS;
            assert!(codel.next(now, &mut waiting, |_| panic!("dropped")).is_some());
        }
    }

    #[test]
    fn the_bytes_of_an_mtu_may_always_wait() {
        let config = CoDel { mtu_bytes: 1500, ..CoDel::default() };
        let (mut codel, mut waiting) = (CoDelState::new(config), Fifo::default());
        (0..16).for_each(|_| waiting.push(frame(100, Instant::ZERO)));
        for second in 1..1000 {
            // Each has waited for 16 s, with 1500 bytes behind it.
            let now = Instant::from_millis(second * 1000);
            assert!(codel.next(now, &mut waiting, |_| panic!("dropped")).is_some());
            waiting.push(frame(100, now));
        }
    }

    #[test]
    fn codel_resumes_its_drop_rate_after_a_recent_dropping_state() {
        let mut codel = CoDelState::new(CoDel { mtu_bytes: 0, ..CoDel::default() });
        (codel.count, codel.lastcount, codel.drop_next) = (9, 1, Instant::from_millis(1_000));
        for (gap_ms, count) in [(1_599, 8), (1_601, 1)] {
            let (mut codel, mut waiting) = (codel.clone(), Fifo::default());
            let now = Instant::from_millis(1_000 + gap_ms);
            codel.first_above_time = Some(now);
            (0..9).for_each(|_| waiting.push(frame(100, Instant::ZERO)));
            let mut dropped = 0;
            codel.next(now, &mut waiting, |_| dropped += 1);
            assert_eq!((dropped, codel.count, codel.dropping), (1, count, true));
            let gap = (codel.drop_next - now).as_secs_f64();
            assert!((gap - 0.1 / f64::from(count).sqrt()).abs() < 1e-9, "{gap}");
        }
    }
}
