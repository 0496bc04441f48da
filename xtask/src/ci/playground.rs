//! Builds the playground, compares its results with the command's, and uses its page in chromium.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::playground::{self, Profile};
use crate::project::Project;
use tool_support::{Command, packages, peers};

const TESTS: &str = "crates/conche-playground/tests/browser";
const SCRIPTS: [&str; 2] = ["results.test.mjs", "page.test.mjs"];
/// Scenarios to compare.
const EXAMPLES: &str = "scenarios/examples";
/// Further ones: with DTLS, and with radios.
const OTHERS: [&str; 2] = ["scenarios/lossy-handshakes.toml", "scenarios/networks/thread-reports.toml"];

/// Compiles the WebAssembly, which takes two minutes of a processor, and installs the programs.
pub fn prepare(project: &Project) -> Result<()> {
    packages::ensure_programs(project)?;
    peers::install_node(project, &project.root.join(TESTS).to_string_lossy(), &SCRIPTS, &directory(project))?;
    playground::build(project, &site(project), Profile::Test)
}

/// The command is the one compiled for the tests.
pub fn run(project: &Project) -> Result<()> {
    prepare(project)?;
    let conche = project.target().join("debug/conche");
    if !conche.is_file() {
        bail!("{} is missing: `cargo xtask ci compile` builds it", conche.display());
    }
    for script in SCRIPTS {
        Command::new("node", ["--test", &directory(project).join(script).to_string_lossy()])
            .env("PLAYGROUND", site(project))
            .env("CONCHE", &conche)
            .env("SCENARIOS", scenarios(project)?)
            .run(project)?;
    }
    Ok(())
}

fn directory(project: &Project) -> PathBuf {
    project.target().join("playground-tests")
}

/// Returns the directory of the playground's files, apart from those that `cargo xtask playground` optimizes.
fn site(project: &Project) -> PathBuf {
    directory(project).join("site")
}

/// Returns the paths of the scenarios, one a line.
fn scenarios(project: &Project) -> Result<String> {
    let entries = fs::read_dir(project.root.join(EXAMPLES)).with_context(|| format!("cannot list {EXAMPLES}"))?;
    let mut paths = OTHERS.map(|path| project.root.join(path)).to_vec();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort_unstable();
    Ok(paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join("\n"))
}
