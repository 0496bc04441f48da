//! Who we are, and whom we believe: pre-shared keys (RFC 4279) and certificates (RFC 5280), for either role.
//!
//! Nothing here shows a secret when it is printed, and keys are overwritten when they are dropped. What an engine makes of
//! a key is up to it.

use core::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::x509::{OwnCertificate, Trust};

/// Bytes of an identity or a hint, at most. RFC 4279 §5.3 wants 128 of each to be possible.
const LONGEST_IDENTITY: usize = 1024;
/// Bytes of a key, at most. RFC 4279 §5.3 wants 64 to be possible.
const LONGEST_KEY: usize = 512;

/// A secret that is not printed, and is overwritten when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// These bytes, which nobody else should keep.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    /// The bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Secret {
    /// In a time that does not tell where they differ.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Finds the keys of clients. Any function from an identity to a key is such; it is called for whatever a stranger sends.
pub trait Keys: Send + Sync {
    /// The key of this identity; `None` if there is none. The client is not told which of the two was wrong.
    fn key(&self, identity: &[u8]) -> Option<Secret>;
}

impl<F: Fn(&[u8]) -> Option<Secret> + Send + Sync> Keys for F {
    fn key(&self, identity: &[u8]) -> Option<Secret> {
        self(identity)
    }
}

/// What a server lets clients in by. With both, the first cipher suite of the client's that fits decides.
#[derive(Clone, Debug, Default)]
pub struct ServerCredentials {
    /// Pre-shared keys, with TLS_PSK_WITH_AES_128_CCM_8 (RFC 7252 §9.1.3.1).
    pub psk: Option<ServerKeys>,
    /// A certificate, with ECDHE_ECDSA suites (RFC 7252 §9.1.3.3, but for CCM_8, which the engine lacks with certificates).
    pub certificate: Option<ServerCertificate>,
}

/// The pre-shared keys of a server's clients.
#[derive(Clone)]
pub struct ServerKeys {
    hint: Option<Vec<u8>>,
    keys: Arc<dyn Keys>,
}

impl ServerKeys {
    /// Keys by identity, without a hint.
    #[must_use]
    pub fn new(keys: impl Keys + 'static) -> Self {
        Self { hint: None, keys: Arc::new(keys) }
    }

    /// Tells clients which identity to use (RFC 4279 §5.2 leaves its meaning to the application).
    ///
    /// # Errors
    ///
    /// The hint has more than 1024 bytes.
    pub fn with_hint(mut self, hint: impl Into<Vec<u8>>) -> Result<Self, CredentialsError> {
        self.hint = Some(checked(hint.into(), LONGEST_IDENTITY).ok_or(CredentialsError::Hint)?);
        Ok(self)
    }

    /// Looks up the key of an identity.
    #[must_use]
    pub fn key(&self, identity: &[u8]) -> Option<Secret> {
        self.keys.key(identity).filter(is_key)
    }

    pub(crate) fn hint(&self) -> Option<&[u8]> {
        self.hint.as_deref()
    }

    pub(crate) fn keys(&self) -> Arc<dyn Keys> {
        Arc::clone(&self.keys)
    }
}

impl fmt::Debug for ServerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerKeys").field("hint", &self.hint).finish_non_exhaustive()
    }
}

/// A server's certificate.
#[derive(Clone, Debug)]
pub struct ServerCertificate {
    /// What the server shows.
    pub own: OwnCertificate,
    /// Whose certificates clients must show; with `None` they are not asked for any.
    pub clients: Option<Trust>,
}

/// What a client shows of itself, and whom it believes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientCredentials {
    /// A pre-shared key.
    #[non_exhaustive]
    Psk {
        /// What the server knows the key by.
        identity: Vec<u8>,
        /// The key.
        key: Secret,
    },
    /// The server's certificate.
    #[non_exhaustive]
    Certificate {
        /// What the client shows if the server asks for it. Without one, a server that asks will end the handshake.
        own: Option<OwnCertificate>,
        /// Whose certificates are believed.
        trust: Trust,
        /// Whose certificate it must be: a DNS name or an address (RFC 7252 §9.1.3.3).
        name: String,
    },
}

