//! Responses of the crate itself that refuse a request.

use std::sync::LazyLock;

use conche_proto::Response;
use conche_proto::codec::{Body, Code, OptionNumber};

/// Max-Age in seconds of a 5.03, after which the client may retry (RFC 7252 §5.9.3.4).
pub(crate) const RETRY_AFTER_SECONDS: u32 = 2;

pub(crate) const UNAUTHENTICATED: &str = "this is for those who have keys";

pub(crate) fn unavailable() -> Response {
    static BODY: LazyLock<Body> = LazyLock::new(|| {
        // The option is valid by its RFC.
        Body::builder().uint(OptionNumber::MAX_AGE, RETRY_AFTER_SECONDS).build().unwrap_or_default()
    });
    Response::new(Code::SERVICE_UNAVAILABLE, BODY.clone())
}

pub(crate) fn internal_error() -> Response {
    empty(Code::INTERNAL_SERVER_ERROR)
}

pub(crate) fn unauthenticated() -> Response {
    Response::new(Code::UNAUTHORIZED, Body::builder().payload(UNAUTHENTICATED).build().unwrap_or_default())
}

pub(crate) fn empty(code: Code) -> Response {
    Response::new(code, Body::EMPTY)
}
