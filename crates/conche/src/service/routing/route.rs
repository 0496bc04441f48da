//! [`Route`], a handler as a `tower` service, and [`ErasedHandler`].

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use conche_proto::codec::{Code, OptionNumber};
use tower_layer::Layer;
use tower_service::Service;

use crate::service::extract::Requirements;
use crate::service::handler::Handler;
use crate::service::{HandlerFuture, IntoResponse, Request, Response};

/// A handler as a [`Service`] for layers.
#[derive(Clone)]
pub struct Route(Arc<dyn Fn(Request) -> HandlerFuture + Send + Sync>);

impl Route {
    pub(in crate::service) fn new(answer: impl Fn(Request) -> HandlerFuture + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }

    /// Makes a route from a service, which is cloned per request.
    pub fn from_service(service: impl RequestService) -> Self {
        Self::handling(service, |error| -> Response { match error.into() {} })
    }

    pub(in crate::service) fn handling<I, T>(
        service: I,
        function: impl Fn(I::Error) -> T + Clone + Send + Sync + 'static,
    ) -> Self
    where
        I: Service<Request, Response: IntoResponse, Future: Send> + Clone + Send + Sync + 'static,
        T: IntoResponse,
    {
        Self::new(move |request| {
            let (mut service, function) = (service.clone(), function.clone());
            let method = request.method();
            HandlerFuture::begin(async move {
                if let Err(error) = poll_fn(|context| service.poll_ready(context)).await {
                    return function(error).into_response(method);
                }
                match service.call(request).await {
                    Ok(response) => response.into_response(method),
                    Err(error) => function(error).into_response(method),
                }
            })
        })
    }

    pub(super) fn layer(self, layer: &impl Layer<Self, Service: RequestService>) -> Self {
        Self::from_service(layer.layer(self))
    }

    /// Answers a request, like the service, but without a `Result`.
    pub async fn respond(&self, request: Request) -> Response {
        self.answer(request).await
    }

    pub(in crate::service) fn answer(&self, request: Request) -> HandlerFuture {
        (self.0)(request)
    }
}

impl Service<Request> for Route {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> RouteFuture {
        RouteFuture(Progress::Called(self.clone(), Some(request)))
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").finish_non_exhaustive()
    }
}

/// An infallible service of requests, as layers must return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot answer requests",
    note = "it must be a `Clone + Send + Sync + 'static` service of `conche::server::Request` that does not fail; \
            `conche::server::handle_error` turns the errors of one that does into responses"
)]
pub trait RequestService:
    Service<Request, Response: IntoResponse, Error: Into<Infallible>, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> RequestService for T where
    T: Service<Request, Response: IntoResponse, Error: Into<Infallible>, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// The future of a [`Route`]'s response.
///
/// Nothing runs before the first poll, so a layer's span or task-local value covers the handler.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct RouteFuture(Progress);

#[derive(Debug)]
enum Progress {
    Called(Route, Option<Request>),
    Answering(HandlerFuture),
}

impl Future for RouteFuture {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let begun = match &mut self.0 {
            Progress::Called(route, request) => request.take().map(|request| route.answer(request)),
            Progress::Answering(answer) => return Pin::new(answer).poll(context).map(Ok),
        };
        let Some(mut answer) = begun else { return Poll::Pending };
        let polled = Pin::new(&mut answer).poll(context).map(Ok);
        self.0 = Progress::Answering(answer);
        polled
    }
}

pub(super) struct ErasedHandler<S> {
    needs: Requirements,
    route: StatefulRoute<S>,
}

enum StatefulRoute<S> {
    NeedsState(BuildRoute<S>),
    Ready(Route),
}

type BuildRoute<S> = Arc<dyn Fn(&Arc<S>) -> Route + Send + Sync>;

impl<S: Send + Sync + 'static> ErasedHandler<S> {
    pub(super) fn new<Arguments, H: Handler<Arguments, S>>(handler: H) -> Self {
        let handler = Arc::new(handler);
        let make = move |state: &Arc<S>| {
            let (handler, state) = (Arc::clone(&handler), Arc::clone(state));
            Route::new(move |request| handler.call(request, &state))
        };
        Self { needs: H::NEEDS, route: StatefulRoute::NeedsState(Arc::new(make)) }
    }

    pub(super) fn always(code: Code) -> Self {
        let answer = move |_request| -> HandlerFuture { HandlerFuture::ready(Response::new(code)) };
        Self { needs: Requirements::NOTHING, route: StatefulRoute::Ready(Route::new(answer)) }
    }

    pub(super) fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<Route, Service: RequestService> + Send + Sync + 'static,
    {
        let route = match self.route {
            StatefulRoute::NeedsState(make) => {
                StatefulRoute::NeedsState(Arc::new(move |state| make(state).layer(&layer)))
            }
            StatefulRoute::Ready(route) => StatefulRoute::Ready(route.layer(&layer)),
        };
        Self { route, ..self }
    }

    pub(super) fn with_state<S2>(self, state: &Arc<S>) -> ErasedHandler<S2> {
        let route = match self.route {
            StatefulRoute::NeedsState(make) => make(state),
            StatefulRoute::Ready(route) => route,
        };
        ErasedHandler { needs: self.needs, route: StatefulRoute::Ready(route) }
    }
}

impl<S> ErasedHandler<S> {
    pub(super) fn needs(&self) -> Requirements {
        self.needs
    }

    /// Returns 4.02 for a condition that the handler would not check: an unrecognised critical
    /// option (RFC 7252 §5.4.1).
    pub(super) fn refusal(&self, request: &Request) -> Option<Response> {
        if self.needs.has_conditions() || request.method().is_safe() {
            return None;
        }
        let conditions = [OptionNumber::IF_MATCH, OptionNumber::IF_NONE_MATCH];
        let option = conditions.into_iter().find(|option| request.message().option(*option).is_some())?;
        let message = format!("{option} is not supported by this resource for this method");
        Some(Response::diagnostic(Code::BAD_OPTION, message))
    }
}

impl ErasedHandler<()> {
    pub(super) fn call(&self, request: Request) -> HandlerFuture {
        match &self.route {
            StatefulRoute::Ready(route) => route.answer(request),
            // Unreachable: a server provides the state first.
            StatefulRoute::NeedsState(make) => make(&Arc::new(())).answer(request),
        }
    }
}

impl<S> Clone for ErasedHandler<S> {
    fn clone(&self) -> Self {
        let route = match &self.route {
            StatefulRoute::NeedsState(make) => StatefulRoute::NeedsState(Arc::clone(make)),
            StatefulRoute::Ready(route) => StatefulRoute::Ready(route.clone()),
        };
        Self { needs: self.needs, route }
    }
}
