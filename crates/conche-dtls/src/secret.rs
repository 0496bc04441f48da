//! [`Secret`], and the errors of credentials.

use core::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Why credentials are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The identity is empty or too long.
    #[error("an identity has 1 to 1024 bytes")]
    Identity,
    /// The hint is empty or too long.
    #[error("a hint has 1 to 1024 bytes")]
    Hint,
    /// The key is empty or too long.
    #[error("a pre-shared key has 1 to 512 bytes")]
    Key,
    /// The name is neither a DNS name nor an IP address.
    #[error("the server's name must be a DNS name or an IP address")]
    Name,
    /// The certificate is unreadable, or exceeds a handshake's limit.
    #[error("there is no X.509 certificate of at most 8000 bytes, in DER or PEM")]
    Certificate,
    /// The private key cannot be read.
    #[error("the private key is no ECDSA key on P-256 or P-384 in PKCS#8 or SEC1, DER or PEM")]
    PrivateKey,
    /// The private key does not belong to the certificate.
    #[error("the private key is not that of the certificate: give the key that the certificate was made for")]
    Pair,
    /// The server has no credentials.
    #[error("a server needs pre-shared keys or a certificate")]
    None,
}

/// A secret hidden from `Debug` and overwritten when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Creates a secret; the caller should keep no copy.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    /// Returns the bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Secret {
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
