//! The checkout and its commands, for `cargo xtask` and the tools.
//!
//! | module | contents |
//! |---|---|
//! | `project` | the checkout: its root, its files |
//! | `command` | runs a command, shows it, and fails as it does |
//! | [`packages`] | programs and packages that are installed if missing |
//! | [`peers`] | test programs on other implementations: fetched, built, run |
//! | [`block`] | a generated part of a page |

pub mod block;
mod command;
pub mod packages;
pub mod peers;
mod project;

pub use command::Command;
pub use project::Project;

use std::process::ExitCode;

/// Prints the error of a program, if it failed, and returns its exit status.
#[must_use]
pub fn exit_code(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
