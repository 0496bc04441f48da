//! The checkout and its commands, for `cargo xtask` and the tools.

pub mod block;
pub mod capture;
mod command;
pub mod emulate;
pub mod machine;
pub mod packages;
pub mod peers;
pub mod python;

pub use command::Command;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

/// Prints the error, if any, and returns the exit status.
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

/// A checkout of conche.
#[derive(Clone, Debug)]
pub struct Project {
    /// Root directory.
    pub root: PathBuf,
}

impl Project {
    /// Finds the checkout that this program is part of.
    ///
    /// # Errors
    /// If no directory above the package has a `Cargo.lock`.
    pub fn find() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&manifest).ancestors().find(|directory| directory.join("Cargo.lock").is_file());
        Ok(Self { root: root.context("no directory above this package has a Cargo.lock")?.to_owned() })
    }

    /// Returns cargo's target directory.
    #[must_use]
    pub fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), |target| self.root.join(target))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.root.join(path)).with_context(|| format!("cannot read {path}"))
    }
}
