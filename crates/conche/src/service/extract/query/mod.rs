//! [`Query`]: the query arguments.

#[cfg(feature = "serde")]
mod de;

use std::convert::Infallible;
use std::fmt::Display;
use std::ops::Deref;
use std::str::FromStr;

use conche_proto::codec::Code;
use smallvec::SmallVec;

use super::{FromRequestParts, Rejection};
use crate::service::Request;

/// The query arguments: accessed by key, or with the feature `serde` as a struct. Arguments that do
/// not fit the struct are answered with 4.00 and a text that names the missing or malformed
/// argument.
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
/// In a struct, a repeated argument is a `Vec`, and a bare `key` is a `bool` that is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<T = Arguments>(pub T);

impl<T> Deref for Query<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The arguments of a query, each `key=value` or a bare `key`, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// All arguments, concatenated.
    text: String,
    /// End of each argument.
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
