//! Layers from async functions ([`from_fn`]) and from error handlers ([`handle_error`]).

use std::fmt;
use std::future::Future;

use tower_layer::Layer;
use tower_service::Service;

use super::routing::{RequestService, Route};
use super::{HandlerFuture, IntoResponse, Request, Response};

/// Makes a layer from an async function of a request and [`Next`], which calls the inner handler.
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
///
/// An authorizing layer must pass requests that [run for observers](Request::is_for_observers):
/// these have no client, and each observer's [`Identity`](crate::security::Identity) was checked at
/// registration. Refusing them ends the observations.
///
/// ```
/// # #[cfg(feature = "dtls")] {
/// use conche::Code;
/// use conche::security::Identity;
/// use conche::server::{Next, Request, Response, Router, from_fn, get};
///
/// /// Everybody with a key may read, and only the owner may change anything.
/// async fn authorise(request: Request, next: Next) -> Result<Response, Code> {
///     let may = match request.extension::<Identity>() {
///         _ if request.is_for_observers() => true,
///         Some(Identity::Psk(name)) => request.method() == Code::GET || &**name == b"owner",
///         Some(_) => false,
///         None => return Err(Code::UNAUTHORIZED),
///     };
///     if may { Ok(next.run(request).await) } else { Err(Code::FORBIDDEN) }
/// }
///
/// let router: Router = Router::new().route("/temperature", get(async || "21.5")).layer(from_fn(authorise));
/// # }
/// ```
pub fn from_fn<F>(function: F) -> FromFn<F> {
    FromFn(function)
}

/// The layer that [`from_fn`] makes.
#[derive(Clone, Copy)]
pub struct FromFn<F>(F);

/// The handler and the inner layers.
#[derive(Clone, Debug)]
pub struct Next(Route);

impl Next {
    /// Calls the handler through the inner layers.
    pub async fn run(self, request: Request) -> Response {
        self.0.respond(request).await
    }
}

impl<F, Fut, I> Layer<I> for FromFn<F>
where
    F: Fn(Request, Next) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output: IntoResponse> + Send + 'static,
    I: RequestService,
{
    type Service = Route;

    fn layer(&self, inner: I) -> Route {
        let (function, inner) = (self.0.clone(), Route::from_service(inner));
        Route::new(move |request| {
            let method = request.method();
            let answer = function(request, Next(inner.clone()));
            HandlerFuture::begin(async move { answer.await.into_response(method) })
        })
    }
}

/// Makes a layer that turns the errors of inner services into responses. Services that may fail,
/// such as `tower`'s timeout, require it.
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
/// In a `tower::ServiceBuilder` it precedes the layers whose errors it handles.
pub fn handle_error<F>(function: F) -> HandleError<F> {
    HandleError(function)
}

/// The layer that [`handle_error`] makes.
#[derive(Clone, Copy)]
pub struct HandleError<F>(F);

impl<F, T, I> Layer<I> for HandleError<F>
where
    F: Fn(I::Error) -> T + Clone + Send + Sync + 'static,
    T: IntoResponse,
    I: Service<Request, Response: IntoResponse, Future: Send> + Clone + Send + Sync + 'static,
{
    type Service = Route;

    fn layer(&self, inner: I) -> Route {
        Route::handling(inner, self.0.clone())
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for HandleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandleError").finish_non_exhaustive()
    }
}
