//! Who asks, for handlers and routes that have to know: [`Identity`] as an argument, and [`RequireSecured`].

use std::sync::Once;

use conche_proto::codec::Code;
use tower_layer::Layer;
use tracing::warn;

use super::extract::{FromRequestParts, Rejection};
use super::routing::{RequestService, Route};
use super::{Answer, Request};
use crate::security::Identity;

impl<S> FromRequestParts<S> for Identity {
    type Rejection = Rejection;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        request.extension().cloned().ok_or_else(|| nobody_known(request))
    }
}

#[cfg(feature = "oscore")]
impl<S> FromRequestParts<S> for crate::oscore::Identity {
    type Rejection = Rejection;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        match request.extension() {
            Some(Identity::Oscore(identity)) => Ok(identity.clone()),
            _ => Err(nobody_known(request)),
        }
    }
}

/// The handler wants to know who asks, and cannot.
fn nobody_known(request: &Request) -> Rejection {
    // Said once: whoever changes what is observed would have it said as often.
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

/// A layer that lets only requests pass for whose sender keys vouch: those of OSCORE, or of a DTLS session in which the client has
/// shown something. Others are answered with 4.01. A [`Notifier`](super::Notifier) that asks for those
/// who observe passes, as their registrations have. Like any layer it is not around `/.well-known/core`, which tells everybody
/// what there is.
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
            if passes { inner.answer(request) } else { Answer::ready(unprotected().into()) }
        })
    }
}

/// What a request is answered that is not protected.
pub(crate) fn unprotected() -> Rejection {
    Rejection::new(Code::UNAUTHORIZED, "this is for those who have keys")
}
