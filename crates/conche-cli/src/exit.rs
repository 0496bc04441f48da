//! Exit status: what a script can tell apart.

use std::fmt;
use std::io;
use std::process::ExitCode;

use conche::{Error, Failure};

/// The end of `conche --help`.
pub const HELP: &str = "Exit status: 0 success; 1 other failure; 2 usage or configuration; 3 timeout or unreachable; \
                        4 response 4.xx; 5 response 5.xx; 6 security; 130 interrupted.";

/// A mistake in the arguments or the configuration that only showed after parsing.
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The user ended it with Ctrl-C.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Prints the error, if any, and says how the process ends.
pub fn report(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has read enough, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conche: {error:#}");
            if let Some(hint) = hint(&error) {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(status(&error))
        }
    }
}

/// What usually causes this error, where that is more than the error itself can know.
fn hint(error: &anyhow::Error) -> Option<&'static str> {
    match error.downcast_ref::<Error>()? {
        Error::Failed { failure: Failure::Unreachable, .. } => Some(
            "usually no server listens on that port: does it run, and are address and port right? \
                 --retry-unreachable waits for one that restarts",
        ),
        Error::Send { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Some("usually a firewall on this machine forbids it, or it is a broadcast address")
        }
        _ => None,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn status(error: &anyhow::Error) -> u8 {
    if error.is::<UsageError>() {
        return 2;
    }
    if error.is::<Interrupted>() {
        return 130;
    }
    match error.downcast_ref::<Error>() {
        Some(Error::Uri(_) | Error::Request(_) | Error::Config(_)) => 2,
        Some(Error::Response { code, .. }) if code.is_client_error() => 4,
        Some(Error::Response { code, .. }) if code.is_server_error() => 5,
        Some(error) if error.is_timeout_or_unreachable() => 3,
        _ => 1,
    }
}
