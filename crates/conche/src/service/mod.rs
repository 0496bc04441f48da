//! The service of a server: a [`Router`] with handlers, which extract their arguments from a
//! [`Request`] and return a [`Response`]. The module [`server`](crate::server) exports it.

pub mod extract;
mod fresh;
mod handler;
mod handler_future;
mod middleware;
mod notifier;
mod request;
mod response;
pub mod routing;
mod secured;

#[cfg(feature = "cbor")]
pub use extract::Cbor;
#[cfg(feature = "json")]
pub use extract::Json;
pub use extract::{
    Arguments, BodyStream, Conditions, Extension, FromRef, FromRequest, FromRequestParts, Path, Payload, Peer, Query,
    Rejection, State, Text,
};
pub use fresh::{NoRandomness, RequireFresh};
pub use handler::Handler;
pub use handler_future::HandlerFuture;
pub use middleware::{FromFn, HandleError, Next, from_fn, handle_error};
pub use notifier::Notifier;
pub use request::{Capture, Request};
pub use response::{IntoResponse, Response};
pub use routing::{
    RequestService, Resource, Route, RouteError, RouteFuture, Router, delete, fetch, get, ipatch, patch, post, put,
};
pub use secured::RequireSecured;
