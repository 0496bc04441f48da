//! [`Credentials`]: what two ends share before they can protect anything (RFC 8613 §3.2).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;
use zeroize::Zeroizing;

use super::{Aead, Hkdf};
use crate::codec::Hexadecimal;

/// What a [`Context`](super::Context) is derived of. The other end has the same with the two IDs exchanged.
///
/// Master secret, salt, ID context and sender ID make the key that this end sends with, so that no two credentials have all of them in
/// common (RFC 8613 §3.3): whoever has one secret for many peers gives itself another ID, or an ID context, toward each.
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
    /// Nobody else knows it. [`SHORTEST_SECRET`](Self::SHORTEST_SECRET) random bytes or more (RFC 8613 §3.3, §12.3).
    pub master_secret: Secret,
    /// Known to both ends, and not necessarily secret; may be empty.
    pub master_salt: Vec<u8>,
    /// Tells contexts with the same IDs apart, and is sent with each request if there is one. At most
    /// [`LONGEST_ID_CONTEXT`](Self::LONGEST_ID_CONTEXT) bytes.
    pub id_context: Option<Box<[u8]>>,
    /// Names this end.
    pub sender_id: EndId,
    /// Names the other end.
    pub recipient_id: EndId,
    /// How messages are encrypted.
    pub aead: Aead,
    /// How keys are derived.
    pub hkdf: Hkdf,
    /// Numbers behind the newest request of the other end that are still accepted, once each: 1 to
    /// [`LARGEST_WINDOW`](Self::LARGEST_WINDOW), which is the default. The other end need not know
    /// it.
    ///
    /// A request that is lost is sent again with the same number after the retransmission timeout,
    /// 2 s or more. It fails if the requests that overtook it meanwhile have moved the window past
    /// it, so the window has to cover all that one peer sends in that time. RFC 8613 §3.2.2 has 32
    /// by default, which is enough for NSTART 1. A larger window costs memory only while numbers
    /// are missing: up to 16 bytes for each 64 numbers.
    pub replay_window: u16,
}

impl Credentials {
    /// Bytes of a master secret at least, as many as the shortest key has (RFC 8613 §3.2.1, §12.3).
    pub const SHORTEST_SECRET: usize = 16;

    /// Bytes of an ID context at most: the option's value tells its length in one byte, and has 255 with everything
    /// (RFC 8613 §6.1).
    pub const LONGEST_ID_CONTEXT: usize = 240;

    /// The largest [replay window](Self::replay_window).
    pub const LARGEST_WINDOW: u16 = 1024;

    /// With no salt and no ID context, and the algorithms that every implementation has.
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

    /// Whether a context can be derived.
    ///
    /// # Errors
    ///
    /// The first of what [`CredentialsError`] lists.
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

/// Bytes that are wiped when they are dropped, and not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// Takes the bytes over, without a copy that would not be wiped.
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

/// How many bytes there are, and nothing else.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// What names an end: its Sender ID, and the Recipient ID of the other one (RFC 8613 §3.1). A request carries it as `kid`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndId {
    /// Zeros behind `length`.
    bytes: [u8; Self::LONGEST],
    length: u8,
}

impl EndId {
    /// Bytes of an ID at most, whatever the algorithm (RFC 8613 §3.3).
    pub const LONGEST: usize = 7;

    /// An ID; `None` if it is longer than any can be. It may be empty.
    #[must_use]
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::LONGEST];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { bytes, length: u8::try_from(id.len()).ok()? })
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// Hexadecimal digits.
impl fmt::Debug for EndId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndId({})", Hexadecimal(self.as_slice()))
    }
}

/// No context can be derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The master secret can be guessed.
    #[error("the master secret has {length} bytes: it is to be {} random bytes or more", Credentials::SHORTEST_SECRET)]
    ShortSecret {
        /// Its length, in bytes.
        length: usize,
    },
    /// Both ends would use the same keys and nonces (RFC 8613 §3.3).
    #[error("sender ID and recipient ID are the same: each end needs one of its own")]
    SameIds,
    /// An ID leaves no room for a sequence number in a nonce.
    #[error("a sender or recipient ID has {length} bytes: {longest} at most with this algorithm")]
    IdLength {
        /// Its length, in bytes.
        length: usize,
        /// Bytes that it may have.
        longest: usize,
    },
    /// The replay window is empty or too large.
    #[error("a replay window of {size} numbers: 1 to {} are possible", Credentials::LARGEST_WINDOW)]
    ReplayWindow {
        /// Its size.
        size: u16,
    },
    /// The ID context does not fit into the option.
    #[error("the ID context has {length} bytes: {} at most", Credentials::LONGEST_ID_CONTEXT)]
    IdContextLength {
        /// Its length, in bytes.
        length: usize,
    },
}
