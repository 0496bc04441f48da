//! [`ContentFormat`]: the CoAP Content-Formats registry (RFC 7252 §12.3).

use core::fmt;

/// The value of Content-Format and Accept (RFC 7252 §12.3): a media type and a content coding.
///
/// ```
/// use conche_proto::codec::ContentFormat;
///
/// assert_eq!(ContentFormat::LWM2M_TLV.media_type(), Some("application/vnd.oma.lwm2m+tlv"));
/// assert_eq!(ContentFormat::by_media_type("application/senml+cbor"), Some(ContentFormat::SENML_CBOR));
/// assert_eq!(ContentFormat::JSON.to_string(), "50 (application/json)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentFormat(pub u16);

impl ContentFormat {
    /// Returns the registered media type, with its parameters; `None` for an unknown number.
    #[must_use]
    pub const fn media_type(self) -> Option<&'static str> {
        match self.entry() {
            Some((media_type, _)) => Some(media_type),
            None => None,
        }
    }

    /// Returns the registered content coding, such as `deflate`; `None` without one.
    #[must_use]
    pub const fn content_coding(self) -> Option<&'static str> {
        match self.entry() {
            Some((_, coding)) if !coding.is_empty() => Some(coding),
            _ => None,
        }
    }

    /// Returns the format of a media type without content coding, in any case and with any spaces.
    /// A media type without its parameters selects the format with the smallest number.
    #[must_use]
    pub fn by_media_type(media_type: &str) -> Option<Self> {
        let plain = || Self::REGISTERED.iter().copied().filter(|format| format.content_coding().is_none());
        let find = |same: fn(&str, &str) -> bool| {
            plain().find(|format| format.media_type().is_some_and(|registered| same(registered, media_type)))
        };
        find(is_same).or_else(|| find(|registered, wanted| is_same(essence(registered), wanted)))
    }
}

fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or(media_type)
}

fn is_same(one: &str, other: &str) -> bool {
    let characters = |text| str::chars(text).filter(|character| *character != ' ').map(|c| c.to_ascii_lowercase());
    characters(one).eq(characters(other))
}

/// Prints `50 (application/json)`.
impl fmt::Display for ContentFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = self;
        match (self.media_type(), self.content_coding()) {
            (None, _) => write!(f, "{number}"),
            (Some(media_type), None) => write!(f, "{number} ({media_type})"),
            (Some(media_type), Some(coding)) => write!(f, "{number} ({media_type}, {coding})"),
        }
    }
}

