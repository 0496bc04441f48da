//! A request as a handler gets it.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use conche_proto::codec::{Body, Code, ContentFormat, MessageId, OptionNumber, OwnedMessage, Token, Type};

use super::routing::{Captured, Captures};
use crate::driver::Address;

/// A request that arrived, with all of its payload.
#[derive(Clone)]
pub struct Request {
    peer: SocketAddr,
    message: OwnedMessage,
    captures: Captures,
    extensions: Vec<Arc<dyn Any + Send + Sync>>,
    notification: bool,
}

impl Request {
    /// A request that arrived from this peer.
    #[must_use]
    pub fn new(peer: SocketAddr, message: OwnedMessage) -> Self {
        Self { peer, message, captures: Captures::new(), extensions: Vec::new(), notification: false }
    }

    /// A request as a test of a [`Router`](super::Router) needs one, of these options and this payload. `None` if the
    /// code is not that of a method.
    #[must_use]
    pub fn from_body(peer: SocketAddr, method: Code, body: &Body) -> Option<Self> {
        let message = OwnedMessage::encode(Type::Confirmable, method, MessageId(0), &Token::EMPTY, body);
        Some(Self::new(peer, message.filter(|_| method.is_request())?))
    }

    /// The same request, asked by a notifier.
    pub(crate) fn into_notification(self) -> Self {
        Self { notification: true, ..self }
    }

    /// No client asks this now, but a [`Notifier`](super::Notifier), for all clients that observe the resource and were
    /// allowed to.
    #[must_use]
    pub fn is_for_observers(&self) -> bool {
        self.notification
    }

    /// Who sent it. Nothing but the source address vouches for this.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        Address::from(self.peer).canonical()
    }

    /// The method: [`Code::GET`], ….
    #[must_use]
    pub fn method(&self) -> Code {
        self.message.code()
    }

    /// The whole message.
    #[must_use]
    pub fn message(&self) -> &OwnedMessage {
        &self.message
    }

    /// The payload; empty if there is none.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.message.payload()
    }

    /// The payload, not copied: it keeps the message that it stands in.
    #[must_use]
    pub fn into_payload(self) -> Bytes {
        self.message.payload_bytes()
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
        self.message.uint(number).and_then(|format| u16::try_from(format).ok()).map(ContentFormat)
    }

    /// The arguments of the query, in order. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub fn queries(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.message.uri_queries()
    }

    /// What the `{…}` segments of the route matched, in the order of the route.
    pub fn captures(&self) -> impl ExactSizeIterator<Item = Capture<'_>> {
        self.captures.iter().map(|captured| Capture { message: &self.message, captured: *captured })
    }

    pub(super) fn set_captures(&mut self, captures: Captures) {
        self.captures = captures;
    }

    /// What a layer has attached to the request with [`extend`](Self::extend).
    #[must_use]
    pub fn extension<T: Any>(&self) -> Option<&T> {
        self.extensions.iter().rev().find_map(|extension| extension.downcast_ref())
    }

    /// Attaches a value for the layers and the handler that follow, which take it out with
    /// [`Extension`](super::Extension). It hides an earlier one of the same type.
    pub fn extend(&mut self, value: impl Any + Send + Sync) {
        self.extensions.push(Arc::new(value));
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.message, self.peer())
    }
}

/// What one `{…}` segment of the route matched.
#[derive(Clone, Copy)]
pub struct Capture<'a> {
    message: &'a OwnedMessage,
    captured: Captured,
}

impl<'a> Capture<'a> {
    /// The segments: one for `{name}`, one or more for `{*name}`.
    pub fn segments(self) -> impl Iterator<Item = &'a str> {
        let most = if self.captured.rest { usize::MAX } else { 1 };
        let values = self.message.values(OptionNumber::URI_PATH).skip(self.captured.first).take(most);
        // The router matches nothing else than UTF-8.
        values.map(|value| std::str::from_utf8(value).unwrap_or_default())
    }

    /// As one text: that of `{name}` as it is; the segments of `{*name}` with a slash between them, in which a slash or
    /// percent sign of their own is percent-encoded, so that different segments give different texts.
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
