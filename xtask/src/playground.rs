//! `cargo xtask playground`: the lab in a browser, as static files for any web server.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tool_support::{Command, packages};

use crate::project::Project;

const TARGET: &str = "wasm32-wasip1";
const PACKAGE: &str = "crates/conche-playground";

#[derive(clap::Args)]
pub struct Options {
    /// Directory for the files; by default target/playground.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub fn run(project: &Project, options: &Options) -> Result<()> {
    let directory = options.output.clone().map_or_else(|| directory(project), |directory| project.root.join(directory));
    build(project, &directory, Profile::Release)?;
    println!("{} has the playground: `conche playground {0}` serves it", directory.display());
    Ok(())
}

/// Returns the default directory, also of `conche playground`.
fn directory(project: &Project) -> PathBuf {
    project.target().join("playground")
}

/// How the WebAssembly is compiled; its results are the same.
#[derive(Clone, Copy)]
pub enum Profile {
    Release,
    /// Compiles in half the time.
    Test,
}

/// Compiles the WebAssembly and writes all files. Others in the directory stay.
pub fn build(project: &Project, directory: &Path, profile: Profile) -> Result<()> {
    packages::ensure_target(project, TARGET)?;
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    // Cargo names the directory of the profile `test` after `dev`.
    let (profile, folder) = match profile {
        Profile::Release => ("release", "release"),
        Profile::Test => ("test", "debug"),
    };
    let line = format!("build --profile {profile} --quiet --package conche-playground --target {TARGET}");
    Command::cargo(&line).run(project)?;
    let program = project.target().join(TARGET).join(folder).join("conche-playground.wasm");
    copy(&program, directory)?;
    let pages = project.root.join(PACKAGE).join("web");
    for entry in fs::read_dir(&pages).with_context(|| format!("cannot list {}", pages.display()))? {
        copy(&entry?.path(), directory)?;
    }
    Ok(())
}

fn copy(file: &Path, directory: &Path) -> Result<()> {
    let copy = directory.join(file.file_name().unwrap_or_default());
    fs::copy(file, &copy).with_context(|| format!("cannot copy {} to {}", file.display(), copy.display()))?;
    Ok(())
}
