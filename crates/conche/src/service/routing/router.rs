//! [`Router`]: resources by path.

use std::fmt;
use std::sync::Arc;

use conche_proto::codec::link_format::LinkWriteError;
use conche_proto::codec::{Code, ContentFormat, OptionNumber, OwnedMessage};
use smallvec::SmallVec;
use thiserror::Error;
use tower_layer::Layer;

use super::pattern::{Captures, Node, Pattern, Segment};
use super::resource::{Link, document};
use super::route::ErasedHandler;
use super::{RequestService, Resource, Route};
use crate::driver::{CallResult, Observable, Service, ServiceRequest};
use crate::service::extract::Conditions;
use crate::service::handler::Handler;
use crate::service::{HandlerFuture, Notifier, Request, Response};

/// The resources of a server by path.
///
/// A route is an absolute path. A segment `{name}` matches any one segment, and a last segment
/// `{*name}` all remaining ones, at least one; [`Path`](crate::server::Path) has their values.
/// Literal segments precede `{name}`, and those `{*name}`. An encoded slash does not separate
/// segments; a trailing slash adds an empty one. `:name` and `*name`, the captures of other
/// libraries, are errors.
///
/// The router answers 4.04 for a path without a route or [`fallback`](Self::fallback), 4.05 for a
/// method without a handler, and 4.13 for a payload beyond the limit. For GET and FETCH, it
/// compares conditions with the handler's response, which becomes 4.12, or 2.03 for an ETag that
/// the client has. Handlers of other methods must take [`Conditions`]; otherwise the response is
/// 4.02. GET `/.well-known/core` lists the resources (RFC 6690), filtered by query, unless a route
/// without captures replaces it.
///
/// ```
/// use conche::server::{Path, Router, get};
///
/// async fn read(Path(sensor): Path<u32>) -> String {
///     format!("sensor {sensor} is fine")
/// }
///
/// let router: Router = Router::new().route("/sensors/{id}", get(read));
/// ```
///
/// `S` is the state that its handlers lack, provided by [`with_state`](Self::with_state).
#[must_use]
pub struct Router<S = ()> {
    pub(super) entries: Vec<Entry<S>>,
    pub(super) tree: Node,
    pub(super) fallbacks: Vec<Fallback<S>>,
    /// Layered 4.04 responses by prefix.
    pub(super) not_found_layers: Vec<Fallback<S>>,
    pub(super) max_payload: Option<usize>,
    mistake: Option<RouteError>,
}

pub(super) struct Entry<S> {
    pattern: Pattern,
    pub(super) resource: Resource<S>,
    pub(super) link: Option<Link>,
    /// The lowest limit of the enclosing routers.
    pub(super) max_payload: Option<usize>,
}

/// Handler of all unmatched paths below a prefix.
pub(super) struct Fallback<S> {
    pub(super) prefix: Pattern,
    pub(super) handler: ErasedHandler<S>,
    pub(super) max_payload: Option<usize>,
}

