//! Certificates: the local one, and trust. `webpki` verifies paths, with ECDSA on P-256 and P-384.
//!
//! The engine reports and sends single certificates, so intermediates must be part of [`Trust`].
//! Revocation is not checked.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use conche_proto::Instant;
use dimpl::crypto::{Buf, rust_crypto};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, PrivateKeyDer, ServerName, SignatureVerificationAlgorithm,
    TrustAnchor, UnixTime, alg_id,
};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};
use x509_cert::Certificate;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, SubjectAltName};

use crate::secret::{CredentialsError, Secret};

/// Maximum bytes of a certificate in a handshake.
const LARGEST: usize = 8000;
/// Unlike any other signed text.
const SIGNED: &[u8] = b"conche: is this the key of that certificate?";

/// A certificate with its private key.
#[derive(Clone, Debug)]
pub struct OwnCertificate {
    certificate: Vec<u8>,
    key: Secret,
}

impl OwnCertificate {
    /// Creates it from a DER certificate and its ECDSA key on P-256 or P-384, in PKCS#8 or SEC1.
    ///
    /// # Errors
    ///
    /// One of them is unreadable, the certificate exceeds 8000 bytes, or they do not match.
    pub fn new(certificate: impl Into<Vec<u8>>, key: Secret) -> Result<Self, CredentialsError> {
        let certificate = certificate.into();
        let der = CertificateDer::from(certificate.as_slice());
        let readable = EndEntityCert::try_from(&der).ok().filter(|_| certificate.len() <= LARGEST);
        let read = readable.ok_or(CredentialsError::Certificate)?;
        // The certificate's key verifies the signature.
        let signature = sign(&key, SIGNED).ok_or(CredentialsError::PrivateKey)?;
        if !ALGORITHMS.iter().any(|algorithm| read.verify_signature(*algorithm, SIGNED, &signature).is_ok()) {
            return Err(CredentialsError::Pair);
        }
        Ok(Self { certificate, key })
    }

