//! Credentials of sessions: [`Roots`], keys and certificates.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use conche_dtls::{
    CertificateNames, ClientCredentials, CredentialsError, KeyLog, OwnCertificate, Secret, ServerCertificate,
    ServerCredentials, ServerKeys, Trust,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::{HandshakeError, Identity, SessionObserver};
use crate::error::ConfigError;
use crate::prefixes::Prefixes;

/// Trusted certificates (DER), and intermediate authorities.
///
/// A certificate of an authority (`cA` in the basic constraints, and `keyCertSign` in the key usage
/// if present) authenticates peers whose certificates it issued. Any other certificate
/// authenticates only a peer that presents it.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    roots: Vec<Vec<u8>>,
    intermediates: Vec<Vec<u8>>,
}

impl Roots {
    /// Trusts these certificates, in DER.
    ///
    /// # Errors
    /// If one of them is not a certificate, or there is none.
    pub fn new(roots: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Result<Self, CredentialsError> {
        let roots: Vec<Vec<u8>> = roots.into_iter().map(Into::into).collect();
        if roots.is_empty() {
            return Err(CredentialsError::Certificate);
        }
        let roots = Self { roots, intermediates: Vec::new() };
        roots.trust(Duration::ZERO)?;
        Ok(roots)
    }

    /// Trusts all certificates of a PEM text (RFC 7468).
    ///
    /// # Errors
    /// If there is none, or one of them is not a certificate.
    pub fn from_pem(text: &[u8]) -> Result<Self, CredentialsError> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        let certificates = certificates.map_err(|_| CredentialsError::Certificate)?;
        Self::new(certificates.iter().map(|certificate| certificate.to_vec()))
    }

    /// Adds intermediate certificates (DER), because peers send only their own.
    #[must_use]
    pub fn with_intermediates(self, certificates: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        Self { intermediates: certificates.into_iter().map(Into::into).collect(), ..self }
    }

    /// Converts them for sessions. `epoch` is the time since 1970 at zero of the sessions' clock.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub fn trust(&self, epoch: Duration) -> Result<Trust, CredentialsError> {
        let trust = Trust::new(self.roots.iter().map(Vec::as_slice), epoch)?;
        Ok(trust.with_intermediates(self.intermediates.iter().map(Vec::as_slice)))
    }

    /// Reads the system's clock per peer certificate: it may be set while a socket is open.
    fn trust_now(&self) -> Result<Trust, CredentialsError> {
        let since_1970 = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(self.trust(Duration::ZERO)?.with_clock(since_1970))
    }
}

/// Returns the key of an identity, in its own time.
#[derive(Clone)]
pub(crate) struct KeyLookup(Arc<dyn Fn(Vec<u8>) -> KeyFuture + Send + Sync>);

type KeyFuture = Pin<Box<dyn Future<Output = Option<Secret>> + Send>>;

