//! The file that a request names. Names that could lead out of the directory are refused here; the
//! operating system decides about symbolic links.

use conche::server::extract::FromRequestParts;
use conche::server::{Rejection, Request};
use conche::{Code, OptionNumber};

/// A path below the served directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    /// Path without a slash at its end; empty for the directory itself.
    pub path: String,
    /// Whether the request has a slash at the end.
    pub is_directory: bool,
}

impl FilePath {
    /// Reads the request's path; 4.04 if it is not permitted.
    pub fn of(request: &Request) -> Result<Self, Rejection> {
        let mut segments: Vec<&str> = Vec::new();
        for segment in request.message().values(OptionNumber::URI_PATH) {
            segments.push(std::str::from_utf8(segment).map_err(|_| not_found())?);
        }
        let is_directory = segments.pop_if(|last| last.is_empty()).is_some() || segments.is_empty();
        let is_name = |name: &&str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
        if !segments.iter().all(is_name) {
            return Err(not_found());
        }
        Ok(Self { path: segments.join("/"), is_directory })
    }

    /// Returns the place if it can be a file's.
    pub fn file(self) -> Result<Self, Rejection> {
        if self.is_directory {
            return Err(Rejection::new(Code::METHOD_NOT_ALLOWED, "it names a directory: only files can be changed"));
        }
        Ok(self)
    }

    /// Returns the path relative to the directory.
    pub fn relative(&self) -> &str {
        if self.path.is_empty() { "." } else { &self.path }
    }
}

impl<S> FromRequestParts<S> for FilePath {
    type Rejection = Rejection;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        Self::of(request)
    }
}

/// The response for files that are missing or hidden.
pub fn not_found() -> Rejection {
    Rejection::new(Code::NOT_FOUND, "there is no such file")
}
