//! Converts path, query and location options to URI components (RFC 7252 §6.5).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::net::{IpAddr, SocketAddr};

use super::{Content, OptionNumber};

/// The default port, which a URI omits (RFC 7252 §6.1).
const DEFAULT_PORT: u32 = 5683;

impl<'a> Content<'a> {
    /// Returns the path of the request's URI (RFC 7252 §6.5): `/` for the root, otherwise `/`
    /// before each segment.
    ///
    /// Reserved characters are percent-encoded: the single segment `a/b` gives `/a%2Fb`.
    #[must_use]
    pub fn uri_path(&self) -> String {
        encode_path(self.values(OptionNumber::URI_PATH))
    }

    /// Returns the URI of a request to `destination` (RFC 7252 §6.5). Uri-Host and Uri-Port take
    /// precedence.
    #[must_use]
    pub fn request_uri(&self, destination: SocketAddr) -> String {
        let mut uri = String::from("coap://");
        match (self.option(OptionNumber::URI_HOST), destination.ip()) {
            // Brackets enclose an IP literal.
            (Some(host @ [b'[', .., b']']), _) => push_encoded(&mut uri, host, is_literal_of_address),
            (Some(host), _) => push_encoded(&mut uri, host, is_host_literal),
            (None, IpAddr::V4(address)) => uri.push_str(&format!("{address}")),
            (None, IpAddr::V6(address)) => uri.push_str(&format!("[{address}]")),
        }
        let port = self.uint(OptionNumber::URI_PORT).unwrap_or_else(|| destination.port().into());
        if port != DEFAULT_PORT {
            uri.push_str(&format!(":{port}"));
        }
        uri.push_str(&self.uri_path());
        let mut arguments = self.values(OptionNumber::URI_QUERY).peekable();
        if arguments.peek().is_some() {
            uri.push('?');
            uri.push_str(&encode_query(arguments));
        }
        uri
    }

    /// Returns the location of a created resource, as path and query (RFC 7252 §5.10.7); `None`
    /// without location options.
    #[must_use]
    pub fn location(&self) -> Option<String> {
        let segments = self.values(OptionNumber::LOCATION_PATH);
        let mut arguments = self.values(OptionNumber::LOCATION_QUERY).peekable();
        if segments.clone().next().is_none() && arguments.peek().is_none() {
            return None;
        }
        let mut location = encode_path(segments);
        if arguments.peek().is_some() {
            location.push('?');
            location.push_str(&encode_query(arguments));
        }
        Some(location)
    }

    /// Returns the query arguments, `key=value` or `key`, not percent-encoded. U+FFFD replaces
    /// bytes that are not UTF-8.
    pub fn uri_queries(&self) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        self.values(OptionNumber::URI_QUERY).map(String::from_utf8_lossy)
    }
}

/// Returns the absolute path of these segments, percent-encoded (RFC 7252 §6.5, steps 6 and 7); `/`
/// without segments.
#[must_use]
pub fn encode_path<'a>(segments: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        push_encoded(&mut path, segment, is_path_literal);
    }
    if path.is_empty() {
        path.push('/');
    }
    path
}

/// Returns the query of these arguments, percent-encoded and joined by `&` (RFC 7252 §6.5, steps 8
/// and 9).
#[must_use]
pub fn encode_query<'a>(arguments: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut query = String::new();
    for (index, argument) in arguments.into_iter().enumerate() {
        if index > 0 {
            query.push('&');
        }
        push_encoded(&mut query, argument, is_query_literal);
    }
    query
}

fn push_encoded(text: &mut String, bytes: &[u8], is_literal: fn(u8) -> bool) {
    const HEXADECIMAL: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if is_literal(byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push(char::from(HEXADECIMAL[usize::from(byte >> 4)]));
            text.push(char::from(HEXADECIMAL[usize::from(byte & 0xf)]));
        }
    }
}

/// pchar of RFC 3986: unreserved, sub-delims, `:` and `@`.
fn is_path_literal(byte: u8) -> bool {
    byte == b'&' || is_query_literal(byte) && !matches!(byte, b'/' | b'?')
}

/// reg-name of RFC 3986: unreserved and sub-delims.
fn is_host_literal(byte: u8) -> bool {
    is_path_literal(byte) && !matches!(byte, b':' | b'@')
}

/// An IP literal with its brackets.
fn is_literal_of_address(byte: u8) -> bool {
    is_host_literal(byte) || matches!(byte, b':' | b'[' | b']')
}

/// pchar, `/` and `?`, without the separator `&`.
fn is_query_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$'()*+,;=:@/?".contains(&byte)
}
