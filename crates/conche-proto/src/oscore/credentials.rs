//! [`Credentials`] of a security context (RFC 8613 §3.2).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;
use zeroize::Zeroizing;

use crate::codec::Hexadecimal;

/// The input of a [`Context`](super::Context). The other end has the same with both IDs exchanged.
///
/// No two credentials may have all of master secret, master salt, ID context and sender ID in
/// common (RFC 8613 §3.3): to use one secret for many peers, vary the sender ID or ID context.
///
/// ```
/// use conche_proto::oscore::{Context, Credentials, EndId, Start};
///
/// let credentials = Credentials {
///     master_salt: vec![0x9e, 0x7c, 0xa9, 0x22, 0x23, 0x78, 0x63, 0x40],
///     ..Credentials::new(*b"16 random bytes.", EndId::new(b"C").unwrap(), EndId::new(b"S").unwrap())
/// };
/// assert!(!format!("{credentials:?}").contains("random"));
/// // These credentials are new: neither end has protected anything with them.
/// let context = Context::derive(&credentials, Start::First)?;
/// # Ok::<(), conche_proto::oscore::CredentialsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Credentials {
    /// At least [`SHORTEST_SECRET`](Self::SHORTEST_SECRET) random bytes (RFC 8613 §3.3, §12.3).
    pub master_secret: Secret,
    /// Not necessarily secret; may be empty.
    pub master_salt: Vec<u8>,
    /// Distinguishes contexts with equal IDs; sent with each request. At most
    /// [`LONGEST_ID_CONTEXT`](Self::LONGEST_ID_CONTEXT) bytes.
    pub id_context: Option<Box<[u8]>>,
    /// ID of this end.
    pub sender_id: EndId,
    /// ID of the other end.
    pub recipient_id: EndId,
    /// Encryption algorithm.
    pub aead: Aead,
    /// Key derivation function.
    pub hkdf: Hkdf,
    /// Size of the replay window: how far behind the newest request a number is still accepted,
    /// once. 1 to [`LARGEST_WINDOW`](Self::LARGEST_WINDOW), the default. The ends may differ.
    ///
    /// A lost request is retransmitted with the same number after at least 2 s; the window must
    /// cover all requests of a peer in this time. RFC 8613 §3.2.2 has 32, which suffices for NSTART
    /// 1. Memory is only used while numbers are missing: at most 16 bytes per 64 numbers.
    pub replay_window: u16,
}

impl Credentials {
    /// Minimum length of a master secret in bytes: the shortest key (RFC 8613 §3.2.1, §12.3).
    pub const SHORTEST_SECRET: usize = 16;

    /// Maximum length of an ID context in bytes: the option has at most 255 (RFC 8613 §6.1).
    pub const LONGEST_ID_CONTEXT: usize = 240;

    /// The largest [replay window](Self::replay_window).
    pub const LARGEST_WINDOW: u16 = 1024;

    /// Creates credentials without salt and ID context, with the default algorithms.
    pub fn new(master_secret: impl Into<Secret>, sender_id: EndId, recipient_id: EndId) -> Self {
        Self {
            master_secret: master_secret.into(),
            master_salt: Vec::new(),
            id_context: None,
            sender_id,
            recipient_id,
            aead: Aead::default(),
            hkdf: Hkdf::default(),
            replay_window: Self::LARGEST_WINDOW,
        }
    }

    /// Checks whether a context can be derived.
    ///
    /// # Errors
    ///
    /// The first [`CredentialsError`].
    pub fn check(&self) -> Result<(), CredentialsError> {
        match self.master_secret.as_slice().len() {
            Self::SHORTEST_SECRET.. => {}
            length => return Err(CredentialsError::ShortSecret { length }),
        }
        if self.sender_id == self.recipient_id {
            return Err(CredentialsError::SameIds);
        }
        if !(1..=Self::LARGEST_WINDOW).contains(&self.replay_window) {
            return Err(CredentialsError::ReplayWindow { size: self.replay_window });
        }
        let longest = self.aead.longest_id();
        for id in [self.sender_id, self.recipient_id] {
            if id.as_slice().len() > longest {
                return Err(CredentialsError::IdLength { length: id.as_slice().len(), longest });
            }
        }
        match self.id_context.as_ref().map_or(0, |id_context| id_context.len()) {
            0..=Self::LONGEST_ID_CONTEXT => Ok(()),
            length => Err(CredentialsError::IdContextLength { length }),
        }
    }
}

/// Secret bytes: wiped on drop, not in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Returns the bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes are not copied: a copy would not be wiped.
impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl<const N: usize> From<[u8; N]> for Secret {
    fn from(bytes: [u8; N]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// The ID of an end (RFC 8613 §3.1), the `kid` of its requests.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndId {
    /// Padded with zeros after `length`.
    bytes: [u8; Self::LONGEST],
    length: u8,
}

impl EndId {
    /// Maximum length of an ID for any algorithm, in bytes (RFC 8613 §3.3).
    pub const LONGEST: usize = 7;

    /// Creates an ID, which may be empty; `None` if it is too long.
    #[must_use]
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::LONGEST];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { bytes, length: u8::try_from(id.len()).ok()? })
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// Prints hexadecimal digits.
impl fmt::Debug for EndId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndId({})", Hexadecimal(self.as_slice()))
    }
}

/// Reason why no context can be derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The master secret is too short.
    #[error("the master secret has {length} bytes: it must have {} random bytes or more", Credentials::SHORTEST_SECRET)]
    ShortSecret {
        /// Length in bytes.
        length: usize,
    },
    /// Both ends would use the same keys and nonces (RFC 8613 §3.3).
    #[error("sender ID and recipient ID are the same: each end needs one of its own")]
    SameIds,
    /// An ID leaves no room for a sequence number in a nonce.
    #[error("a sender or recipient ID has {length} bytes: {longest} at most with this algorithm")]
    IdLength {
        /// Length in bytes.
        length: usize,
        /// Maximum length in bytes.
        longest: usize,
    },
    /// The replay window is empty or too large.
    #[error("a replay window of {size} numbers: 1 to {} are possible", Credentials::LARGEST_WINDOW)]
    ReplayWindow {
        /// The requested size.
        size: u16,
    },
    /// The ID context does not fit into the option.
    #[error("the ID context has {length} bytes: {} at most", Credentials::LONGEST_ID_CONTEXT)]
    IdContextLength {
        /// Length in bytes.
        length: usize,
    },
}

/// The encryption algorithm (RFC 9053 §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Aead {
    /// AES-CCM-16-64-128 (10), mandatory (RFC 8613 §3.2): 128-bit key, 64-bit tag.
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

    /// Returns the number in the COSE registry.
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

    /// Returns the length of a tag in bytes.
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

    /// Returns the maximum length of an ID in bytes: nonce length minus six (RFC 8613 §3.3).
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
    /// Returns the number in the COSE registry.
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
