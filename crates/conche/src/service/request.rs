//! [`Request`]: a request for a handler.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use conche_proto::codec::{Body, Code, ContentFormat, MessageId, OptionNumber, OwnedMessage, Token, Type};

use super::extract::Rest;
use super::routing::{Captured, Captures};
use crate::address::Address;
use crate::driver::ServiceRequest;
use crate::uri::Uri;

/// A request with its whole payload.
#[derive(Clone)]
pub struct Request {
    peer: SocketAddr,
    message: OwnedMessage,
    captures: Captures,
    extensions: Vec<Arc<dyn Any + Send + Sync>>,
    notification: bool,
    /// Whether it came in a DTLS session.
    secured: bool,
}

impl Request {
    /// Returns a request from this peer.
    #[must_use]
    pub fn new(peer: SocketAddr, message: OwnedMessage) -> Self {
        Self { peer, message, captures: Captures::new(), extensions: Vec::new(), notification: false, secured: false }
    }

    /// Builds a request for tests of a [`Router`](super::Router). `None` if the code is no method.
    #[must_use]
    pub fn from_body(peer: SocketAddr, method: Code, body: &Body) -> Option<Self> {
        let message = OwnedMessage::encode(Type::Confirmable, method, MessageId(0), &Token::EMPTY, body);
        Some(Self::new(peer, message.filter(|_| method.is_request())?))
    }

    /// Whether a [`Notifier`](super::Notifier) makes this request for all accepted observers.
    #[must_use]
    pub fn is_for_observers(&self) -> bool {
        self.notification
    }

    /// Returns the sender's source address, which may be forged.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        Address::from(self.peer).canonical()
    }

    /// Returns the URI at which the sender can be reached: `coap` or `coaps`, its address and port,
    /// and no path. `None` for source port 0 and if the request [runs for
    /// observers](Self::is_for_observers).
    ///
    /// A NAT may change the mapping of the address later.
    #[must_use]
    pub fn reply_uri(&self) -> Option<Uri> {
        let scheme = if self.secured { "coaps" } else { "coap" };
        let uri = (!self.notification).then(|| format!("{scheme}://{}", self.peer()));
        uri.and_then(|uri| uri.parse().ok())
    }

    /// Returns the method, such as [`Code::GET`].
    #[must_use]
    pub fn method(&self) -> Code {
        self.message.code()
    }

    /// Returns the whole message.
    #[must_use]
    pub fn message(&self) -> &OwnedMessage {
        &self.message
    }

    /// Returns the payload, which may be empty.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.message.payload()
    }

    /// Returns the payload without copying, which keeps the whole message in memory.
    #[must_use]
    pub fn into_payload(self) -> Bytes {
        self.message.payload_bytes()
    }

    /// Returns the Content-Format of the payload.
    #[must_use]
    pub fn content_format(&self) -> Option<ContentFormat> {
        self.format(OptionNumber::CONTENT_FORMAT)
    }

    /// Returns the Accept option: the wanted Content-Format.
    #[must_use]
    pub fn accept(&self) -> Option<ContentFormat> {
        self.format(OptionNumber::ACCEPT)
    }

    fn format(&self, number: OptionNumber) -> Option<ContentFormat> {
        self.message.uint(number).and_then(|format| u16::try_from(format).ok()).map(ContentFormat)
    }

    /// Returns the query arguments, in order, with U+FFFD for invalid UTF-8.
    pub fn queries(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.message.uri_queries()
    }

    /// Returns the values of the route's `{…}` segments, in order.
    pub fn captures(&self) -> impl ExactSizeIterator<Item = Capture<'_>> {
        self.captures.iter().map(|captured| Capture { message: &self.message, captured: *captured })
    }

    pub(super) fn set_captures(&mut self, captures: Captures) {
        self.captures = captures;
    }

    /// Returns the value of this type that a layer attached with [`extend`](Self::extend).
    #[must_use]
    pub fn extension<T: Any>(&self) -> Option<&T> {
        self.extensions.iter().rev().find_map(|extension| extension.downcast_ref())
    }

    /// Attaches a value for inner layers and the handler, extracted by
    /// [`Extension`](super::Extension). It hides an earlier value of its type.
    pub fn extend(&mut self, value: impl Any + Send + Sync) {
        self.extensions.push(Arc::new(value));
    }
}

impl From<ServiceRequest> for Request {
    fn from(request: ServiceRequest) -> Self {
        let ServiceRequest { from, secured, message, rest, identity, is_for_observers } = request;
        let mut request = Self { notification: is_for_observers, secured, ..Self::new(from, message) };
        if let Some(identity) = identity {
            request.extend(identity);
        }
        if let Some(rest) = rest {
            request.extend(Rest::new(rest));
        }
        request
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.message, self.peer())
    }
}

/// The value of one `{…}` segment of a route.
#[derive(Clone, Copy)]
pub struct Capture<'a> {
    message: &'a OwnedMessage,
    captured: Captured,
}

impl<'a> Capture<'a> {
    /// Returns the segments: one for `{name}`, at least one for `{*name}`.
    pub fn segments(self) -> impl Iterator<Item = &'a str> {
        let most = if self.captured.rest { usize::MAX } else { 1 };
        let values = self.message.values(OptionNumber::URI_PATH).skip(self.captured.first).take(most);
        // The router matches only UTF-8.
        values.map(|value| std::str::from_utf8(value).unwrap_or_default())
    }

    /// Returns the value as one text: for `{*name}`, the segments joined by slashes, with slashes
    /// and percent signs inside a segment percent-encoded.
    #[must_use]
    pub fn text(self) -> Cow<'a, str> {
        let mut segments = self.segments();
        let first = segments.next().unwrap_or_default();
        if !self.captured.rest {
            return Cow::Borrowed(first);
        }
        let mut text = encoded(first);
        for segment in segments {
            let text = text.to_mut();
            text.push('/');
            text.push_str(&encoded(segment));
        }
        text
    }
}

fn encoded(segment: &str) -> Cow<'_, str> {
    match segment.contains(['%', '/']) {
        true => Cow::Owned(segment.replace('%', "%25").replace('/', "%2F")),
        false => Cow::Borrowed(segment),
    }
}

impl fmt::Debug for Capture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.segments()).finish()
    }
}
