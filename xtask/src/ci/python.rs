//! Builds the Python package in a virtual environment, and runs its tests and its type checker.

use anyhow::Result;

use crate::project::Project;
use tool_support::Command;
use tool_support::python::{self, MANIFEST, PACKAGE};

/// Compiles without optimization; the tests are fast enough.
const PROFILE: &str = "dev";

/// Installs the tools and compiles the package, which takes about a minute and a half of a
/// processor.
pub fn prepare(project: &Project) -> Result<()> {
    python::install_tools(project, PROFILE)?;
    python::cargo(project, "build --quiet --locked").patient().run(project)
}

pub fn run(project: &Project) -> Result<()> {
    Command::cargo(&format!("fmt --manifest-path {MANIFEST} --check")).run(project)?;
    python::cargo(project, "clippy --quiet --locked").argument("--").argument("-Dwarnings").run(project)?;
    let python = python::conche(project, PROFILE)?;
    Command::new(&python, ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", PACKAGE]).run(project)?;
    let types = ["-m", "pyright", "--project", PACKAGE, "--pythonpath", &python];
    Command::new(&python, types).run(project)
}
