//! `coap` and `coaps` URIs (RFC 7252 §6): from text to a destination and options, by the steps of §6.4.
//!
//! One divergence, towards what users write: a zone (`coap://[fe80::1%eth0]/` as RFC 9844 lets user interfaces have it,
//! or with `%25` as RFC 6874 had it) is taken as part of the address.

mod error;

pub use error::UriError;

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use conche_proto::codec::{Body, BodyBuilder, BuildError, OptionNumber};
use fluent_uri::component::Host as ParsedHost;
use fluent_uri::pct_enc::{EStr, Encoder};

/// The port of `coap` URIs that name none (RFC 7252 §6.1).
pub const DEFAULT_PORT: u16 = 5683;

/// The port of `coaps` URIs that name none (RFC 7252 §6.2).
pub const DEFAULT_SECURED_PORT: u16 = 5684;

/// The longest path segment, query argument and host name in bytes (RFC 7252 §5.10).
const LONGEST_COMPONENT: usize = 255;

/// A checked `coap` or `coaps` URI, taken apart and percent-decoded. Clones share everything, so that a program that asks for the same again does
/// best to keep it.
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
    /// Its options, and nothing else, as they stand in a request; `None` if they make none, which whoever sends it is told.
    body: Option<Body>,
}

/// Whom a URI names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Host {
    /// An address, which the request need not repeat.
    Address(IpAddr),
    /// An address that means something on one link only.
    Scoped {
        /// The address.
        address: Ipv6Addr,
        /// The link: an interface's name or index.
        zone: String,
    },
    /// A name to be resolved, in lower case; it goes into the request as Uri-Host.
    Name(String),
}

/// As a resolver takes it.
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
    /// Whom it names.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Its scheme is `coaps`: what is asked goes through DTLS (RFC 7252 §9).
    #[must_use]
    pub fn is_secured(&self) -> bool {
        self.0.secured
    }

    /// What the certificate of its server must name (RFC 7252 §9.1.3.3), if it is secured: its host, without a zone.
    #[must_use]
    pub fn server_name(&self) -> Option<Arc<str>> {
        self.0.server_name.clone()
    }

    /// The UDP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Where to, if its host is an address.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self.host() {
            Host::Address(address) => Some(SocketAddr::new(*address, self.port())),
            _ => None,
        }
    }

    /// The path: no segment for `/`, an empty last one for a trailing slash.
    #[must_use]
    pub fn segments(&self) -> &[String] {
        &self.0.segments
    }

    /// The query's arguments.
    #[must_use]
    pub fn queries(&self) -> &[String] {
        &self.0.queries
    }

    /// The URI as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Adds the options that carry this URI (RFC 7252 §6.4): Uri-Host only for a name, never Uri-Port, since the request
    /// is sent to that very port.
    #[must_use]
    pub fn options(&self, body: BodyBuilder) -> BodyBuilder {
        options((&self.0.host, &self.0.segments, &self.0.queries), body)
    }

    /// The same, encoded; with nothing else to be sent, it is already.
    pub(crate) fn body(&self, others: BodyBuilder) -> Result<Body, BuildError> {
        match &self.0.body {
            Some(body) if others.is_empty() => Ok(body.clone()),
            _ => self.options(others).build(),
        }
    }
}

fn options((host, segments, queries): (&Host, &[String], &[String]), mut body: BodyBuilder) -> BodyBuilder {
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
        // A zone is nothing that others know.
        let name = || match &host {
            Host::Scoped { address, .. } => address.to_string().into(),
            host => host.to_string().into(),
        };
        let server_name = secured.then(name);
        let body = options((&host, &segments, &queries), BodyBuilder::new()).build().ok();
        Ok(Self(Arc::new(Parts { text: text.to_owned(), secured, server_name, host, port, segments, queries, body })))
    }
}

/// Splits the zone off a bracketed address, since RFC 3986 has no place for it.
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

/// The URI that a text without a scheme was probably meant to be. Without this look ahead, `localhost:5683` would have the
/// scheme `localhost`.
fn with_scheme(text: &str) -> Option<String> {
    let is_coap = text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("coap"));
    if text.contains("://") || is_coap && text.contains(':') {
        return None;
    }
    let proposal = format!("coap://{}", text.trim_start_matches('/'));
    proposal.parse::<Uri>().is_ok().then_some(proposal)
}

/// What a scheme asks for, if it is one of CoAP over UDP.
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

/// A resolver takes this for an address of IPv4, as inet_aton does of `127.1`, `0x7f.1` and `2130706433`: the same host under a name that
/// nothing compares with its address. No name in the DNS ends so (URL standard, "ends in a number").
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

#[cfg(test)]
mod tests;
