//! Exit status: what a script can tell apart.

use std::fmt;
use std::process::ExitCode;

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

/// Prints the error, if any, and says how the process ends.
pub fn report(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conche: {error:#}");
            ExitCode::from(status(&error))
        }
    }
}

fn status(error: &anyhow::Error) -> u8 {
    if error.is::<UsageError>() { 2 } else { 1 }
}
