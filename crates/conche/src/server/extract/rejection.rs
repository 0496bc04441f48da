//! [`Rejection`]: why an argument cannot be had.

use conche_proto::codec::Code;
use thiserror::Error;

use crate::server::{IntoResponse, Response};

/// Why an argument cannot be had: a response code and a text for humans, its diagnostic payload (RFC 7252 §5.5.2).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Rejection {
    code: Code,
    message: String,
}

impl Rejection {
    /// A rejection with this code and text, which should say what was wrong, where, and what would be right.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The code of the response.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }
}

impl IntoResponse for Rejection {
    fn into_response(self, _method: Code) -> Response {
        Response::diagnostic(self.code, self.message)
    }
}

impl From<Rejection> for Response {
    fn from(rejection: Rejection) -> Self {
        Self::diagnostic(rejection.code, rejection.message)
    }
}
