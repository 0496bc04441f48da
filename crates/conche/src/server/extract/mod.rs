//! What a handler can take as arguments: parts of the request, checked before the handler runs.
//!
//! | argument | what it is | refused with |
//! |---|---|---|
//! | [`Path`] | what the route captured | 4.04 |
//! | [`Query`] | the query's arguments, one by one or as a struct (feature `serde`) | 4.00 |
//! | [`State`] | the state of the router, or a part of it | |
//! | [`Peer`] | who sent the request | |
//! | [`Identity`](crate::security::Identity) | who sent it, as far as keys vouch for that (features `dtls`, `oscore`) | 4.01 |
//! | [`Conditions`] | If-Match and If-None-Match; without it, such a request is answered with 4.02 if it has an effect | |
//! | [`Extension`] | what a layer attached | 5.00 |
//! | [`Payload`], [`Bytes`] | the payload, not copied | |
//! | [`Text`], [`String`] | the payload as text | 4.15, 4.00 |
//! | `Json`, `Cbor` | the payload as a type of the program's (features `json`, `cbor`) | 4.15, 4.00 |
//! | [`BodyStream`] | the payload as it comes, of any size | |
//! | [`Request`] | everything | |
//! | [`Result`] of one of these | the argument, or why it cannot be had | |
//!
//! The upper half implements [`FromRequestParts`], which looks at the request, and can be any argument; the lower half
//! [`FromRequest`], which consumes it, and is the last one. An extractor of one's own implements either:
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
//! Extraction is not async: a request is handled when all of it has arrived, or the first block for [`BodyStream`]. What has to wait, for a database for
//! example, is the affair of a handler or of a layer.

mod body_stream;
#[cfg(feature = "cbor")]
mod cbor;
mod conditions;
mod context;
#[cfg(feature = "json")]
mod json;
mod needs;
mod path;
mod payload;
mod query;
mod rejection;

pub(crate) use body_stream::Rest;
pub use body_stream::{BodyError, BodyStream};
#[cfg(feature = "cbor")]
pub use cbor::Cbor;
pub use conditions::Conditions;
pub use context::{Extension, FromRef, Peer, State};
#[cfg(feature = "json")]
pub use json::Json;
pub use needs::Needs;
pub use path::{FromCapture, Path};
pub use payload::{Payload, Text};
pub use query::{Arguments, Query};
pub use rejection::Rejection;

#[doc(no_inline)]
pub use bytes::Bytes;

use super::{IntoResponse, Request};

/// An argument of a handler that is made by looking at the request.
///
/// `M` tells implementations apart that could be for the same type; one of your own leaves it out.
#[diagnostic::on_unimplemented(note = "an argument that consumes the request, such as `Payload`, must be the last one")]
pub trait FromRequestParts<S, M = marker::Plain>: Sized {
    /// What answers the request if it cannot be made.
    type Rejection: IntoResponse;

    /// What it asks of the route that it is used for.
    const NEEDS: Needs = Needs::NOTHING;

    /// Makes it.
    ///
    /// # Errors
    /// What to answer instead of running the handler.
    fn from_request_parts(request: &Request, state: &S) -> Result<Self, Self::Rejection>;
}

/// The last argument of a handler, which may consume the request.
///
/// `M` tells implementations apart that could be for the same type; one of your own leaves it out.
pub trait FromRequest<S, M = marker::Consuming>: Sized {
    /// What answers the request if it cannot be made.
    type Rejection: IntoResponse;

    /// What it asks of the route that it is used for.
    const NEEDS: Needs = Needs::NOTHING;

    /// Makes it.
    ///
    /// # Errors
    /// What to answer instead of running the handler.
    fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection>;
}

/// What [`FromRequestParts`] and [`FromRequest`] are told apart by.
pub mod marker {
    /// An implementation that is the only one for its type.
    #[derive(Debug)]
    pub enum Plain {}

    /// An implementation of [`FromRequest`](super::FromRequest) itself.
    #[derive(Debug)]
    pub enum Consuming {}

    /// [`FromRequest`](super::FromRequest) by [`FromRequestParts`](super::FromRequestParts).
    #[derive(Debug)]
    pub enum Parts {}

    /// A value that is parsed from a text.
    #[derive(Debug)]
    pub enum Parsed {}

    /// A list of such values.
    #[derive(Debug)]
    pub enum Listed {}

    /// An argument that may be missing.
    #[derive(Debug)]
    pub enum Tried {}

    /// The only capture of a route.
    #[derive(Debug)]
    pub enum One {}

    /// All captures of a route.
    #[derive(Debug)]
    pub enum Several {}
}

/// What looks at the request may also be the last argument.
impl<S, M, T: FromRequestParts<S, M>> FromRequest<S, (marker::Parts, M)> for T {
    type Rejection = T::Rejection;

    const NEEDS: Needs = T::NEEDS;

    fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        T::from_request_parts(&request, state)
    }
}

/// The argument, or why it cannot be had: the handler decides.
impl<S, M, T: FromRequestParts<S, M>> FromRequestParts<S, (marker::Tried, M)> for Result<T, T::Rejection> {
    type Rejection = std::convert::Infallible;

    const NEEDS: Needs = T::NEEDS;

    fn from_request_parts(request: &Request, state: &S) -> Result<Self, Self::Rejection> {
        Ok(T::from_request_parts(request, state))
    }
}

/// The argument, or why it cannot be had: the handler decides.
impl<S, T: FromRequest<S>> FromRequest<S> for Result<T, T::Rejection> {
    type Rejection = std::convert::Infallible;

    const NEEDS: Needs = T::NEEDS;

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
