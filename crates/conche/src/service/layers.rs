//! Layers: [`from_fn`], [`handle_error`], [`RequireFresh`] (RFC 9175) and [`RequireSecured`]. Also
//! [`Identity`] as a handler argument.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use conche_proto::codec::{Code, OptionNumber};
use conche_proto::{Freshness, Instant};
use tower_layer::Layer;
use tower_service::Service;
use tracing::warn;

use super::extract::{FromRequestParts, Rejection, State};
use super::routing::{RequestService, Route};
use super::{HandlerFuture, IntoResponse, Request, Response};
use crate::refusal;
use crate::security::Identity;

/// Makes a layer from an async function of a request and [`Next`].
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
/// A layer can authorize by [`Identity`]. Each observer was authorized at its registration, so for
/// a request that [runs for observers](Request::is_for_observers), a 4.01 or 4.03 that the layer
/// returns without calling [`Next::run`] has no effect: the handler runs, with the original
/// request. Other errors end the observations.
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

/// Like [`from_fn`], with a clone of this state as first argument.
///
/// ```
/// use std::collections::HashSet;
/// use std::net::IpAddr;
/// use std::sync::Arc;
///
/// use conche::Code;
/// use conche::server::{Next, Request, Response, Router, State, from_fn_with_state, get};
///
/// #[derive(Clone)]
/// struct Blocked(Arc<HashSet<IpAddr>>);
///
/// async fn block(State(Blocked(blocked)): State<Blocked>, request: Request, next: Next) -> Result<Response, Code> {
///     if blocked.contains(&request.peer().ip()) { Err(Code::FORBIDDEN) } else { Ok(next.run(request).await) }
/// }
///
/// let blocked = Blocked(Arc::new(HashSet::from(["192.0.2.1".parse()?])));
/// let router: Router = Router::new().route("/", get(async || "hello")).layer(from_fn_with_state(blocked, block));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn from_fn_with_state<S, F, Fut>(
    state: S,
    function: F,
) -> FromFn<impl Fn(Request, Next) -> Fut + Clone + Send + Sync + 'static>
where
    S: Clone + Send + Sync + 'static,
    F: Fn(State<S>, Request, Next) -> Fut + Clone + Send + Sync + 'static,
{
    FromFn(move |request, next| function(State(state.clone()), request, next))
}

/// The layer that [`from_fn`] and [`from_fn_with_state`] make.
#[derive(Clone, Copy)]
pub struct FromFn<F>(F);

/// The handler and the inner layers.
#[derive(Clone, Debug)]
pub struct Next {
    inner: Route,
    /// Set once the inner service runs, for requests that run for observers.
    has_run: Option<Arc<AtomicBool>>,
}

impl Next {
    /// Calls the handler through the inner layers.
    pub async fn run(self, request: Request) -> Response {
        if let Some(has_run) = &self.has_run {
            has_run.store(true, Ordering::Relaxed);
        }
        self.inner.respond(request).await
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
            if request.is_for_observers() {
                return run_for_observers(&function, &inner, request);
            }
            let method = request.method();
            let answer = function(request, Next { inner: inner.clone(), has_run: None });
            HandlerFuture::begin(async move { answer.await.into_response(method) })
        })
    }
}

/// The layer sees no observer, so its 4.01 and 4.03 do not concern them.
fn run_for_observers<F, Fut>(function: &F, inner: &Route, request: Request) -> HandlerFuture
where
    F: Fn(Request, Next) -> Fut,
    Fut: Future<Output: IntoResponse> + Send + 'static,
{
    let (method, has_run, inner) = (request.method(), Arc::new(AtomicBool::new(false)), inner.clone());
    let next = Next { inner: inner.clone(), has_run: Some(Arc::clone(&has_run)) };
    let answer = function(request.clone(), next);
    HandlerFuture::begin(async move {
        let response = answer.await.into_response(method);
        let refuses = matches!(response.code(), Code::UNAUTHORIZED | Code::FORBIDDEN);
        if refuses && !has_run.load(Ordering::Relaxed) { inner.respond(request).await } else { response }
    })
}

/// Makes a layer that turns errors of inner services, such as `tower`'s timeout, into responses. In
/// a `tower::ServiceBuilder` it precedes their layers.
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

