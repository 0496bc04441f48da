//! [`Own`] and [`Peers`]: the identity of this end, and the peers that it accepts.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Credential, CredentialError, PrivateKey};

/// The identity of this end: a credential with its private key.
#[derive(Clone, Debug)]
pub struct Own {
    pub(super) key: PrivateKey,
    credential: Credential,
}

impl Own {
    /// Combines a credential with its private key.
    ///
    /// # Errors
    /// [`CredentialError::OtherKey`] if they do not belong together.
    pub fn new(key: PrivateKey, credential: Credential) -> Result<Self, CredentialError> {
        if credential.is_of(&key) { Ok(Self { key, credential }) } else { Err(CredentialError::OtherKey) }
    }

    /// Returns the private key.
    #[must_use]
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Returns the credential, which the other end must know.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.credential
    }
}

/// The credentials of the accepted peers, by key ID.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    by_kid: BTreeMap<Vec<u8>, Arc<Credential>>,
    /// Length of the longest credential in bytes.
    longest: usize,
}

/// Maximum length of a context (RFC 9528 §4.4.1) that `lakers` encodes correctly, in bytes.
const LONGEST_CONTEXT: usize = 255;

impl Peers {
    /// Creates a set of these credentials.
    ///
    /// # Errors
    /// [`CredentialError::SameKid`] if two of them have the same ID.
    pub fn of(credentials: impl IntoIterator<Item = Credential>) -> Result<Self, CredentialError> {
        let mut peers = Self::default();
        credentials.into_iter().try_for_each(|credential| peers.add(credential))?;
        Ok(peers)
    }

    /// Adds a credential.
    ///
    /// # Errors
    /// [`CredentialError::SameKid`] if another credential has the same ID.
    pub fn add(&mut self, credential: Credential) -> Result<(), CredentialError> {
        let kid = credential.kid().to_vec();
        if self.by_kid.get(&kid).is_some_and(|known| **known != credential) {
            return Err(CredentialError::SameKid);
        }
        self.longest = self.longest.max(credential.as_slice().len());
        self.by_kid.insert(kid, Arc::new(credential));
        Ok(())
    }

    /// Returns the credentials in the order of their key IDs.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Credential>> {
        self.by_kid.values()
    }

    /// Returns an arbitrary credential of the set.
    pub(super) fn any(&self) -> Option<&Arc<Credential>> {
        self.by_kid.values().next()
    }

    /// Returns the credential with this key ID.
    #[must_use]
    pub fn get(&self, kid: &[u8]) -> Option<&Arc<Credential>> {
        self.by_kid.get(kid)
    }

    /// Returns `true` if the context of MAC_2 or MAC_3 (RFC 9528 §5.3.2, §5.4.2) fits into the
    /// buffer of `lakers`, which otherwise panics. `kid` is the length in bytes of the key ID in
    /// the message, known or not, and `ead` that of the encoded external authorization data.
    ///
    /// Assumes the longest credential of the set for each peer: the limit must not reveal which key
    /// IDs exist.
    pub(super) fn leave_room_for(&self, kid: usize, ead: usize) -> bool {
        let (c_r, id_cred, transcript_hash) = (8, 3 + kid, 34);
        c_r + id_cred + transcript_hash + self.longest + ead <= LONGEST_CONTEXT
    }
}