impl KeyLookup {
    pub(crate) fn new<F>(lookup: impl Fn(Vec<u8>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<Secret>> + Send + 'static,
    {
        Self(Arc::new(move |identity| Box::pin(lookup(identity))))
    }

    pub(crate) async fn key(&self, identity: Vec<u8>) -> Option<Secret> {
        (self.0)(identity).await
    }
}

impl fmt::Debug for KeyLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyLookup")
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Security {
    /// Credentials of sessions that this program opens.
    pub(crate) psk: Prefixes<ClientCredentials>,
    pub(crate) roots: Option<Roots>,
    pub(crate) own: Option<OwnCertificate>,
    pub(crate) keys: Option<ServerKeys>,
    /// With [deferred](ServerKeys::deferred) `keys`.
    pub(crate) lookup: Option<KeyLookup>,
    pub(crate) certificate: Option<OwnCertificate>,
    pub(crate) client_roots: Option<Roots>,
    pub(crate) key_log: Option<KeyLog>,
    pub(crate) observer: Option<SessionObserver>,
    pub(crate) max_sessions: Option<usize>,
    pub(crate) max_sessions_per_identity: Option<usize>,
}

impl Security {
    /// In bytes: a record carries no more (RFC 5246 §6.2.1).
    const LONGEST_MESSAGE: usize = 1 << 14;

    pub(crate) fn is_none(&self) -> bool {
        self.psk.len() == 0 && self.roots.is_none() && !self.is_server()
    }

    /// Checks that messages of this size fit into records and that credentials are usable and
    /// unambiguous.
    pub(crate) fn validate(&self, message_bytes: usize) -> Result<(), ConfigError> {
        if !self.is_none() && message_bytes > Self::LONGEST_MESSAGE {
            return Err(ConfigError::SecuredMessage { bytes: message_bytes, longest: Self::LONGEST_MESSAGE });
        }
        if self.client_roots.is_some() && self.certificate.is_none() {
            return Err(ConfigError::ClientRootsWithoutCertificate);
        }
        if self.own.is_some() && self.roots.is_none() {
            return Err(ConfigError::CertificateWithoutRoots);
        }
        for (_, credentials) in self.psk.iter() {
            let ClientCredentials::Psk { identity, key, .. } = credentials else { continue };
            let incoming = self.keys.as_ref().and_then(|keys| keys.key(identity));
            if incoming.is_some_and(|incoming| incoming != *key) {
                return Err(ConfigError::TwoKeys { identity: identity.escape_ascii().to_string() });
            }
        }
        Ok(())
    }

    pub(crate) fn divide(&mut self, drivers: usize) {
        let all = self.max_sessions.unwrap_or(conche_dtls::Config::default().max_sessions);
        self.max_sessions = Some(all.div_ceil(drivers.max(1)));
    }

    pub(crate) fn is_server(&self) -> bool {
        self.keys.is_some() || self.certificate.is_some()
    }

    pub(crate) fn names_peers(&self) -> bool {
        let names_clients = self.keys.is_some() || self.certificate.is_some() && self.client_roots.is_some();
        names_clients || self.psk.len() > 0 || self.roots.is_some()
    }

    /// `at` must not be IPv4-mapped.
    pub(crate) fn has_client_credentials(&self, at: IpAddr) -> bool {
        self.psk.of(at).is_some() || self.roots.is_some()
    }

    /// `at` must not be IPv4-mapped.
    pub(crate) fn psk_identity(&self, at: IpAddr) -> Option<Identity> {
        match self.psk.of(at)? {
            ClientCredentials::Psk { identity, .. } => Some(Identity::psk(identity)),
            _ => None,
        }
    }

    pub(crate) fn client_credentials(&self, at: IpAddr, name: &str) -> Result<ClientCredentials, HandshakeError> {
        if let Some(psk) = self.psk.of(at) {
            return Ok(psk.clone());
        }
        let roots = self.roots.as_ref().ok_or_else(HandshakeError::none)?;
        let trust = roots.trust_now().map_err(|error| HandshakeError::new(&error))?;
        ClientCredentials::certificate(self.own.clone(), trust, name).map_err(|error| HandshakeError::new(&error))
    }

    pub(crate) fn server_credentials(&self) -> Result<Option<ServerCredentials>, CredentialsError> {
        if !self.is_server() {
            return Ok(None);
        }
        let clients = self.client_roots.as_ref().map(|roots| roots.trust_now()).transpose()?;
        let certificate = self.certificate.clone().map(|own| ServerCertificate { own, clients });
        Ok(Some(ServerCredentials { psk: self.keys.clone(), certificate }))
    }
}

/// A peer's end-entity certificate (RFC 5280), verified by a session.
///
/// ```
/// use conche::Code;
/// use conche::security::Identity;
/// use conche::server::{Router, post};
///
/// /// Returns the endpoint name of an LwM2M device: the CN, or else the first name of the SAN.
/// async fn register(identity: Identity) -> Result<String, Code> {
///     let Identity::Certificate(certificate) = identity else { return Err(Code::FORBIDDEN) };
///     let name = certificate.common_name().or_else(|| certificate.alternative_names().into_iter().next());
///     name.ok_or(Code::FORBIDDEN)
/// }
///
/// let router: Router = Router::new().route("/rd", post(register));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Certificate(Arc<[u8]>);

impl Certificate {
    /// Wraps a certificate in DER, compared byte by byte.
    #[must_use]
    pub fn from_der(der: impl Into<Arc<[u8]>>) -> Self {
        Self(der.into())
    }

    /// Returns the certificate in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.0
    }

    /// Returns the subject in the format of RFC 4514, such as `CN=lamp-7`, unless empty.
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

    /// Returns the DNS names and URIs of the subject alternative name (RFC 5280 §4.2.1.6).
    #[must_use]
    pub fn alternative_names(&self) -> Vec<String> {
        CertificateNames::of(&self.0).map(|names| names.alternative).unwrap_or_default()
    }
}

/// Formats the subject, else the first alternative name, else the number of bytes.
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