/// A layer that passes only fresh requests: those with an Echo value (RFC 9175 §2) that the server
/// recently sent to this client. Others get 4.01 and an Echo value, with which
/// [`Client`](crate::Client) repeats them.
///
/// This rejects requests that are recorded, delayed or from forged addresses. It costs a round
/// trip, and no memory per client.
///
/// ```
/// use std::time::Duration;
///
/// use conche::server::{RequireFresh, Router, put};
///
/// # fn main() -> Result<(), conche::server::NoRandomness> {
/// async fn unlock() {}
///
/// let fresh = RequireFresh::within(Duration::from_secs(10))?;
/// let router: Router = Router::new().route("/door", put(unlock).layer(fresh));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RequireFresh(Arc<Challenges>);

#[derive(Debug)]
struct Challenges {
    freshness: Freshness,
    epoch: tokio::time::Instant,
}

/// The operating system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no random numbers: {0}")]
pub struct NoRandomness(getrandom::Error);

impl RequireFresh {
    /// Accepts Echo values for this time after they were sent.
    ///
    /// # Errors
    /// If the operating system has no random numbers for the key.
    pub fn within(lifetime: Duration) -> Result<Self, NoRandomness> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(NoRandomness)?;
        let epoch = tokio::time::Instant::now();
        Ok(Self(Arc::new(Challenges { freshness: Freshness::new(key, lifetime), epoch })))
    }
}

impl Challenges {
    fn refusal(&self, request: &Request) -> Option<Response> {
        if request.is_for_observers() {
            return None;
        }
        let now = Instant::ZERO + self.epoch.elapsed();
        let peer = request.peer();
        let value = request.message().option(OptionNumber::ECHO);
        let fresh = value.is_some_and(|value| self.freshness.check(now, &peer, value).is_ok());
        let challenge =
            || Response::new(Code::UNAUTHORIZED).option(OptionNumber::ECHO, &self.freshness.challenge(now, &peer));
        (!fresh).then(challenge)
    }
}

impl<I: RequestService> Layer<I> for RequireFresh {
    type Service = Route;

    fn layer(&self, inner: I) -> Route {
        let (challenges, inner) = (Arc::clone(&self.0), Route::from_service(inner));
        Route::new(move |request| match challenges.refusal(&request) {
            Some(refusal) => HandlerFuture::ready(refusal),
            None => inner.answer(request),
        })
    }
}

impl<S> FromRequestParts<S> for Identity {
    type Rejection = Rejection;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        request.extension().cloned().ok_or_else(|| missing_identity(request))
    }
}

#[cfg(feature = "oscore")]
impl<S> FromRequestParts<S> for crate::oscore::Identity {
    type Rejection = Rejection;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        match request.extension() {
            Some(Identity::Oscore(identity)) => Ok(identity.clone()),
            _ => Err(missing_identity(request)),
        }
    }
}

fn missing_identity(request: &Request) -> Rejection {
    // Each change of an observed resource would repeat it.
    static SAID: Once = Once::new();
    if request.is_for_observers() {
        SAID.call_once(|| warn!(
            ?request,
            "a handler that takes an identity is asked for all who observe, so that it has none: their observations end. Let a layer \
             look at the identity of who registers"
        ));
    }
    unprotected()
}

/// A layer that answers requests with 4.01 unless OSCORE keys or a DTLS session authenticate them.
///
/// Runs of a [`Notifier`](super::Notifier) pass. The public `/.well-known/core` bypasses it, like
/// all layers.
///
/// ```
/// use conche::server::{RequireSecured, Router, get, put};
///
/// async fn unlock() {}
///
/// let router: Router =
///     Router::new().route("/door", put(unlock)).layer(RequireSecured).route("/time", get(async || "noon"));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RequireSecured;

impl<I: RequestService> Layer<I> for RequireSecured {
    type Service = Route;

    fn layer(&self, inner: I) -> Route {
        let inner = Route::from_service(inner);
        Route::new(move |request: Request| {
            let passes = request.is_for_observers() || request.extension::<Identity>().is_some();
            if passes { inner.answer(request) } else { HandlerFuture::ready(unprotected().into()) }
        })
    }
}

fn unprotected() -> Rejection {
    Rejection::new(Code::UNAUTHORIZED, refusal::UNAUTHENTICATED)
}
