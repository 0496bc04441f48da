//! Handler arguments, extracted from requests.
//!
//! Implementations of [`FromRequestParts`], which reads the request, can be any argument:
//!
//! - [`Path`]: captures of the route. Error: 4.04.
//! - [`Query`]: query arguments, one by one or as a struct (feature `serde`). Error: 4.00.
//! - [`State`]: the router's state, or a part of it.
//! - [`Peer`]: the sender's address; [`ReplyUri`]: the URI at which it can be reached.
//! - [`Accept`]: the wanted Content-Format.
//! - [`Identity`](crate::security::Identity): the authenticated sender (features `dtls`, `oscore`).
//!   Error: 4.01.
//! - [`Conditions`]: If-Match and If-None-Match. Without it, unsafe requests with a condition are
//!   answered with 4.02.
//! - [`Extension`]: a value attached by a layer. Error: 5.00.
//!
//! Implementations of [`FromRequest`], which may consume the request, must be the last argument:
//!
//! - [`Payload`], [`Bytes`]: the payload, without copying.
//! - [`Text`], [`String`]: the payload as text. Errors: 4.15, 4.00.
//! - `Json`, `Cbor`: the payload decoded (features `json`, `cbor`). Errors: 4.15, 4.00.
//! - [`BodyStream`]: the payload as a stream of any size.
//! - [`Request`]: the whole request.
//!
//! A [`Result`] of either kind is the argument or its error. Custom extractors implement one of the
//! traits, and read options with [`Request::message`].
//!
//! ```
//! use conche::Code;
//! use conche::server::extract::{FromRequestParts, Rejection};
//! use conche::server::{Request, Router, get};
//!
//! /// The client on whose behalf a proxy asks, in a query argument.
//! struct Client(String);
//!
//! impl<S> FromRequestParts<S> for Client {
//!     type Rejection = Rejection;
//!
//!     fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
//!         let client = request.queries().find_map(|argument| Some(argument.strip_prefix("client=")?.to_owned()));
//!         client.map(Self).ok_or_else(|| Rejection::new(Code::UNAUTHORIZED, "the query argument client=NAME is missing"))
//!     }
//! }
//!
//! let router: Router = Router::new().route("/hello", get(async |Client(name): Client| format!("hello, {name}")));
//! ```
//!
//! Extraction is not async. It runs when the request is complete, or for [`BodyStream`] at the
//! first block. Code that waits belongs in a handler or a layer.

mod accept;
#[cfg(feature = "cbor")]
mod cbor;
mod conditions;
#[cfg(feature = "json")]
mod json;
mod payload;
mod uri;

use std::any::{Any, type_name};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

#[doc(no_inline)]
pub use bytes::Bytes;
use conche_proto::codec::{Code, Escaped};
use thiserror::Error;
use tracing::error;

use super::{IntoResponse, Request, Response};
use crate::uri::Uri;
pub use accept::Accept;
#[cfg(feature = "cbor")]
pub use cbor::Cbor;
pub use conditions::Conditions;
#[cfg(feature = "json")]
pub use json::Json;
pub(super) use payload::Rest;
pub use payload::{BodyError, BodyStream, Payload, Text};
pub use uri::{Arguments, FromCapture, Path, Query};

/// A handler argument that is read from the request.
///
/// `M` distinguishes implementations for the same type; your own omit it.
#[diagnostic::on_unimplemented(note = "an argument that consumes the request, such as `Payload`, must be the last one")]
pub trait FromRequestParts<S, M = marker::Plain>: Sized {
    /// The response if extraction fails.
    type Rejection: IntoResponse;

    /// Requirements of the argument on its route.
    const NEEDS: Requirements = Requirements::NOTHING;

    /// Extracts the argument.
    ///
    /// # Errors
    /// The response to send in place of the handler's.
    fn from_request_parts(request: &Request, state: &S) -> Result<Self, Self::Rejection>;
}

/// The last argument of a handler, which may consume the request.
///
/// `M` is as for [`FromRequestParts`].
pub trait FromRequest<S, M = marker::Consuming>: Sized {
    /// The response if extraction fails.
    type Rejection: IntoResponse;

    /// Requirements of the argument on its route.
    const NEEDS: Requirements = Requirements::NOTHING;

    /// Extracts the argument.
    ///
    /// # Errors
    /// The response to send in place of the handler's.
    fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection>;
}

/// Type markers that distinguish implementations of [`FromRequestParts`] and [`FromRequest`].
pub mod marker {
    /// The only implementation for its type.
    #[derive(Debug)]
    pub enum Plain {}

    /// A direct implementation of [`FromRequest`](super::FromRequest).
    #[derive(Debug)]
    pub enum Consuming {}

    /// [`FromRequest`](super::FromRequest) through [`FromRequestParts`](super::FromRequestParts).
    #[derive(Debug)]
    pub enum Parts {}

    /// A value parsed from text.
    #[derive(Debug)]
    pub enum Parsed {}

    /// A list of such values.
    #[derive(Debug)]
    pub enum Listed {}

    /// An argument as a [`Result`].
    #[derive(Debug)]
    pub enum Tried {}

    /// The only capture of a route.
    #[derive(Debug)]
    pub enum One {}

    /// All captures of a route.
    #[derive(Debug)]
    pub enum Several {}
}

