//! The service of a server: a [`Router`] with handlers, which extract their arguments from a
//! [`Request`] and return a [`Response`]. The module [`server`](crate::server) exports it.

pub mod extract;
mod handler;
mod layers;
mod notifier;
mod request;
mod response;
pub mod routing;

#[cfg(feature = "cbor")]
pub use extract::Cbor;
#[cfg(feature = "json")]
pub use extract::Json;
pub use extract::{
    Accept, Arguments, BodyStream, Conditions, Extension, FromRef, FromRequest, FromRequestParts, Path, Payload, Peer,
    Query, Rejection, ReplyUri, State, Text,
};
pub use handler::{Handler, HandlerFuture};
pub use layers::{
    FromFn, HandleError, Next, NoRandomness, RequireFresh, RequireSecured, from_fn, from_fn_with_state, handle_error,
};
pub use notifier::Notifier;
pub use request::{Capture, Request};
pub use response::{IntoResponse, Response};
pub use routing::{
    RequestService, Resource, Route, RouteError, RouteFuture, Router, delete, fetch, get, ipatch, patch, post, put,
};
