//! [`Path`], the captures of the route, and [`Query`].

#[cfg(feature = "serde")]
mod de;

use std::convert::Infallible;
use std::fmt::Display;
use std::ops::Deref;
use std::str::FromStr;

use conche_proto::codec::Code;
use smallvec::SmallVec;
use tracing::error;

use super::{FromRequestParts, Rejection, Requirements, marker};
use crate::service::Request;
use crate::service::request::Capture;

/// The parsed values of the route's `{…}` segments: `Path<T>` for one, `Path<(A, B)>` for several,
/// in order. Malformed values are answered with 4.04; a wrong number keeps the server from
/// starting.
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
/// A segment may contain a slash, encoded as `%2F`. In the `String` of a `{*…}` it stays encoded,
/// and a percent sign becomes `%25`; the segments of a `Vec` are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path<T>(pub T);

/// A type for one capture: any [`FromStr`], or a `Vec` of them with one per segment.
pub trait FromCapture<M>: Sized {
    /// Parses a capture; `None` if it is malformed.
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

/// Fails only for a request that a layer created.
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

    const NEEDS: Requirements = Requirements::captures(1);

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

            const NEEDS: Requirements = Requirements::captures($count);

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

/// The query arguments, by key, or as a struct with the feature `serde`. A missing or malformed
/// argument of the struct is answered with 4.00, which names it.
///
/// ```
/// use conche::server::extract::Rejection;
/// use conche::server::{Query, Router, get};
///
/// /// For `/log?max=5&level=warn`.
/// async fn log(query: Query) -> Result<String, Rejection> {
///     let max: u8 = query.parse("max")?;
///     Ok(format!("{max} lines, {}", query.get("level").unwrap_or("all")))
/// }
///
/// # #[cfg(feature = "serde")] {
/// #[derive(serde::Deserialize)]
/// struct Wanted {
///     max: u8,
///     level: Option<String>,
/// }
///
/// async fn typed(Query(wanted): Query<Wanted>) -> String {
///     format!("{} lines, {}", wanted.max, wanted.level.as_deref().unwrap_or("all"))
/// }
///
/// let router: Router = Router::new().route("/log", get(log)).route("/typed", get(typed));
/// # }
/// ```
///
/// In a struct, a repeated argument is a `Vec`, and a bare `key` a `bool` that is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<T = Arguments>(pub T);

impl<T> Deref for Query<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Query arguments, each `key=value` or a bare `key`, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    text: String,
    ends: SmallVec<[usize; 8]>,
}

impl Arguments {
    fn of(request: &Request) -> Self {
        let mut arguments = Self::default();
        for argument in request.queries() {
            arguments.text.push_str(&argument);
            arguments.ends.push(arguments.text.len());
        }
        arguments
    }

    /// Returns each argument as key and value. The value of a bare `key` is empty.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let argument = self.text.get(start..end).unwrap_or_default();
            start = end;
            argument.split_once('=').unwrap_or((argument, ""))
        })
    }

    /// Returns the value of the first argument with this key; empty for a bare `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Returns the parsed value of `key`.
    ///
    /// # Errors
    /// 4.00 if it is missing or malformed.
    pub fn parse<T: FromStr<Err: Display>>(&self, key: &str) -> Result<T, Rejection> {
        self.parse_optional(key)?.ok_or_else(|| Rejection::new(Code::BAD_REQUEST, missing(key)))
    }

    /// Returns the parsed value of `key`, if present.
    ///
    /// # Errors
    /// 4.00 if it is malformed.
    pub fn parse_optional<T: FromStr<Err: Display>>(&self, key: &str) -> Result<Option<T>, Rejection> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let parsed = value.parse().map_err(|error| Rejection::new(Code::BAD_REQUEST, malformed(key, value, error)));
        parsed.map(Some)
    }
}

fn missing(key: &str) -> String {
    format!("the query argument {key}=VALUE is missing")
}

fn malformed(key: &str, value: &str, why: impl Display) -> String {
    format!("the query argument {key}={value} is malformed: {why}")
}

impl<S> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(Arguments::of(request)))
    }
}

#[cfg(feature = "serde")]
impl<S, T: serde::de::DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Rejection;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        let value = de::from_arguments(&Arguments::of(request));
        value.map(Self).map_err(|error| Rejection::new(Code::BAD_REQUEST, error.to_string()))
    }
}
