//! [`Validated`]: the sources that proved that they receive at their address, in bounded memory.

use crate::store::{Arena, Index, Linked, Links, List};
use conche_cc::Instant;

/// The maximum number of sources. Beyond it, the one validated longest ago is removed.
const CAPACITY: usize = 65_536;

/// Validated sources, by a keyed hash of their address. Forged addresses are never entered, so they
/// displace none.
#[derive(Debug)]
pub(crate) struct Validated {
    sources: Arena<Source>,
    index: Index,
    order: List<ByTime>,
}

#[derive(Debug)]
struct ByTime;

#[derive(Debug)]
struct Source {
    hash: u64,
    until: Instant,
    links: Links,
}

impl Linked<ByTime> for Source {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Validated {
    pub(crate) const fn new() -> Self {
        Self { sources: Arena::new(), index: Index::new(), order: List::new() }
    }

    #[inline]
    pub(in crate::server) fn contains(&mut self, now: Instant, hash: u64) -> bool {
        self.sources.len() > 0 && self.find(hash).is_some_and(|index| now < self.sources[index].until)
    }

    /// Marks a source as validated until then.
    pub(crate) fn insert(&mut self, now: Instant, hash: u64, until: Instant) {
        match self.find(hash) {
            Some(index) => {
                self.order.remove(&mut self.sources, index);
                self.order.push_back(&mut self.sources, index);
                let source = &mut self.sources[index];
                source.until = source.until.max(until);
            }
            None => {
                while let Some(oldest) = self.order.first()
                    && (self.sources.len() >= CAPACITY || self.sources[oldest].until <= now)
                {
                    self.order.remove(&mut self.sources, oldest);
                    self.index.remove(oldest);
                    self.sources.remove(oldest);
                }
                if let Some(index) = self.sources.insert(Source { hash, until, links: Links::default() }) {
                    self.index.insert(hash, index);
                    self.order.push_back(&mut self.sources, index);
                }
            }
        }
    }

    #[inline]
    fn find(&mut self, hash: u64) -> Option<u32> {
        self.index.find(&self.sources, hash, |source: &Source| source.hash == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1_000)
    }

    fn hash(n: usize) -> u64 {
        (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn the_source_validated_longest_ago_makes_room_and_expired_ones_do_first() {
        let mut validated = Validated::new();
        for n in 0..=CAPACITY {
            validated.insert(at(1), hash(n), at(100));
        }
        assert!(!validated.contains(at(2), hash(0)));
        assert!(validated.contains(at(2), hash(1)) && validated.contains(at(2), hash(CAPACITY)));
        assert!(!validated.contains(at(100), hash(1)), "it is too long ago");
        validated.insert(at(100), hash(0), at(200));
        assert_eq!(validated.sources.len(), 1);
    }

    #[test]
    fn a_source_that_is_validated_again_stays_and_its_time_is_never_shortened() {
        let mut validated = Validated::new();
        validated.insert(at(1), hash(0), at(100));
        validated.insert(at(1), hash(0), at(50));
        assert!(validated.contains(at(99), hash(0)));
        assert_eq!(validated.sources.len(), 1);
    }
}
