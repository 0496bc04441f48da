//! A request as a handler gets it.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use conche_proto::codec::{Code, ContentFormat, OptionNumber, OwnedMessage};

/// A request that arrived. Cloning it is cheap.
#[derive(Clone)]
pub struct Request(Arc<Inner>);

struct Inner {
    peer: SocketAddr,
    message: OwnedMessage,
    /// What the `{…}` segments of the route matched, in the order of the route.
    captures: Vec<String>,
}

impl Request {
    pub(super) fn new(peer: SocketAddr, message: OwnedMessage, captures: Vec<String>) -> Self {
        Self(Arc::new(Inner { peer, message, captures }))
    }

    /// Who sent it. Nothing but the source address vouches for this.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.0.peer.ip().to_canonical(), self.0.peer.port())
    }

    /// The method: [`Code::GET`], ….
    #[must_use]
    pub fn method(&self) -> Code {
        self.0.message.code()
    }

    /// The whole message.
    #[must_use]
    pub fn message(&self) -> &OwnedMessage {
        &self.0.message
    }

    /// The payload; empty if there is none.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.0.message.payload()
    }

    /// What the payload is.
    #[must_use]
    pub fn content_format(&self) -> Option<ContentFormat> {
        self.format(OptionNumber::CONTENT_FORMAT)
    }

    /// What the client wants the payload of the response to be.
    #[must_use]
    pub fn accept(&self) -> Option<ContentFormat> {
        self.format(OptionNumber::ACCEPT)
    }

    fn format(&self, number: OptionNumber) -> Option<ContentFormat> {
        self.0.message.uint(number).and_then(|format| u16::try_from(format).ok()).map(ContentFormat)
    }

    /// The arguments of the query, in order.
    pub fn queries(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.0.message.uri_queries()
    }

    /// The value of the query's first argument `key=value`; empty for a bare `key`.
    #[must_use]
    pub fn query(&self, key: &str) -> Option<String> {
        self.queries().find_map(|argument| match argument.split_once('=') {
            Some((name, value)) => (name == key).then(|| value.to_owned()),
            None => (argument == key).then(String::new),
        })
    }

    /// What the `{…}` segments of the route matched, in the order of the route.
    #[must_use]
    pub fn captures(&self) -> &[String] {
        &self.0.captures
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.0.message, self.peer())
    }
}
