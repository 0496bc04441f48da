//! If-Match and If-None-Match as a handler argument.

use std::convert::Infallible;

use conche_proto::codec::{Code, OptionNumber};

use super::{FromRequestParts, Rejection, Requirements};
use crate::service::Request;

/// The conditions of a request (RFC 7252 §5.10.8). Check them atomically with its effect.
///
/// For GET and FETCH, the router checks them against the response: its ETag, or 4.04 for a missing
/// resource. Other handlers without this argument answer conditional requests with 4.02.
///
/// ```
/// use conche::server::extract::Rejection;
/// use conche::server::{Conditions, Router, Text, put};
///
/// async fn write(conditions: Conditions, Text(_new): Text) -> Result<(), Rejection> {
///     conditions.check(Some(b"v1"))?;
///     Ok(())
/// }
///
/// let router: Router = Router::new().route("/document", put(write));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    if_match: Vec<Vec<u8>>,
    if_none_match: bool,
}

impl Conditions {
    /// Returns the conditions of a request.
    #[must_use]
    pub fn of(request: &Request) -> Self {
        let message = request.message();
        Self {
            if_match: message.values(OptionNumber::IF_MATCH).map(<[u8]>::to_vec).collect(),
            if_none_match: message.option(OptionNumber::IF_NONE_MATCH).is_some(),
        }
    }

    /// Whether there is a condition.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        self.if_none_match || !self.if_match.is_empty()
    }

    /// Checks the conditions for a resource with this ETag, empty if it has none, or `None` if it
    /// does not exist.
    ///
    /// # Errors
    /// 4.12 if a condition does not hold.
    pub fn check(&self, etag: Option<&[u8]>) -> Result<(), Rejection> {
        // An empty If-Match requires only that the resource exists.
        let wanted = |tag: &Vec<u8>| etag.is_some_and(|etag| tag.is_empty() || tag == etag);
        if !self.if_match.is_empty() && !self.if_match.iter().any(wanted) {
            let now = if etag.is_some() { "has another ETag" } else { "does not exist" };
            return Err(Rejection::new(Code::PRECONDITION_FAILED, format!("If-Match: the resource {now}")));
        }
        if self.if_none_match && etag.is_some() {
            return Err(Rejection::new(Code::PRECONDITION_FAILED, "If-None-Match: the resource exists"));
        }
        Ok(())
    }
}

impl<S> FromRequestParts<S> for Conditions {
    type Rejection = Infallible;

    const NEEDS: Requirements = Requirements::CONDITIONS;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::of(request))
    }
}
