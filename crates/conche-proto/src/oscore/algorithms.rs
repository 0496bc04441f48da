//! Algorithms, by their numbers in the COSE registry (RFC 9053).

/// The encryption algorithm (RFC 9053 §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Aead {
    /// AES-CCM-16-64-128 (10), mandatory to implement (RFC 8613 §3.2): 128-bit key, 64-bit tag.
    #[default]
    AesCcm16_64_128,
    /// AES-CCM-16-64-256 (11): 256-bit key, 64-bit tag.
    AesCcm16_64_256,
    /// AES-CCM-16-128-128 (30): 128-bit key, 128-bit tag.
    AesCcm16_128_128,
    /// AES-CCM-16-128-256 (31): 256-bit key, 128-bit tag.
    AesCcm16_128_256,
}

impl Aead {
    /// All supported algorithms.
    pub const ALL: [Self; 4] =
        [Self::AesCcm16_64_128, Self::AesCcm16_64_256, Self::AesCcm16_128_128, Self::AesCcm16_128_256];

    /// Returns the number in the registry "COSE Algorithms".
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::AesCcm16_64_128 => 10,
            Self::AesCcm16_64_256 => 11,
            Self::AesCcm16_128_128 => 30,
            Self::AesCcm16_128_256 => 31,
        }
    }

    /// Returns the algorithm with this number; `None` if it is not supported.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.number() == number)
    }

    /// Returns the length of a key in bytes.
    #[must_use]
    pub const fn key_length(self) -> usize {
        match self {
            Self::AesCcm16_64_128 | Self::AesCcm16_128_128 => 16,
            Self::AesCcm16_64_256 | Self::AesCcm16_128_256 => 32,
        }
    }

    /// Returns the length of a tag in bytes: the difference between ciphertext and plaintext.
    #[must_use]
    pub const fn tag_length(self) -> usize {
        match self {
            Self::AesCcm16_64_128 | Self::AesCcm16_64_256 => 8,
            Self::AesCcm16_128_128 | Self::AesCcm16_128_256 => 16,
        }
    }

    /// Returns the length of a nonce in bytes.
    #[must_use]
    pub const fn nonce_length(self) -> usize {
        13
    }

    /// Returns the maximum length of a Sender ID or Recipient ID in bytes: the nonce length minus
    /// six (RFC 8613 §3.3).
    #[must_use]
    pub const fn longest_id(self) -> usize {
        self.nonce_length() - 6
    }
}

/// The key derivation function (RFC 9053 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hkdf {
    /// HKDF SHA-256 (-10), mandatory to implement (RFC 8613 §3.2).
    #[default]
    Sha256,
    /// HKDF SHA-512 (-11).
    Sha512,
}

impl Hkdf {
    /// Returns the number in the registry "COSE Algorithms".
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Sha256 => -10,
            Self::Sha512 => -11,
        }
    }

    /// Returns the algorithm with this number; `None` if it is not supported.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        [Self::Sha256, Self::Sha512].into_iter().find(|algorithm| algorithm.number() == number)
    }
}
