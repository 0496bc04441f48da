//! Splits a Proxy-Uri into the part for the proxy and the encrypted part (RFC 8613 §4.1.3.3,
//! RFC 7252 §6.4).

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::ProtectError;
use crate::codec::link_format::filter::hexadecimal;
use crate::codec::{Body, OptionNumber, RawOption};

#[derive(Debug)]
pub(super) struct Divided {
    proxy_uri: Vec<u8>,
    /// Path segments and query arguments, percent-decoded.
    inner: SmallVec<[(OptionNumber, Vec<u8>); 8]>,
}

impl Divided {
    /// Splits the Proxy-Uri of a body; `None` if it has none.
    pub(super) fn of(body: &Body) -> Result<Option<Self>, ProtectError> {
        let divided = body.option(OptionNumber::PROXY_URI).map(|uri| Self::new(uri).ok_or(ProtectError::ProxyUri));
        divided.transpose()
    }

    /// Splits a URI; `None` if it is not absolute or has no authority.
    fn new(uri: &[u8]) -> Option<Self> {
        let uri = core::str::from_utf8(uri).ok()?;
        let (scheme, rest) = uri.split_once("://").filter(|(scheme, _)| is_scheme(scheme))?;
        // Fragments are not sent (RFC 7252 §6.4, step 4).
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
        let path = rest.strip_prefix(authority)?;
        if authority.is_empty() {
            return None;
        }
        let segments = match path.strip_prefix('/') {
            None | Some("") => None,
            Some(path) => Some(path.split('/')),
        };
        let segments = segments.into_iter().flatten().map(|segment| (OptionNumber::URI_PATH, segment));
        let arguments = query.into_iter().flat_map(|query| query.split('&'));
        let arguments = arguments.map(|argument| (OptionNumber::URI_QUERY, argument));
        let inner: Option<_> =
            segments.chain(arguments).map(|(number, encoded)| Some((number, decoded(encoded)?))).collect();
        Some(Self { proxy_uri: [scheme, "://", authority].concat().into_bytes(), inner: inner? })
    }

    pub(super) fn proxy_uri(&self) -> &[u8] {
        &self.proxy_uri
    }

    pub(super) fn inner_options(&self) -> impl Iterator<Item = RawOption<'_>> {
        self.inner.iter().map(|(number, value)| RawOption { number: *number, value })
    }
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Percent-decodes a text; `None` if it is malformed.
fn decoded(encoded: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => hexadecimal(bytes.next()?)? << 4 | hexadecimal(bytes.next()?)?,
            literal => literal,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use std::format;

    fn divided(uri: &str) -> Option<(String, Vec<String>)> {
        let divided = Divided::new(uri.as_bytes())?;
        let inner = divided
            .inner_options()
            .map(|option| format!("{}={}", option.number, String::from_utf8_lossy(option.value)));
        let inner = inner.collect();
        Some((String::from_utf8(divided.proxy_uri).expect("text"), inner))
    }

    // RFC 8613 §4.1.3.3 (its example)
    #[test]
    fn a_proxy_sees_scheme_and_authority_only() {
        let (seen, hidden) = divided("coap://example.com/resource?q=1").expect("a URI");
        assert_eq!(
            (seen.as_str(), hidden),
            ("coap://example.com", ["Uri-Path=resource", "Uri-Query=q=1"].map(String::from).to_vec())
        );
        for uri in ["coap://h", "coap://h/", "coap://h#fragment"] {
            assert_eq!(divided(uri).expect("a URI"), (String::from("coap://h"), Vec::new()), "{uri}");
        }
        let (seen, hidden) = divided("http://[::1]:8080/a%2Fb//c?x=%26&y#f").expect("a URI");
        assert_eq!(seen, "http://[::1]:8080");
        assert_eq!(hidden, ["Uri-Path=a/b", "Uri-Path=", "Uri-Path=c", "Uri-Query=x=&", "Uri-Query=y"]);
    }

    #[test]
    fn what_is_no_absolute_uri_is_not_divided() {
        for uri in ["", "/path", "coap:", "coap://", "coap:///path", "1x://h", "://h", "coap://h/%4", "coap://h/%zz"] {
            assert_eq!(divided(uri), None, "{uri}");
        }
        assert!(Divided::new(b"coap://\xff").is_none());
    }
}
