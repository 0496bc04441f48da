//! Serving resources.

pub mod extract;
mod handler;
mod listen;
mod middleware;
mod request;
mod response;
pub mod routing;

#[cfg(feature = "cbor")]
pub use extract::Cbor;
#[cfg(feature = "json")]
pub use extract::Json;
pub use extract::{Arguments, Conditions, Extension, FromRef, FromRequest, FromRequestParts};
pub use extract::{Path, Payload, Peer, Query, Rejection, State, Text};
pub use handler::Handler;
pub use listen::{BindError, Server, ServerBuilder, Stopped};
pub use middleware::{FromFn, FromFnService, HandleError, HandleErrorService, Next, from_fn, handle_error};
pub use request::{Capture, Request};
pub use response::{IntoResponse, Response};
pub use routing::{Resource, Route, RouteError, RouteFuture, Router, delete, fetch, get, ipatch, patch, post, put};

pub(crate) use routing::Dispatch;