impl ClientCredentials {
    /// A pre-shared key that the server knows by this identity.
    ///
    /// # Errors
    ///
    /// The identity has no byte or more than 1024, or the key none or more than 512.
    pub fn psk(identity: impl Into<Vec<u8>>, key: Secret) -> Result<Self, CredentialsError> {
        let identity = checked(identity.into(), LONGEST_IDENTITY).ok_or(CredentialsError::Identity)?;
        if !is_key(&key) {
            return Err(CredentialsError::Key);
        }
        Ok(Self::Psk { identity, key })
    }

    /// The server must show a certificate for `name`, a DNS name or an address.
    ///
    /// # Errors
    ///
    /// This is neither.
    pub fn certificate(
        own: Option<OwnCertificate>,
        trust: Trust,
        name: impl Into<String>,
    ) -> Result<Self, CredentialsError> {
        let name = name.into();
        if rustls_pki_types::ServerName::try_from(name.as_str()).is_err() {
            return Err(CredentialsError::Name);
        }
        Ok(Self::Certificate { own, trust, name })
    }
}

/// Who a peer has proved to be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// It knows the pre-shared key of this identity.
    Psk(Vec<u8>),
    /// It knows the private key of this certificate (DER), which one of the roots vouches for.
    Certificate(Vec<u8>),
    /// Nobody by name: a client that was not asked, or a server that knows our pre-shared key, which is all that it has proved.
    Anonymous,
}

/// What is wrong with credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// No identity, or too long a one.
    #[error("an identity has 1 to 1024 bytes")]
    Identity,
    /// No hint, or too long a one.
    #[error("a hint has 1 to 1024 bytes")]
    Hint,
    /// No key, or too long a one.
    #[error("a pre-shared key has 1 to 512 bytes")]
    Key,
    /// Neither a DNS name nor an address.
    #[error("the server's name must be a DNS name or an IP address")]
    Name,
    /// A certificate that cannot be read, or is larger than a handshake may carry.
    #[error("there is no X.509 certificate of at most 8000 bytes, in DER or PEM")]
    Certificate,
    /// A private key that cannot be read.
    #[error("the private key is no ECDSA key on P-256 or P-384 in PKCS#8 or SEC1, DER or PEM")]
    PrivateKey,
    /// Each can be read, but one is not of the other.
    #[error("the private key is not that of the certificate: give the key that the certificate was made for")]
    Pair,
    /// A server that would let nobody in.
    #[error("a server needs pre-shared keys or a certificate")]
    None,
}

/// A key that can be used. One of a resolver that cannot counts as none.
pub(crate) fn is_key(key: &Secret) -> bool {
    (1..=LONGEST_KEY).contains(&key.expose().len())
}

fn checked(bytes: Vec<u8>, longest: usize) -> Option<Vec<u8>> {
    (1..=longest).contains(&bytes.len()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_printed_shows_a_secret() {
        let key = Secret::new(*b"correct horse");
        let client = ClientCredentials::psk(*b"me", key.clone()).unwrap();
        let server = ServerCredentials {
            psk: Some(ServerKeys::new(move |_: &[u8]| Some(key.clone())).with_hint(*b"hint").unwrap()),
            certificate: None,
        };
        for printed in [format!("{client:?}"), format!("{server:?}")] {
            assert!(!printed.contains("correct") && !printed.contains("99, 111"), "{printed}");
        }
    }

    #[test]
    fn what_no_handshake_could_carry_is_refused() {
        let key = || Secret::new(*b"k");
        assert_eq!(ClientCredentials::psk(*b"", key()).unwrap_err(), CredentialsError::Identity);
        assert_eq!(ClientCredentials::psk([0; 1025], key()).unwrap_err(), CredentialsError::Identity);
        assert_eq!(ClientCredentials::psk(*b"me", Secret::new(*b"")).unwrap_err(), CredentialsError::Key);
        assert_eq!(ClientCredentials::psk(*b"me", Secret::new([0; 513])).unwrap_err(), CredentialsError::Key);
        assert!(ClientCredentials::psk([0; 128], Secret::new([0; 64])).is_ok(), "RFC 4279 §5.3");
    }
}
