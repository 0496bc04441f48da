//! Dispatches requests through a [`Router`].

use std::sync::Arc;

use conche_proto::codec::{Code, ContentFormat, OptionNumber, OwnedMessage};
use smallvec::SmallVec;

use super::erased_handler::ErasedHandler;
use super::link;
use super::router::{Entry, Fallback, lesser};
use super::tree::Captures;
use super::validation::Validation;
use super::{Route, RouteError, Router};
use crate::driver::{Called, Observable, Service, ServiceRequest};
use crate::service::{HandlerFuture, Notifier, Request, Response};

/// The well-known location of RFC 6690 §4.
const WELL_KNOWN: [&[u8]; 2] = [b".well-known", b"core"];

/// The other way to write the path `/` (RFC 7252 §6.5).
const EMPTY_SEGMENT: [&[u8]; 1] = [b""];

impl Router {
    /// Returns the router as a service, for tests without a socket:
    ///
    /// ```
    /// use conche::Code;
    /// use conche::codec::Body;
    /// use conche::server::{Request, Router, get};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let router = Router::new().route("/hello", get(async || "world"));
    ///
    /// let peer = "192.0.2.1:5683".parse()?;
    /// let body = Body::builder().path("/hello").build()?;
    /// let request = Request::from_body(peer, Code::GET, &body).ok_or("GET is a method")?;
    /// let response = router.into_service()?.respond(request).await;
    /// assert_eq!((response.code(), response.payload_bytes()), (Code::CONTENT, &b"world"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If a route is invalid.
    pub fn into_service(self) -> Result<Route, RouteError> {
        let router = self.ready()?;
        Ok(Route::new(move |request| match router.handle(request) {
            Called::Ready(response) => HandlerFuture::ready(response),
            Called::Pending(answer) => answer,
        }))
    }

    /// Returns a validated router with all handlers built.
    pub(crate) fn ready(self) -> Result<Self, RouteError> {
        self.check()?;
        Ok(self.with_state(()))
    }

    fn handle(&self, mut request: Request) -> Called<Self> {
        let mut captures = Captures::new();
        let (handler, limit) = match self.find(request.message(), &mut captures) {
            Found::Entry(Entry { resource, max_payload, .. }) => match resource.handler(request.method()) {
                Some(handler) => (handler, *max_payload),
                None => return refuse(resource.others(), Code::METHOD_NOT_ALLOWED, request),
            },
            Found::Fallback(Fallback { handler, max_payload, .. }) => (handler, *max_payload),
            Found::WellKnown => return Called::Ready(self.well_known(&request)),
            Found::Nothing(layers) => return refuse(layers, Code::NOT_FOUND, request),
        };
        if let Some(refusal) = handler.refusal(&request) {
            return Called::Ready(refusal);
        }
        let validation = Validation::of(&request, handler.needs().has_conditions());
        if let Some(limit) = lesser(limit, self.max_payload).filter(|limit| request.payload().len() > *limit) {
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            return Called::Ready(Response::new(Code::REQUEST_ENTITY_TOO_LARGE).uint(OptionNumber::SIZE1, limit));
        }
        request.set_captures(captures);
        let answer = handler.call(request);
        Called::Pending(match validation {
            Some(validation) => HandlerFuture::begin(async move { validation.apply(answer.await) }),
            None => answer,
        })
    }

    fn find(&self, message: &OwnedMessage, captures: &mut Captures) -> Found<'_> {
        let mut path: SmallVec<[&[u8]; 8]> = message.values(OptionNumber::URI_PATH).collect();
        if path.as_slice() == EMPTY_SEGMENT {
            path.clear();
        }
        let entry = self.tree.find(&path, captures).and_then(|index| self.entries.get(index));
        // As for other routes, the literal path takes precedence over one that captures.
        if path.as_slice() == WELL_KNOWN && (entry.is_none() || !captures.is_empty()) {
            return Found::WellKnown;
        }
        if let Some(entry) = entry {
            return Found::Entry(entry);
        }
        match nearest(&self.fallbacks, &path) {
            Some(fallback) => Found::Fallback(fallback),
            None => Found::Nothing(nearest(&self.not_found_layers, &path).map(|fallback| &fallback.handler)),
        }
    }

    fn well_known(&self, request: &Request) -> Response {
        if request.method() != Code::GET {
            return Response::new(Code::METHOD_NOT_ALLOWED);
        }
        let links = self.entries.iter().filter_map(|entry| entry.link.as_ref());
        let document = link::document(links, request.queries());
        let response = Response::new(Code::CONTENT).payload(ContentFormat::LINK_FORMAT, document);
        let response = match request.accept() {
            Some(accept) => response.accepted_as(accept),
            None => response,
        };
        match Validation::of(request, false) {
            Some(validation) => validation.apply(response),
            None => response,
        }
    }
}

impl Service for Router {
    type Response = Response;
    type Future = HandlerFuture;

    fn call(&self, request: ServiceRequest) -> Called<Self> {
        self.handle(request.into())
    }

    fn observable(&self, message: &OwnedMessage) -> Option<&Arc<Observable<Response>>> {
        match self.find(message, &mut Captures::new()) {
            Found::Entry(entry) => entry.resource.notifier().map(Notifier::observable),
            _ => None,
        }
    }

    fn observables(&self) -> impl Iterator<Item = &Arc<Observable<Response>>> {
        self.entries.iter().filter_map(|entry| entry.resource.notifier()).map(Notifier::observable)
    }

    fn streams_any(&self) -> bool {
        let fallbacks = self.fallbacks.iter().map(|fallback| &fallback.handler);
        let handlers = self.entries.iter().flat_map(|entry| entry.resource.handlers());
        fallbacks.chain(handlers).any(|handler| handler.needs().takes_stream())
    }

    fn streams(&self, message: &OwnedMessage) -> bool {
        let handler = match self.find(message, &mut Captures::new()) {
            Found::Entry(entry) => entry.resource.handler(message.code()),
            Found::Fallback(fallback) => Some(&fallback.handler),
            Found::WellKnown | Found::Nothing(_) => None,
        };
        handler.is_some_and(|handler| handler.needs().takes_stream())
    }
}

/// Returns the fallback with the longest prefix of a path.
fn nearest<'a>(fallbacks: &'a [Fallback<()>], path: &[&[u8]]) -> Option<&'a Fallback<()>> {
    let around = fallbacks.iter().filter(|fallback| fallback.prefix.is_prefix_of(path));
    around.max_by_key(|fallback| fallback.prefix.segments.len())
}

/// Answers with a code, through layers if there are some.
fn refuse(layers: Option<&ErasedHandler<()>>, code: Code, request: Request) -> Called<Router> {
    layers.map_or_else(|| Called::Ready(Response::new(code)), |handler| Called::Pending(handler.call(request)))
}

/// Result of a path lookup.
enum Found<'a> {
    Entry(&'a Entry<()>),
    Fallback(&'a Fallback<()>),
    WellKnown,
    /// No route; with the layers for the 4.04, if any.
    Nothing(Option<&'a ErasedHandler<()>>),
}
