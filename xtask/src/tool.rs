//! Runs the tools, which are programs of their own in `tools/`.

use std::ffi::OsString;
use std::process;

use anyhow::{Context, Result};

use crate::project::Project;

/// Arguments of a tool, as it documents them with `--help`.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Runs a tool, and ends with its exit status if it fails, as it has printed the reason.
pub fn run(project: &Project, package: &str, arguments: &Arguments) -> Result<()> {
    let mut command = process::Command::new("cargo");
    command.args(["run", "--quiet", "--package", package, "--"]).args(&arguments.arguments);
    let status = command.current_dir(&project.root).status().context("cannot start cargo")?;
    if !status.success() {
        process::exit(status.code().unwrap_or(1));
    }
    Ok(())
}
