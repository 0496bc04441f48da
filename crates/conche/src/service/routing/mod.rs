//! Maps a request's path and method to its handler: [`Router`], [`Resource`] and [`Route`].

mod dispatch;
mod erased_handler;
mod error;
mod link;
mod pattern;
mod resource;
mod route;
mod router;
mod tree;
mod validation;

pub use error::RouteError;
pub use resource::{Resource, delete, fetch, get, ipatch, patch, post, put};
pub use route::{RequestService, Route, RouteFuture};
pub use router::Router;

pub(super) use tree::{Captured, Captures};

#[cfg(test)]
mod tests;