impl<S> Router<S> {
    /// Returns a router without resources.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            tree: Node::default(),
            fallbacks: Vec::new(),
            not_found_layers: Vec::new(),
            max_payload: None,
            mistake: None,
        }
    }

    /// Adds a resource. A malformed or duplicate route is reported when the server starts.
    pub fn route(self, path: &str, resource: Resource<S>) -> Self {
        self.attempt(|router| router.insert(Pattern::parse(path)?, resource, None))
    }

    /// Adds a resource, unless the application has one at this path.
    #[cfg(feature = "edhoc")]
    pub(crate) fn or_route(self, path: &str, resource: Resource<S>) -> Self {
        let is_there = self.entries.iter().any(|entry| entry.pattern.text == path);
        if is_there { self } else { self.route(path, resource) }
    }

    /// Adds another router's resources below a prefix, which replaces `/`. Captures of the prefix
    /// come first.
    ///
    /// Unmatched paths below the prefix go to its fallback, else to this router's, else become a
    /// 4.04 through its layers. The lower of both payload limits applies.
    ///
    /// ```
    /// use conche::server::{Path, Router, get};
    ///
    /// async fn name(Path((floor, room)): Path<(i8, String)>) -> String {
    ///     format!("{room} on floor {floor}")
    /// }
    ///
    /// let rooms = Router::new().route("/{room}", get(name));
    /// let router: Router = Router::new().nest("/floors/{floor}/rooms", rooms);
    /// ```
    pub fn nest(self, prefix: &str, router: Self) -> Self {
        self.attempt(|outer| {
            let parsed = Pattern::parse(prefix)?;
            let refused = |hint| Err(RouteError::Nest { prefix: prefix.to_owned(), hint });
            match parsed.segments.last() {
                None => return refused("use merge, which adds its resources where they are"),
                Some(Segment::Rest) => return refused("nothing can follow \"{*…}\""),
                Some(Segment::Literal(last)) if last.is_empty() => {
                    return refused("leave out the slash at the end");
                }
                Some(_) => {}
            }
            outer.absorb(router, Some(&parsed))
        })
    }

    /// Adds another router's resources at their own paths, with its payload limit.
    pub fn merge(self, router: Self) -> Self {
        self.attempt(|outer| outer.absorb(router, None))
    }

    /// Answers larger complete payloads with 4.13. Unlimited by default, beside the server's
    /// [`body_limit`](crate::server::ServerBuilder::body_limit).
    pub fn max_payload(self, bytes: usize) -> Self {
        Self { max_payload: Some(bytes), ..self }
    }

    fn attempt(mut self, change: impl FnOnce(&mut Self) -> Result<(), RouteError>) -> Self {
        if self.mistake.is_none() {
            self.mistake = change(&mut self).err();
        }
        self
    }

    fn absorb(&mut self, router: Self, prefix: Option<&Pattern>) -> Result<(), RouteError> {
        router.mistake.map_or(Ok(()), Err)?;
        let place = |pattern: Pattern| match prefix {
            Some(prefix) => pattern.below(prefix),
            None => pattern,
        };
        let limit = router.max_payload;
        for Entry { pattern, resource, max_payload, .. } in router.entries {
            self.insert(place(pattern), resource, lesser(max_payload, limit))?;
        }
        let at_place = |Fallback { prefix, handler, max_payload }| Fallback {
            prefix: place(prefix),
            handler,
            max_payload: lesser(max_payload, limit),
        };
        for fallback in router.fallbacks.into_iter().map(at_place) {
            self.add_fallback(fallback)?;
        }
        for fallback in router.not_found_layers.into_iter().map(at_place) {
            if !is_among(&self.not_found_layers, &fallback.prefix) {
                self.not_found_layers.push(fallback);
            }
        }
        Ok(())
    }

    fn insert(
        &mut self,
        pattern: Pattern,
        resource: Resource<S>,
        max_payload: Option<usize>,
    ) -> Result<(), RouteError> {
        let slot = self.tree.slot(&pattern.segments);
        if let Some(other) = slot.and_then(|index| self.entries.get(index)) {
            return Err(RouteError::Duplicate { path: pattern.text, other: other.pattern.text.clone() });
        }
        *slot = Some(self.entries.len());
        // A link cannot have a URI template.
        let literal: Option<Vec<&str>> = pattern.segments.iter().map(Segment::literal).collect();
        let link = literal.filter(|_| resource.is_listed());
        let link = link.map(|segments| Link::new(segments, resource.attributes())).transpose();
        let link = link.map_err(|problem| RouteError::Link { path: pattern.text.clone(), problem })?;
        self.entries.push(Entry { pattern, resource, link, max_payload });
        Ok(())
    }

    fn add_fallback(&mut self, fallback: Fallback<S>) -> Result<(), RouteError> {
        if is_among(&self.fallbacks, &fallback.prefix) {
            return Err(RouteError::Fallbacks { prefix: fallback.prefix.text });
        }
        self.fallbacks.push(fallback);
        Ok(())
    }

    pub(crate) fn check(&self) -> Result<(), RouteError> {
        self.mistake.clone().map_or(Ok(()), Err)?;
        for Entry { pattern, resource, .. } in &self.entries {
            resource.check(&pattern.text, pattern.captures())?;
        }
        for Fallback { prefix, handler, .. } in &self.fallbacks {
            if let Some(wanted) = handler.needs().wanted_captures() {
                return Err(RouteError::captures(None, &prefix.text, wanted, 0));
            }
        }
        Ok(())
    }
}

