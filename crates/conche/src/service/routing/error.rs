//! [`RouteError`].

use conche_proto::codec::Code;
use conche_proto::codec::link_format::LinkWriteError;
use thiserror::Error;

/// An invalid route, reported when the server starts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The path is malformed.
    #[error("the route {path:?} is malformed: {hint}")]
    Malformed {
        /// The path.
        path: String,
        /// The expected syntax.
        hint: &'static str,
    },
    /// Another route matches the same paths.
    #[error("the route {path:?} is there twice{}: give one resource all the methods, as in get(f).put(g)", first(.path, .other))]
    Duplicate {
        /// The path that was added last.
        path: String,
        /// The path that was added first, whose captures may have other names.
        other: String,
    },
    /// A router cannot be nested at this prefix.
    #[error("a router cannot be nested under {prefix:?}: {hint}")]
    Nest {
        /// The prefix.
        prefix: String,
        /// The correction.
        hint: &'static str,
    },
    /// Two merged routers, or one router twice, have a fallback for the same paths.
    #[error("there are two fallbacks for what is under {prefix:?}: leave out one of them")]
    Fallbacks {
        /// The prefix of both.
        prefix: String,
    },
    /// The attributes of a resource cannot be listed in `/.well-known/core`.
    #[error("the attributes of the route {path:?} cannot be listed: {problem}")]
    Link {
        /// The path.
        path: String,
        /// The error in the attributes.
        problem: LinkWriteError,
    },
    /// A handler takes another number of captures than its route has.
    #[error(
        "the handler of {what} takes {wanted} captured segments, but the route has {there}: take all of them at once, \
         in the order of the route, as in Path((a, b)): Path<(A, B)>"
    )]
    Captures {
        /// The handler's method and route.
        what: String,
        /// Number of captures that the handler takes.
        wanted: usize,
        /// Number of captures of the route.
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
