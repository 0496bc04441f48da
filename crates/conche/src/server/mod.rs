//! Serving resources.

mod extract;
mod handler;
mod link;
mod listen;
mod request;
mod resource;
mod response;
mod router;

pub use extract::{Conditions, Extract, Path, Payload, Peer, Query, Text};
pub use handler::Handler;
pub use listen::{BindError, Server, ServerBuilder};
pub use request::Request;
pub use resource::{Resource, delete, fetch, get, ipatch, patch, post, put};
pub use response::{IntoResponse, Response};
pub(crate) use router::Dispatch;
pub use router::{RouteError, Router};
