//! A cache of a reception curve's results.
//!
//! Most frames are alone on the channel, so signals, noises and lengths recur, and a result takes
//! one or two exponentials, a logarithm and perhaps the error function. Colliding frames recur with
//! different overlaps: the part that depends only on signal and noise has its own cache.

use std::cell::Cell;

use super::power::Power;
use super::reception::{FramePart, ReceptionCurve};

/// Results are identical to the curve's.
#[derive(Debug)]
pub(super) struct CachedCurve {
    curve: ReceptionCurve,
    /// By signal, noise and part of the frame.
    successes: ResultCache<4>,
    qualities: ResultCache<2>,
}

impl CachedCurve {
    /// Creates a cache for this many links, each with its own signal.
    pub(super) fn new(curve: ReceptionCurve, links: usize) -> Self {
        let entries = links.saturating_mul(ENTRIES_PER_LINK).clamp(MIN_ENTRIES, MAX_ENTRIES).next_power_of_two();
        Self { curve, successes: ResultCache::new(entries), qualities: ResultCache::new(entries) }
    }

    pub(super) fn of_itself(&self) -> ReceptionCurve {
        self.curve
    }

    /// Returns the probability of receiving this part in this noise.
    pub(super) fn success(&self, signal: Power, noise: Power, part: FramePart) -> f64 {
        let strengths = [signal.as_units(), noise.as_units()];
        let key = [strengths[0], strengths[1], part.bits.to_bits(), part.of.to_bits()];
        self.successes.get_or_compute(key, || {
            let quality = self.qualities.get_or_compute(strengths, || self.curve.quality(signal.ratio(noise)));
            self.curve.success_of(quality, part)
        })
    }
}

/// A direct-mapped cache with keys of `WORDS` words.
#[derive(Debug)]
struct ResultCache<const WORDS: usize>(Box<[Cell<Entry<WORDS>>]>);

type Entry<const WORDS: usize> = ([u64; WORDS], f64);

/// About the number of different frame lengths.
const ENTRIES_PER_LINK: usize = 4;
const MIN_ENTRIES: usize = 1 << 8;
/// 1 MiB for both caches: beyond the L2 cache, the curve is as fast.
const MAX_ENTRIES: usize = 1 << 14;

impl<const WORDS: usize> ResultCache<WORDS> {
    /// `entries` is a power of two.
    fn new(entries: usize) -> Self {
        // No signal is this strong: the initial entries match no key.
        Self(vec![Cell::new(([u64::MAX; WORDS], 0.0)); entries].into())
    }

    fn get_or_compute(&self, key: [u64; WORDS], compute: impl FnOnce() -> f64) -> f64 {
        let slot = &self.0[hash(key) & (self.0.len() - 1)];
        let (cached_key, result) = slot.get();
        if cached_key == key {
            return result;
        }
        let result = compute();
        slot.set((key, result));
        result
    }
}

fn hash<const WORDS: usize>(key: [u64; WORDS]) -> usize {
    let hash =
        key.into_iter().fold(0_u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (hash >> 32) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cached_results_equal_those_of_the_curve(queries in prop::collection::vec((0..9_u64, 0..3_u64, 0..5_u16, 1..3_u16), 1..300)) {
            let curve = ReceptionCurve::Transitional { middle_db: 4.6, width_db: 1.9 };
            let cached = CachedCurve::new(curve, 0);
            for (signal, noise, bits, more) in queries {
                let (signal, noise) = (Power::units(50 + 50 * signal), Power::units(50 + noise));
                let part = FramePart { bits: f64::from(bits), of: f64::from(bits + more) };
                let result = cached.success(signal, noise, part);
                prop_assert_eq!(result.to_bits(), curve.success(signal.ratio(noise), part).to_bits());
            }
        }
    }
}
