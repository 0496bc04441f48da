//! Routes that make no sense.

use conche_proto::codec::Code;
use conche_proto::codec::link_format::LinkWriteError;
use thiserror::Error;

/// A route that makes no sense, which the server reports when it is to start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The path cannot be read.
    #[error("the route {path:?} is malformed: {hint}")]
    Malformed {
        /// The path.
        path: String,
        /// What would be right.
        hint: &'static str,
    },
    /// Another route matches the same paths.
    #[error("the route {path:?} is there twice{}: give one resource all the methods, as in get(f).put(g)", first(.path, .other))]
    Duplicate {
        /// The path that was added last.
        path: String,
        /// The path that was added first, which may name its captures otherwise.
        other: String,
    },
    /// A router cannot be nested at this prefix.
    #[error("a router cannot be nested under {prefix:?}: {hint}")]
    Nest {
        /// The prefix.
        prefix: String,
        /// What would be right.
        hint: &'static str,
    },
    /// Two routers that are merged, or one router twice, have a fallback for the same paths.
    #[error("there are two fallbacks for what is under {prefix:?}: leave out one of them")]
    Fallbacks {
        /// The prefix under which both apply.
        prefix: String,
    },
    /// The attributes of a resource cannot be listed in `/.well-known/core`.
    #[error("the attributes of the route {path:?} cannot be listed: {problem}")]
    Link {
        /// The path.
        path: String,
        /// What is wrong with them.
        problem: LinkWriteError,
    },
    /// A handler wants other captures than its route has.
    #[error(
        "the handler of {what} takes {wanted} captured segments, but the route has {there}: take all of them at once, \
         in the order of the route, as in Path((a, b)): Path<(A, B)>"
    )]
    Captures {
        /// Which handler: the method and the route.
        what: String,
        /// How many the handler takes.
        wanted: usize,
        /// How many the route has.
        there: usize,
    },
}

impl RouteError {
    pub(super) fn captures(method: Option<Code>, path: &str, wanted: usize, there: usize) -> Self {
        let what = match method {
            Some(method) => format!("{method:?} {path:?}"),
            None => format!("the fallback under {path:?}"),
        };
        Self::Captures { what, wanted, there }
    }
}

fn first(path: &str, other: &str) -> String {
    if path == other { String::new() } else { format!(", first as {other:?}") }
}