/// An argument that reads the request may also come last.
impl<S, M, T: FromRequestParts<S, M>> FromRequest<S, (marker::Parts, M)> for T {
    type Rejection = T::Rejection;

    const NEEDS: Requirements = T::NEEDS;

    fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        T::from_request_parts(&request, state)
    }
}

impl<S, M, T: FromRequestParts<S, M>> FromRequestParts<S, (marker::Tried, M)> for Result<T, T::Rejection> {
    type Rejection = std::convert::Infallible;

    const NEEDS: Requirements = T::NEEDS;

    fn from_request_parts(request: &Request, state: &S) -> Result<Self, Self::Rejection> {
        Ok(T::from_request_parts(request, state))
    }
}

impl<S, T: FromRequest<S>> FromRequest<S> for Result<T, T::Rejection> {
    type Rejection = std::convert::Infallible;

    const NEEDS: Requirements = T::NEEDS;

    fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        Ok(T::from_request(request, state))
    }
}

/// The whole request.
impl<S> FromRequest<S> for Request {
    type Rejection = std::convert::Infallible;

    fn from_request(request: Request, _state: &S) -> Result<Self, Self::Rejection> {
        Ok(request)
    }
}

/// A clone of the router's state, or of a part that [`FromRef`] returns. Wrap state in an
/// [`Arc`](std::sync::Arc) if it changes or is expensive to clone.
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

/// A value obtained from a state `T`. Implemented for the whole state by cloning.
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

/// The [URI](Request::reply_uri) at which the sender can be reached. Error: 4.00 without one.
///
/// An LwM2M server stores it at registration and later sends requests to the device:
///
/// ```no_run
/// use conche::server::{ReplyUri, Router, State, post};
/// use conche::{Client, Error};
///
/// # #[derive(Clone)]
/// # struct Devices;
/// # impl Devices { fn register(&self, _uri: conche::Uri) {} }
/// async fn register(State(devices): State<Devices>, ReplyUri(device): ReplyUri) {
///     devices.register(device);
/// }
///
/// /// `client` is the server's, so that the device sees the address that it registered at.
/// async fn manufacturer(client: &Client, device: &conche::Uri) -> Result<String, Error> {
///     let response = client.get(format!("{device}/3/0/0")).await?.successful()?;
///     Ok(String::from_utf8_lossy(response.payload()).into_owned())
/// }
///
/// let router: Router = Router::new().route("/rd", post(register)).with_state(Devices);
/// ```
///
/// Over `coaps`, requests in the device's session also need its identity:
/// [`expect_peer`](crate::client::RequestBuilder::expect_peer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyUri(pub Uri);

impl<S> FromRequestParts<S> for ReplyUri {
    type Rejection = Rejection;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        let uri = request.reply_uri().map(Self);
        uri.ok_or_else(|| Rejection::new(Code::BAD_REQUEST, "the sender cannot be reached"))
    }
}

/// A clone of a value attached with [`Request::extend`]. Without it the response is 5.00, and the
/// log names the type.
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

/// A response code and diagnostic payload for humans (RFC 7252 §5.5.2).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", Escaped(message))]
pub struct Rejection {
    code: Code,
    message: String,
}

/// Maximum bytes of the text. Most texts quote the request, and must not amplify it.
const LONGEST: usize = 256;

impl Rejection {
    /// Returns a rejection. The text, truncated to 256 bytes, names the error, its position and the
    /// expected value.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        const CUT: &str = "…";
        let mut message = message.into();
        if message.len() > LONGEST {
            message.truncate(message.floor_char_boundary(LONGEST - CUT.len()));
            message.push_str(CUT);
        }
        Self { code, message }
    }

    /// Returns the response code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }
}

impl IntoResponse for Rejection {
    fn into_response(self, _method: Code) -> Response {
        Response::diagnostic(self.code, self.message)
    }
}

impl From<Rejection> for Response {
    fn from(rejection: Rejection) -> Self {
        Self::diagnostic(rejection.code, rejection.message)
    }
}

/// Requirements of an argument on its route. A server that cannot meet them fails to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    conditions: bool,
    stream: bool,
    captures: Option<usize>,
}

impl Requirements {
    /// No requirements.
    pub const NOTHING: Self = Self { conditions: false, stream: false, captures: None };

    /// The argument checks If-Match and If-None-Match. Without it, these options cause 4.02 (RFC
    /// 7252 §5.4.1).
    pub const CONDITIONS: Self = Self { conditions: true, ..Self::NOTHING };

    /// The argument streams the payload: block-wise requests are handled from their first block on.
    pub const STREAM: Self = Self { stream: true, ..Self::NOTHING };

    /// The argument takes all captures of a route with `count` of them.
    #[must_use]
    pub const fn captures(count: usize) -> Self {
        Self { captures: Some(count), ..Self::NOTHING }
    }

    /// Combines the requirements of two arguments.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let captures = match (self.captures, other.captures) {
            (Some(one), Some(two)) => Some(if one > two { one } else { two }),
            (None, captures) | (captures, None) => captures,
        };
        Self { conditions: self.conditions || other.conditions, stream: self.stream || other.stream, captures }
    }

    pub(in crate::service) const fn has_conditions(self) -> bool {
        self.conditions
    }

    pub(in crate::service) const fn takes_stream(self) -> bool {
        self.stream
    }

    pub(in crate::service) const fn wanted_captures(self) -> Option<usize> {
        self.captures
    }
}