impl<S: Send + Sync + 'static> Router<S> {
    /// Answers unmatched paths, with any method, instead of 4.04. A nested router's applies below
    /// its prefix. [`Request::message`](crate::server::Request::message) has the path.
    pub fn fallback<Arguments>(self, handler: impl Handler<Arguments, S>) -> Self {
        self.attempt(|router| router.add_fallback(Fallback::everywhere(ErasedHandler::new(handler))))
    }

    /// Wraps all handlers added so far in a `tower` layer, including the fallback and the responses
    /// 4.04 and 4.05. Layers added later are outer.
    ///
    /// Each handler is wrapped separately: for a common concurrency limit use
    /// `tower::limit::GlobalConcurrencyLimitLayer`. The router's 4.02 and 4.13 and the list of
    /// resources bypass layers. Layers whose service fails require
    /// [`handle_error`](crate::server::handle_error).
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Route, Service: RequestService> + Clone + Send + Sync + 'static,
    {
        let fallback = Fallback::everywhere(ErasedHandler::always(Code::NOT_FOUND));
        if !is_among(&self.not_found_layers, &fallback.prefix) {
            self.not_found_layers.push(fallback);
        }
        self.map(|resource| resource.layer(layer.clone()), |handler| handler.layer(layer.clone()))
    }

    /// Provides the state of the handlers added so far, which [`State`](crate::server::State)
    /// extracts.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use conche::server::{Router, State, post};
    ///
    /// async fn count(State(count): State<Arc<AtomicU64>>) -> String {
    ///     count.fetch_add(1, Ordering::Relaxed).to_string()
    /// }
    ///
    /// let router: Router = Router::new().route("/count", post(count)).with_state(Arc::default());
    /// ```
    pub fn with_state<S2: Send + Sync + 'static>(self, state: S) -> Router<S2> {
        let state = Arc::new(state);
        self.map(|resource| resource.with_shared(&state), |handler| handler.with_state(&state))
    }

    fn map<S2>(
        self,
        mut resources: impl FnMut(Resource<S>) -> Resource<S2>,
        mut handlers: impl FnMut(ErasedHandler<S>) -> ErasedHandler<S2>,
    ) -> Router<S2> {
        let Self { entries, tree, fallbacks, not_found_layers, max_payload, mistake } = self;
        let entries = entries.into_iter().map(|entry| {
            let Entry { pattern, resource, link, max_payload } = entry;
            Entry { pattern, resource: resources(resource), link, max_payload }
        });
        let entries = entries.collect();
        let mut fallback =
            |Fallback { prefix, handler, max_payload }| Fallback { prefix, handler: handlers(handler), max_payload };
        let [fallbacks, not_found_layers] =
            [fallbacks, not_found_layers].map(|all| all.into_iter().map(&mut fallback).collect());
        Router { entries, tree, fallbacks, not_found_layers, max_payload, mistake }
    }
}

impl<S> Fallback<S> {
    fn everywhere(handler: ErasedHandler<S>) -> Self {
        let prefix = Pattern { text: "/".to_owned(), segments: Vec::new() };
        Self { prefix, handler, max_payload: None }
    }
}

fn is_among<S>(fallbacks: &[Fallback<S>], prefix: &Pattern) -> bool {
    fallbacks.iter().any(|other| other.prefix.segments == prefix.segments)
}

pub(super) fn lesser(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    one.into_iter().chain(other).min()
}

impl<S> Default for Router<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Clone for Router<S> {
    fn clone(&self) -> Self {
        let Self { entries, tree, fallbacks, not_found_layers, max_payload, mistake } = self;
        Self {
            entries: entries.clone(),
            tree: tree.clone(),
            fallbacks: fallbacks.clone(),
            not_found_layers: not_found_layers.clone(),
            max_payload: *max_payload,
            mistake: mistake.clone(),
        }
    }
}

impl<S> Clone for Entry<S> {
    fn clone(&self) -> Self {
        let Self { pattern, resource, link, max_payload } = self;
        Self { pattern: pattern.clone(), resource: resource.clone(), link: link.clone(), max_payload: *max_payload }
    }
}

impl<S> Clone for Fallback<S> {
    fn clone(&self) -> Self {
        let Self { prefix, handler, max_payload } = self;
        Self { prefix: prefix.clone(), handler: handler.clone(), max_payload: *max_payload }
    }
}

impl<S> fmt::Debug for Router<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routes = self.entries.iter().map(|entry| (&entry.pattern.text, &entry.resource));
        f.debug_map().entries(routes).finish()
    }
}

/// RFC 6690 §4.
const WELL_KNOWN: [&[u8]; 2] = [b".well-known", b"core"];