    /// Creates it from PEM (RFC 7468): each text's first certificate or private key.
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

fn sign(key: &Secret, message: &[u8]) -> Option<Vec<u8>> {
    let mut key = rust_crypto::default_provider().key_provider.load_private_key(key.expose()).ok()?;
    let (hash, mut signature) = (key.hash_algorithm(), Buf::new());
    key.sign(message, hash, &mut signature).ok()?;
    Some(signature.into_vec())
}

/// Certificates of authorities and of single peers.
#[derive(Clone)]
pub struct Trust {
    anchors: Arc<[TrustAnchor<'static>]>,
    /// Maximum intermediates below the anchor at this index.
    path_lengths: Arc<[Option<u8>]>,
    pinned: Arc<[Vec<u8>]>,
    intermediates: Arc<[CertificateDer<'static>]>,
    clock: WallClock,
}

#[derive(Clone)]
enum WallClock {
    /// The time since 1970 at [`Instant`] zero.
    Since(Duration),
    Read(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl Trust {
    /// Trusts these DER certificates.
    ///
    /// One with `cA` in its basic constraints and `keyCertSign` in any key usage is an authority:
    /// it authenticates peers through certificates it issued, within its `pathLenConstraint` (RFC
    /// 5280 §4.2.1.9). Any other is pinned: it authenticates only the peer that presents it.
    ///
    /// `epoch`, the time from 1970-01-01T00:00Z to [`Instant`] zero, is for validity.
    ///
    /// # Errors
    ///
    /// A certificate cannot be read.
    pub fn new<'a>(roots: impl IntoIterator<Item = &'a [u8]>, epoch: Duration) -> Result<Self, CredentialsError> {
        let (mut anchors, mut path_lengths, mut pinned) = (Vec::new(), Vec::new(), Vec::new());
        for root in roots {
            let constraints = Constraints::read(root).ok_or(CredentialsError::Certificate)?;
            let certificate = CertificateDer::from(root);
            if constraints.may_issue() {
                let anchor = webpki::anchor_from_trusted_cert(&certificate);
                anchors.push(anchor.map_err(|_| CredentialsError::Certificate)?.to_owned());
                path_lengths.push(constraints.path_length);
            } else {
                EndEntityCert::try_from(&certificate).map_err(|_| CredentialsError::Certificate)?;
                pinned.push(root.to_vec());
            }
        }
        Ok(Self {
            anchors: anchors.into(),
            path_lengths: path_lengths.into(),
            pinned: pinned.into(),
            intermediates: Arc::new([]),
            clock: WallClock::Since(epoch),
        })
    }

    /// Adds intermediate authorities (DER), ignoring certificates that may not issue others.
    #[must_use]
    pub fn with_intermediates<'a>(mut self, certificates: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let may_issue = |der: &&[u8]| Constraints::read(der).is_some_and(|constraints| constraints.may_issue());
        let issuers = certificates.into_iter().filter(may_issue);
        self.intermediates = issuers.map(|der| CertificateDer::from(der.to_vec())).collect();
        self
    }

    /// Checks each peer certificate's validity against `clock`, the time since 1970-01-01T00:00Z:
    /// system clock changes take effect at once.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.clock = WallClock::Read(Arc::new(clock));
        self
    }

    pub(crate) fn check_server(&self, now: Instant, certificate: &[u8], name: &str) -> Result<(), CertificateError> {
        let der = CertificateDer::from(certificate);
        let certificate = self.check(now, &der, SERVER_AUTH, KeyUsage::server_auth())?;
        let name = ServerName::try_from(name).map_err(|_| CertificateError::Name)?;
        certificate.verify_is_valid_for_subject_name(&name).map_err(|_| CertificateError::Name)
    }

    pub(crate) fn check_client(&self, now: Instant, certificate: &[u8]) -> Result<(), CertificateError> {
        let der = CertificateDer::from(certificate);
        self.check(now, &der, CLIENT_AUTH, KeyUsage::client_auth()).map(drop)
    }

    fn check<'a>(
        &self,
        now: Instant,
        der: &'a CertificateDer<'_>,
        purpose: ObjectIdentifier,
        usage: KeyUsage,
    ) -> Result<EndEntityCert<'a>, CertificateError> {
        let certificate = EndEntityCert::try_from(der).map_err(|_| CertificateError::Unreadable)?;
        let constraints = Constraints::read(der).ok_or(CertificateError::Unreadable)?;
        // Both sides sign in these suites (RFC 8422 §2.2).
        if !constraints.may_sign() {
            return Err(CertificateError::Unusable);
        }
        let time = match &self.clock {
            WallClock::Since(epoch) => epoch.saturating_add(Duration::from_nanos(now.as_nanos())),
            WallClock::Read(clock) => clock(),
        };
        if self.pinned.iter().any(|pinned| pinned[..] == **der) {
            constraints.check(time, purpose)?;
            return Ok(certificate);
        }
        let within_length = |path: &VerifiedPath<'_>| self.allows_length(path);
        let time = UnixTime::since_unix_epoch(time);
        certificate
            .verify_for_usage(ALGORITHMS, &self.anchors, &self.intermediates, time, usage, None, Some(&within_length))
            .map_err(|error| CertificateError::of(&error))?;
        Ok(certificate)
    }

    /// Checks the root's path length; `webpki` checks the intermediates'.
    fn allows_length(&self, path: &VerifiedPath<'_>) -> Result<(), webpki::Error> {
        let is_counted = |between: &&webpki::Cert<'_>| between.issuer() != between.subject();
        let between = path.intermediate_certificates().filter(is_counted).count();
        let (root, mut roots) = (path.anchor(), self.anchors.iter().zip(&*self.path_lengths));
        let allowed = roots.any(|(anchor, most)| {
            anchor.subject == root.subject
                && anchor.subject_public_key_info == root.subject_public_key_info
                && most.is_none_or(|most| between <= usize::from(most))
        });
        if allowed { Ok(()) } else { Err(webpki::Error::PathLenConstraintViolated) }
    }
}

