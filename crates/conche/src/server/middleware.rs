//! Layers without a type of one's own: async functions around handlers ([`from_fn`]), and errors of services that become
//! responses ([`handle_error`]).

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::routing::{RequestService, Route, RouteFuture};
use super::{IntoResponse, Request, Response};

/// A layer that is an async function: it gets each request, and with [`Next`] it has the handler answer it.
///
/// ```
/// use conche::server::{Extension, Next, Request, Response, Router, from_fn, get};
/// use conche::Code;
///
/// #[derive(Clone)]
/// struct Floor(u8);
///
/// /// Lets requests pass that come from a known network, and tells the handler which floor has it.
/// async fn locate(mut request: Request, next: Next) -> Result<Response, Code> {
///     let std::net::IpAddr::V4(address) = request.peer().ip() else { return Err(Code::FORBIDDEN) };
///     let [10, floor, ..] = address.octets() else { return Err(Code::FORBIDDEN) };
///     request.extend(Floor(floor));
///     Ok(next.run(request).await)
/// }
///
/// async fn floor(Extension(Floor(floor)): Extension<Floor>) -> String {
///     format!("you are on floor {floor}")
/// }
///
/// let router: Router = Router::new().route("/floor", get(floor)).layer(from_fn(locate));
/// ```
pub fn from_fn<F>(function: F) -> FromFn<F> {
    FromFn(function)
}

/// The layer that [`from_fn`] makes.
#[derive(Clone, Copy)]
pub struct FromFn<F>(F);

/// What [`FromFn`] makes of a service.
#[derive(Clone)]
pub struct FromFnService<F> {
    function: F,
    inner: Route,
}

/// The handler, and the layers that are further inside.
#[derive(Clone, Debug)]
pub struct Next(Route);

impl Next {
    /// Has the request answered.
    pub async fn run(self, request: Request) -> Response {
        self.0.respond(request).await
    }
}

impl<F, I> Layer<I> for FromFn<F>
where
    F: Clone,
    I: RequestService,
{
    type Service = FromFnService<F>;

    fn layer(&self, inner: I) -> Self::Service {
        FromFnService { function: self.0.clone(), inner: Route::from_service(inner) }
    }
}

impl<F, Fut> Service<Request> for FromFnService<F>
where
    F: Fn(Request, Next) -> Fut,
    Fut: Future<Output: IntoResponse> + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> RouteFuture {
        let method = request.method();
        let answer = (self.function)(request, Next(self.inner.clone()));
        RouteFuture::new(async move { answer.await.into_response(method) })
    }
}

/// A layer that turns the errors of the services inside it into responses. Services that may fail, such as that of
/// `tower`'s timeout, cannot answer requests without it.
///
/// ```
/// use std::time::Duration;
///
/// use conche::Code;
/// use conche::server::{Router, get, handle_error};
/// use tower::timeout::TimeoutLayer;
/// use tower::{BoxError, ServiceBuilder};
///
/// let late = handle_error(|error: BoxError| (Code::SERVICE_UNAVAILABLE, error.to_string()));
/// let in_time = ServiceBuilder::new().layer(late).layer(TimeoutLayer::new(Duration::from_secs(5)));
/// let router: Router = Router::new().route("/", get(async || "at once")).layer(in_time);
/// ```
///
/// In a `tower::ServiceBuilder` it stands before the layers whose errors it handles.
pub fn handle_error<F>(function: F) -> HandleError<F> {
    HandleError(function)
}

/// The layer that [`handle_error`] makes.
#[derive(Clone, Copy)]
pub struct HandleError<F>(F);

/// What [`HandleError`] makes of a service.
#[derive(Clone)]
pub struct HandleErrorService<F, I> {
    function: F,
    inner: I,
}

impl<F: Clone, I> Layer<I> for HandleError<F> {
    type Service = HandleErrorService<F, I>;

    fn layer(&self, inner: I) -> Self::Service {
        HandleErrorService { function: self.0.clone(), inner }
    }
}

impl<F, T, I> Service<Request> for HandleErrorService<F, I>
where
    F: Fn(I::Error) -> T + Clone + Send + 'static,
    T: IntoResponse,
    I: Service<Request, Response: IntoResponse, Future: Send> + Clone + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture;

    /// Always, so that the error of a service that is not ready answers a request too.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> RouteFuture {
        let Self { function, mut inner } = self.clone();
        let method = request.method();
        RouteFuture::new(async move {
            if let Err(error) = poll_fn(|context| inner.poll_ready(context)).await {
                return function(error).into_response(method);
            }
            match inner.call(request).await {
                Ok(response) => response.into_response(method),
                Err(error) => function(error).into_response(method),
            }
        })
    }
}

macro_rules! opaque {
    ($($name:ident<$($parameter:ident),*>)*) => {
        $(
            impl<$($parameter),*> fmt::Debug for $name<$($parameter),*> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_struct(stringify!($name)).finish_non_exhaustive()
                }
            }
        )*
    };
}

opaque! { FromFn<F> FromFnService<F> HandleError<F> HandleErrorService<F, I> }
