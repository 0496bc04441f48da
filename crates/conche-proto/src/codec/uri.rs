//! The path and query of a request in the form that URIs have (RFC 7252 §6.5).

use alloc::borrow::Cow;
use alloc::string::String;

use super::{Content, OptionNumber};

impl<'a> Content<'a> {
    /// The path of the request's URI: `/` for the root, else `/` before each segment (RFC 7252 §6.5).
    ///
    /// What a path segment cannot hold literally is percent-encoded, so that different sequences of segments give
    /// different paths: the one segment `a/b` gives `/a%2Fb` and not `/a/b`.
    #[must_use]
    pub fn uri_path(&self) -> String {
        let mut path = String::new();
        for segment in self.values(OptionNumber::URI_PATH) {
            path.push('/');
            segment.iter().for_each(|&byte| push_encoded(&mut path, byte));
        }
        if path.is_empty() {
            path.push('/');
        }
        path
    }

    /// The arguments of the request's URI, each `key=value` or `key`, not percent-encoded. Bytes that are not UTF-8 are
    /// replaced by U+FFFD.
    pub fn uri_queries(&self) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        self.values(OptionNumber::URI_QUERY).map(String::from_utf8_lossy)
    }
}

fn push_encoded(path: &mut String, byte: u8) {
    const HEXADECIMAL: &[u8; 16] = b"0123456789ABCDEF";
    if is_literal(byte) {
        path.push(char::from(byte));
    } else {
        path.push('%');
        path.push(char::from(HEXADECIMAL[usize::from(byte >> 4)]));
        path.push(char::from(HEXADECIMAL[usize::from(byte & 0xf)]));
    }
}

/// RFC 3986's pchar without percent-encoding: unreserved, sub-delims, `:` and `@`.
const fn is_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&'..=b',' | b';' | b'=' | b':' | b'@')
}
