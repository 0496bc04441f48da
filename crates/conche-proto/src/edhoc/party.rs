//! [`Own`] and [`Peers`]: who this end is, and whom it knows.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Credential, CredentialError, PrivateKey};

/// Who this end is: a credential with its private key.
#[derive(Clone, Debug)]
pub struct Own {
    pub(super) key: PrivateKey,
    credential: Credential,
}

impl Own {
    /// A credential with its private key.
    ///
    /// # Errors
    /// [`CredentialError::OtherKey`] if they do not belong together.
    pub fn new(key: PrivateKey, credential: Credential) -> Result<Self, CredentialError> {
        if credential.is_of(&key) { Ok(Self { key, credential }) } else { Err(CredentialError::OtherKey) }
    }

    /// The private key.
    #[must_use]
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// What the other end has to know.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.credential
    }
}

/// Whom an end knows, by the IDs of their keys.
#[derive(Clone, Debug, Default)]
pub struct Peers(BTreeMap<Vec<u8>, Arc<Credential>>);

impl Peers {
    /// All of these.
    ///
    /// # Errors
    /// [`CredentialError::SameKid`] if two of them have the same ID.
    pub fn of(credentials: impl IntoIterator<Item = Credential>) -> Result<Self, CredentialError> {
        let mut peers = Self::default();
        credentials.into_iter().try_for_each(|credential| peers.add(credential))?;
        Ok(peers)
    }

    /// One more.
    ///
    /// # Errors
    /// [`CredentialError::SameKid`] if another one has the same ID: they could not be told apart.
    pub fn add(&mut self, credential: Credential) -> Result<(), CredentialError> {
        let kid = credential.kid().to_vec();
        if self.0.get(&kid).is_some_and(|known| **known != credential) {
            return Err(CredentialError::SameKid);
        }
        self.0.insert(kid, Arc::new(credential));
        Ok(())
    }

    /// One of them.
    pub(super) fn any(&self) -> Option<&Arc<Credential>> {
        self.0.values().next()
    }

    /// The one with this ID.
    #[must_use]
    pub fn get(&self, kid: &[u8]) -> Option<&Arc<Credential>> {
        self.0.get(kid)
    }
}
