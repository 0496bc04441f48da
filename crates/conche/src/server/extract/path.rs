//! [`Path`]: what the route captured.

use std::str::FromStr;

use conche_proto::codec::Code;
use tracing::error;

use super::{FromRequestParts, Needs, Rejection, marker};
use crate::server::{Request, request::Capture};

/// What the `{…}` segments of the route matched, parsed: `Path<T>` for one, `Path<(A, B)>` for several, in the order of
/// the route. What does not parse names no resource: 4.04. A server does not start if the number is not the route's.
///
/// ```
/// use conche::server::{Path, Router, get};
///
/// async fn floor(Path(floor): Path<i8>) -> String {
///     format!("floor {floor}")
/// }
///
/// async fn room(Path((floor, room)): Path<(i8, String)>) -> String {
///     format!("{room} on floor {floor}")
/// }
///
/// /// `/files/a/b` gives `["a", "b"]`; as a `String` it would be `"a/b"`.
/// async fn file(Path(segments): Path<Vec<String>>) -> String {
///     segments.join(" > ")
/// }
///
/// let router: Router = Router::new()
///     .route("/floors/{floor}", get(floor))
///     .route("/floors/{floor}/rooms/{room}", get(room))
///     .route("/files/{*path}", get(file));
/// ```
///
/// A segment may hold a slash, which the client encodes as `%2F`. In the `String` of a `{*…}` such a slash stays
/// encoded, and a percent sign as `%25`; the segments of a `Vec` are as they were meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path<T>(pub T);

/// What one capture can become: all that is [`FromStr`], and a `Vec` of it, with a value for each segment.
pub trait FromCapture<M>: Sized {
    /// Parses what was captured. `None` if it is not what it should be.
    fn from_capture(capture: Capture<'_>) -> Option<Self>;
}

impl<T: FromStr> FromCapture<marker::Parsed> for T {
    fn from_capture(capture: Capture<'_>) -> Option<Self> {
        capture.text().parse().ok()
    }
}

impl<T: FromStr> FromCapture<marker::Listed> for Vec<T> {
    fn from_capture(capture: Capture<'_>) -> Option<Self> {
        capture.segments().map(|segment| segment.parse().ok()).collect()
    }
}

fn value<T: FromCapture<M>, M>(capture: Capture<'_>) -> Result<T, Rejection> {
    T::from_capture(capture).ok_or_else(|| {
        let message = format!("{:?} in the path names no resource", capture.text());
        Rejection::new(Code::NOT_FOUND, message)
    })
}

/// The captures, if they are as many as wanted. The router has checked that, unless a layer made up the request.
fn captures<const N: usize>(request: &Request) -> Result<[Capture<'_>; N], Rejection> {
    let mut captures = request.captures();
    let there = captures.len();
    let found = std::array::from_fn(|_| captures.next());
    if there == N
        && let Some(found) = all(found)
    {
        return Ok(found);
    }
    error!(there, wanted = N, "a handler takes another number of captures than its route has");
    Err(Rejection::new(Code::INTERNAL_SERVER_ERROR, "the server's route and handler do not fit"))
}

fn all<T: Copy, const N: usize>(options: [Option<T>; N]) -> Option<[T; N]> {
    let first = *options.first()?;
    let mut values = [first?; N];
    for (value, option) in values.iter_mut().zip(options) {
        *value = option?;
    }
    Some(values)
}

impl<S, M, T: FromCapture<M>> FromRequestParts<S, (marker::One, M)> for Path<T> {
    type Rejection = Rejection;

    const NEEDS: Needs = Needs::captures(1);

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        let [capture] = captures(request)?;
        value(capture).map(Self)
    }
}

macro_rules! several {
    ($count:literal: $($value:ident $marker:ident)*) => {
        impl<S, $($value: FromCapture<$marker>, $marker),*>
            FromRequestParts<S, (marker::Several, ($($marker,)*))> for Path<($($value,)*)>
        {
            type Rejection = Rejection;

            const NEEDS: Needs = Needs::captures($count);

            fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
                #[allow(non_snake_case, reason = "the type parameters name the variables")]
                let [$($value),*] = captures(request)?;
                Ok(Self(($(value($value)?,)*)))
            }
        }
    };
}

several! { 1: A MA }
several! { 2: A MA B MB }
several! { 3: A MA B MB C MC }
several! { 4: A MA B MB C MC D MD }
several! { 5: A MA B MB C MC D MD E ME }
several! { 6: A MA B MB C MC D MD E ME F MF }
several! { 7: A MA B MB C MC D MD E ME F MF G MG }
several! { 8: A MA B MB C MC D MD E ME F MF G MG H MH }