/// The path `/` in another form (RFC 7252 §6.5).
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
            CallResult::Ready(response) => HandlerFuture::ready(response),
            CallResult::Pending(answer) => answer,
        }))
    }

    pub(crate) fn ready(self) -> Result<Self, RouteError> {
        self.check()?;
        Ok(self.with_state(()))
    }

    fn handle(&self, mut request: Request) -> CallResult<Self> {
        let mut captures = Captures::new();
        let (handler, limit) = match self.find(request.message(), &mut captures) {
            Match::Entry(Entry { resource, max_payload, .. }) => match resource.handler(request.method()) {
                Some(handler) => (handler, *max_payload),
                None => return refuse(resource.others(), Code::METHOD_NOT_ALLOWED, request),
            },
            Match::Fallback(Fallback { handler, max_payload, .. }) => (handler, *max_payload),
            Match::WellKnown => return CallResult::Ready(self.well_known(&request)),
            Match::Nothing(layers) => return refuse(layers, Code::NOT_FOUND, request),
        };
        if let Some(refusal) = handler.refusal(&request) {
            return CallResult::Ready(refusal);
        }
        let validation = Validation::of(&request, handler.needs().has_conditions());
        if let Some(limit) = lesser(limit, self.max_payload).filter(|limit| request.payload().len() > *limit) {
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            return CallResult::Ready(Response::new(Code::REQUEST_ENTITY_TOO_LARGE).uint(OptionNumber::SIZE1, limit));
        }
        request.set_captures(captures);
        let answer = handler.call(request);
        CallResult::Pending(match validation {
            Some(validation) => HandlerFuture::begin(async move { validation.apply(answer.await) }),
            None => answer,
        })
    }

    fn find(&self, message: &OwnedMessage, captures: &mut Captures) -> Match<'_> {
        let mut path: SmallVec<[&[u8]; 8]> = message.values(OptionNumber::URI_PATH).collect();
        if path.as_slice() == EMPTY_SEGMENT {
            path.clear();
        }
        let entry = self.tree.find(&path, captures).and_then(|index| self.entries.get(index));
        if path.as_slice() == WELL_KNOWN && (entry.is_none() || !captures.is_empty()) {
            return Match::WellKnown;
        }
        if let Some(entry) = entry {
            return Match::Entry(entry);
        }
        match nearest(&self.fallbacks, &path) {
            Some(fallback) => Match::Fallback(fallback),
            None => Match::Nothing(nearest(&self.not_found_layers, &path).map(|fallback| &fallback.handler)),
        }
    }

    fn well_known(&self, request: &Request) -> Response {
        if request.method() != Code::GET {
            return Response::new(Code::METHOD_NOT_ALLOWED);
        }
        let links = self.entries.iter().filter_map(|entry| entry.link.as_ref());
        let text = document(links, request.queries());
        let response = Response::new(Code::CONTENT).payload(ContentFormat::LINK_FORMAT, text);
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

    fn call(&self, request: ServiceRequest) -> CallResult<Self> {
        self.handle(request.into())
    }

    fn observable(&self, message: &OwnedMessage) -> Option<&Arc<Observable<Response>>> {
        match self.find(message, &mut Captures::new()) {
            Match::Entry(entry) => entry.resource.notifier().map(Notifier::observable),
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
            Match::Entry(entry) => entry.resource.handler(message.code()),
            Match::Fallback(fallback) => Some(&fallback.handler),
            Match::WellKnown | Match::Nothing(_) => None,
        };
        handler.is_some_and(|handler| handler.needs().takes_stream())
    }
}

fn nearest<'a>(fallbacks: &'a [Fallback<()>], path: &[&[u8]]) -> Option<&'a Fallback<()>> {
    let around = fallbacks.iter().filter(|fallback| fallback.prefix.is_prefix_of(path));
    around.max_by_key(|fallback| fallback.prefix.segments.len())
}

fn refuse(layers: Option<&ErasedHandler<()>>, code: Code, request: Request) -> CallResult<Router> {
    layers.map_or_else(|| CallResult::Ready(Response::new(code)), |handler| CallResult::Pending(handler.call(request)))
}

