//! Certificates: ours, and whom we believe. A path is verified by `webpki`, with signatures of ECDSA on P-256 and P-384.
//!
//! The engine hands out the certificate of the peer alone, without those that came with it, and sends ours alone. So
//! intermediates of a chain have to be known beforehand: they are part of [`Trust`]. There is no revocation.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use conche_proto::Instant;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, PrivateKeyDer, ServerName, SignatureVerificationAlgorithm,
    TrustAnchor, UnixTime, alg_id,
};
use webpki::{EndEntityCert, KeyUsage};

use crate::credentials::{CredentialsError, Secret};

/// Bytes of a certificate that a handshake may carry.
const LARGEST: usize = 8000;
/// What a private key signs to show whose it is, and nobody takes for anything else.
const SIGNED: &[u8] = b"conche: is this the key of that certificate?";

/// A certificate with its private key.
#[derive(Clone, Debug)]
pub struct OwnCertificate {
    certificate: Vec<u8>,
    key: Secret,
}

impl OwnCertificate {
    /// A certificate in DER, and its private key: ECDSA on P-256 or P-384, in PKCS#8 or SEC1.
    ///
    /// # Errors
    ///
    /// One of them cannot be read, or the certificate has more than 8000 bytes, or is of another key.
    pub fn new(certificate: impl Into<Vec<u8>>, key: Secret) -> Result<Self, CredentialsError> {
        let certificate = certificate.into();
        let der = CertificateDer::from(certificate.as_slice());
        let readable = EndEntityCert::try_from(&der).ok().filter(|_| certificate.len() <= LARGEST);
        let read = readable.ok_or(CredentialsError::Certificate)?;
        // The certificate says whether a signature is of its key.
        let signature = crate::engine::sign(&key, SIGNED).ok_or(CredentialsError::PrivateKey)?;
        if !ALGORITHMS.iter().any(|algorithm| read.verify_signature(*algorithm, SIGNED, &signature).is_ok()) {
            return Err(CredentialsError::Pair);
        }
        Ok(Self { certificate, key })
    }

    /// The same from PEM (RFC 7468): the first certificate and the first private key of each text.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CredentialsError> {
        let certificate = CertificateDer::from_pem_slice(certificate).map_err(|_| CredentialsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CredentialsError::PrivateKey)?;
        Self::new(certificate.to_vec(), Secret::new(key.secret_der()))
    }

    pub(crate) fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    pub(crate) fn key(&self) -> &Secret {
        &self.key
    }
}

/// Whose certificates are believed.
#[derive(Clone)]
pub struct Trust {
    anchors: Arc<[TrustAnchor<'static>]>,
    intermediates: Arc<[CertificateDer<'static>]>,
    /// The time since 1970 at [`Instant`] zero.
    epoch: Duration,
}

impl Trust {
    /// Certificates (DER) that are believed for themselves. `epoch` is what the time since 1970-01-01T00:00Z was when
    /// [`Instant`] was zero: validity is checked against it.
    ///
    /// # Errors
    ///
    /// One of them cannot be read.
    pub fn new<'a>(roots: impl IntoIterator<Item = &'a [u8]>, epoch: Duration) -> Result<Self, CredentialsError> {
        let anchor = |root: &'a [u8]| {
            let certificate = CertificateDer::from(root);
            webpki::anchor_from_trusted_cert(&certificate).map(|anchor| anchor.to_owned())
        };
        let anchors: Result<Vec<_>, _> = roots.into_iter().map(anchor).collect();
        let anchors = anchors.map_err(|_| CredentialsError::Certificate)?;
        Ok(Self { anchors: anchors.into(), intermediates: Arc::new([]), epoch })
    }

