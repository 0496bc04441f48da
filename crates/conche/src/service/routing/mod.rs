//! Maps a request's path and method to its handler: [`Router`], [`Resource`] and [`Route`].

mod pattern;
mod resource;
mod route;
mod router;

pub(super) use pattern::{Captured, Captures};
pub use resource::{Resource, delete, fetch, get, ipatch, patch, post, put};
pub use route::{RequestService, Route, RouteFuture};
pub use router::{RouteError, Router};

#[cfg(test)]
mod tests;
