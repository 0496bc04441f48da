//! From a request's path and method to its handler.

use std::collections::HashMap;
use std::net::SocketAddr;

use conche_proto::codec::{Code, ContentFormat, OptionNumber, OwnedMessage};
use thiserror::Error;

use super::handler::Answer;
use super::link::{self, Link};
use super::{Request, Resource, Response};

/// The resources of a server by path.
///
/// A route is an absolute path. A segment `{name}` matches any one segment, which the handler gets with
/// [`Path`](super::Path) or [`Request::captures`]; a literal segment is preferred where both match. Segments are compared
/// as they arrive in the Uri-Path options: an encoded slash does not separate any.
///
/// What no route matches is answered with 4.04, a method without a handler with 4.05, a payload beyond the limit with
/// 4.13. GET `/.well-known/core` lists the resources (RFC 6690), with filtering by query, unless there is a route for it.
///
/// ```
/// use conche::server::{Path, Router, get};
///
/// async fn read(Path(sensor): Path<u32>) -> String {
///     format!("sensor {sensor} is fine")
/// }
///
/// let router = Router::new().route("/sensors/{id}", get(read));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Router {
    root: Node,
    links: Vec<Link>,
    max_payload: usize,
    mistake: Option<RouteError>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    literals: HashMap<Box<[u8]>, Node>,
    capture: Option<Box<Node>>,
    resource: Option<Resource>,
}

/// What becomes of a request.
pub(crate) enum Dispatch {
    /// It is answered at once.
    Reply(Response),
    /// A handler answers it.
    Handle(Answer),
}

/// The well-known location of RFC 6690 §4.
const WELL_KNOWN: [&[u8]; 2] = [b".well-known", b"core"];

impl Router {
    /// A router without resources.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a resource. A route that is malformed or there already makes the server refuse to start.
    pub fn route(mut self, path: &str, resource: Resource) -> Self {
        if let Err(mistake) = self.insert(path, resource) {
            self.mistake.get_or_insert(mistake);
        }
        self
    }

    /// Answers larger payloads with 4.13. By default nothing is refused here: the largest message that the endpoint
    /// accepts is the limit.
    pub fn max_payload(self, bytes: usize) -> Self {
        Self { max_payload: bytes, ..self }
    }

    fn insert(&mut self, path: &str, resource: Resource) -> Result<(), RouteError> {
        let segments = parse(path)?;
        let node = segments.iter().fold(&mut self.root, |node, segment| match segment {
            Segment::Literal(text) => node.literals.entry(text.as_bytes().into()).or_default(),
            Segment::Capture => node.capture.get_or_insert_default(),
        });
        if node.resource.is_some() {
            return Err(RouteError::Duplicate { path: path.to_owned() });
        }
        // A target with a capture would be a URI template, which a link cannot have.
        let literal: Option<Vec<&str>> = segments.iter().map(Segment::literal).collect();
        if let Some(segments) = literal.filter(|_| resource.is_listed()) {
            self.links.push(Link::new(segments, resource.attributes().clone()));
        }
        node.resource = Some(resource);
        Ok(())
    }

    pub(crate) fn check(&self) -> Result<(), RouteError> {
        self.mistake.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn dispatch(&self, peer: SocketAddr, message: OwnedMessage) -> Dispatch {
        let method = message.code();
        let path: Vec<&[u8]> = message.values(OptionNumber::URI_PATH).collect();
        let mut captures = Vec::new();
        let Some(resource) = self.root.find(&path, &mut captures) else {
            let reply = if path == WELL_KNOWN { self.well_known(&message) } else { Response::new(Code::NOT_FOUND) };
            return Dispatch::Reply(reply);
        };
        let Some(handler) = resource.handler(method) else {
            return Dispatch::Reply(Response::new(Code::METHOD_NOT_ALLOWED));
        };
        if !resource.is_conditional() {
            let condition = [OptionNumber::IF_MATCH, OptionNumber::IF_NONE_MATCH];
            if let Some(option) = condition.into_iter().find(|option| message.option(*option).is_some()) {
                let message = format!("{option} is not supported by this resource");
                return Dispatch::Reply(Response::diagnostic(Code::BAD_OPTION, message));
            }
        }
        if message.payload().len() > self.max_payload {
            let limit = u32::try_from(self.max_payload).unwrap_or(u32::MAX);
            let reply = Response::new(Code::REQUEST_ENTITY_TOO_LARGE).uint(OptionNumber::SIZE1, limit);
            return Dispatch::Reply(reply);
        }
        Dispatch::Handle(handler(Request::new(peer, message, captures)))
    }

    fn well_known(&self, message: &OwnedMessage) -> Response {
        if message.code() != Code::GET {
            return Response::new(Code::METHOD_NOT_ALLOWED);
        }
        let document = link::document(&self.links, message.uri_queries());
        let response = Response::new(Code::CONTENT).payload(ContentFormat::LINK_FORMAT, document);
        match message.uint(OptionNumber::ACCEPT).and_then(|format| u16::try_from(format).ok()) {
            Some(accept) => response.accepted_as(ContentFormat(accept)),
            None => response,
        }
    }
}

impl Default for Router {
    fn default() -> Self {
        Self { root: Node::default(), links: Vec::new(), max_payload: usize::MAX, mistake: None }
    }
}

impl Node {
    /// The resource at this path. It goes no deeper than the routes do, however long the path is.
    fn find(&self, path: &[&[u8]], captures: &mut Vec<String>) -> Option<&Resource> {
        let Some((first, rest)) = path.split_first() else {
            return self.resource.as_ref();
        };
        if let Some(resource) = self.literals.get(*first).and_then(|node| node.find(rest, captures)) {
            return Some(resource);
        }
        let node = self.capture.as_ref()?;
        captures.push(std::str::from_utf8(first).ok()?.to_owned());
        let found = node.find(rest, captures);
        if found.is_none() {
            captures.pop();
        }
        found
    }
}

enum Segment<'a> {
    Literal(&'a str),
    Capture,
}

impl<'a> Segment<'a> {
    fn literal(&self) -> Option<&'a str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Capture => None,
        }
    }
}

fn parse(path: &str) -> Result<Vec<Segment<'_>>, RouteError> {
    let malformed = |hint| RouteError::Malformed { path: path.to_owned(), hint };
    let segments = path.strip_prefix('/').ok_or_else(|| malformed("it must begin with \"/\""))?;
    if segments.is_empty() {
        return Ok(Vec::new());
    }
    let segment = |text: &'_ str| match text.strip_prefix('{').map(|text| text.strip_suffix('}')) {
        Some(Some(name)) if !name.is_empty() && !name.contains(['{', '}']) => Ok(true),
        None if !text.contains(['{', '}']) => Ok(false),
        _ => Err(malformed("braces must enclose a whole segment, as in \"/sensors/{id}\"")),
    };
    segments
        .split('/')
        .map(|text| segment(text).map(|capture| if capture { Segment::Capture } else { Segment::Literal(text) }))
        .collect()
}

/// A route that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The path cannot be read.
    #[error("the route {path:?} is malformed: {hint}")]
    Malformed {
        /// The path.
        path: String,
        /// What would be right.
        hint: &'static str,
    },
    /// Another route matches the same paths.
    #[error("the route {path:?} is there twice: give one resource all the methods, as in get(f).put(g)")]
    Duplicate {
        /// The path that was added last.
        path: String,
    },
}

#[cfg(test)]
mod tests;
