//! [`Rejection`]: why an argument cannot be had.

use conche_proto::codec::{Code, Escaped};
use thiserror::Error;

use crate::server::{IntoResponse, Response};

/// Why an argument cannot be had: a response code and a text for humans, its diagnostic payload (RFC 7252 §5.5.2).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", Escaped(message))]
pub struct Rejection {
    code: Code,
    message: String,
}

/// The longest text. Most quote the request, and a response must not become too large by what a peer has sent.
const LONGEST: usize = 256;

impl Rejection {
    /// A rejection with this code and text, which should say what was wrong, where, and what would be right. Of a text of
    /// more than 256 bytes the end is cut off.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        const CUT: &str = "…";
        let mut message = message.into();
        if message.len() > LONGEST {
            message.truncate(message.floor_char_boundary(LONGEST - CUT.len()));
            message.push_str(CUT);
        }
        Self { code, message }
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
