//! The hash functions of tables, with keys that nobody outside knows. The same seed gives the same keys, and so the same run.
//!
//! What a peer chooses (addresses, ports, message IDs of its own) is hashed with SipHash-1-3, which is made to withstand
//! chosen keys. What this endpoint itself chooses (its message IDs and tokens, the numbers of its peers) is only spread.

use core::hash::{Hash, Hasher};

use rand_core::RngCore;
use siphasher::sip::SipHasher13;

/// A keyed hash function.
#[derive(Clone, Copy)]
pub(crate) struct Keyed {
    keys: [u64; 2],
}

/// Hides the keys: a peer that knows them could choose colliding addresses.
impl core::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Keyed")
    }
}

impl Keyed {
    /// For what is empty, and never will hold anything.
    pub(crate) const NONE: Self = Self { keys: [0; 2] };

    pub(crate) fn new(random: &mut impl RngCore) -> Self {
        Self { keys: [random.next_u64(), random.next_u64()] }
    }

    /// Of what a peer may have chosen.
    pub(crate) fn hash(&self, value: &impl Hash) -> u64 {
        let [first, second] = self.keys;
        let mut hasher = SipHasher13::new_with_keys(first, second);
        value.hash(&mut hasher);
        hasher.finish()
    }

    /// Stands for a message that a peer sent: whose address hashes to `from`, to which of our addresses (by a hash of it, 0
    /// if there is only one), and its ID. Among 2^20 peers there are two whose messages could be confused with a
    /// probability of 2^-25.
    ///
    /// The sender chooses the ID, but not what it is added to, which nobody outside knows. For one sender this is a
    /// permutation, and IDs in a row do not cluster, as multiples of a number would for some senders.
    pub(crate) const fn fingerprint(from: u64, local: u64, id: u16) -> Fingerprint {
        let what = (id as u64 + 1) | (local << 17);
        let [_, _, _, _, e, f, g, h] = from.to_be_bytes();
        let [i, j, k, l, m, n, o, p] = mixed(from.wrapping_add(what)).to_be_bytes();
        Fingerprint {
            from: u32::from_be_bytes([e, f, g, h]),
            message: [u32::from_be_bytes([i, j, k, l]), u32::from_be_bytes([m, n, o, p])],
        }
    }

    /// Stands for a number and bytes that a peer chose. Made for few bytes; collisions of one peer's requests are what it
    /// would do to itself.
    pub(crate) fn digest(&self, number: u8, bytes: &[u8]) -> u64 {
        let [key, other] = self.keys;
        let start = key ^ ((bytes.len() as u64) << 8 | u64::from(number));
        let fold = |state: u64, word: [u8; 8]| folded(state ^ u64::from_le_bytes(word), other | 1).wrapping_add(key);
        let (words, rest) = bytes.as_chunks();
        let state = words.iter().fold(start, |state, word| fold(state, *word));
        // The last word is full: it has bytes of the one before it. Only fewer than eight are filled up.
        let last = bytes.last_chunk().copied().unwrap_or_else(|| {
            let mut last = [0; 8];
            last.iter_mut().zip(rest).for_each(|(byte, given)| *byte = *given);
            last
        });
        fold(state, last)
    }

    /// Of two numbers that nobody else chose.
    pub(crate) const fn spread(&self, first: u64, second: u64) -> u64 {
        let [key, other] = self.keys;
        folded(first ^ key, second ^ other)
    }
}

/// The finaliser of MurmurHash3: a permutation in which every bit depends on all bits.
const fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// Both halves of a product in one.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "each half is taken by itself")]
const fn folded(number: u64, other: u64) -> u64 {
    let product = number as u128 * other as u128;
    (product >> 64) as u64 ^ product as u64
}

/// See [`Keyed::fingerprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Half of the sender's hash. Where the rest is equal, that of two senders differs by less than this can tell, or not at all.
    from: u32,
    /// In halves, so that it is kept with no gap beside it.
    pub(crate) message: [u32; 2],
}

impl Fingerprint {
    /// What to find it by.
    pub(crate) const fn short(self) -> u64 {
        let [high, low] = self.message;
        (high as u64) << 32 | low as u64
    }
}
