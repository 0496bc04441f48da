//! [`Limiter`]: a rate limit for each source, as for a server's responses (RFC 7252 §4.7), in memory that does not grow.
//!
//! Each source has a bucket of its own, which is a virtual scheduling time (the generic cell rate
//! algorithm): the time until which its requests would take at the average rate. A source needs its
//! bucket only while that time is ahead, so the table holds those that asked lately, in sets of
//! [`WAYS`] places. If all places of a set are in use, the bucket that is closest to empty makes
//! room. So a source that keeps below its rate is not refused because of others, and a source that
//! exceeds it keeps its bucket. Two sources share a bucket where their [`Group`]s are equal, in one
//! of 2^20 pairs.

use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

use crate::config::ResponseLimit;
use crate::shares::{Group, ROW};
use conche_cc::Instant;

/// Places in a set. The first cell of a [`Group`] is the number of its set.
const WAYS: usize = 4;

/// The bucket of a source.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    source: Group,
    /// The virtual scheduling time. The bucket is empty from then on.
    until: Instant,
}

/// The buckets of the latest sources: 4096 of them, in 64 KiB, or fewer of a small limiter.
#[derive(Debug)]
pub struct Limiter {
    /// Between two requests at the average rate.
    interval: Duration,
    /// How far ahead of now a bucket may be and still have room.
    tolerance: Duration,
    sets: Box<[[Bucket; WAYS]]>,
}

/// Sets of a [small](Limiter::small) limiter.
const FEW: usize = 16;

impl Limiter {
    /// Creates a limiter with no source in it.
    #[must_use]
    pub fn new(limit: ResponseLimit) -> Self {
        Self::with_sets(limit, ROW as usize)
    }

    /// Creates a limiter with buckets for 64 sources, 1 KiB: for limits that only attackers exceed.
    pub(crate) fn small(limit: ResponseLimit) -> Self {
        Self::with_sets(limit, FEW)
    }

    fn with_sets(limit: ResponseLimit, sets: usize) -> Self {
        let interval = Duration::from_secs(1) / limit.per_second.max(1);
        let empty = Bucket { source: Group::NOBODY, until: Instant::ZERO };
        Self {
            interval,
            tolerance: interval.saturating_mul(limit.burst.max(1) - 1),
            sets: vec![[empty; WAYS]; sets].into_boxed_slice(),
        }
    }

    /// Returns the set of a source.
    fn set_of(&mut self, source: Group) -> Option<&mut [Bucket; WAYS]> {
        let set = source.cells()[0] % self.sets.len();
        self.sets.get_mut(set)
    }

    /// Counts one more request of a source, unless that exceeds its limit.
    pub fn admits(&mut self, now: Instant, source: Group) -> bool {
        let (interval, tolerance) = (self.interval, self.tolerance);
        let Some(set) = self.set_of(source) else { return true };
        // A source keeps its place even with an empty bucket, so that it has no second one.
        let known = set.iter().position(|bucket| bucket.source == source);
        let emptiest = || set.iter().enumerate().min_by_key(|(_, bucket)| bucket.until).map(|(way, _)| way);
        let Some(way) = known.or_else(emptiest) else { return true };
        let until = if known.is_some() { set[way].until.max(now) } else { now };
        let admitted = until <= now + tolerance;
        if admitted {
            set[way] = Bucket { source, until: until + interval };
        }
        admitted
    }

    /// Takes back one request of a source that was counted.
    pub fn give_back(&mut self, source: Group) {
        let interval = self.interval;
        let set = self.set_of(source);
        if let Some(bucket) = set.and_then(|set| set.iter_mut().find(|bucket| bucket.source == source)) {
            bucket.until = bucket.until - interval;
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
        for ms in 1_000..1_100 {
            let now = start + Duration::from_millis(ms);
            assert_eq!(admitted(&mut limiter, 2, now, 3), 3, "in millisecond {ms}");
            (0..3).for_each(|_| limiter.give_back(source(2)));
        }
    }

    #[test]
    fn sources_that_exceed_their_limit_hold_back_no_others() {
        let mut limiter = limiter();
        let exceeding = (0..100).map(|source| admitted(&mut limiter, source, Instant::ZERO, 1_000));
        assert!(exceeding.min() >= Some(5), "each has its burst");
        let served = (1_000..2_000).filter(|&source| limiter.admits(Instant::ZERO, self::source(source))).count();
        assert_eq!(served, 1_000);
    }

    #[test]
    fn no_source_that_keeps_to_a_tenth_of_its_limit_is_refused_however_many_there_are() {
        const SOURCES: u32 = 20_000;
        let mut limiter = limiter();
        for round in 0..5 {
            for source in 0..SOURCES {
                let now = Instant::from_millis(5_000) + Duration::from_secs(1) * (round * SOURCES + source) / SOURCES;
                assert!(limiter.admits(now, self::source(source)), "source {source} in second {round}");
            }
        }
    }

    #[test]
    fn a_source_that_exceeds_its_limit_is_held_to_it_among_twenty_thousand_others() {
        const SOURCES: u32 = 20_000;
        let (mut limiter, mut served) = (limiter(), 0);
        for n in 0..5 * SOURCES {
            let now = Instant::from_millis(5_000) + Duration::from_secs(1) * n / SOURCES;
            limiter.admits(now, source(1 + n % SOURCES));
            served += admitted(&mut limiter, 0, now, 1);
        }
        assert!(served <= 100, "{served} in 5 s at 10 a second");
    }
}
