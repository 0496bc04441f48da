//! Hash functions for tables, with secret keys from the seed.
//!
//! Values chosen by a peer (addresses, ports, message IDs) are hashed with SipHash-1-3, which
//! resists collision attacks. Values chosen by this endpoint (its message IDs and tokens, peer
//! numbers) are only spread.

use core::hash::{Hash, Hasher};

use rand_core::RngCore;
use siphasher::sip::SipHasher13;

#[derive(Clone, Copy)]
pub(crate) struct Keyed {
    keys: [u64; 2],
}

/// Omits the keys: a peer that knows them could choose colliding addresses.
impl core::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Keyed")
    }
}

impl Keyed {
    pub(crate) const NONE: Self = Self { keys: [0; 2] };

    pub(crate) fn new(random: &mut impl RngCore) -> Self {
        Self { keys: [random.next_u64(), random.next_u64()] }
    }

    pub(crate) fn hash(&self, value: &impl Hash) -> u64 {
        let [first, second] = self.keys;
        let mut hasher = SipHasher13::new_with_keys(first, second);
        value.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the fingerprint of a message: the hash `from` of the peer's address, a hash `local`
    /// of further parts of its identity, such as the local address (0 for none), and the message
    /// ID. Among 2^20 peers, two have messages that could be confused with a probability of 2^-25.
    ///
    /// The sender cannot know the value that its ID is added to. For one sender the function is a
    /// permutation; consecutive IDs do not cluster, as multiples of a constant would for some
    /// senders.
    pub(crate) const fn fingerprint(from: u64, local: u64, id: u16) -> Fingerprint {
        let packed = (id as u64 + 1) | (local << 17);
        let [_, _, _, _, e, f, g, h] = from.to_be_bytes();
        let [i, j, k, l, m, n, o, p] = mixed(from.wrapping_add(packed)).to_be_bytes();
        Fingerprint {
            from: u32::from_be_bytes([e, f, g, h]),
            message: [u32::from_be_bytes([i, j, k, l]), u32::from_be_bytes([m, n, o, p])],
        }
    }

    /// Hashes a number and bytes that a peer chose. Fast for few bytes; not collision-resistant,
    /// but a peer's collisions affect only its own requests.
    pub(crate) fn digest(&self, number: u8, bytes: &[u8]) -> u64 {
        let [key, other] = self.keys;
        let start = key ^ ((bytes.len() as u64) << 8 | u64::from(number));
        let fold = |state: u64, word: [u8; 8]| folded(state ^ u64::from_le_bytes(word), other | 1).wrapping_add(key);
        let (words, rest) = bytes.as_chunks();
        let state = words.iter().fold(start, |state, word| fold(state, *word));
        // The last word overlaps the previous one; only inputs below eight bytes are padded.
        let last = bytes.last_chunk().copied().unwrap_or_else(|| {
            let mut last = [0; 8];
            last.iter_mut().zip(rest).for_each(|(byte, given)| *byte = *given);
            last
        });
        fold(state, last)
    }

    /// Spreads two numbers that no peer can choose.
    pub(crate) const fn spread(&self, first: u64, second: u64) -> u64 {
        let [key, other] = self.keys;
        folded(first ^ key, second ^ other)
    }
}

/// The finalizer of MurmurHash3: a permutation in which every output bit depends on all input bits.
const fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "each half is taken by itself")]
const fn folded(number: u64, other: u64) -> u64 {
    let product = number as u128 * other as u128;
    (product >> 64) as u64 ^ product as u64
}

/// See [`Keyed::fingerprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Lower half of the sender's hash, to separate senders for which `message` coincides.
    from: u32,
    /// As two halves to avoid padding.
    pub(crate) message: [u32; 2],
}

impl Fingerprint {
    pub(crate) const fn short(self) -> u64 {
        let [high, low] = self.message;
        (high as u64) << 32 | low as u64
    }
}
