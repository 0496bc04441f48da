//! Responses and failures for Python, and messages from it.

use conche::client::{Error, Response};
use conche::codec::OwnedMessage;
use conche::{Failure as Cause, security};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// An option's number and value.
pub type RawOption = (u16, Vec<u8>);

/// Why there is no response.
#[pyclass(frozen, get_all, module = "conche._conche")]
pub struct Failure {
    /// Selects the class of the exception.
    kind: &'static str,
    text: String,
    was_sent: bool,
}

impl Failure {
    pub fn new(kind: &'static str, text: impl Into<String>, was_sent: bool) -> Self {
        Self { kind, text: text.into(), was_sent }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(kind(&error), error.to_string(), error.was_sent())
    }
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Resolve { .. } | Error::NoAddress { .. } => "resolve",
        Error::Config(_) => "config",
        Error::Busy(_) => "busy",
        Error::RequestTooLarge { .. } | Error::ResponseTooLarge { .. } => "too_large",
        Error::Socket(_) | Error::Send { .. } => "network",
        Error::Handshake { cause, .. } if cause.is_timeout_or_unreachable() => "timeout",
        Error::Handshake { .. } | Error::UnexpectedPeer { .. } | Error::Keys { .. } | Error::SessionOver { .. } => {
            "security"
        }
        Error::Failed { failure, .. } => match failure {
            Cause::TimedOut | Cause::NoResponse | Cause::Deadline | Cause::QueueExpired => "timeout",
            Cause::Reset => "reset",
            Cause::Unreachable => "unreachable",
            Cause::BodyTooLarge | Cause::MessageTooLarge => "too_large",
            Cause::NotAuthenticated(_) | Cause::NotProtected(_) => "security",
            // Among others an unacceptable response, and a body that changed.
            _ => "protocol",
        },
        Error::Stopped => "closed",
        Error::Decode { .. } => "protocol",
        _ => "request",
    }
}

/// A response.
#[pyclass(frozen, module = "conche._conche")]
pub struct Received(Response);

impl From<Response> for Received {
    fn from(response: Response) -> Self {
        Self(response)
    }
}

#[pymethods]
impl Received {
    #[getter]
    fn code(&self) -> u8 {
        self.0.code().0
    }

    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.payload())
    }

    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> Vec<(u16, Bound<'py, PyBytes>)> {
        options(py, self.0.message())
    }

    /// Host and port of the sender.
    #[getter]
    fn peer(&self) -> (String, u16) {
        let from = self.0.from();
        (from.ip().to_string(), from.port())
    }

    #[getter]
    fn peer_identity(&self) -> Option<String> {
        self.0.peer_identity().map(security::Identity::to_string)
    }

    /// In seconds.
    #[getter]
    fn acknowledged_after(&self) -> f64 {
        self.0.acknowledged_after().as_secs_f64()
    }

    #[getter]
    fn retransmissions(&self) -> u32 {
        self.0.retransmissions()
    }

    /// In seconds.
    #[getter]
    fn age(&self) -> Option<f64> {
        self.0.age().map(|age| age.as_secs_f64())
    }

    /// The error of a response with an error code, as text.
    fn problem(&self) -> Option<String> {
        self.0.clone().successful().err().map(|error| error.to_string())
    }
}

/// Returns the options of a message for Python.
pub fn options<'py>(py: Python<'py>, message: &OwnedMessage) -> Vec<(u16, Bound<'py, PyBytes>)> {
    let options = message.content().options();
    options.map(|option| (option.number.0, PyBytes::new(py, option.value))).collect()
}
