//! [`Credentials`]: the parameters that two ends share in advance (RFC 8613 §3.2).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;
use zeroize::Zeroizing;

use super::{Aead, Hkdf};
use crate::codec::Hexadecimal;

/// The input of a [`Context`](super::Context). The other end has the same, with both IDs exchanged.
///
/// Master secret, master salt, ID context and sender ID determine the key with which this end
/// sends. No two credentials may have all of them in common (RFC 8613 §3.3): with one secret for
/// many peers, use another sender ID or ID context for each.
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
    /// Secret of at least [`SHORTEST_SECRET`](Self::SHORTEST_SECRET) random bytes (RFC 8613 §3.3,
    /// §12.3).
    pub master_secret: Secret,
    /// Known to both ends, not necessarily secret; may be empty.
    pub master_salt: Vec<u8>,
    /// Distinguishes contexts with the same IDs, and is sent with each request if present. At most
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
    /// Size of the replay window: how far behind the newest request of the other end a number is
    /// still accepted, once. 1 to [`LARGEST_WINDOW`](Self::LARGEST_WINDOW), the default. The other
    /// end need not know it.
    ///
    /// A lost request is retransmitted with the same number after the retransmission timeout, at
    /// least 2 s. It fails if later requests have moved the window past it in the meantime, so the
    /// window must cover everything that a peer sends in this time. The default of RFC 8613 §3.2.2
    /// is 32, which suffices for NSTART 1. A larger window takes memory only while numbers are
    /// missing: at most 16 bytes per 64 numbers.
    pub replay_window: u16,
}

impl Credentials {
    /// Minimum length of a master secret in bytes: the length of the shortest key (RFC 8613 §3.2.1,
    /// §12.3).
    pub const SHORTEST_SECRET: usize = 16;

    /// Maximum length of an ID context in bytes: the option encodes the length in one byte, and the
    /// whole value has at most 255 (RFC 8613 §6.1).
    pub const LONGEST_ID_CONTEXT: usize = 240;

    /// The largest [replay window](Self::replay_window).
    pub const LARGEST_WINDOW: u16 = 1024;

    /// Creates credentials without salt and ID context, with the mandatory algorithms.
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
    /// The first applicable [`CredentialsError`].
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

/// Secret bytes: wiped on drop, and omitted from debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Returns the bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// Takes ownership of the bytes, without a copy that would not be wiped.
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

/// Prints only the length.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// The ID of an end: its Sender ID, and the Recipient ID at the other end (RFC 8613 §3.1). Sent as
/// `kid` in requests.
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

/// AbandonReason no context can be derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The master secret is short enough to be guessed.
    #[error("the master secret has {length} bytes: it is to be {} random bytes or more", Credentials::SHORTEST_SECRET)]
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
