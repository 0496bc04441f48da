//! Credentials: pre-shared keys (RFC 4279), certificates (RFC 5280), and the key log.
//!
//! `Debug` hides secrets, and dropped keys are overwritten, except for copies inside an engine.

use core::fmt::{self, Write};
use std::sync::Arc;

use conche_proto::codec::Hexadecimal;
use zeroize::Zeroizing;

use crate::secret::{CredentialsError, Secret};
use crate::x509::{OwnCertificate, Trust};

/// In bytes. RFC 4279 §5.3 requires support for 128.
pub(crate) const LONGEST_IDENTITY: usize = 1024;
/// In bytes. RFC 4279 §5.3 requires support for 64.
const LONGEST_KEY: usize = 512;

/// Looks up keys of unauthenticated clients; any function from identity to key implements it.
pub trait Keys: Send + Sync {
    /// Returns the identity's key, or `None`, which a client cannot distinguish from a wrong key.
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
    /// A certificate, with ECDHE_ECDSA suites (RFC 7252 §9.1.3.3) except CCM_8, which the engine
    /// lacks for certificates.
    pub certificate: Option<ServerCertificate>,
}

/// The pre-shared keys of clients.
#[derive(Clone)]
pub struct ServerKeys {
    hint: Option<Vec<u8>>,
    /// `None`: the caller looks up each key.
    keys: Option<Arc<dyn Keys>>,
}

impl ServerKeys {
    /// Creates keys by identity, without a hint.
    #[must_use]
    pub fn new(keys: impl Keys + 'static) -> Self {
        Self { hint: None, keys: Some(Arc::new(keys)) }
    }

    /// Creates keys that the caller looks up, such as in a database, while the handshake waits.
    ///
    /// ```
    /// use conche_dtls::{BUFFER, ClientCredentials, Config, Output, Secret, ServerCredentials, ServerKeys, Sessions};
    /// use conche_proto::Instant;
    ///
    /// let now = Instant::from_millis(0);
    /// let server = ServerCredentials { psk: Some(ServerKeys::deferred()), ..Default::default() };
    /// let mut server = Sessions::new(now, Config { server: Some(server), ..Default::default() }, [1; 32])?;
    /// let mut client = Sessions::new(now, Config::default(), [2; 32])?;
    /// client.connect(now, "server", &ClientCredentials::psk(*b"lamp", Secret::new(*b"sesame"))?, None)?;
    ///
    /// let mut buffer = vec![0; BUFFER];
    /// let mut is_open = false;
    /// while !is_open {
    ///     while let Output::Transmit { len, .. } = client.poll(now, &mut buffer) {
    ///         server.handle(now, "client", &buffer[..len]);
    ///     }
    ///     loop {
    ///         match server.poll(now, &mut buffer) {
    ///             Output::Transmit { len, .. } => client.handle(now, "server", &buffer[..len]),
    ///             // At once or later.
    ///             Output::KeyWanted { session, identity, .. } => {
    ///                 let key = (identity == b"lamp").then(|| Secret::new(*b"sesame"));
    ///                 server.provide_key(session, key);
    ///             }
    ///             Output::Established { .. } => is_open = true,
    ///             Output::Wait(_) => break,
    ///             other => panic!("{other:?}"),
    ///         }
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn deferred() -> Self {
        Self { hint: None, keys: None }
    }

    /// Sets the application-defined identity hint (RFC 4279 §5.2).
    ///
    /// # Errors
    ///
    /// The hint is empty or has more than 1024 bytes.
    pub fn with_hint(mut self, hint: impl Into<Vec<u8>>) -> Result<Self, CredentialsError> {
        self.hint = Some(checked(hint.into(), LONGEST_IDENTITY).ok_or(CredentialsError::Hint)?);
        Ok(self)
    }

    /// Looks up the key of an identity; `None` for [deferred](Self::deferred) keys.
    #[must_use]
    pub fn key(&self, identity: &[u8]) -> Option<Secret> {
        self.keys.as_ref()?.key(identity).filter(is_key)
    }

    pub(crate) fn hint(&self) -> Option<&[u8]> {
        self.hint.as_deref()
    }

    pub(crate) fn keys(&self) -> Option<Arc<dyn Keys>> {
        self.keys.clone()
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
        /// The client's certificate; a server that requests one ends a handshake without it.
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

    /// Creates credentials that require a certificate for a DNS name or IP address.
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
    /// None: the client was not asked for a certificate, or the server only knows the pre-shared
    /// key.
    Anonymous,
}

/// A resolver's invalid key counts as unknown.
pub(crate) fn is_key(key: &Secret) -> bool {
    (1..=LONGEST_KEY).contains(&key.expose().len())
}

fn checked(bytes: Vec<u8>, longest: usize) -> Option<Vec<u8>> {
    (1..=longest).contains(&bytes.len()).then_some(bytes)
}

/// A callback that receives sessions' secrets in Wireshark's format (`SSLKEYLOGFILE`).
///
/// A line has `CLIENT_RANDOM`, the ClientHello's random, and the master secret, which decrypts the
/// whole session.
#[derive(Clone)]
pub struct KeyLog(Arc<dyn Fn(&str) + Send + Sync>);

impl KeyLog {
    /// Creates a log that calls this function with each line, unterminated.
    #[must_use]
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn write(&self, random: &[u8], secret: &[u8]) {
        // No reallocation may leave a copy.
        let mut line = Zeroizing::new(String::with_capacity(256));
        let _infallible = write!(line, "CLIENT_RANDOM {} {}", Hexadecimal(random), Hexadecimal(secret));
        (self.0)(&line);
    }
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyLog")
    }
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
    fn empty_and_oversized_psk_identities_and_keys_are_refused() {
        let key = || Secret::new(*b"k");
        assert_eq!(ClientCredentials::psk(*b"", key()).unwrap_err(), CredentialsError::Identity);
        assert_eq!(ClientCredentials::psk([0; 1025], key()).unwrap_err(), CredentialsError::Identity);
        assert_eq!(ClientCredentials::psk(*b"me", Secret::new(*b"")).unwrap_err(), CredentialsError::Key);
        assert_eq!(ClientCredentials::psk(*b"me", Secret::new([0; 513])).unwrap_err(), CredentialsError::Key);
        assert!(ClientCredentials::psk([0; 128], Secret::new([0; 64])).is_ok(), "RFC 4279 §5.3");
    }
}
