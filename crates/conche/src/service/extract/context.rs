//! [`State`], [`Peer`] and [`Extension`]: arguments from the context of a request.

use std::any::{Any, type_name};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

use conche_proto::codec::Code;
use tracing::error;

use super::{FromRequestParts, Rejection};
use crate::service::Request;

/// A clone of the router's state, or of a part that [`FromRef`] returns.
///
/// Put state that is expensive to clone, or that handlers change, in an [`Arc`](std::sync::Arc).
///
/// ```
/// use conche::server::extract::FromRef;
/// use conche::server::{Router, State, get};
///
/// #[derive(Clone)]
/// struct Greeting(&'static str);
///
/// #[derive(Clone)]
/// struct App {
///     greeting: Greeting,
/// }
///
/// impl FromRef<App> for Greeting {
///     fn from_ref(app: &App) -> Self {
///         app.greeting.clone()
///     }
/// }
///
/// async fn greet(State(Greeting(text)): State<Greeting>) -> &'static str {
///     text
/// }
///
/// let router: Router = Router::new().route("/", get(greet)).with_state(App { greeting: Greeting("hello") });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

/// A value obtained from a reference to a state `T`. Implemented for the whole by cloning.
pub trait FromRef<T> {
    /// Returns the value.
    fn from_ref(whole: &T) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(whole: &T) -> Self {
        whole.clone()
    }
}

impl<S, T: FromRef<S>> FromRequestParts<S> for State<T> {
    type Rejection = Infallible;

    fn from_request_parts(_request: &Request, state: &S) -> Result<Self, Infallible> {
        Ok(Self(T::from_ref(state)))
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for State<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// The sender's source address, which may be forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl<S> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(request.peer()))
    }
}

/// A clone of a value that a layer attached with [`Request::extend`]. Without it the response is
/// 5.00, and the log names the missing type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension<T>(pub T);

impl<S, T: Any + Clone> FromRequestParts<S> for Extension<T> {
    type Rejection = Rejection;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        request.extension().cloned().map(Self).ok_or_else(|| {
            error!(extension = type_name::<T>(), "no layer attached what a handler takes with Extension");
            Rejection::new(Code::INTERNAL_SERVER_ERROR, "the server lacks a layer")
        })
    }
}

impl<T> Deref for Extension<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
