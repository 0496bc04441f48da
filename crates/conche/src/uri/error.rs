//! [`UriError`].

use fluent_uri::{ParseError, ParseErrorKind};
use thiserror::Error;

use super::LONGEST_COMPONENT;

/// Why a text is not a usable URI.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UriError {
    /// Not a URI.
    #[error("{found} at position {position} of the URI: {hint}")]
    Syntax {
        /// The unexpected text.
        found: String,
        /// Position in bytes, from 0.
        position: usize,
        /// The expected syntax.
        hint: &'static str,
    },
    /// The scheme is missing.
    #[error("the URI has no scheme: write {proposal}")]
    NoScheme {
        /// The URI that was probably meant.
        proposal: String,
    },
    /// The scheme is not CoAP's.
    #[error("the URI's scheme is {scheme:?}: it must be \"coap\" or \"coaps\", as in coap://example.com/path")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// CoAP over a transport other than UDP and DTLS.
    #[error("{scheme}:// is not yet supported: only coap:// and coaps:// are")]
    NotYetSupported {
        /// The scheme.
        scheme: String,
    },
    /// The host is missing.
    #[error("the URI names no host: it must look like coap://example.com/path")]
    NoHost,
    /// An IP address of an unknown version.
    #[error("the host {host} is neither a name, an IPv4 address nor an IPv6 address in brackets")]
    UnknownAddressKind {
        /// The host.
        host: String,
    },
    /// An IPv4 address in a spelling that only some implementations accept.
    #[error("the host {host:?} is no name, and an IPv4 address is written as four decimal numbers, as 127.0.0.1")]
    Number {
        /// The host.
        host: String,
    },
    /// The URI has a user name.
    #[error("a coap URI has no user name: leave out what stands before the \"@\"")]
    UserInfo,
    /// The URI has a fragment, which only the client can resolve (RFC 7252 §6.4).
    #[error("a fragment cannot be requested: leave out \"#\" and what follows")]
    Fragment,
    /// The port is invalid.
    #[error("the port {port:?} is not a number from 1 to 65535")]
    Port {
        /// The text of the port.
        port: String,
    },
    /// A percent-encoded component that is not UTF-8 when decoded.
    #[error("the {what} {part:?} does not decode to UTF-8")]
    NotUtf8 {
        /// The kind of component.
        what: &'static str,
        /// The component as written.
        part: String,
    },
    /// A component that exceeds the option's maximum length.
    #[error("a {what} of {length} bytes: at most {LONGEST_COMPONENT} are allowed")]
    TooLong {
        /// The kind of component.
        what: &'static str,
        /// Its decoded length in bytes.
        length: usize,
    },
}

impl UriError {
    pub(super) fn syntax(text: &str, error: ParseError) -> Self {
        let position = error.index();
        if let Some((_, port)) = port(text).filter(|(start, port)| (*start..*start + port.len()).contains(&position)) {
            return Self::Port { port: port.to_owned() };
        }
        let found = match text.get(position..).and_then(|rest| rest.chars().next()) {
            Some(character) => format!("unexpected {character:?}"),
            None => "unexpected end".to_owned(),
        };
        let before = text.get(..position).unwrap_or(text);
        let in_brackets = before.contains('[') && !before.contains(']');
        let has_bare_ipv6 =
            authority(text).is_some_and(|(_, host)| !host.contains('[') && host.matches(':').count() > 1);
        let hint = match error.kind() {
            _ if in_brackets => "an IPv6 address and \"]\" were expected after \"[\"",
            ParseErrorKind::InvalidIpv6Addr => "an IPv6 address was expected inside the brackets",
            ParseErrorKind::InvalidPctEncodedOctet => {
                "\"%\" must be followed by two hexadecimal digits; a percent sign itself is %25"
            }
            _ if has_bare_ipv6 => "an IPv6 address stands in brackets, as in coap://[2001:db8::1]/path",
            _ if !text.contains("://") => "it must look like coap://example.com/path",
            _ => "other characters than those of RFC 3986 must be percent-encoded, a space as %20",
        };
        Self::Syntax { found, position, hint }
    }
}

/// Returns host and port as written, and their position.
fn authority(text: &str) -> Option<(usize, &str)> {
    let start = text.find("://")? + "://".len();
    Some((start, text.get(start..)?.split(['/', '?', '#']).next()?))
}

/// Returns the text of the port and its position.
fn port(text: &str) -> Option<(usize, &str)> {
    let (start, authority) = authority(text)?;
    let colon = authority.rfind(':').filter(|colon| authority.rfind(']').is_none_or(|bracket| bracket < *colon))?;
    Some((start + colon + 1, authority.get(colon + 1..)?))
}

/// Allows a [`Uri`](super::Uri) where a conversion into one is accepted.
impl From<std::convert::Infallible> for UriError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
