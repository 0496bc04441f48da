//! [`IdMap`]: maps by numbers that this program assigns. Peers cannot make them collide, so they
//! need no keyed hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by such numbers, or by keys composed of them.
pub(super) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Odd, and without a pattern: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads every input bit to the highest and lowest bits of the hash, which the map uses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "each half is taken by itself")]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number).wrapping_mul(u128::from(FACTOR));
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        // Keeps the next write from cancelling this one.
        self.write_u64(u64::from(number) | 1 << 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::*;

    #[test]
    fn numbers_in_a_row_do_not_share_what_a_map_looks_at() {
        let hash = |number: (u32, u32)| BuildHasherDefault::<Spread>::default().hash_one(number);
        let rows: [Vec<_>; 2] = [(0..4096).map(|n| hash((n, 1))).collect(), (0..4096).map(|n| hash((1, n))).collect()];
        for hashes in rows {
            let low: HashSet<_> = hashes.iter().map(|hash| hash % 4096).collect();
            let high: HashSet<_> = hashes.iter().map(|hash| hash >> 57).collect();
            // A random hash would give 2590 distinct low parts and all high parts.
            assert!(low.len() > 2300 && high.len() == 128, "{} and {}", low.len(), high.len());
        }
    }
}
