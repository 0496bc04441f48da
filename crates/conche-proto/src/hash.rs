//! The hash functions of tables that a peer can fill: SipHash-1-3 with keys that nobody outside knows, so that no peer can
//! choose addresses, ports or message IDs that collide. The same seed gives the same keys, and so the same run.

use core::hash::{Hash, Hasher};

use rand_core::RngCore;
use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher13Of128};

/// A keyed hash function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed {
    keys: [u64; 2],
}

impl Keyed {
    pub(crate) fn new(random: &mut impl RngCore) -> Self {
        Self { keys: [random.next_u64(), random.next_u64()] }
    }

    pub(crate) fn hash(&self, value: &impl Hash) -> u64 {
        let [first, second] = self.keys;
        let mut hasher = SipHasher13::new_with_keys(first, second);
        value.hash(&mut hasher);
        hasher.finish()
    }

    /// A hash that stands for the value itself: nobody who does not know the keys finds two values that share one, and
    /// among 2^32 values there is such a pair with a probability of 2^-65.
    pub(crate) fn fingerprint(&self, value: &impl Hash) -> Fingerprint {
        let [first, second] = self.keys;
        let mut hasher = SipHasher13Of128::new_with_keys(first, second);
        value.hash(&mut hasher);
        let hash = hasher.finish128();
        Fingerprint([hash.h1, hash.h2])
    }
}

/// See [`Keyed::fingerprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint([u64; 2]);

impl Fingerprint {
    /// 64 of its bits, to find it by.
    pub(crate) const fn short(self) -> u64 {
        self.0[0]
    }
}
