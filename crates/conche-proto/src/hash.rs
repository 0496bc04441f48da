//! The hash function of tables that a peer can fill: keyed with a seed that the caller gave, so that no peer can choose
//! addresses that collide, and the same seed gives the same run.

use core::hash::BuildHasher;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// Hashes with a seed of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomState {
    seed: u64,
}

impl RandomState {
    pub(crate) const fn from_seed(seed: u64) -> Self {
        Self { seed }
    }
}

impl BuildHasher for RandomState {
    type Hasher = FoldHasher<'static>;

    fn build_hasher(&self) -> Self::Hasher {
        FoldHasher::with_seed(self.seed, SharedSeed::global_fixed())
    }
}
