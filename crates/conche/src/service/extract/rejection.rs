//! [`Rejection`]: why an argument cannot be extracted.

use conche_proto::codec::{Code, Escaped};
use thiserror::Error;

use crate::service::{IntoResponse, Response};

/// Why an argument cannot be extracted: a response code and a text for humans, its diagnostic
/// payload (RFC 7252 §5.5.2).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", Escaped(message))]
pub struct Rejection {
    code: Code,
    message: String,
}

/// Maximum bytes of the text. Most texts quote the request, and a peer must not be able to make a
/// response large.
const LONGEST: usize = 256;

impl Rejection {
    /// Returns a rejection. The text should name the error, its position and the expected value. It
    /// is truncated to 256 bytes.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        const CUT: &str = "…";
        let mut message = message.into();
        if message.len() > LONGEST {
            message.truncate(message.floor_char_boundary(LONGEST - CUT.len()));
            message.push_str(CUT);
        }
        Self { code, message }
    }

    /// Returns the response code.
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
