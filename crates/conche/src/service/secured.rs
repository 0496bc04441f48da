//! Authentication in handlers and routes: [`Identity`] as an argument, and [`RequireSecured`].

use std::sync::Once;

use conche_proto::codec::Code;
use tower_layer::Layer;
use tracing::warn;

use super::extract::{FromRequestParts, Rejection};
use super::routing::{RequestService, Route};
use super::{HandlerFuture, Request};
use crate::refusal;
use crate::security::Identity;

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

/// Returns 4.01 for a handler that takes an identity, if there is none.
fn missing_identity(request: &Request) -> Rejection {
    // Logged once, as each change of an observed resource would repeat it.
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

/// A layer that passes only authenticated requests: from OSCORE keys, or from a DTLS session with
/// an authenticated client. Others are answered with 4.01.
///
/// Runs of a [`Notifier`](super::Notifier) pass, as the registrations did. Like any layer it does
/// not apply to `/.well-known/core`, which is public.
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

/// Returns the response to an unprotected request.
fn unprotected() -> Rejection {
    Rejection::new(Code::UNAUTHORIZED, refusal::UNAUTHENTICATED)
}
