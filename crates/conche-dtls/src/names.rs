//! [`CertificateNames`]: the names in a certificate, for logs and authorization.

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

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
mod tests {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn a_certificate_has_a_subject_and_alternative_names() {
        let pem = include_bytes!("../../../tools/interop/credentials/client.pem");
        let der = CertificateDer::from_pem_slice(pem).unwrap();
        let names = CertificateNames::of(&der).unwrap();
        assert_eq!(names.subject.as_deref(), Some("CN=client"));
        assert_eq!(names.common_name.as_deref(), Some("client"));
        assert_eq!(names.alternative, ["lamp-7.example"]);
        assert_eq!(CertificateNames::of(&der[1..]), None);
    }
}
