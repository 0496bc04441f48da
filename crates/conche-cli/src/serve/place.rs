//! Where a request for a file leads. Names that could lead elsewhere than down are refused before the operating system sees
//! them; what a symbolic link does is decided there.

use conche::server::extract::FromRequestParts;
use conche::server::{Rejection, Request};
use conche::{Code, OptionNumber};

/// Where a request leads, below the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Without a slash at its end; empty for the directory itself.
    pub path: String,
    /// It was asked for with a slash at its end.
    pub is_directory: bool,
}

impl Place {
    /// Where the request's path leads; 4.04 where no client may be led.
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

    /// The same if it can be that of a file.
    pub fn file(self) -> Result<Self, Rejection> {
        if self.is_directory {
            return Err(Rejection::new(Code::METHOD_NOT_ALLOWED, "it names a directory: only files can be changed"));
        }
        Ok(self)
    }

    /// As the directory takes it.
    pub fn relative(&self) -> &str {
        if self.path.is_empty() { "." } else { &self.path }
    }
}

impl<S> FromRequestParts<S> for Place {
    type Rejection = Rejection;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Rejection> {
        Self::of(request)
    }
}

/// What is not there, or not to be seen.
pub fn not_found() -> Rejection {
    Rejection::new(Code::NOT_FOUND, "there is no such file")
}
