//! `coap` and `coaps` URIs (RFC 7252 §6), decomposed by §6.4.
//!
//! As an extension, an address may have a zone: `coap://[fe80::1%eth0]/` (RFC 9844, for user
//! interfaces) or with `%25` (RFC 6874).

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use conche_proto::codec::{Body, BodyBuilder, BuildError, OptionNumber};
use fluent_uri::component::Host as ParsedHost;
use fluent_uri::pct_enc::{EStr, Encoder};
use fluent_uri::{ParseError, ParseErrorKind};
use thiserror::Error;

/// Default port of `coap` URIs (RFC 7252 §6.1).
pub const DEFAULT_PORT: u16 = 5683;

/// Default port of `coaps` URIs (RFC 7252 §6.2).
pub const DEFAULT_SECURED_PORT: u16 = 5684;

/// Bytes of a path segment, query argument or host name (RFC 7252 §5.10).
const LONGEST_COMPONENT: usize = 255;

/// A valid `coap` or `coaps` URI, percent-decoded. Clones are cheap: keep one to repeat requests.
///
/// ```
/// use conche::Uri;
///
/// let uri: Uri = "coap://[2001:db8::1]/sensors/caf%C3%A9?unit=K".parse()?;
/// assert_eq!(uri.port(), 5683);
/// assert_eq!(uri.segments(), ["sensors", "café"]);
/// assert_eq!(uri.queries(), ["unit=K"]);
/// # Ok::<(), conche::UriError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uri(Arc<Parts>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Parts {
    text: String,
    secured: bool,
    server_name: Option<Arc<str>>,
    host: Host,
    port: u16,
    segments: Vec<String>,
    queries: Vec<String>,
    /// Invalid options (`None`) are reported on send.
    body: Option<Body>,
}

/// The host of a URI.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Host {
    /// An IP address; sent without Uri-Host.
    Address(IpAddr),
    /// An address with a zone, valid on one link.
    Scoped {
        /// The address.
        address: Ipv6Addr,
        /// The interface's name or index.
        zone: String,
    },
    /// A name to resolve, in lower case; sent as Uri-Host.
    Name(String),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Scoped { address, zone } => write!(f, "{address}%{zone}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Uri {
    /// Returns the host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Whether the scheme is `coaps`, which uses DTLS (RFC 7252 §9).
    #[must_use]
    pub fn is_secured(&self) -> bool {
        self.0.secured
    }

    /// Returns the name that the server's certificate must contain (RFC 7252 §9.1.3.3): the host
    /// without a zone. `None` for `coap`.
    #[must_use]
    pub fn server_name(&self) -> Option<Arc<str>> {
        self.0.server_name.clone()
    }

    /// Returns the UDP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self.host() {
            Host::Address(address) => Some(SocketAddr::new(*address, self.port())),
            _ => None,
        }
    }

    /// Returns the path segments: none for `/`, an empty last one for a trailing slash.
    #[must_use]
    pub fn segments(&self) -> &[String] {
        &self.0.segments
    }

    /// Returns the query arguments.
    #[must_use]
    pub fn queries(&self) -> &[String] {
        &self.0.queries
    }

    /// Returns the URI as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Adds the options of this URI (RFC 7252 §6.4): Uri-Host only for a name, and no Uri-Port,
    /// which is the destination's.
    #[must_use]
    pub fn options(&self, body: BodyBuilder) -> BodyBuilder {
        options(&self.0.host, &self.0.segments, &self.0.queries, body)
    }

    pub(crate) fn body(&self, others: BodyBuilder) -> Result<Body, BuildError> {
        match &self.0.body {
            Some(body) if others.is_empty() => Ok(body.clone()),
            _ => self.options(others).build(),
        }
    }
}

