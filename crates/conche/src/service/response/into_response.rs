//! [`IntoResponse`]: results of handlers.

use std::borrow::Cow;
use std::convert::Infallible;

use bytes::Bytes;
use conche_proto::codec::{Code, ContentFormat};

use super::Response;
use crate::problem::Problem;

/// A result of a handler.
///
/// Results without a code get one by method: 2.05 for GET and FETCH, 2.02 for DELETE, 2.04 for
/// others.
pub trait IntoResponse {
    /// Returns the response to a request with this method.
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

/// Success, with a payload of application/octet-stream.
impl IntoResponse for Bytes {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(ContentFormat::OCTET_STREAM, self)
    }
}

/// Never constructed.
impl IntoResponse for Infallible {
    fn into_response(self, _method: Code) -> Response {
        match self {}
    }
}

/// Success, with a payload of application/octet-stream.
impl IntoResponse for Vec<u8> {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(ContentFormat::OCTET_STREAM, self)
    }
}

/// Success, with a payload and its Content-Format.
impl<T: Into<Bytes>> IntoResponse for (ContentFormat, T) {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(self.0, self.1)
    }
}

/// The second's response, with the code of the first. An error's text is a diagnostic payload.
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

/// The value's response or the error's.
impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self, method: Code) -> Response {
        match self {
            Ok(value) => value.into_response(method),
            Err(error) => error.into_response(method),
        }
    }
}

/// Uses the problem's code, or 5.00 if it has none or that is not an error.
impl IntoResponse for Problem {
    fn into_response(self, _method: Code) -> Response {
        let code = self.response_code.filter(|code| code.is_client_error() || code.is_server_error());
        let code = code.unwrap_or(Code::INTERNAL_SERVER_ERROR);
        Response::new(code).payload(ContentFormat::PROBLEM_DETAILS, self.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_a_handler_has_its_code_and_never_one_of_success() {
        let response = Problem::new(Code::CONFLICT, "taken").into_response(Code::POST);
        assert_eq!(
            (response.code(), response.content_format()),
            (Code::CONFLICT, Some(ContentFormat::PROBLEM_DETAILS))
        );
        assert_eq!(Problem::new(Code::CONTENT, "odd").into_response(Code::POST).code(), Code::INTERNAL_SERVER_ERROR);
    }
}
