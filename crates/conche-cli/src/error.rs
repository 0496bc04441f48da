//! Errors of the command, beside those of the library.

use std::fmt;

use conche::Error;

/// An error in the arguments or the configuration, found after parsing.
#[derive(Debug)]
pub struct UsageError(pub String);

impl UsageError {
    /// Turns any error about the user's input into one.
    pub fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The user interrupted the command with Ctrl-C.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// No message of several was answered.
#[derive(Debug)]
pub struct NoAnswer(pub String);

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer from {}", self.0)
    }
}

impl std::error::Error for NoAnswer {}

/// All responses of a load test were errors.
#[derive(Debug)]
pub struct NoSuccess {
    /// The most frequent code.
    pub code: String,
}

impl fmt::Display for NoSuccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no request succeeded: most responses were {}", self.code)
    }
}

impl std::error::Error for NoSuccess {}

/// An error that standard output already shows as an object, such as a response 4.04.
#[derive(Debug)]
pub struct Reported(pub Error);

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Reported {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
