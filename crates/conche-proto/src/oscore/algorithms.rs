//! The algorithms that messages are protected with, by their numbers in the registry of COSE (RFC 9053).

/// How messages are encrypted and authenticated (RFC 9053 §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Aead {
    /// AES-CCM-16-64-128 (10), which every implementation has (RFC 8613 §3.2): a key of 128 bits, a tag of 64.
    #[default]
    AesCcm16_64_128,
    /// AES-CCM-16-64-256 (11): a key of 256 bits, a tag of 64.
    AesCcm16_64_256,
    /// AES-CCM-16-128-128 (30): a key of 128 bits, a tag of 128.
    AesCcm16_128_128,
    /// AES-CCM-16-128-256 (31): a key of 256 bits, a tag of 128.
    AesCcm16_128_256,
}

impl Aead {
    /// All that there are.
    pub const ALL: [Self; 4] =
        [Self::AesCcm16_64_128, Self::AesCcm16_64_256, Self::AesCcm16_128_128, Self::AesCcm16_128_256];

    /// Its number in the registry "COSE Algorithms".
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::AesCcm16_64_128 => 10,
            Self::AesCcm16_64_256 => 11,
            Self::AesCcm16_128_128 => 30,
            Self::AesCcm16_128_256 => 31,
        }
    }

    /// The algorithm with this number; `None` if it is not one of these.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.number() == number)
    }

    /// Bytes of a key.
    #[must_use]
    pub const fn key_length(self) -> usize {
        match self {
            Self::AesCcm16_64_128 | Self::AesCcm16_128_128 => 16,
            Self::AesCcm16_64_256 | Self::AesCcm16_128_256 => 32,
        }
    }

    /// Bytes of a tag, which is by how much a ciphertext is longer than its plaintext.
    #[must_use]
    pub const fn tag_length(self) -> usize {
        match self {
            Self::AesCcm16_64_128 | Self::AesCcm16_64_256 => 8,
            Self::AesCcm16_128_128 | Self::AesCcm16_128_256 => 16,
        }
    }

    /// Bytes of a nonce.
    #[must_use]
    pub const fn nonce_length(self) -> usize {
        13
    }

    /// Bytes of a Sender ID or Recipient ID at most: six less than a nonce has (RFC 8613 §3.3).
    #[must_use]
    pub const fn longest_id(self) -> usize {
        self.nonce_length() - 6
    }
}

/// How keys are derived from the master secret (RFC 9053 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hkdf {
    /// HKDF SHA-256 (-10), which every implementation has (RFC 8613 §3.2).
    #[default]
    Sha256,
    /// HKDF SHA-512 (-11).
    Sha512,
}

impl Hkdf {
    /// Its number in the registry "COSE Algorithms".
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Sha256 => -10,
            Self::Sha512 => -11,
        }
    }

    /// The algorithm with this number; `None` if it is not one of these.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        [Self::Sha256, Self::Sha512].into_iter().find(|algorithm| algorithm.number() == number)
    }
}
