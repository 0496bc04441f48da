//! What can be wrong with a URI.

use fluent_uri::{ParseError, ParseErrorKind};
use thiserror::Error;

use super::LONGEST_COMPONENT;

/// Why a text is no URI that a request can be sent to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UriError {
    /// Not a URI.
    #[error("{found} at position {position} of the URI: {hint}")]
    Syntax {
        /// What stands there.
        found: String,
        /// Where, in bytes from 0.
        position: usize,
        /// What would be right.
        hint: &'static str,
    },
    /// What stands before the host is missing.
    #[error("the URI has no scheme: write {proposal}")]
    NoScheme {
        /// The URI that was probably meant.
        proposal: String,
    },
    /// A scheme that is not CoAP's.
    #[error("the URI's scheme is {scheme:?}: it must be \"coap\" or \"coaps\", as in coap://example.com/path")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// A scheme of CoAP over something else than UDP, be it with DTLS.
    #[error("{scheme}:// is not yet supported: only coap:// and coaps:// are")]
    NotYetSupported {
        /// The scheme.
        scheme: String,
    },
    /// There is no host.
    #[error("the URI names no host: it must look like coap://example.com/path")]
    NoHost,
    /// An IP address of a version that has no meaning yet.
    #[error("the host {host} is neither a name, an IPv4 address nor an IPv6 address in brackets")]
    UnknownAddressKind {
        /// The host.
        host: String,
    },
    /// An address of IPv4 in a spelling that only some take for one.
    #[error("the host {host:?} is no name, and an IPv4 address is written as four decimal numbers, as 127.0.0.1")]
    Number {
        /// The host.
        host: String,
    },
    /// There is a user name.
    #[error("a coap URI has no user name: leave out what stands before the \"@\"")]
    UserInfo,
    /// There is a fragment, which names a part of the representation that only the client can find (RFC 7252 §6.4).
    #[error("a fragment cannot be requested: leave out \"#\" and what follows")]
    Fragment,
    /// A port that is none.
    #[error("the port {port:?} is not a number from 1 to 65535")]
    Port {
        /// What stands in the port's place.
        port: String,
    },
    /// A percent-encoded component that is not UTF-8 once decoded.
    #[error("the {what} {part:?} does not decode to UTF-8")]
    NotUtf8 {
        /// Which component.
        what: &'static str,
        /// The component as written.
        part: String,
    },
    /// A component that no option can hold.
    #[error("a {what} of {length} bytes: at most {LONGEST_COMPONENT} are allowed")]
    TooLong {
        /// Which component.
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

/// Host and port as written, and where they begin.
fn authority(text: &str) -> Option<(usize, &str)> {
    let start = text.find("://")? + "://".len();
    Some((start, text.get(start..)?.split(['/', '?', '#']).next()?))
}

/// What stands in the place of the port, and where that begins.
fn port(text: &str) -> Option<(usize, &str)> {
    let (start, authority) = authority(text)?;
    let colon = authority.rfind(':').filter(|colon| authority.rfind(']').is_none_or(|bracket| bracket < *colon))?;
    Some((start + colon + 1, authority.get(colon + 1..)?))
}

/// Lets a [`Uri`](super::Uri) stand where text that becomes one is taken.
impl From<std::convert::Infallible> for UriError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
