//! [`IntoResponse`]: what a handler may return.

use std::borrow::Cow;
use std::convert::Infallible;

use bytes::Bytes;
use conche_proto::codec::{Code, ContentFormat};

use super::Response;

/// What a handler may return.
///
/// The code of what has none of its own follows from the method: 2.05 for GET and FETCH, 2.02 for DELETE, 2.04 for the
/// others.
pub trait IntoResponse {
    /// The response to a request with this method.
    fn into_response(self, method: Code) -> Response;
}

fn success(method: Code) -> Response {
    Response::new(match method {
        Code::GET | Code::FETCH => Code::CONTENT,
        Code::DELETE => Code::DELETED,
        _ => Code::CHANGED,
    })
}

impl IntoResponse for Response {
    fn into_response(self, _method: Code) -> Response {
        self
    }
}

/// Success, without a payload.
impl IntoResponse for () {
    fn into_response(self, method: Code) -> Response {
        success(method)
    }
}

/// A code, without a payload.
impl IntoResponse for Code {
    fn into_response(self, _method: Code) -> Response {
        Response::new(self)
    }
}

/// Success, with a text.
impl IntoResponse for &'static str {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(ContentFormat::TEXT_PLAIN, self)
    }
}

/// Success, with a text.
impl IntoResponse for String {
    fn into_response(self, method: Code) -> Response {
        success(method).text(self)
    }
}

/// Success, with a text.
impl IntoResponse for Cow<'_, str> {
    fn into_response(self, method: Code) -> Response {
        success(method).text(self)
    }
}

/// Success, with a payload of which only the application knows what it is.
impl IntoResponse for Bytes {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(ContentFormat::OCTET_STREAM, self)
    }
}

/// Never.
impl IntoResponse for Infallible {
    fn into_response(self, _method: Code) -> Response {
        match self {}
    }
}

/// Success, with a payload of which only the application knows what it is.
impl IntoResponse for Vec<u8> {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(ContentFormat::OCTET_STREAM, self)
    }
}

/// Success, with a payload and what it is.
impl<T: Into<Bytes>> IntoResponse for (ContentFormat, T) {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(self.0, self.1)
    }
}

/// What the second would be, with the code of the first. An error's text is a diagnostic payload.
impl<T: IntoResponse> IntoResponse for (Code, T) {
    fn into_response(self, method: Code) -> Response {
        let response = self.1.into_response(method);
        let is_error = self.0.is_client_error() || self.0.is_server_error();
        if is_error { response.into_error(self.0) } else { response.with_code(self.0) }
    }
}

/// 4.04 for `None`.
impl<T: IntoResponse> IntoResponse for Option<T> {
    fn into_response(self, method: Code) -> Response {
        match self {
            Some(value) => value.into_response(method),
            None => Response::new(Code::NOT_FOUND),
        }
    }
}

/// Whichever it is.
impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self, method: Code) -> Response {
        match self {
            Ok(value) => value.into_response(method),
            Err(error) => error.into_response(method),
        }
    }
}
