//! Errors of the command, beside the library's.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use conche::Error;
use conche_lab::campaign::MAX_JOBS;

/// An error in the arguments or the configuration, found after parsing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl UsageError {
    pub fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// A file that the command line or the configuration names cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read", path.display())]
pub struct Unreadable {
    path: PathBuf,
    pub source: io::Error,
}

pub fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Unreadable {
    move |source| Unreadable { path: path.to_owned(), source }
}

/// The user interrupted the command. The text names the effect.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Interrupted(pub &'static str);

impl Default for Interrupted {
    fn default() -> Self {
        Self("interrupted")
    }
}

/// None of several messages was answered.
#[derive(Debug, thiserror::Error)]
#[error("no answer from {0}")]
pub struct NoAnswer(pub String);

/// All responses of a load test were errors.
#[derive(Debug, thiserror::Error)]
#[error("no request succeeded: most responses were {code}")]
pub struct NoSuccess {
    /// Most frequent response code.
    pub code: String,
}

/// An error of a request without DTLS.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Plain(pub Error);

impl Plain {
    /// Marks an error of a request to a `coap` URI.
    pub fn of(error: anyhow::Error, uri: &str) -> anyhow::Error {
        if !uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("coap:")) {
            return error;
        }
        error.downcast::<Error>().map_or_else(|error| error, |error| Self(error).into())
    }
}

/// Standard output already shows the response as an object.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Reported(pub Error);

/// An invalid value of an argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    #[error("{0:?} is no option number: write 0 to 65535")]
    OptionNumber(String),
    #[error("{0:?}: an even number of hexadecimal digits must follow 0x")]
    Hexadecimal(String),
    #[error("a token of {length} bytes: at most {max} are allowed")]
    TokenLength { length: usize, max: usize },
    #[error("blocks have 16, 32, 64, 128, 256, 512 or 1024 bytes")]
    BlockSize,
    #[error("a time above 0 was expected: a number of seconds, as in 5, or with a unit, as in 500ms")]
    Seconds,
    #[error("an address was expected, with or without a port, as in 192.0.2.1:5683 or [::1]")]
    LocalAddress,
    #[error("unknown content format: write a number from 0 to 65535, a media type, or {}", .0.join(", "))]
    ContentFormat(Vec<&'static str>),
    #[error("the port is missing: write {0}")]
    PortMissing(SocketAddr),
    #[error("the port {0:?} is not a number from 0 to 65535")]
    Port(String),
    #[error("an address with a port was expected, as in 127.0.0.1:5683 or [::]:5683")]
    Address,
    #[error("a whole number from 1 to {MAX_JOBS} was expected")]
    Threads,
    #[error("between commas a label is missing; write it as in `{0}`")]
    Label(&'static str),
    #[error("it has to be a name, `=` and a value, as in `{0}`")]
    Assignment(&'static str),
    #[error("a program that already runs is an address and a port, as in 127.0.0.1:5683")]
    ProgramAddress,
    #[error(
        "an address of this machine with a port was expected, as in 127.0.0.1:8080, or a port: the page controls the run"
    )]
    Loopback,
    #[error("a number of requests a second above 0 was expected")]
    Rate,
    #[error("methods are get, post, put, delete, fetch, patch and ipatch")]
    Method,
}