enum Match<'a> {
    Entry(&'a Entry<()>),
    Fallback(&'a Fallback<()>),
    WellKnown,
    Nothing(Option<&'a ErasedHandler<()>>),
}

/// Conditions and ETags of a GET or FETCH (RFC 7252 §5.10.6.2, §5.10.8).
pub(super) struct Validation {
    conditions: Conditions,
    known: Vec<Vec<u8>>,
}

impl Validation {
    /// Returns `None` without conditions or ETags, or if the handler checks them.
    pub(super) fn of(request: &Request, handler_looks: bool) -> Option<Self> {
        let message = request.message();
        let depends =
            |number| matches!(number, OptionNumber::IF_MATCH | OptionNumber::IF_NONE_MATCH | OptionNumber::ETAG);
        if !request.method().is_safe() || !message.content().options().any(|option| depends(option.number)) {
            return None;
        }
        let conditions = if handler_looks { Conditions::default() } else { Conditions::of(request) };
        let known = message.values(OptionNumber::ETAG).map(<[u8]>::to_vec).collect();
        Some(Self { conditions, known })
    }

    /// Returns 4.12 if a condition fails, 2.03 if the client has this representation.
    pub(super) fn apply(self, response: Response) -> Response {
        let tag = response.option_value(OptionNumber::ETAG).unwrap_or_default();
        let current = match response.code() {
            Code::NOT_FOUND => None,
            code if code.is_success() => Some(tag),
            // An error reveals nothing about the representation.
            _ => return response,
        };
        if let Err(rejection) = self.conditions.check(current) {
            return rejection.into();
        }
        let is_known = !tag.is_empty() && self.known.iter().any(|known| known == tag);
        if response.code() == Code::CONTENT && is_known { response.into_valid() } else { response }
    }
}

/// An invalid route, reported when the server starts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The path is malformed.
    #[error("the route {path:?} is malformed: {hint}")]
    Malformed {
        /// The path.
        path: String,
        /// The expected syntax.
        hint: &'static str,
    },
    /// Another route matches the same paths.
    #[error("the route {path:?} is there twice{}: give one resource all the methods, as in get(f).put(g)", first(.path, .other))]
    Duplicate {
        /// The path that was added last.
        path: String,
        /// The path that was added first; its captures may have other names.
        other: String,
    },
    /// A method has more than one handler.
    #[error("the route {path:?} has two handlers for {method}: leave out one of them")]
    Handlers {
        /// The route.
        path: String,
        /// The method.
        method: Code,
    },
    /// The prefix does not allow nesting.
    #[error("a router cannot be nested under {prefix:?}: {hint}")]
    Nest {
        /// The prefix.
        prefix: String,
        /// The correction.
        hint: &'static str,
    },
    /// Two merged routers have a fallback for the same paths.
    #[error("there are two fallbacks for what is under {prefix:?}: leave out one of them")]
    Fallbacks {
        /// The prefix of both.
        prefix: String,
    },
    /// A resource's attributes cannot be listed in `/.well-known/core`.
    #[error("the attributes of the route {path:?} cannot be listed: {problem}")]
    Link {
        /// The path.
        path: String,
        /// The error in the attributes.
        problem: LinkWriteError,
    },
    /// Handler and route differ in their number of captures.
    #[error(
        "the handler of {what} takes {wanted} captured segment{}, but the route has {there}: take all of them at once, \
         in the order of the route, as in Path((a, b)): Path<(A, B)>",
        plural(*.wanted)
    )]
    Captures {
        /// The handler's method and route.
        what: String,
        /// Captures that the handler takes.
        wanted: usize,
        /// Captures of the route.
        there: usize,
    },
    /// The handler takes captures, but its route has none.
    #[error("the handler of {what} takes {wanted} captured segment{}, but the route has none: {hint}", plural(*.wanted))]
    NoCaptures {
        /// The handler's method and route.
        what: String,
        /// Captures that the handler takes.
        wanted: usize,
        /// The correction.
        hint: String,
    },
}

impl RouteError {
    pub(super) fn captures(method: Option<Code>, path: &str, wanted: usize, there: usize) -> Self {
        let what = match method {
            Some(method) => format!("{method} {path:?}"),
            None => format!("the fallback under {path:?}"),
        };
        match (there, method) {
            (0, Some(_)) => {
                let names: String = match wanted {
                    1 => "/{name}".to_owned(),
                    _ => (1..=wanted).map(|number| format!("/{{name{number}}}")).collect(),
                };
                let hint = format!("write it as {:?}, or remove Path", path.trim_end_matches('/').to_owned() + &names);
                Self::NoCaptures { what, wanted, hint }
            }
            (0, None) => Self::NoCaptures { what, wanted, hint: "remove Path".to_owned() },
            _ => Self::Captures { what, wanted, there },
        }
    }
}

fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}

fn first(path: &str, other: &str) -> String {
    if path == other { String::new() } else { format!(", first as {other:?}") }
}