macro_rules! registry {
    ($($(#[$doc:meta])* $name:ident $number:literal $media_type:literal $coding:literal;)*) => {
        impl ContentFormat {
            $(
                $(#[$doc])*
                pub const $name: Self = Self($number);
            )*

            /// All registered formats in ascending order, except those of drafts and of single
            /// organisations' private use.
            pub const REGISTERED: &[Self] = &[$(Self::$name),*];

            const fn entry(self) -> Option<(&'static str, &'static str)> {
                match self {
                    $(Self::$name => Some(($media_type, $coding)),)*
                    _ => None,
                }
            }
        }
    };
}

registry! {
    /// `text/plain; charset=utf-8` (RFC 7252 §12.3).
    TEXT_PLAIN 0 "text/plain; charset=utf-8" "";
    /// `application/cose; cose-type="cose-encrypt0"` (RFC 9052).
    COSE_ENCRYPT0 16 r#"application/cose; cose-type="cose-encrypt0""# "";
    /// `application/cose; cose-type="cose-mac0"` (RFC 9052).
    COSE_MAC0 17 r#"application/cose; cose-type="cose-mac0""# "";
    /// `application/cose; cose-type="cose-sign1"` (RFC 9052).
    COSE_SIGN1 18 r#"application/cose; cose-type="cose-sign1""# "";
    /// `application/ace+cbor` (RFC 9200).
    ACE_CBOR 19 "application/ace+cbor" "";
    /// `image/gif` (GIF 89a).
    GIF 21 "image/gif" "";
    /// `image/jpeg` (ISO/IEC 10918-5).
    JPEG 22 "image/jpeg" "";
    /// `image/png` (W3C PNG).
    PNG 23 "image/png" "";
    /// `application/link-format` (RFC 6690).
    LINK_FORMAT 40 "application/link-format" "";
    /// `application/xml` (RFC 7252 §12.3).
    XML 41 "application/xml" "";
    /// `application/octet-stream` (RFC 7252 §12.3).
    OCTET_STREAM 42 "application/octet-stream" "";
    /// `application/exi` (RFC 7252 §12.3).
    EXI 47 "application/exi" "";
    /// `application/json` (RFC 7252 §12.3).
    JSON 50 "application/json" "";
    /// `application/json-patch+json` (RFC 8132 §8).
    JSON_PATCH 51 "application/json-patch+json" "";
    /// `application/merge-patch+json` (RFC 8132 §8).
    MERGE_PATCH 52 "application/merge-patch+json" "";
    /// `application/cbor` (RFC 8949 §9.3).
    CBOR 60 "application/cbor" "";
    /// `application/cwt` (RFC 8392).
    CWT 61 "application/cwt" "";
    /// `application/multipart-core` (RFC 8710).
    MULTIPART_CORE 62 "application/multipart-core" "";
    /// `application/cbor-seq` (RFC 8742).
    CBOR_SEQ 63 "application/cbor-seq" "";
    /// `application/edhoc+cbor-seq` (RFC 9528).
    EDHOC_CBOR_SEQ 64 "application/edhoc+cbor-seq" "";
    /// `application/cid-edhoc+cbor-seq` (RFC 9528).
    CID_EDHOC_CBOR_SEQ 65 "application/cid-edhoc+cbor-seq" "";
    /// `application/cose; cose-type="cose-encrypt"` (RFC 9052).
    COSE_ENCRYPT 96 r#"application/cose; cose-type="cose-encrypt""# "";
    /// `application/cose; cose-type="cose-mac"` (RFC 9052).
    COSE_MAC 97 r#"application/cose; cose-type="cose-mac""# "";
    /// `application/cose; cose-type="cose-sign"` (RFC 9052).
    COSE_SIGN 98 r#"application/cose; cose-type="cose-sign""# "";
    /// `application/cose-key` (RFC 9052).
    COSE_KEY 101 "application/cose-key" "";
    /// `application/cose-key-set` (RFC 9052).
    COSE_KEY_SET 102 "application/cose-key-set" "";
    /// `application/senml+json` (RFC 8428).
    SENML_JSON 110 "application/senml+json" "";
    /// `application/sensml+json` (RFC 8428).
    SENSML_JSON 111 "application/sensml+json" "";
    /// `application/senml+cbor` (RFC 8428).
    SENML_CBOR 112 "application/senml+cbor" "";
    /// `application/sensml+cbor` (RFC 8428).
    SENSML_CBOR 113 "application/sensml+cbor" "";
    /// `application/senml-exi` (RFC 8428).
    SENML_EXI 114 "application/senml-exi" "";
    /// `application/sensml-exi` (RFC 8428).
    SENSML_EXI 115 "application/sensml-exi" "";
    /// `application/yang-data+cbor; id=sid` (RFC 9254).
    YANG_DATA_SID 140 "application/yang-data+cbor; id=sid" "";
    /// `application/coap-group+json` (RFC 7390).
    COAP_GROUP 256 "application/coap-group+json" "";
    /// `application/concise-problem-details+cbor` (RFC 9290 §6.3).
    PROBLEM_DETAILS 257 "application/concise-problem-details+cbor" "";
    /// `application/swid+cbor` (RFC 9393).
    SWID 258 "application/swid+cbor" "";
    /// `application/pkixcmp` (RFC 9482).
    PKIXCMP 259 "application/pkixcmp" "";
    /// `application/yang-sid+json` (RFC 9595).
    YANG_SID 260 "application/yang-sid+json" "";
    /// `application/ace-groupcomm+cbor` (RFC 9594).
    ACE_GROUPCOMM 261 "application/ace-groupcomm+cbor" "";
    /// `application/ace-trl+cbor` (RFC 9770).
    ACE_TRL 262 "application/ace-trl+cbor" "";
    /// `application/eat+cwt` (RFC 9782).
    EAT_CWT 263 "application/eat+cwt" "";
    /// `application/eat+jwt` (RFC 9782).
    EAT_JWT 264 "application/eat+jwt" "";
    /// `application/eat-bun+cbor` (RFC 9782).
    EAT_BUN_CBOR 265 "application/eat-bun+cbor" "";
    /// `application/eat-bun+json` (RFC 9782).
    EAT_BUN_JSON 266 "application/eat-bun+json" "";
    /// `application/eat-ucs+cbor` (RFC 9782).
    EAT_UCS_CBOR 267 "application/eat-ucs+cbor" "";
    /// `application/eat-ucs+json` (RFC 9782).
    EAT_UCS_JSON 268 "application/eat-ucs+json" "";
    /// `application/coap-eap` (RFC 9820).
    COAP_EAP 269 "application/coap-eap" "";
    /// `application/dots+cbor` (RFC 9132).
    DOTS 271 "application/dots+cbor" "";
    /// `application/missing-blocks+cbor-seq` (RFC 9177 §12.3).
    MISSING_BLOCKS 272 "application/missing-blocks+cbor-seq" "";
    /// `application/pkcs7-mime; smime-type=server-generated-key` (RFC 9148).
    PKCS7_SERVER_GENERATED_KEY 280 "application/pkcs7-mime; smime-type=server-generated-key" "";
    /// `application/pkcs7-mime; smime-type=certs-only` (RFC 9148).
    PKCS7_CERTS_ONLY 281 "application/pkcs7-mime; smime-type=certs-only" "";
    /// `application/pkcs8` (RFC 9148).
    PKCS8 284 "application/pkcs8" "";
    /// `application/csrattrs` (RFC 9148).
    CSRATTRS 285 "application/csrattrs" "";
    /// `application/pkcs10` (RFC 9148).
    PKCS10 286 "application/pkcs10" "";
    /// `application/pkix-cert` (RFC 9148).
    PKIX_CERT 287 "application/pkix-cert" "";
    /// `application/aif+cbor` (RFC 9237).
    AIF_CBOR 290 "application/aif+cbor" "";
    /// `application/aif+json` (RFC 9237).
    AIF_JSON 291 "application/aif+json" "";
    /// `application/senml+xml` (RFC 8428).
    SENML_XML 310 "application/senml+xml" "";
    /// `application/sensml+xml` (RFC 8428).
    SENSML_XML 311 "application/sensml+xml" "";
    /// `application/senml-etch+json` (RFC 8790).
    SENML_ETCH_JSON 320 "application/senml-etch+json" "";
    /// `application/senml-etch+cbor` (RFC 8790).
    SENML_ETCH_CBOR 322 "application/senml-etch+cbor" "";
    /// `application/yang-data+cbor` (RFC 9254).
    YANG_DATA 340 "application/yang-data+cbor" "";
    /// `application/yang-data+cbor; id=name` (RFC 9254).
    YANG_DATA_NAME 341 "application/yang-data+cbor; id=name" "";
    /// `application/td+json` (W3C Web of Things Thing Description).
    TD_JSON 432 "application/td+json" "";
    /// `application/tm+json` (W3C Web of Things Thing Description).
    TM_JSON 433 "application/tm+json" "";
    /// `application/sdf+json` (RFC 9880).
    SDF_JSON 434 "application/sdf+json" "";
    /// `application/dns-message` (RFC 8484).
    DNS_MESSAGE 553 "application/dns-message" "";
    /// `application/uccs+cbor` (RFC 9781).
    UCCS 601 "application/uccs+cbor" "";
    /// `application/vnd.ocf+cbor` (OCF).
    OCF_CBOR 10000 "application/vnd.ocf+cbor" "";
    /// `application/oscore` (RFC 8613).
    OSCORE 10001 "application/oscore" "";
    /// `application/javascript` (RFC 4329).
    JAVASCRIPT 10002 "application/javascript" "";
    /// `application/eat+cwt; eat_profile="tag:psacertified.org,2023:psa#tfm"` (RFC 9783).
    EAT_CWT_PSA 10003 r#"application/eat+cwt; eat_profile="tag:psacertified.org,2023:psa#tfm""# "";
    /// `application/eat+cwt; eat_profile="tag:psacertified.org,2019:psa#legacy"` (RFC 9783).
    EAT_CWT_PSA_LEGACY 10004 r#"application/eat+cwt; eat_profile="tag:psacertified.org,2019:psa#legacy""# "";
    /// `application/eat+cwt; eat_profile=2.16.840.1.113741.1.16.1` (Intel CoRIM profile).
    EAT_CWT_INTEL 10005 "application/eat+cwt; eat_profile=2.16.840.1.113741.1.16.1" "";
    /// `application/vnd.oms.cellular-cose-content+cbor` (OMS Group).
    OMS_CELLULAR 10006 "application/vnd.oms.cellular-cose-content+cbor" "";
    /// `application/syslog-msg` (IANA media types).
    SYSLOG_MSG 10007 "application/syslog-msg" "";
    /// `application/toc+cbor` (TCG Concise Evidence Binding §6.3.1).
    TOC_CBOR 10570 "application/toc+cbor" "";
    /// `application/ce+cbor` (TCG Concise Evidence Binding §6.3.2).
    CE_CBOR 10571 "application/ce+cbor" "";
    /// `application/toc+cbor; profile=2.16.840.1.113741.1.16.1` (TCG Concise Evidence Binding).
    TOC_CBOR_INTEL 10572 "application/toc+cbor; profile=2.16.840.1.113741.1.16.1" "";
    /// `application/ce+cbor; profile=2.16.840.1.113741.1.16.1` (TCG Concise Evidence Binding).
    CE_CBOR_INTEL 10573 "application/ce+cbor; profile=2.16.840.1.113741.1.16.1" "";
    /// `application/json` with content coding deflate (RFC 8259).
    JSON_DEFLATE 11050 "application/json" "deflate";
    /// `application/cbor` with content coding deflate (RFC 8949).
    CBOR_DEFLATE 11060 "application/cbor" "deflate";
    /// `application/vnd.oma.lwm2m+tlv` (OMA LwM2M 1.0).
    LWM2M_TLV 11542 "application/vnd.oma.lwm2m+tlv" "";
    /// `application/vnd.oma.lwm2m+json` (OMA LwM2M 1.0).
    LWM2M_JSON 11543 "application/vnd.oma.lwm2m+json" "";
    /// `application/vnd.oma.lwm2m+cbor` (OMA LwM2M 1.2).
    LWM2M_CBOR 11544 "application/vnd.oma.lwm2m+cbor" "";
    /// `text/plain; charset=utf-8` with content coding zstd (IANA).
    TEXT_PLAIN_ZSTD 12000 "text/plain; charset=utf-8" "zstd";
    /// `application/xml` with content coding zstd (IANA).
    XML_ZSTD 12041 "application/xml" "zstd";
    /// `application/json` with content coding zstd (IANA).
    JSON_ZSTD 12050 "application/json" "zstd";
    /// `text/css` (RFC 2318).
    CSS 20000 "text/css" "";
    /// `image/svg+xml` (W3C SVG).
    SVG 30000 "image/svg+xml" "";
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_format_without_coding_is_found_by_its_media_type() {
        assert!(ContentFormat::REGISTERED.is_sorted());
        for format in ContentFormat::REGISTERED.iter().filter(|format| format.content_coding().is_none()) {
            let media_type = format.media_type().expect("it is registered");
            assert_eq!(ContentFormat::by_media_type(media_type), Some(*format));
            assert_eq!(ContentFormat::by_media_type(&media_type.to_uppercase().replace("; ", ";")), Some(*format));
        }
    }

    #[test]
    fn parameters_may_be_left_out() {
        assert_eq!(ContentFormat::by_media_type("text/plain"), Some(ContentFormat::TEXT_PLAIN));
        assert_eq!(ContentFormat::by_media_type("application/yang-data+cbor"), Some(ContentFormat::YANG_DATA));
        assert_eq!(ContentFormat::by_media_type("application/cose"), Some(ContentFormat::COSE_ENCRYPT0));
        assert_eq!(ContentFormat::by_media_type("application/unheard-of"), None);
    }

    #[test]
    fn a_format_prints_its_number_and_its_name() {
        assert_eq!(ContentFormat::JSON_DEFLATE.to_string(), "11050 (application/json, deflate)");
        assert_eq!(ContentFormat(65_000).to_string(), "65000");
    }
}