fn options(host: &Host, segments: &[String], queries: &[String], mut body: BodyBuilder) -> BodyBuilder {
    if let Host::Name(name) = host {
        body = body.option(OptionNumber::URI_HOST, name.as_bytes());
    }
    let body = segments.iter().fold(body, |body, segment| body.segment(segment));
    queries.iter().fold(body, |body, argument| body.query(argument))
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        if let Some(proposal) = with_scheme(text) {
            return Err(UriError::NoScheme { proposal });
        }
        let (plain, zone) = take_zone(text);
        let uri = fluent_uri::Uri::parse(&*plain).map_err(|error| UriError::syntax(&plain, error))?;
        let secured = is_secured(uri.scheme().as_str())?;
        if uri.has_fragment() {
            return Err(UriError::Fragment);
        }
        let uri = uri.normalize();
        let authority = uri.authority().ok_or(UriError::NoHost)?;
        if authority.has_userinfo() {
            return Err(UriError::UserInfo);
        }
        let port = match authority.port() {
            Some(port) if !port.as_str().is_empty() => parse_port(port.as_str())?,
            _ if secured => DEFAULT_SECURED_PORT,
            _ => DEFAULT_PORT,
        };
        let host = match (authority.host_parsed(), zone) {
            (ParsedHost::Ipv6(address), Some(zone)) => Host::Scoped { address, zone },
            (ParsedHost::Ipv6(address), None) => Host::Address(address.into()),
            (ParsedHost::Ipv4(address), _) => Host::Address(address.into()),
            (ParsedHost::RegName(name), _) => Host::Name(host_name(name)?),
            _ => return Err(UriError::UnknownAddressKind { host: authority.host().to_owned() }),
        };
        let segments = match uri.path().segments_if_absolute() {
            Some(segments) if uri.path().as_str() != "/" => decode_all("path segment", segments)?,
            _ => Vec::new(),
        };
        let queries = match uri.query() {
            Some(query) => decode_all("query argument", query.split('&'))?,
            None => Vec::new(),
        };
        let name = || match &host {
            Host::Scoped { address, .. } => address.to_string().into(),
            host => host.to_string().into(),
        };
        let server_name = secured.then(name);
        let body = options(&host, &segments, &queries, BodyBuilder::new()).build().ok();
        Ok(Self(Arc::new(Parts { text: text.to_owned(), secured, server_name, host, port, segments, queries, body })))
    }
}

/// RFC 3986 does not allow a zone.
fn take_zone(text: &str) -> (Cow<'_, str>, Option<String>) {
    let parts = || {
        let (before, rest) = text.split_once("://[")?;
        let (inside, after) = rest.split_once(']')?;
        let (address, zone) = inside.split_once('%')?;
        let zone = zone.strip_prefix("25").filter(|zone| !zone.is_empty()).unwrap_or(zone);
        (!zone.is_empty() && !before.contains('/')).then(|| (format!("{before}://[{address}]{after}"), zone.to_owned()))
    };
    match parts() {
        Some((plain, zone)) => (plain.into(), Some(zone)),
        None => (text.into(), None),
    }
}

/// For a text without a scheme: `localhost:5683` parses with the scheme `localhost`.
fn with_scheme(text: &str) -> Option<String> {
    let is_coap = text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("coap"));
    if text.contains("://") || is_coap && text.contains(':') {
        return None;
    }
    let proposal = format!("coap://{}", text.trim_start_matches('/'));
    proposal.parse::<Uri>().is_ok().then_some(proposal)
}

fn is_secured(scheme: &str) -> Result<bool, UriError> {
    if scheme.eq_ignore_ascii_case("coap") {
        return Ok(false);
    }
    match scheme.to_ascii_lowercase().as_str() {
        "coaps" => Ok(true),
        scheme @ ("coap+tcp" | "coaps+tcp" | "coap+ws" | "coaps+ws") => {
            Err(UriError::NotYetSupported { scheme: scheme.to_owned() })
        }
        scheme => Err(UriError::Scheme { scheme: scheme.to_owned() }),
    }
}

