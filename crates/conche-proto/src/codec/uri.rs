//! Path, query and location of a message in the form that URIs have (RFC 7252 §6.5).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::net::{IpAddr, SocketAddr};

use super::{Content, OptionNumber};

/// The port that a URI need not name (RFC 7252 §6.1).
const DEFAULT_PORT: u32 = 5683;

impl<'a> Content<'a> {
    /// The path of the request's URI: `/` for the root, else `/` before each segment (RFC 7252 §6.5).
    ///
    /// What a path segment cannot hold literally is percent-encoded, so that different sequences of segments give
    /// different paths: the one segment `a/b` gives `/a%2Fb` and not `/a/b`.
    #[must_use]
    pub fn uri_path(&self) -> String {
        encode_path(self.values(OptionNumber::URI_PATH))
    }

    /// The URI of a request that was sent to `destination` (RFC 7252 §6.5): with Uri-Host and Uri-Port where it has them,
    /// with the destination's address and port otherwise.
    #[must_use]
    pub fn request_uri(&self, destination: SocketAddr) -> String {
        let mut uri = String::from("coap://");
        match (self.option(OptionNumber::URI_HOST), destination.ip()) {
            // Brackets are those of an IP literal, which no name has.
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

    /// Where the resource is that a request made, as the path and query of a relative URI reference (RFC 7252 §5.10.7);
    /// `None` if the response does not say.
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

    /// The arguments of the request's URI, each `key=value` or `key`, not percent-encoded. Bytes that are not UTF-8 are
    /// replaced by U+FFFD.
    pub fn uri_queries(&self) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        self.values(OptionNumber::URI_QUERY).map(String::from_utf8_lossy)
    }
}

/// The absolute path of these segments as a URI has it (RFC 7252 §6.5, steps 6 and 7): `/` before each of them, and what
/// would be understood otherwise percent-encoded. Without segments it is `/`.
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

/// The query of these arguments as a URI has it (RFC 7252 §6.5, steps 8 and 9): `&` between them, and what would be
/// understood otherwise percent-encoded. The question mark before it is not part of it.
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

/// RFC 3986's pchar without percent-encoding: unreserved, sub-delims, `:` and `@`.
fn is_path_literal(byte: u8) -> bool {
    byte == b'&' || is_query_literal(byte) && !matches!(byte, b'/' | b'?')
}

/// RFC 3986's reg-name without percent-encoding: unreserved and sub-delims.
fn is_host_literal(byte: u8) -> bool {
    is_path_literal(byte) && !matches!(byte, b':' | b'@')
}

/// What an IP literal consists of, the brackets included.
fn is_literal_of_address(byte: u8) -> bool {
    is_host_literal(byte) || matches!(byte, b':' | b'[' | b']')
}

/// What an argument of a query can hold: pchar, `/` and `?`, but not the `&` that ends it.
fn is_query_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$'()*+,;=:@/?".contains(&byte)
}
