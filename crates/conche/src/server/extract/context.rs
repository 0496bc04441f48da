//! What a handler knows beside the request: the state, the peer, what layers attached.

use std::any::{Any, type_name};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

use conche_proto::codec::Code;
use tracing::error;

use super::{FromRequestParts, Rejection};
use crate::server::Request;

/// A clone of the state that the router was given, or of a part of it that [`FromRef`] takes out.
///
/// State that is expensive to clone, or that handlers change, stands in an [`Arc`](std::sync::Arc).
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

/// A value that can be had from a reference to `T`: a part of a state. Of the whole there is a clone.
pub trait FromRef<T> {
    /// Takes it out.
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

/// Who sent the request. Nothing but the source address vouches for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl<S> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(request.peer()))
    }
}

/// A clone of what a layer attached with [`Request::extend`]. Without it the answer is 5.00, and the log says what is
/// missing.
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
