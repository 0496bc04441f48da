//! Conditions and ETags of safe requests (RFC 7252 §5.10.6.2, §5.10.8), compared with the handler's
//! response in one place for all handlers.

use conche_proto::codec::{Code, OptionNumber};

use crate::service::extract::Conditions;
use crate::service::{Request, Response};

/// The conditions and ETags of a GET or FETCH.
pub(super) struct Validation {
    conditions: Conditions,
    /// ETags of the representations that the client has.
    known: Vec<Vec<u8>>,
}

impl Validation {
    /// Returns `None` for a request without conditions or ETags, as most are. Conditions are
    /// skipped if the handler checks them itself.
    pub(super) fn of(request: &Request, handler_looks: bool) -> Option<Self> {
        let message = request.message();
        let depends =
            |number| matches!(number, OptionNumber::IF_MATCH | OptionNumber::IF_NONE_MATCH | OptionNumber::ETAG);
        if !request.method().is_safe() || !message.content().options().any(|option| depends(option.number)) {
            return None;
        }
        let conditions = if handler_looks { Conditions::default() } else { Conditions::of(request) };
        let known = message.values(OptionNumber::ETAG).map(<[u8]>::to_vec).collect();
        Some(Self { conditions, known })
    }

    /// Applies them to the response: 4.12 if a condition does not hold, 2.03 if the client has this
    /// representation.
    pub(super) fn apply(self, response: Response) -> Response {
        let tag = response.option_value(OptionNumber::ETAG).unwrap_or_default();
        let current = match response.code() {
            Code::NOT_FOUND => None,
            code if code.is_success() => Some(tag),
            // An error reveals nothing about the representation.
            _ => return response,
        };
        if let Err(rejection) = self.conditions.check(current) {
            return rejection.into();
        }
        let is_known = !tag.is_empty() && self.known.iter().any(|known| known == tag);
        if response.code() == Code::CONTENT && is_known { response.into_valid() } else { response }
    }
}
