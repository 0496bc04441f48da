//! Credentials and trust: pre-shared keys (RFC 4279) and certificates (RFC 5280).
//!
//! `Debug` hides secrets, and dropped keys are overwritten, except for copies inside an engine.

use core::fmt;
use std::sync::Arc;

use crate::credentials_error::CredentialsError;
use crate::secret::Secret;
use crate::x509::{OwnCertificate, Trust};

/// In bytes. RFC 4279 §5.3 requires support for 128.
const LONGEST_IDENTITY: usize = 1024;
/// In bytes. RFC 4279 §5.3 requires support for 64.
const LONGEST_KEY: usize = 512;

/// Looks up keys of unauthenticated clients; any function from identity to key implements it.
pub trait Keys: Send + Sync {
    /// Returns the identity's key, or `None` if unknown, which the client cannot distinguish from a
    /// wrong key.
    fn key(&self, identity: &[u8]) -> Option<Secret>;
}

impl<F: Fn(&[u8]) -> Option<Secret> + Send + Sync> Keys for F {
    fn key(&self, identity: &[u8]) -> Option<Secret> {
        self(identity)
    }
}

/// A server's credentials. With both kinds, the client's first supported cipher suite decides.
#[derive(Clone, Debug, Default)]
pub struct ServerCredentials {
    /// Pre-shared keys, with TLS_PSK_WITH_AES_128_CCM_8 (RFC 7252 §9.1.3.1).
    pub psk: Option<ServerKeys>,
    /// A certificate, with ECDHE_ECDSA suites (RFC 7252 §9.1.3.3, except CCM_8, which the engine
    /// lacks for certificates).
    pub certificate: Option<ServerCertificate>,
}

/// The pre-shared keys of clients.
#[derive(Clone)]
pub struct ServerKeys {
    hint: Option<Vec<u8>>,
    keys: Arc<dyn Keys>,
}

impl ServerKeys {
    /// Creates keys by identity, without a hint.
    #[must_use]
    pub fn new(keys: impl Keys + 'static) -> Self {
        Self { hint: None, keys: Arc::new(keys) }
    }

    /// Sets the identity hint, whose meaning is up to the application (RFC 4279 §5.2).
    ///
    /// # Errors
    ///
    /// The hint is empty or has more than 1024 bytes.
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
    /// The server's own certificate.
    pub own: OwnCertificate,
    /// Trust anchors for client certificates; `None` requests none.
    pub clients: Option<Trust>,
}

/// A client's credentials, and its trust in the server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientCredentials {
    /// A pre-shared key.
    #[non_exhaustive]
    Psk {
        /// The key's identity at the server.
        identity: Vec<u8>,
        /// The key.
        key: Secret,
    },
    /// A certificate of the server.
    #[non_exhaustive]
    Certificate {
        /// The client's certificate. Without one, a server that requests it ends the handshake.
        own: Option<OwnCertificate>,
        /// Trust anchors for the server's certificate.
        trust: Trust,
        /// The name in the server's certificate: DNS name or IP address (RFC 7252 §9.1.3.3).
        name: String,
    },
}

impl ClientCredentials {
    /// Creates credentials of a pre-shared key.
    ///
    /// # Errors
    ///
    /// The identity is empty or has more than 1024 bytes, or the key is empty or has more than 512.
    pub fn psk(identity: impl Into<Vec<u8>>, key: Secret) -> Result<Self, CredentialsError> {
        let identity = checked(identity.into(), LONGEST_IDENTITY).ok_or(CredentialsError::Identity)?;
        if !is_key(&key) {
            return Err(CredentialsError::Key);
        }
        Ok(Self::Psk { identity, key })
    }

    /// Creates credentials that require a certificate for `name`, a DNS name or IP address.
    ///
    /// # Errors
    ///
    /// `name` is neither.
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

/// The authenticated identity of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// The peer knows this identity's pre-shared key.
    Psk(Vec<u8>),
    /// The peer knows the private key of this certificate (DER), authenticated by a root.
    Certificate(Vec<u8>),
    /// None: a client without certificate request, or a server that proved only knowledge of the
    /// pre-shared key.
    Anonymous,
}

/// A resolver's invalid key counts as unknown.
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
