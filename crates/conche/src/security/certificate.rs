//! [`Certificate`]: the certificate of an authenticated peer.

use std::fmt;
use std::sync::Arc;

use conche_dtls::CertificateNames;

/// The end-entity certificate of a peer (RFC 5280), verified by a session.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Certificate(Arc<[u8]>);

impl Certificate {
    /// Wraps a certificate in DER. [`expect_peer`](crate::client::RequestBuilder::expect_peer)
    /// compares it byte by byte.
    #[must_use]
    pub fn from_der(der: impl Into<Arc<[u8]>>) -> Self {
        Self(der.into())
    }

    /// Returns the certificate in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.0
    }

    /// Returns the subject in the format of RFC 4514, such as `CN=lamp-7`, or `None` if it is
    /// empty.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        CertificateNames::of(&self.0)?.subject
    }

    /// Returns the common name (CN) of the subject, which is the endpoint name in LwM2M
    /// (OMA-TS-LightweightM2M_Transport §5.2.8.7).
    #[must_use]
    pub fn common_name(&self) -> Option<String> {
        CertificateNames::of(&self.0)?.common_name
    }

    /// Returns the DNS names and URIs of the subject alternative name (RFC 5280 §4.2.1.6), in
    /// order.
    #[must_use]
    pub fn alternative_names(&self) -> Vec<String> {
        CertificateNames::of(&self.0).map(|names| names.alternative).unwrap_or_default()
    }
}

/// Formats the subject, or else the first alternative name, or else the number of bytes.
impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = CertificateNames::of(&self.0);
        let name = names.and_then(|names| names.subject.or_else(|| names.alternative.into_iter().next()));
        match name {
            Some(name) => write!(f, "{}", name.escape_debug()),
            None => write!(f, "a certificate of {} bytes", self.0.len()),
        }
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({self})")
    }
}
