//! Due times of requests, which delayed requests keep.

use std::time::Duration;

use conche_proto::Instant;
use rand_core::RngCore;
use rand_pcg::Pcg64Mcg;

use crate::plan::{Arrivals, Load};

/// The mean rate estimates further ones.
const ONE_BY_ONE: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) index: u32,
    pub(crate) of: u32,
}

impl Share {
    pub(crate) fn of(self, all: u64) -> u64 {
        all / u64::from(self.of) + u64::from(u64::from(self.index) < all % u64::from(self.of))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) counts_from: Instant,
    pub(crate) until: Instant,
    pub(crate) count: u64,
}

#[derive(Debug)]
pub(crate) struct Schedule {
    /// `None` in a closed loop.
    arrivals: Option<Due>,
    pub(crate) left: u64,
    until: Instant,
    counts_from: Instant,
}

#[derive(Debug)]
struct Due {
    next: Instant,
    /// In nanoseconds.
    mean: f64,
    rest: f64,
    arrivals: Arrivals,
    random: Pcg64Mcg,
}

impl Schedule {
    pub(crate) fn new(load: Load, share: Share, Span { counts_from, until, count }: Span, random: Pcg64Mcg) -> Self {
        let arrivals = match load {
            Load::Closed => None,
            Load::Open { rate, arrivals } => {
                let mean = 1e9 * f64::from(share.of) / rate;
                let mut due = Due { next: Instant::ZERO, mean, rest: 0.0, arrivals, random };
                match arrivals {
                    Arrivals::Constant => due.advance(1e9 * f64::from(share.index) / rate),
                    Arrivals::Poisson => due.advance_arrival(),
                }
                Some(due)
            }
        };
        Self { arrivals, left: count, until, counts_from }
    }

    pub(crate) fn shift(&mut self, by: Duration) {
        self.counts_from += by;
        self.until += by;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.next += by;
        }
    }

    #[inline]
    pub(crate) fn peek(&self, now: Instant) -> Option<Instant> {
        let next = self.arrivals.as_ref().map_or(now, |due| due.next);
        (self.left > 0 && next < self.until).then_some(next)
    }

    #[inline]
    pub(crate) fn take(&mut self, due: Instant) {
        if due >= self.counts_from {
            self.left -= 1;
        }
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.advance_arrival();
        }
    }

    pub(crate) fn stop(&mut self, now: Instant) -> u64 {
        self.until = self.until.min(now);
        let mut given_up: u64 = 0;
        for _ in 0..ONE_BY_ONE {
            let Some(due) = self.peek(now).filter(|_| self.arrivals.is_some()) else { break };
            given_up += u64::from(due >= self.counts_from);
            self.take(due);
        }
        given_up = given_up.saturating_add(self.about_left());
        self.left = 0;
        given_up
    }

    /// Exact for constant arrivals.
    fn about_left(&self) -> u64 {
        let Some(due) = &self.arrivals else { return 0 };
        let from = due.next.max(self.counts_from);
        let nanos = (self.until - from).as_nanos() as f64;
        // Not negative; saturates.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let count = (nanos / due.mean).ceil() as u64;
        count.min(self.left)
    }
}

impl Due {
    #[inline]
    fn advance_arrival(&mut self) {
        match self.arrivals {
            Arrivals::Constant => self.advance(self.mean),
            Arrivals::Poisson => {
                // In (0, 1], for a finite logarithm.
                let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                self.advance(-uniform.ln() * self.mean);
            }
        }
    }

    fn advance(&mut self, nanos: f64) {
        let span = nanos + self.rest;
        // Not negative; saturates.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = span as u64;
        self.rest = span - whole as f64;
        self.next += Duration::from_nanos(whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Instant = Instant::from_millis(1_000);

    fn schedule(arrivals: Arrivals, share: Share, until: Instant) -> Schedule {
        let load = Load::Open { rate: 1_000.0, arrivals };
        let span = Span { counts_from: Instant::ZERO, until, count: u64::MAX };
        Schedule::new(load, share, span, Pcg64Mcg::new(0xdead_beef_cafe))
    }

    fn all(mut schedule: Schedule) -> Vec<Instant> {
        std::iter::from_fn(|| {
            let due = schedule.peek(Instant::ZERO)?;
            schedule.take(due);
            Some(due)
        })
        .collect()
    }

    #[test]
    fn threads_share_evenly_spread_arrivals_in_turns() {
        let of = 3;
        let mut times: Vec<_> =
            (0..of).flat_map(|index| all(schedule(Arrivals::Constant, Share { index, of }, SECOND))).collect();
        times.sort_unstable();
        assert_eq!(times.len(), 1_000);
        for (number, time) in times.iter().enumerate() {
            let exact = number as f64 * 1e6;
            assert!((time.as_nanos() as f64 - exact).abs() <= 2.0, "{number}: {time:?}");
        }
    }

    #[test]
    fn gaps_of_a_poisson_process_are_exponential() {
        let times = all(schedule(Arrivals::Poisson, Share { index: 0, of: 1 }, Instant::from_millis(100_000)));
        let gaps: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e3).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Equal; 100 000 gaps determine both within a few per cent.
        assert!((mean - 1.0).abs() < 0.03 && (variance.sqrt() - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn unsent_due_requests_are_counted_at_the_end() {
        let mut schedule = schedule(Arrivals::Constant, Share { index: 0, of: 1 }, SECOND);
        for _ in 0..10 {
            let due = schedule.peek(SECOND).expect("a thousand are due");
            schedule.take(due);
        }
        assert_eq!(schedule.stop(Instant::from_millis(500)), 490);
        assert_eq!(schedule.peek(SECOND), None);
    }

    #[test]
    fn a_large_backlog_is_computed_without_counting() {
        const ALL: u64 = 10_000_000_000_000_000_000;
        let load = Load::Open { rate: 1e9, arrivals: Arrivals::Constant };
        let (share, until) = (Share { index: 0, of: 1 }, Instant::from_nanos(ALL));
        let span = |count| Span { counts_from: Instant::from_nanos(ALL / 2), until, count };
        let schedule = |count| Schedule::new(load, share, span(count), Pcg64Mcg::new(0xdead_beef_cafe));
        assert_eq!(schedule(u64::MAX).stop(until), ALL / 2, "those of the warm-up do not count");
        assert_eq!(schedule(7).stop(until), 7);
    }

    #[test]
    fn shares_add_up() {
        let shares = (0..7).map(|index| Share { index, of: 7 }.of(100));
        assert_eq!(shares.sum::<u64>(), 100);
    }
}
