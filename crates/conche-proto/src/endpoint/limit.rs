//! [`ResponseLimit`]: a server limits its responses to each source (RFC 7252 §4.7), in memory that does not grow.
//!
//! Each source is hashed, with keys that nobody outside knows, to one bucket in each of two rows, and is served while one
//! of them has room. So a source that overdoes it holds back another only where both buckets coincide, in one of 2^20
//! pairs of sources. A bucket is a virtual scheduling time (the generic cell rate algorithm): the time until which its
//! responses would take at the average rate.

use alloc::boxed::Box;
use alloc::vec;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;

use conche_cc::Instant;

/// Buckets in a row.
const ROW: usize = 1024;

/// How many requests of one source are answered. What exceeds it is dropped as if it had been lost, so that a client
/// that keeps to RFC 7252 backs off. Nobody but the application knows how much is too much: there is no default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLimit {
    /// Requests a second on average; 0 counts as 1.
    pub per_second: u32,
    /// Requests at once after a silence; 0 counts as 1.
    pub burst: u32,
}

/// What was answered lately.
#[derive(Debug)]
pub(super) struct Limiter<S> {
    /// Between two requests at the average rate.
    interval: Duration,
    /// How far ahead of now a bucket may be and still have room.
    tolerance: Duration,
    hashers: [S; 2],
    rows: [Box<[Instant]>; 2],
}

impl<S: BuildHasher> Limiter<S> {
    pub(super) fn new(limit: ResponseLimit, hashers: [S; 2]) -> Self {
        let interval = Duration::from_secs(1) / limit.per_second.max(1);
        Self {
            interval,
            tolerance: interval.saturating_mul(limit.burst.max(1) - 1),
            hashers,
            rows: [(); 2].map(|()| vec![Instant::ZERO; ROW].into_boxed_slice()),
        }
    }

    /// A request of `source` may be answered, and counts.
    pub(super) fn admits(&mut self, now: Instant, source: &impl Hash) -> bool {
        let full = now + self.tolerance;
        let [first, second] = &mut self.rows;
        let [first, second] = [(first, &self.hashers[0]), (second, &self.hashers[1])]
            .map(|(row, hasher)| &mut row[usize::try_from(hasher.hash_one(source)).unwrap_or(usize::MAX) % ROW]);
        let admitted = (*first).min(*second) <= full;
        if admitted {
            for bucket in [first, second] {
                *bucket = ((*bucket).max(now) + self.interval).min(full + self.interval);
            }
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::RandomState;

    fn limiter() -> Limiter<RandomState> {
        Limiter::new(ResponseLimit { per_second: 10, burst: 5 }, [1, 2].map(RandomState::from_seed))
    }

    fn admitted(limiter: &mut Limiter<RandomState>, source: u32, now: Instant, requests: usize) -> usize {
        (0..requests).filter(|_| limiter.admits(now, &source)).count()
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
    fn others_are_served_while_a_hundred_sources_overdo_it() {
        let mut limiter = limiter();
        for source in 0..100 {
            assert!(admitted(&mut limiter, source, Instant::ZERO, 1_000) >= 1);
        }
        let served = (1_000..2_000).filter(|&source| limiter.admits(Instant::ZERO, &source)).count();
        assert!(served >= 980, "{served} of 1000 others were served");
    }
}
