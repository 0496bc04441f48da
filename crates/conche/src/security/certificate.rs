//! [`Certificate`]: the certificate of an authenticated peer.

use std::fmt;
use std::sync::Arc;

use conche_dtls::CertificateNames;

/// The end-entity certificate of a peer (RFC 5280), which a session has verified.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Certificate(Arc<[u8]>);

impl Certificate {
    /// A certificate in DER, as [`expect_peer`](crate::client::RequestBuilder::expect_peer)
    /// compares it: byte by byte.
    #[must_use]
    pub fn from_der(der: impl Into<Arc<[u8]>>) -> Self {
        Self(der.into())
    }

    /// The certificate in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.0
    }

    /// The subject, as RFC 4514 writes it, such as `CN=lamp-7`. `None` if it is empty.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        CertificateNames::of(&self.0)?.subject
    }

    /// The common name (CN) of the subject, where LwM2M has the endpoint's name
    /// (OMA-TS-LightweightM2M_Transport §5.2.8.7).
    #[must_use]
    pub fn common_name(&self) -> Option<String> {
        CertificateNames::of(&self.0)?.common_name
    }

    /// The DNS names and URIs of the subject alternative name (RFC 5280 §4.2.1.6), in their order.
    #[must_use]
    pub fn alternative_names(&self) -> Vec<String> {
        CertificateNames::of(&self.0).map(|names| names.alternative).unwrap_or_default()
    }
}

/// The subject; without one the first alternative name, or the number of bytes.
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