const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

/// RFC 5280 §4.1.2.5, §4.2.1.
struct Constraints {
    is_authority: bool,
    path_length: Option<u8>,
    key_usage: Option<x509_cert::ext::pkix::KeyUsage>,
    purposes: Option<ExtendedKeyUsage>,
    validity: (Duration, Duration),
}

impl Constraints {
    fn read(der: &[u8]) -> Option<Self> {
        let certificate = CertificateInner::<Raw>::from_der(der).ok()?;
        let certificate = certificate.tbs_certificate();
        // Each pair's first: critical.
        let basic = certificate.get_extension::<BasicConstraints>().ok()?.map(|(_, basic)| basic);
        let validity = certificate.validity();
        Some(Self {
            is_authority: basic.as_ref().is_some_and(|basic| basic.ca),
            path_length: basic.and_then(|basic| basic.path_len_constraint),
            key_usage: certificate.get_extension().ok()?.map(|(_, usage)| usage),
            purposes: certificate.get_extension().ok()?.map(|(_, purposes)| purposes),
            validity: (validity.not_before.to_unix_duration(), validity.not_after.to_unix_duration()),
        })
    }

    fn may_issue(&self) -> bool {
        self.is_authority && self.key_usage.is_none_or(|usage| usage.key_cert_sign())
    }

    fn may_sign(&self) -> bool {
        self.key_usage.is_none_or(|usage| usage.digital_signature())
    }

    fn check(&self, time: Duration, purpose: ObjectIdentifier) -> Result<(), CertificateError> {
        let (from, until) = self.validity;
        if !(from..=until).contains(&time) {
            return Err(CertificateError::Time);
        }
        let serves = self.purposes.as_ref().is_none_or(|purposes| purposes.0.contains(&purpose));
        if serves { Ok(()) } else { Err(CertificateError::Unusable) }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roots = self.anchors.len() + self.pinned.len();
        f.debug_struct("Trust").field("roots", &roots).finish_non_exhaustive()
    }
}

/// Why a peer's certificate was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// Not an X.509 certificate.
    #[error("it is no X.509 certificate")]
    Unreadable,
    /// No trusted root authenticates it.
    #[error("no trusted root issued it")]
    Unknown,
    /// Expired or not yet valid.
    #[error("it is not valid at this time")]
    Time,
    /// Issued for another name.
    #[error("it is for another name")]
    Name,
    /// Not permitted for this use, or not understood.
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

/// With the hash of the curve's size.
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

/// The names in a certificate (RFC 5280).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNames {
    /// The subject in the form of RFC 4514, such as `CN=lamp-7`; `None` if empty.
    pub subject: Option<String>,
    /// The subject's first common name (CN).
    pub common_name: Option<String>,
    /// DNS names and URIs of the subject alternative name, in order.
    pub alternative: Vec<String>,
}

impl CertificateNames {
    /// Reads a DER certificate's names, unverified; `None` if it cannot be parsed.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(certificate).ok()?;
        let content = certificate.tbs_certificate();
        let subject = Some(content.subject()).filter(|subject| !subject.is_empty());
        let common_name = content.subject().common_name().ok().flatten().map(|name| name.value().into_owned());
        let names = content.get_extension::<SubjectAltName>().ok().flatten();
        let alternative = names.map(|(_, SubjectAltName(names))| names).unwrap_or_default();
        let alternative = alternative.into_iter().filter_map(|name| match name {
            GeneralName::DnsName(name) | GeneralName::UniformResourceIdentifier(name) => Some(name.to_string()),
            _ => None,
        });
        Some(Self { subject: subject.map(ToString::to_string), common_name, alternative: alternative.collect() })
    }
}

#[cfg(test)]
mod tests;
