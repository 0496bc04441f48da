//! Handler arguments, extracted from the request before the handler runs.
//!
//! These implement [`FromRequestParts`], which reads the request, and can be any argument:
//!
//! - [`Path`]: captures of the route. Error: 4.04.
//! - [`Query`]: query arguments, one by one or as a struct (feature `serde`). Error: 4.00.
//! - [`State`]: the router's state, or a part of it.
//! - [`Peer`]: the sender's address.
//! - [`Identity`](crate::security::Identity): the sender, as authenticated (features `dtls`,
//!   `oscore`). Error: 4.01.
//! - [`Conditions`]: If-Match and If-None-Match. Without this argument, unsafe requests with a
//!   condition are answered with 4.02.
//! - [`Extension`]: a value attached by a layer. Error: 5.00.
//!
//! These implement [`FromRequest`], which consumes the request, and must be the last argument:
//!
//! - [`Payload`], [`Bytes`]: the payload, without copying.
//! - [`Text`], [`String`]: the payload as text. Errors: 4.15, 4.00.
//! - `Json`, `Cbor`: the payload as a type of the program (features `json`, `cbor`). Errors: 4.15,
//!   4.00.
//! - [`BodyStream`]: the payload as a stream of any size.
//! - [`Request`]: the whole request.
//!
//! A [`Result`] of either kind is the argument or its error. A custom extractor implements one of
//! the traits:
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
//! Extraction is not async: it runs when the request is complete, or for [`BodyStream`] at the
//! first block. Waiting, such as for a database, belongs in a handler or a layer.

mod body_stream;
#[cfg(feature = "cbor")]
mod cbor;
mod conditions;
mod context;
#[cfg(feature = "json")]
mod json;
mod path;
mod payload;
mod query;
mod rejection;
mod requirements;

pub(super) use body_stream::Rest;
pub use body_stream::{BodyError, BodyStream};
#[cfg(feature = "cbor")]
pub use cbor::Cbor;
pub use conditions::Conditions;
pub use context::{Extension, FromRef, Peer, State};
#[cfg(feature = "json")]
pub use json::Json;
pub use path::{FromCapture, Path};
pub use payload::{Payload, Text};
pub use query::{Arguments, Query};
pub use rejection::Rejection;
pub use requirements::Requirements;

#[doc(no_inline)]
pub use bytes::Bytes;

use super::{IntoResponse, Request};

/// A handler argument that is read from the request.
///
/// `M` distinguishes implementations that could apply to the same type; your own omit it.
#[diagnostic::on_unimplemented(note = "an argument that consumes the request, such as `Payload`, must be the last one")]
pub trait FromRequestParts<S, M = marker::Plain>: Sized {
    /// The response if extraction fails.
    type Rejection: IntoResponse;

    /// Requirements of the argument on its route.
    const NEEDS: Requirements = Requirements::NOTHING;

    /// Extracts the argument.
    ///
    /// # Errors
    /// The response to send instead of running the handler.
    fn from_request_parts(request: &Request, state: &S) -> Result<Self, Self::Rejection>;
}

/// The last argument of a handler, which may consume the request.
///
/// `M` distinguishes implementations that could apply to the same type; your own omit it.
pub trait FromRequest<S, M = marker::Consuming>: Sized {
    /// The response if extraction fails.
    type Rejection: IntoResponse;

    /// Requirements of the argument on its route.
    const NEEDS: Requirements = Requirements::NOTHING;

    /// Extracts the argument.
    ///
    /// # Errors
    /// The response to send instead of running the handler.
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

/// An argument that reads the request may also be the last one.
impl<S, M, T: FromRequestParts<S, M>> FromRequest<S, (marker::Parts, M)> for T {
    type Rejection = T::Rejection;

    const NEEDS: Requirements = T::NEEDS;

    fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        T::from_request_parts(&request, state)
    }
}

/// The argument or its error, for the handler to decide.
impl<S, M, T: FromRequestParts<S, M>> FromRequestParts<S, (marker::Tried, M)> for Result<T, T::Rejection> {
    type Rejection = std::convert::Infallible;

    const NEEDS: Requirements = T::NEEDS;

    fn from_request_parts(request: &Request, state: &S) -> Result<Self, Self::Rejection> {
        Ok(T::from_request_parts(request, state))
    }
}

/// The argument or its error, for the handler to decide.
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
