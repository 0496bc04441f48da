//! What a handler can take as arguments: parts of the request, checked before the handler runs.

use std::net::SocketAddr;
use std::str::FromStr;

use conche_proto::codec::{Code, ContentFormat, OptionNumber};

use super::{Request, Response};

/// An argument of a handler.
pub trait Extract: Sized {
    /// Takes it out of the request, or answers the request with an error.
    ///
    /// # Errors
    /// The response to send instead of running the handler.
    fn extract(request: &Request) -> Result<Self, Response>;
}

/// The whole request.
impl Extract for Request {
    fn extract(request: &Request) -> Result<Self, Response> {
        Ok(request.clone())
    }
}

/// The payload's bytes, whatever they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload(pub Vec<u8>);

impl Extract for Payload {
    fn extract(request: &Request) -> Result<Self, Response> {
        Ok(Self(request.payload().to_vec()))
    }
}

/// The payload as text. Another Content-Format is answered with 4.15, what is not UTF-8 with 4.00.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

impl Extract for Text {
    fn extract(request: &Request) -> Result<Self, Response> {
        match request.content_format() {
            None | Some(ContentFormat::TEXT_PLAIN) => {}
            Some(ContentFormat(other)) => {
                let message = format!("Content-Format 0 (text/plain; charset=utf-8) is wanted, not {other}");
                return Err(Response::diagnostic(Code::UNSUPPORTED_CONTENT_FORMAT, message));
            }
        }
        match String::from_utf8(request.payload().to_vec()) {
            Ok(text) => Ok(Self(text)),
            Err(error) => Err(Response::diagnostic(Code::BAD_REQUEST, format!("the payload: {error}"))),
        }
    }
}

/// What the `N`-th `{…}` segment of the route matched, from 0, parsed. What does not parse names no resource: 4.04.
///
/// ```
/// use conche::server::Path;
///
/// // For the route "/floors/{floor}/rooms/{room}".
/// async fn show(Path(floor): Path<i8>, Path(room): Path<String, 1>) -> String {
///     format!("{room} on floor {floor}")
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path<T, const N: usize = 0>(pub T);

impl<T: FromStr, const N: usize> Extract for Path<T, N> {
    fn extract(request: &Request) -> Result<Self, Response> {
        let value = request.captures().get(N).and_then(|text| text.parse().ok());
        value.map(Self).ok_or_else(|| Response::new(Code::NOT_FOUND))
    }
}

/// An argument `key=value` of the query can be asked for by its key.
#[derive(Clone, Debug)]
pub struct Query(Request);

impl Query {
    /// The value of the first argument `key=value`; empty for a bare `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<String> {
        self.0.query(key)
    }

    /// The value of `key`, parsed.
    ///
    /// # Errors
    /// A 4.00 response if there is none or it does not parse.
    pub fn parse<T: FromStr>(&self, key: &str) -> Result<T, Response> {
        let value = self.get(key);
        value.as_deref().and_then(|value| value.parse().ok()).ok_or_else(|| {
            let found = value.map_or_else(|| "there is none".to_owned(), |value| format!("not {value:?}"));
            Response::diagnostic(Code::BAD_REQUEST, format!("query argument {key}=VALUE of another kind: {found}"))
        })
    }
}

impl Extract for Query {
    fn extract(request: &Request) -> Result<Self, Response> {
        Ok(Self(request.clone()))
    }
}

/// Who sent the request. Nothing but the source address vouches for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl Extract for Peer {
    fn extract(request: &Request) -> Result<Self, Response> {
        Ok(Self(request.peer()))
    }
}

/// The conditions of a conditional request (RFC 7252 §5.10.8). A resource that looks at them says so with
/// [`Resource::conditional`](super::Resource::conditional).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    if_match: Vec<Vec<u8>>,
    if_none_match: bool,
}

impl Conditions {
    /// Whether they hold for a resource that now has this ETag, or does not exist.
    ///
    /// # Errors
    /// A 4.12 response if they do not.
    pub fn check(&self, etag: Option<&[u8]>) -> Result<(), Response> {
        // An empty If-Match asks whether the resource exists at all.
        let wanted = |tag: &Vec<u8>| etag.is_some_and(|etag| tag.is_empty() || tag == etag);
        let matches = self.if_match.is_empty() || self.if_match.iter().any(wanted);
        let exists_against_will = self.if_none_match && etag.is_some();
        if matches && !exists_against_will { Ok(()) } else { Err(Response::new(Code::PRECONDITION_FAILED)) }
    }
}

impl Extract for Conditions {
    fn extract(request: &Request) -> Result<Self, Response> {
        let message = request.message();
        Ok(Self {
            if_match: message.values(OptionNumber::IF_MATCH).map(<[u8]>::to_vec).collect(),
            if_none_match: message.option(OptionNumber::IF_NONE_MATCH).is_some(),
        })
    }
}
