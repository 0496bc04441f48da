//! [`Limiter`]: so much a second for each source, as of a server's responses (RFC 7252 §4.7), in memory that does not grow.
//!
//! Each source has one bucket in each of two rows, as its [`Group`] says, and is served while one of them has room. So a
//! source that overdoes it holds back another only where both buckets coincide, in one of 2^20 pairs of sources. A
//! bucket is a virtual scheduling time (the generic cell rate algorithm): the time until which its responses would take
//! at the average rate.

use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

use crate::config::ResponseLimit;
use crate::shares::{Group, ROW};
use conche_cc::Instant;

/// What each group of sources had lately, and whether it may have more.
#[derive(Debug)]
pub struct Limiter {
    /// Between two requests at the average rate.
    interval: Duration,
    /// How far ahead of now a bucket may be and still have room.
    tolerance: Duration,
    rows: [Box<[Instant]>; 2],
}

impl Limiter {
    /// Nobody has had anything yet.
    #[must_use]
    pub fn new(limit: ResponseLimit) -> Self {
        let interval = Duration::from_secs(1) / limit.per_second.max(1);
        Self {
            interval,
            tolerance: interval.saturating_mul(limit.burst.max(1) - 1),
            rows: [(); 2].map(|()| vec![Instant::ZERO; ROW as usize].into_boxed_slice()),
        }
    }

    /// `source` may have one more, which counts.
    pub fn admits(&mut self, now: Instant, source: Group) -> bool {
        let full = now + self.tolerance;
        let [first, second] = source.cells();
        let [row, other] = &mut self.rows;
        let (first, second) = (&mut row[first], &mut other[second]);
        let admitted = (*first).min(*second) <= full;
        if admitted {
            for bucket in [first, second] {
                *bucket = ((*bucket).max(now) + self.interval).min(full + self.interval);
            }
        }
        admitted
    }

    /// One of what `source` had does not count any more.
    pub fn give_back(&mut self, source: Group) {
        for (row, cell) in self.rows.iter_mut().zip(source.cells()) {
            row[cell] = row[cell] - self.interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Keyed;
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    fn limiter() -> Limiter {
        Limiter::new(ResponseLimit { per_second: 10, burst: 5 })
    }

    fn source(number: u32) -> Group {
        Group::of(Keyed::new(&mut ChaCha8Rng::seed_from_u64(1)).hash(&number))
    }

    fn admitted(limiter: &mut Limiter, source: u32, now: Instant, requests: usize) -> usize {
        (0..requests).filter(|_| limiter.admits(now, self::source(source))).count()
    }

    #[test]
    fn a_source_gets_its_burst_and_then_its_rate() {
        let mut limiter = limiter();
        let start = Instant::from_millis(5_000);
        assert_eq!(admitted(&mut limiter, 1, start, 100), 5);
        let later = (1..=1_000).map(|ms| admitted(&mut limiter, 1, start + Duration::from_millis(ms), 1));
        assert_eq!(later.sum::<usize>(), 10);
        assert_eq!(admitted(&mut limiter, 1, start + Duration::from_secs(60), 100), 5);
    }

    #[test]
    fn what_is_given_back_can_be_had_again_and_no_more_than_that() {
        let mut limiter = limiter();
        let start = Instant::from_millis(5_000);
        assert_eq!(admitted(&mut limiter, 1, start, 100), 5);
        (0..2).for_each(|_| limiter.give_back(source(1)));
        assert_eq!(admitted(&mut limiter, 1, start, 100), 2);
        (0..100).for_each(|_| limiter.give_back(source(1)));
        assert_eq!(admitted(&mut limiter, 1, start, 100), 5);
    }

    #[test]
    fn others_are_served_while_a_hundred_sources_overdo_it() {
        let mut limiter = limiter();
        let overdone = (0..100).filter(|&source| admitted(&mut limiter, source, Instant::ZERO, 1_000) >= 1).count();
        assert!(overdone >= 95, "{overdone} of 100 were served at all");
        let served = (1_000..2_000).filter(|&source| limiter.admits(Instant::ZERO, self::source(source))).count();
        assert!(served >= 980, "{served} of 1000 others were served");
    }
}