    /// Certificates (DER) that may stand between a root and a peer's.
    #[must_use]
    pub fn with_intermediates<'a>(mut self, certificates: impl IntoIterator<Item = &'a [u8]>) -> Self {
        self.intermediates = certificates.into_iter().map(|bytes| CertificateDer::from(bytes.to_vec())).collect();
        self
    }

    /// The certificate is one of a server with this name, now.
    pub(crate) fn check_server(&self, now: Instant, certificate: &[u8], name: &str) -> Result<(), CertificateError> {
        let der = CertificateDer::from(certificate);
        let certificate = self.check(now, &der, KeyUsage::server_auth())?;
        let name = ServerName::try_from(name).map_err(|_| CertificateError::Name)?;
        certificate.verify_is_valid_for_subject_name(&name).map_err(|_| CertificateError::Name)
    }

    /// The certificate is one of a client, now.
    pub(crate) fn check_client(&self, now: Instant, certificate: &[u8]) -> Result<(), CertificateError> {
        let der = CertificateDer::from(certificate);
        self.check(now, &der, KeyUsage::client_auth()).map(drop)
    }

    fn check<'a>(
        &self,
        now: Instant,
        der: &'a CertificateDer<'_>,
        usage: KeyUsage,
    ) -> Result<EndEntityCert<'a>, CertificateError> {
        let certificate = EndEntityCert::try_from(der).map_err(|_| CertificateError::Unreadable)?;
        let time = UnixTime::since_unix_epoch(self.epoch.saturating_add(Duration::from_nanos(now.as_nanos())));
        certificate
            .verify_for_usage(ALGORITHMS, &self.anchors, &self.intermediates, time, usage, None, None)
            .map_err(|error| CertificateError::of(&error))?;
        Ok(certificate)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("roots", &self.anchors.len()).finish_non_exhaustive()
    }
}

/// Why a peer's certificate was not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// It is no X.509 certificate.
    #[error("it is no X.509 certificate")]
    Unreadable,
    /// Nobody whom we believe has signed it.
    #[error("no root that is believed vouches for it")]
    Unknown,
    /// It is not valid any more, or not yet.
    #[error("it is not valid at this time")]
    Time,
    /// It is somebody else's.
    #[error("it is for another name")]
    Name,
    /// It may not be used for this, or has something that is not understood.
    #[error("it must not be used for this")]
    Unusable,
}

impl CertificateError {
    fn of(error: &webpki::Error) -> Self {
        use webpki::Error;
        match error {
            Error::CertExpired { .. } | Error::CertNotValidYet { .. } | Error::InvalidCertValidity => Self::Time,
            Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => Self::Unknown,
            _ => Self::Unusable,
        }
    }
}

static ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    &Ecdsa { curve: Curve::P256, hash: alg_id::ECDSA_SHA256 },
    &Ecdsa { curve: Curve::P384, hash: alg_id::ECDSA_SHA384 },
];

/// ECDSA on a curve, with the hash function of its size.
#[derive(Debug)]
struct Ecdsa {
    curve: Curve,
    hash: AlgorithmIdentifier,
}

#[derive(Clone, Copy, Debug)]
enum Curve {
    P256,
    P384,
}

impl SignatureVerificationAlgorithm for Ecdsa {
    fn verify_signature(&self, public_key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let verified = match self.curve {
            Curve::P256 => {
                use p256::ecdsa::{Signature, VerifyingKey, signature::Verifier};
                VerifyingKey::from_sec1_bytes(public_key)
                    .and_then(|key| key.verify(message, &Signature::from_der(signature)?))
            }
            Curve::P384 => {
                use p384::ecdsa::{Signature, VerifyingKey, signature::Verifier};
                VerifyingKey::from_sec1_bytes(public_key)
                    .and_then(|key| key.verify(message, &Signature::from_der(signature)?))
            }
        };
        verified.map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        match self.curve {
            Curve::P256 => alg_id::ECDSA_P256,
            Curve::P384 => alg_id::ECDSA_P384,
        }
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.hash
    }
}

#[cfg(test)]
mod tests;
