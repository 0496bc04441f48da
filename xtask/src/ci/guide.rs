//! Builds the guide with mdbook.

use std::process;

use anyhow::Result;

use crate::project::Project;
use tool_support::Command;

const VERSION: &str = "0.5.4";

/// Installs mdbook into `target/tools`, if the PATH has none. Without optimization and its server,
/// that takes 80 s of a processor.
pub fn prepare(project: &Project) -> Result<()> {
    if on_path() {
        return Ok(());
    }
    let tools = project.target().join("tools");
    Command::cargo("install mdbook --no-default-features --locked --debug --quiet")
        .argument(&format!("--version={VERSION}"))
        .argument(&format!("--root={}", tools.display()))
        .argument(&format!("--target-dir={}", tools.join("build").display()))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .patient()
        .run(project)
}

pub fn run(project: &Project) -> Result<()> {
    prepare(project)?;
    let own = project.target().join("tools/bin/mdbook");
    let program = if on_path() { "mdbook".into() } else { own.to_string_lossy() };
    let target = project.target().join("guide");
    Command::new(&program, ["build", "docs/guide", "--dest-dir"]).argument(&target.to_string_lossy()).run(project)
}

fn on_path() -> bool {
    process::Command::new("mdbook").arg("--version").output().is_ok_and(|output| output.status.success())
}