fn parse_port(port: &str) -> Result<u16, UriError> {
    match port.parse() {
        Ok(0) | Err(_) => Err(UriError::Port { port: port.to_owned() }),
        Ok(port) => Ok(port),
    }
}

fn host_name<E: Encoder>(name: &EStr<E>) -> Result<String, UriError> {
    let name = decode("host name", name)?;
    if is_number(&name) {
        return Err(UriError::Number { host: name });
    }
    if name.is_empty() { Err(UriError::NoHost) } else { Ok(name.to_ascii_lowercase()) }
}

/// Whether a resolver treats the name as an IPv4 address, such as `127.1`, `0x7f.1` or
/// `2130706433`. No DNS name ends this way (URL standard, "ends in a number").
fn is_number(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or_default();
    let digits = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    match digits {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

fn decode_all<'a, E: Encoder>(
    what: &'static str,
    parts: impl Iterator<Item = &'a EStr<E>>,
) -> Result<Vec<String>, UriError> {
    parts.map(|part| decode(what, part)).collect()
}

fn decode<E: Encoder>(what: &'static str, part: &EStr<E>) -> Result<String, UriError> {
    let text =
        part.decode().to_string().map_err(|_| UriError::NotUtf8 { what, part: part.as_str().to_owned() })?.into_owned();
    if text.len() > LONGEST_COMPONENT {
        return Err(UriError::TooLong { what, length: text.len() });
    }
    Ok(text)
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl TryFrom<&str> for Uri {
    type Error = UriError;

    fn try_from(text: &str) -> Result<Self, UriError> {
        text.parse()
    }
}

impl TryFrom<&String> for Uri {
    type Error = UriError;

    fn try_from(text: &String) -> Result<Self, UriError> {
        text.parse()
    }
}

impl TryFrom<String> for Uri {
    type Error = UriError;

    fn try_from(text: String) -> Result<Self, UriError> {
        text.parse()
    }
}

impl From<&Uri> for Uri {
    fn from(uri: &Uri) -> Self {
        uri.clone()
    }
}

/// Reason why a text is not a usable URI.
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
    /// An IPv4 address in a form that only some implementations accept.
    #[error("the host {host:?} is no name, and an IPv4 address is written as four decimal numbers, as 127.0.0.1")]
    Number {
        /// The host.
        host: String,
    },
    /// The URI has a user name.
    #[error("a coap URI has no user name: leave out what stands before the \"@\"")]
    UserInfo,
    /// The URI has a fragment, which only the client resolves (RFC 7252 §6.4).
    #[error("a fragment cannot be requested: leave out \"#\" and what follows")]
    Fragment,
    /// The port is invalid.
    #[error("the port {port:?} is not a number from 1 to 65535")]
    Port {
        /// The text of the port.
        port: String,
    },
    /// A component does not decode to UTF-8.
    #[error("the {what} {part:?} does not decode to UTF-8")]
    NotUtf8 {
        /// The kind of component.
        what: &'static str,
        /// The component as written.
        part: String,
    },
    /// A component exceeds the option's maximum length.
    #[error("a {what} of {length} bytes: at most {LONGEST_COMPONENT} are allowed")]
    TooLong {
        /// The kind of component.
        what: &'static str,
        /// Decoded length in bytes.
        length: usize,
    },
}

impl UriError {
    fn syntax(text: &str, error: ParseError) -> Self {
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

fn authority(text: &str) -> Option<(usize, &str)> {
    let start = text.find("://")? + "://".len();
    Some((start, text.get(start..)?.split(['/', '?', '#']).next()?))
}

fn port(text: &str) -> Option<(usize, &str)> {
    let (start, authority) = authority(text)?;
    let colon = authority.rfind(':').filter(|colon| authority.rfind(']').is_none_or(|bracket| bracket < *colon))?;
    Some((start + colon + 1, authority.get(colon + 1..)?))
}

impl From<std::convert::Infallible> for UriError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests;
